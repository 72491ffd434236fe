"""What the values owe to the choice of the background, against many backgrounds of a known population.

With every coalition of every background row at hand, both the scatter over backgrounds and the term for each of them
(`var_b phi(b) / M`) are known. Tolerances are derived: |z| of a mean over backgrounds at a family-wise level of 1e-4.
"""

from functools import cache
from itertools import combinations
from math import comb

import numpy as np
import pytest
from scipy.stats import norm, t
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression

import controlshap as cs

P, M, N = 4, 20, 150
X = np.array([0.8, -0.5, 1.1, 0.4])
MIXING = np.eye(P) + 0.3


def model2(rows):
    """Two outputs; every player's value differs from background row to background row."""
    first = np.tanh(rows[:, 0] + rows[:, 1] * rows[:, 2]) + rows[:, 1] - 0.8 * rows[:, 2] + rows[:, 3] * rows[:, 0]
    second = rows[:, 0] * (rows[:, 1] + 0.5 * rows[:, 2] * rows[:, 3]) + np.sin(rows[:, 2]) + 0.7 * rows[:, 3]
    return np.column_stack([first, second])


def row_values(model, x, rows):
    """Shapley values `(rows, players, outputs)` of each row's own game, by the definition."""
    p = len(x)
    table = {}
    for size in range(p + 1):
        for coalition in combinations(range(p), size):
            mixed = np.array(rows, dtype=float)
            mixed[:, coalition] = x[list(coalition)]
            table[coalition] = np.asarray(model(mixed), dtype=float).reshape(len(rows), -1)
    found = np.zeros((len(rows), p, table[()].shape[1]))
    for j in range(p):
        for size in range(p):
            for without in combinations([k for k in range(p) if k != j], size):
                step = table[tuple(sorted((*without, j)))] - table[without]
                found[:, j] += step / (p * comb(p - 1, size))
    return found


@cache
def population(seed, n=N, m=M):
    """Backgrounds `(n, m, P)`, and the values `(n, m, P, 2)` of each of their rows."""
    backgrounds = np.random.default_rng((seed, 77)).normal(size=(n, m, P)) @ MIXING
    return backgrounds, row_values(model2, X, backgrounds.reshape(-1, P)).reshape(n, m, P, 2)


def explain_all(backgrounds, budget, seed, **settings):
    settings = {"control": "none"} | settings
    return [
        cs.Explainer(model2, rows, **settings)(X, budget=budget, rng=1000 * seed + k)
        for k, rows in enumerate(backgrounds)
    ]


def reported(explanations):
    return np.array([one.background_standard_errors[0] ** 2 for one in explanations])


def check_mean(found, expected, *, most=0.0):
    """Means over backgrounds agree, up to noise and a share `most` by which the first may be larger."""
    difference = found - expected
    scale = expected.mean(axis=0)
    error = difference.std(axis=0, ddof=1) / np.sqrt(len(difference))
    reach = norm.isf(1e-4 / (2 * scale.size)) * error
    mean = difference.mean(axis=0)
    ratio = (found.mean(axis=0) / np.where(scale > 0, scale, 1.0)).round(2).tolist()
    assert (mean > -reach - 1e-12).all(), f"too small: {ratio}"
    assert (mean < most * scale + reach + 1e-12).all(), f"too large: {ratio}"


def test_over_all_coalitions_the_term_is_the_variance_over_rows_divided_by_their_number(global_seed):
    backgrounds, values = population(global_seed)
    explanations = explain_all(backgrounds[:20], 1000, global_seed)
    assert all(one.status[0] == "exact" for one in explanations)
    np.testing.assert_allclose(reported(explanations), values[:20].var(axis=1, ddof=1) / M, rtol=1e-9)


def test_values_scatter_over_backgrounds_as_the_term_says(global_seed):
    backgrounds, values = population(global_seed)
    explanations = explain_all(backgrounds, 1000, global_seed)
    found = np.array([one.values[0] for one in explanations])
    np.testing.assert_allclose(found, values.mean(axis=1), atol=1e-10)
    scatter = found.var(axis=0, ddof=1)
    mean = reported(explanations).mean(axis=0)
    kurtosis = ((found - found.mean(axis=0)) ** 4).mean(axis=0) / scatter**2
    noise = np.sqrt((kurtosis - 1.0) / N + reported(explanations).var(axis=0) / mean**2 / N)
    assert (np.abs(np.log(mean / scatter)) < norm.isf(1e-4 / 16) * noise).all()


