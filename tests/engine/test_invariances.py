"""What must not change an explanation does not: workers, batches, order, other calls, the unit of the prediction."""

import random

import numpy as np
import pytest
from conftest import make_data
from numpy.testing import assert_allclose, assert_array_equal

import controlshap as cs
from controlshap.controls import Control, PreparedControl

DATA = make_data()
X = DATA.background[:4] + 0.2 * (np.arange(7) < 4)
W, V = np.random.default_rng(1).normal(size=(2, 7)) * 0.4

# The one-hot block makes the covariance singular, and small budgets cut the control down: neither is the point here.
pytestmark = pytest.mark.filterwarnings(
    "ignore::controlshap.SingularCovarianceWarning", "ignore::controlshap.WeakControlWarning"
)
BACKGROUND_DRAWS = cs.GaussianConditional(draws="background")
EITHER_FEATURES = pytest.mark.parametrize("features", ["independent", "correlated"])
EITHER_EXACT = pytest.mark.parametrize("features", ["independent", BACKGROUND_DRAWS], ids=["independent", "correlated"])
EITHER_ESTIMATOR = pytest.mark.parametrize("estimator", ["permutation", "kernel"])
ARRAYS = ["values", "standard_errors", "base_values", "uncontrolled_values", "covariance", "n_evaluations"]


def smooth(rows):
    return np.tanh(rows @ W) + (rows @ V) ** 3


def hessian(x):
    t = np.tanh(x @ W)
    return -2 * t * (1 - t**2) * np.outer(W, W) + 6 * (x @ V) * np.outer(V, V)


# Derivatives that cost no evaluations.
FREE_TAYLOR = cs.Taylor(gradient=lambda x: (1 - np.tanh(x @ W) ** 2) * W + 3 * (x @ V) ** 2 * V, hessian=hessian)


def make(features="independent", estimator="permutation", control="taylor", model=smooth, **settings):
    return cs.Explainer(model, DATA.background, features, estimator, control, groups=DATA.groups, **settings)


def assert_same(one, other, atol=0.0):
    """To the bit unless said otherwise."""
    for name in ARRAYS:
        assert_allclose(getattr(one, name), getattr(other, name), rtol=0, atol=atol, err_msg=name)


@EITHER_FEATURES
@EITHER_ESTIMATOR
def test_the_same_rng_gives_the_same_bits_again_and_with_any_number_of_workers(features, estimator):
    explainer = make(features, estimator)
    first = explainer(X, budget=500, rng=11)
    assert_same(explainer(X, budget=500, rng=11), first)
    # a fresh explainer, so that nothing kept from the first call can help
    assert_same(make(features, estimator)(X, budget=500, rng=11, n_jobs=2), first)
    assert np.abs(explainer(X, budget=500, rng=12).values - first.values).max() > 1e-6


@EITHER_FEATURES
@EITHER_ESTIMATOR
def test_another_memory_limit_changes_rounding_only(features, estimator):
    batches = []

    def model(rows):
        batches[-1].append(len(rows))
        return smooth(rows)

    results = []
    for limit in (2**28, 2**20):
        batches.append([])
        results.append(make(features, estimator, FREE_TAYLOR, model, memory_limit=limit)(X[0], budget=8000, rng=0))
    assert max(batches[1]) < max(batches[0])  # or the limit was not felt, and the test says nothing
    assert_same(*results, atol=1e-10)


@EITHER_FEATURES
@EITHER_ESTIMATOR
def test_the_first_rows_do_not_depend_on_the_rows_after_them(features, estimator):
    explainer = make(features, estimator)
    fewer, all_rows = explainer(X[:3], budget=400, rng=5), explainer(X, budget=400, rng=5)
    for name in ARRAYS:
        assert_array_equal(getattr(fewer, name), getattr(all_rows, name)[:3], err_msg=name)
    # Every row has a stream of its own: the same row in two places has two independent errors.
    twice = explainer(X[[0, 0]], budget=400, rng=5)
    assert np.abs(twice.values[1] - twice.values[0]).max() > 1e-6


