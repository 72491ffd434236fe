"""An explanation of some rows, of one output, of several runs put together: one declaration a field decides all."""

from dataclasses import fields, replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import controlshap as cs
from controlshap.results.axes import field_names

RNG = np.random.default_rng(3)
BACKGROUND = RNG.normal(size=(12, 4))
X = RNG.normal(size=(5, 4))


def one_output(rows):
    return np.tanh(rows[:, 0] + rows[:, 1] * rows[:, 2]) + rows[:, 3]


def two_outputs(rows):
    return np.column_stack([one_output(rows), rows[:, 0] * rows[:, 1]])


def make_explainer(model, **settings):
    return cs.Explainer(model, BACKGROUND, estimator="permutation", **settings)


def explain(model, rows=X, *, rng=1, **call):
    explainer = make_explainer(model, groups={"pair": [1, 3]}, control="ridge")
    return explainer(rows, budget=400, rng=rng, history=True, interactions=2, **call)


SINGLE, SEVERAL = explain(one_output), replace(explain(two_outputs), output_names=("risk", "cost"))
BOTH = pytest.mark.parametrize("explanation", [SINGLE, SEVERAL], ids=["one output", "several outputs"])


def assert_same(one, other, *, but=()):
    """Every field is the same, bit by bit."""
    for field in fields(one):
        left, right = getattr(one, field.name), getattr(other, field.name)
        if field.name in but:
            continue
        if field.name == "history" and left is not None:
            assert len(left) == len(right)
            for before, after in zip(left, right, strict=True):
                assert_same(before, after)
        elif field.name == "evaluations" and left is not None:
            assert len(left) == len(right)
            for before, after in zip(left, right, strict=True):
                assert_array_equal(before, after)
        elif isinstance(left, np.ndarray):
            assert_array_equal(left, right, err_msg=field.name, strict=field.name not in ("method", "controls"))
        else:
            assert left == right, field.name


@BOTH
def test_the_declared_axes_are_those_of_the_arrays(explanation):
    rows, players = explanation.values.shape[:2]
    sizes = {"rows": rows, "players": players, "pairs": players * (players - 1) // 2, "columns": 4, "outputs": 2}
    sizes |= {"shared": 20}
    several = explanation.values.ndim == 3
    for field in fields(explanation):
        value, axes = getattr(explanation, field.name), field.metadata["axes"]
        declared = [sizes[axis] for axis in axes if several or axis != "outputs"]
        if isinstance(value, np.ndarray):
            assert list(value.shape) == declared, field.name
        elif axes and value is not None:
            assert len(value) == declared[0], field.name
    for past in explanation.history:
        for field in fields(past):
            assert getattr(past, field.name).ndim == len(field.metadata["axes"]) - (not several and "outputs" in
                                                                                   field.metadata["axes"])  # fmt: skip


@BOTH
@pytest.mark.parametrize(
    ("rows", "numbers"),
    [
        (0, [0]),
        (-1, [4]),
        (np.int64(2), [2]),
        (slice(None, 3), [0, 1, 2]),
        (slice(None, None, -2), [4, 2, 0]),
        ([3, 1, 1], [3, 1, 1]),
        (np.array([-1, 0], dtype=np.int8), [4, 0]),
        ([True, False, False, True, False], [0, 3]),
        (np.zeros(5, dtype=bool), []),
        ([], []),
        (slice(5, 9), []),
    ],
)
def test_rows_by_number_slice_mask_and_array(explanation, rows, numbers):
    part = explanation[rows]
    assert isinstance(part, cs.Explanation)
    assert len(part) == len(numbers)
    assert_array_equal(part.row_numbers, numbers)
    for name in field_names(explanation, axis="rows"):
        whole, some = getattr(explanation, name), getattr(part, name)
        if isinstance(whole, np.ndarray):
            assert_array_equal(some, whole[numbers], err_msg=name)
        elif whole is not None:
            assert some == tuple(whole[number] for number in numbers), name
    for name in ("feature_names", "column_names", "output_names", "player_columns", "entropy", "settings"):
        assert getattr(part, name) == getattr(explanation, name)
    assert f"of {len(numbers)} row{'' if len(numbers) == 1 else 's'} by" in repr(part)


@BOTH
def test_a_part_of_the_rows_says_the_same_about_them(explanation):
    part, rows = explanation[[4, 2]], [4, 2]
    for level in (0.5, 0.95):
        for arguments in ({}, {"simultaneous": True}, {"background": True}):
            whole = explanation.confidence_interval(level, **arguments)
            assert_array_equal(part.confidence_interval(level, **arguments), [bound[rows] for bound in whole])
        assert_array_equal(part.ranking(level).separated, explanation.ranking(level).separated[rows])
    assert_array_equal(part.gain, explanation.gain[rows])
    assert part.to_frame()["value"].tolist() == explanation.values[rows].reshape(-1).tolist()


@BOTH
def test_iteration_goes_through_the_rows_and_concat_puts_them_together_again(explanation):
    rows = list(explanation)
    assert [len(row) for row in rows] == [1] * 5
    assert_same(cs.Explanation.concat(rows), explanation)
    assert_same(cs.Explanation.concat(iter([explanation[:2], explanation[2:2], explanation[2:]])), explanation)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (5, r"has 5 rows, numbered from 0, or backwards from -1; got 5"),
        ([0, -6], r"got -6"),
        ([True, False], r"one truth value for each of the 5 rows; got shape \(2,\)"),
        (True, r"one truth value for each of the 5 rows; got shape \(\)"),
        (1.0, r"takes a row number, a slice, a mask or an array of row numbers; got 1\.0"),
        ("risk", r"got 'risk'\. Use `explanation\.output\(\.\.\.\)` for an output"),
        ((0, 1), r"got \(0, 1\).*arrays such as `explanation\.values` for players"),
        ([[0], [1]], r"got \[\[0\], \[1\]\]"),
        (None, r"got None"),
    ],
)
def test_other_rows_are_refused(rows, words):
    with pytest.raises(cs.InvalidArgumentError, match=words):
        SEVERAL[rows]


