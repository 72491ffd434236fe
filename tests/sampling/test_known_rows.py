"""Nothing is paid twice: rows of a unit that are known are not shown to the model, and that changes no value."""

import numpy as np
import pytest

import controlshap as cs
from controlshap.data.players import resolve_players
from controlshap.sampling.game import Game
from controlshap.sampling.known_rows import KnownRows
from controlshap.sampling.sampler import UnitSampler
from controlshap.statistics.base_sample import REPEATED
from controlshap.values import Marginal

RNG = np.random.default_rng(0)
BACKGROUND = RNG.integers(0, 3, size=(20, 8)).astype(float)
X = RNG.integers(0, 3, size=(2, 8)).astype(float)
ESTIMATORS = [cs.Permutation(), cs.Permutation(paired=False), cs.Permutation(n_draws=3), cs.Kernel(),
              cs.Kernel(paired=False), cs.Kernel(n_draws=20), cs.Kernel(n_draws=20, reuse=True), cs.PerFeature(),
              "auto"]  # fmt: skip


def model(rows):
    return np.stack([np.tanh(rows.sum(axis=1) - 7.0) + rows[:, 0] * rows[:, 1] * rows[:, 2], rows[:, 3] ** 2], axis=1)


@pytest.mark.parametrize("groups", [None, [[0, 3], [1, 2, 7]]], ids=["columns", "groups"])
def test_keys_are_equal_where_rows_are(groups):
    names = tuple("abcdefgh")
    players = resolve_players(groups, names)
    imputer = Marginal().bind(BACKGROUND, players, names)
    known = KnownRows.of(players, BACKGROUND, model(BACKGROUND))
    p, draws = players.n_players, BACKGROUND[RNG.integers(0, 20, size=(30, 2))]
    coalitions = RNG.random((30, 5, p)) < 0.5
    walks = np.argsort(RNG.random((30, p)), axis=1)
    makers = [(imputer.coalition_rows, known.coalition_keys, coalitions), (imputer.walk_rows, known.walk_keys, walks)]
    rows = np.concatenate([rows(X[0], design, draws) for rows, _, design in makers], axis=1)
    keys = np.concatenate([keys(X[0], design, draws) for _, keys, design in makers], axis=1)
    n_rows = len(np.unique(rows.reshape(-1, 8), axis=0))
    assert n_rows < keys.size, "some rows come twice"
    assert len(np.unique(np.column_stack([keys.reshape(-1, 1).view(float), rows.reshape(-1, 8)]), axis=0)) == n_rows
    assert len(np.unique(keys)) == n_rows


def test_columns_and_small_differences_are_told_apart():
    """Sums of values, or of values hashed alike in every column, would not tell these apart."""
    rows = np.array(
        [[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [1.0, 2.0, -0.0], [1.0, 2.0, 5e-324], [3.0, 0.0, 0.0], [0.0] * 3]
    )
    assert len(KnownRows.of(resolve_players(None, tuple("abc")), rows, rows).keys) == len(rows)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_values_are_the_same_for_the_same_units(estimator, monkeypatch):
    monkeypatch.setattr(UnitSampler, "affordable", lambda _, n: min(n, 40))
    settings = {"estimator": estimator, "control": "none"}
    found = cs.Explainer(model, BACKGROUND, **settings)(X, budget=5_200, rng=0)
    monkeypatch.setattr(Game, "remember", lambda *_: None)
    paid = cs.Explainer(model, BACKGROUND, **settings)(X, budget=5_200, rng=0)
    np.testing.assert_allclose(found.values, paid.values, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.standard_errors, paid.standard_errors, rtol=1e-9, atol=1e-12)
    assert (found.n_evaluations < paid.n_evaluations).all()


@pytest.mark.parametrize("estimator", [cs.Permutation(), cs.Kernel(n_draws=20, reuse=True), "auto"], ids=str)
def test_neither_x_nor_the_background_is_shown_again(estimator):
    seen = []

    def watched(rows):
        seen.extend(row.tobytes() for row in np.asarray(rows, dtype=float))
        return model(rows)

    explanation = cs.Explainer(watched, BACKGROUND, estimator=estimator, control="none")(X[:1], budget=5_200, rng=0)
    known = {row.tobytes() for row in [*BACKGROUND, *X[:1]]}
    # but for some background rows, whose answers tell whether the model adds noise
    assert not known.intersection(seen[20 + REPEATED + 1 :])
    assert explanation.n_evaluations[0] == len(seen) - 20 - REPEATED


@pytest.mark.parametrize("estimator", ESTIMATORS[:7], ids=str)
def test_a_budget_buys_more_units_and_is_kept(estimator):
    rng = np.random.default_rng(1)
    background, x = (rng.integers(0, 4, size=(n, 14)).astype(float) for n in (20, 1))
    explainer = cs.Explainer(
        lambda r: np.tanh(r @ np.arange(14.0) / 30), background, estimator=estimator, control="none"
    )
    n_evaluations = explainer(x, budget=2_000, rng=0).n_evaluations[0]
    assert 2_000 - estimator.unit_cost(14, finite=True) < n_evaluations <= 2_000


def test_a_walk_pays_for_steps_that_change_something():
    """x differs from the only background row in three of ten players: 2 (3 - 1) rows for a pair of walks, not 18."""
    background, x = np.zeros((1, 10)), np.zeros((1, 10))
    x[0, :3] = [1.0, 2.0, 3.0]
    explainer = cs.Explainer(lambda r: np.tanh(r.sum(axis=1)), background, estimator="permutation", control="none")
    explanation = explainer(x, budget=1 + 4 * 18, rng=0)
    assert explanation.n_evaluations[0] == 1 + 4 * 18
    np.testing.assert_allclose(explanation.values[0, 3:], 0.0, atol=1e-12)