@EITHER_EXACT
def test_exact_values_do_not_depend_on_the_other_rows_or_on_the_order_of_the_background(features):
    explainer = make(features, "auto", "none")
    together = explainer(X, budget=1000, rng=0)
    assert (together.status == "exact").all()
    one_by_one = np.concatenate([explainer(row, budget=1000, rng=9).values for row in X])
    assert_allclose(one_by_one, together.values, rtol=0, atol=1e-12)
    shuffled = np.random.default_rng(0).permutation(DATA.background)
    other = cs.Explainer(smooth, shuffled, features, control="none", groups=DATA.groups)(X, budget=1000, rng=0)
    assert_allclose(other.values, together.values, rtol=0, atol=1e-12)


@EITHER_FEATURES
@pytest.mark.parametrize("estimator", ["permutation", "per_feature", "kernel"])
def test_turning_the_control_on_does_not_touch_the_values_without_it(features, estimator):
    # below one pass over the background: after it, pairs leave nothing for a quadratic control to do
    off = make(features, estimator, "none")(X, budget=140, rng=3)
    on = make(features, estimator, FREE_TAYLOR)(X, budget=140, rng=3)
    # sums over one function or two may be ordered differently: rounding, not bits
    assert_allclose(on.uncontrolled_values, off.values, rtol=0, atol=1e-11)
    assert_allclose(on.uncontrolled_standard_errors, off.standard_errors, rtol=0, atol=1e-11)
    assert_array_equal(on.n_evaluations, off.n_evaluations)
    assert np.abs(on.values - off.values).max() > 1e-6


def test_rng_takes_every_kind_and_its_recorded_entropy_gives_the_run_again():
    explainer = make()
    for maker in (lambda: 3, lambda: np.int64(3), lambda: np.random.default_rng(3), lambda: np.random.SeedSequence(3)):
        first = explainer(X[:1], budget=200, rng=maker())
        assert_same(explainer(X[:1], budget=200, rng=maker()), first)
        assert_same(explainer(X[:1], budget=200, rng=first.entropy), first)
    fresh = explainer(X[:1], budget=200)
    assert_same(explainer(X[:1], budget=200, rng=fresh.entropy), fresh)
    assert explainer(X[:1], budget=200).entropy != fresh.entropy
    # A generator moves on between calls, as the user of one expects.
    generator = np.random.default_rng(3)
    assert explainer(X[:1], budget=200, rng=generator).entropy != explainer(X[:1], budget=200, rng=generator).entropy


@EITHER_FEATURES
def test_a_call_leaves_no_trace_for_the_next_one(features):
    one, other = make(features), make(features)
    first = one(X[:2], budget=300, rng=0)
    second = one(X[2:], budget=900, rng=1)
    assert_same(other(X[2:], budget=900, rng=1), second)
    assert_same(other(X[:2], budget=300, rng=0), first)


@EITHER_FEATURES
@pytest.mark.parametrize("estimator", ["auto", "permutation", "per_feature", "kernel"])
@pytest.mark.parametrize("variance", ["auto", "bootstrap", "grouped"])
@pytest.mark.filterwarnings("ignore::controlshap.ErraticVarianceWarning")
def test_no_call_touches_the_callers_random_state(features, estimator, variance):
    before, python = np.random.get_state(legacy=False), random.getstate()  # noqa: NPY002 (it must not move)
    make(features, estimator, variance=variance)(X[:1], budget=1500)
    np.testing.assert_equal(np.random.get_state(legacy=False), before)  # noqa: NPY002
    assert python == random.getstate()


