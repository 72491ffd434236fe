"""Controls of runs of many units, which keep batches: nothing controls what it has seen, memory does not grow."""

import tracemalloc

import numpy as np
import pytest
from merging_cases import FEW, explain

import controlshap as cs
from controlshap.crossfitting import fit as learning
from controlshap.crossfitting.folds import DealtByBlock, DealtByChunk, deal
from controlshap.crossfitting.known_gaussian import SimulatedReference
from controlshap.sampling.game import FunctionGame
from controlshap.sampling.sampler import Sampler
from controlshap.statistics import two_stage as strata
from controlshap.statistics.batches import Numbers
from controlshap.statistics.two_stage import Strata


@pytest.fixture
def few(monkeypatch):
    """A few hundred units are many."""
    monkeypatch.setattr(strata, "MANY_UNITS", FEW)


@pytest.mark.parametrize("n_units", [150, 2000])
def test_units_are_dealt_as_they_are_one_by_one(n_units, few, monkeypatch):
    found = {}

    def spy(sampler, n_folds, rng):
        folds = original(sampler, n_folds, rng)
        found["folds"] = folds
        found["of"] = np.concatenate([folds.of(numbers) for numbers, *_ in sampler.replay(100)])
        found["plain"] = deal(Strata(sampler.visits(sampler.n_units), sampler.n_blocks), n_folds, other)
        return folds

    original, other = learning.deal_units, learning.stream(1, learning.Purpose.FOLDS, 0)
    monkeypatch.setattr(learning, "deal_units", spy)
    explain(control=cs.LogisticRidge(max_rows=300), budget=10 * n_units + 1)
    assert isinstance(found["folds"], DealtByBlock)
    np.testing.assert_array_equal(found["of"], found["plain"])
    assert len(np.unique(found["of"])) == 5


@pytest.mark.parametrize("estimator", ["permutation", "kernel"])
def test_no_function_has_seen_the_units_that_it_controls(estimator, few, monkeypatch):
    """Gaussian draws make every evaluated row unique, so rows tell units apart."""
    data, games = [], []
    rows_of, make = learning.training_rows, FunctionGame.of

    def spied(*arguments):
        data.append(rows_of(*arguments))
        return data[-1]

    class Watched:
        @staticmethod
        def of(*arguments):
            game = make(*arguments)
            seen, evaluate = [], game.evaluate
            game.evaluate = lambda rows: (seen.append(rows.reshape(-1, rows.shape[-1])), evaluate(rows))[1]
            games.append(seen)
            return game

    def watched(reference, fold, permutations, draws):
        for order in (permutations, permutations[:, ::-1]):
            rows = reference.imputer.walk_rows(reference.x, order, draws)
            games[fold].append(rows.reshape(-1, rows.shape[-1]))
        return of_walks(reference, fold, permutations, draws)

    of_walks = SimulatedReference.walk_controls
    monkeypatch.setattr(SimulatedReference, "walk_controls", watched)
    monkeypatch.setattr(learning, "training_rows", spied)
    monkeypatch.setattr(learning, "FunctionGame", Watched)
    explain("correlated", estimator, cs.LogisticRidge(n_folds=3, max_rows=2000), budget=6000)
    assert len(games) == 3
    labels, rows = data[0][0].fold, data[0][0].rows

    def known(some):
        return {row.tobytes() for row in np.round(some, 9)}

    for fold, seen in enumerate(games):
        controlled = known(np.concatenate(seen))
        assert not controlled & known(rows[(labels >= 0) & (labels != fold)])
        assert len(controlled & known(rows[labels == fold])) > 100  # the fold's own, which its function has not seen


def test_independent_units_are_dealt_evenly_however_they_are_thinned():
    class Some:
        entropy, row = 3, 0

    folds = DealtByChunk(Some, 4)
    for stride in (1, 2, 4, 8):
        units = np.arange(0, 256 * 40, stride)
        counts = np.bincount(folds.of(Numbers(units, units * 0, units)), minlength=4)
        assert counts.min() > 0.7 * counts.mean()


@pytest.mark.parametrize("control", ["none", "taylor", cs.LogisticRidge(n_folds=2, max_rows=300)], ids=str)
@pytest.mark.parametrize("estimator", ["permutation", "kernel"])
@pytest.mark.parametrize("features", ["independent", "correlated"])
def test_memory_does_not_grow_with_the_budget(features, estimator, control, few, monkeypatch):
    monkeypatch.setattr("controlshap.sampling.batching.MOST_TRACED", 2000)
    peaks = []
    for budget in (60_000, 240_000):
        tracemalloc.start()
        explain(features, estimator, control, budget=budget, memory_limit=2**20, keep=False)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 2**19


def test_memory_grows_where_every_unit_is_kept(monkeypatch):
    """Negative control: what the test above would see."""
    monkeypatch.setattr(Sampler, "most_units", 10**9)
    peaks = []
    for budget in (60_000, 240_000):
        tracemalloc.start()
        explain(budget=budget, memory_limit=2**20, keep=False)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] > peaks[0] + 2**19
