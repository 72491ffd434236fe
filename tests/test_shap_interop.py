"""shap takes our explanations over; its KernelExplainer's calls are answered, with its numbers where both are exact."""

import inspect
import logging
import warnings
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import shap
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import controlshap as cs
from controlshap.kernel_explainer import KernelExplainer
from controlshap.shap_export import to_shap

logging.getLogger("shap").setLevel(logging.ERROR)
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*NumPy global RNG:FutureWarning"),
    pytest.mark.filterwarnings("ignore:The figure layout has changed to tight:UserWarning"),
]

RNG = np.random.default_rng(5)
BACKGROUND = RNG.normal(size=(20, 5))
X = RNG.normal(size=(30, 5))
NAMES = ["age", "income <script>", "a & b", "d'e\"f", "a rather long name of a feature that no axis has room for"]
FRAME = pd.DataFrame(BACKGROUND, columns=NAMES)


def probability(rows):
    score = rows[:, 0] * rows[:, 1] + rows[:, 2] - rows[:, 3] * rows[:, 4] * rows[:, 0]
    return 1.0 / (1.0 + np.exp(-score))


def column(rows):
    return probability(rows)[:, None]


def both(rows):
    return np.column_stack([probability(rows), 1.0 - probability(rows)])


def three(rows):
    return np.column_stack([probability(rows), rows[:, 0] * rows[:, 2], rows[:, 1] - rows[:, 4]])


def categorical_frame(n_rows, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.normal(size=n_rows),
            "job": pd.Categorical(rng.choice(["clerk", "cook <b>", "nurse & co"], n_rows)),
            "owner": rng.random(n_rows) > 0.5,
            "score": rng.normal(size=n_rows),
            "town": rng.choice(["Ulm", "Bonn"], n_rows),
        }
    )
    frame.loc[3, "score"] = np.nan
    return frame


def of_categories(frame):
    score = np.nan_to_num(frame["score"].to_numpy(dtype=float))
    nurse = (frame["job"] == "nurse & co").to_numpy(dtype=float)
    return (
        frame["age"].to_numpy() * nurse
        + score * (frame["town"] == "Ulm").to_numpy()
        + frame["owner"].to_numpy() * nurse
    )


@pytest.fixture(scope="module")
def explanations():
    one_hot = np.eye(3)[np.arange(20) % 3], np.eye(3)[np.arange(30) % 3]
    grouped = cs.Explainer(
        lambda rows: probability(rows[:, :5]) + rows[:, 5] * rows[:, 0] - rows[:, 6] * rows[:, 1],
        np.hstack([BACKGROUND, one_hot[0]]),
        groups={"job & <b>": [5, 6, 7], "pair": [1, 2]},
    )
    sampled = {"budget": 200, "rng": 0}
    return {
        "one output": cs.Explainer(probability, BACKGROUND)(X, **sampled),
        "three outputs": cs.Explainer(three, BACKGROUND)(X, **sampled),
        "groups": grouped(np.hstack([X, one_hot[1]]), **sampled),
        "categories": cs.Explainer(of_categories, categorical_frame(20, 0))(categorical_frame(30, 1), **sampled),
        "one row": cs.Explainer(probability, BACKGROUND)(X[:1], **sampled),
        "exact": cs.Explainer(probability, BACKGROUND)(X, rng=0),
    }


@pytest.fixture
def canvas():
    plt.close("all")
    plt.figure()
    yield
    plt.close("all")


def names_of(theirs):
    return list(theirs.feature_names)


def shown(theirs):
    return theirs.data if theirs.display_data is None else theirs.display_data


def base(theirs):
    return float(np.ravel(theirs.base_values)[0])


