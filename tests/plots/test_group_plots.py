"""Heat maps, cohorts and comparisons: drawn in the axes that are given, with room for every text."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose
from plot_cases import make

import controlshap as cs


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


GROUPS = np.array(["north", "south"])


def drawn(name, explanation, **arguments):
    first = {
        "cohorts": (GROUPS[np.arange(len(explanation)) % 2],),
        "compare": (make(p=len(explanation.feature_names)),),
    }
    return getattr(explanation.plot, name)(*first.get(name, ()), **arguments)


@pytest.mark.parametrize("p", [1, 4, 100])
@pytest.mark.parametrize("name", ["heatmap", "cohorts", "compare"])
def test_they_return_their_axes_and_draw_in_those_given(name, p):
    explanation = make(p=p)
    ax = drawn(name, explanation)
    assert len(ax.get_yticks()) == min(p, 20 if name == "heatmap" else 12)
    assert ("not shown" in ax.get_xlabel()) == (p == 100)
    _, own = plt.subplots()
    assert drawn(name, explanation, ax=own) is own


@pytest.mark.parametrize("name", ["cohorts", "compare", "ranking"])
def test_the_legend_runs_into_no_other_text(name):
    explanation = replace(make(p=8), settings={"quantity": "decision function of a model with a long description"})
    ax = drawn(name, explanation)
    ax.figure.canvas.draw()
    renderer = ax.figure.canvas.get_renderer()
    legend = ax.get_legend().get_window_extent(renderer)
    others = [*ax.texts, ax.title, ax._left_title, ax.xaxis.label, *ax.get_yticklabels()]
    boxes = [text.get_window_extent(renderer) for text in others if text.get_text().strip()]
    assert len(boxes) > 8
    assert not any(legend.overlaps(box) for box in boxes)


def test_cohorts_are_the_rows_of_their_label():
    explanation = make(p=4, rows=6)
    labels = np.array(["b", "a", "a", "b", "b", "a"])
    ax = explanation.plot.cohorts(labels)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a (3 rows)", "b (3 rows)"]
    lines = [line for line in ax.lines if line.get_marker() == "o"]
    expected = explanation[labels == "a"].summary().mean_absolute
    assert_allclose(np.sort(lines[0].get_xdata()), np.sort(expected))


def test_long_names_of_groups_stay_inside_the_picture():
    explanation = make(p=4, rows=6)
    ax = explanation.plot.cohorts([f"a name of a group that is long {n % 3}" for n in range(6)])
    ax.figure.canvas.draw()
    assert ax.get_legend().get_window_extent().x1 <= ax.figure.bbox.x1


def test_a_comparison_of_a_row_shows_its_values():
    a, b = make(p=4), make(p=4, seed=1)
    ax = a.plot.compare({"second": b}, 2, name="first")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["first", "second"]
    lines = [line for line in ax.lines if line.get_marker() == "o"]
    assert_allclose(np.sort(lines[1].get_xdata()), np.sort(b.values[2]))


def test_a_heat_map_runs_by_prediction_and_pales_what_is_not_certain():
    explanation = make(p=4, rows=6)
    image = explanation.plot.heatmap().images[0].get_array()
    assert image.shape == (4, 6, 4)
    sure = replace(explanation, standard_errors=explanation.standard_errors * 1e-6)
    unsure = replace(explanation, standard_errors=explanation.standard_errors * 1e6)
    shades = [float(np.asarray(one.plot.heatmap().images[0].get_array())[..., :3].mean()) for one in (sure, unsure)]
    assert shades[1] > shades[0]


def test_what_cannot_be_drawn_is_told():
    explanation = make(p=4)
    with pytest.raises(cs.InvalidArgumentError, match="one label for each of the 6 rows"):
        explanation.plot.cohorts(["a"])
    with pytest.raises(cs.InvalidArgumentError, match="1 to 7 groups; got 8"):
        make(p=4, rows=8).plot.cohorts(np.arange(8))
    with pytest.raises(cs.InvalidArgumentError, match="same players"):
        explanation.plot.compare(make(p=5))
    with pytest.raises(cs.InvalidArgumentError, match="must be explanations"):
        explanation.plot.compare({"other": 3})
