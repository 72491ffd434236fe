"""The same numbers as the `shap` package where both are exact, and inside our error bars where we sample.

Written against shap 0.51.0 and scikit-learn 1.9.1; each call is given in full, since shap's defaults have changed.
shap draws from numpy's global stream: those tests seed it and put it back.
"""

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
import shap
from calibration_cases import check_nothing_seen
from numpy.testing import assert_allclose
from scipy.cluster.hierarchy import linkage
from sklearn.ensemble import RandomForestRegressor

import controlshap as cs

pytestmark = pytest.mark.slow
RNG = np.random.default_rng(3)
BACKGROUND = RNG.normal(size=(30, 6)) @ (np.eye(6) + 0.3 * RNG.normal(size=(6, 6)))
X = RNG.normal(size=(3, 6))
SLOPE = RNG.normal(size=6)
EXACT_BUDGET = (2**6 - 2) * len(BACKGROUND) + 1


def model(rows):
    return np.tanh(rows[:, 0] + rows[:, 1] * rows[:, 2]) + rows[:, 3] * rows[:, 4] * rows[:, 5]


def linear(rows):
    return rows @ SLOPE + 0.5


@pytest.fixture
def seeded():
    """A known state of the stream that shap draws from, and the old one back afterwards."""
    before = np.random.get_state()  # noqa: NPY002
    np.random.seed(0)  # noqa: NPY002
    yield
    np.random.set_state(before)  # noqa: NPY002


@pytest.fixture(scope="module")
def exact():
    explanation = cs.explain(model, X, BACKGROUND, budget=EXACT_BUDGET, rng=0)
    assert (explanation.status == "exact").all()
    return explanation


def independent(rows):
    """shap's marginal masker over all rows; its default is a sample of 100."""
    return shap.maskers.Independent(rows, max_samples=len(rows))


def test_exact_values_are_those_of_shaps_exact_explainer(exact, seeded):
    theirs = shap.explainers.Exact(model, independent(BACKGROUND))(X)
    assert_allclose(exact.values, theirs.values, rtol=0, atol=1e-8)
    assert_allclose(exact.base_values, theirs.base_values, rtol=0, atol=1e-8)


def test_exact_values_are_those_of_shaps_kernel_explainer_with_all_coalitions(exact, seeded):
    # 2^6 samples cover all 62 inner coalitions, and without l1_reg no feature is dropped: least squares is then exact.
    theirs = shap.KernelExplainer(model, BACKGROUND)
    values = theirs.shap_values(X, nsamples=2**6, l1_reg=False, silent=True)
    assert_allclose(exact.values, values, rtol=0, atol=1e-6)
    assert_allclose(exact.base_values, theirs.expected_value, rtol=0, atol=1e-8)
    # Negative control: with a third of the coalitions it is not exact.
    fewer = theirs.shap_values(X, nsamples=20, l1_reg=False, silent=True)
    assert np.abs(exact.values - fewer).max() > 1e-3


@pytest.mark.parametrize("groups", [None, {"pair": [1, 4]}], ids=["columns", "groups"])
def test_exact_values_of_a_forest_are_those_of_shaps_tree_explainer(groups):
    rows = np.repeat(BACKGROUND, 3, axis=0) + 0.1 * np.random.default_rng(0).normal(size=(90, 6))
    forest = RandomForestRegressor(20, max_depth=4, random_state=0).fit(rows, model(rows))
    ours = cs.explain(forest, X, BACKGROUND, groups=groups, budget=EXACT_BUDGET, rng=0)
    theirs = shap.TreeExplainer(forest, data=BACKGROUND, feature_perturbation="interventional")
    values = theirs.shap_values(X)
    assert (ours.status == "exact").all()
    assert_allclose(ours.base_values, theirs.expected_value, rtol=0, atol=1e-6)
    if groups is None:
        assert_allclose(ours.values, values, rtol=0, atol=1e-6)  # shap sums leaves in single precision
    else:
        # A group's value is not the sum of its columns' values (three-way splits), but all add up to the same.
        assert_allclose(ours.values.sum(axis=1), values.sum(axis=1), rtol=0, atol=1e-6)
        assert np.abs(ours.values[:, 1] - values[:, [1, 4]].sum(axis=1)).max() > 1e-4


def test_independent_values_of_a_linear_model_are_those_of_shaps_linear_explainer():
    theirs = shap.LinearExplainer((SLOPE, 0.5), independent(BACKGROUND))
    ours = cs.explain(linear, X, BACKGROUND, estimator="permutation", budget=1000, rng=0)
    assert_allclose(ours.values, theirs.shap_values(X), rtol=0, atol=1e-8)
    assert_allclose(ours.base_values, theirs.expected_value, rtol=0, atol=1e-8)