@EITHER_EXACT
def test_the_order_of_columns_only_permutes_exact_values(features):
    columns = np.random.default_rng(4).permutation(7)  # column k of the new data is column columns[k] of the old
    back = np.argsort(columns)
    groups = {name: [int(back[c]) for c in members] for name, members in DATA.groups.items()}
    groups |= {f"x{c}": [int(back[c])] for c in (0, 2)}
    plain = make(features, "auto", "none")(X, budget=1000, rng=0)
    explainer = cs.Explainer(
        lambda rows: smooth(rows[:, back]), DATA.background[:, columns], features, control="none", groups=groups
    )
    moved = explainer(X[:, columns], budget=1000, rng=0)
    order = [moved.feature_names.index(name) for name in plain.feature_names]
    assert order != sorted(order)
    # conditioning solves permuted systems whose condition number is limited to about 1e4 times the columns
    assert_allclose(moved.values[:, order], plain.values, rtol=0, atol=1e-9)
    assert (moved.status == "exact").all()


@EITHER_FEATURES
@pytest.mark.parametrize("estimator", ["auto", "permutation", "per_feature", "kernel"])
@pytest.mark.parametrize("control", ["none", "taylor"])
def test_another_unit_of_the_prediction_scales_values_and_errors(features, estimator, control):
    plain = make(features, estimator, control)(X[:2], budget=400, rng=2)
    scaled = make(features, estimator, control, lambda rows: -2.5 * smooth(rows) + 7.0)(X[:2], budget=400, rng=2)
    size = np.abs(plain.values).max()
    assert_allclose(scaled.values, -2.5 * plain.values, rtol=0, atol=1e-9 * size)
    assert_allclose(scaled.standard_errors, 2.5 * plain.standard_errors, rtol=0, atol=1e-9 * size)
    assert_allclose(scaled.base_values, -2.5 * plain.base_values + 7.0, rtol=0, atol=1e-9 * size)
    assert_allclose(scaled.variance_reduction, plain.variance_reduction, rtol=0, atol=1e-6)
    assert_array_equal(scaled.n_evaluations, plain.n_evaluations)


@pytest.mark.parametrize("features", ["independent", "correlated", BACKGROUND_DRAWS], ids=["ind", "corr", "rows"])
@pytest.mark.parametrize("control", ["none", "taylor", "auto"])
@pytest.mark.parametrize(
    "estimator",
    ["auto", "permutation", cs.Permutation(paired=False, n_draws=3), "per_feature", cs.PerFeature(shares_draws=False),
     cs.PerFeature(own_draws=True, shares_draws=False), "kernel", cs.Kernel(paired=False, n_draws=4)],
    ids=str,
)  # fmt: skip
def test_every_row_that_the_model_received_is_counted(features, control, estimator):
    received = []

    def model(rows):
        received.append(len(rows))
        return smooth(rows)

    explainer = make(features, estimator, control, model)
    for budget in (233, 1500):
        received.clear()
        before = explainer.n_background_evaluations
        explanation = explainer(X[:2], budget=budget, rng=0)
        new = explainer.n_background_evaluations - before
        assert sum(received) == explanation.n_evaluations.sum() + new
        assert (explanation.n_evaluations <= budget).all()
        # once the background and 16 of its rows again; of draws one, 17, and 16 of these again
        assert new == (0 if before else 1 + 17 + 16 if features == "correlated" else 24 + 16)


@EITHER_FEATURES
@pytest.mark.parametrize("estimator", ["permutation", "per_feature", "kernel"])
@pytest.mark.parametrize("control", ["none", FREE_TAYLOR], ids=["none", "taylor"])
def test_a_larger_budget_gives_smaller_errors(features, estimator, control):
    explainer = make(features, estimator, control)
    small, large = (explainer(X, budget=budget, rng=0).standard_errors.max(axis=1) for budget in (400, 6400))
    # Sixteen times the units, so a quarter of the error; a factor of two is left for the error of the errors.
    assert (large < 0.5 * small).all()


