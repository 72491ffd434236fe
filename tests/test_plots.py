"""`explanation.plot`: what is drawn is what the explanation says, and every label can be read."""

import sys
from dataclasses import replace
from itertools import pairwise

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas
import pytest
from conftest import make_data

import controlshap as cs
from controlshap.explanation import Explanation
from controlshap.history import History
from controlshap.plots import Plots
from controlshap.plots.naming import escaped, short_names
from controlshap.plots.numerals import chance, numeral, percent, with_reaches
from controlshap.plots.ranking import open_groups
from controlshap.plots.shown import classify, is_missing, shades
from controlshap.plots.swarm import offsets
from controlshap.plots.ticks import logarithmic_ticks

LONG = (
    "Total amount of all outstanding revolving credit lines no {} (USD)",
    "customer_relationship_duration_in_months_since_first_{}_contract",
    "age {}",
    "$income_{}$ of & <b>the</b> \"household\" <script>'alert'</script>",
)
TABLES = ("bar", "waterfall", "beeswarm", "ranking", "variance_reduction")
ALL = (*TABLES, "dependence", "convergence")


@pytest.fixture(autouse=True)
def _no_figures_left():
    yield
    plt.close("all")


def make(p=4, rows=6, outputs=0, kind="sampled", seed=0, scale=1.0):
    """An explanation of any size, with categories, truth values and missing data among its players."""
    rng = np.random.default_rng(seed)
    names = tuple(LONG[i % 4].format(i) for i in range(p))
    many = (outputs,) if outputs else ()
    X = rng.normal(size=(rows, p))
    data = X.astype(object)
    if p >= 3:
        data[:, 1] = np.array(["single", "married", "divorced, separated or widowed"], dtype=object)[
            (X[:, 1] > 0).astype(int) + (X[:, 1] > 1)
        ]
        data[:, 2] = X[:, 2] > 0
        data[::3, 0] = np.nan
        data[0, 1] = None
    values = np.tanh(X) * rng.permutation(np.exp(-np.arange(p) / (p / 4 + 1))) * scale
    if outputs:
        values = np.stack([values * (k + 1) * (-1) ** k for k in range(outputs)], axis=2)
    roots = rng.normal(size=(p, p + 4)) * 0.03 / np.sqrt(p + 4) * scale
    one = roots @ roots.T * (kind == "sampled")
    covariance = np.broadcast_to(one, (rows, *many, p, p)).copy()
    errors = np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1))
    errors = np.moveaxis(errors, 1, 2) if outputs else errors
    plain = errors * 3.0 + (0.1 * scale if kind == "infinite" else 0.0)
    base = np.full((rows, *many), 0.3 * scale)
    looks = np.array([200, 1000, 8000])
    history = tuple(
        History(
            looks,
            np.stack([values[r] * (1 + 1 / k) for k in looks]),
            np.stack([errors[r] * 3, errors[r] * 2, errors[r]]),
        )
        for r in range(rows)
    )
    return Explanation(
        values=values, standard_errors=errors, base_values=base, base_standard_errors=base * 0,
        uncontrolled_values=values, uncontrolled_standard_errors=plain, variance_reduction=values * 0,
        degrees_of_freedom=np.full(values.shape, 40.0 if kind == "sampled" else np.inf), covariance=covariance,
        n_evaluations=np.full(rows, 8000), status=np.array(["exact" if kind == "exact" else "converged"] * rows),
        method=np.array(["walks"] * rows), controls=np.array(["" if kind == "exact" else "Trees 1.00"] * rows),
        data=data, feature_names=names, column_names=names, player_columns=tuple((i,) for i in range(p)),
        output_names=("bad $risk$", "good & cheap", "a very long name of an output")[:outputs] if outputs else None,
        entropy=0, settings={}, look_shares=np.ones(rows), complete=np.ones(rows, dtype=bool), history=history,
    )  # fmt: skip


