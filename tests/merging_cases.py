"""A cheap model whose runs have many units, as `MANY_UNITS` is lowered."""

import warnings

import numpy as np

import controlshap as cs
from controlshap.data.players import resolve_players
from controlshap.sampling.units import UnitStream
from controlshap.statistics.base_sample import BaseSample

FEW = 64
RNG = np.random.default_rng(0)
BACKGROUND, SLOPES = RNG.normal(size=(37, 6)), RNG.normal(size=6)
X = BACKGROUND[:1] + 0.3


def model(rows):
    return np.tanh(0.5 * rows @ SLOPES + 0.3 * rows[:, 0] * rows[:, 1] + 0.3 * rows[:, 2] * rows[:, 3] * rows[:, 4])


def explain(features="independent", estimator="permutation", control="none", budget=20_000, **settings):
    made = {name: settings.pop(name) for name in ("variance", "memory_limit") if name in settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.ControlShapWarning)
        explainer = cs.Explainer(model, BACKGROUND, features=features, estimator=estimator, control=control, **made)
        return explainer(X, budget=budget, rng=1, **settings)


def unit_stream(n_rows, seed, visiting="in cycles", n_draws=1):
    """Walks over a background of so many rows."""
    rows = np.arange(float(n_rows))[:, None]
    imputer = cs.Marginal().bind(rows, resolve_players(None, ["c"]), ("c",))
    base = BaseSample(rows, rows[:, :, None], n_rows)
    return UnitStream(cs.Permutation(n_draws=n_draws), imputer, base, seed, 0, visiting)
