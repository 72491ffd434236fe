"""What a report says: numbers with the digits that their errors justify, and words that fit."""

from dataclasses import replace

import numpy as np
import pytest
from report_cases import explain, order_shown

import controlshap as cs
from controlshap.report import charts, sentences, settings
from controlshap.results.ranking import is_exact
from controlshap.results.summary import importance_interval
from controlshap.results.wording import format_number, format_share, format_with_error, round_by_errors, round_digits


def test_numbers_have_the_digits_that_errors_justify():
    assert format_with_error(0.123456, 0.00213).replace("\xa0", " ") == "0.1235 ± 0.0021"
    assert format_with_error(-12345.6, 210.0).replace("\xa0", " ") == "−12,350 ± 210"
    assert format_with_error(1.5e-9, 2e-11).replace("\xa0", " ") == "1.500e−9 ± 2.0e−11"
    assert format_with_error(0.317116745, 6e-8).replace("\xa0", " ") == "0.3171167 ± 6.0e−8"
    assert format_with_error(0.5, 0.0) == "0.5"
    assert [format_number(v) for v in (0.0, 1234567.0, 0.00012345, 3e12)] == ["0", "1,235,000", "0.0001234", "3.000e12"]
    assert format_share(4999, 5000) == "99.9 %"
    assert format_share(0, 3) == "0 %"
    values, errors = np.array([0.123456789, 0.1234567, -1e6 / 7, 0.0]), np.array([0.001, 0.0, 3e4, 0.0])
    np.testing.assert_array_equal(round_by_errors(values, errors), [0.12346, 0.123457, -142900.0, 0.0])
    np.testing.assert_array_equal(round_digits(np.array([0.0, 1.23456e-7, 98765.0]), 3), [0.0, 1.23e-7, 98800.0])


def test_numbers_in_the_page_are_those_of_the_result(visit, sampled):
    page = visit(sampled, "#row=17")
    row, (low, high) = 17, sampled.confidence_interval(0.95)
    assert page.text_content("#row-title") == "Row 17"
    assert order_shown(page) == list(sampled.ranking().names(17))
    players = [sampled.feature_names.index(name) for name in order_shown(page)]
    shown = [float(t.replace("−", "-")) for t in page.locator("#players .value").all_text_contents()]
    errors = [float(t.lstrip("± \xa0")) for t in page.locator("#players .error").all_text_contents()]
    np.testing.assert_allclose(shown, sampled.values[row, players], atol=0.06 * max(errors))
    np.testing.assert_allclose(errors, (high - low)[row, players] / 2.0, rtol=0.06)
    page.focus("#players tbody tr")
    told = dict(
        zip(
            page.locator("#tooltip dt").all_text_contents(),
            page.locator("#tooltip dd").all_text_contents(),
            strict=True,
        )
    )
    first = players[0]
    ends = [float(t.replace("−", "-")) for t in told["95 % interval"].split(" to ")]
    np.testing.assert_allclose(ends, [low[row, first], high[row, first]], atol=0.06 * errors[0])
    assert float(told["standard error"]) == pytest.approx(sampled.standard_errors[row, first], rel=0.01)
    # ± is half an interval, here as everywhere
    times = (high - low)[row, first] / 2.0 / sampled.standard_errors[row, first]
    value, reach = (float(t) for t in told["without control"].replace("−", "-").replace("\xa0", " ").split(" ± "))
    assert value == pytest.approx(sampled.uncontrolled_values[row, first], abs=0.06 * reach)
    assert reach == pytest.approx(times * sampled.uncontrolled_standard_errors[row, first], rel=0.06)
    assert float(told["variance reduction"].rstrip(" %")) == pytest.approx(
        100 * sampled.variance_reduction[row, first], abs=0.11
    )
    prediction = sampled.base_values[row] + sampled.values[row].sum()
    assert float(page.text_content("#row-sum strong").replace("−", "-")) == pytest.approx(prediction, rel=1e-4)