def call(explanation, name, **arguments):
    first = (0,) if name == "dependence" else ()
    if name == "dependence":
        arguments.pop("max_players", None)
    return getattr(explanation.plot, name)(*first, **arguments)


def texts_of(figure):
    """Every text that is drawn, with its box in pixels."""
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    hidden = set().union(*(hidden_ticks(ax) for ax in figure.axes))
    return [
        (text, mpl.text.Text.get_window_extent(text, renderer))  # without the line that leads to an annotation
        for text in figure.findobj(mpl.text.Text)
        if text.get_visible() and text.get_text().strip() and text not in hidden
    ]


def assert_readable(figure):
    """No text is cut off by the canvas, and no two texts touch."""
    found = texts_of(figure)
    boxes = np.array([box.extents for _, box in found])
    width, height = figure.canvas.get_width_height()
    outside = (boxes < -1).any(axis=1) | (boxes[:, 2] > width + 1) | (boxes[:, 3] > height + 1)
    assert not outside.any(), [(found[i][0].get_text(), boxes[i], (width, height)) for i in np.flatnonzero(outside)]
    across = np.minimum(boxes[:, None, 2], boxes[:, 2]) - np.maximum(boxes[:, None, 0], boxes[:, 0])
    along = np.minimum(boxes[:, None, 3], boxes[:, 3]) - np.maximum(boxes[:, None, 1], boxes[:, 1])
    # a box holds a line's full height, of which letters leave a little free; boxes of slanted labels say nothing
    slanted = np.array([text.get_rotation() % 90 != 0 for text, _ in found])
    touching = (across > 1) & (along > 2) & ~slanted[:, None] & ~slanted & ~np.eye(len(found), dtype=bool)
    assert not touching.any(), [[found[i][0].get_text() for i in pair] for pair in np.argwhere(np.triu(touching))]


def hidden_ticks(ax):
    found = set()
    for axis in (ax.xaxis, ax.yaxis):
        low, high = sorted(axis.get_view_interval())
        slack = 1e-9 * (high - low)
        for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
            if not low - slack <= tick.get_loc() <= high + slack:
                found |= {tick.label1, tick.label2}
    return found