#: Every plot of shap, by the name under which it is exported.
DRAWN = {
    "bar": [
        lambda e: shap.plots.bar(e, show=False),
        lambda e: shap.plots.bar(e[0], show=False),
        lambda e: shap.plots.bar(e.abs.max(0), show=False),
        lambda e: shap.plots.bar(e.mean(0), show=False),
    ],
    "beeswarm": [
        lambda e: shap.plots.beeswarm(e, show=False),
        lambda e: shap.plots.beeswarm(e, max_display=3, order=shap.Explanation.abs.mean(0), show=False),
    ],
    "waterfall": [
        lambda e: shap.plots.waterfall(e[0], show=False),
        lambda e: shap.plots.waterfall(e[0], max_display=3, show=False),
        lambda e: shap.plots.waterfall(e.mean(0), show=False),
    ],
    "scatter": [
        lambda e: shap.plots.scatter(e[:, 0], show=False),
        lambda e: shap.plots.scatter(e[:, 0], color=e, show=False),
        lambda e: shap.plots.scatter(e[:, 1], color=e[:, -1], show=False),
        lambda e: shap.plots.scatter(e[:, -1], color=e[:, 1], show=False),
        lambda e: shap.plots.scatter(e, show=False),
    ],
    "decision": [
        lambda e: shap.plots.decision(base(e), e.values, shown(e), feature_names=names_of(e), show=False),
        lambda e: shap.plots.decision(base(e), e.values[0], shown(e)[0], feature_names=names_of(e), show=False),
    ],
    "force": [
        lambda e: shap.plots.force(e[0], matplotlib=True, show=False),
        lambda e: shap.plots.force(e[0]).html(),
        lambda e: shap.plots.force(e).html(),
    ],
    "group_difference": [
        lambda e: shap.plots.group_difference(
            e.values, np.arange(len(e)) < len(e) // 2, feature_names=names_of(e), show=False
        )
    ],
    "violin": [
        lambda e: shap.plots.violin(e, show=False),
        lambda e: shap.plots.violin(e, plot_type="layered_violin", show=False),
    ],
    "heatmap": [lambda e: shap.plots.heatmap(e, show=False)],
    "embedding": [lambda e: shap.plots.embedding(0, e.values, feature_names=names_of(e), show=False)],
    "monitoring": [
        lambda e: shap.plots.monitoring(
            0, np.tile(e.values, (5, 1)), np.tile(e.data, (5, 1)), feature_names=names_of(e), show=False
        )
    ],
}
NOT_OF_A_TABLE = {
    "benchmark": "draws results of shap's own benchmarks",
    "image": "pixels",
    "image_to_text": "pixels",
    "text": "tokens",
    "initjs": "loads JavaScript into a notebook",
    "partial_dependence": "draws a model, not an explanation",
}
SEVERAL_ROWS = {"violin", "heatmap", "embedding", "monitoring"}


def test_every_plot_of_shap_is_drawn_or_has_a_reason():
    assert set(DRAWN) | set(NOT_OF_A_TABLE) == set(shap.plots.__all__)
    assert not set(DRAWN) & set(NOT_OF_A_TABLE)


@pytest.mark.parametrize(
    ("plot", "case"),
    [(plot, case) for plot in DRAWN for case in ("one output", "three outputs", "groups", "categories")]
    + [(plot, "one row") for plot in DRAWN if plot not in SEVERAL_ROWS]
    + [("waterfall", "exact"), ("beeswarm", "exact")],
)
def test_every_plot_draws_our_explanations(plot, case, explanations, canvas):
    theirs = explanations[case].to_shap()
    if case == "three outputs":
        theirs = theirs[..., 1]
    for draw in DRAWN[plot]:
        plt.close("all")
        plt.figure()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = draw(theirs)
            if not isinstance(found, str):
                plt.gcf().canvas.draw()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("plot", sorted(SEVERAL_ROWS))
def test_what_shap_cannot_draw_of_one_row_it_cannot_draw_of_its_own_either(plot, canvas):
    own = shap.KernelExplainer(probability, BACKGROUND)(X[:1], silent=True)
    own = shap.Explanation(own.values, own.base_values, own.data, feature_names=NAMES)
    with pytest.raises(ValueError, match=r".+"):
        DRAWN[plot][0](own)


def test_slices_and_means_keep_working(explanations):
    ours = explanations["three outputs"]
    theirs = ours.to_shap()
    assert theirs.shape == (30, 5, 3)
    assert_array_equal(theirs[0].values, ours.values[0])
    assert_array_equal(theirs[0].error_std, ours.standard_errors[0])
    assert_array_equal(theirs[:, "x1"].values, ours.values[:, 1])
    assert_array_equal(theirs[..., 2].values, ours.values[..., 2])
    assert_array_equal(theirs[..., 2].error_std, ours.standard_errors[..., 2])
    assert_array_equal(theirs[..., 2].base_values, ours.base_values[:, 2])
    assert_array_equal(theirs[..., 2].data, X)
    assert_array_equal(theirs[3:5, [0, 2], 1].values, ours.values[3:5][:, [0, 2], 1])
    assert_array_equal(theirs[:, :, "Output 2"].values, ours.values[..., 2])
    assert_allclose(theirs.mean(0).values, ours.values.mean(axis=0))
    assert_allclose(theirs.abs.mean(0).values, np.abs(ours.values).mean(axis=0))
    one = theirs[..., 0]
    halves = one.cohorts(["a", "b"] * 15).abs.mean(0).cohorts
    assert_allclose(halves["b"].values, np.abs(ours.values[1::2, :, 0]).mean(axis=0))
    assert sum(len(part) for part in one.cohorts(2).cohorts.values()) == 30
    assert len(one.sample(7)) == 7
    single = explanations["one row"].to_shap()
    assert single[0].shape == (5,)
    assert np.ndim(single[0].base_values) == 0


