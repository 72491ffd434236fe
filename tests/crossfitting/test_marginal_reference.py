"""A mean over a large background from visited rows and a part of the others: unbiased, and its error is told."""

import warnings

import numpy as np
import pytest
from calibration_cases import check, check_together, smooth2
from conftest import make_data
from gaussian_cases import NAMES, network
from numpy.testing import assert_allclose
from scipy.stats import norm

import controlshap as cs
from controlshap.crossfitting import known_marginal
from controlshap.crossfitting.known_marginal import GROUPS, FittedFunctions, MarginalControls
from controlshap.data.players import resolve_players
from controlshap.testing import marginal_game, shapley_by_definition

DATA = make_data(n_rows=600, seed=2)
PLAYERS = resolve_players(DATA.groups, NAMES)
SHARES = np.array([0.4, 0.35, 0.25])
#: Alike, as functions fitted to two thirds of the same rows are, and not the same.
FUNCTIONS = [network(2, seed=4), network(2, seed=4), network(2, seed=5)]
LESS_ALIKE = [network(2, seed=4), network(2, seed=6), network(1, seed=5)]


def reference(functions, seed, n_visited=60, fold=None):
    rng = np.random.default_rng([1, seed])
    drawn = np.sort(rng.permutation(len(DATA.background))[:n_visited])[:, None]
    return MarginalControls.of(fitted(functions, SHARES), drawn, fold, np.random.default_rng([2, seed]))


def fitted(functions, shares):
    """One output, one fold for each function."""
    imputer = cs.Marginal().bind(DATA.background, PLAYERS, NAMES)
    of_folds = tuple(((function,),) for function in functions)
    return FittedFunctions(of_folds, shares, cs.Permutation(), imputer, DATA.x, 2**24)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(known_marginal, "MOST_ROWS", 100)


def true_mean(functions):
    means = [function.draw_values(DATA.x, DATA.background, PLAYERS).mean(axis=0) for function in functions]
    return np.tensordot(SHARES, np.stack(means), axes=1)


def replications(functions, each, n, monkeypatch):
    """Squared errors of the folds' means together, `(n, players)`, and what their roots say."""
    monkeypatch.setattr(known_marginal, "MOST_OTHERS", each)
    truth, errors, told = true_mean(functions), [], []
    for seed in range(n):
        one = reference(functions, seed)
        errors.append(np.tensordot(SHARES, np.stack(one.means), axes=1)[:, 0, 0] - truth)
        told.append((one.errors**2).sum(axis=0)[:, 0, 0])
    return np.array(errors), np.array(told)


@pytest.mark.slow
@pytest.mark.parametrize("functions", [FUNCTIONS, LESS_ALIKE], ids=["alike", "less alike"])
@pytest.mark.parametrize("each", [40, 180], ids=["a few of the others", "all of the others"])
def test_means_are_unbiased_and_their_error_is_told(functions, each, small, monkeypatch):
    n = 400
    errors, told = replications(functions, each, n, monkeypatch)
    limit = norm.isf(1e-4 / (2 * 2 * errors.shape[1]))
    z = errors.mean(axis=0) / (errors.std(axis=0, ddof=1) / np.sqrt(n))
    assert np.abs(z).max() < limit
    noise = np.sqrt((errors**2).var(axis=0) / n + told.var(axis=0) / n)
    assert (np.abs((errors**2).mean(axis=0) - told.mean(axis=0)) < limit * noise).all()
    # Negative controls: errors of three quarters the size; and, where all of the others have been taken, errors as if
    # they had been drawn from infinitely many.
    assert (np.abs((errors**2).mean(axis=0) - told.mean(axis=0) / 0.75**2) > limit * noise).any()
    if each == 180:
        monkeypatch.setattr(known_marginal, "_errors", errors_of_infinitely_many)
        _, more = replications(functions, each, 40, monkeypatch)
        assert (more.mean(axis=0) > 1.5 * told.mean(axis=0)).any()


TOLD = known_marginal._errors


def errors_of_infinitely_many(values, of_others, shares, population):
    return TOLD(values, of_others, shares, 1000 * population)


def test_a_small_background_is_known_without_error():
    one = reference(FUNCTIONS, 0)
    assert len(one.errors) == 0
    assert_allclose(np.tensordot(SHARES, np.stack(one.means), axes=1)[:, 0, 0], true_mean(FUNCTIONS), rtol=1e-12)
    assert len(one.roots(2).factors) == 0