def labels_of(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def intervals_of(ax):
    """Ends of the drawn intervals `(n, 2)`, the longer coordinate."""
    found = []
    for lines in (one for one in ax.collections if isinstance(one, mpl.collections.LineCollection)):
        for (x0, y0), (x1, y1) in lines.get_segments():
            found.append((y0, y1) if x0 == x1 else (x0, x1))
    return np.array(found).reshape(-1, 2)


# What is drawn


def test_bar_draws_the_summary_with_its_intervals():
    explanation = make(p=7, rows=40)
    ax = explanation.plot.bar(level=0.9)
    summary = explanation.summary()
    drawn = np.array([bar.get_width() for bar in ax.patches])
    assert np.allclose(drawn, np.maximum(summary.mean_absolute, 0)[summary.order])
    ends = intervals_of(ax)
    assert len(ends) == 7
    # 40 rows of 40 degrees of freedom each: the quantile is the normal one to 1 in 1,000
    high = summary.mean_absolute + 1.6449 * summary.standard_errors
    low = np.maximum(summary.mean_absolute - 1.6449 * summary.standard_errors - summary.bias_bound, 0)
    assert np.allclose(ends[:, 1], high[summary.order], rtol=2e-3)
    assert np.allclose(ends[:, 0], low[summary.order], rtol=2e-3)
    assert "90 % intervals" in ax.get_xlabel()
    assert "40 rows" in ax.get_xlabel()


def test_bar_of_a_row_draws_its_values_and_intervals():
    explanation = make(p=5)
    ax = explanation.plot.bar(row=2, level=0.8)
    order = np.argsort(-np.abs(explanation.values[2]))
    low, high = explanation.confidence_interval(0.8)
    assert np.allclose([bar.get_width() for bar in ax.patches], explanation.values[2][order])
    assert np.allclose(intervals_of(ax), np.column_stack([low[2], high[2]])[order])
    assert labels_of(ax)[list(order).index(1)].endswith(("= single", "= married", "= divorced,…widowed"))
    assert ax.get_title(loc="left") == "Row 2"


def test_a_value_without_a_certain_sign_is_paler():
    explanation = make(p=4)
    values = explanation.values.copy()
    values[0] = [1.0, 1e-5, -1.0, -1e-5]
    ax = replace(explanation, values=values).plot.bar(row=0)
    colours = [mpl.colors.to_hex(bar.get_facecolor()) for bar in ax.patches]
    assert len(set(colours)) == 4
    assert "pale: sign not certain" in ax.get_xlabel()
    # an error of 0 before every background row was met certifies nothing
    unseen = replace(make(p=4, kind="infinite"), complete=np.zeros(6, dtype=bool))
    assert "no error seen yet" in unseen.plot.bar(row=0).get_xlabel()
    assert "pale" in unseen.plot.waterfall(0).get_xlabel()


def test_waterfall_goes_from_the_base_value_to_the_prediction():
    explanation = make(p=6)
    ax = explanation.plot.waterfall(1)
    bars = ax.patches
    assert labels_of(ax)[0] == "prediction"
    assert labels_of(ax)[-1] == "base value"
    assert len(labels_of(ax)) == len(bars) + 2 == 8
    assert np.isclose(bars[-1].get_x(), explanation.base_values[1])
    top = bars[0].get_x() + bars[0].get_width()
    assert np.isclose(top, explanation.base_values[1] + explanation.values[1].sum())
    for upper, lower in pairwise(bars):
        assert np.isclose(upper.get_x(), lower.get_x() + lower.get_width())
    low, high = explanation.confidence_interval(0.95)
    order = np.argsort(-np.abs(explanation.values[1]))
    assert np.allclose(np.ptp(intervals_of(ax), axis=1), (high - low)[1][order])


def test_waterfall_sums_the_rest_with_the_error_of_the_sum():
    explanation = make(p=9)
    ax = explanation.plot.waterfall(0, max_players=3)
    order = np.argsort(-np.abs(explanation.values[0]))
    left = order[3:]
    assert labels_of(ax)[-2] == "6 other features"
    assert np.isclose(ax.patches[-1].get_width(), explanation.values[0][left].sum())
    error = np.sqrt(explanation.covariance[0][np.ix_(left, left)].sum())
    assert np.isclose(np.ptp(intervals_of(ax)[-1]), 2 * 2.0211 * error, rtol=1e-4)  # 40 degrees of freedom
    # a rest of one is shown as itself
    assert not any("other" in label for label in labels_of(explanation.plot.waterfall(0, max_players=8)))


def test_waterfall_shows_the_error_of_the_base_value():
    explanation = make(p=3)
    estimated = replace(explanation, base_standard_errors=np.full(6, 0.01))
    assert len(intervals_of(estimated.plot.waterfall(0))) == len(intervals_of(explanation.plot.waterfall(0))) + 1


def test_beeswarm_has_a_dot_for_each_row_and_player():
    explanation = make(p=5, rows=80)
    ax = explanation.plot.beeswarm()
    dots = {one.get_label(): one for one in ax.collections}
    low, high = explanation.confidence_interval(0.95)
    uncertain = (low <= 0) & (high >= 0)
    assert 0 < uncertain.sum() == len(dots["uncertain"].get_offsets())
    assert len(dots["certain"].get_offsets()) == 400 - uncertain.sum()
    assert len(dots["uncertain"].get_facecolors()) == 0
    both = np.concatenate([one.get_offsets() for one in dots.values()])
    assert np.allclose(np.sort(both[:, 0]), np.sort(explanation.values.ravel()))
    order = explanation.summary().order
    for place, player in enumerate(order):
        mine = both[np.abs(both[:, 1] - place) < 0.401]
        assert np.allclose(np.sort(mine[:, 0]), np.sort(explanation.values[:, player]))
    again = {one.get_label(): one for one in explanation.plot.beeswarm().collections}
    assert all((dots[label].get_offsets() == again[label].get_offsets()).all() for label in dots)


def test_swarm_offsets_keep_their_reach_and_tell_neighbours_apart():
    positions = np.repeat([0.0, 1.0, 5.0], [5, 1, 2])
    found = offsets(positions, step=0.1, spacing=0.1, reach=1.0)
    assert sorted(found[:5].round(3)) == [-0.2, -0.1, 0, 0.1, 0.2]
    assert found[5] == 0
    assert np.abs(offsets(np.zeros(1000), 0.1, 0.1, 0.4)).max() == pytest.approx(0.4)
    assert len(offsets(np.zeros(0), 0.1, 0.1, 0.4)) == 0


@pytest.mark.parametrize("by", [None, 1, 3])
def test_dependence_of_numbers_keeps_missing_apart(by):
    explanation = make(p=4, rows=30)
    ax = explanation.plot.dependence(0, by=by)
    dots = np.asarray(ax.collections[-1].get_offsets())
    missing = np.array([is_missing(entry) for entry in explanation.data[:, 0]])
    assert np.allclose(dots[:, 1], explanation.values[:, 0])
    assert np.allclose(dots[~missing, 0], explanation.data[~missing, 0].astype(float))
    assert dots[missing, 0].min() > dots[~missing, 0].max()
    assert ax.get_xticklabels()[-1].get_text() == "missing"
    low, high = explanation.confidence_interval(0.95)
    assert np.allclose(intervals_of(ax), np.column_stack([low, high])[:, [0, 4]])
    assert_readable(ax.figure)


def test_dependence_of_categories():
    explanation = make(p=4, rows=60)
    ax = explanation.plot.dependence(explanation.feature_names[1], by=0)
    labels = [label.get_text() for label in ax.get_xticklabels()]
    assert labels == ["divorced,…widowed", "married", "single", "missing"]
    dots = np.asarray(ax.collections[-1].get_offsets())
    places = [{"d": 0, "m": 1, "s": 2}[entry[0]] if entry else 3 for entry in explanation.data[:, 1]]
    assert np.abs(dots[:, 0] - places).max() < 0.5
    truth = explanation.plot.dependence(2)
    assert [label.get_text() for label in truth.get_xticklabels()] == ["False", "True"]


def test_dependence_groups_rare_categories():
    explanation = make(p=4, rows=60)
    data = explanation.data.copy()
    data[:, 1] = [f"category number {row % 20}" for row in range(60)]
    ax = replace(explanation, data=data).plot.dependence(1, by=1)
    assert [label.get_text() for label in ax.get_xticklabels()][-1] == "9 others"
    assert len(ax.get_legend().get_texts()) == 8
    assert_readable(ax.figure)


def test_dependence_with_infinite_or_no_data():
    explanation = make(p=4, rows=9)
    data = explanation.data.copy()
    data[:, 0] = [np.inf, -np.inf, *range(7)]
    assert replace(explanation, data=data).plot.dependence(0).get_xticklabels()[-1].get_text() == "infinite"
    data[:, 0] = None
    assert replace(explanation, data=data).plot.dependence(0).get_xticklabels()[-1].get_text() == "missing"


def test_ranking_draws_what_is_certified():
    explanation = make(p=8, seed=3)
    ranking = explanation.ranking(0.95)
    ax = explanation.plot.ranking(2)
    separated, swaps = ranking.separated[2], ranking.swap_probability[2]
    assert 0 < separated.sum() < 7
    lines = [line.get_ydata()[0] for line in ax.lines if line.get_label() == "_certified"]
    assert lines == [place + 0.5 for place in np.flatnonzero(separated)]
    told = {text.get_position()[1]: text.get_text() for text in ax.texts if "%" in text.get_text()}
    assert told == {place + 0.5: chance(swaps[place]) for place in np.flatnonzero(~separated)}
    assert len([line for line in ax.lines if line.get_label() == "_open"]) == len(open_groups(separated))
    names = short_names(explanation.feature_names)
    assert labels_of(ax) == [escaped(names[player]) for player in ranking.order[2]]


def test_ranking_folds_intervals_and_tells_the_last_from_what_is_not_shown():
    explanation = make(p=6)
    ax = explanation.plot.ranking(0, max_players=2)
    low, high = explanation.confidence_interval(0.95)
    order = explanation.ranking().order[0][:2]
    ends = np.sort(intervals_of(ax), axis=1)
    wanted = np.sort(np.abs(np.column_stack([low[0], high[0]]))[order], axis=1)
    assert np.allclose(ends[np.argsort(ends[:, 0])], wanted[np.argsort(wanted[:, 0])])
    assert intervals_of(explanation.plot.ranking(0)).min() >= 0
    assert "4 smaller ones are not shown" in ax.get_xlabel()
    assert open_groups(np.array([True, False, False, True])) == [(1, 3)]
    assert open_groups(np.array([], dtype=bool)) == []


def test_convergence_draws_the_history():
    explanation = make(p=5)
    ax = explanation.plot.convergence(1, max_players=3)
    lines = [line for line in ax.lines if len(line.get_xdata()) == 3]
    order = np.argsort(-np.abs(explanation.values[1]))[:3]
    for line, player in zip(lines, order, strict=True):
        assert (line.get_ydata() == explanation.history[1].values[:, player]).all()
    assert ax.get_xscale() == "log"
    names = [escaped(short_names(explanation.feature_names)[player]) for player in order]
    assert [text.get_text() for text in ax.texts] == names
    band = ax.collections[0].get_paths()[0].vertices
    assert np.isclose(
        np.ptp(band[band[:, 0] == 8000, 1]), 2 * 2.0211 * explanation.standard_errors[1][order[0]], rtol=1e-4
    )


def test_convergence_without_errors_at_first_and_with_one_look():
    explanation = make(p=4, rows=1)
    past = explanation.history[0]
    unknown = past.standard_errors.copy()
    unknown[0] = np.nan
    for history in (replace(past, standard_errors=unknown), History(*(array[:1] for array in vars(past).values()))):
        assert_readable(replace(explanation, history=(history,)).plot.convergence().figure)


def test_convergence_needs_a_history():
    with pytest.raises(cs.InvalidArgumentError, match=r"explainer\(X, history=True\)"):
        replace(make(), history=None).plot.convergence()


def test_variance_reduction_draws_medians_and_ratios():
    explanation = make(p=4, rows=7)
    ax = explanation.plot.variance_reduction()
    order = explanation.summary().order
    after = [line.get_xdata()[0] for line in ax.lines if line.get_label() == "_with"]
    before = [line.get_xdata()[0] for line in ax.lines if line.get_label() == "_without"]
    assert np.allclose(after, np.median(explanation.standard_errors, axis=0)[order])
    assert np.allclose(before, np.median(explanation.uncontrolled_standard_errors, axis=0)[order])
    assert [text.get_text() for text in ax.texts] == ["× 9"] * 4 + ["variance ratio"]
    assert ax.get_title(loc="left") == "Gain of the control: 9 (median)"


def test_variance_reduction_with_infinite_gains_and_exact_rows():
    explanation = make(p=4, rows=7, kind="infinite")
    ax = explanation.plot.variance_reduction()
    assert [text.get_text() for text in ax.texts][:4] == ["× ∞"] * 4
    assert "Gain of the control: ∞" in ax.get_title(loc="left")
    plain = explanation.uncontrolled_standard_errors.copy()
    plain[:2] = 0.0
    plain[:, 1] = 0.0
    ax = replace(explanation, uncontrolled_standard_errors=plain).plot.variance_reduction()
    assert "2 exact rows left out" in ax.get_xlabel()
    assert sorted(text.get_text() for text in ax.texts)[0] == "no error"
    nothing = make(p=4, kind="exact").plot.variance_reduction()
    assert "Exact: nothing was sampled" in nothing.get_title(loc="left")


# How it looks


@pytest.mark.parametrize(("p", "rows"), [(1, 2), (3, 1), (3, 500), (20, 40), (100, 3)])
@pytest.mark.parametrize("name", ALL)
def test_every_label_can_be_read(name, p, rows):
    ax = call(make(p=p, rows=rows), name, max_players=None if name != "convergence" else 20)
    assert_readable(ax.figure)
    if name in TABLES:
        assert len(set(labels_of(ax))) == p + 2 * (name == "waterfall")


@pytest.mark.parametrize("kind", ["exact", "infinite"])
@pytest.mark.parametrize("name", ALL)
def test_without_errors_there_are_no_error_bars(name, kind):
    ax = call(make(p=5, rows=3, kind=kind), name)
    assert_readable(ax.figure)
    assert np.ptp(intervals_of(ax), axis=1).sum() == 0
    if kind == "exact":
        assert "exact" in (ax.get_xlabel() + ax.get_title(loc="left")).lower()


@pytest.mark.parametrize("scale", [1e-9, 1e7])
@pytest.mark.parametrize("name", ALL)
def test_several_outputs_at_odd_scales(name, scale):
    explanation = make(p=6, rows=20, outputs=3, scale=scale)
    ax = call(explanation, name, output=2)
    assert_readable(ax.figure)
    assert "utput a very lo…" in ax.get_title(loc="left")
    by_name = call(explanation, name, output="bad $risk$")
    assert r"bad \$risk\$" in by_name.get_title(loc="left")
    assert_readable(by_name.figure)


def test_an_output_is_that_output():
    explanation = make(p=5, outputs=3)
    ax = explanation.plot.bar(row=1, output=2)
    order = np.argsort(-np.abs(explanation.values[1, :, 2]))
    low, high = explanation.confidence_interval(0.95)
    assert np.allclose([bar.get_width() for bar in ax.patches], explanation.values[1, order, 2])
    assert np.allclose(intervals_of(ax), np.column_stack([low[1, :, 2], high[1, :, 2]])[order])
    ranking = explanation.ranking()
    lines = [line for line in explanation.plot.ranking(1, output=2).lines if line.get_label() == "_certified"]
    assert len(lines) == ranking.separated[1, :, 2].sum()


def test_dollars_are_not_mathematics():
    explanation = make(p=4)
    ax = explanation.plot.bar()
    shown = [label for label in labels_of(ax) if "income" in label]
    assert shown
    for label in shown:
        assert label.startswith(r"\$income_3\$")
        assert mpl.cbook.is_math_text(label) is False
    hostile = replace(explanation, feature_names=("$x^{$", "$\\frac{1}$", "a\\$b$", "$$"))
    for name in ALL:
        call(hostile, name).figure.canvas.draw()


def test_names_stay_different_and_short():
    ends = [f"{'a' * 40}{number}{'b' * 40}" for number in range(3)]
    same = ["x" * 60, "x" * 60]
    names = short_names([*ends, *same, "W" * 60, "two\nlines", "\N{RIGHT-TO-LEFT OVERRIDE}abc", "年" * 40])
    assert len(set(names)) == 9
    assert max(map(len, names)) <= 40
    assert all(str(number) in names[number] for number in range(3))
    assert names[6] == "two lines"
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in names[7]
    assert short_names(["short", "shorter"]) == ["short", "shorter"]


def test_heights_follow_players_and_max_players_limits_them():
    explanation = make(p=30)
    small, large = explanation.plot.bar(max_players=5), explanation.plot.bar(max_players=None)
    assert len(small.patches) == 5
    assert "25 smaller ones are not shown" in small.get_xlabel()
    assert len(large.patches) == 30
    inches = [ax.figure.get_figheight() for ax in (small, large)]
    assert inches[1] - inches[0] == pytest.approx(25 * 0.27)


@pytest.mark.parametrize("name", ALL)
def test_given_axes_are_used_and_nothing_global_changes(name):
    figure, (left, right) = plt.subplots(1, 2, figsize=(16, 5), layout="constrained")
    before, numbers = dict(mpl.rcParams), plt.get_fignums()
    assert call(make(p=12), name, ax=right) is right
    assert left.get_title() == ""
    assert dict(mpl.rcParams) == before
    assert plt.get_fignums() == numbers
    assert_readable(figure)
    plt.sca(left)
    assert call(make(p=12), name).figure is not figure
    assert plt.get_fignums() != numbers


# What is refused


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"row": 6}, "`row` must be the number of an explained row, 0 to 5; got 6"),
        ({"row": -1}, "0 to 5; got -1"),
        ({"row": True}, "got True"),
        ({"max_players": 0}, "`max_players`"),
        ({"max_players": 2.5}, "`max_players`"),
        ({"level": 95}, "`level` must lie between 0 and 1"),
        ({"output": 0}, "`output` must be left out"),
        ({"ax": "here"}, "`ax` must be one matplotlib Axes; got str"),
    ],
)
def test_wrong_arguments_are_told(arguments, words):
    for name in ("bar", "waterfall", "ranking", "convergence"):
        with pytest.raises(cs.InvalidArgumentError, match=words):
            call(make(), name, **arguments)
    assert plt.get_fignums() == []


