"""Residuals that processes leave of pairs: exact where all pairs are there, else with the variance that is reported."""

from __future__ import annotations

import numpy as np
import pytest

import controlshap as cs
from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.crossfitting.coalition_controls import count_residuals
from controlshap.statistics.size_strata import count_pairs
from controlshap.testing.oracles import marginal_game, shapley_by_definition

THERE = np.array([8.0, 40.0])
N_PROCESSES = 4


def _deal(rng: np.random.Generator, n: tuple[int, int], room: int) -> tuple[IntArray, BoolArray, IntArray]:
    """Sizes of the pairs here, what each process knows of them, and their places among all pairs of the size."""
    size = np.repeat([0, 1], n)
    fold = np.concatenate([np.full(n[0], -1), np.arange(n[1]) % N_PROCESSES])
    known = np.zeros((N_PROCESSES, len(size)), dtype=bool)
    for k in range(N_PROCESSES):
        known[k, rng.permutation(np.flatnonzero(fold != k))[:room]] = True
    places = np.concatenate([rng.permutation(int(count))[:here] for count, here in zip(THERE, n, strict=True)])
    return size, known, places


def test_all_pairs_together_are_exact(global_seed: int) -> None:
    rng = np.random.default_rng(global_seed)
    size, known, _ = _deal(rng, (8, 40), room=15)
    left = rng.normal(size=(N_PROCESSES, 48))
    for_values, for_errors = count_residuals(left, known, size, THERE)
    for s in (0, 1):  # each process leaves its own sum over the pairs of a size
        assert for_values[size == s].sum() == pytest.approx(left[:, size == s].mean(axis=0).sum(), abs=1e-12)
    assert not for_errors.any()


@pytest.mark.parametrize("room", [6, 20, 100])
@pytest.mark.parametrize("here", [12, 30, 38])
def test_variance_is_the_one_observed(here: int, room: int, global_seed: int) -> None:
    rng = np.random.default_rng(global_seed)
    n_runs, errors, reported = 4000, [], []
    for _ in range(n_runs):
        size, known, places = _deal(rng, (8, here), room)
        h = rng.normal(size=40)
        of_pairs = np.concatenate([np.zeros(8), h[places[8:]]])
        left = np.where(known, 0.0, of_pairs)
        for_values, for_errors = count_residuals(left, known, size, THERE)
        mine = size == 1
        # processes leave nothing of what they know: the truth is the mean over processes of sums over the other pairs
        truth = h.sum() - known[:, mine].mean(axis=0) @ of_pairs[mine]
        errors.append(40.0 * for_values[mine].mean() - truth)
        met = ~known[:, mine].all(axis=0)
        reported.append(40.0 * (40.0 - here) / here * (for_errors[mine][met] ** 2).mean())
    # the mean square of n normal errors has the relative standard deviation sqrt(2 / n); level 1e-5
    tolerance = 4.5 * np.sqrt(2.0 / n_runs) + 0.02
    assert np.mean(np.square(errors)) == pytest.approx(np.mean(reported), rel=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [300, 480])
def test_more_pairs_than_a_process_has_room_for(budget: int, global_seed: int) -> None:
    rng = np.random.default_rng(global_seed)
    weights = rng.normal(size=(10, 12))

    def model(rows: FloatArray) -> FloatArray:
        return np.asarray(np.maximum(rows @ weights, 0.0).sum(axis=1))

    background, x = rng.normal(size=(1, 10)), rng.normal(size=(3, 10))
    assert sum(count_pairs(10)) == 511
    control = cs.CoalitionProcess(start=None, max_units=60)
    explainer = cs.Explainer(model, background, estimator=cs.Kernel(n_draws=1, reuse=True), control=control)
    alone = [[player] for player in range(10)]
    games = [marginal_game(model, row, background, alone) for row in x]
    truth = np.stack([shapley_by_definition(game, 10)[:, 0] for game in games])
    ratios = []
    for run in range(20):
        explanation = explainer(x, budget=2 * budget, rng=run)
        ratios.append(((explanation.values - truth) / explanation.standard_errors) ** 2)
    # 60 rows with 10 dependent players: the mean square of t values is about 1, with a standard deviation below 0.16
    assert 0.5 < np.mean(ratios) < 1.7