@pytest.mark.filterwarnings("ignore:The feature_perturbation option is now deprecated:FutureWarning")
def test_correlated_values_of_a_linear_model_are_those_of_shaps_linear_explainer(seeded):
    # The linear control is the model itself: our values are exact (Theorem 2, all coalitions enumerated).
    features = cs.GaussianConditional()
    control = cs.Taylor(gradient=lambda row: SLOPE)
    ours = cs.Explainer(linear, BACKGROUND, features, "permutation", control)(X, budget=600, rng=0)
    check_nothing_seen(ours.standard_errors[0])
    # shap averages over 100 random permutations without an error of its own: twenty runs of it give one.
    moments = BACKGROUND.mean(axis=0), np.cov(BACKGROUND, rowvar=False, bias=True)
    runs = np.stack(
        [shap.LinearExplainer((SLOPE, 0.5), moments, nsamples=100,
                              feature_perturbation="correlation_dependent").shap_values(X) for _ in range(20)]
    )  # fmt: skip
    error = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
    assert error.max() < 0.02 * np.ptp(ours.values)  # or the comparison would be blunt
    # Student's t with 19 degrees of freedom exceeds 5.5 once in 40,000; there are 18 values
    assert (np.abs(runs.mean(axis=0) - ours.values) < 5.5 * error).all()
    # Negative control: values that ignore the correlation are far outside.
    marginal = cs.explain(linear, X, BACKGROUND, rng=0).values
    assert (np.abs(runs.mean(axis=0) - marginal) > 50 * error).any()


@pytest.fixture(scope="module")
def wide():
    """Twelve features, which shap enumerates and we do not."""
    rng = np.random.default_rng(5)
    background, x = rng.normal(size=(20, 12)), rng.normal(size=(2, 12))
    weights = rng.normal(size=(12, 3)) * 0.5

    def network(rows):
        return np.tanh(rows @ weights).sum(axis=1)

    truth = shap.explainers.Exact(network, independent(background))(x)
    return network, background, x, truth


@pytest.mark.parametrize("estimator", ["auto", "permutation", "kernel"])
@pytest.mark.parametrize("control", ["none", "taylor"])
@pytest.mark.parametrize("budget", [2000, 4000])  # 2^12 coalitions of 20 rows would be 82,000
@pytest.mark.filterwarnings("ignore::controlshap.WeakControlWarning")
def test_estimates_lie_within_their_errors_of_shaps_exact_values(wide, estimator, control, budget):
    network, background, x, truth = wide
    ours = cs.explain(network, x, background, estimator=estimator, control=control, budget=budget, rng=1)
    assert (ours.status == "budget reached").all()
    assert_allclose(ours.base_values, truth.base_values, rtol=0, atol=1e-8)
    assert (np.abs(ours.values - truth.values) < 5 * ours.standard_errors).all()
    # and the errors are not so large that anything would pass
    assert ours.standard_errors.max() < 0.5 * np.ptp(truth.values)


@pytest.fixture
def canvas():
    plt.close("all")
    yield
    plt.close("all")


def labels_of(figure):
    """Names at the ticks of all axes, without the values that a waterfall puts before them ("0.3 = x0")."""
    texts = [label.get_text() for axes in figure.axes for label in axes.get_yticklabels()]
    return {text.split("=")[-1].strip() for text in texts}


@pytest.mark.filterwarnings("ignore:.*NumPy global RNG:FutureWarning")
def test_shaps_plots_draw_our_explanations(exact, canvas, seeded):
    theirs = exact.to_shap()
    axes = shap.plots.bar(theirs, show=False)
    widths = sorted(patch.get_width() for patch in axes.patches)
    assert_allclose(widths, sorted(np.abs(exact.values).mean(axis=0)), rtol=1e-9)
    assert labels_of(axes.figure) >= set(exact.feature_names)
    plt.close("all")
    shap.plots.waterfall(theirs[0], show=False)
    assert labels_of(plt.gcf()) >= set(exact.feature_names)
    plt.close("all")
    axes = shap.plots.beeswarm(theirs, show=False)
    assert labels_of(axes.figure) >= set(exact.feature_names)
    points = sum(len(dots.get_offsets()) for dots in axes.collections)
    assert points == exact.values.size


def test_shaps_plots_draw_groups_by_their_active_column(canvas):
    background = np.column_stack([BACKGROUND[:, :2], np.eye(3)[np.arange(30) % 3]])
    x = np.array([[0.5, -0.5, 0.0, 1.0, 0.0]])
    explanation = cs.explain(
        lambda rows: rows[:, 0] * rows[:, 3] + rows[:, 1], x, background, groups={"job": [2, 3, 4]}, rng=0
    )
    shap.plots.waterfall(explanation.to_shap()[0], show=False)
    texts = [label.get_text() for axes in plt.gcf().axes for label in axes.get_yticklabels()]
    assert "x3 = job" in texts


def test_a_binary_hierarchy_gives_the_values_of_shaps_partition_explainer():
    rng = np.random.default_rng(0)
    p, background, slope = 8, rng.normal(size=(10, 8)), rng.normal(size=8)
    x = rng.normal(size=(1, p))

    def model(rows):
        bend = 0.3 * rows[:, 0] * rows[:, 5] - 0.4 * rows[:, 2] * rows[:, 3] * rows[:, 7]
        return np.tanh(0.5 * rows @ slope + bend)

    for links in (linkage(rng.normal(size=(p, 3)), "complete"), linkage(background.T, "single")):

        def tree(node, links=links):
            return node if node < p else [tree(int(child)) for child in links[node - p, :2]]

        masker = shap.maskers.Partition(background, max_samples=len(background), clustering=links)
        theirs = shap.explainers.Partition(model, masker)(x, max_evals=100_000, silent=True)
        ours = cs.Explainer(model, background, hierarchy=tree(2 * p - 2))(x, rng=0)
        assert ours.status[0] == "exact"
        assert_allclose(ours.values, theirs.values, atol=1e-12)
        assert np.abs(ours.values - cs.Explainer(model, background)(x, rng=0).values).max() > 1e-3
