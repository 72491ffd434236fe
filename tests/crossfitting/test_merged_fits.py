"""Controls of runs of many units, which keep batches: nothing controls what it has seen, memory does not grow."""

import tracemalloc

import numpy as np
import pytest
from merging_cases import FEW, explain

import controlshap as cs
from controlshap.crossfitting import fit as learning
from controlshap.crossfitting.folds import deal, deal_chunks
from controlshap.crossfitting.known_gaussian import ConditionedGame, GaussianControls
from controlshap.sampling.game import FunctionGame
from controlshap.sampling.sampler import UnitSampler
from controlshap.statistics import two_stage as strata
from controlshap.statistics.two_stage import TwoStageDesign
from controlshap.statistics.visits import UnitIds


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
        units = list(sampler.kept.replay(100))
        found["of"] = np.concatenate([folds.of(some.ids) for some in units])
        blocks = np.concatenate([some.ids.block for some in units])
        found["plain"] = deal(TwoStageDesign(blocks, sampler.n_blocks), n_folds, other)
        return folds

    original, other = learning.deal_units, learning.stream(1, learning.Purpose.FOLDS, 0)
    monkeypatch.setattr(learning, "deal_units", spy)
    explain(control=cs.LogisticRidge(max_rows=300), budget=10 * n_units + 1)
    assert found["folds"].of_kept is None  # batches are kept
    np.testing.assert_array_equal(found["of"], found["plain"])
    assert len(np.unique(found["of"])) == 5


@pytest.mark.parametrize("estimator", ["permutation", "kernel"])
def test_no_function_has_seen_the_units_that_it_controls(estimator, few, monkeypatch):
    """Gaussian draws make every evaluated row unique, so rows tell units apart."""
    data, games, now = [], {}, []
    rows_of, controls = learning.training_rows, GaussianControls.controls
    evaluate, walk_values = FunctionGame.evaluate, ConditionedGame.walk_values

    def spied(*arguments):
        data.append(rows_of(*arguments))
        return data[-1]

    def of_fold(known, fold, design, draws, rows, *taken):
        now[:] = [games.setdefault(fold, [])]
        return controls(known, fold, design, draws, rows, *taken)

    def kept_evaluations(game, rows):
        for seen in now:
            seen.append(rows.reshape(-1, rows.shape[-1]))
        return evaluate(game, rows)

    def walked(game, permutations, draws, at_draws):  # which needs no rows
        rows = game.imputer.walk_rows(game.drawn.x, permutations, draws)
        now[0].append(rows.reshape(-1, rows.shape[-1]))
        return walk_values(game, permutations, draws, at_draws)

    monkeypatch.setattr(GaussianControls, "controls", of_fold)
    monkeypatch.setattr(FunctionGame, "evaluate", kept_evaluations)
    monkeypatch.setattr(ConditionedGame, "walk_values", walked)
    monkeypatch.setattr(learning, "training_rows", spied)
    explain("correlated", estimator, cs.LogisticRidge(n_folds=3, max_rows=2000), budget=6000)
    assert sorted(games) == [0, 1, 2]
    labels, rows = data[0][0].fold, data[0][0].rows

    def known(some):
        return {row.tobytes() for row in np.round(some, 9)}

    for fold, seen in games.items():
        controlled = known(np.concatenate(seen))
        assert not controlled & known(rows[(labels >= 0) & (labels != fold)])
        assert len(controlled & known(rows[labels == fold])) > 100  # the fold's own, which its function has not seen


def test_independent_units_are_dealt_evenly_however_they_are_thinned():
    for stride in (1, 2, 4, 8):
        units = np.arange(0, 256 * 40, stride)
        counts = np.bincount(deal_chunks(UnitIds(units, units * 0, units), 4, 3, 0), minlength=4)
        assert counts.min() > 0.7 * counts.mean()


@pytest.mark.slow
@pytest.mark.parametrize("control", ["none", "taylor", cs.LogisticRidge(n_folds=2, max_rows=300)], ids=str)
@pytest.mark.parametrize("estimator", ["permutation", "kernel"])
@pytest.mark.parametrize("features", ["independent", "correlated"])
def test_memory_does_not_grow_with_the_budget(features, estimator, control, few, monkeypatch):
    monkeypatch.setattr("controlshap.sampling.kept.MOST_EVALUATIONS", 2000)
    peaks = []
    for budget in (60_000, 240_000):
        tracemalloc.start()
        explain(features, estimator, control, budget=budget, memory_limit=2**20, keep=False)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 2**19


def test_memory_grows_where_every_unit_is_kept(monkeypatch):
    """Negative control: what the test above would see."""
    monkeypatch.setattr(UnitSampler, "most_units", 10**9)
    peaks = []
    for budget in (60_000, 240_000):
        tracemalloc.start()
        explain(budget=budget, memory_limit=2**20, keep=False)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] > peaks[0] + 2**19
