"""`explanation.plot`: what is drawn is what the explanation says."""

from dataclasses import replace
from itertools import pairwise

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas
import pytest
from conftest import make_data
from matplotlib.text import Text
from plot_cases import ALL, assert_readable, call, intervals_of, labels_of, make

import controlshap as cs
from controlshap.data.table import is_missing
from controlshap.plots import Plots
from controlshap.plots.beeswarm import spread_dots
from controlshap.plots.ranking import open_groups
from controlshap.results.explanation import History
from controlshap.results.wording import escape, format_chance, shorten_names


@pytest.fixture(autouse=True)
def _no_figures_left():
    yield
    plt.close("all")


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
    assert labels_of(ax)[0] == "base value"
    assert labels_of(ax)[-1] == "prediction"
    assert len(labels_of(ax)) == len(bars) + 2 == 8
    assert np.isclose(bars[0].get_x(), explanation.base_values[1])
    end = bars[-1].get_x() + bars[-1].get_width()
    assert np.isclose(end, explanation.base_values[1] + explanation.values[1].sum())
    for upper, lower in pairwise(bars):
        assert np.isclose(lower.get_x(), upper.get_x() + upper.get_width())
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
    found = spread_dots(positions, step=0.1, spacing=0.1, reach=1.0)
    assert sorted(found[:5].round(3)) == [-0.2, -0.1, 0, 0.1, 0.2]
    assert found[5] == 0
    assert np.abs(spread_dots(np.zeros(1000), 0.1, 0.1, 0.4)).max() == pytest.approx(0.4)
    assert len(spread_dots(np.zeros(0), 0.1, 0.1, 0.4)) == 0


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


def test_dependence_finds_the_partner_that_is_certain():
    rng = np.random.default_rng(0)
    background, rows = rng.normal(size=(20, 4)), rng.normal(size=(12, 4))
    explainer = cs.Explainer(
        lambda some: some[:, 0] * some[:, 2] + 0.1 * some[:, 0] * some[:, 1] + some[:, 3], background
    )
    explanation = explainer(rows, interactions=2, rng=0)
    notes = [text.get_text() for text in explanation.plot.dependence(0, by="partner").figure.findobj(Text)]
    assert any("the partner of the strongest interaction" in note for note in notes)
    assert any(note == "x2" for note in notes)
    alone = [text.get_text() for text in explanation.plot.dependence(3, by="partner").figure.findobj(Text)]
    assert any("no interaction is certain" in note for note in alone)
    with pytest.raises(cs.InvalidArgumentError, match="interactions=2"):
        explainer(rows, rng=0).plot.dependence(0, by="partner")


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
    assert told == {place + 0.5: format_chance(swaps[place]) for place in np.flatnonzero(~separated)}
    assert len([line for line in ax.lines if line.get_label() == "_open"]) == len(open_groups(separated))
    names = shorten_names(explanation.feature_names)
    assert labels_of(ax) == [escape(names[player]) for player in ranking.order[2]]


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


def test_interactions_are_drawn_with_simultaneous_intervals():
    explanation = make(p=5)
    ax = explanation.plot.interactions(1, max_pairs=4, level=0.9)
    found = explanation[1].interactions
    order = found.ranking(0.9).order[0][:4]
    first, second = (players[order] for players in np.triu_indices(5, 1))
    low, high = found.confidence_interval(0.9, simultaneous=True)
    assert np.allclose([bar.get_width() for bar in ax.patches], found.index[0, first, second])
    assert np.allclose(intervals_of(ax), np.column_stack([low[0, first, second], high[0, first, second]]))
    assert "6 smaller ones are not shown" in ax.get_xlabel()
    with pytest.raises(cs.InvalidArgumentError, match="interactions=2"):
        replace(explanation, interaction_indices=None).plot.interactions()
    with pytest.raises(cs.InvalidArgumentError, match="max_pairs"):
        explanation.plot.interactions(max_pairs=0)


def test_convergence_draws_the_history():
    explanation = make(p=5)
    ax = explanation.plot.convergence(1, max_players=3)
    lines = [line for line in ax.lines if len(line.get_xdata()) == 3]
    order = np.argsort(-np.abs(explanation.values[1]))[:3]
    for line, player in zip(lines, order, strict=True):
        assert (line.get_ydata() == explanation.history[1].values[:, player]).all()
    assert ax.get_xscale() == "log"
    names = [escape(shorten_names(explanation.feature_names)[player]) for player in order]
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


@pytest.mark.slow
def test_real_explanations_with_groups_outputs_and_history():
    data = make_data()
    X = data.x + np.random.default_rng(1).normal(size=(3, 7)) * np.array([1, 1, 1, 1, 0, 0, 0])
    for model, output in ((data.model, None), (data.model2, 1)):
        explainer = cs.Explainer(model, data.background, groups=data.groups, estimator="permutation")
        explanation = explainer(X, budget=400, rng=0, history=True, interactions=2)
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


def test_the_names_of_shap_get_the_way_out():
    explanation = make(p=3)
    with pytest.raises(TypeError, match=r"plot.bar\(\) has no argument 'max_display'. Use max_players=5\."):
        explanation.plot.bar(max_display=5)
    with pytest.raises(TypeError, match=r"Use max_pairs=5\."):
        explanation.plot.interactions(max_display=5)
    with pytest.raises(TypeError, match="shows one player"):
        explanation.plot.dependence(0, max_display=5)
    with pytest.raises(AttributeError, match=r"no 'force'; it has bar, .*`explanation.to_shap\(\)`"):
        explanation.plot.force  # noqa: B018 (to look it up is the test)
