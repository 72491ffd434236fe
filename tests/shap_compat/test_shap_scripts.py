"""What real scripts do with shap's KernelExplainer, with the class swapped and nothing else changed."""

import copy
import pickle
import warnings
from functools import partial
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import shap
from numpy.testing import assert_allclose, assert_array_equal
from shap_cases import MARKS
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import controlshap as cs

pytestmark = [
    *MARKS,
    pytest.mark.filterwarnings("ignore:.*FigureCanvasAgg is non-interactive:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*vert. parameter:PendingDeprecationWarning"),
]

IRIS = load_iris(as_frame=True)
X, Y = IRIS.data, IRIS.target
ROWS = X.iloc[::30]
CLASSIFIER = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y)
BINARY = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y == 2)
FOREST = RandomForestRegressor(8, max_depth=4, random_state=0).fit(X.values, Y)


def probability(rows):
    """The probability of one class, as a function of arrays."""
    return BINARY.predict_proba(np.asarray(rows))[:, 1]


def of_names(rows):
    """A function that makes its own frame, as many do."""
    return CLASSIFIER.predict_proba(pd.DataFrame(rows, columns=X.columns))


def sample(n=10):
    return shap.sample(X, n, random_state=0)


def kernel(model=probability, data=None, *arguments, **named):
    return cs.KernelExplainer(model, X.iloc[::15] if data is None else data, *arguments, **named)


def column(explainer, rows):
    """The entry of one class, put into the explainer, as scripts of older versions do."""
    values = explainer.shap_values(rows)
    explainer.expected_value = explainer.expected_value[1]
    return explainer.expected_value, values[..., 1]


