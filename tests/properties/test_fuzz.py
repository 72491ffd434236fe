"""Random problems against enumeration: data, players, strategies and limits are drawn, the truth is by definition.

CI draws a few, always the same ones; more with

    CONTROLSHAP_FUZZ=2000 .venv/bin/python -m pytest tests/properties/test_fuzz.py
"""

import os
import tempfile
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import controlshap as cs
from controlshap.testing import marginal_game, shapley_by_definition

EXAMPLES = int(os.environ.get("CONTROLSHAP_FUZZ", "25"))
#: The probability of a normal variable beyond 6: what a value may miss its truth by, at its degrees of freedom.
BEYOND = float(stats.norm.sf(6.0))
ESTIMATORS = ("auto", "permutation", "kernel", "per_feature")
CONTROLS = ("auto", "none", "taylor", "ridge", "polynomial", "coalitions")


class Rough:
    """A model with steps, products and, where it meets one, a value of its own for a gap."""

    def __init__(self, weights):
        self.weights = weights

    def __call__(self, rows):
        rows = np.nan_to_num(np.asarray(rows, dtype=float), nan=0.7)
        linear = rows @ self.weights
        return np.tanh(linear) + 0.3 * (rows[:, 0] > 0.2) * rows[:, -1] + 0.1 * linear


@st.composite
def problems(draw):
    """Background, rows, players and settings; columns may be constant, of two values or equal, rows may repeat."""
    p = draw(st.integers(2, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(1, 12))
    data = rng.normal(size=(n + 2, p))
    kinds = draw(st.lists(st.sampled_from(["normal", "constant", "binary", "copy", "gaps"]), min_size=p, max_size=p))
    for column, kind in enumerate(kinds):
        if kind == "constant":
            data[:, column] = 1.5
        elif kind == "binary":
            data[:, column] = rng.integers(0, 2, n + 2)
        elif kind == "copy":
            data[:, column] = data[:, 0]
        elif kind == "gaps":
            data[rng.random(n + 2) < 0.3, column] = np.nan
    if draw(st.booleans()):
        data[: n // 2] = data[0]
    groups = draw(st.sampled_from([None, "first two"]))
    columns = [[0, 1], *([c] for c in range(2, p))] if groups else [[c] for c in range(p)]
    return {
        "background": data[:n], "x": data[n:], "columns": columns,
        "groups": {"pair": [0, 1], **{f"x{c}": [c] for c in range(2, p)}} if groups else None,
        "model": Rough(rng.normal(size=p)),
        "estimator": draw(st.sampled_from(ESTIMATORS)), "control": draw(st.sampled_from(CONTROLS)),
        "budget": draw(st.sampled_from([200, 400, 1000])), "rng": draw(st.integers(0, 1000)),
    }  # fmt: skip


def truth_of(problem, x):
    game = marginal_game(problem["model"], x, problem["background"], problem["columns"])
    return shapley_by_definition(game, len(problem["columns"]))[:, 0]


def explain(problem, **call):
    explainer = cs.Explainer(
        problem["model"], problem["background"], estimator=problem["estimator"], control=problem["control"],
        groups=problem["groups"],
    )  # fmt: skip
    return explainer, explainer(problem["x"], budget=problem["budget"], rng=problem["rng"], **call)


@pytest.mark.slow
@settings(
    max_examples=EXAMPLES, deadline=None, derandomize=EXAMPLES == 25, suppress_health_check=list(HealthCheck)
)  # fmt: skip
@given(problems())
def test_random_problems_against_their_enumeration(problem):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            explainer, found = explain(problem, keep=True)
        except cs.ControlShapError as error:  # gaps have no derivatives, a budget may be too small
            event(f"refused: {str(error)[:40]}")
            return
        assert (found.n_evaluations <= problem["budget"]).all()
        predictions = problem["model"](problem["x"])
        assert_allclose(found.values.sum(axis=1) + found.base_values, predictions, atol=1e-9)
        for row, x in enumerate(problem["x"]):
            check_row(found, row, truth_of(problem, x))
        again = explain(problem)[1]
        assert_array_equal(again.values, found.values)
        with tempfile.TemporaryDirectory() as folder:
            loaded = cs.load(found.save(Path(folder) / "saved"))
            assert_array_equal(loaded.values, found.values)
            assert_array_equal(explainer.refine(loaded, budget=100).values, explainer.refine(found, budget=100).values)


def check_row(found, row, truth):
    """No value beyond 6 standard errors, and none of 0 beside a wrong value."""
    errors, dof = found.standard_errors[row], found.degrees_of_freedom[row]
    distance = np.abs(found.values[row] - truth)
    exact = errors <= 1e-12
    assert_allclose(found.values[row][exact], truth[exact], atol=1e-6)
    limit = np.where(np.isinf(dof), 6.0, stats.t.isf(BEYOND, np.where(np.isinf(dof), 1.0, dof)))
    assert (distance[~exact] <= limit[~exact] * errors[~exact] + 1e-9).all(), (distance, errors, dof)


@pytest.mark.parametrize(("error", "dof"), [(0.0, np.inf), (0.1, np.inf), (0.1, 200.0)])
def test_wrong_values_are_seen(error, dof):
    """The negative control: a value 0.8 off, exact or with an error that is too small."""
    truth = np.array([1.0, -2.0])
    found = {"standard_errors": np.full((1, 2), error), "degrees_of_freedom": np.full((1, 2), dof)}
    check_row(SimpleNamespace(values=truth[None], **found), 0, truth)
    with pytest.raises(AssertionError):
        check_row(SimpleNamespace(values=truth[None] + [0.8, 0.0], **found), 0, truth)