SAMPLED = {
    # 6 evaluations a pair of walks, 20 rows
    "two passes and more": ("permutation", 1 + 6 * 50, 0.02),
    "five passes": ("permutation", 1 + 6 * 100, 0.02),
    "blocks of two rows": (cs.Permutation(n_draws=2), 1 + 12 * 40, 0.02),
    "blocks of ten rows": (cs.Permutation(n_draws=10), 1 + 60 * 20, 0.3),
    "kernel": ("kernel", 1 + 2 * 20 * 20, 0.05),
    "kernel one way": (cs.Kernel(paired=False), 1 + 20 * 40, 0.05),
    "kernel of two draws": (cs.Kernel(n_draws=2), 1 + 4 * 10 * 20, 0.05),
    "kernel of overlapping draws": (cs.Kernel(n_draws=8), 1 + 16 * 5 * 20, 0.3),
    "walks of overlapping draws": (cs.Permutation(n_draws=8), 1 + 48 * 5 * 4, 0.1),
    "player by player": ("per_feature", 1 + 16 * 60, 0.02),
    # what coalitions leave open in each row's own regression adds to the scatter
    "the whole background": (cs.Kernel(n_draws=M), 1 + 2 * M * 60, 0.1),
    "the whole background, pairs kept": (cs.Kernel(n_draws=M, reuse=True), 1 + 2 * M * 14, 0.1),
}


@pytest.mark.parametrize(("estimator", "budget", "most"), SAMPLED.values(), ids=SAMPLED.keys())
def test_the_noise_of_sampled_coalitions_is_no_part_of_the_term(estimator, budget, most, global_seed):
    backgrounds, values = population(global_seed)
    explanations = explain_all(backgrounds, budget, global_seed, estimator=estimator)
    check_mean(reported(explanations), values.var(axis=1, ddof=1) / M, most=most)


@pytest.mark.parametrize("units", [8, 14, 22, 30])
def test_within_the_first_passes_the_term_is_conservative(units, global_seed):
    # few second visits, or none, show how much of the scatter between rows is noise of their walks
    backgrounds, values = population(global_seed)
    explanations = explain_all(backgrounds, 1 + 6 * units, global_seed, estimator="permutation")
    check_mean(reported(explanations), values.var(axis=1, ddof=1) / M, most=3.0)


def test_a_control_does_not_change_the_term(global_seed):
    backgrounds, values = population(global_seed)
    explanations = explain_all(backgrounds[:40], 1 + 6 * 100, global_seed, estimator="permutation", control="ridge")
    check_mean(reported(explanations), values[:40].var(axis=1, ddof=1) / M, most=0.02)


def test_the_check_refuses_terms_that_are_half_or_twice_as_large(global_seed):
    backgrounds, values = population(global_seed)
    found = reported(explain_all(backgrounds, 1 + 6 * 100, global_seed, estimator="permutation"))
    expected = values.var(axis=1, ddof=1) / M
    with pytest.raises(AssertionError, match="too small"):
        check_mean(0.5 * found, expected)
    with pytest.raises(AssertionError, match="too large"):
        check_mean(2.0 * found, expected)


def test_a_player_with_the_same_value_in_every_row_owes_nothing_to_the_background():
    background = np.random.default_rng(3).normal(size=(M, P))
    background[:, 2] = X[2]
    explanation = cs.Explainer(lambda rows: model2(rows)[:, 0], background, control="none")(X, budget=1000, rng=0)
    assert explanation.background_standard_errors[0, 2] < 1e-15
    assert (explanation.background_standard_errors[0, [0, 1, 3]] > 0).all()


def test_the_term_falls_with_the_square_root_of_the_rows(global_seed):
    rng = np.random.default_rng(global_seed)
    few, many = rng.normal(size=(40, 50, P)) @ MIXING, rng.normal(size=(10, 200, P)) @ MIXING
    smaller = reported(explain_all(many, 10_000, global_seed)).mean(axis=0)
    larger = reported(explain_all(few, 10_000, global_seed)).mean(axis=0)
    # 2,000 rows each: their variances are known to about sqrt(kurtosis / 2000)
    assert (np.abs(np.log(larger / smaller / 4.0)) < 0.5).all()


# Forms that need no sampling.

