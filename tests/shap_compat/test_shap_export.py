"""What `to_shap()` hands over: every plot of shap draws it, and shows what it should."""

import inspect
import warnings
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import shap
from numpy.testing import assert_allclose, assert_array_equal
from shap_cases import (
    BACKGROUND,
    MARKS,
    NAMES,
    X,
    categorical_frame,
    names_of,
    of_categories,
    probability,
    three,
)
from sklearn.linear_model import LogisticRegression

import controlshap as cs
from controlshap.shap_compat.export import to_shap

pytestmark = MARKS


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


@pytest.mark.slow
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
