"""A Gaussian copula with empirical margins, against its definition with loops left in."""

from functools import cache, partial

import numpy as np
import pandas as pd
import pytest
from calibration_cases import check, check_together
from numpy.testing import assert_allclose, assert_array_equal

import controlshap as cs
from controlshap.data.players import resolve_players
from controlshap.testing import copula_game, copula_sum_game, normal_score, shapley_by_definition, value_of_score
from controlshap.values.margins import ColumnMargin

COPULA = cs.GaussianConditional(margins="empirical")
OF_ROWS = cs.GaussianConditional(margins="empirical", draws="background")

RNG = np.random.default_rng(11)
LATENT = RNG.normal(size=(60, 5)) @ (np.eye(5) + 0.5 * RNG.normal(size=(5, 5)))


def mixed_columns(latent):
    """Skewed, bounded, a count with many ties, a flag, and money with a spike at 0."""
    spike = np.maximum(latent[:, 4], 0.0) ** 1.5
    return np.column_stack(
        [np.exp(latent[:, 0]), np.tanh(latent[:, 1]), np.floor(2.0 * np.abs(latent[:, 2])), latent[:, 3] > 0.3, spike]
    )


BACKGROUND = mixed_columns(LATENT)
X = np.array([BACKGROUND[3, 0], 0.123, 1.5, 1.0, 99.0])  # met, between two values, between two counts, met, beyond all
GROUPS = {"first and flag": [0, 3], "count": [2]}
COLUMNS = [[0, 3], [2], [1], [4]]


def model(rows):
    """Two outputs with interactions, and a threshold at x itself: one rounding error would show."""
    first, bounded, count, flag, money = rows.T
    smooth = np.tanh(0.3 * first * bounded + 0.2 * count - 0.1 * flag * money)
    return np.column_stack([smooth, (bounded >= 0.123) * (1.0 + flag) + 0.1 * count * np.log1p(money)])


# -------------------------------------------------------------------------------------------------------- definitions


@pytest.mark.parametrize("column", range(5))
def test_scores_and_values_are_those_of_the_definition(column):
    known = BACKGROUND[:, column]
    margin = ColumnMargin.of(known)
    asked = np.concatenate([known, np.linspace(known.min() - 1.0, known.max() + 1.0, 23)])
    assert_allclose(margin.to_scores(asked), [normal_score(value, known) for value in asked], atol=1e-12)
    assert_array_equal(margin.to_values(margin.to_scores(known)), known)  # to the bit
    scores = np.linspace(-3.0, 3.0, 61)
    assert_allclose(margin.to_values(scores), [value_of_score(score, known) for score in scores], atol=1e-12)


@pytest.mark.parametrize("groups", [None, GROUPS])
def test_values_are_exact_where_draws_are_background_rows(groups):
    columns = COLUMNS if groups else [[c] for c in range(5)]
    explanation = cs.Explainer(model, BACKGROUND, features=OF_ROWS, groups=groups)(X, budget=10_000, rng=0)
    assert explanation.status[0] == "exact"
    truth = shapley_by_definition(copula_game(model, X, BACKGROUND, columns), len(columns))
    names = list(explanation.feature_names)
    order = [names.index(name) for name in ("first and flag", "count", "x1", "x4")] if groups else range(5)
    assert_allclose(explanation.values[0][list(order)], truth, atol=1e-9)
    assert_allclose(explanation.values[0].sum(axis=0) + explanation.base_values[0], model(X[None])[0], atol=1e-12)
    assert_allclose(explanation.base_values[0], model(BACKGROUND).mean(axis=0), atol=1e-12)


def test_draws_have_the_margins_of_the_background():
    imputer = cs.Explainer(model, BACKGROUND, features="copula").assembly.imputer
    n = 100_000
    rows = imputer.to_inputs(imputer.sample(n, np.random.default_rng(0)))
    for column in (2, 3):  # levels as often as in the background, and no others
        levels, counts = np.unique(BACKGROUND[:, column], return_counts=True)
        found = (rows[:, column, None] == levels).mean(axis=0)
        share = counts / len(BACKGROUND)
        assert found.sum() == pytest.approx(1.0)
        assert (np.abs(found - share) < 4.5 * np.sqrt(share * (1 - share) / n)).all()
    # a line between neighbours has at every value the share of the background below it, to half a rank
    for column in (0, 1):
        below = (rows[:, column, None] <= np.sort(BACKGROUND[:, column])).mean(axis=0)
        ranks = (np.arange(60) + 0.5) / 60
        assert (np.abs(below - ranks)[:-1] < 4.5 * np.sqrt(0.25 / n)).all()


@pytest.mark.filterwarnings("ignore::controlshap.SingularCovarianceWarning")
def test_one_hot_blocks_show_one_level():
    codes = np.eye(3)[RNG.choice(3, size=60, p=[0.6, 0.3, 0.1])]
    data = np.column_stack([BACKGROUND[:, :1], codes, BACKGROUND[:, 3]])
    players = resolve_players([[0], [1, 2, 3, 4]], tuple("abcde"))
    imputer = COPULA.bind(data, players, tuple("abcde"))
    rows = imputer.to_inputs(imputer.sample(5000, np.random.default_rng(1)))
    assert_array_equal(rows[:, 1:4].sum(axis=1), 1.0)
    assert_array_equal(imputer.to_inputs(imputer.for_row(data[0])[1][None])[0], data[0])