def test_summary_in_words_and_importance(visit, sampled):
    page = visit(sampled, title="A title & more")
    text, summary = page.text_content("#summary").replace("\xa0", " "), sampled.summary()
    assert page.evaluate("document.title") == page.text_content("h1") == "A title & more"
    assert "40 rows, by 6 players" in text
    assert f"{sampled.n_evaluations.sum():,} in all" in text
    first = summary.order[0]
    reach = importance_interval(sampled, summary, 0.95)[1][first] - summary.mean_absolute[first]
    told = format_with_error(summary.mean_absolute[first], reach).replace("\xa0", " ")
    assert page.locator("#importance rect.unsigned").count() == 6
    assert f"{sampled.feature_names[first]} moves the prediction most, by {told}" in text
    assert f"needed {format_number(np.median(sampled.gain), 3)} times the model evaluations" in text
    names = page.locator("#importance tbody th").all_text_contents()
    assert names == [sampled.feature_names[player] for player in summary.order]
    ordered = sampled.ranking().n_ordered
    assert np.median(ordered) == 1
    assert "in the median row only the first has a certified place" in text
    assert "rng=5)" in page.text_content("#settings pre")
    assert "estimator='permutation', control='ridge'" in page.text_content("#settings pre")
    assert page.evaluate("document.querySelectorAll('#importance svg rect').length") == 6
    widths = page.evaluate(
        "[...document.querySelectorAll('#importance rect')].map(r => r.getBoundingClientRect().width)"
    )
    np.testing.assert_allclose(np.array(widths) / widths[0], np.sort(summary.mean_absolute)[::-1] /
                               summary.mean_absolute.max(), atol=0.01)  # fmt: skip


def test_certified_ranking_of_a_row(visit, sampled):
    ranking = sampled.ranking(0.9)
    rows = [int(ranking.n_ordered.argmin()), int(ranking.n_ordered.argmax())]
    page = visit(sampled, level=0.9)
    for row in rows:
        page.evaluate(f"location.hash = '#row={row}'")
        page.evaluate("new Promise(done => setTimeout(done, 50))")
        groups = page.evaluate(
            "[...document.querySelectorAll('#row-ranking li')].map(l => [...l.querySelectorAll('.chip')]"
            ".map(c => c.textContent))"
        )
        told = " > ".join(one[0] if len(one) == 1 else "{" + ", ".join(one) + "}" for one in groups)
        assert told == ranking.describe(row)
    assert "90 %" in page.text_content("#row-ranking-text")
    certified = page.locator("#ranking .number").all_text_contents()[1:]
    assert certified[0] == f"{format_share(int(ranking.separated[:, 0].sum()), 40)} of rows"


def test_exact_values_are_called_exact(visit):
    explanation = explain(3, 3, control="auto", budget=5000)
    assert set(explanation.status) == {"exact"}
    page = visit(explanation)
    assert "These values are exact." in page.text_content("#summary")
    assert page.text_content("#players-head") == "exact value"
    assert page.locator("#players .error").count() == 0
    decimals = {len(text.partition(".")[2]) for text in page.locator("#players .value").all_text_contents()}
    assert len(decimals) == 1
    page.focus("#players tbody tr")
    assert "0 (exact)" in page.text_content("#tooltip")
    assert page.evaluate("document.querySelectorAll('.whisker').length") == 0
    assert "Exact means: no sampling error" in page.text_content("#control")


def test_without_control_and_one_player(visit):
    page = visit(explain(3, control="none"))
    assert "No control was used." in page.text_content("#control")
    assert page.evaluate("document.querySelector('#plain-label').hidden")
    one = explain(2, 3, control="auto", groups={"all": [0, 1, 2]})
    page = visit(one)
    assert order_shown(page) == ["all"]
    assert page.evaluate("document.querySelector('#ranking')") is None


def test_rows_that_did_not_converge_are_told(visit):
    with pytest.warns(cs.NotConvergedWarning):
        explanation = explain(2, control="none", tolerance=1e-6)
    assert "2 rows ended (budget reached) before what was asked for was reached" in visit(explanation).text_content(
        ".warning"
    )


def test_importance_has_the_intervals_of_the_bar_plot(sampled):
    few = replace(sampled, degrees_of_freedom=np.full(sampled.values.shape, 2.0))
    summary = few.summary()
    low, high = importance_interval(few, summary, 0.95)
    chart = charts.importance(few, summary, 0.95)
    order = np.argsort(-summary.mean_absolute, kind="stable")
    drawn = np.array([(bar.low, bar.high) for bar in chart.bars]) / 100.0 * high.max()
    np.testing.assert_allclose(drawn, np.column_stack([low, high])[order], atol=1e-3 * high.max())
    # few degrees of freedom widen the interval, and its scale has no part in them
    assert ((high - summary.mean_absolute) > 1.97 * summary.standard_errors).all()
    tiny = replace(few, values=few.values * 1e-90, standard_errors=few.standard_errors * 1e-90)
    np.testing.assert_allclose(importance_interval(tiny, tiny.summary(), 0.95)[1], high * 1e-90)


