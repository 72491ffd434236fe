"""v(0): where it comes from, and what is spent on it."""

from __future__ import annotations

import numpy as np

from controlshap.estimators.base import Estimator
from controlshap.problem import BaseSample, Problem
from controlshap.sampling.game import COPIES, Game
from controlshap.statistics import two_stage as strata
from controlshap.statistics.batches import Batches, UnitIds

#: Fewest draws behind a v(0) that units do not draw themselves.
FEWEST_BASE_DRAWS = 16
#: Most of them where a tolerance may end the run long before the budget.
MOST_BASE_DRAWS = 4096


def base_sample(
    problem: Problem, game: Game, estimator: Estimator, n_draws: int, budget: int, rng: np.random.Generator
) -> BaseSample:
    """Draws behind v(0): the background or draws for this row; a stand-in where each unit draws its own."""
    base = problem.base
    if base.finite:
        if not game.surrogates:
            return base
        values = np.concatenate([base.values, game.evaluate_surrogates(base.rows)], axis=2)
        return BaseSample(base.rows, values, base.population)
    if estimator.evaluates_base(finite=False):
        return BaseSample(base.rows, np.zeros((1, *game.at_x.shape)), base.population)
    left = budget - game.n_evaluations - n_draws
    n_units = left // estimator.unit_cost(problem.players.n_players, finite=False)
    if min(n_draws, n_units) > strata.MANY_UNITS:
        return _merge_base(problem, game, n_draws, rng)
    rows = problem.imputer.sample(n_draws, rng)
    return BaseSample(rows, game.evaluate(rows), base.population)


def _merge_base(problem: Problem, game: Game, n_draws: int, rng: np.random.Generator) -> BaseSample:
    """Many draws, in batches as units are, and as many at once as the memory limit allows."""
    batches, some = Batches(1), problem.base.rows[:1]
    for part in game.slices(n_draws, COPIES * len(game.x)):
        some = problem.imputer.sample(part.stop - part.start, rng)
        number = np.arange(part.start, part.stop)
        batches.add(UnitIds(number, np.zeros_like(number), number), game.evaluate(some))
    return BaseSample(some[:1], batches.means(), problem.base.population, batches.design(np.inf).sizes)


def base_draws(problem: Problem, estimator: Estimator, budget: int, *, early: bool = False) -> int:
    """Evaluations spent on v(0): its error reaches every value divided by about the number of players."""
    if problem.base.finite or estimator.evaluates_base(finite=False):
        return 0
    wanted = max(FEWEST_BASE_DRAWS, budget // (problem.players.n_players + 1))
    return min(wanted, MOST_BASE_DRAWS) if early else wanted
