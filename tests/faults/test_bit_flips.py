"""One flipped bit anywhere in what was saved: noticed when it is read, or without effect on what is read."""

import shutil
import sys
import warnings
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import controlshap as cs
from controlshap._files import read_sealed, write_sealed
from controlshap.datasets import result
from controlshap.datasets.part_file import part_path

BACKGROUND = np.random.default_rng(0).normal(size=(5, 3))
ROWS = np.random.default_rng(1).normal(size=(6, 3))
CALL = {"budget": 40, "rng": 3}
#: Flips in all; each file gets a share by its size, and no fewer than this many.
FLIPS, FEWEST = 2100, 60


def model(rows):
    return rows[:, 0] * rows[:, 1] + rows[:, 2]


def explainer():
    return cs.Explainer(model, BACKGROUND, estimator="permutation", control="none")


def contents(explanation):
    """Everything that an explanation holds, in bytes and text."""
    held = {field.name: getattr(explanation, field.name) for field in fields(explanation)}.items()
    return {n: (v.dtype.str, v.shape, v.tobytes()) if isinstance(v, np.ndarray) else repr(v) for n, v in held}


def load_result(folder):
    return contents(cs.load(folder))


def load_columns(folder):
    """Column by column, as large results are read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(result, "AT_ONCE", 0)
        return load_result(folder)


def resume_result(folder):
    """The last part is explained again, from what the folder holds of the run."""
    explainer().explain_dataset(ROWS, folder, part_rows=2, **CALL)
    return contents(cs.load(folder))


def load_explainer(folder):
    loaded = cs.Explainer.load(folder, model)
    return contents(loaded(ROWS[:1], **CALL)) | {"background": loaded.assembly.background.tobytes()}


def make_result(folder):
    explainer().explain_dataset(ROWS, folder, part_rows=2, **CALL)


def make_unfinished(folder):
    make_result(folder)
    part_path(folder, 2).unlink()


KINDS = {
    "result": (make_result, load_result),
    "result by columns": (make_result, load_columns),
    "resumed result": (make_unfinished, resume_result),
    "explanation": (lambda folder: explainer()(ROWS, keep=True, history=True, **CALL).save(folder), load_result),
    "explainer": (lambda folder: explainer().save(folder), load_explainer),
}


def positions(size, n):
    """Bits spread over a file, the same ones in every run; all bytes of a small one have their turn."""
    return [(k * size // n) * 8 + (k * 5) % 8 for k in range(n)]


def count_flips(kind, folder):
    """How flips end: "refused", "without effect", "silent" (other contents), or an exception of another kind."""
    make, read = KINDS[kind]
    original, copy = folder / "original", folder / "copy"
    make(original)
    shutil.copytree(original, copy)
    expected = read(copy)
    files = [path.relative_to(original) for path in sorted(original.rglob("*")) if path.is_file()]
    sizes = {path: (original / path).stat().st_size for path in files}
    counts: dict[str, int] = {}
    for path in files:
        n = max(FEWEST, round(FLIPS / len(KINDS) * sizes[path] / sum(sizes.values())))
        for bit in positions(sizes[path], n):
            for new in {path.relative_to(copy) for path in copy.rglob("*.*") if path.is_file()} - set(files):
                (copy / new).unlink()  # what resuming added
            damaged = bytearray((original / path).read_bytes())
            damaged[bit // 8] ^= 1 << (bit % 8)
            (copy / path).write_bytes(bytes(damaged))
            try:
                outcome = "without effect" if read(copy) == expected else f"silent: {path} bit {bit}"
            except cs.InvalidArgumentError as error:
                outcome = "refused" if "`" in str(error) else f"unclear: {error}"
            except Exception as error:  # noqa: BLE001, they are counted
                outcome = f"{type(error).__name__} of {path} bit {bit}: {error}"
            counts[outcome] = counts.get(outcome, 0) + 1
        shutil.copy(original / path, copy / path)
    return counts


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_flip_changes_a_number_unnoticed(kind, tmp_path, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.ControlShapWarning)
        counts = count_flips(kind, tmp_path)
    with capsys.disabled():
        sys.stdout.write(f" {kind}: {counts}")
    assert set(counts) <= {"refused", "without effect"}, counts
    assert counts["refused"] > sum(counts.values()) / 3  # `load` leaves some files of a result alone
    assert sum(counts.values()) >= 0.9 * FLIPS / len(KINDS)


def test_without_digests_flips_pass(tmp_path):
    """The negative control: the same flips, with seals that are made to fit."""
    make_result(tmp_path)
    manifest = read_sealed(tmp_path / "manifest.json")
    manifest["player_columns"] = manifest["player_columns"][::-1]
    write_sealed(tmp_path / "manifest.json", manifest)
    assert cs.load(tmp_path).player_columns != cs.explain(model, ROWS, BACKGROUND, rng=0).player_columns


EDITS = {
    "parts swapped": (lambda f: swap(part_path(f, 0), part_path(f, 1)), "must hold the rows 0 to 1"),
    "a part taken from another": (
        lambda f: shutil.copy(part_path(f, 0), part_path(f, 1)),
        "must hold the rows 2 to 3",
    ),
    "fewer parts": (lambda f: edit(f, '"n_parts": 3', '"n_parts": 2'), "manifest .* is damaged"),
    "very many parts": (lambda f: edit(f, '"n_parts": 3', '"n_parts": 300000000000'), "manifest .* is damaged"),
    "rows edited": (lambda f: edit(f, '"n_rows": 6', '"n_rows": 4'), "manifest .* is damaged"),
    "players renamed": (lambda f: edit(f, '"x0"', '"x9"'), "manifest .* is damaged"),
    "a part cut short": (
        lambda f: part_path(f, 1).write_bytes(part_path(f, 1).read_bytes()[:-200]),
        r"part-000001\.parquet' is damaged.*Remove that file",
    ),
    "another file as a part": (lambda f: part_path(f, 1).write_bytes(b"PAR1"), r"part-000001\.parquet' is damaged"),
}


def swap(one: Path, other: Path) -> None:
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def edit(folder, before, after):
    path = folder / "manifest.json"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


@pytest.mark.parametrize(("change", "message"), EDITS.values(), ids=EDITS.keys())
def test_edited_folders_are_refused(change, message, tmp_path):
    make_result(tmp_path)
    change(tmp_path)
    with pytest.raises(cs.InvalidArgumentError, match=message):
        cs.load(tmp_path)
    with pytest.raises(cs.InvalidArgumentError, match=message):
        make_result(tmp_path)


FORGED = {
    "part_rows": 0, "n_parts": 2, "n_rows": 4, "rows": [0, 4], "file_rows": "x", "layout": None, "entropy": "abc",
    "player_columns": [[9], [1], [2]], "settings": [], "identity": None, "hash": 3,
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_forged_manifests_are_refused(name, tmp_path):
    """Sealed, but what no run writes; before, raw errors of numpy, wrong columns or an endless list of parts."""
    make_result(tmp_path)
    path = tmp_path / "manifest.json"
    write_sealed(path, read_sealed(path) | {name: FORGED[name]})
    for read in (cs.load, make_result):
        with pytest.raises(cs.InvalidArgumentError, match=r"manifest in .* is damaged"):
            read(tmp_path)


@pytest.mark.parametrize("name", ["predictions.npy", "explainer/explainer.json", "explainer/explainer.npz"])
def test_missing_files_of_a_run_are_named(name, tmp_path):
    make_unfinished(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(cs.InvalidArgumentError, match=f"{name} in .* is missing|holds no saved explainer"):
        make_result(tmp_path)


def test_nothing_is_written_through_a_link(tmp_path):
    """Names that a run writes to are links to files of somebody else: these are left alone."""
    other = tmp_path / "other"
    other.write_text("mine")
    out = tmp_path / "out"
    (out / "explainer").mkdir(parents=True)
    for name in ("predictions.npy", "explainer/explainer.npz", "explainer/explainer.json"):
        (out / name).symlink_to(other)
    make_result(out)
    explainer()(ROWS, **CALL).save(out / "saved")
    assert other.read_text() == "mine"
    assert not [path for path in out.rglob("*") if path.is_symlink()]
