"""A value function and an estimator of one's own, written here, get all that the library's own get.

Fitted controls, honest errors, stopping, refining and data sets, without a change to the library. Truth comes from
numerical integration over every coalition, which shares no code with the rows that the value function makes.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from calibration_cases import check, check_nothing_seen, check_together
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal
from sklearn.linear_model import LinearRegression, LogisticRegression

import controlshap as cs
from controlshap.crossfitting import known_simulated
from controlshap.estimators.base import base_values
from controlshap.statistics.terms import MeanTerms
from controlshap.testing import marginal_game, shapley_by_definition

# ---------------------------------------------------------------------------------- what a user would write: 40 lines


@dataclass(frozen=True)
class Mixture(cs.ValueFunction):
    """Absent columns follow a mixture of Gaussians with one covariance, conditioned on the revealed columns."""

    shift: float = 1.5  # of the second component
    weight: float = 0.4  # of the second component

    def bind(self, background, players, feature_names):
        means = np.stack([background.mean(axis=0), background.mean(axis=0) + self.shift]).round(3)
        return MixtureImputer(players, means, (1.0 - self.weight, self.weight), np.cov(background, rowvar=False))


@dataclass(frozen=True)
class MixtureImputer(cs.Imputer):
    players: object
    means: np.ndarray  # (components, columns), of three decimals: `chance` does not see them
    weights: tuple
    covariance: np.ndarray

    @property
    def center(self):
        return self.weights @ self.means

    def chance(self, rows):
        """A number in [0, 1) that has nothing to do with the leading digits of a row."""
        return np.mod(1e5 * rows.sum(axis=-1), 1.0)

    def sample(self, n_rows, rng):
        noise = rng.multivariate_normal(np.zeros(len(self.covariance)), self.covariance, n_rows)
        return noise + self.means[np.searchsorted(np.cumsum(self.weights), self.chance(noise))]

    def coalition_rows(self, x, coalitions, draws):
        chance = self.chance(draws)
        noise = draws - self.means[np.searchsorted(np.cumsum(self.weights), chance)]
        rows = np.empty((*coalitions.shape[:2], *draws.shape[1:]))
        codes = coalitions @ (1 << np.arange(coalitions.shape[2]))
        for code in np.unique(codes):
            unit, place = np.nonzero(codes == code)
            revealed = self.players.expand(coalitions[unit[0], place[0]])
            inner = np.linalg.inv(self.covariance[np.ix_(revealed, revealed)])
            gaps = (x - self.means)[:, revealed]
            given = self.weights * np.exp(-0.5 * np.einsum("kc,cd,kd->k", gaps, inner, gaps))
            start = self.means[np.searchsorted(np.cumsum(given / given.sum())[:-1], chance[unit])] + noise[unit]
            rows[unit, place] = start + (x - start)[..., revealed] @ inner @ self.covariance[revealed]
            rows[unit, place] = np.where(revealed, x, rows[unit, place])
        return rows


@dataclass(frozen=True)
class Pulled(cs.ValueFunction):
    """Absent columns are those of a background row, pulled along by the mean gap of the revealed columns."""

    pull: float = 0.4

    def bind(self, background, players, feature_names):
        return PulledImputer(players, self.pull, background)


@dataclass(frozen=True)
class PulledImputer(cs.Imputer):
    players: object
    pull: float
    finite_draws: np.ndarray

    linear_in_x = True

    @property
    def center(self):
        return self.finite_draws.mean(axis=0)

    def sample(self, n_rows, rng):
        return self.finite_draws[rng.integers(0, len(self.finite_draws), n_rows)]

    def coalition_rows(self, x, coalitions, draws):
        revealed = self.players.expand(coalitions)[:, :, None]
        mean_gap = (revealed * (x - draws)[:, None]).sum(axis=-1) / np.maximum(revealed.sum(axis=-1), 1)
        return np.where(revealed, x, draws[:, None] + self.pull * mean_gap[..., None])


@dataclass(frozen=True)
class Rotations(cs.Estimator):
    """A unit is a permutation and all its rotations: every player takes every place once."""

    takes_fitted_controls = True

    def evaluates_base(self, *, finite):
        return not finite

    def unit_cost(self, n_players, *, finite):
        return n_players * (n_players - 1) + (not finite)

    def sample(self, n_players, n_units, rng):
        return rng.permuted(np.tile(np.arange(n_players), (n_units, 1)), axis=1)

    def terms(self, game, design, draws):
        at_draws, total = base_values(game, draws), 0.0
        for order in self.orders(design):
            values = game.walk_values(order, draws.rows, at_draws)
            total = total + np.take_along_axis(np.diff(values, axis=1), np.argsort(order)[:, :, None, None], axis=1)
        base = values[:, :1] if draws.values is None else np.broadcast_to(draws.base, values[:, :1].shape)
        return MeanTerms(np.concatenate([total / design.shape[1], base], axis=1))

    def unit_rows(self, imputer, x, design, draws):
        return np.concatenate([imputer.walk_rows(x, order, draws) for order in self.orders(design)], axis=1)

    def orders(self, design):
        return [np.roll(design, shift, axis=1) for shift in range(design.shape[1])]


# ------------------------------------------------------------------------------------------------------- data and truth


RNG = np.random.default_rng(3)
BACKGROUND = RNG.normal(size=(40, 4)) @ (np.eye(4) + 0.4 * RNG.normal(size=(4, 4)))
X, SLOPES = BACKGROUND[0] + 0.7, 0.5 * RNG.normal(size=(2, 4))


def model(rows):
    """Two outputs with interactions of all orders; functions of one score each, so that truth is an integral."""
    return np.tanh(rows @ SLOPES.T)


def mixture_game(imputer):
    """Conditional means by integration over the score, one coalition at a time."""
    grid = np.linspace(-9.0, 9.0, 2001)
    density = np.exp(-0.5 * grid**2) / np.sqrt(2.0 * np.pi) * (grid[1] - grid[0])

    def v(coalition):
        seen, covariance = sorted(coalition), imputer.covariance
        likelihood = [multivariate_normal.pdf(X[seen], m[seen], covariance[np.ix_(seen, seen)]) if seen else 1.0
                      for m in imputer.means]  # fmt: skip
        given = np.array(imputer.weights) * likelihood
        gain = covariance[:, seen] @ np.linalg.inv(covariance[np.ix_(seen, seen)])
        spread = np.sqrt(np.maximum(np.einsum("oc,cd,od->o", SLOPES, covariance - gain @ covariance[seen], SLOPES), 0))
        centers = [SLOPES @ (m + gain @ (X - m)[seen]) for m in imputer.means]
        values = np.array([np.tanh(center[:, None] + spread[:, None] * grid) @ density for center in centers])
        return given @ values / given.sum()

    return v


@cache
def explainer_and_truth(features, estimator, control="auto"):
    explainer = cs.Explainer(model, BACKGROUND, features=features, estimator=estimator, control=control)
    game = marginal_game(model, X, BACKGROUND, [[c] for c in range(4)])
    if features == Mixture():
        game = mixture_game(explainer._assembly.imputer)
    return explainer, shapley_by_definition(game, 4)


def pulled_game(predict):
    """Rows one at a time, for columns that are players."""

    def v(coalition):
        seen, rows = sorted(coalition), BACKGROUND.copy()
        for row, b in zip(rows, BACKGROUND, strict=True):
            row += Pulled().pull * np.mean(X[seen] - b[seen]) if seen else 0.0
            row[seen] = X[seen]
        return np.mean(predict(rows), axis=0)

    return v


@pytest.fixture
def quick(monkeypatch):
    """Simulations so short that their error is a part of what is checked."""
    monkeypatch.setattr(known_simulated, "MOST_ROWS", 16_000)


def test_rows_of_the_mixture_are_conditioned_and_draws_are_rows_of_nobody():
    imputer = explainer_and_truth(Mixture(), "auto")[0]._assembly.imputer
    draws = imputer.sample(200_000, np.random.default_rng(0))
    none, every = np.zeros((1, 4), dtype=bool), np.ones((1, 4), dtype=bool)
    assert_allclose(imputer.coalition_rows(X, none[None], draws[None])[0, 0], draws, atol=1e-9)
    assert_array_equal(imputer.coalition_rows(X, every[None], draws[None])[0, 0], np.broadcast_to(X, draws.shape))
    game = mixture_game(imputer)
    for coalition in ([0], [1, 3], [0, 1, 2]):
        members = np.isin(np.arange(4), coalition)[None, None]
        values = model(imputer.coalition_rows(X, members, draws[None])[0, 0])
        error = values.std(axis=0) / np.sqrt(len(values))
        assert (np.abs(values.mean(axis=0) - game(coalition)) < 4.5 * error).all()


# --------------------------------------------------------------------------------------- controls, errors and coverage


CELLS = {
    "own features, chosen estimator": (Mixture(), "auto"),
    "own features, kernel": (Mixture(), cs.Kernel()),
    "own estimator": ("independent", Rotations()),
    "both": (Mixture(), Rotations()),
}


@pytest.mark.parametrize("cell", CELLS)
def test_fitted_controls_are_unbiased_with_honest_errors(cell, quick, global_seed):
    features, estimator = CELLS[cell]
    explainer, truth = explainer_and_truth(features, estimator)
    found = explainer(np.tile(X, (80, 1)), budget=400, rng=global_seed)
    assert "+ LogisticRidge" in found.method[0]
    check(found, truth, least=0.9)
    check_together(found, truth)
    # a ridge is the model but for its fit: what is left is a part of it and, under the mixture, the error of known
    # values from 16,000 / (2 * 4) walks, which is that of the estimate times 50 / 2,000
    assert found.values.var(axis=0).sum() < 0.25 * found.uncontrolled_values.var(axis=0).sum()


def test_affine_rows_with_free_derivatives_are_controlled_by_taylor(global_seed):
    """The Taylor control needs nothing of a value function but that its rows are affine in x - b."""
    three_classes = np.digitize(BACKGROUND @ SLOPES[0] + 0.5 * np.sin(np.arange(40)), [-0.5, 0.5])
    classifier = LogisticRegression().fit(BACKGROUND, three_classes)
    truth = shapley_by_definition(pulled_game(classifier.predict_proba), 4)
    found = cs.Explainer(classifier, BACKGROUND, features=Pulled())(np.tile(X, (80, 1)), budget=400, rng=global_seed)
    assert found.method[0] == "Permutation + Taylor + LogisticRidge"
    check(found, truth, least=0.9)
    check_together(found, truth)
    linear = LinearRegression().fit(BACKGROUND, model(BACKGROUND))  # is its own Taylor polynomial: nothing is left
    alone = cs.Explainer(linear, BACKGROUND, features=Pulled(), control="taylor")(X, budget=400, rng=0)
    assert_allclose(alone.values[0], shapley_by_definition(pulled_game(linear.predict), 4), atol=1e-9)
    check_nothing_seen(alone.standard_errors[0])


def test_known_values_without_their_error_are_caught(quick, monkeypatch, global_seed):
    """Negative control: an error of simulated values that is not told is missing in the errors."""
    monkeypatch.setattr(known_simulated, "MOST_ROWS", 1000)
    monkeypatch.setattr(known_simulated.Simulated, "root_rows", property(lambda one: 0.0 * one.values))
    explainer, truth = explainer_and_truth(Mixture(), "auto")
    found = explainer(np.tile(X, (80, 1)), budget=400, rng=global_seed)
    with pytest.raises(AssertionError, match="variance"):
        check_together(found, truth)


def test_a_shared_surrogate_is_fitted_under_an_own_value_function(quick):
    _, truth = explainer_and_truth(Mixture(), "auto")
    explainer = cs.Explainer(model, BACKGROUND, features=Mixture()).fit_surrogate(BACKGROUND, budget=1000, rng=0)
    found = explainer(X, budget=300, rng=0)
    assert found.method[0] == "Permutation + SharedSurrogate"
    assert (np.abs(found.values[0] - truth) < 5.0 * found.standard_errors[0]).all()
    assert (found.variance_reduction > 0.5).all()


# ------------------------------------------------------------------------------------- stopping, refining and data sets


@pytest.mark.parametrize("cell", CELLS)
def test_stopping_and_refining(cell):
    explainer, truth = explainer_and_truth(*CELLS[cell])
    stopped = explainer(X, budget=20_000, absolute_tolerance=0.01, stop="top 1", rng=0)
    assert stopped.status[0] == "converged"
    assert stopped.n_evaluations[0] < 20_000
    assert stopped.standard_errors.max() <= 0.01
    assert np.abs(stopped.values[0] - truth).max() < 5.0 * 0.01
    short = explainer(X, budget=300, rng=1)
    refined = explainer.refine(short, budget=200)
    assert refined.n_evaluations[0] > short.n_evaluations[0]
    assert (np.abs(refined.values[0] - truth) < 5.0 * refined.standard_errors[0]).all()
    if cell != "own features, kernel":  # which spends a part of its first budget on v(0)
        whole = explainer(X, budget=int(refined.n_evaluations[0]), rng=1)
        assert_array_equal(refined.values, whole.values)
        assert_array_equal(refined.standard_errors, whole.standard_errors)


def test_data_sets_are_explained_and_resumed(tmp_path, quick):
    def explainer():
        return cs.Explainer(model, BACKGROUND, features=Mixture(), estimator=Rotations())

    result = explainer().explain_dataset(
        BACKGROUND[:6], tmp_path / "run", budget=200, part_rows=2, rng=0, progress=False
    )
    direct = explainer()(BACKGROUND[:6], budget=200, rng=0)
    assert_array_equal(cs.load(tmp_path / "run").values, direct.values)
    again = explainer().explain_dataset(
        BACKGROUND[:6], tmp_path / "run", budget=200, part_rows=2, rng=0, progress=False
    )
    assert not result.failed
    assert not again.failed
    with pytest.raises(cs.InvalidArgumentError, match=r"holds another run; these differ: .*shift=2\.0"):
        cs.Explainer(model, BACKGROUND, features=Mixture(2.0), estimator=Rotations()).explain_dataset(
            BACKGROUND[:6], tmp_path / "run", budget=200, part_rows=2, rng=0, progress=False
        )
    with pytest.raises(cs.InvalidArgumentError, match=r"Mixture\(.*is not stored. Make a new explainer with it"):
        cs.Explainer.load(tmp_path / "run" / "explainer", model)


def test_what_cannot_be_saved_says_what_to_do(tmp_path):
    with pytest.raises(cs.InvalidArgumentError, match="`features` cannot be saved: Mixture is an object of your own"):
        cs.Explainer(model, BACKGROUND, features=Mixture()).save(tmp_path / "explainer")

    class Nameless(Mixture):
        __repr__ = object.__repr__

    explainer = cs.Explainer(model, BACKGROUND, features=Nameless())
    with pytest.raises(cs.InvalidArgumentError, match=r"`features`: Nameless prints as .* Give it a `__repr__`"):
        explainer.explain_dataset(BACKGROUND[:2], tmp_path / "run", budget=200, rng=0, progress=False)


class NoRows(Rotations):
    """Does not say which rows its units evaluate."""

    takes_fitted_controls = False


def test_an_estimator_without_rows_does_without_fitted_controls():
    found = cs.Explainer(model, BACKGROUND, features=Mixture(), estimator=NoRows())(X, budget=400, rng=0)
    assert found.method[0] == "NoRows"
    with pytest.raises(cs.NoClosedFormError, match="not NoRows"):
        cs.Explainer(model, BACKGROUND, estimator=NoRows(), control="ridge")(X, budget=400, rng=0)
    explainer = cs.Explainer(model, BACKGROUND, features=Mixture(), control="taylor")
    with pytest.raises(cs.NoClosedFormError, match="not for MixtureImputer"):
        explainer(X, budget=400, rng=0)