PATTERNS = {
    "a method and a frame": lambda: kernel(CLASSIFIER.predict_proba).shap_values(ROWS),
    "a lambda": lambda: kernel(lambda rows: CLASSIFIER.predict_proba(rows)[:, 1]).shap_values(ROWS),
    "a function that makes a frame": lambda: kernel(of_names).shap_values(ROWS),
    "a partial": lambda: kernel(partial(np.dot, b=np.ones(4)), X.values[:5]).shap_values(X.values[:2]),
    "a method and arrays": lambda: kernel(FOREST.predict, X.values[::15]).shap_values(X.values[:2]),
    "shap.sample": lambda: kernel(CLASSIFIER.predict_proba, sample()).shap_values(ROWS),
    "shap.kmeans": lambda: kernel(probability, shap.kmeans(X, 5)).shap_values(ROWS),
    "shap.kmeans of an array": lambda: kernel(probability, shap.kmeans(X.values, 5)).shap_values(ROWS.values),
    "a background of zeros": lambda: kernel(probability, np.zeros((1, 4))).shap_values(ROWS.values),
    "medians as an array": lambda: kernel(probability, X.median().values.reshape(1, -1)).shap_values(ROWS),
    "medians as a series": lambda: kernel(probability, X.median()).shap_values(ROWS),
    "means as a frame": lambda: kernel(probability, X.mean().to_frame().T).shap_values(ROWS),
    "data=, model=, link= by name": lambda: cs.KernelExplainer(
        model=CLASSIFIER.predict_proba, data=sample(), link="logit"
    ).shap_values(ROWS),
    "names by position": lambda: kernel(probability, X.values[:10], list(X.columns), "identity").shap_values(ROWS),
    "a link of shap": lambda: kernel(probability, link=shap.links.logit).shap_values(ROWS),
    "nsamples in the call": lambda: kernel().shap_values(ROWS, nsamples=100),
    "nsamples=1e2": lambda: kernel().shap_values(ROWS, nsamples=1e2),
    "nsamples of numpy": lambda: kernel().shap_values(ROWS, nsamples=np.int64(100)),
    "nsamples in the constructor": lambda: kernel(nsamples=100).shap_values(ROWS),
    "l1_reg in the constructor": lambda: kernel(l1_reg="rank(3)", nsamples=100).shap_values(ROWS),
    "l1_reg in the call": lambda: kernel().shap_values(ROWS, l1_reg="num_features(3)"),
    "silent and gc_collect": lambda: kernel().shap_values(ROWS, silent=True, gc_collect=True),
    "check_additivity": lambda: kernel().shap_values(ROWS, check_additivity=False),
    "random_state": lambda: kernel(random_state=3).shap_values(ROWS),
    "a RandomState": lambda: kernel(random_state=np.random.RandomState(3)).shap_values(ROWS),
    "seed": lambda: kernel(seed=3).shap_values(ROWS),
    "one row by iloc": lambda: kernel(CLASSIFIER.predict_proba).shap_values(X.iloc[0]),
    "one row of a frame": lambda: kernel(CLASSIFIER.predict_proba).shap_values(X.iloc[[0]]),
    "one row of an array": lambda: kernel().shap_values(X.values[0]),
    "rows as lists": lambda: kernel().shap_values(X.values[:2].tolist()),
    "explain": lambda: kernel().explain(X.values[:1]),
    "keep_index": lambda: kernel(CLASSIFIER.predict_proba, keep_index=True).shap_values(ROWS),
    "sparse background and rows": lambda: kernel(
        probability_of_sparse, scipy.sparse.csr_matrix(X.iloc[::15])
    ).shap_values(scipy.sparse.csr_matrix(ROWS)),
    "called, and a waterfall": lambda: shap.plots.waterfall(kernel()(ROWS)[0], show=False),
    "called, and a class": lambda: shap.plots.beeswarm(kernel(CLASSIFIER.predict_proba)(ROWS)[..., 1], show=False),
    "summary_plot": lambda: shap.summary_plot(kernel().shap_values(ROWS), ROWS, show=False),
    "force_plot": lambda: shap.force_plot(
        (e := kernel(CLASSIFIER.predict_proba)).expected_value[0], e.shap_values(ROWS)[0, :, 0], ROWS.iloc[0]
    ),
    "decision_plot": lambda: shap.decision_plot((e := kernel()).expected_value, e.shap_values(ROWS), ROWS, show=False),
    "dependence_plot": lambda: shap.dependence_plot(0, kernel().shap_values(ROWS), ROWS, show=False),
    "an Explanation by hand": lambda: shap.Explanation(
        (e := kernel()).shap_values(ROWS), e.expected_value, ROWS.values, feature_names=list(X.columns)
    ),
    "expected_value set": lambda: shap.force_plot(*(one := column(kernel(of_names), ROWS))[:1], one[1][0]),
    "X= by name": lambda: kernel(model=FOREST.predict, data=X.values[:8], link="identity").shap_values(
        X=X.values[:1], nsamples=100
    ),
    "outputs of shape (n, 1)": lambda: kernel(lambda rows: probability(rows).reshape(-1, 1)).shap_values(ROWS),
    "outputs made flat": lambda: kernel(lambda rows: probability(rows).reshape(-1)).shap_values(ROWS),
    "one row of zeros for a classifier": lambda: kernel(CLASSIFIER.predict_proba, np.zeros((1, 4))).shap_values(ROWS),
    "a list for each class, if it is one": lambda: np.abs(
        found[1] if isinstance(found := kernel(CLASSIFIER.predict_proba).shap_values(ROWS), list) else found[..., 1]
    ).mean(axis=0),
    "mean absolute values as a series": lambda: (
        pd.Series(np.abs(kernel().shap_values(ROWS)).mean(axis=0), index=X.columns)
        .sort_values(ascending=False)
        .to_numpy()
    ),
    "a bar summary of all classes": lambda: shap.summary_plot(
        list(np.moveaxis(kernel(CLASSIFIER.predict_proba).shap_values(ROWS), 2, 0)), ROWS, plot_type="bar", show=False
    ),
    "rows one by one": lambda: np.array([kernel().shap_values(X.iloc[row, :], nsamples=50) for row in range(2)]),
    "copied and pickled": lambda: pickle.loads(pickle.dumps(copy.deepcopy(kernel()))).shap_values(ROWS),
}


def probability_of_sparse(rows):
    assert scipy.sparse.issparse(rows)
    return probability(rows.toarray())


@pytest.mark.parametrize("pattern", list(PATTERNS))
def test_call_patterns_of_real_scripts_run_unchanged(pattern):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.ControlShapWarning)
        found = PATTERNS[pattern]()
    plt.close("all")
    if isinstance(found, np.ndarray):
        assert np.isfinite(found).all()


def test_there_are_enough_patterns():
    assert len(PATTERNS) >= 50


def test_a_model_that_says_nothing_gives_nothing():
    for p in (4, 10):
        with pytest.warns(cs.ControlShapWarning, match="`nsamples` has no effect in the constructor"):
            explainer = cs.KernelExplainer(lambda rows: np.zeros(len(rows)), np.ones((2, p)), nsamples=100)
        assert_array_equal(explainer.explain(np.ones((1, p))), np.zeros(p))


def test_a_null_player_of_an_exact_row_is_exactly_zero():
    rows = np.random.default_rng(0).normal(size=(200, 3))
    explanation = cs.KernelExplainer(lambda inputs: inputs[:, 0] + 2.0 * inputs[:, 1], rows)(rows[:20], silent=True)
    assert_allclose(explanation.values, (rows[:20] - rows.mean(0)) * [1.0, 2.0, 0.0], rtol=1e-9)