RNG = np.random.default_rng(9)
TRAIN = RNG.normal(size=(150, P)) @ MIXING
TARGET = TRAIN @ [1.0, -2.0, 0.5, 0.0] + np.tanh(TRAIN[:, 0] * TRAIN[:, 1])
LABEL = (TARGET > 0).astype(int) + (TARGET > 2)
FORMS = {
    "linear": (LinearRegression().fit(TRAIN, TARGET), "predict"),
    "linear, outputs": (LinearRegression().fit(TRAIN, np.column_stack([TARGET, TRAIN[:, 3]])), "predict"),
    "logistic": (LogisticRegression().fit(TRAIN, LABEL > 0), "predict_proba"),
    "forest": (RandomForestRegressor(5, max_depth=3, random_state=0).fit(TRAIN, TARGET), "predict"),
    "forest, classes": (RandomForestClassifier(5, max_depth=3, random_state=0).fit(TRAIN, LABEL), "predict_proba"),
}


def predictions_of(model, kind):
    def predict(rows):
        found = getattr(model, kind)(rows)
        return found[:, 1] if kind == "predict_proba" and found.shape[1] == 2 else found

    return predict


@pytest.mark.parametrize(("model", "kind"), FORMS.values(), ids=FORMS.keys())
def test_exact_forms_tell_the_term_row_by_row_of_a_small_background(model, kind):
    background = TRAIN[:M]
    explanation = cs.Explainer(model, background)(X, rng=0)
    assert explanation.status[0] == "exact"
    assert explanation.method[0].endswith("form")
    expected = row_values(predictions_of(model, kind), X, background).var(axis=0, ddof=1) / M
    found = explanation.background_standard_errors[0].reshape(P, -1) ** 2
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize(("model", "kind"), FORMS.values(), ids=FORMS.keys())
def test_exact_forms_tell_the_term_from_parts_of_a_large_background(model, kind, global_seed):
    rng = np.random.default_rng(global_seed)
    found, expected = [], []
    for _ in range(40):
        background = rng.normal(size=(90, P)) @ MIXING
        explanation = cs.Explainer(model, background)(X, rng=0)
        found.append(explanation.background_standard_errors[0].reshape(P, -1) ** 2)
        expected.append(row_values(predictions_of(model, kind), X, background).var(axis=0, ddof=1) / 90)
    check_mean(np.array(found), np.array(expected))


# Intervals.

SLOPE = np.array([1.0, -0.5, 0.7])
POINT = np.array([0.8, -0.5, 1.1])
# of f = slope . x + x0 x1 over a population of independent standard normals
TRUTH = SLOPE * POINT + np.array([0.5, 0.5, 0.0]) * POINT[0] * POINT[1]


WALKS = {"estimator": cs.Permutation(paired=False)}  # pairs would know a quadratic exactly


def simple(rows):
    return rows @ SLOPE + rows[:, 0] * rows[:, 1]


def coverage(settings, budget, seed, n=250, m=25, **interval):
    """Share of the population's values inside, and of backgrounds that have all inside."""
    rng = np.random.default_rng((seed, 5))
    inside = []
    for k in range(n):
        explainer = cs.Explainer(simple, rng.normal(size=(m, 3)), control="none", **settings)
        low, high = explainer(POINT, budget=budget, rng=k).confidence_interval(**interval)
        inside.append(((low <= TRUTH) & (high >= TRUTH))[0])
    return np.array(inside)


@pytest.mark.parametrize(
    ("settings", "budget"),
    [({}, 1000), (WALKS, 1 + 2 * 60), (WALKS, 1 + 2 * 15)],
    ids=["exact", "two passes", "part of a pass"],
)
def test_intervals_with_the_background_hold_the_values_of_the_population(settings, budget, global_seed):
    inside = coverage(settings, budget, global_seed, background=True).mean(axis=1)
    error = inside.std(ddof=1) / np.sqrt(len(inside))
    assert 0.92 - 3.9 * error < inside.mean() < 0.98 + 3.9 * error


def test_simultaneous_intervals_with_the_background_hold_all_values_of_the_population(global_seed):
    inside = coverage({}, 1000, global_seed, background=True, simultaneous=True).all(axis=1)
    assert inside.mean() > 0.93 - 3.9 * np.sqrt(0.05 * 0.95 / len(inside))


def test_intervals_without_the_background_hold_the_values_of_the_background_alone(global_seed):
    inside = coverage(WALKS, 1 + 2 * 60, global_seed).mean(axis=1)
    assert inside.mean() < 0.8
    assert coverage({}, 1000, global_seed, n=20).mean() == 0.0