@pytest.mark.parametrize(("output", "number"), [(0, 0), (np.int64(1), 1), ("risk", 0), ("cost", 1)])
def test_an_output_by_number_and_name(output, number):
    part = SEVERAL.output(output)
    assert part.values.shape == SINGLE.values.shape
    assert_array_equal(part.values, SEVERAL.values[..., number])
    assert_array_equal(part.background_standard_errors, SEVERAL.background_standard_errors[..., number])
    assert_array_equal(part.base_values, SEVERAL.base_values[:, number])
    assert_array_equal(part.covariance, SEVERAL.covariance[:, number])
    assert_array_equal(part.history[3].values, SEVERAL.history[3].values[..., number])
    assert_array_equal(part.history[3].n_evaluations, SEVERAL.history[3].n_evaluations)
    assert part.output_names == (("risk", "cost")[number],)
    assert part.evaluations is None
    assert (part.status == SEVERAL.status).all()
    whole = SEVERAL.confidence_interval(simultaneous=True)
    assert_array_equal(part.confidence_interval(simultaneous=True), [bound[..., number] for bound in whole])
    assert_array_equal(part.summary().mean_absolute, SEVERAL.summary().mean_absolute[:, number])
    assert_same(part[1], SEVERAL[1].output(output))


def test_an_output_that_is_not_there_is_refused():
    with pytest.raises(cs.InvalidArgumentError, match=r"`output` is needed: .* Give output='cost'"):
        SEVERAL.output(None)
    for wrong in (2, -1, "price", True, 0.0):
        with pytest.raises(
            cs.InvalidArgumentError, match=r"`output` must be a number from 0 to 1 or one of \['risk', 'cost'\]"
        ):
            SEVERAL.output(wrong)
    assert SINGLE.output() is SINGLE
    with pytest.raises(cs.InvalidArgumentError, match=r"`output` must be left out: the model has one output; got 0"):
        SINGLE.output(0)