def test_a_background_that_was_nearly_all_visited_is_known_without_error(small):
    one = reference(FUNCTIONS, 0, n_visited=590)
    assert len(one.errors) == 0
    assert_allclose(np.tensordot(SHARES, np.stack(one.means), axes=1)[:, 0, 0], true_mean(FUNCTIONS), rtol=1e-12)


def test_one_function_for_all_folds_and_all_rows_has_no_error(small):
    """540 others in three equal parts, held against with equal shares: nothing is left to chance."""
    shared = FUNCTIONS[:1] * 3
    drawn = np.arange(60)[:, None]
    one = MarginalControls.of(fitted(shared, np.full(3, 1 / 3)), drawn, None, np.random.default_rng(0))
    assert_allclose(np.mean(one.means, axis=0)[:, 0, 0], true_mean(shared), rtol=1e-8)
    assert one.errors.shape[0] == 3 * GROUPS
    assert np.abs(one.errors).max() < 1e-7 * np.abs(one.means).max()


def test_values_out_of_reach_are_no_control_and_have_no_error(small):
    class OutOfReach(cs.KnownFunction):
        def predict(self, rows):
            return np.zeros(len(rows))

        def draw_values(self, x, draws, players):
            return None

    one = reference([OutOfReach()] * 3, 0)
    assert (one.roots(2).factors == 0).all()


# ------------------------------------------------------------------------------------------------ in an explanation


BUDGETS = {"walks": (cs.Permutation(), 400), "kernel": (cs.Kernel(), 160), "two draws": (cs.Kernel(n_draws=2), 300)}


def explained(estimator, seed, n):
    kind, budget = BUDGETS[estimator]
    explainer = cs.Explainer(
        smooth2, DATA.background, estimator=kind, control=cs.LogisticRidge(n_folds=3, max_rows=300), groups=DATA.groups
    )
    truth = shapley_by_definition(marginal_game(smooth2, DATA.x, DATA.background, DATA.columns), len(DATA.columns))
    return explainer(np.tile(DATA.x, (n, 1)), budget=budget, rng=seed), truth


@pytest.mark.parametrize("estimator", BUDGETS)
def test_values_are_unbiased_and_errors_calibrated(estimator, small, monkeypatch, global_seed):
    monkeypatch.setattr(known_marginal, "MOST_OTHERS", 40)
    explanation, truth = explained(estimator, global_seed, 200)
    check(explanation, truth, least=0.91)
    check_together(explanation, truth)


def test_an_error_of_the_mean_that_is_not_told_is_caught(small, monkeypatch, global_seed):
    # Negative control of the test above, with the error of the mean larger than there.
    monkeypatch.setattr(known_marginal, "MOST_OTHERS", 40)
    monkeypatch.setattr(known_marginal, "_errors", lambda *parts: 0.0 * TOLD(*parts))
    explanation, truth = explained("walks", global_seed, 400)
    with pytest.raises(AssertionError, match=r"variance"):
        check_together(explanation, truth)


def test_rows_that_were_not_visited_take_noise_off(small, monkeypatch, global_seed):
    explanation, _ = explained("walks", global_seed, 150)
    monkeypatch.setattr(known_marginal, "MOST_OTHERS", 0)  # would leave the others out: then all are computed
    whole, _ = explained("walks", global_seed, 150)
    ratio = explanation.values.var(axis=0).sum() / whole.values.var(axis=0).sum()
    assert 0.6 < ratio < 1.6  # parts of the others are nearly as good as all of them
    assert explanation.values.var(axis=0).sum() < 0.7 * explanation.uncontrolled_values.var(axis=0).sum()


def test_a_fold_whose_rows_are_all_taken_shifts_nothing():
    """Ten rows, one of them far from the others and visited several times: some fold may have no other row."""
    rows = np.random.default_rng(0).normal(size=(11, 8))
    rows[0] *= 6.0
    explainer = cs.Explainer(lambda a: (a**3).sum(axis=1) + a[:, :3].prod(axis=1), rows[:10])
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = explainer(rows[10:], budget=70, rng=0)
    assert np.isfinite(found.values).all()
    assert np.isfinite(found.standard_errors).all()