def test_intervals_of_exact_values_have_the_reach_of_student_over_the_rows():
    background = TRAIN[:15]
    explanation = cs.Explainer(model2, background)(X, budget=1000, rng=0)
    low, high = explanation.confidence_interval(0.9, background=True)
    expected = t.ppf(0.95, 14) * explanation.background_standard_errors
    np.testing.assert_allclose(high - explanation.values, expected, rtol=1e-8)
    np.testing.assert_allclose(explanation.values - low, expected, rtol=1e-8)


def test_both_errors_are_added_as_variances():
    explanation = cs.Explainer(model2, TRAIN[:100], estimator="permutation", control="none")(X, budget=3000, rng=0)
    own, other = explanation.standard_errors, explanation.background_standard_errors
    reach = np.diff(explanation.confidence_interval(background=True), axis=0)[0] / 2.0
    together = np.sqrt(own**2 + other**2)
    # degrees of freedom of a sum lie between the fewest of its parts and infinity
    fewest = np.minimum(explanation.degrees_of_freedom, 99.0)
    assert (reach >= norm.ppf(0.975) * together - 1e-12).all()
    assert (reach <= t.ppf(0.975, fewest) * together + 1e-12).all()


# Shapes, and where there is no such term.


@pytest.mark.parametrize("estimator", ["auto", "permutation", "per_feature", cs.Kernel(n_draws=15)], ids=str)
def test_the_term_has_the_shape_of_the_values(estimator):
    for function, groups in ((model2, None), (lambda rows: model2(rows)[:, 0], {"pair": [0, 2]})):
        explainer = cs.Explainer(function, TRAIN[:15], estimator=estimator, control="none", groups=groups)
        explanation = explainer(TRAIN[20:23], budget=700, rng=0)
        assert explanation.background_standard_errors.shape == explanation.values.shape
        assert (explanation.background_standard_errors > 0).all()


@pytest.mark.parametrize("estimator", ["permutation", "kernel"])
def test_correlated_features_have_no_such_term_and_say_so(estimator):
    explainer = cs.Explainer(model2, TRAIN[:60], features="correlated", estimator=estimator, control="none")
    explanation = explainer(X, budget=400, rng=0)
    assert explanation.background_standard_errors is None
    with pytest.raises(cs.InvalidArgumentError, match=r"`background=True`.*needs features='independent'.*Leave it out"):
        explanation.confidence_interval(background=True)
    explanation.confidence_interval()


def test_one_background_row_has_no_such_term():
    explanation = cs.Explainer(model2, TRAIN[:1], estimator="permutation", control="none")(X, budget=400, rng=0)
    assert explanation.background_standard_errors is None
    with pytest.raises(cs.InvalidArgumentError, match="`background=True`"):
        explanation.confidence_interval(background=True)


def test_the_term_survives_the_disk(tmp_path):
    explanation = cs.Explainer(model2, TRAIN[:15])(X, budget=1000, rng=0)
    loaded = cs.load(explanation.save(tmp_path))
    np.testing.assert_array_equal(loaded.background_standard_errors, explanation.background_standard_errors)
    np.testing.assert_array_equal(
        loaded.confidence_interval(background=True), explanation.confidence_interval(background=True)
    )


def test_the_term_is_no_part_of_the_standard_errors():
    explanation = cs.Explainer(model2, TRAIN[:15])(X, budget=1000, rng=0)
    assert (explanation.standard_errors == 0).all()
    assert (explanation.background_standard_errors > 0).all()


def test_the_order_of_the_background_rows_does_not_matter_for_exact_forms():
    rows = np.random.default_rng(0).normal(size=(400, 3))
    model = LinearRegression().fit(rows, rows @ [1.0, 2.0, 3.0])
    mixed, in_order = (
        cs.Explainer(model, background)(rows[:1]).background_standard_errors
        for background in (rows, rows[np.argsort(rows[:, 2])])
    )
    np.testing.assert_allclose(mixed, in_order, rtol=0.6)


def test_draws_that_are_not_shared_have_no_such_term():
    rows = np.random.default_rng(0).normal(size=(M, P))
    estimator = cs.PerFeature(shares_draws=False)
    explanation = cs.Explainer(model2, rows, estimator=estimator, control="none")(X, budget=500, rng=0)
    assert explanation.background_standard_errors is None