def test_uncorrelated_gaussian_features_are_independent_ones():
    diagonal = cs.GaussianConditional(covariance=np.diag(DATA.background.var(axis=0)), draws="background")
    plain, gaussian = (make(features, "auto", "none")(X, budget=1000, rng=0) for features in ("independent", diagonal))
    assert (gaussian.status == "exact").all()
    assert_allclose(gaussian.values, plain.values, rtol=0, atol=1e-8)
    correlated = make(BACKGROUND_DRAWS, "auto", "none")(X, budget=1000, rng=0)
    assert np.abs(correlated.values - plain.values).max() > 1e-2  # or any covariance would pass


class OnWhatTheModelSees(Control):
    """A mistake: the linear control on the cut row, against known values of the latent one."""

    def prepare(self, context):
        honest = FREE_TAYLOR.prepare(context)
        return PreparedControl(lambda rows: honest.predict(context.imputer.to_inputs(rows)), honest.known)


def largest_z(control, seed, n=300):
    """Of the mean difference that the control makes, over replications (one stream for each row of X)."""
    features = cs.GaussianConditional(binary="threshold")
    explanation = make(features, "permutation", control)(np.tile(DATA.x, (n, 1)), budget=250, rng=seed)
    assert explanation.variance_reduction.max() > 0.05  # or nothing is tested
    change = explanation.values - explanation.uncontrolled_values
    return np.abs(change.mean(axis=0) / (change.std(axis=0, ddof=1) / np.sqrt(n))).max()


def test_the_control_of_cut_binary_columns_has_no_bias(global_seed):
    # two-sided level 1e-5 for one value, so below 1e-4 for the four players together
    assert largest_z(FREE_TAYLOR, global_seed) < 4.4


def test_a_control_on_the_cut_rows_would_be_biased():
    # Negative control of the test above: it sees such a mistake.
    assert largest_z(OnWhatTheModelSees(), 7, n=100) > 10


@EITHER_FEATURES
@EITHER_ESTIMATOR
def test_a_tolerance_stops_early_and_is_met(features, estimator):
    explainer = make(features, estimator, FREE_TAYLOR)
    spent = []
    for tolerance in (0.2, 0.05):
        explanation = explainer(X[:2], tolerance=tolerance, budget=40_000, rng=0)
        assert (explanation.status == "converged").all()
        assert (explanation.standard_errors.max(axis=1) <= tolerance * np.ptp(explanation.values, axis=1)).all()
        spent.append(explanation.n_evaluations)
    assert (spent[0] < spent[1]).all()
    assert (spent[1] < 20_000).all()


@EITHER_ESTIMATOR
def test_a_tolerance_alone_spends_no_more_on_the_base_value_than_it_needs(estimator):
    # The default budget is then large; what is set aside for v(0) must not be a share of it.
    explanation = make("correlated", estimator, "none")(X[:1], tolerance=0.1, rng=0)
    assert explanation.n_evaluations[0] < 20_000


@EITHER_FEATURES
@EITHER_ESTIMATOR
def test_a_tolerance_out_of_reach_spends_the_budget_and_says_so(features, estimator):
    with pytest.warns(cs.NotConvergedWarning, match=r"Row 0 did not reach"):
        explanation = make(features, estimator)(X[:1], tolerance=1e-6, budget=400, rng=0)
    assert explanation.status[0] == "budget reached"
    # stages end at the budget: the same numbers as without a tolerance
    assert_allclose(explanation.values, make(features, estimator)(X[:1], budget=400, rng=0).values, atol=1e-12)


@pytest.mark.parametrize("case", ["independent permutation", "independent kernel", "correlated permutation"])
def test_stages_are_nested(case):
    # Units cost the same everywhere here and v(0) nothing apart, so this budget buys exactly the units of that stage.
    explainer = make(*case.split(), FREE_TAYLOR)
    staged = explainer(X[:1], tolerance=0.05, budget=50_000, rng=0)
    assert staged.status[0] == "converged"
    assert_same(explainer(X[:1], budget=int(staged.n_evaluations[0]), rng=0), staged, atol=1e-10)
