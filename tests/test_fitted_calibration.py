"""Controls that are fitted to the evaluations: unbiased values, honest errors, and no harm where they do not fit.

In the manner of `test_calibration.py`: copies of one row are independent replications, and `check` is its check. Groups
(a pair of columns, a one-hot block), two outputs, less than one pass over the background and more than two. The learners
are small, and so are the simulations behind known values, so that their error is a part of what is checked.
"""

import warnings
from functools import cache

import numpy as np
import pytest
from scipy.stats import norm
from test_calibration import BEND, DATA, SLOPE, check, quadratic2, smooth2

import controlshap as cs
from controlshap.surrogates import simulated
from controlshap.testing import conditional_map, gaussian_quadratic_game, marginal_game, shapley_by_definition

RNG = np.random.default_rng(8)
UNITS, SCALES, LINES = 0.5 * RNG.normal(size=(2, 2, 7)), RNG.normal(size=(2, 2)), 0.2 * RNG.normal(size=(2, 7))
CONTROLS = {
    "ridge": cs.LogisticRidge(n_folds=3),
    "network": cs.RidgeNetwork(2, n_folds=2, max_rows=250),
    "polynomial": cs.Polynomial(n_folds=4),
    "trees": cs.Trees(n_trees=5, n_leaves=5, n_folds=2),
}
ESTIMATORS = {
    "walks": cs.Permutation(),
    "unpaired walks": cs.Permutation(paired=False),
    "walks with 3 draws": cs.Permutation(n_draws=3),
    "kernel": cs.Kernel(),
    "unpaired kernel": cs.Kernel(paired=False),
    "kernel with 3 draws": cs.Kernel(n_draws=3),
}


def network2(rows):
    """Two outputs with interactions of all orders, whose conditional means are integrals over one variable each."""
    return np.einsum("nou,ou->no", np.tanh(np.einsum("nc,ouc->nou", rows, UNITS)), SCALES) + rows @ LINES.T


def network_game(x, mean, covariance, columns):
    grid = np.linspace(-9.0, 9.0, 1201)
    density = norm.pdf(grid) * (grid[1] - grid[0])

    def v(coalition):
        revealed = [column for player in coalition for column in columns[player]]
        matrix = conditional_map(covariance, revealed)
        center, spread = mean + matrix @ (x - mean), covariance - matrix @ covariance
        sd = np.sqrt(np.maximum(np.einsum("ouc,cd,oud->ou", UNITS, spread, UNITS), 0.0))
        hidden = np.tanh((UNITS @ center)[..., None] + sd[..., None] * grid) @ density
        return (SCALES * hidden).sum(axis=1) + LINES @ center

    return v


def odd2(rows):
    """What no surrogate here fits: parity, and a wave of high frequency."""
    parity = np.sign(rows[:, 0]) * np.sign(rows[:, 1] - 0.1) * np.sign(rows[:, 2] + 0.1) * np.sign(rows[:, 5] - 0.5)
    return np.column_stack([parity, np.sin(9.0 * (rows[:, 0] + rows[:, 2]) + 7.0 * rows[:, 3]) * (1.0 + rows[:, 4])])


@cache
def explainer_and_truth(features, estimator, control, model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.ControlShapWarning)
        explainer = cs.Explainer(
            model, DATA.background, features=features, estimator=ESTIMATORS[estimator], control=CONTROLS[control],
            groups=DATA.groups,
        )  # fmt: skip
    if features == "independent":
        game = marginal_game(model, DATA.x, DATA.background, DATA.columns)
    else:
        moments = explainer._imputer.moments
        covariance = moments.correlation * np.outer(moments.scale, moments.scale)
        if model is quadratic2:
            game = gaussian_quadratic_game(SLOPE, BEND, DATA.x, moments.mean, covariance, DATA.columns)
        else:
            game = network_game(DATA.x, moments.mean, covariance, DATA.columns)
    return explainer, shapley_by_definition(game, len(DATA.columns))


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(simulated, "MOST_PAIRS", 200)
    monkeypatch.setattr(simulated, "FEWEST_PAIRS", 200)
    monkeypatch.setattr(simulated, "MOST_ROWS", 8000)


def replicate(features, estimator, control, model, budget, seed, n):
    explainer, truth = explainer_and_truth(features, estimator, control, model)
    return explainer(np.tile(DATA.x, (n, 1)), budget=budget, rng=seed), truth


def check_together(explanation, truth):
    """Squared errors against reported ones over all values at once: smaller shortfalls show than in any one value."""
    values, errors = explanation.values, explanation.standard_errors
    excess = (((values - truth) ** 2 - errors**2) / values.var(axis=0, ddof=1)).mean(axis=(1, 2))
    z = excess.mean() / (excess.std(ddof=1) / np.sqrt(len(excess)))
    assert abs(z) < 4.5, f"reported variances are off by {excess.mean():.2f} of the observed ones (z = {z:.1f})"


#: Less than a pass over 40 rows, and two or more: 6 evaluations a pair of walks, 2 a pair of coalitions.
BUDGETS = {"walks": (200, 500), "kernel": (120, 500)}
CELLS = [
    (features, estimator, control, budget)
    for features in ("independent", "correlated")
    for estimator, budgets in BUDGETS.items()
    for control in CONTROLS
    for budget in budgets
]


@pytest.mark.parametrize(("features", "estimator", "control", "budget"), CELLS, ids=str)
def test_values_are_unbiased_and_errors_calibrated(features, estimator, control, budget, global_seed):
    model = smooth2 if features == "independent" else network2
    n = 240 if features == "independent" else 160
    explanation, truth = replicate(features, estimator, control, model, budget, global_seed, n)
    check(explanation, truth, least=0.93 if budget >= 500 else 0.88)
    check_together(explanation, truth)