def test_names_of_classes_go_along_and_that_of_an_only_output_does_not_disturb():
    labels = np.array(["no", "maybe", "yes"])[np.arange(30) % 3]
    model = LogisticRegression().fit(X, labels)
    theirs = cs.Explainer(model, BACKGROUND)(X[:3], budget=300, rng=0).to_shap()
    assert list(theirs.output_names) == ["maybe", "no", "yes"]
    assert_array_equal(theirs[:, :, "yes"].values, theirs.values[..., 2])
    one = replace(cs.Explainer(probability, BACKGROUND)(X[:3], budget=300, rng=0), output_names=("p",)).to_shap()
    assert one[0].shape == (5,)
    assert one[:, "x1"].shape == (3,)


def test_labels_are_shown_and_numbers_stand_for_them(explanations):
    theirs = explanations["categories"].to_shap()
    frame = categorical_frame(30, 1)
    assert theirs.data.dtype == float
    assert_array_equal(theirs.display_data[:, 1], frame["job"].to_numpy(dtype=object))
    order = sorted(set(frame["job"]))
    assert_array_equal(theirs.data[:, 1], [order.index(job) for job in frame["job"]])
    assert set(theirs.display_data[:, 2]) == {"True", "False"}
    assert np.isnan(theirs.data[3, 3])
    groups = explanations["groups"].to_shap()
    assert groups.display_data[1, names_of(groups).index("job & <b>")] == "x6"
    assert explanations["one output"].to_shap().display_data is None


def test_a_missing_label_is_a_level_of_its_own(canvas):
    ours = cs.Explainer(probability, BACKGROUND)(X[:6], budget=300, rng=0)
    data = X[:6].astype(object)
    data[:, 1] = ["b", None, "a", np.nan, "b", pd.NA]
    theirs = replace(ours, data=data).to_shap()
    assert theirs.display_data[:, 1].tolist() == ["b", "missing", "a", "missing", "b", "missing"]
    assert theirs.data[:, 1].tolist() == [1, 2, 0, 2, 1, 2]
    shap.plots.scatter(theirs[:, 1], color=theirs[:, 0], show=False)
    shap.plots.bar(theirs[1], show=False)


def artists():
    return [type(child).__name__ for axes in plt.gcf().axes for child in axes.get_children()]


def test_no_plot_draws_error_std_and_the_waterfall_draws_bounds_when_asked(explanations, canvas):
    ours = explanations["one output"]
    with_errors = ours.to_shap()
    without = shap.Explanation(ours.values, ours.base_values, ours.data, feature_names=list(ours.feature_names))
    drawn = []
    for theirs in (with_errors, without, to_shap(ours, level=0.9)):
        plt.close("all")
        shap.plots.waterfall(theirs[0], show=False)
        drawn.append(artists())
    assert drawn[0] == drawn[1]
    assert drawn[2].count("LineCollection") == drawn[0].count("LineCollection") + 5
    low, high = ours.confidence_interval(0.9)
    segments = [
        path for axes in plt.gcf().axes for lines in axes.collections if type(lines).__name__ == "LineCollection"
        for path in lines.get_segments()
    ]  # fmt: skip
    widths = sorted(abs(path[1][0] - path[0][0]) for path in segments)
    assert_allclose(widths, sorted((high - low)[0]), rtol=1e-6)
    for plot in (shap.plots.bar, shap.plots.beeswarm, shap.plots.violin, shap.plots.heatmap):
        assert "error_std" not in inspect.getsource(inspect.getmodule(plot))


def test_shaps_means_over_rows_carry_the_errors_of_the_first_row(explanations, canvas):
    """Why bounds go along only when asked for, and why the page says that such errors mean nothing."""
    ours = explanations["one output"]
    assert_array_equal(ours.to_shap().mean(0).error_std, ours.standard_errors[0])
    with pytest.raises(ValueError, match="negative"):
        shap.plots.waterfall(to_shap(ours, level=0.95).mean(0), show=False)


BACKGROUNDS = {
    "array": BACKGROUND,
    "frame": FRAME,
    "one row": BACKGROUND[:1],
    "sample": shap.sample(X, 10),
    "weights": shap.kmeans(X, 6),
    "weights of a frame": shap.kmeans(pd.DataFrame(X, columns=NAMES), 6),
    "series": FRAME.iloc[0],
}
ROWS = {
    "rows": X[:3],
    "one row": X[0],
    "rows of one": X[:1],
    "frame": pd.DataFrame(X[:3], columns=NAMES),
    "series": pd.Series(X[0], index=NAMES),
}


