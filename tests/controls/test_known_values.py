"""Theorems 1 and 2, for players and groups, against enumeration of the Taylor polynomial itself."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

import controlshap as cs
from controlshap.controls.base import Context
from controlshap.controls.d_matrices import DMatrices, _simulate, d_matrices
from controlshap.data.players import resolve_players
from controlshap.models.model import as_model
from controlshap.testing import gaussian_quadratic_game, marginal_game, pathwise_game, shapley_by_definition
from controlshap.values.base import Imputer

NAMES = tuple(f"c{i}" for i in range(7))


def fitted(data, value_function, *, outputs=2):
    players = resolve_players(data.groups, NAMES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.SingularCovarianceWarning)
        imputer = value_function.bind(data.background, players, NAMES)
    rng = np.random.default_rng(9)
    gradient = rng.normal(size=(outputs, 7))
    bend = rng.normal(size=(outputs, 7, 7))
    hessian = bend + bend.transpose(0, 2, 1)
    at_x = rng.normal(size=outputs)
    control = cs.Taylor(gradient=lambda row: gradient, hessian=lambda row: hessian)
    context = Context(
        data.x, at_x, data.background, lambda rows: rows, 1000, as_model(data.model), imputer, players,
        NAMES, {},
    )  # fmt: skip
    return control.prepare(context), imputer


@pytest.mark.parametrize("grouped", [True, False])
def test_theorem_1_is_exact_with_the_covariance_of_whole_rows(data, plain_data, grouped):
    data = data if grouped else plain_data
    control, _ = fitted(data, cs.Marginal())
    known = control.known
    v = marginal_game(control.predict, data.x, data.background, data.columns)
    expected = shapley_by_definition(v, len(data.columns))
    assert_allclose(known.values[:-1, :, 0], expected, atol=1e-9)
    assert_allclose(known.values[-1, :, 0], v(frozenset()), atol=1e-9)
    assert len(known.root.factors) == 0


@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize("draws", ["gaussian", "background"])
def test_theorem_2_is_exact_for_few_players(data, plain_data, grouped, draws):
    data = data if grouped else plain_data
    control, imputer = fitted(data, cs.GaussianConditional(draws=draws))
    known, polynomial = control.known, control.predict
    moments = imputer.moments
    covariance = moments.correlation * np.outer(moments.scale, moments.scale)
    if draws == "background":
        v = pathwise_game(polynomial, data.x, data.background, covariance, data.columns)
    else:
        gradient = polynomial.derivatives.gradient
        linear = gaussian_quadratic_game(gradient, np.zeros((2, 7, 7)), data.x, moments.mean, covariance, data.columns)
        v = lambda s: linear(s) + polynomial.at_x - gradient @ data.x  # noqa: E731
    assert_allclose(known.values[:-1, :, 0], shapley_by_definition(v, len(data.columns)), atol=1e-8)
    assert_allclose(known.values[-1, :, 0], v(frozenset()), atol=1e-9)
    assert len(known.root.factors) == 0


def big_imputer(n_columns=14, groups=None):
    rng = np.random.default_rng(3)
    mixing = np.eye(n_columns) + 0.4 * rng.normal(size=(n_columns, n_columns))
    background = rng.normal(size=(60, n_columns)) @ mixing
    names = tuple(f"c{i}" for i in range(n_columns))
    return cs.GaussianConditional().bind(background, resolve_players(groups, names), names)


def test_d_matrices_sum_to_the_identity_exact_or_simulated(data):
    for imputer in (fitted(data, cs.GaussianConditional())[1], big_imputer()):
        found = d_matrices(imputer, 200)
        total = found.matrices.sum(axis=1)
        assert_allclose(total, np.broadcast_to(np.eye(total.shape[-1]), total.shape), atol=1e-8)


@pytest.mark.parametrize("groups", [None, [[0, 3, 4], [7, 8]]])
def test_simulated_d_matrices_agree_with_enumeration_within_their_own_error(groups):
    imputer = big_imputer(9, groups)
    exact = d_matrices(imputer, 100)
    assert exact.is_exact
    replications = np.stack([_simulate(imputer, 50, np.random.default_rng(k)) for k in range(20)])
    simulated = DMatrices(replications, 2000)
    rng = np.random.default_rng(0)
    gradient, gap, at_x = rng.normal(size=(2, 9)), rng.normal(size=9), np.zeros(2)
    truth = exact.known_values(gradient, gap, at_x).values[:-1, :, 0]
    known = simulated.known_values(gradient, gap, at_x)
    error = np.sqrt(known.root.variances()[:-1, :, 0])
    z = (known.values[:-1, :, 0] - truth) / error
    assert np.abs(z).max() < 5.5  # t with 19 degrees of freedom, level 1e-4 over at most 18 values
    assert np.sqrt((z**2).mean()) > 0.3  # the error is not vastly overstated either
    # reversed pairs cut the error of single permutations
    assert error.max() < 0.2 * np.abs(truth).max()


class Wrapped(Imputer):
    """A value function of one's own with rows affine in x - b: it is a Gaussian, and does not say so."""

    linear_in_x = True

    def __init__(self, inner):
        self.inner, self.players = inner, inner.players

    @property
    def center(self):
        return self.inner.center

    def sample(self, n_rows, rng):
        return self.inner.sample(n_rows, rng)

    def coalition_rows(self, x, coalitions, draws):
        return self.inner.coalition_rows(x, coalitions, draws)


