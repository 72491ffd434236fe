"""Bad input gets an error that names the argument, the rule, what came in and the way out, before any model call."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

import controlshap as cs

BACKGROUND = np.random.default_rng(0).normal(size=(12, 3))
ROW = np.array([[0.5, -1.0, 2.0]])
HOLED = np.where(np.arange(3) == 1, np.nan, BACKGROUND)
INFINITE = np.where(np.arange(3) == 2, np.inf, BACKGROUND)


class Counting:
    """Sums the columns and counts how often it was asked."""

    def __init__(self):
        self.calls = 0

    def __call__(self, rows):
        self.calls += 1
        return rows.sum(axis=1)


class LabelsOnly:
    classes_ = np.array(["no", "yes"])

    def predict(self, rows):
        return self.classes_[(rows[:, 0] > 0).astype(int)]


ROW_OF_FRAME = pd.DataFrame(BACKGROUND).iloc[0]


def gaussian(**settings):
    return {"features": cs.GaussianConditional(**settings)}


MAKING = {
    "background of one dimension": ({"background": np.ones(3)}, r"`background`.*two-dimensional.*got 1 dim.*row\[None"),
    "background of one row of a frame": ({"background": ROW_OF_FRAME}, r"\(Series\).*frame\.iloc\[\[0\]\]"),
    "background of three dimensions": ({"background": np.ones((2, 3, 1))}, r"`background`.*two-dim.*got 3 dim"),
    "background without rows": ({"background": np.ones((0, 3))}, r"`background` is empty.*\(0, 3\).*at least one row"),
    "background without columns": ({"background": np.ones((3, 0))}, r"`background` has no columns.*\(3, 0\)"),
    "background missing": ({"background": None}, r"`background` is None; pass rows"),
    "background of lists": (
        {"background": np.array([[[1], "a"], [[2, 3], "b"]], dtype=object)},
        r"`background`: the column 'x0' holds lists, which are neither numbers nor categories.*Turn it into",
    ),
    "background infinite": ({"background": INFINITE}, r"`background`.*infinite.*row 0, column 2.*Replace or drop"),
    "background with holes, correlated": (
        {"background": HOLED, "features": "correlated"},
        r"`background` holds NaN.*\['x1'\].*Impute.*features='independent'",
    ),
    "one row, correlated": (
        {"background": ROW, "features": "correlated"},
        r"`background` has one row.*several rows, or GaussianConditional\(mean",
    ),
    "one row, copula": ({"background": ROW, "features": "copula"}, r"`background` has one row.*needs several rows"),
    "background with holes, copula": (
        {"background": HOLED, "features": "copula"},
        r"`background` holds NaN.*\['x1'\].*Impute.*features='independent'",
    ),
    "one row, empirical": ({"background": ROW, "features": "empirical"}, r"`background` has one row.*several rows"),
    "one row, mixture": ({"background": ROW, "features": "mixture"}, r"`background` has 1 rows.*at least 2"),
    "features unknown": (
        {"features": "linear"},
        r"`features` must be one of 'independent', 'correlated', 'copula'.*got 'linear'",
    ),
    "features a class": ({"features": cs.Marginal}, r"`features`.*Marginal\(\).*Instantiate the class"),
    "features an odd object": (
        {"features": 3},
        r"`features` must be a name or an object.*got 3.*subclass of controlshap\.ValueFunction",
    ),
    "estimator unknown": ({"estimator": "walk"}, r"`estimator` must be one of 'auto', 'permutation'.*got 'walk'"),
    "estimator a class": ({"estimator": cs.Kernel}, r"`estimator`.*Kernel\(\).*Instantiate the class"),
    "control unknown": (
        {"control": "tailor"},
        r"`control` must be one of 'auto', 'thorough', 'none', 'taylor'.*got 'tailor'",
    ),
    "control a class": ({"control": [cs.Taylor]}, r"`control`.*Taylor\(\).*Instantiate the class"),
    "control an empty list": ({"control": []}, r"`control` is an empty list; use control='none'"),
    "variance unknown": ({"variance": "jackknife"}, r"`variance` must be one of 'auto', 'analytic'.*got 'jackknife'"),
    "variance a class": ({"variance": cs.Bootstrap}, r"`variance`.*Bootstrap\(\).*Instantiate the class"),
    "coefficient unknown": ({"coefficient": "half"}, r"`coefficient` must be 'auto', 'units' or 'folds'; got 'half'"),
    "analytic with kernel": (
        {"estimator": "kernel", "variance": "analytic"},
        r"`variance='analytic'` fits.*KernelSHAP.*Use variance='least_squares', 'bootstrap' or 'auto'",
    ),
    "least squares with walks": (
        {"estimator": "permutation", "variance": "least_squares"},
        r"`variance='least_squares'` fits estimator='kernel' only.*Use variance='analytic'",
    ),
    "the paper's least squares with one draw": (
        {"estimator": "kernel", "variance": cs.LeastSquares(paper=True)},
        r"LeastSquares\(paper=True\)`.*two or more; got n_draws=1.*Use Kernel\(n_draws=10\)",
    ),
    "folds with bootstrap": (
        {"coefficient": "folds", "variance": "bootstrap"},
        r"`coefficient='folds'`.*not Bootstrap\(.*Use coefficient='units'",
    ),
    "memory limit in megabytes": ({"memory_limit": 256}, r"`memory_limit` must be.*at least 1048576 \(bytes.*got 256"),
    "max_background of nothing": ({"max_background": 0}, r"`max_background` must be.*at least 2 \(rows\); got 0"),
    "max_background infinite": ({"max_background": np.inf}, r"`max_background` must be a whole number.*got inf"),
    "groups overlap": ({"groups": {"A": [0, 1], "B": [1, 2]}}, r"`groups`.*overlap.*'x1'.*group 'B'.*Keep it in one"),
    "groups name a column twice": ({"groups": [["x0", "x0"]]}, r"`groups`.*'x0' is named twice"),
    "groups name an unknown column": (
        {"groups": {"A": ["x0", "x9"]}},
        r"`groups`: group 'A'.*unknown.*'x9'.*are \['x0'",
    ),
    "groups nearly name a column": ({"groups": {"A": ["X1"]}}, r"unknown column 'X1'\. Did you mean one of \['x1'\]"),
    "groups name an unknown position": ({"groups": [[0, 3]]}, r"`groups`: group 0 names column 3.*from 0 to 2"),
    "groups with an empty one": ({"groups": {"A": []}}, r"`groups`: group 'A' must be a non-empty list.*got \[\]"),
    "groups with a bare name": ({"groups": {"A": "x1"}}, r"`groups`: group 'A' must be a non-empty list.*got 'x1'"),
    "groups that are none": ({"groups": 3}, r"`groups` must be a dict of lists.*got int"),
    "a group named like a column": ({"groups": {"x2": [0, 1]}}, r"`groups`.*name of its own.*\['x2'\].*Rename"),
    "mean of the wrong shape": (gaussian(mean=np.zeros(2)), r"`mean` must have shape \(3,\).*got \(2,\)"),
    "covariance of the wrong shape": (
        gaussian(covariance=np.eye(2)),
        r"`covariance` must have shape \(3, 3\).*\(2, 2\)",
    ),
    "covariance asymmetric": (gaussian(covariance=np.triu(np.ones((3, 3)))), r"`covariance` must be symmetric; pass"),
    "covariance with holes": (gaussian(covariance=np.full((3, 3), np.nan)), r"`covariance` must be finite"),
    "variance below zero": (gaussian(covariance=-np.eye(3)), r"`covariance` has a negative variance.*'x0'"),
    "a class as model": ({"model": Counting}, r"`model` is the class Counting.*Pass an instance"),
    "a number as model": ({"model": 3}, r"`model` must be callable.*got int.*Pass for example"),
    "a classifier that has labels only": ({"model": LabelsOnly()}, r"`model` \(LabelsOnly\).*class labels.*Calibrate"),
}


@pytest.mark.parametrize(("settings", "message"), MAKING.values(), ids=MAKING.keys())
def test_an_explainer_refuses(settings, message):
    model = Counting()
    with pytest.raises(cs.InvalidArgumentError, match=message):
        cs.Explainer(**({"model": model, "background": BACKGROUND} | settings))
    assert model.calls == 0


CALLING = {
    "X missing": ({"X": None}, r"`X` is None; pass rows"),
    "X without rows": ({"X": np.ones((0, 3))}, r"`X` is empty"),
    "X with another number of columns": (
        {"X": np.ones((1, 4))},
        r"`X` has 4 columns but `background` has 3; both need",
    ),
    "X of three dimensions": ({"X": np.ones((1, 1, 3))}, r"`X` must be two-dimensional.*got 3 dim"),
    "X a dict": ({"X": {"a": 1.0}}, r"got 0 dim.*\(dict\). Pass .*DataFrame\(\[row\]\)"),
    "X infinite": ({"X": [[1.0, -np.inf, 0.0]]}, r"`X` must not hold infinite values.*row 0, column 1.*Replace"),
    "budget of a fraction": ({"budget": 99.5}, r"`budget` must be a whole number of at least 1 .*got 99\.5"),
    "budget negative": ({"budget": -5}, r"`budget` must be a whole number of at least 1 .*got -5"),
    "budget infinite": ({"budget": np.inf}, r"`budget` must be a whole number.*got inf"),
    "budget not a number": ({"budget": np.nan}, r"`budget` must be a whole number.*got nan"),
    "budget of text": ({"budget": "100"}, r"`budget` must be a whole number.*got '100'"),
    "tolerance of zero": ({"tolerance": 0.0}, r"`tolerance` must be positive.*got 0\.0\. Use for example 0\.01"),
    "tolerance of text": ({"tolerance": "low"}, r"`tolerance` must be positive.*got 'low'"),
    "rng a float": ({"rng": 0.5}, r"`rng` must be an integer.*got float.*`rng=0`"),
    "rng negative": ({"rng": -1}, r"`rng` must not be negative; got -1.*`rng=0`"),
    "no workers": ({"n_jobs": 0}, r"`n_jobs` must be a positive number, or -1 for all cores; got 0"),
}


@pytest.mark.parametrize(("arguments", "message"), CALLING.values(), ids=CALLING.keys())
def test_a_call_refuses(arguments, message):
    model = Counting()
    explainer = cs.Explainer(model, BACKGROUND, estimator="permutation", control="none")
    with pytest.raises(cs.InvalidArgumentError, match=message):
        explainer(**({"X": ROW} | arguments))
    assert model.calls == 0


def test_a_row_with_holes_is_refused_where_features_are_correlated():
    model = Counting()
    explainer = cs.Explainer(model, BACKGROUND, features="correlated")
    with pytest.raises(cs.InvalidArgumentError, match=r"`X` holds NaN in the columns \['x0'\].*Impute"):
        explainer([[np.nan, 0.0, 0.0]])
    assert model.calls == 0


def test_an_unknown_keyword_is_an_error_and_not_swallowed():
    with pytest.raises(TypeError, match="unexpected keyword argument 'nsamples'"):
        cs.Explainer(Counting(), BACKGROUND, nsamples=100)
    with pytest.raises(TypeError, match="unexpected keyword argument 'l1_reg'"):
        cs.explain(Counting(), ROW, BACKGROUND, l1_reg=0)
    with pytest.raises(TypeError, match=r"settings, such as seconds_per_evaluation, belong to Explainer\(...\)"):
        cs.Explainer(Counting(), BACKGROUND).plan(seconds_per_evaluation=1.0)


def test_labels_in_place_of_numbers_name_the_way_out():
    explainer = cs.Explainer(lambda rows: np.where(rows[:, 0] > 0, "yes", "no"), BACKGROUND)
    with pytest.raises(cs.ModelOutputError, match=r"labels of classes: pass the fitted classifier.*`predict_proba`"):
        explainer(ROW)


def test_a_forest_that_was_never_fitted_says_so_and_nothing_else():
    with pytest.raises(NotFittedError, match="not fitted yet"):  # warnings are errors here
        cs.Explainer(RandomForestClassifier(), BACKGROUND)(ROW)


STRATEGIES = {
    "no draws": (lambda: cs.Permutation(n_draws=0), r"`n_draws` must be a whole number of at least 1; got 0"),
    "draws in halves": (lambda: cs.Kernel(n_draws=1.5), r"`n_draws` must be a whole number.*got 1\.5"),
    "draws as text": (lambda: cs.PerFeature(n_draws="ten"), r"`n_draws` must be a whole number.*got 'ten'"),
    "few resamples": (lambda: cs.Bootstrap(5), r"`n_resamples` must be.*at least 10; got 5.*200"),
    "resamples in halves": (lambda: cs.Bootstrap(20.5), r"`n_resamples` must be a whole number.*got 20\.5"),
    "two groups": (lambda: cs.Grouped(2), r"`n_groups` must be.*at least 3; got 2.*20"),
    "groups in halves": (lambda: cs.Grouped(3.5), r"`n_groups` must be a whole number.*got 3\.5"),
    "step of zero": (lambda: cs.FiniteDifferences(step=0), r"`step` must be a positive number.*got 0"),
    "step without end": (lambda: cs.FiniteDifferences(step=np.inf), r"`step` must be a positive number.*got inf"),
    "cross unknown": (
        lambda: cs.FiniteDifferences(cross="maybe"),
        r"`cross` must be 'auto', True or False; got 'maybe'",
    ),
    "few permutations": (lambda: cs.Taylor(n_permutations=2), r"`n_permutations` must be.*at least 8; got 2"),
    "hessian alone": (lambda: cs.Taylor(hessian=np.sum), r"`hessian` needs `gradient`"),
    "gradient no function": (
        lambda: cs.Taylor(gradient=[1.0, 2.0]),
        r"`gradient` must be a function of one row; got list",
    ),
    "derivatives twice": (
        lambda: cs.Taylor(derivatives=cs.FiniteDifferences(), gradient=np.sum),
        r"Give `derivatives` or `gradient`, not both",
    ),
    "derivatives a class": (
        lambda: cs.Taylor(derivatives=cs.FiniteDifferences),
        r"`derivatives` must be an object such as FiniteDifferences\(\); got <class",
    ),
    "draws from nowhere": (lambda: cs.GaussianConditional(draws="data"), r"`draws` must be 'gaussian' or.*got 'data'"),
    "binary unknown": (lambda: cs.GaussianConditional(binary="cut"), r"`binary` must be 'linear' or.*got 'cut'"),
    "components of 0": (lambda: cs.Mixture(0), r"`n_components` must be a whole number of at least 1.*got 0"),
    "components in words": (lambda: cs.Mixture("many"), r"`n_components` must be.*or 'auto'; got 'many'"),
    "mixture of no eigenvalue": (lambda: cs.Mixture(2, 0.0), r"`min_eigenvalue` must lie between 0 and 1; got 0\.0"),
    "bandwidth of 0": (lambda: cs.Empirical(bandwidth=0.0), r"`bandwidth` must be a number above 0; got 0\.0.*0\.1"),
    "bandwidth in words": (lambda: cs.Empirical(bandwidth="wide"), r"`bandwidth` must be a number above 0; got 'wide'"),
    "eigenvalue of distances": (
        lambda: cs.Empirical(min_eigenvalue=0.0),
        r"`min_eigenvalue` must lie between 0 and 1; got 0\.0.*1e-4",
    ),
    "margins unknown": (lambda: cs.GaussianConditional(margins="normal"), r"`margins` must be 'gaussian' or.*'normal'"),
    "mean of scores": (
        lambda: cs.GaussianConditional(mean=np.zeros(3), margins="empirical"),
        r"`mean` plays no part with margins='empirical'.*Leave it out, or use margins='gaussian'",
    ),
    "covariance of scores": (
        lambda: cs.GaussianConditional(covariance=np.eye(3), margins="empirical"),
        r"`covariance` plays no part with margins='empirical'",
    ),
    "cuts of scores": (
        lambda: cs.GaussianConditional(binary="threshold", margins="empirical"),
        r"`binary` plays no part with margins='empirical'",
    ),
    "eigenvalue too large": (
        lambda: cs.GaussianConditional(min_eigenvalue=1.5),
        r"`min_eigenvalue` must lie between 0 and 1; got 1\.5.*1e-4",
    ),
    "level of an interval": (
        lambda: cs.explain(Counting(), ROW, BACKGROUND, rng=0).confidence_interval(95),
        r"`level` must lie between 0 and 1; got 95.*0\.95",
    ),
}


@pytest.mark.parametrize(("make", "message"), STRATEGIES.values(), ids=STRATEGIES.keys())
def test_a_setting_is_checked_where_it_is_given(make, message):
    with pytest.raises(cs.InvalidArgumentError, match=message):
        make()


NEVER_RIGHT = {
    "NaN": (lambda rows: np.full(len(rows), np.nan), r"finite values; on background rows 0 to 11.*NaN.*12 of 12 rows"),
    "infinite": (
        lambda rows: np.where(rows[:, 0] == ROW[0, 0], np.inf, 0.0),
        r"finite.*row 0.*NaN or infinite.*row 0 of",
    ),
    "of another length": (lambda rows: np.zeros(len(rows) + 1), r"\(12,\) or \(12, outputs\).*shape \(13,\).*batch"),
    "a scalar": (lambda rows: 1.0, r"one value per row.*returned shape \(\)"),
    "of three dimensions": (lambda rows: np.zeros((len(rows), 1, 1)), r"one value per row.*shape \(12, 1, 1\)"),
    "labels": (
        lambda rows: np.array(["yes"] * len(rows)),
        r"must return numbers; on background rows.*labels of classes",
    ),
    "labels that look like numbers": (lambda rows: np.array(["1"] * len(rows)), r"must return numbers; on background"),
    "no outputs": (lambda rows: np.zeros((len(rows), 0)), r"no outputs \(shape \(12, 0\)\)"),
    "sometimes two": (
        lambda rows: np.zeros((len(rows), 1 if len(rows) == 12 else 2)),
        r"1 outputs a row before and 2 on row 0.*same shape at every call",
    ),
}


@pytest.mark.parametrize(("model", "message"), NEVER_RIGHT.values(), ids=NEVER_RIGHT.keys())
def test_predictions_must_be_one_finite_number_per_row_and_output(model, message):
    with pytest.raises(cs.ModelOutputError, match=message):
        cs.Explainer(model, BACKGROUND, control="none")(ROW, budget=200, rng=0)


class OverheatedError(RuntimeError):
    pass


@pytest.mark.parametrize("estimator", ["permutation", "kernel", "per_feature"])
def test_the_models_own_exception_comes_through_with_the_row_and_the_batch(estimator):
    sizes = []

    def model(rows):
        # 9.0 stands in the second explained row only, and alone where that row itself is evaluated
        if len(rows) > 1 and (rows[:, 0] == 9.0).any():
            sizes.append(len(rows))
            raise OverheatedError("sensor 7")
        return rows.sum(axis=1)

    explainer = cs.Explainer(model, BACKGROUND, estimator=estimator, control="none")
    with pytest.raises(OverheatedError, match="sensor 7") as caught:
        explainer([[1.0, 2.0, 3.0], [9.0, 2.0, 3.0]], budget=100, rng=0)
    assert caught.value.args == ("sensor 7",)
    (note,) = caught.value.__notes__
    found = re.fullmatch(
        r"controlshap: the model raised this on row 1, evaluations (\d+) to (\d+) \((\d+) rows\)\.", note
    )
    first, last, n_rows = (int(number) for number in found.groups())
    assert last - first + 1 == n_rows == sizes[0]


def test_a_bootstrap_of_few_units_with_a_fitted_coefficient_is_warned_about():
    background = np.random.default_rng(0).normal(size=(30, 4))
    settings = {"estimator": "permutation", "control": "taylor", "variance": "bootstrap"}
    explainer = cs.Explainer(lambda rows: np.tanh(rows.sum(axis=1)), background, **settings)
    with pytest.warns(cs.ErraticVarianceWarning, match=r"Taylor.*Use variance='auto', or raise `budget`"):
        explainer(background[0] + 1.0, budget=400, rng=0)


def test_the_papers_least_squares_formula_needs_two_rows_to_draw_from():
    settings = {"estimator": cs.Kernel(n_draws=5), "variance": cs.LeastSquares(paper=True), "control": "none"}
    with pytest.raises(cs.InvalidArgumentError, match="needs two or more; got n_draws=1"):
        cs.explain(Counting(), ROW, BACKGROUND[:1], budget=500, rng=0, **settings)


FRAME = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 3)), columns=["a", "b", "c"])
FITTED = LinearRegression().fit(FRAME, FRAME["a"])


def test_columns_that_are_missing_or_too_many_are_named():
    explainer = cs.Explainer(FITTED, FRAME)
    with pytest.raises(cs.InvalidArgumentError, match=r"`X` lacks \['b'\]"):
        explainer(FRAME[["a", "c"]])
    with pytest.raises(cs.InvalidArgumentError, match=r"`background` does not have \['target'\], which `X` has"):
        explainer(FRAME.assign(target=1.0))
    with pytest.raises(cs.InvalidArgumentError, match=r"`X` lacks \['b'\]; `background` does not have \['d'\]"):
        explainer(FRAME.rename(columns={"b": "d"}))


@pytest.mark.filterwarnings("error")
def test_a_background_with_the_target_is_suspected_aloud():
    with pytest.raises(cs.ControlShapWarning, match=r"not fitted on: \['target'\]. Is one of them the target"):
        cs.Explainer(FITTED, FRAME.assign(target=1.0))
    with pytest.raises(cs.ControlShapWarning, match="Is one of them the target"):
        cs.Explainer(FITTED.predict, FRAME.assign(target=1.0))
    cs.Explainer(FITTED, FRAME)


def test_a_path_and_swapped_arguments_get_the_way_out():
    with pytest.raises(cs.InvalidArgumentError, match=r"got str\. Load the file first"):
        cs.Explainer("model.pkl", FRAME)
    for first in (FRAME, FRAME.to_numpy()):
        with pytest.raises(cs.InvalidArgumentError, match="seem to be swapped"):
            cs.Explainer(first, FITTED)


@pytest.mark.parametrize("method", ["plan", "refine", "explain_dataset"])
def test_methods_say_which_arguments_of_a_call_they_take(method, tmp_path):
    explainer = cs.Explainer(lambda rows: rows[:, 0], np.eye(3))
    positional = {"plan": [np.eye(3)], "refine": [explainer(np.eye(3))], "explain_dataset": [np.eye(3), tmp_path]}
    expected = rf"Explainer.{method}\(\) got an unexpected keyword argument 'history'.*takes budget, "
    with pytest.raises(TypeError, match=expected):
        getattr(explainer, method)(*positional[method], history=True)