@pytest.mark.parametrize("name", ALL)
def test_several_outputs_need_a_choice(name):
    explanation = make(outputs=2)
    with pytest.raises(cs.InvalidArgumentError, match=r"`output` must be a number from 0 to 1 or one of \['bad"):
        call(explanation, name)
    for wrong in (2, "ugly", True):
        with pytest.raises(cs.InvalidArgumentError, match="the model has 2 outputs; got"):
            call(explanation, name, output=wrong)


@pytest.mark.parametrize(("player", "by", "argument"), [("nobody", None, "player"), (4, None, "player"), (0, -1, "by")])
def test_dependence_names_the_player_it_does_not_know(player, by, argument):
    with pytest.raises(cs.InvalidArgumentError, match=f"`{argument}` must be a number from 0 to 3 or a name"):
        make(p=4).plot.dependence(player, by=by)


@pytest.mark.parametrize("name", ALL)
def test_without_matplotlib_the_extra_is_named(name, monkeypatch):
    for module in list(sys.modules):
        if module.partition(".")[0] == "matplotlib":
            monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(cs.MissingExtraError, match=rf"plot\.{name}\(\)` needs matplotlib.*controlshap\[plots\]"):
        call(make(), name)


# Small parts


def test_data_are_numbers_categories_or_missing():
    numbers = classify(np.array([1, 2.5, None, np.nan, pandas.NA, np.float32(3), pandas.NaT], dtype=object))
    assert numbers.apart.tolist() == [False, False, True, True, True, False, True]
    mixed = classify(np.array([1, "a", None], dtype=object))
    assert mixed.numbers is None
    assert mixed.categories == ("1", "a")
    assert shades(np.array([True, False, None], dtype=object)).tolist()[:2] == [1.0, 0.0]
    assert np.isnan(shades(np.array(["a", "b"], dtype=object))).all()
    assert shades(np.array([5.0, 5.0], dtype=object)).tolist() == [0.5, 0.5]
    assert shades(np.array([-np.inf, 0.0, 1.0, np.inf], dtype=object)).tolist() == [0.0, 0.0, 1.0, 1.0]
    # nearly all alike: the quantiles meet, the extremes do not
    assert shades(np.array([0.0] * 99 + [1.0], dtype=object))[[0, 99]].tolist() == [0.0, 1.0]


