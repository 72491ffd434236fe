"""Degrees of freedom and errors of players that few units speak of, against exact counts."""

import numpy as np
import pytest
from scipy.stats import poisson
from scipy.stats import t as student

import controlshap as cs
from controlshap.statistics.control_variate import Estimate
from controlshap.statistics.covariance_root import CovarianceRoot
from controlshap.statistics.one_more_jump import allow_for_jump
from controlshap.statistics.terms import MeanTerms


def allowed(contributions, as_array=np.asarray, live=None, n_walks=1):
    """Errors and degrees of freedom `(..., players)` of means of contributions (..., units, players)."""
    n = contributions.shape[-2]
    values = np.concatenate([contributions, np.zeros((*contributions.shape[:-1], 1))], axis=-1)[..., None]
    mean = values.mean(axis=-3)
    factors = (values - mean[..., None, :, :]) / np.sqrt(n * (n - 1))
    root = CovarianceRoot(as_array(factors[..., None]), np.zeros(n, dtype=np.int64), np.array([n - 1.0]), np.arange(n))
    terms, weights = MeanTerms(as_array(values[..., None]), n_walks), np.full(n, 1.0 / n)
    estimate = Estimate(as_array(mean), as_array(factors), as_array(np.full(mean.shape, n - 1.0)))
    after = allow_for_jump(
        estimate,
        root,
        terms,
        weights,
        None if live is None else as_array(live),
        as_array(np.zeros((*mean.shape[:-2], 1))),
    )
    return np.asarray(after.variances)[..., :-1, 0] ** 0.5, np.asarray(after.dof)[..., :-1, 0]


def jumps(k, n):
    """One player: k units of 1 among n."""
    return (np.arange(n) < k).astype(float)[:, None]


@pytest.mark.parametrize("k", [1, 2, 5, 10])
def test_equal_jumps_have_the_error_of_one_more_and_its_degrees_of_freedom(k, as_array):
    n = 4000
    errors, dof = allowed(jumps(k, n), as_array)
    assert errors[0] == pytest.approx(np.sqrt(k + 1) / n, rel=2 / n + k / n)
    assert dof[0] == pytest.approx(max(3.0, 2 * (k + 1)), rel=0.02)


@pytest.mark.parametrize("n", [200, 2000])
def test_normal_units_are_left_as_they_are(n, as_array):
    contributions = np.random.default_rng(0).normal(size=(n, 6))
    errors, dof = allowed(contributions, as_array)
    # fourth powers of n normal numbers are known to sqrt(32 / 3 n) of their own size; four of these
    noise = 4 * np.sqrt(32 / (3 * n))
    np.testing.assert_allclose(errors**2 * n / contributions.var(axis=0, ddof=1), 1 + 3 / n, atol=3 / n * noise + 1 / n)
    assert (dof > n / (1 + 1.5 * noise) - 2).all()
    assert (dof <= n - 1).all()


def test_an_interval_for_counts_covers_whatever_their_mean():
    """Jumps of one size are Poisson counts: the chance that the interval holds is summed, not sampled."""
    n, counts = 5000, np.arange(140)
    reach = np.empty(len(counts))
    plain = np.empty(len(counts))
    for k in counts:
        # beside a player of many jumps of the same size, so that there is a jump to be allowed where none was seen
        errors, dof = allowed(np.concatenate([jumps(k, n), np.sign(np.sin(np.arange(1, n + 1)))[:, None]], axis=1))
        reach[k] = student.ppf(0.975, dof[0]) * errors[0] * n
        plain[k] = student.ppf(0.975, n - 1) * np.sqrt(k)
    means = np.geomspace(0.05, 60, 60)
    held = [poisson.pmf(counts, mean)[np.abs(counts - mean) <= reach].sum() for mean in means]
    assert min(held) > 0.93
    without = [poisson.pmf(counts, mean)[np.abs(counts - mean) <= plain].sum() for mean in means]
    assert min(without) < 0.06  # Negative control: the units' own spread, with all of their degrees of freedom