def test_text_in_arrays_is_data():
    rows = np.array([["A", "0", "0"], ["A", "1", "0"], ["B", "0", "0"], ["B", "1", "0"], ["A", "1", "0"]])
    pipeline = make_pipeline(OneHotEncoder(), LinearRegression()).fit(rows, np.arange(5))
    explainer = cs.KernelExplainer(pipeline.predict, rows)
    values = explainer.explain(rows[:1])
    assert_allclose(explainer.expected_value + values.sum(), pipeline.predict(rows[:1])[0], atol=1e-9)
    assert values[2] == 0


@pytest.mark.parametrize("kind", [bool, object])
def test_truth_values_are_data_and_values_are_shaps(kind):
    rng = np.random.default_rng(7)
    rows = rng.choice([True, False], size=(15, 8)).astype(kind)
    forest = RandomForestClassifier(10, random_state=0).fit(rows, rng.choice([0.0, 1.0], 15))
    found = cs.KernelExplainer(forest.predict_proba, rows, random_state=1)(rows[:3])
    expected = shap.KernelExplainer(forest.predict_proba, rows).shap_values(rows[:3], silent=True, l1_reg=False)
    assert_allclose(found.values, expected, atol=1e-6)


def test_sparse_and_dense_agree_and_the_conversion_is_told():
    sparse, rows = scipy.sparse.csr_matrix(X.iloc[::15]), scipy.sparse.csr_array(ROWS)
    expected = kernel().shap_values(ROWS)
    with pytest.warns(cs.ControlShapWarning, match=r"`data` is sparse; it was converted to an array \(10 x 4"):
        explainer = kernel(probability_of_sparse, sparse)
    with pytest.warns(cs.ControlShapWarning, match="`X` is sparse"):
        assert_allclose(explainer.shap_values(rows), expected, atol=1e-12)
    with pytest.warns(cs.ControlShapWarning, match="`X` is sparse"):
        assert_allclose(kernel().shap_values(rows), expected, atol=1e-12)
    with pytest.raises(cs.InvalidArgumentError, match="`data` is sparse with 65,536 columns"):
        kernel(probability, scipy.sparse.csr_matrix((1, 65_536)))


def test_a_linear_model_of_many_sparse_columns():
    rng = np.random.default_rng(0)
    rows = scipy.sparse.random(40, 123, density=0.1, random_state=0, format="csr")
    model = LinearRegression().fit(rows, rng.normal(size=40))
    with pytest.warns(cs.ControlShapWarning, match="is sparse"):
        found = cs.KernelExplainer(model.predict, scipy.sparse.csr_matrix((1, 123))).shap_values(rows[:2])
    assert_allclose(found, rows[:2].toarray() * model.coef_, atol=1e-9)


def test_expected_value_can_be_set_and_fnull_is_the_mean_without_link():
    explainer, theirs = kernel(of_names, link="logit"), shap.KernelExplainer(of_names, X.iloc[::15], link="logit")
    assert_allclose(explainer.fnull, theirs.fnull, atol=1e-12)
    plain = kernel()
    assert_allclose(plain.fnull, shap.KernelExplainer(probability, X.iloc[::15]).fnull, atol=1e-12)
    before = explainer(ROWS)
    explainer.expected_value = explainer.expected_value[1]
    assert_allclose(explainer.expected_value, theirs.expected_value[1], atol=1e-9)
    assert_array_equal(explainer(ROWS).base_values, before.base_values)


def test_seeds_have_three_names_and_one_meaning():
    background = np.random.default_rng(0).normal(size=(5, 14))
    rows = background[:1] + 1.0

    def values(**seed):
        explainer = cs.KernelExplainer(lambda inputs: np.tanh(inputs.sum(axis=1) * inputs[:, 0]), background, **seed)
        return explainer.shap_values(rows, nsamples=200)

    assert_array_equal(values(rng=4), values(seed=4))
    assert_array_equal(values(rng=4), values(random_state=4))
    assert_array_equal(values(), values(rng=0))
    state = np.random.RandomState
    assert_array_equal(values(random_state=state(1)), values(random_state=state(1)))
    assert not np.array_equal(values(random_state=state(1)), values(rng=4))
    with pytest.raises(cs.InvalidArgumentError, match="`rng` and `random_state` are names for the same thing"):
        values(rng=1, random_state=1)


def test_arguments_that_nobody_knows_are_told():
    with pytest.raises(cs.InvalidArgumentError, match=r"`shap_values` has no arguments \['approximate'\]"):
        kernel().shap_values(ROWS, approximate=True)
    with pytest.raises(cs.InvalidArgumentError, match=r"\['n_samples'\]; did you mean 'nsamples'\?"):
        kernel().shap_values(ROWS, n_samples=60)
    with pytest.raises(cs.InvalidArgumentError, match=r"no settings \['contrl'\]; did you mean 'control'\?"):
        cs.KernelExplainer(probability, X.values[:9], contrl="none")


