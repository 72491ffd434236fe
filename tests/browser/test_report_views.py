"""The views of a report: all rows at once, one feature, one row as a waterfall, interactions, trust."""

from dataclasses import replace

import numpy as np
import pytest
from report_cases import explain, order_shown

from controlshap.report import sentences

#: Where the dots of a path are, in its own units.
PLACES = "path => [...path.getAttribute('d').matchAll(/M([\\d.]+) ([\\d.]+)/g)].map(m => [+m[1], +m[2]])"


def dots(page, where):
    """All dots below an element, filled and hollow, by path."""
    return [
        place
        for path in page.query_selector_all(f"{where} path.dot:not(.hole):not(.mark)")
        for place in path.evaluate(PLACES)
    ]


def test_all_rows_at_once(visit, sampled):
    page = visit(sampled)
    order = [sampled.feature_names[player] for player in sampled.summary().order]
    assert page.locator("#swarm tbody .name").all_text_contents() == order
    lines = page.locator("#swarm tbody tr").count()
    for line in range(lines):
        found = np.sort([x for x, _ in dots(page, f"#swarm tbody tr:nth-child({line + 1})")])
        values = np.sort(sampled.values[:, sampled.summary().order[line]])
        assert len(found) == len(sampled)
        # places are an increasing linear function of the values, to the rounding of the path
        slope, start = np.polyfit(values, found, 1)
        assert slope > 0
        np.testing.assert_allclose(found, start + slope * values, atol=0.2)
    low, high = sampled.confidence_interval(0.95)
    unsure = int(((low <= 0) & (high >= 0)).sum())
    holes = sum(len(path.evaluate(PLACES)) for path in page.query_selector_all("#swarm path.hole"))
    assert holes == unsure > 0


def test_a_dot_opens_its_row(visit, sampled):
    page = visit(sampled)
    player = sampled.summary().order[0]
    row = int(sampled.values[:, player].argmax())
    page.click("#swarm tbody tr:first-child svg", position={"x": page.evaluate(
        "document.querySelector('#swarm tbody tr:first-child svg').getBoundingClientRect().width") - 2, "y": 22}
    )  # fmt: skip
    assert page.text_content("#row-title") == f"Row {row}"
    assert len(page.query_selector_all("#swarm path.mark[d^='M']")) == len(sampled.feature_names)


def test_one_feature(visit, several):
    page = visit(several)
    player = int(several.output(0).summary().order[1])
    page.select_option("#feature", str(player))
    assert page.text_content("#feature-title") == several.feature_names[player]
    found = np.array(dots(page, "#feature-plot"))
    assert len(found) == len(several)
    data, values = several.data[:, player].astype(float), several.values[:, player, 0]
    order, shown = np.argsort(data), found[np.argsort(found[:, 0])]
    assert abs(np.corrcoef(data[order], shown[:, 0])[0, 1]) > 1 - 1e-6
    assert np.corrcoef(values[order], shown[:, 1])[0, 1] < -1 + 1e-6  # down is small
    page.select_option("#output", "1")
    again = np.array(dots(page, "#feature-plot"))
    other = several.values[np.argsort(data), player, 1]
    assert np.corrcoef(other, again[np.argsort(again[:, 0])][:, 1])[0, 1] < -1 + 1e-6


def test_categories_and_gaps_have_places(visit):
    explanation = explain(30)
    data = np.array(explanation.data, dtype=object)
    data[:, 0] = np.where(np.arange(30) % 3 == 0, "red", "a very long name of a colour that goes on and on")
    data[::4, 0] = None
    data[::5, 1] = np.nan
    page = visit(replace(explanation, data=data), width=360, height=640, phone=True)
    for player, last in ((0, "missing"), (1, "missing")):
        page.select_option("#feature", str(player))
        assert page.locator("#feature-data text").all_text_contents()[-1] == last
        assert len(dots(page, "#feature-plot")) == 30
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 360


def test_the_row_is_a_waterfall(visit, sampled):
    page = visit(sampled, "#row=7")
    bars = page.eval_on_selector_all(
        "#players rect", "all => all.map(r => [parseFloat(r.getAttribute('x')), parseFloat(r.getAttribute('width')),"
        " r.classList.contains('negative'), r.classList.contains('unsure')])",
    )  # fmt: skip
    starts = [x + width if negative else x for x, width, negative, _ in bars]
    ends = [x if negative else x + width for x, width, negative, _ in bars]
    np.testing.assert_allclose(starts[1:], ends[:-1], atol=0.03)
    base, prediction = sampled.base_values[7], sampled.base_values[7] + sampled.values[7].sum()
    assert (ends[-1] - starts[0] > 0) == (prediction > base)
    order = [sampled.feature_names.index(name) for name in order_shown(page)]
    low, high = sampled.confidence_interval(0.95)
    assert [unsure for *_, unsure in bars] == ((low <= 0) & (high >= 0))[7, order].tolist()
    assert {"base value", "prediction"} & set(page.locator("#axis text").all_text_contents())
    page.select_option("#player-shape", "bars")
    zero = page.eval_on_selector_all("#players line.zero", "all => all.map(l => parseFloat(l.getAttribute('x1')))")
    assert len(set(zero)) == 1
    assert "base value" not in page.locator("#axis text").all_text_contents()


def test_chances_of_swaps(visit, sampled):
    ranking = sampled.ranking(0.95)
    row = int(ranking.n_ordered.argmin())
    page = visit(sampled, f"#row={row}")
    told = [text.removeprefix("⇄\xa0").removesuffix("\xa0%") for text in page.locator(".swap").all_text_contents()]
    wanted = ranking.swap_probability[row][~ranking.separated[row]]
    assert told == ["<1" if np.round(share, 2) < 0.01 else f"{100 * np.round(share, 2):.0f}" for share in wanted]


def test_interactions_are_shown_where_they_were_asked_for(visit, sampled):
    assert visit(sampled).query_selector("#pairs") is None
    found = explain(6, interactions=2, budget=4000)
    page = visit(found, "#row=3")
    first = found.interactions.top(1, row=3).iloc[0]
    assert page.locator("#pairs .name").all_text_contents()[0] == f"{first['feature']} × {first['partner']}"
    assert page.locator("#interactions tbody tr").count() > 0
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 1280


def test_title_and_trust(visit, sampled, several):
    assert visit(explain(3, 3, control="auto", budget=5000)).query_selector("#check") is None
    page = visit(sampled)
    assert page.text_content(".subtitle") == "Model output · model · independent features"
    assert "All 240 sampled values have enough units" in page.text_content("#control")
    assert str(sampled.check()) in page.text_content("#check")
    assert str(several.check()) in visit(several).text_content("#check")
    few = replace(sampled, degrees_of_freedom=np.full(sampled.values.shape, 1.0))
    assert "240 values of 240 rest on so few units" in visit(few).text_content("#control")


@pytest.mark.parametrize("features", ["correlated", "copula", "empirical", "Mine(3)"])
def test_what_absent_means_is_said(sampled, features):
    text = sentences.about_question(replace(sampled, settings=sampled.settings | {"features": features}))
    assert ("Mine(3)" in text) if "(" in features else "conditional Shapley values" in text