def test_a_column_without_influence_and_relations_gets_nothing():
    data = np.column_stack([BACKGROUND, np.full(60, 7.0)])
    explanation = cs.Explainer(lambda rows: model(rows[:, :5]), data, features="copula")(
        np.append(X, 8.0), budget=500, rng=0
    )
    assert_allclose(explanation.values[0, 5], 0.0, atol=1e-12)


# --------------------------------------------------------------------------------------------- errors and descriptions


SMOOTH = np.exp(0.7 * LATENT[:, :4])
AT = np.array([3.0, 0.4, SMOOTH[5, 2], 1.0])


def part(weights, values):
    return np.tanh(values[:, None] * np.array(weights))


PARTS = [partial(part, weights) for weights in ([0.5, -1.0], [1.0, 0.3], [-0.4, 0.8], [0.2, 0.2])]


def sum_model(rows):
    """No interactions: all of them come from the copula."""
    return sum(one(rows[:, c]) for c, one in enumerate(PARTS))


@cache
def truth_of_sum():
    return shapley_by_definition(copula_sum_game(PARTS, AT, SMOOTH, [[c] for c in range(4)]), 4)


@pytest.mark.parametrize(("estimator", "control"), [("auto", "auto"), ("kernel", "auto"), ("permutation", "none")])
def test_values_are_unbiased_with_honest_errors(estimator, control, global_seed):
    explainer = cs.Explainer(sum_model, SMOOTH, features="copula", estimator=estimator, control=control)
    found = explainer(np.tile(AT, (80, 1)), budget=400, rng=global_seed)
    check(found, truth_of_sum(), least=0.9)
    check_together(found, truth_of_sum())


def test_gaussian_margins_are_caught(global_seed):
    """Negative control: the same check with another description of the data."""
    found = cs.Explainer(sum_model, SMOOTH, features="correlated")(np.tile(AT, (80, 1)), budget=400, rng=global_seed)
    with pytest.raises(AssertionError, match="biased"):
        check(found, truth_of_sum(), least=0.9)


def test_stopping_refining_and_a_shared_surrogate():
    explainer = cs.Explainer(sum_model, SMOOTH, features="copula")
    stopped = explainer(AT, budget=20_000, absolute_tolerance=0.01, rng=0)
    assert stopped.status[0] == "converged"
    assert np.abs(stopped.values[0] - truth_of_sum()).max() < 5.0 * 0.01
    short = explainer(AT, budget=300, rng=1)
    refined = explainer.refine(short, budget=200)
    whole = explainer(AT, budget=int(refined.n_evaluations[0]), rng=1)
    assert_array_equal(refined.values, whole.values)
    shared = cs.Explainer(sum_model, SMOOTH, features="copula").fit_surrogate(SMOOTH[:10], budget=500, rng=0)
    found = shared(AT, budget=300, rng=0)
    assert "SharedSurrogate" in found.method[0]
    assert (np.abs(found.values[0] - truth_of_sum()) < 5.0 * found.standard_errors[0]).all()


def test_what_works_on_values_is_refused():
    with pytest.raises(cs.NoClosedFormError, match="not for CopulaImputer"):
        cs.Explainer(sum_model, SMOOTH, features="copula", control="taylor")(AT, budget=400, rng=0)


def test_frames_with_categories():
    frame = pd.DataFrame({"money": BACKGROUND[:, 0], "kind": pd.Categorical(np.array(["a", "b", "c"])[codes_of(60)])})

    def predict(rows):
        return np.log(rows["money"].to_numpy()) * (rows["kind"] == "b").to_numpy()

    explanation = cs.Explainer(predict, frame, features="copula")(frame.iloc[:3], budget=300, rng=0)
    assert_allclose(explanation.values.sum(axis=1) + explanation.base_values, predict(frame.iloc[:3]), atol=1e-9)


def codes_of(n):
    return np.arange(n) % 3


def test_skewed_columns_are_described_better_than_by_a_gaussian():
    """Exponentials of a Gaussian, whose conditional means are known: what is left is the error of the description."""
    rng = np.random.default_rng(5)
    mixing = np.linalg.cholesky(0.5 * np.eye(4) + 0.5)
    data, rows = (np.exp(rng.normal(size=(n, 4)) @ mixing.T) for n in (1000, 8))
    errors = {}
    # the logarithm of a product: linear in the scores, so that its values under the true distribution are closed
    weights = np.array([1.0, 0.5, -0.5, 0.25])

    def log_model(values):
        return np.log(np.maximum(values, 1e-3)) @ weights

    gaussian = cs.GaussianConditional(mean=np.zeros(4), covariance=mixing @ mixing.T)
    explainer = cs.Explainer(lambda z: z @ weights, rng.normal(size=(10, 4)), features=gaussian, control="taylor")
    truth = explainer(np.log(rows), budget=200, rng=0)
    for features in ("correlated", "copula"):
        found = cs.Explainer(log_model, data, features=features)(rows, budget=4000, rng=0)
        errors[features] = np.mean((found.values - truth.values) ** 2)
    assert errors["correlated"] > 9.0 * errors["copula"]  # 3 times in the root of the mean square
