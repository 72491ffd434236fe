"""Controls on trial: kept where they leave much less than the ridge, and without a trace where they do not."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import controlshap as cs
from controlshap.controls import LogisticRidge, Polynomial
from controlshap.controls.base import FoldedRows
from controlshap.controls.shallow_trees import ShallowTrees, fit_shallow_trees
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
    found = [fit_shallow_trees(data, 2, data.outputs, 1, depth, 1.0).predict(rows) for depth in (1, 2)]
    assert_allclose(found[1], outputs, atol=1e-12)
    assert np.abs(found[0] - outputs).max() > 0.1  # negative control


def test_trees_of_one_leaf_are_a_constant():
    data = folded(lambda rows: np.full(len(rows), 2.5))
    assert_allclose(fit_shallow_trees(data, None, data.outputs, 3, 2, 0.5).predict(data.rows), 2.5, rtol=1e-12)
