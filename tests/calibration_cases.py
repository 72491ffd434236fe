"""Replications of one row held against its true values, shared by the calibration tests."""

import warnings
from functools import cache

import numpy as np
from conftest import make_data
from scipy.stats import norm

import controlshap as cs
from controlshap.testing import gaussian_quadratic_game, marginal_game, shapley_by_definition

N = 400
DATA = make_data(n_rows=40)
RNG = np.random.default_rng(5)
WEIGHTS = RNG.normal(size=(2, 7))
SLOPE, BEND = RNG.normal(size=(2, 7)), 0.25 * RNG.normal(size=(2, 7, 7))


def quadratic2(rows):
    return rows @ SLOPE.T + np.einsum("ni,oij,nj->no", rows, BEND, rows)


def smooth2(rows):
    """Two outputs with interactions of all orders, saturating mildly, as a network's probability does."""
    score = 0.35 * rows @ WEIGHTS.T
    score[:, 0] += 0.3 * rows[:, 0] * rows[:, 1] - 0.2 * rows[:, 2] * rows[:, 5] * rows[:, 3]
    score[:, 1] += 0.3 * rows[:, 2] * rows[:, 1] + 0.2 * rows[:, 0] * rows[:, 4] * rows[:, 3]
    return np.tanh(0.7 * score)


@cache
def explainer_and_truth(features, estimator, control, variance, coefficient="auto"):
    model = smooth2 if features == "independent" else quadratic2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.ControlShapWarning)
        explainer = cs.Explainer(
            model, DATA.background, features=features, estimator=estimator, control=control, variance=variance,
            groups=DATA.groups, coefficient=coefficient,
        )  # fmt: skip
    if features == "independent":
        game = marginal_game(model, DATA.x, DATA.background, DATA.columns)
    else:
        moments = explainer._assembly.imputer.moments
        covariance = moments.correlation * np.outer(moments.scale, moments.scale)
        game = gaussian_quadratic_game(SLOPE, BEND, DATA.x, moments.mean, covariance, DATA.columns)
    return explainer, shapley_by_definition(game, len(DATA.columns))


#: Most that reported errors may exceed observed ones, in the median over players, and most that intervals of 95 % may
#: hold: the promise of docs/errors.md.
WIDEST, MOST = 1.4, 0.985


def replicate(settings, budget, seed, n=N):
    explainer, truth = explainer_and_truth(*settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.ControlShapWarning)
        return explainer(np.tile(DATA.x, (n, 1)), budget=budget, rng=seed), truth


def check(explanation, truth, *, least=0.93):
    values, errors = explanation.values, explanation.standard_errors
    n, n_values = len(values), truth.size
    observed = values.std(axis=0, ddof=1)
    z = (values.mean(axis=0) - truth) / (observed / np.sqrt(n))
    limit = norm.isf(1e-4 / (2 * n_values))
    assert np.abs(z).max() < limit, f"biased: |z| = {np.abs(z).max():.2f}"
    variance = errors**2
    ratio = variance.mean(axis=0) / observed**2
    kurtosis = ((values - values.mean(axis=0)) ** 4).mean(axis=0) / observed**4
    noise = np.sqrt((kurtosis - 1) / n + (variance.std(axis=0) / variance.mean(axis=0)) ** 2 / n)
    assert (np.log(ratio) > -limit * noise).all(), f"variance ratio {ratio.round(2).tolist()}"
    # one more jump than was seen makes errors of few units wider: single players by more than the median
    assert np.median(np.log(ratio) - limit * noise) < 2 * np.log(WIDEST), f"variance ratio {ratio.round(2).tolist()}"
    low, high = explanation.confidence_interval(0.95)
    inside = ((low <= truth) & (truth <= high)).mean(axis=(1, 2))  # share of a replication's values
    # replications are independent, values of one are not: the standard error of the mean share is its own
    error = inside.std(ddof=1) / np.sqrt(n)
    assert least - 3.9 * error < inside.mean() < MOST + 3.9 * error, f"coverage {inside.mean():.3f}"


def check_together(explanation, truth):
    """Squared errors against reported ones over all values at once: smaller shortfalls show than in any one value."""
    values, errors = explanation.values, explanation.standard_errors
    excess = (((values - truth) ** 2 - errors**2) / values.var(axis=0, ddof=1)).mean(axis=(1, 2))
    z = excess.mean() / (excess.std(ddof=1) / np.sqrt(len(excess)))
    # a player that hardly varies is allowed a jump of the row's size, so widths are judged for the row as a whole
    widths = ((values - truth) ** 2 - errors**2).sum(axis=(1, 2)) / values.var(axis=0, ddof=1).sum()
    wide = 1.0 - WIDEST**2 - 4.5 * widths.std(ddof=1) / np.sqrt(len(widths))
    assert z < 4.5, f"reported variances are too small by {excess.mean():.2f} of the observed ones (z = {z:.1f})"
    assert np.median(widths) > wide, f"reported variances are too large by {-widths.mean():.2f} of the observed ones"


def check_nothing_seen(errors):
    """Errors `(players,)` or `(players, outputs)` of a row whose units show none: one unseen jump, alike for all."""
    assert (errors > 0).all()
    assert (np.ptp(errors, axis=0) < 1e-9 * errors.max(axis=0)).all()