@pytest.mark.parametrize("link", ["identity", "logit"])
@pytest.mark.parametrize("model", [probability, column, both])
@pytest.mark.parametrize("background", list(BACKGROUNDS))
def test_numbers_and_shapes_are_shaps(background, model, link):
    data = BACKGROUNDS[background]
    theirs = shap.KernelExplainer(model, data, link=link)
    ours = KernelExplainer(model, data, link=link)
    assert type(ours.expected_value) is type(theirs.expected_value)
    assert_allclose(ours.expected_value, theirs.expected_value, atol=1e-9)
    assert_allclose(ours.data.weights, theirs.data.weights)
    assert_allclose(ours.data.data, theirs.data.data)
    for rows in ROWS.values():
        expected = theirs.shap_values(rows, silent=True, l1_reg=False)
        found = ours.shap_values(rows, nsamples="auto", l1_reg=False, silent=True)
        assert found.shape == expected.shape
        assert_allclose(found, expected, atol=1e-6)
        assert (ours.explanation.status == "exact").all()
    for rows in (ROWS["rows"], ROWS["frame"]):
        expected, found = theirs(rows, silent=True, l1_reg=False), ours(rows, silent=True)
        assert isinstance(found, shap.Explanation)
        assert found.shape == expected.shape
        assert_allclose(found.values, expected.values, atol=1e-6)
        assert_allclose(found.base_values, expected.base_values, atol=1e-9)
        assert_array_equal(found.data, expected.data)


def test_one_row_called_is_one_row():
    found = KernelExplainer(probability, FRAME)(pd.Series(X[0], index=NAMES))
    assert found.shape == (5,)
    assert_allclose(found.values.sum() + found.base_values, probability(X[:1])[0])


@pytest.mark.parametrize("link", ["identity", "logit"])
def test_values_sum_to_the_link_of_the_prediction_when_sampled(link, global_seed):
    rng = np.random.default_rng(global_seed)
    weights = rng.normal(size=14)
    background, rows = rng.normal(size=(6, 14)), rng.normal(size=(2, 14))

    def model(inputs):
        return 1.0 / (1.0 + np.exp(-np.tanh(inputs @ weights) - inputs[:, 0] * inputs[:, 1] * inputs[:, 2]))

    explainer = KernelExplainer(model, background, link=link, rng=global_seed)
    values = explainer.shap_values(rows, nsamples=200)
    at_rows = model(rows) if link == "identity" else np.log(model(rows) / (1.0 - model(rows)))
    assert_allclose(values.sum(axis=1) + explainer.expected_value, at_rows, atol=1e-9)
    assert (explainer.explanation.standard_errors > 0).all()
    assert (explainer.explanation.n_evaluations <= 200 * 6 + 1).all()
    # errors of different rows must not be made of the same random numbers: equal rows get different estimates
    twice = explainer.shap_values(rows[[0, 0]], nsamples=200)
    assert not np.array_equal(twice[0], twice[1])


def test_a_linked_game_is_estimated_without_bias_and_with_the_right_errors(global_seed):
    """Mean and spread of the errors over 60 seeds, at level 1e-4.

    The spread has at least 59 degrees of freedom: chi-squared over 59 lies between 0.47 and 1.80, and its root against
    a standard error that is right to 10 % between 0.67 and 1.61.
    """
    rng = np.random.default_rng(3)
    weights, last = rng.normal(size=(9, 6)), rng.normal(size=6)
    background, row = rng.normal(size=(8, 9)), rng.normal(size=(1, 9))

    def model(rows):
        return 1.0 / (1.0 + np.exp(-np.tanh(rows @ weights) @ last))

    exact = KernelExplainer(model, background, link="logit").shap_values(row, nsamples=510)
    values, errors = [], []
    for seed in range(60):
        explainer = KernelExplainer(model, background, link="logit", rng=60 * global_seed + seed)
        values.append(explainer.shap_values(row, nsamples=150)[0])
        errors.append(explainer.explanation.standard_errors[0])
    gaps = np.array(values) - exact
    observed = gaps.std(axis=0, ddof=1)
    # nine values at level 1e-4 together: two-sided normal quantile of 1e-4 / 18
    assert np.abs(gaps.mean(axis=0) / observed * np.sqrt(60)).max() < 4.6
    ratio = np.sqrt((np.array(errors) ** 2).mean() / (gaps**2).mean())
    assert 0.67 < ratio < 1.61
    assert not 0.67 < ratio / 2.5 < 1.61
    shifted = gaps + observed
    assert np.abs(shifted.mean(axis=0) / observed * np.sqrt(60)).max() > 4.6


def counted(model):
    def counting(rows):
        counting.n += len(rows)
        return model(rows)

    counting.n = 0
    return counting


def wide(rows):
    return np.tanh(rows[:, 0] * rows[:, 1] + rows[:, 2:].sum(axis=1) * rows[:, 3])


