"""Defects that a review found, each with the call that showed it."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import controlshap as cs

RNG = np.random.default_rng(0)
BACKGROUND = RNG.normal(size=(20, 4))
X = RNG.normal(size=(2, 4))
SLOPES = np.array([1.0, -2.0, 0.5, 0.3])


def smooth(rows):
    return np.tanh(rows @ SLOPES + rows[:, 0] * rows[:, 1])


def test_only_the_symmetric_part_of_a_hessian_counts():
    upper = np.triu(np.random.default_rng(1).normal(size=(4, 4)))
    settings = {"estimator": "kernel", "budget": 300, "rng": 0}
    given, symmetric = (
        cs.explain(
            smooth,
            X,
            BACKGROUND,
            control=cs.Taylor(gradient=lambda row: SLOPES, hessian=lambda row, h=h: h),
            **settings,
        )
        for h in (upper, 0.5 * (upper + upper.T))
    )
    assert_allclose(given.values, symmetric.values, atol=1e-12)


@pytest.mark.parametrize("x", [0.5, 7.0])
def test_a_thresholded_column_that_holds_no_code_is_refused(x):
    background = np.column_stack([BACKGROUND[:, :3], (BACKGROUND[:, 0] > 0).astype(float)])
    explainer = cs.Explainer(smooth, background, features=cs.GaussianConditional(binary="threshold"))
    row = np.array([0.1, 0.2, 0.3, x])
    with pytest.raises(cs.InvalidArgumentError, match=r"binary='threshold'.*row 0 holds .* in 'x3'.*binary='linear'"):
        explainer(row, budget=200, rng=0)


def test_the_papers_formula_needs_two_rows_to_draw_from():
    settings = {"estimator": cs.Kernel(n_draws=5), "variance": cs.LeastSquares(paper=True), "control": "none"}
    with pytest.raises(cs.InvalidArgumentError, match="needs two or more; got n_draws=1"):
        cs.explain(smooth, X, BACKGROUND[:1], budget=500, rng=0, **settings)


def test_more_draws_than_background_rows_waste_no_budget():
    explanation = cs.explain(
        smooth, X, BACKGROUND, estimator=cs.Kernel(n_draws=500), control="none", budget=20_000, rng=0
    )
    assert (explanation.n_evaluations > 19_900).all()


def test_what_is_computed_once_is_kept_when_workers_did_the_rest(tmp_path):
    background = np.random.default_rng(2).normal(size=(60, 12))
    explainer = cs.Explainer(lambda rows: rows[:, 0], background, features="correlated", control="taylor")
    explainer(background[:3], budget=400, rng=0, n_jobs=2)
    assert "d_matrices" in explainer._assembly.cache
    explainer.save(tmp_path)
    assert (tmp_path / "explainer.npz").is_file()
    assert "d_matrices" in np.load(tmp_path / "explainer.npz")


def test_a_sampled_background_keeps_its_error_when_loaded(tmp_path):
    with pytest.warns(cs.ControlShapWarning, match="20 rows; 8 of them"):
        explainer = cs.Explainer(smooth, BACKGROUND, max_background=8)
    before = explainer(X, budget=200, rng=0)
    explainer.save(tmp_path)
    after = cs.Explainer.load(tmp_path, smooth)(X, budget=200, rng=0)
    assert_array_equal(before.base_standard_errors, after.base_standard_errors)
    assert after.settings["n_background"] == 20


def test_integer_column_names_come_back_as_they_were(tmp_path):
    def model(frame):
        return smooth(frame[[0, 1, 2, 3]].to_numpy())

    explainer = cs.Explainer(model, pd.DataFrame(BACKGROUND))
    before = explainer(X, budget=200, rng=0)
    explainer.save(tmp_path)
    assert_array_equal(cs.Explainer.load(tmp_path, model)(X, budget=200, rng=0).values, before.values)


def test_a_series_is_read_by_its_names():
    frame = pd.DataFrame(BACKGROUND, columns=list("abcd"))
    explainer = cs.Explainer(lambda rows: smooth(rows.to_numpy()), frame)
    straight = explainer(frame.iloc[3], budget=200, rng=0)
    turned = explainer(frame.iloc[3][["d", "b", "a", "c"]], budget=200, rng=0)
    assert_array_equal(straight.values, turned.values)


def test_a_numpy_tolerance_can_be_saved(tmp_path):
    explanation = cs.explain(smooth, X, BACKGROUND, tolerance=np.float32(0.2), budget=4000, rng=0)
    explanation.save(tmp_path)
    assert cs.load(tmp_path).settings["tolerance"] == pytest.approx(0.2)


@pytest.mark.parametrize("estimator", ["permutation", "kernel"])
def test_a_budget_too_small_for_the_groups_is_refused_before_any_call(estimator):
    calls = []

    def model(rows):
        calls.append(len(rows))
        return smooth(rows)

    explainer = cs.Explainer(model, BACKGROUND, estimator=estimator, control="none", variance=cs.Grouped(20))
    with pytest.raises(cs.BudgetTooSmallError, match="40 units") as caught:
        explainer(X, budget=60, rng=0)
    assert not calls
    if estimator == "permutation":  # two coalitions a group are singular for the kernel, and it says so
        assert np.isfinite(explainer(X, budget=caught.value.needed, rng=0).values).all()