def test_explanations_of_different_things_are_not_put_together():
    other_groups = make_explainer(one_output)(X, budget=200, rng=1)
    for parts, words in (
        ([], r"`parts` must be explanations, one or more; got none"),
        ([SINGLE, SINGLE.values], r"`parts` must be explanations, one or more; got Explanation, ndarray"),
        ([SINGLE, other_groups], r"agree in `feature_names`: part 0 has \('x0', 'pair', 'x2'\), part 1 \('x0', 'x1'"),
        ([SINGLE, replace(SINGLE, column_names=tuple("abcd"))], r"agree in `column_names`.*same explainer"),
        ([SINGLE, SEVERAL], r"agree in `output_names`"),
        ([SINGLE, replace(SEVERAL, output_names=None)], r"the same outputs; for each player .* \[\(\), \(2,\)\]"),
    ):  # fmt: skip
        with pytest.raises(cs.InvalidArgumentError, match=words):
            cs.Explanation.concat(parts)


def test_of_several_runs_only_what_they_share_is_told(tmp_path):
    first, second = explain(one_output, X[:2]), explain(one_output, X[2:], rng=2)
    both = cs.Explanation.concat([first, second])
    assert_array_equal(both.values, np.concatenate([first.values, second.values]))
    assert_array_equal(both.row_numbers, [0, 1, 0, 1, 2])
    assert len(both.history) == 5
    assert both.entropy == first.entropy
    assert both.settings == first.settings | {"runs": 2}
    assert both.evaluations is None
    with pytest.raises(cs.InvalidArgumentError, match="does not hold its evaluations"):
        make_explainer(one_output, groups={"pair": [1, 3]}, control="ridge").refine(both, budget=100)
    longer = replace(second, settings=second.settings | {"budget": 800})
    three = cs.Explanation.concat([both, longer])
    assert three.settings["runs"] == 3
    assert "budget" not in three.settings
    assert "The rows come from 3 runs" in three.report(tmp_path / "report.html").read_text()
    assert_same(cs.load(three.save(tmp_path)), three)
    # the number of background rows decides about degrees of freedom
    shared = {name: value for name, value in both.settings.items() if name != "n_background"}
    with pytest.raises(cs.InvalidArgumentError, match="the error of the background is not known here"):
        replace(both, settings=shared).confidence_interval(background=True)


def test_what_only_some_have_is_left_out():
    bare = replace(SINGLE[2:], history=None, evaluations=None, background_standard_errors=None)
    both = cs.Explanation.concat([SINGLE[:2], bare])
    assert both.history is None
    assert both.evaluations is None
    assert both.background_standard_errors is None
    assert_same(both, SINGLE, but=("history", "evaluations", "background_standard_errors"))


def test_texts_of_any_length_and_data_of_any_type_are_put_together():
    long = replace(SINGLE[1], method=np.array(["Permutation + " + "Trees" * 20]), data=SINGLE[1].data.astype(object))
    both = cs.Explanation.concat([SINGLE[0], long, SINGLE[2]])
    assert both.method[1] == long.method[0]
    assert both.data.dtype == object
    assert both.data[1].tolist() == X[1].tolist()


@pytest.mark.parametrize("rows", [[3, 1], slice(2, 4), [True, False, False, False, True]])
def test_some_rows_are_refined_as_all_of_them_would_be(rows):
    explainer = make_explainer(two_outputs, control="taylor")
    whole = explainer(X, budget=200, rng=0)
    refined, part = explainer.refine(whole, budget=200), explainer.refine(whole[rows], budget=200)
    assert_same(part, refined[rows])
    assert_same(explainer.refine(part, budget=100), explainer.refine(refined, budget=100)[rows])


def test_rows_of_two_calls_with_one_seed_are_refined_each_with_its_own_numbers():
    explainer = make_explainer(one_output, control="none")
    first, second = explainer(X[:2], budget=200, rng=0), explainer(X[2:], budget=200, rng=0)
    both = explainer.refine(cs.Explanation.concat([first, second]), budget=200)
    assert_array_equal(both.values[2:], explainer.refine(second, budget=200).values)
    assert_array_equal(both.values[:2], explainer.refine(first, budget=200).values)


@BOTH
def test_parts_come_back_from_disk_with_their_numbers(explanation, tmp_path):
    assert_same(cs.load(explanation[[3, 0]].save(tmp_path / "rows")), explanation[[3, 0]])
    assert_array_equal(cs.load(tmp_path / "rows").row_numbers, [3, 0])
    if explanation is SEVERAL:
        assert_same(cs.load(SEVERAL.output("cost").save(tmp_path / "output")), SEVERAL.output("cost"))