@pytest.mark.parametrize("groups", [None, [[0, 3, 4], [7, 8]]])
@pytest.mark.parametrize("n_columns", [9, 14])
def test_rows_that_are_affine_have_d_matrices(n_columns, groups):
    imputer = big_imputer(n_columns, groups)
    scale = imputer.moments.scale
    own, gaussian = (d_matrices(one, 100).matrices for one in (Wrapped(imputer), imputer))
    # in the columns' own units rather than in standard deviations
    assert_allclose(own, gaussian * scale[:, None] / scale, atol=1e-9 * scale.max() / scale.min())


def test_the_error_of_simulated_known_values_reaches_the_standard_errors():
    rng = np.random.default_rng(0)
    n_columns = 12
    background = rng.normal(size=(80, n_columns)) @ (np.eye(n_columns) + 0.2 * rng.normal(size=(n_columns, n_columns)))
    weights = rng.normal(size=n_columns)
    x = background[0] + 1.0

    def linear(rows):
        return rows @ weights

    few = cs.Taylor(gradient=lambda row: weights, n_permutations=80)
    many = cs.Taylor(gradient=lambda row: weights, n_permutations=8000)
    errors = []
    for control in (few, many):
        explainer = cs.Explainer(linear, background, features="correlated", control=control)
        explanation = explainer(x, budget=2000, rng=0)
        moments = explainer._assembly.imputer.moments
        covariance = moments.correlation * np.outer(moments.scale, moments.scale)
        zero = np.zeros((1, n_columns, n_columns))
        columns = [[c] for c in range(n_columns)]
        game = gaussian_quadratic_game(weights[None], zero, x, moments.mean, covariance, columns)
        truth = shapley_by_definition(game, n_columns)[:, 0]
        z = (explanation.values[0] - truth) / explanation.standard_errors[0]
        assert np.abs(z).max() < 5.5
        errors.append(explanation.standard_errors.max())
    # The surrogate is the model itself, so with many permutations all that is left is the error of D; with as few
    # permutations as walks the control knows no more than the estimate, and is only half trusted.
    assert (explanation.variance_reduction > 0.9).all()
    assert errors[1] < 0.25 * errors[0] < 0.25 * 1.1 * explanation.uncontrolled_standard_errors.max()


def test_a_surrogate_without_known_values_here_is_refused(data):
    class Odd:
        def bind(self, background, players, feature_names):
            return self

        finite_draws = None
        mixes_columns = linear_in_x = False

    with pytest.raises(cs.NoClosedFormError, match="Marginal"):
        fitted(data, Odd())
