"""What a run over a data set refuses: another run's folder, changed sources, wrong arguments."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from dataset_cases import CALL, make_explainer, make_rows, model

import controlshap as cs
from controlshap.datasets import Progress
from controlshap.datasets.part_file import part_path


def test_a_source_that_changes_during_the_run_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    make_rows().to_csv(file, index=False)
    before = file.read_bytes()

    def write(now: Progress) -> None:
        if 0 < now.rows_done < now.n_rows:
            file.write_bytes(before.replace(b".1", b".2"))

    explainer = make_explainer()
    with pytest.raises(cs.InvalidArgumentError, match=r"'rows.csv' was written to or removed while .* from a copy"):
        explainer.explain_dataset(file, tmp_path / "out", part_rows=10, progress=write, **CALL)
    # the next run has another hash, and negative control: a source that stays is fine
    with pytest.raises(cs.InvalidArgumentError, match="source"):
        explainer.explain_dataset(file, tmp_path / "out", part_rows=10, **CALL)
    assert explainer.explain_dataset(file, tmp_path / "other", part_rows=10, **CALL).n_done == 3
    # the parts are all there, and are mixed: nobody may read them, and no run may go on from them
    with pytest.raises(cs.InvalidArgumentError, match=r"either version\. Remove"):
        cs.load(tmp_path / "out")
    with pytest.raises(cs.InvalidArgumentError, match=r"either version\. Remove"):
        cs.datasets.load_dataset(tmp_path / "out", allow_partial=True)


class Named:
    """Outputs whose names, after those of players, read like other players and outputs."""

    classes_ = ("c", "b:c", "x")

    def predict_proba(self, rows: Any) -> Any:
        return np.asarray(rows)[:, :3] * [1.0, 2.0, 3.0]


def test_names_with_colons_come_back(tmp_path: Path) -> None:
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(6, 3)), columns=["a", "a:b", "a\\"])
    explainer = cs.Explainer(Named(), rows)
    explainer.explain_dataset(rows, tmp_path, rng=0)
    loaded, direct = cs.load(tmp_path), explainer(rows, rng=0)
    np.testing.assert_array_equal(loaded.values, direct.values)
    assert loaded.feature_names == direct.feature_names
    assert loaded.output_names == direct.output_names == ("c", "b:c", "x")


def test_another_run_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    out, rows = tmp_path / "out", make_rows()
    make_explainer().explain_dataset(rows, out, part_rows=5, model_hash="one", **CALL)
    other_rows, other_background = rows.copy(), make_explainer()
    other_rows.iloc[3, 3] += 1e-12
    other_background._assembly.background[0, 0] += 1e-12
    fitted = make_explainer()
    fitted.fit_surrogate(rows, budget=200, learner=cs.LogisticRidge(), rng=0)

    def almost(x: Any) -> Any:
        return model(x) + 1e-4 * np.asarray(x)[:, 0]

    cases: dict[str, tuple[Any, ...]] = {
        "call, budget": (make_explainer(), rows, {"budget": 121}),
        "entropy": (make_explainer(), rows, {"rng": 5}),
        "call, tolerance": (make_explainer(), rows, {"tolerance": 0.1}),
        "source, sha256": (make_explainer(), other_rows, {}),
        "source, rows": (make_explainer(), rows.iloc[:-1], {}),
        "settings: control": (make_explainer(control="taylor"), rows, {}),
        "settings: estimator": (make_explainer(estimator="kernel", control="none"), rows, {}),
        "array background": (other_background, rows, {}),
        "player_names": (make_explainer(groups={"pair": ["c0", "c1"]}), rows, {}),
        "shared": (fitted, rows, {}),
        "model_hash": (make_explainer(), rows, {"model_hash": "two"}),
        "part_rows .5 there, 6 here": (make_explainer(), rows, {"part_rows": 6}),
        "another model": (make_explainer(almost), rows, {}),
    }
    before = {p.name: p.read_bytes() for p in (out / "parts").iterdir()}
    for name, (explainer, data, changed) in cases.items():
        call = {"part_rows": 5, "model_hash": "one"} | CALL | changed
        with pytest.raises(cs.InvalidArgumentError, match=name) as caught:
            explainer.explain_dataset(data, out, **call)
        assert "another" in str(caught.value)
    assert {p.name: p.read_bytes() for p in (out / "parts").iterdir()} == before
    result = make_explainer().explain_dataset(rows, out, part_rows=5, model_hash="one", **CALL)
    assert result.n_done == 5, "the same run is welcome"


def test_a_part_of_another_run_is_refused(tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("two", 2)):
        make_explainer().explain_dataset(make_rows(), tmp_path / name, part_rows=5, budget=120, rng=seed)
    part_path(tmp_path / "one", 2).replace(part_path(tmp_path / "two", 2))
    with pytest.raises(cs.InvalidArgumentError, match=r"part-000002\.parquet' is of another run"):
        cs.load(tmp_path / "two")
    with pytest.raises(cs.InvalidArgumentError, match=r"part-000002\.parquet' is of another run"):
        make_explainer().explain_dataset(make_rows(), tmp_path / "two", part_rows=5, budget=120, rng=2)
    part_path(tmp_path / "two", 2).write_bytes(b"PAR1 half")
    with pytest.raises(cs.InvalidArgumentError, match="damaged"):
        make_explainer().explain_dataset(make_rows(), tmp_path / "two", part_rows=5, budget=120, rng=2)


@pytest.mark.parametrize("content", ["{", "[]", '{"kind": "else"}', '{"kind": "controlshap data set", "schema": 99}'])
def test_manifests_that_are_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(cs.InvalidArgumentError, match="manifest"):
        cs.load(tmp_path)
    with pytest.raises(cs.InvalidArgumentError, match="manifest"):
        make_explainer().explain_dataset(make_rows(), tmp_path, **CALL)


def test_bad_arguments(tmp_path: Path) -> None:
    explainer, rows = make_explainer(), make_rows()
    (tmp_path / "file").touch()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    cases: list[tuple[str, Any, dict[str, Any]]] = [
        ("give a folder", tmp_path / "file", {}),
        ("thesis.tex", tmp_path / "full", {}),
        ("part_rows", tmp_path / "out", {"part_rows": 0}),
        ("progress", tmp_path / "out", {"progress": "bar"}),
        ("exclude each other", tmp_path / "out", {"n_jobs": 2, "scheduler": "tcp://127.0.0.1:1"}),
        ("n_jobs", tmp_path / "out", {"n_jobs": 0}),
        ("model_hash", tmp_path / "out", {"model_hash": 3}),
        ("budget", tmp_path / "out", {"budget": 3}),
        ("budget", tmp_path / "out", {"budget": 0}),
    ]
    for message, out, changed in cases:
        with pytest.raises(cs.InvalidArgumentError, match=message):
            explainer.explain_dataset(rows, out, **(CALL | changed))
    with pytest.raises(cs.InvalidArgumentError, match=r"lacks the column\(s\) \['c4'\]"):
        explainer.explain_dataset(rows.drop(columns="c4"), tmp_path / "out", **CALL)
    assert not list(tmp_path.glob("out/parts/part*"))


def test_a_folder_that_cannot_be_locked_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)  # as on Windows
    with pytest.warns(cs.ControlShapWarning, match="cannot be locked"):
        make_explainer().explain_dataset(make_rows(), tmp_path / "out", **CALL)


def test_a_tls_scheduler_needs_certificates(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(cs.InvalidArgumentError, match=r"needs certificates.*security=Security.*--tls-ca"):
        make_explainer().explain_dataset(make_rows(), tmp_path, scheduler="tls://127.0.0.1:8786", **CALL)
    assert time.monotonic() - began < 20.0, "and nothing is tried"