@pytest.mark.parametrize("link", ["identity", "logit"])
@pytest.mark.parametrize("nsamples", ["auto", 300, 64])
def test_nsamples_costs_at_most_what_it_costs_in_shap(nsamples, link):
    background = np.random.default_rng(0).normal(size=(5, 12))
    costs = []
    for kind in (shap.KernelExplainer, KernelExplainer):
        model = counted(lambda rows: 0.5 + 0.4 * wide(rows))
        explainer = kind(model, background, link=link)
        explainer.shap_values(background[:2] + 1.0, nsamples=nsamples, silent=True, l1_reg=False)
        costs.append(model.n)
    assert costs[1] <= costs[0]
    assert costs[1] == explainer.explanation.n_evaluations.sum() + len(background)


def test_budget_and_tolerance_are_taken_too():
    background = np.random.default_rng(0).normal(size=(5, 12))
    explainer = KernelExplainer(wide, background)
    explainer.shap_values(background[:1] + 1.0, budget=700, gc_collect=True)
    assert explainer.explanation.n_evaluations[0] <= 700
    explainer.shap_values(background[:1] + 1.0, tolerance=0.2, n_jobs=1)
    assert explainer.explanation.status.tolist() == ["converged"]
    linked = KernelExplainer(lambda rows: 0.5 + 0.4 * wide(rows), background, link="logit")
    linked.shap_values(background[:1] + 1.0, tolerance=0.2)
    assert linked.explanation.status.tolist() == ["converged"]
    linked.shap_values(background[:1] + 1.0, budget=700)
    assert linked.explanation.n_evaluations[0] <= 700
    for one in (explainer, linked):
        with pytest.raises(cs.InvalidArgumentError, match="both limit"):
            one.shap_values(background, nsamples=100, budget=100)
        with pytest.raises(cs.InvalidArgumentError, match="`nsamples` must be 'auto'"):
            one.shap_values(background, nsamples="many")
        with pytest.raises(cs.InvalidArgumentError, match="`nsamples` must be a whole number"):
            one.shap_values(background, nsamples=0)
        with pytest.raises(cs.BudgetTooSmallError, match="budget"):
            one.shap_values(background, nsamples=1)
    with pytest.raises(cs.BudgetTooSmallError) as caught:
        linked.shap_values(background, nsamples=1)
    linked.shap_values(background[:1] + 1.0, budget=caught.value.needed)


@pytest.mark.parametrize("link", ["identity", "logit"])
def test_the_global_seed_has_no_part_in_the_numbers(link):
    background = np.random.default_rng(0).normal(size=(5, 14))
    rows = background[:2] + 1.0

    def model(inputs):
        return 0.5 + 0.4 * wide(inputs)

    found = {"ours": [], "shap's": []}
    for seed in (0, 1):
        np.random.seed(seed)  # noqa: NPY002
        before = np.random.get_state()  # noqa: NPY002
        found["ours"].append(KernelExplainer(model, background, link=link).shap_values(rows, nsamples=200))
        after = np.random.get_state()  # noqa: NPY002
        assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
        theirs = shap.KernelExplainer(model, background, link=link)
        found["shap's"].append(theirs.shap_values(rows, nsamples=200, silent=True, l1_reg=False))
    assert_array_equal(*found["ours"])
    assert not np.allclose(*found["shap's"])
    explainer = KernelExplainer(model, background, link=link, seed=4)
    first = explainer.shap_values(rows, nsamples=200)
    assert_array_equal(first, explainer.shap_values(rows, nsamples=200))
    assert_array_equal(first, KernelExplainer(model, background, link=link, rng=4).shap_values(rows, nsamples=200))
    assert not np.allclose(first, found["ours"][0])
    with pytest.raises(cs.InvalidArgumentError, match="two names"):
        KernelExplainer(model, background, rng=1, seed=1)


def test_nothing_is_selected_and_a_wish_for_it_is_answered():
    background = np.random.default_rng(0).normal(size=(5, 12))
    rows = background[:1] + 1.0
    theirs = shap.KernelExplainer(wide, background).shap_values(rows, silent=True)
    assert (theirs == 0).sum() == 2  # num_features(10) is shap's default
    few = {"nsamples": 200}
    ours = KernelExplainer(wide, background)
    for quiet in (False, 0, "auto", None, 0.0):
        assert (ours.shap_values(rows, l1_reg=quiet, **few) != 0).all()
    for loud in ("num_features(10)", "aic", "bic", 0.01, True):
        with pytest.warns(cs.ControlShapWarning, match="no features are selected") as caught:
            found = ours.shap_values(rows, l1_reg=loud, **few)
        assert caught[0].filename == __file__
        assert (found != 0).all()
    with pytest.warns(cs.ControlShapWarning, match="no features are selected") as caught:
        ours(rows, "num_features(3)", **few)
    assert [one.filename for one in caught] == [__file__]
    for wrong in ("num_features", "lasso", -1.0, [1], np.nan):
        with pytest.raises(cs.InvalidArgumentError, match="`l1_reg`"):
            ours.shap_values(rows, l1_reg=wrong, **few)


