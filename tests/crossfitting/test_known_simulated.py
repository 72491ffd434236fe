"""Known values under any value function: enumerated over finite draws, or simulated with an error that is told.

Independent features serve as the value function here, since closed forms say what the values are.
"""

import numpy as np
import pytest
from conftest import make_data
from gaussian_cases import MEMORY, NAMES, bound, network, quadratic
from numpy.testing import assert_allclose
from scipy.stats import f as f_distribution

import controlshap as cs
from controlshap.crossfitting import known_simulated
from controlshap.crossfitting.known_marginal import FittedFunctions
from controlshap.crossfitting.known_simulated import REPLICATIONS, SimulatedControls, simulate_walks
from controlshap.data.players import resolve_players
from controlshap.sampling.game import FunctionGame

DATA = make_data(n_rows=30, seed=2)
PLAYERS = resolve_players(DATA.groups, NAMES)
IMPUTER = cs.Marginal().bind(DATA.background, PLAYERS, NAMES)
FUNCTIONS = [network(2, 0), quadratic(1), network(2, 5)]


def fitted(functions=FUNCTIONS, estimator=None):
    """One output, one fold for each function."""
    of_folds = tuple(((function,),) for function in functions)
    shares = np.full(len(functions), 1.0 / len(functions))
    return FittedFunctions(of_folds, shares, estimator or cs.Permutation(), IMPUTER, DATA.x, MEMORY)


def truth_of(function):
    values = function.draw_values(DATA.x, DATA.background, PLAYERS).mean(axis=0)
    return np.append(values, function.predict(DATA.background).mean())


@pytest.fixture
def sampled(monkeypatch):
    """30 rows and 4 players, that is 480 evaluations, are too many to enumerate; simulations are short."""
    monkeypatch.setattr(known_simulated, "MOST_ROWS", 400)


@pytest.mark.parametrize("memory", [2**10, MEMORY])
def test_finite_draws_of_few_players_are_enumerated_without_error(memory):
    one = fitted()
    one = FittedFunctions(one.by_fold, one.shares, one.estimator, IMPUTER, DATA.x, memory)
    known = SimulatedControls.of(one, np.random.default_rng(0))
    for number, function in enumerate(FUNCTIONS):
        assert_allclose(known.simulated[number][0][0].mean, truth_of(function), atol=1e-7)
    assert np.abs(known.roots(2).factors).max() < 1e-15


def test_simulated_values_are_unbiased_and_their_roots_are_their_error(sampled, global_seed):
    n, truth = 200, np.array([truth_of(function) for function in FUNCTIONS])
    runs = [SimulatedControls.of(fitted(), np.random.default_rng((global_seed, k))).simulated for k in range(n)]
    errors = np.array([[of_fold[0][0].mean for of_fold in run] for run in runs]) - truth
    told = np.mean([[(of_fold[0][0].root_rows ** 2).sum(axis=0) for of_fold in run] for run in runs], axis=0)
    observed = (errors**2).mean(axis=0)
    level, dof = 1e-4 / (2 * truth.size), (n, n * (REPLICATIONS - 1))
    assert (observed < f_distribution.isf(level, *dof) * told).all()
    assert (observed > f_distribution.ppf(level, *dof) * told).all()
    # Negative control: errors of half the size would be noticed.
    assert (observed > f_distribution.isf(level, *dof) * told / 4).any()


@pytest.mark.parametrize("estimator", [cs.Permutation(), cs.Kernel(), cs.Kernel(paired=False, n_draws=3)], ids=str)
def test_controls_have_mean_zero_over_all_draws_and_many_designs(estimator):
    n, rng = 6000, np.random.default_rng(0)
    known = SimulatedControls.of(fitted(estimator=estimator), rng)
    design = estimator.sample(4, n, rng)
    rows = np.resize(np.arange(30), (n, estimator.n_draws))
    controls = known.controls(0, design, DATA.background[rows], rows)
    assert (controls[..., 1] == 0).all()
    missed = controls[..., 0].mean(axis=1) if estimator.is_least_squares else controls[:, :-1, :, 0]
    if estimator.is_least_squares:
        missed = estimator.regressors(design)[:, :, None] * missed[:, None]
        missed = missed - missed.mean(axis=1, keepdims=True)  # values sum to a given total
    else:
        assert (controls[:, -1] == 0).all()  # v(0) is known
    error = missed.std(axis=0) / np.sqrt(n)
    assert (np.abs(missed.mean(axis=0)) < 4.5 * error).all()
    assert np.abs(missed).max() > 0.01


def walks_of(tolerance, n_walks, monkeypatch):
    """Paired walks behind the known values of a network."""
    imputer, x, _ = bound(None)
    game, sizes = FunctionGame.of(((network(),),), x, imputer, MEMORY), []
    sample = known_simulated.sample_permutations

    def spy(p, n_units, rng, *arrangement):
        sizes.append(n_units)
        return sample(p, n_units, rng, *arrangement)

    with monkeypatch.context() as patched:
        patched.setattr(known_simulated, "sample_permutations", spy)
        tolerances = None if tolerance is None else np.array([tolerance])
        simulate_walks(game, np.random.default_rng(0), tolerances, n_walks)
    return sum(sizes)


def test_no_more_is_simulated_than_needed_and_more_with_many_walks_of_the_model(monkeypatch):
    monkeypatch.setattr(known_simulated, "MOST_ROWS", 14_000)  # 7 players, twice: 1000 walks
    assert walks_of(None, 0.0, monkeypatch) == 1000
    assert walks_of(0.0, 0.0, monkeypatch) == 1000
    assert walks_of(1e9, 0.0, monkeypatch) == 100  # one in ten shows that it is enough
    assert 100 < walks_of(3e-3, 0.0, monkeypatch) < 1000
    assert walks_of(0.0, 3.0 * known_simulated.MANY_WALKS, monkeypatch) == 3000
