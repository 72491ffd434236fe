"""Results and explainers survive the disk bit by bit, without pickle, and a damaged file says so."""

import functools
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
import shap
from scipy.stats import t as student_t

import controlshap as cs
from controlshap._files import read_sealed, write_sealed

RNG = np.random.default_rng(8)
BACKGROUND = RNG.normal(size=(15, 4))
X = RNG.normal(size=(3, 4))


def one_output(rows):
    return np.tanh(rows[:, 0] + rows[:, 1] * rows[:, 2]) + rows[:, 3]


def two_outputs(rows):
    return np.column_stack([one_output(rows), rows[:, 0] ** 2])


CASES = {
    "one output": (one_output, {"estimator": "permutation"}),
    "several outputs": (two_outputs, {"estimator": "kernel"}),
    "groups": (two_outputs, {"estimator": "permutation", "groups": {"pair": [1, 3]}}),
    "exact": (one_output, {}),
    "correlated": (one_output, {"features": "correlated", "control": "taylor"}),
}
ARRAYS = [
    "values",
    "standard_errors",
    "base_values",
    "base_standard_errors",
    "uncontrolled_values",
    "uncontrolled_standard_errors",
    "variance_reduction",
    "degrees_of_freedom",
    "covariance",
    "n_evaluations",
    "status",
    "method",
    "data",
]


@pytest.fixture
def explanation():
    return cs.explain(two_outputs, X, BACKGROUND, estimator="permutation", groups={"pair": [1, 3]}, budget=200, rng=0)


@pytest.mark.parametrize(("model", "settings"), CASES.values(), ids=CASES.keys())
def test_an_explanation_comes_back_bit_by_bit(tmp_path, model, settings):
    saved = cs.explain(model, X, BACKGROUND, budget=400, rng=2**80, **settings)
    loaded = cs.load(saved.save(tmp_path / "new" / "folder"))
    for name in ARRAYS:
        one, other = getattr(saved, name), getattr(loaded, name)
        assert one.dtype == other.dtype, name
        np.testing.assert_array_equal(one, other, err_msg=name)
    for name in ("feature_names", "column_names", "output_names", "player_columns", "entropy", "settings"):
        assert getattr(saved, name) == getattr(loaded, name), name
    assert loaded.entropy == 2**80
    assert np.isinf(loaded.degrees_of_freedom).all() == (saved.status[0] == "exact")
    assert repr(loaded) == repr(saved)