def test_a_link_in_the_place_of_feature_names_is_recognised():
    for data in (X, X.values):
        with pytest.raises(cs.InvalidArgumentError, match=r"got the text 'logit'; did you mean link='logit'\?"):
            cs.KernelExplainer(probability, data, "logit")
    with pytest.raises(cs.InvalidArgumentError, match=r"got the function .* Pass a link as link="):
        cs.KernelExplainer(probability, X, np.log)


def test_explainer_points_to_the_names_here_for_those_of_constructors_and_attributes():
    background = X.values[:20]
    ways_out = {
        "link": r"output='margin' .* KernelExplainer\(link='logit'\)",
        "feature_names": "a frame",
        "masker": "`background`",
        "algorithm": "`estimator`",
        "nsamples": r"budget=nsamples \* len\(background\) \+ 1",
    }
    for name, ours in ways_out.items():
        with pytest.raises(TypeError, match=rf"Explainer\(\) got an unexpected keyword argument '{name}'. Use {ours}"):
            cs.Explainer(probability, background, **{name: "logit"})
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'estimater'; did you mean 'estimator'\?"):
        cs.Explainer(probability, background, estimater="kernel")
    explainer = cs.Explainer(probability, background)
    with pytest.raises(TypeError, match=r"'link'. Use output='margin'"):
        explainer(background[:1], link="logit")
    for nsamples, budget in ((50, "1001,"), ("auto", r"nsamples \* 20 \+ 1,")):
        with pytest.raises(TypeError, match=f"'nsamples'. Use budget={budget}"):
            explainer(background[:1], nsamples=nsamples)
    with pytest.raises(AttributeError, match=r"no attribute 'shap_values'. Use `explainer\(X\).values`"):
        explainer.shap_values(background[:1])
    with pytest.raises(AttributeError, match=r"no attribute 'expected_value'. Use `explanation.base_values`"):
        _ = explainer.expected_value
    with pytest.raises(AttributeError, match=r"no attribute 'nothing_like_it'$"):
        _ = explainer.nothing_like_it


def test_a_summary_with_weights_is_no_background_of_explainer():
    summary = SimpleNamespace(data=X.values[:3], weights=np.ones(3) / 3)
    with pytest.raises(cs.InvalidArgumentError, match=r"`background` is a summary with weights.*use KernelExplainer"):
        cs.Explainer(probability, summary)
    named = X.iloc[:9, :2].set_axis(["data", "weights"], axis=1)  # a frame with such columns is rows
    assert cs.Explainer(lambda rows: rows.to_numpy()[:, 0], named).column_names == ("data", "weights")


def test_names_of_shap_say_what_to_write_here():
    for name, ours in (("TreeExplainer", "Explainer"), ("summary_plot", "explanation.plot"), ("kmeans", "shap.kmeans")):
        with pytest.raises(AttributeError, match=f"no attribute '{name}'. Use .*{ours}"):
            getattr(cs, name)
    with pytest.raises(AttributeError, match=r"no attribute 'whatever'$"):
        cs.whatever  # noqa: B018
    explanation = cs.Explainer(probability, X.values[::15])(X.values[:2], budget=100, rng=0)
    for name, ours in (("shap_values", "values"), ("expected_value", "base_values"), ("mean", "summary")):
        with pytest.raises(AttributeError, match=f"no attribute '{name}'. Use `explanation.{ours}"):
            getattr(explanation, name)
    with pytest.raises(AttributeError, match=r"no attribute 'whatever'$"):
        explanation.whatever  # noqa: B018
    with pytest.raises(cs.InvalidArgumentError, match=r"masker of shap has them in `\.data`"):
        cs.Explainer(probability, shap.maskers.Independent(X.values[::15]))


def test_explainer_takes_max_evals_and_points_to_the_names_here():
    explainer = cs.Explainer(probability, X.values[::15])
    with pytest.warns(cs.ControlShapWarning, match="taken as budget=501"):
        found = explainer(X.values[:2], max_evals=50, rng=0)
    assert_array_equal(found.values, explainer(X.values[:2], budget=501, rng=0).values)
    with pytest.raises(cs.InvalidArgumentError, match="both limit"):
        explainer(X.values[:2], max_evals=50, budget=100)
    for name, ours in (("nsamples", "budget="), ("seed", "rng="), ("random_state", "rng="), ("silent", "progress")):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'. Use .*{ours}"):
            explainer(X.values[:2], **{name: 1})
    with pytest.raises(TypeError, match="unexpected keyword argument 'whatever'"):
        explainer(X.values[:2], whatever=1)