def test_a_silent_player_may_jump_as_others_do(as_array):
    rng = np.random.default_rng(1)
    contributions = np.column_stack([rng.normal(size=300), np.zeros(300), np.full(300, 0.3)])
    errors, dof = allowed(contributions, as_array)
    squares = ((contributions[:, 0] - contributions[:, 0].mean()) ** 2) / (300 * 299)
    every = (squares**2).sum() / squares.sum()
    np.testing.assert_allclose(errors[1:] ** 2, every * 300 / 299, rtol=1e-9)
    assert (dof[1:] == 3.0).all()


@pytest.mark.parametrize("n_walks", [1, 2])
def test_without_any_spread_a_jump_is_the_mean_contribution_of_a_walk_by_squares(n_walks, as_array):
    errors, dof = allowed(np.tile([2.0, -1.0, 0.0], (50, 1)), as_array, n_walks=n_walks)
    np.testing.assert_allclose(errors, np.sqrt(17.0 / 5.0) / (n_walks * 50))
    assert (dof == 3.0).all()


def test_players_that_are_known_to_be_zero_have_no_error(as_array):
    contributions = np.column_stack([np.random.default_rng(2).normal(size=40), np.zeros(40)])
    errors, dof = allowed(contributions, as_array, live=np.array([True, False]))
    assert errors[0] > 0 == errors[1]
    assert np.isinf(dof[1])


def test_what_a_control_adds_to_a_silent_player_does_not_count():
    """The plain contributions of a player limit the units that speak of it, whatever noise its factors have."""
    rng = np.random.default_rng(3)
    contributions = np.column_stack([rng.normal(size=100), np.zeros(100)])
    noisy = contributions + np.column_stack([np.zeros(100), 1e-3 * rng.normal(size=100)])
    silent, _ = allowed(contributions)
    speaks, _ = allowed(noisy)
    assert speaks[1] < 0.2 * silent[1]  # a player that does speak, of small things, is believed
    n = 100
    values = np.concatenate([noisy, np.zeros((n, 1))], axis=1)[..., None]
    factors = (values - values.mean(axis=0)) / np.sqrt(n * (n - 1))
    root = CovarianceRoot(factors[..., None], np.zeros(n, dtype=np.int64), np.array([n - 1.0]), np.arange(n))
    plain = np.concatenate([contributions, np.zeros((n, 1))], axis=1)[..., None, None]
    estimate = Estimate(values.mean(axis=0), factors, np.full((3, 1), n - 1.0))
    after = allow_for_jump(estimate, root, MeanTerms(plain), np.full(n, 1.0 / n), None, np.zeros(1))
    assert after.variances[1, 0] ** 0.5 > 0.99 * silent[1]


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_the_unit_of_the_output_changes_nothing(scale):
    contributions = np.random.default_rng(4).standard_t(2, size=(60, 3))
    contributions[:, 2] = 0.0
    errors, dof = allowed(contributions)
    scaled, same = allowed(scale * contributions)
    np.testing.assert_allclose(scaled, scale * errors, rtol=1e-9)
    np.testing.assert_allclose(same, dof, rtol=1e-9)


def test_rows_together_are_rows_one_by_one(as_array):
    contributions = np.random.default_rng(5).standard_t(2, size=(3, 40, 4))
    contributions[1, :, 2] = 0.0
    live = np.array([[True] * 4, [True] * 4, [False] + [True] * 3])
    together = allowed(contributions, as_array, live)
    alone = [allowed(row, as_array, mask) for row, mask in zip(contributions, live, strict=True)]
    for at in range(2):
        np.testing.assert_allclose(together[at], [one[at] for one in alone], rtol=1e-12)


def test_values_that_two_units_tell_of_are_marked():
    rng = np.random.default_rng(6)
    explainer = cs.Explainer(lambda rows: np.tanh(rows.sum(axis=1)), rng.normal(size=(30, 4)), estimator="permutation")
    short, long = (explainer(np.ones((2, 4)), budget=budget, rng=0, keep=False) for budget in (1 + 6 * 3, 400))
    assert not short.reliable.any()
    assert long.reliable.all()
    assert long.reliable.shape == long.values.shape
    exact = explainer(np.ones((1, 4)), budget=20_000, rng=0)
    assert exact.reliable.all()