def test_numbers_are_written_for_people():
    written = [numeral(v) for v in (0, 1, -3.5, 12345.678, 1234567, 1.234e-5, np.inf)]
    assert written == ["0", "1", "−3.5", "12346", "1.235e6", "1.234e−5", "∞"]
    assert (percent(0.95), percent(0.999)) == ("95 %", "99.9 %")
    assert (chance(0.004), chance(0.124)) == ("<1 %", "12 %")
    texts = with_reaches(np.array([0.5, -0.25, 0.1, 7]), np.array([0.012, 0.0, 1e-9, 0.02]), [True, True, True, False])
    assert texts == ["+0.500 ± 0.012", "−0.250", "+0.100 ± <0.001", "7.000 ± 0.020"]


@pytest.mark.parametrize(("low", "high"), [(1e-9, 1e7), (0.02, 0.17), (0.11, 0.12), (1, 1000), (3, 30)])
def test_logarithmic_axes_have_few_ticks_and_more_than_one(low, high):
    ticks = logarithmic_ticks(low, high)
    assert 2 <= len(ticks) <= 6
    assert low <= ticks.min() < ticks.max() <= high


# With real explanations


def test_real_explanations_with_groups_outputs_and_history():
    data = make_data()
    X = data.x + np.random.default_rng(1).normal(size=(3, 7)) * np.array([1, 1, 1, 1, 0, 0, 0])
    for model, output in ((data.model, None), (data.model2, 1)):
        explainer = cs.Explainer(model, data.background, groups=data.groups, estimator="permutation")
        explanation = explainer(X, budget=400, rng=0, history=True)
        assert isinstance(explanation.plot, Plots)
        assert "waterfall" in repr(explanation.plot)
        for name in ALL:
            assert_readable(call(explanation, name, output=output).figure)
        ax = explanation.plot.waterfall(1, output=output)
        prediction = np.atleast_2d(model(X).T)[output or 0][1]
        assert np.isclose(ax.lines[-2].get_xdata()[0], prediction)