def test_files_are_json_and_arrays_and_no_pickle(tmp_path, explanation):
    folder = explanation.save(tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == ["explanation.json", "explanation.npz"]
    header = json.loads((folder / "explanation.json").read_text())
    assert (header["kind"], header["schema"]) == ("explanation", 1)
    with np.load(folder / "explanation.npz", allow_pickle=False) as arrays:
        assert all(arrays[name].dtype != object for name in arrays.files)


def test_saving_again_replaces_what_was_there(tmp_path, explanation):
    cs.explain(one_output, X, BACKGROUND, rng=0).save(tmp_path)
    explanation.save(tmp_path)
    np.testing.assert_array_equal(cs.load(tmp_path).values, explanation.values)


def edit_header(folder, change):
    """Change a header, and its digest with it, as another version would."""
    path = next(folder.glob("*.json"))
    header = read_sealed(path)
    change(header)
    write_sealed(path, header)


def spoil_arrays(folder, byte=None, keep=None):
    path = next(folder.glob("*.npz"))
    content = bytearray(path.read_bytes()[:keep])
    if byte is not None:
        content[byte] ^= 255
    path.write_bytes(bytes(content))


DAMAGE = {
    "another schema": (
        lambda f: edit_header(f, lambda h: h.update(schema=2)),
        r"schema 2; this version reads 1.*Load it",
    ),
    "no schema": (lambda f: edit_header(f, lambda h: h.pop("schema")), r"schema None; this version reads 1"),
    "another kind of header": (lambda f: next(f.glob("*.json")).write_text("[]"), r"schema None; this version reads 1"),
    "an edited header": (
        lambda f: next(f.glob("*.json")).write_text(next(f.glob("*.json")).read_text().replace("null", "0.25", 1)),
        r"damaged \(its contents do not match their digest\)",
    ),
    "half a header": (lambda f: next(f.glob("*.json")).write_text('{"kind": '), r"is damaged"),
    "half of the arrays": (lambda f: spoil_arrays(f, keep=500), r"is damaged"),
    "a flipped byte": (lambda f: spoil_arrays(f, byte=200), r"is damaged"),
    "empty arrays": (lambda f: next(f.glob("*.npz")).write_bytes(b""), r"is damaged"),
    "no header": (
        lambda f: next(f.glob("*.json")).unlink(),
        r"holds no saved expla.*Give the folder that `save` wrote",
    ),
    "no arrays": (lambda f: next(f.glob("*.npz")).unlink(), r"holds no saved expla.*Give the folder that `save` wrote"),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_folder_is_refused_with_its_name(tmp_path, explanation, damage, message):
    damage(explanation.save(tmp_path))
    with pytest.raises(cs.InvalidArgumentError, match=message) as caught:
        cs.load(tmp_path)
    assert str(tmp_path) in str(caught.value)
    cs.Explainer(one_output, BACKGROUND).save(tmp_path / "explainer")
    damage(tmp_path / "explainer")
    with pytest.raises(cs.InvalidArgumentError, match=message):
        cs.Explainer.load(tmp_path / "explainer", one_output)


def test_a_folder_that_lacks_a_part_names_it(tmp_path, explanation):
    explanation.save(tmp_path)
    edit_header(tmp_path, lambda header: header.pop("feature_names"))
    with pytest.raises(cs.InvalidArgumentError, match=r"lacks \['feature_names'\]; it is damaged"):
        cs.load(tmp_path)
    cs.Explainer(one_output, BACKGROUND).save(tmp_path / "explainer")
    edit_header(tmp_path / "explainer", lambda header: header.pop("settings"))
    with pytest.raises(cs.InvalidArgumentError, match=r"lacks 'settings'; it is damaged"):
        cs.Explainer.load(tmp_path / "explainer", one_output)
    with pytest.raises(cs.InvalidArgumentError, match=r"nowhere.*holds no saved explanation"):
        cs.load(tmp_path / "nowhere")


def test_an_explainer_comes_back_with_its_simulated_matrices(tmp_path, monkeypatch):
    # Twelve players: too many to enumerate, so the matrices are simulated, once.
    background = RNG.normal(size=(40, 12)) @ (np.eye(12) + 0.3)
    x = RNG.normal(size=(2, 12))

    def model(rows):
        return np.tanh(rows.sum(axis=1) / 4.0)

    explainer = cs.Explainer(model, background, "correlated", "kernel", cs.Taylor(n_permutations=40))
    first = explainer(x, budget=600, rng=3)
    explainer.save(tmp_path)
    again = cs.Explainer.load(tmp_path, model)

    def never(*arguments):
        pytest.fail("the matrices were simulated again")

    monkeypatch.setattr("controlshap.controls.taylor.d_matrices", never)
    second = again(x, budget=600, rng=3)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=name)


SETTINGS = {
    "short names": {"features": "correlated", "estimator": "kernel", "control": "none", "variance": "bootstrap"},
    "objects": {
        "features": cs.GaussianConditional(covariance=np.eye(4), draws="background"),
        "estimator": cs.Kernel(paired=False, n_draws=np.int64(2)),
        "control": [cs.Taylor(derivatives=cs.FiniteDifferences(step=0.5, cross=False))],
        "variance": cs.LeastSquares(paper=True),
        "coefficient": "units",
        "memory_limit": 2**22,
        "max_background": np.int64(12),
    },
    "copula": {"features": "copula"},
    "nearness": {"features": cs.Empirical(bandwidth=0.4)},
    "mixture": {"features": cs.Mixture(n_components=2)},
    "copula of rows": {"features": cs.GaussianConditional(margins="empirical", draws="background")},
    "groups": {"groups": {"job": [0], "pair": [1, 3]}, "estimator": "per_feature"},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
@pytest.mark.filterwarnings("ignore:.background. has 15 rows")
def test_an_explainer_comes_back_with_its_settings(tmp_path, settings):
    explainer = cs.Explainer(two_outputs, BACKGROUND, **settings)
    again = cs.Explainer.load(explainer.save(tmp_path), two_outputs)
    assert again.feature_names == explainer.feature_names
    one, other = (e(X, budget=500, rng=0) for e in (explainer, again))
    np.testing.assert_array_equal(one.values, other.values)
    np.testing.assert_array_equal(one.standard_errors, other.standard_errors)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_an_explainer_comes_back_with_the_kind_of_its_frame(tmp_path, frame):
    def model(rows):
        assert type(rows) is frame
        return np.asarray(rows["a"]) * np.asarray(rows["b"])

    explainer = cs.Explainer(model, frame({"a": BACKGROUND[:, 0], "b": BACKGROUND[:, 1]}))
    again = cs.Explainer.load(explainer.save(tmp_path), model)
    assert again.column_names == ("a", "b")
    np.testing.assert_array_equal(explainer(X[:, :2], rng=0).values, again(X[:, :2], rng=0).values)


def test_an_explainer_with_a_function_of_the_users_cannot_be_saved(tmp_path):
    explainer = cs.Explainer(one_output, BACKGROUND, control=cs.Taylor(gradient=lambda x: x, hessian=lambda x: x))
    with pytest.raises(
        cs.InvalidArgumentError, match=r"`control.gradient` cannot be saved: function is an object of your"
    ):
        explainer.save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_tidy_frame_has_one_line_for_each_row_player_and_output(explanation):
    frame = explanation.to_frame()
    low, high = explanation.confidence_interval()
    assert list(frame.columns[:4]) == ["row", "feature", "output", "value"]
    assert len(frame) == 3 * 3 * 2
    line = frame[(frame["row"] == 1) & (frame["feature"] == "pair") & (frame["output"] == "1")].iloc[0]
    assert line["value"] == explanation.values[1, 1, 1]
    assert line["standard_error"] == explanation.standard_errors[1, 1, 1]
    assert (line["low"], line["high"]) == (low[1, 1, 1], high[1, 1, 1])
    assert line["variance_reduction"] == explanation.variance_reduction[1, 1, 1]
    single = cs.explain(one_output, X, BACKGROUND, rng=0).to_frame()
    assert "output" not in single.columns
    assert single["feature_value"].tolist() == X.reshape(-1).tolist()
    assert single["feature"].tolist() == ["x0", "x1", "x2", "x3"] * 3


def test_shap_takes_the_values_over(explanation):
    single = cs.explain(one_output, X, BACKGROUND, rng=0)
    for ours in (explanation, single):
        theirs = ours.to_shap()
        assert isinstance(theirs, shap.Explanation)
        np.testing.assert_array_equal(theirs.values, ours.values)
        np.testing.assert_array_equal(theirs.base_values, ours.base_values)
        assert list(theirs.feature_names) == list(ours.feature_names)
        np.testing.assert_array_equal(theirs[1].values, ours.values[1])
    np.testing.assert_array_equal(single.to_shap().data, X)


def test_intervals_have_students_quantiles_and_no_width_where_exact(explanation):
    low, high = explanation.confidence_interval(0.9)
    reach = student_t.ppf(0.95, explanation.degrees_of_freedom) * explanation.standard_errors
    np.testing.assert_allclose(high - explanation.values, reach, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(explanation.values - low, reach, rtol=1e-9, atol=1e-15)
    exact = cs.explain(one_output, X, BACKGROUND, rng=0)
    np.testing.assert_array_equal(exact.confidence_interval(), (exact.values, exact.values))
    for level in (0.0, 1.0, 95, np.nan):
        with pytest.raises(
            cs.InvalidArgumentError, match=r"`level` must lie between 0 and 1; got.*Use for example 0\.95"
        ):
            explanation.confidence_interval(level)


def test_a_result_says_what_it_is(explanation):
    told = repr(explanation).splitlines()
    assert told[0].startswith("Explanation of 3 rows by 3 players: 2 outputs, ")
    assert told[1].startswith("  row 0, ")
    assert told[-1].startswith("3 rows budget reached; ")
    assert "largest standard error" in told[-1]
    assert len(explanation) == 3


def test_a_file_that_lacks_kept_evaluations_is_damaged(tmp_path, explanation):
    explanation.save(tmp_path)
    arrays = dict(np.load(tmp_path / "explanation.npz"))
    arrays.pop("evaluations.0")
    np.savez_compressed(tmp_path / "explanation.npz", **arrays)
    with pytest.raises(cs.InvalidArgumentError, match="damaged"):
        cs.load(tmp_path)


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow", "feather"])
def test_a_table_holds_what_the_frame_holds(explanation, tmp_path, ending):
    path = explanation.save(tmp_path / f"values.{ending}")
    read_csv = functools.partial(pd.read_csv, float_precision="round_trip")
    readers = {"csv": read_csv, "parquet": pd.read_parquet, "arrow": pd.read_feather, "feather": pd.read_feather}
    table, frame = readers[ending](path), explanation.to_frame()
    assert list(table.columns) == list(frame.columns)
    np.testing.assert_allclose(table["value"], frame["value"], rtol=1e-15)
    assert table["feature"].tolist() == frame["feature"].tolist()
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_a_folder_for_an_experiment_tracker(explanation, tmp_path):
    folder = explanation.export(tmp_path / "run")
    names = {"explanation.json", "explanation.npz", "values.parquet", "metrics.json", "params.json"}
    assert {p.name for p in folder.iterdir()} == names
    metrics = json.loads((folder / "metrics.json").read_text())
    assert all(isinstance(value, float) and np.isfinite(value) for value in metrics.values())
    assert metrics["rows"] == len(explanation)
    params = json.loads((folder / "params.json").read_text())
    assert all(isinstance(value, str) for value in params.values())
    assert int(params["rng"]) == explanation.entropy
    np.testing.assert_array_equal(cs.load(folder).values, explanation.values)


def test_the_history_of_a_run_comes_along(tmp_path):
    explainer = cs.Explainer(one_output, BACKGROUND, estimator="permutation", control="none")
    found = explainer(X, budget=2000, rng=0, history=True)
    plain = explainer(X, budget=2000, rng=0)
    assert plain.history is None
    np.testing.assert_allclose(found.values, plain.values, rtol=1e-12)
    for row, history in enumerate(cs.load(found.save(tmp_path)).history):
        assert len(history) > 3
        assert (np.diff(history.n_evaluations) > 0).all()
        assert history.n_evaluations[-1] == found.n_evaluations[row]
        np.testing.assert_array_equal(history.values[-1], found.values[row])
        np.testing.assert_allclose(history.standard_errors[-1], found.standard_errors[row], rtol=1e-12)


def test_what_is_computed_once_is_saved_when_workers_computed_it(tmp_path):
    background = np.random.default_rng(2).normal(size=(60, 12))
    explainer = cs.Explainer(lambda rows: rows[:, 0], background, features="correlated", control="taylor")
    explainer(background[:3], budget=400, rng=0, n_jobs=2)
    explainer.save(tmp_path)
    assert "d_matrices" in np.load(tmp_path / "explainer.npz")


def test_a_sampled_background_keeps_its_error_when_loaded(tmp_path):
    with pytest.warns(cs.ControlShapWarning, match="15 rows; 8 of them"):
        explainer = cs.Explainer(one_output, BACKGROUND, max_background=8)
    before = explainer(X, budget=200, rng=0)
    explainer.save(tmp_path)
    after = cs.Explainer.load(tmp_path, one_output)(X, budget=200, rng=0)
    np.testing.assert_array_equal(before.base_standard_errors, after.base_standard_errors)
    assert after.settings["n_background"] == 15


def test_integer_column_names_come_back_as_they_were(tmp_path):
    def model(frame):
        return one_output(frame[[0, 1, 2, 3]].to_numpy())

    explainer = cs.Explainer(model, pd.DataFrame(BACKGROUND))
    before = explainer(X, budget=200, rng=0)
    explainer.save(tmp_path)
    after = cs.Explainer.load(tmp_path, model)(X, budget=200, rng=0)
    np.testing.assert_array_equal(after.values, before.values)


def test_a_numpy_tolerance_can_be_saved(tmp_path):
    explanation = cs.explain(one_output, X, BACKGROUND, tolerance=np.float32(0.2), budget=4000, rng=0)
    explanation.save(tmp_path)
    assert cs.load(tmp_path).settings["tolerance"] == pytest.approx(0.2)


@pytest.mark.parametrize("name", ["x.csv.gz", "x.json", "x.HTML", "x.pdf", "x.xlsx", "x.pkl", "x.npz", "x.txt"])
def test_names_of_files_of_other_kinds_are_no_folders(explanation, tmp_path, name):
    with pytest.raises(cs.InvalidArgumentError, match=r"Leave the ending out, or end in \.csv, \.parquet"):
        explanation.save(tmp_path / name)
    with pytest.raises(cs.InvalidArgumentError, match=r"names a folder .* Leave the ending out\."):
        cs.Explainer(one_output, BACKGROUND).save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_folders_may_have_dots_in_their_names(explanation, tmp_path):
    for name in ("v1.2", "run.final", ".hidden"):
        assert (cs.load(explanation.save(tmp_path / name)).values == explanation.values).all()
