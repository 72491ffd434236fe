"""Errors because the distribution of the features was estimated: against refitted explainers and many backgrounds."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binom, t
from sklearn.linear_model import LogisticRegression

import controlshap as cs
from controlshap._random import EXPLAINER_ENTROPY, Purpose, stream
from controlshap.testing import empirical_game, shapley_by_definition

P = 4
MIXING = np.eye(P) + 0.4
WEIGHTS = np.array([[0.6, -0.3], [0.4, 0.5], [-0.5, 0.3], [0.2, -0.6]])
X = np.array([[0.9, -0.6, 1.2, 0.3]])


def rows_of(n, seed):
    return np.random.default_rng(seed).normal(size=(n, P)) @ MIXING


def network(rows):
    return np.tanh(rows @ WEIGHTS) @ np.array([1.0, -0.7])


def two_outputs(rows):
    return np.stack([network(rows), rows[:, 0] + 0.2 * rows[:, 1] ** 2], axis=1)


DATA = rows_of(200, 1)
LOGISTIC = LogisticRegression().fit(DATA, network(DATA) > 0)


def explain(model=network, background=DATA, features="correlated", budget=2000, rng=0, **settings):
    explainer = cs.Explainer(model, background, features=features, distribution_errors=True, **settings)
    return explainer(X, budget=budget, rng=rng)


@pytest.mark.parametrize("order", [None, [[0, 1], [2, 3]]], ids=["plain", "order"])
def test_the_jackknife_of_a_known_form_is_that_of_refitted_explainers(order):
    blocks = stream(EXPLAINER_ENTROPY, Purpose.DISTRIBUTION).permutation(len(DATA)) % 20
    values = [
        cs.Explainer(LOGISTIC, DATA[blocks != k], features="correlated", order=order)(X).values[0] for k in range(20)
    ]
    expected = np.sqrt(19.0 * np.var(values, axis=0))
    found = explain(LOGISTIC, order=order)
    assert found.status[0] == "exact"
    assert_allclose(found.distribution_standard_errors[0], expected, rtol=1e-6)


def test_a_fitted_function_stands_for_the_model():
    """Of a model that is not recognised, errors are those of its form but for the fit, which is close."""
    exact = explain(LOGISTIC).distribution_standard_errors
    fitted = explain(lambda rows: LOGISTIC.predict_proba(rows)[:, 1]).distribution_standard_errors
    assert_allclose(fitted, exact, rtol=0.1)


@pytest.mark.slow
def test_intervals_hold_the_values_of_the_population(global_seed):
    truth = cs.Explainer(
        LOGISTIC, DATA, features=cs.GaussianConditional(mean=np.zeros(P), covariance=MIXING.T @ MIXING)
    )(X).values[0]
    n = 100
    inside = np.zeros((n, P), dtype=bool)
    without = np.zeros((n, P), dtype=bool)
    for run in range(n):
        found = explain(LOGISTIC, rows_of(150, (global_seed, run)))
        low, high = found.confidence_interval(background=True)
        inside[run] = (low[0] <= truth) & (truth <= high[0])
        low, high = found.confidence_interval()  # the negative control: no error of the distribution
        without[run] = (low[0] - 1e-9 <= truth) & (truth <= high[0] + 1e-9)
    least = binom.ppf(1e-4 / P, n, 0.93)  # two points for the curvature of values in 150 rows, and for the jackknife
    assert inside.sum(axis=0).min() >= least
    assert without.sum(axis=0).max() < least


NAMES = {
    "copula": "copula", "mixture": cs.Mixture(n_components=1), "causal": cs.Causal([[0, 1, 2, 3]]),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_other_fits_have_errors_like_those_of_the_gaussian(name):
    """On normal data they describe the same rows; one component of each is the Gaussian itself."""
    gaussian = np.linalg.norm(explain().distribution_standard_errors)
    ratio = np.linalg.norm(explain(features=NAMES[name]).distribution_standard_errors) / gaussian
    assert abs(ratio - 1.0) < (0.5 if name == "copula" else 0.25)  # a copula estimates margins, too


@pytest.mark.slow
def test_errors_of_weighted_rows_are_those_of_the_definition():
    few = DATA[:60]
    blocks = stream(EXPLAINER_ENTROPY, Purpose.DISTRIBUTION).permutation(len(few)) % 20
    columns = [[i] for i in range(P)]
    values = [
        shapley_by_definition(empirical_game(network, X[0], few[blocks != k], columns, 0.5), P)[:, 0] for k in range(20)
    ]
    expected = np.sqrt(19.0 * np.var(values, axis=0))
    found = explain(background=few, features=cs.Empirical(bandwidth=0.5)).distribution_standard_errors[0]
    assert_allclose(found, expected, rtol=0.15)  # of a fitted function


def test_a_distribution_that_was_given_has_no_error():
    given = cs.GaussianConditional(mean=np.zeros(P), covariance=np.eye(P))
    assert_allclose(explain(features=given).distribution_standard_errors, 0.0, atol=1e-12)


def test_errors_are_kept_sliced_and_added(tmp_path):
    found = explain(two_outputs)
    errors = found.distribution_standard_errors
    assert errors.shape == found.values.shape == (1, P, 2)
    assert (errors > 0).all()
    found.save(tmp_path / "one")
    assert_array_equal(cs.load(tmp_path / "one").distribution_standard_errors, errors)
    assert_array_equal(found.output(1).distribution_standard_errors, errors[..., 1])
    own, other = found.standard_errors**2, errors**2
    dof = (own + other) ** 2 / (own**2 / found.degrees_of_freedom + other**2 / 19.0)
    low, high = found.confidence_interval(0.9, background=True)
    assert_allclose((high - low) / 2.0, t.ppf(0.95, dof) * np.sqrt(own + other), rtol=1e-6)
    wide = found.confidence_interval(0.9, background=True, simultaneous=True)
    assert ((wide[1] - wide[0]) > high - low).all()


def test_own_time_alone_is_spent():
    plain = cs.Explainer(network, DATA, features="correlated")(X, budget=2000, rng=0)
    found = explain()
    assert_array_equal(found.values, plain.values)
    assert_array_equal(found.n_evaluations, plain.n_evaluations)
    assert plain.distribution_standard_errors is None


def test_data_sets_have_them(tmp_path):
    explainer = cs.Explainer(network, DATA, features="correlated", distribution_errors=True)
    explainer.explain_dataset(DATA[:3], tmp_path / "run", budget=800, rng=0, part_rows=2)
    assert_array_equal(
        cs.load(tmp_path / "run").distribution_standard_errors,
        explainer(DATA[:3], budget=800, rng=0).distribution_standard_errors,
    )


def test_without_a_function_that_explains_the_model_they_are_not_known():
    for found in (explain(control="none"), explain(lambda rows: np.sign(np.sin(40.0 * rows[:, 0])), budget=300)):
        assert found.distribution_standard_errors is None
        with pytest.raises(cs.InvalidArgumentError, match="distribution_errors=True"):
            found.confidence_interval(background=True)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"features": "independent"}, "no distribution is fitted"),
        ({"features": cs.GaussianConditional(draws="background")}, "no distribution is fitted"),
        ({"background": DATA[:30]}, "at least 40 rows"),
        ({"distribution_errors": 1}, "must be True or False"),
    ],
)
def test_bad_input_is_refused(settings, words):
    settings = {"background": DATA, "features": "correlated", "distribution_errors": True} | settings
    with pytest.raises(cs.InvalidArgumentError, match=words):
        cs.Explainer(network, **settings)
