"""`explanation.plot`: every label can be read, wrong arguments are told, and the small parts do their work."""

import sys
from dataclasses import replace

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas
import pytest
from plot_cases import ALL, TABLES, assert_readable, call, intervals_of, labels_of, make

import controlshap as cs
from controlshap.plots.canvas import logarithmic_ticks
from controlshap.results.player_data import classify, scale_to_unit
from controlshap.results.wording import format_chance, format_column, format_label, format_level, shorten_names

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _no_figures_left():
    yield
    plt.close("all")


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
    assert " very long name of an output" in ax.get_title(loc="left")
    by_name = call(explanation, name, output="bad $risk$")
    assert r"bad \$risk\$" in by_name.get_title(loc="left").lower()
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
    names = shorten_names([*ends, *same, "W" * 60, "two\nlines", "\N{RIGHT-TO-LEFT OVERRIDE}abc", "年" * 40])
    assert len(set(names)) == 9
    assert max(map(len, names)) <= 40
    assert all(str(number) in names[number] for number in range(3))
    assert names[6] == "two lines"
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in names[7]
    assert shorten_names(["short", "shorter"]) == ["short", "shorter"]


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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"row": 6}, "`row` must be a row number, 0 to 5; got 6"),
        ({"row": -7}, "0 to 5; got -7"),
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
    with pytest.raises(cs.InvalidArgumentError, match="`output` is needed: the model has 2 outputs"):
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


def test_data_are_numbers_categories_or_missing():
    numbers = classify(np.array([1, 2.5, None, np.nan, pandas.NA, np.float32(3), pandas.NaT], dtype=object))
    assert numbers.apart.tolist() == [False, False, True, True, True, False, True]
    mixed = classify(np.array([1, "a", None], dtype=object))
    assert mixed.numbers is None
    assert mixed.categories == ("1", "a")
    assert scale_to_unit(np.array([True, False, None], dtype=object)).tolist()[:2] == [1.0, 0.0]
    assert np.isnan(scale_to_unit(np.array(["a", "b"], dtype=object))).all()
    assert scale_to_unit(np.array([5.0, 5.0], dtype=object)).tolist() == [0.5, 0.5]
    assert scale_to_unit(np.array([-np.inf, 0.0, 1.0, np.inf], dtype=object)).tolist() == [0.0, 0.0, 1.0, 1.0]
    # nearly all alike: the quantiles meet, the extremes do not
    assert scale_to_unit(np.array([0.0] * 99 + [1.0], dtype=object))[[0, 99]].tolist() == [0.0, 1.0]


def test_numbers_are_written_for_people():
    written = [format_label(v) for v in (0, 1, -3.5, 12345.678, 1234567, 1.234e-5, np.inf)]
    assert written == ["0", "1", "−3.5", "12346", "1.235e6", "1.234e−5", "∞"]
    assert (format_level(0.95), format_level(0.999)) == ("95 %", "99.9 %")
    assert (format_chance(0.004), format_chance(0.124)) == ("<1 %", "12 %")
    texts = format_column(np.array([0.5, -0.25, 0.1, 7]), np.array([0.012, 0.0, 1e-9, 0.02]), [True, True, True, False])
    assert texts == ["+0.500 ± 0.012", "−0.250", "+0.100 ± <0.001", "7.000 ± 0.020"]


@pytest.mark.parametrize(("low", "high"), [(1e-9, 1e7), (0.02, 0.17), (0.11, 0.12), (1, 1000), (3, 30)])
def test_logarithmic_axes_have_few_ticks_and_more_than_one(low, high):
    ticks = logarithmic_ticks(low, high)
    assert 2 <= len(ticks) <= 6
    assert low <= ticks.min() < ticks.max() <= high


@pytest.mark.parametrize("name", ALL)
def test_on_a_dark_page_everything_can_be_seen(name):
    """Texts and lines stand out from the background (WCAG asks for 3 to 1 of graphics, 4.5 to 1 of text)."""

    def luminance(colour):
        parts = np.array(mpl.colors.to_rgb(colour))
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    def contrast(colour, behind):
        lighter, darker = sorted((luminance(colour), luminance(behind)), reverse=True)
        return (lighter + 0.05) / (darker + 0.05)

    with plt.style.context("dark_background"):
        ax = call(make(p=6, rows=40), name)
        ax.figure.canvas.draw()
        assert_readable(ax.figure)
        behind = ax.get_facecolor()
        texts = [text for text in ax.figure.findobj(mpl.text.Text) if text.get_text().strip() and text.get_visible()]
        assert len(texts) > 5
        assert min(contrast(text.get_color(), behind) for text in texts) > 4.5
        bars = [patch for patch in ax.patches if patch.get_width() and patch is not ax.patch]
        marks = [line for line in ax.lines if line.get_marker() not in ("None", "", None)]
        colours = [bar.get_facecolor() for bar in bars] + [mark.get_markeredgecolor() for mark in marks]
        assert all(contrast(colour, behind) > 1.5 for colour in colours)
    # the light page is as it was, also after the dark one
    light = call(make(p=6, rows=40), name)
    shown = [text for text in light.figure.findobj(mpl.text.Text) if text.get_text().strip()]
    assert min(contrast(text.get_color(), "white") for text in shown) > 4.5
