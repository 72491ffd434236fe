"""Controls on trial: kept where they leave much less than the ridge, and without a trace where they do not."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import controlshap as cs
from controlshap.controls import LogisticRidge, Polynomial
from controlshap.controls.base import Control, FoldedRows
from controlshap.controls.shallow_trees import LEAF_ROWS, ShallowTrees
from controlshap.crossfitting.fit import keep_useful

RNG = np.random.default_rng(4)
BACKGROUND, X = RNG.normal(size=(40, 6)), RNG.normal(size=(2, 6))
SLOPES = RNG.normal(size=6)
RIDGE = LogisticRidge()
TRIED = (RIDGE, Polynomial(start=RIDGE, on_trial=True), ShallowTrees(on_trial=True))


def smooth(rows):
    return 1.0 / (1.0 + np.exp(-rows @ SLOPES))


def bent(rows):
    return rows @ SLOPES + 2.0 * rows[:, 0] * rows[:, 1]


def stepped(rows):
    return rows @ SLOPES / 4 + 3.0 * ((rows[:, 0] > 0) & (rows[:, 1] > 0) & (rows[:, 2] < 0.5))


def folded(model, n_rows=600):
    rows = RNG.normal(size=(n_rows, 6))
    return FoldedRows(rows, model(rows), np.arange(n_rows) % 6 - 1)


def names(controls):
    return [type(control).__name__ for control in controls]


@pytest.mark.parametrize(
    ("model", "kept"),
    [
        (smooth, ["LogisticRidge"]),
        (bent, ["LogisticRidge", "Polynomial"]),
        (stepped, ["LogisticRidge", "ShallowTrees"]),
    ],
    ids=["smooth", "bent", "stepped"],
)
def test_what_the_model_is_made_of_is_kept(model, kept):
    assert names(keep_useful(TRIED, [folded(model)], 5)) == kept


def test_one_output_that_gains_is_enough_to_count():
    data = folded(lambda rows: rows[:, 0])
    bends = FoldedRows(data.rows, bent(data.rows), data.fold, 1)
    assert names(keep_useful(TRIED, [bends, bends], 5)) == ["LogisticRidge", "Polynomial"]
    assert names(keep_useful(TRIED, [data, bends], 5)) == ["LogisticRidge", "Polynomial"]


def test_nothing_is_tried_where_the_ridge_is_all_but_exact(monkeypatch):
    def never(*arguments):
        raise AssertionError("fitted")

    monkeypatch.setattr(ShallowTrees, "fit", never)
    monkeypatch.setattr(Polynomial, "fit", never)
    assert names(cs.Explainer(smooth, BACKGROUND)(X, budget=500, rng=0).method[0].split(" + "))
    with pytest.raises(AssertionError, match="fitted"):  # negative control
        cs.Explainer(stepped, BACKGROUND)(X, budget=500, rng=0)


def test_a_control_that_is_left_out_leaves_no_trace():
    tried, alone = (cs.Explainer(smooth, BACKGROUND, control=c) for c in (list(TRIED), "ridge"))
    found, expected = tried(X, budget=500, rng=0), alone(X, budget=500, rng=0)
    assert found.method.tolist() == expected.method.tolist() == ["Permutation + LogisticRidge"] * 2
    assert_array_equal(found.values, expected.values)
    assert_array_equal(found.standard_errors, expected.standard_errors)


def test_coefficients_carry_the_names_of_what_was_kept():
    found = cs.Explainer(stepped, BACKGROUND)(X, budget=1000, rng=0)
    assert [part.split(" ")[0] for part in found.controls[0].split(", ")] == found.method[0].split(" + ")[1:]
    assert "ShallowTrees 1.0" in found.controls[0]


@pytest.mark.parametrize("groups", [None, {"first": [0, 1, 2], "a": [3], "b": [4], "c": [5]}], ids=str)
def test_a_stepped_model_has_less_error_than_with_the_ridge(groups):
    model = lambda rows: stepped(rows)  # noqa: E731 (a function of its own has no known form)
    every = cs.Explainer(model, BACKGROUND, groups=groups)(X, budget=10_000, rng=0)
    assert (every.status == "exact").all()
    rows = np.repeat(X, 5, axis=0)
    auto, ridge = (
        cs.Explainer(model, BACKGROUND, groups=groups, control=control, estimator="permutation")(
            rows, budget=600, rng=0
        )
        for control in (list(TRIED), "ridge")
    )
    errors = [((one.values - np.repeat(every.values, 5, axis=0)) ** 2).mean() for one in (auto, ridge)]
    assert errors[0] < 0.7 * errors[1]


def test_a_tree_is_found_again():
    rows = RNG.integers(0, 5, (600, 6)).astype(float)
    outputs = 1.0 * ((rows[:, 0] > 1) & (rows[:, 3] < 3))
    data = FoldedRows(rows, outputs, np.arange(600) % 6 - 1)
    fits = [ShallowTrees(n_trees=1, depth=depth, learning_rate=1.0, start=None).fit(data, 2) for depth in (1, 2)]
    found = [fit.predict(rows) for fit in fits]
    assert_allclose(found[1], outputs, atol=1e-12)
    assert np.abs(found[0] - outputs).max() > 0.1  # negative control


def test_trees_of_one_leaf_are_a_constant():
    data = folded(lambda rows: np.full(len(rows), 2.5))
    assert_allclose(ShallowTrees(n_trees=3, depth=2, start=None).fit(data, None).predict(data.rows), 2.5, rtol=1e-12)


def test_a_split_is_the_best_there_is():
    data = folded(bent, n_rows=120)
    keep = data.fold != 0
    rows, outputs = data.rows[keep], data.outputs[keep]
    found = ShallowTrees(n_trees=1, depth=1, learning_rate=1.0, start=None).fit(data, 0).predict(rows)
    cuts = [np.unique(column) for column in data.rows[data.fold < 0].T]
    least = np.inf
    for column, own in enumerate(cuts):
        for cut in 0.5 * (own[1:] + own[:-1]):
            below = rows[:, column] <= cut
            if min(below.sum(), (~below).sum()) >= LEAF_ROWS:
                least = min(least, sum(((part - part.mean()) ** 2).sum() for part in (outputs[below], outputs[~below])))
    assert_allclose(((outputs - found) ** 2).sum(), least, rtol=1e-5)
    assert least < 0.95 * ((outputs - outputs.mean()) ** 2).sum()


@pytest.mark.parametrize("start", [None, RIDGE], ids=str)
def test_what_trees_leave_is_measured_as_that_of_any_control(start):
    data, trees = folded(stepped), ShallowTrees(start=start)
    expected = Control.leaves(trees, data, range(2), np.inf)
    assert_allclose(trees.leaves(folded_again(data), range(2), np.inf), expected, rtol=1e-9)
    assert trees.leaves(folded_again(data), range(2), 0.01 * expected) == np.inf
    data = folded(stepped, n_rows=6_000)  # of which trees are fitted to some
    assert_allclose(
        trees.leaves(folded_again(data), range(2), np.inf), Control.leaves(trees, data, range(2), np.inf), rtol=1e-9
    )


def folded_again(data):
    """The same rows, with nothing fitted to them yet."""
    return FoldedRows(data.rows, data.outputs, data.fold)