def test_players_without_an_effect_have_an_importance_of_0_and_not_below(sampled):
    quiet = replace(sampled, values=sampled.values * [1.0, *[1e-9] * 5])
    summary = quiet.summary()
    assert (summary.mean_absolute < 0).any()
    bars = charts.importance(quiet, summary, 0.95).bars
    assert not any(bar.text.startswith("−") for bar in bars)


def test_sentences_name_a_function_and_mark_code(tmp_path):
    rows = np.random.default_rng(0).normal(size=(20, 3))
    explanation = cs.Explainer(lambda some: some[:, 0] * some[:, 1], rows)(rows[:2], rng=0)
    text = explanation.report(tmp_path / "out.html").read_text(encoding="utf-8")
    assert "This report explains the output of a function." in text
    assert "(<code>background_standard_errors</code>)" in text
    assert dict(settings.tables(explanation)[0])["explained"] == "model output"


def test_words_for_errors_of_zero(sampled):
    assert (sampled.status != "exact").all()
    none = replace(sampled, standard_errors=np.zeros_like(sampled.values), complete=np.ones(len(sampled), dtype=bool))
    assert sentences.about_errors(none) == "The evaluations show no sampling error."
    early = replace(none, complete=np.zeros(len(sampled), dtype=bool))
    assert sentences.about_errors(early).endswith("so far.")
    assert "exact" not in sentences.about_importance(early, early.summary(), 0.95)
    assert "exact" not in sentences.about_control(replace(early, uncontrolled_standard_errors=early.standard_errors))[0]
    n_half = len(sampled) // 2 + 1
    half = sampled.standard_errors.copy()
    half[:n_half] = 0.0
    assert f"in {n_half} of {len(sampled)} rows" in sentences.about_control(replace(sampled, standard_errors=half))[0]


def linear(rows):
    return rows @ np.arange(1.0, 1.0 + rows.shape[1])


def test_exact_values_say_what_exact_means():
    found = explain(5, 4, function=linear, control="auto", budget=100_000)
    assert is_exact(found.ranking())
    (text,) = sentences.about_trust(found)
    assert text.startswith("Exact means: no sampling error, for this model and these 12 background rows. Another")
    largest = format_number(float(found.background_standard_errors.max()), 2)
    assert f"would change the values: standard error at most {largest} (`background_standard_errors`)" in text
    assert text.endswith("The model's own fit is not covered.")
    (unknown,) = sentences.about_trust(replace(found, background_standard_errors=None))
    assert "; by how much is not known here. The model" in unknown
    assert sentences.about_order(found.ranking()) == "The order is exact for this background."
    tied = replace(found, values=np.ones_like(found.values))
    assert sentences.about_order(tied.ranking()).endswith("Equal magnitudes have no order.")


def test_sampled_values_are_not_called_exact(sampled):
    assert not is_exact(sampled.ranking())
    assert not any("Exact means" in text for text in sentences.about_trust(sampled))
    silent = replace(sampled, standard_errors=np.zeros_like(sampled.standard_errors))
    assert sentences.about_trust(silent)[0].startswith("An error covers")


def test_the_page_certifies_nothing_beside_exact_values(visit):
    found = explain(5, 4, function=linear, control="auto", budget=100_000)
    page = visit(found, "#row=2")
    assert "certified" not in page.text_content("#summary")
    assert "The order is exact for this background." in page.text_content("#summary")
    assert page.locator("#ranking").count() == 0
    assert page.text_content("#row-ranking-text") == "The order by magnitude is exact for this background."
    assert "these 12 background rows" in page.text_content("#control")


def test_a_report_is_an_html_file(sampled, tmp_path):
    with pytest.raises(cs.InvalidArgumentError, match=r"must end in \.html or \.htm; got 'z\.pdf'"):
        sampled.report(tmp_path / "z.pdf")
    assert not list(tmp_path.iterdir())
    assert sampled.report(tmp_path / "z.HTM").exists()