def test_unknown_settings_are_errors_here_and_ignored_in_shap():
    shap.KernelExplainer(probability, BACKGROUND, nsamples=3, whatever=1)
    with pytest.raises(
        cs.InvalidArgumentError, match=r"no settings \['nsamples'\]. Pass \['nsamples'\] to `shap_values`"
    ):
        KernelExplainer(probability, BACKGROUND, nsamples=3)
    with pytest.raises(cs.InvalidArgumentError, match=r"\['whatever'\]. The settings are"):
        KernelExplainer(probability, BACKGROUND, whatever=1)


def test_functions_get_arrays_and_models_fitted_on_names_get_frames():
    seen = []

    def model(rows):
        seen.append(type(rows))
        return probability(np.asarray(rows))

    for link in ("identity", "logit"):
        KernelExplainer(model, FRAME, link=link).shap_values(X[:1])
    assert set(seen) == {np.ndarray}
    fitted = LogisticRegression().fit(pd.DataFrame(X, columns=NAMES), X[:, 0] > 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for link in ("identity", "logit"):
            for form in (fitted, fitted.predict_proba):
                ours = KernelExplainer(form, FRAME, link=link).shap_values(X[:2])
                theirs = shap.KernelExplainer(fitted.predict_proba, FRAME, link=link)
                expected = theirs.shap_values(X[:2], silent=True, l1_reg=False)
                assert_allclose(ours, expected if form is not fitted else expected[..., 1], atol=1e-6)


@pytest.mark.parametrize("link", ["identity", "logit"])
def test_pipelines_of_categories(link):
    frame, rows = categorical_frame(20, 0).drop(columns="score"), categorical_frame(6, 1).drop(columns="score")
    encoder = make_column_transformer((OneHotEncoder(), ["job", "town"]), remainder="passthrough")
    pipeline = make_pipeline(encoder, LogisticRegression()).fit(frame, frame["age"] + (frame["job"] == "clerk") > 0)
    explainer = KernelExplainer(pipeline.predict_proba, frame, link=link)
    values = explainer.shap_values(rows)
    at_rows = pipeline.predict_proba(rows)
    at_rows = at_rows if link == "identity" else np.log(at_rows / (1.0 - at_rows))
    assert values.shape == (6, 4, 2)
    assert_allclose(values.sum(axis=1) + explainer.expected_value, at_rows, atol=1e-9)
    assert explainer(rows).display_data[0, 1] == rows["job"].iloc[0]

    def of_arrays(array):
        return pipeline.predict_proba(pd.DataFrame(array, columns=frame.columns).infer_objects())

    theirs = shap.KernelExplainer(of_arrays, frame, link=link).shap_values(rows, silent=True, l1_reg=False)
    assert_allclose(values, theirs, atol=1e-6)
    assert_allclose(KernelExplainer(of_arrays, frame, link=link).shap_values(rows), theirs, atol=1e-6)


def test_columns_are_matched_by_name_where_shap_goes_by_position():
    swapped = pd.DataFrame(X[:2], columns=NAMES)[NAMES[::-1]]
    for link in ("identity", "logit"):
        expected = KernelExplainer(probability, FRAME, link=link).shap_values(X[:2])
        explainer = KernelExplainer(probability, FRAME, link=link)
        assert_allclose(explainer.shap_values(swapped), expected)
        with pytest.raises(cs.InvalidArgumentError, match="same columns"):
            explainer.shap_values(swapped.rename(columns={"age": "old"}))
    theirs = shap.KernelExplainer(probability, FRAME)
    assert not np.allclose(theirs.shap_values(swapped, silent=True), theirs.shap_values(X[:2], silent=True))


def test_names_come_from_where_shap_takes_them():
    rows = pd.DataFrame(X[:2], columns=NAMES)
    for link in ("identity", "logit"):
        assert names_of(KernelExplainer(probability, FRAME, link=link)(X[:2])) == NAMES
        assert names_of(KernelExplainer(probability, BACKGROUND, link=link)(rows)) == NAMES
        assert names_of(KernelExplainer(probability, BACKGROUND, feature_names=NAMES, link=link)(X[:2])) == NAMES
        assert names_of(KernelExplainer(probability, shap.kmeans(FRAME, 3), link=link)(X[:2])) == NAMES
        assert names_of(KernelExplainer(probability, BACKGROUND, link=link)(X[:2])) == [f"x{i}" for i in range(5)]
    assert names_of(KernelExplainer(probability, FRAME, feature_names=NAMES)(X[:2])) == NAMES
    with pytest.raises(cs.InvalidArgumentError, match="`feature_names` must be those of the frame"):
        KernelExplainer(probability, FRAME, feature_names=list("abcde"))
    with pytest.raises(cs.InvalidArgumentError, match="one name for each of the 5 columns; got 2"):
        KernelExplainer(probability, BACKGROUND, feature_names=["a", "b"])


def test_groups_are_players_also_those_of_shaps_own_object():
    groups = {"first": [0, 1], "rest": [2, 4]}
    dense = shap.utils._legacy.DenseData(BACKGROUND.copy(), ["first", "rest", "x3"], [[0, 1], [2, 4], [3]])
    for link in ("identity", "logit"):
        theirs = shap.KernelExplainer(probability, dense, link=link).shap_values(X[:2], silent=True, l1_reg=False)
        for ours in (
            KernelExplainer(probability, BACKGROUND, link=link, groups=groups),
            KernelExplainer(probability, dense, link=link),
        ):
            assert_allclose(ours.shap_values(X[:2]), theirs, atol=1e-6)
            assert ours.explanation.feature_names == ("first", "rest", "x3")
            assert names_of(ours(X[:2])) == ["first", "rest", "x3"]


def test_the_model_behind_a_method_gives_exact_values():
    forest = RandomForestRegressor(5, max_depth=3, random_state=0).fit(X, probability(X))
    explainer = KernelExplainer(forest.predict, BACKGROUND)
    found = explainer.shap_values(X[:2])
    assert explainer.explanation.method.tolist() == ["tree form", "tree form"]
    theirs = shap.KernelExplainer(forest.predict, BACKGROUND).shap_values(X[:2], silent=True, l1_reg=False)
    assert_allclose(found, theirs, atol=1e-6)


def test_an_index_reaches_the_model_as_in_shap():
    index = pd.Index([7, 3, 5, 9], name="customer")
    frame = pd.DataFrame(BACKGROUND[:4], columns=NAMES, index=index)
    rows = pd.DataFrame(X[:2], columns=NAMES, index=pd.Index([40, 41], name="customer"))

    def model(inputs):
        assert inputs.index.name == "customer"
        return probability(inputs.to_numpy(dtype=float)) + 0.1 * inputs.index.to_numpy()

    ours = KernelExplainer(model, frame, keep_index=True)
    theirs = shap.KernelExplainer(model, frame, keep_index=True)
    assert_allclose(ours.expected_value, theirs.expected_value)
    assert_allclose(ours.shap_values(rows), theirs.shap_values(rows, silent=True, l1_reg=False), atol=1e-6)
    with pytest.raises(cs.InvalidArgumentError, match="needs a pandas frame"):
        KernelExplainer(probability, BACKGROUND, keep_index=True)
    # why: shap sorts the rows, and gives the outputs of sorted rows to the coalitions as they were before
    plain, ordered = (
        shap.KernelExplainer(model, frame, keep_index=True, keep_index_ordered=kind).shap_values(
            rows, silent=True, l1_reg=False
        )
        for kind in (False, True)
    )
    assert not np.allclose(plain, ordered, atol=0.01)
    with pytest.raises(cs.InvalidArgumentError, match="`keep_index_ordered` is not supported"):
        KernelExplainer(model, frame, keep_index=True, keep_index_ordered=True)


def test_types_of_a_frame_are_kept_unless_a_value_does_not_fit():
    frame = pd.DataFrame({"n": [1, 2, 3], "c": pd.Categorical(["a", "b", "a"]), "x": [0.5, 1.5, 2.5]})
    seen = []

    def model(inputs):
        seen.append(tuple(str(kind) for kind in inputs.dtypes))
        return 0.1 + 0.02 * inputs["n"].to_numpy(dtype=float) + 0.01 * (inputs["c"] == "a").to_numpy()

    explainer = KernelExplainer(model, frame, link="logit", keep_index=True)
    explainer.shap_values(frame.iloc[[1]])
    assert set(seen) == {("int64", "category", "float64")}
    seen.clear()
    values = explainer.shap_values(pd.DataFrame({"n": [1.5], "c": ["z"], "x": [0.5]}))
    assert all(kinds[0] in ("int64", "float64") and kinds[1] in ("category", "object", "str") for kinds in seen)
    assert_allclose(values.sum() + explainer.expected_value, np.log(0.13 / 0.87), atol=1e-9)


def test_a_link_of_means_is_not_a_mean_of_links():
    """What the page says about log-odds: both are to be had, and they differ."""
    of_means = KernelExplainer(probability, BACKGROUND, link="logit").shap_values(X[:1])
    of_odds = KernelExplainer(lambda rows: np.log(probability(rows) / (1 - probability(rows))), BACKGROUND)
    assert not np.allclose(of_means, of_odds.shap_values(X[:1]), atol=0.01)


def test_other_links_are_functions():
    found = KernelExplainer(probability, BACKGROUND, link=np.log1p)
    assert_allclose(found.expected_value, np.log1p(probability(BACKGROUND).mean()))
    assert KernelExplainer(probability, BACKGROUND, link=shap.links.identity)._explainer is not None
    assert_allclose(
        KernelExplainer(probability, BACKGROUND, link=shap.links.logit).shap_values(X[:1]),
        KernelExplainer(probability, BACKGROUND, link="logit").shap_values(X[:1]),
    )
    for name, of_shap in (("identity", shap.utils._legacy.IdentityLink()), ("logit", shap.utils._legacy.LogitLink())):
        theirs = shap.KernelExplainer(probability, BACKGROUND, link=of_shap)
        ours = KernelExplainer(probability, BACKGROUND, link=of_shap)
        assert_allclose(ours.shap_values(X[:1]), theirs.shap_values(X[:1], silent=True, l1_reg=False), atol=1e-6)
        assert str(ours.link) == name
    for wrong in ("probit", 3):
        with pytest.raises(cs.InvalidArgumentError, match="`link` must be"):
            KernelExplainer(probability, BACKGROUND, link=wrong)
    with pytest.raises(cs.ModelOutputError, match="finite"):
        KernelExplainer(probability, BACKGROUND, link=lambda mean: np.inf if mean > 0 else 0.0).shap_values(X[:1])


@pytest.mark.parametrize("control", ["none", "taylor", "ridge"])
def test_controls_of_a_linked_game(control, global_seed):
    """Each value lies within the interval at level 1 - 1e-4 for all twelve together."""
    background = np.random.default_rng(0).normal(size=(5, 12))
    rows = background[:1] + 1.0

    def model(inputs):
        return 0.5 + 0.4 * wide(inputs)

    exact = KernelExplainer(model, background, link="logit").shap_values(rows, nsamples=4094)
    explainer = KernelExplainer(model, background, link="logit", control=control, rng=global_seed)
    explainer.shap_values(rows, nsamples=1000)
    low, high = explainer.explanation.confidence_interval(1 - 1e-4, simultaneous=True)
    assert ((low < exact) & (exact < high)).all()
    assert (high < exact + 5.0).all()


def test_correlated_features_estimate_their_expected_value():
    explainer = KernelExplainer(probability, BACKGROUND, features="correlated")
    with pytest.raises(cs.InvalidArgumentError, match="`expected_value` is estimated"):
        _ = explainer.expected_value
    values = explainer.shap_values(X[:1], budget=2000)
    assert_allclose(values.sum() + explainer.expected_value, probability(X[:1])[0], atol=1e-9)
    for link, data in (("logit", BACKGROUND), ("identity", shap.kmeans(X, 3))):
        with pytest.raises(cs.InvalidArgumentError, match="need features='independent'"):
            KernelExplainer(probability, data, link=link, features="correlated")


def test_what_cannot_be_done_says_so():
    for sparse in (scipy.sparse.csr_matrix(BACKGROUND), scipy.sparse.csr_array(BACKGROUND)):
        with pytest.raises(cs.InvalidArgumentError, match=r"`data` is sparse.*data.toarray\(\)"):
            KernelExplainer(probability, sparse)
        with pytest.raises(cs.InvalidArgumentError, match=r"`X` is sparse.*X.toarray\(\)"):
            KernelExplainer(probability, BACKGROUND).shap_values(sparse)
    with pytest.raises(cs.InvalidArgumentError, match="two-dimensional"):
        KernelExplainer(probability, BACKGROUND[0])
    with pytest.raises(cs.InvalidArgumentError, match="transposed"):
        KernelExplainer(probability, shap.utils._legacy.DenseData(BACKGROUND.T.copy(), NAMES))
    with pytest.raises(cs.InvalidArgumentError, match="`max_background` has no effect"):
        KernelExplainer(probability, BACKGROUND, link="logit", max_background=10)
    for link in ("identity", "logit"):
        with pytest.raises(cs.InvalidArgumentError, match="`X`"):
            KernelExplainer(probability, BACKGROUND, link=link).shap_values(X[:, :3])


def test_workers_give_the_same_numbers():
    explainer = KernelExplainer(both, BACKGROUND[:4], link="logit")
    expected = explainer.shap_values(X[:3], nsamples=20)
    assert_array_equal(explainer.shap_values(X[:3], nsamples=20, n_jobs=2), expected)


def test_linked_explanations_are_whole_explanations(tmp_path):
    explainer = KernelExplainer(
        lambda rows: 0.5 + 0.4 * wide(rows), np.random.default_rng(0).normal(size=(5, 12)), link="logit"
    )
    explainer.shap_values(explainer.data.data[:3] + 1.0, nsamples=300)
    explanation = explainer.explanation
    assert explanation.covariance.shape == (3, 12, 12)
    assert explanation.settings["link"] == "logit"
    low, high = explanation.confidence_interval(simultaneous=True)
    assert (low < high).all()
    assert len(explanation.ranking().order) == 3
    assert explanation.summary() is not None
    again = cs.load(explanation.save(tmp_path / "saved"))
    assert_array_equal(again.values, explanation.values)
    assert "12 players" in repr(explanation)