def test_a_real_exact_explanation():
    data = make_data()
    explanation = cs.explain(data.model, data.x[None], data.background, groups=data.groups, rng=0)
    assert explanation.status[0] == "exact"
    for name in ("bar", "waterfall", "beeswarm", "ranking", "variance_reduction", "dependence"):
        ax = call(explanation, name)
        assert "exact" in (ax.get_xlabel() + ax.get_title(loc="left")).lower()
        assert_readable(ax.figure)


def test_a_real_frame_with_categories_truth_values_and_missing_data():
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(
        {
            "age": rng.normal(40, 10, 30),
            "job": pandas.Categorical(rng.choice(["<b>clerk</b>", "cook", "$cleaner$"], 30)),
            "owner": rng.random(30) > 0.5,
            "income": np.where(rng.random(30) < 0.3, np.nan, rng.normal(size=30)),
        }
    )

    frame.loc[[0, 5], "income"] = np.nan

    def model(rows):
        score = 0.01 * rows["age"].to_numpy() + (rows["job"].astype(str) == "cook").to_numpy()
        return score * (1 + rows["owner"].to_numpy(dtype=float)) + np.nan_to_num(rows["income"].to_numpy(dtype=float))

    explanation = cs.explain(model, frame[:12], frame, rng=0)
    jobs = explanation.plot.dependence("job", by="owner")
    assert [label.get_text() for label in jobs.get_xticklabels()] == [r"\$cleaner\$", "<b>clerk</b>", "cook"]
    assert [text.get_text() for text in jobs.get_legend().get_texts()] == ["False", "True"]
    assert explanation.plot.dependence("income", by="job").get_xticklabels()[-1].get_text() == "missing"
    assert any("job = " in label for label in labels_of(explanation.plot.waterfall(0)))
    for name in ("bar", "waterfall", "beeswarm", "ranking", "variance_reduction"):
        assert_readable(call(explanation, name).figure)
