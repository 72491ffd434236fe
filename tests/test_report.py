"""The report in a real Chromium: what it says, how it is used, and that data never becomes markup."""

import json
import re
import subprocess
import sys
import time
from dataclasses import fields, replace

import numpy as np
import pandas
import pytest
from chromium import Chromium

import controlshap as cs
from controlshap.importance import importance_interval
from controlshap.report import charts, reproducing, wording, write_report
from controlshap.report.numbers import justified, number, share, significant, with_error

HOSTILE = (
    "</script><script>document.title='broken'</script>",
    '"><img src=x onerror="document.title=\'broken\'">',
    "&amp; &lt; <b>bold</b> ' \" ` ${1}",
    "{{ 7 * 7 }} {% raw %}",
    "line\u2028break\u2029 \x00 \ud800",
    "a-very-long-name-without-any-place-to-break-it-" * 6,
)


@pytest.fixture(scope="module")
def browser():
    browser = Chromium()
    yield browser
    browser.close()


@pytest.fixture
def visit(browser, tmp_path):
    """Write a report, open it, and ask afterwards whether anything was wrong or asked for."""
    pages = []

    def go(explanation, fragment="", *, title=None, level=0.95, **settings):
        path = write_report(explanation, tmp_path / "report.html", title=title, level=level)
        page = browser.open(path, fragment, **settings)
        pages.append(page)
        return page

    yield go
    for page in pages:
        complaints, requests = page.complaints(), page.requests()
        page.close()
        assert complaints == []
        assert set(requests) <= {page.url}


def model(rows):
    score = rows @ np.linspace(1.0, -0.6, rows.shape[1]) + rows[:, 0] * rows[:, 1] * rows[:, 2]
    return np.tanh(score)


def explain(n_rows, n_columns=6, *, names=None, function=model, budget=400, control="ridge", groups=None, **call):
    rng = np.random.default_rng(0)
    background, rows = rng.normal(size=(12, n_columns)), rng.normal(size=(n_rows, n_columns))
    if names is not None:
        groups = {name: [column] for column, name in enumerate(names)}
    estimator = "permutation" if control != "auto" else "auto"
    explainer = cs.Explainer(function, background, estimator=estimator, control=control, groups=groups)
    return explainer(rows, budget=budget, rng=5, **call)


@pytest.fixture(scope="module")
def sampled():
    return explain(40)


@pytest.fixture(scope="module")
def several():
    return explain(
        12, function=lambda rows: np.column_stack([model(rows), -(model(rows) ** 2), rows[:, 0]]), budget=600
    )


def tiled(explanation, times):
    """The same rows many times over, with other data."""
    found = {}
    for field in fields(explanation):
        value = getattr(explanation, field.name)
        if isinstance(value, np.ndarray):
            found[field.name] = np.concatenate([value] * times)
    found["data"] = np.random.default_rng(1).normal(size=found["data"].shape)
    return replace(explanation, **found, evaluations=None, stages=explanation.stages * times)


def link(page):
    """The address, which follows a moment later."""
    return page.js("new Promise(done => setTimeout(() => done(location.hash), 250))")


def order_shown(page):
    return page.texts("#players tbody .name")


def test_numbers_have_the_digits_that_errors_justify():
    assert with_error(0.123456, 0.00213).replace("\xa0", " ") == "0.1235 ± 0.0021"
    assert with_error(-12345.6, 210.0).replace("\xa0", " ") == "−12,350 ± 210"
    assert with_error(1.5e-9, 2e-11).replace("\xa0", " ") == "1.500e−9 ± 2.0e−11"
    assert with_error(0.5, 0.0) == "0.5"
    assert [number(v) for v in (0.0, 1234567.0, 0.00012345, 3e12)] == ["0", "1,235,000", "0.0001234", "3.000e12"]
    assert share(4999, 5000) == "99.9 %"
    assert share(0, 3) == "0 %"
    values, errors = np.array([0.123456789, 0.1234567, -1e6 / 7, 0.0]), np.array([0.001, 0.0, 3e4, 0.0])
    np.testing.assert_array_equal(justified(values, errors), [0.12346, 0.123457, -142900.0, 0.0])
    np.testing.assert_array_equal(significant(np.array([0.0, 1.23456e-7, 98765.0]), 3), [0.0, 1.23e-7, 98800.0])


def test_numbers_in_the_page_are_those_of_the_result(visit, sampled):
    page = visit(sampled, "#row=17")
    row, (low, high) = 17, sampled.confidence_interval(0.95)
    assert page.text("#row-title") == "Row 17"
    assert order_shown(page) == list(sampled.ranking().names(17))
    players = [sampled.feature_names.index(name) for name in order_shown(page)]
    shown = [float(t.replace("−", "-")) for t in page.texts("#players .value")]
    errors = [float(t.lstrip("± \xa0")) for t in page.texts("#players .error")]
    np.testing.assert_allclose(shown, sampled.values[row, players], atol=0.06 * max(errors))
    np.testing.assert_allclose(errors, sampled.standard_errors[row, players], rtol=0.06)
    page.focus("#players tbody tr")
    told = dict(zip(page.texts("#tooltip dt"), page.texts("#tooltip dd"), strict=True))
    first = players[0]
    ends = [float(t.replace("−", "-")) for t in told["95 % interval"].split(" to ")]
    np.testing.assert_allclose(ends, [low[row, first], high[row, first]], atol=0.06 * errors[0])
    assert float(told["standard error"]) == pytest.approx(sampled.standard_errors[row, first], rel=0.01)
    assert told["without control"].replace("\xa0", " ") == with_error(
        sampled.uncontrolled_values[row, first], sampled.uncontrolled_standard_errors[row, first]
    ).replace("\xa0", " ")
    assert float(told["variance reduction"].rstrip(" %")) == pytest.approx(
        100 * sampled.variance_reduction[row, first], abs=0.11
    )
    prediction = sampled.base_values[row] + sampled.values[row].sum()
    assert float(page.text("#row-sum strong").replace("−", "-")) == pytest.approx(prediction, rel=1e-4)


def test_summary_in_words_and_importance(visit, sampled):
    page = visit(sampled, title="A title & more")
    text, summary = page.text("#summary").replace("\xa0", " "), sampled.summary()
    assert page.js("document.title") == page.text("h1") == "A title & more"
    assert "40 rows, by 6 players" in text
    assert f"{sampled.n_evaluations.sum():,} in all" in text
    first = summary.order[0]
    told = with_error(summary.mean_absolute[first], summary.standard_errors[first]).replace("\xa0", " ")
    assert f"{sampled.feature_names[first]} moves the prediction most, by {told}" in text
    assert f"needed {number(np.median(sampled.gain), 3)} times the model evaluations" in text
    names = page.texts("#importance tbody th")
    assert names == [sampled.feature_names[player] for player in summary.order]
    ordered = sampled.ranking().n_ordered
    assert np.median(ordered) == 1
    assert "in the median row only the first has a certified place" in text
    assert "rng=5)" in page.text("#settings pre")
    assert "estimator='permutation', control='ridge'" in page.text("#settings pre")
    assert page.js("document.querySelectorAll('#importance svg rect').length") == 6
    widths = page.js("[...document.querySelectorAll('#importance rect')].map(r => r.getBoundingClientRect().width)")
    np.testing.assert_allclose(np.array(widths) / widths[0], np.sort(summary.mean_absolute)[::-1] /
                               summary.mean_absolute.max(), atol=0.01)  # fmt: skip


def test_the_code_reproduces_the_result(visit):
    groups = {"pair": ["x1", "x3"]}
    explanation = explain(2, groups=groups, budget=40_000, tolerance=0.5, stop="top 1", level=0.9)
    page = visit(explanation)
    rng = np.random.default_rng(0)
    names = {"model": model, "background": rng.normal(size=(12, 6)), "X": rng.normal(size=(2, 6))}
    exec(page.text("#settings pre"), names)  # the page says that this works
    np.testing.assert_array_equal(names["explanation"].values, explanation.values)
    assert "pair" in order_shown(page)


def test_choosing_rows(visit, sampled):
    page = visit(sampled)
    assert page.text("#row-title") == "Row 0"
    assert page.js("document.querySelector('#previous').disabled")
    page.click("#next")
    assert page.text("#row-title") == "Row 1"
    assert link(page) == "#row=1"
    assert page.text("#live").startswith("Row 1: prediction")
    page.fill("#row-number", "23")
    assert page.text("#row-title") == "Row 23"
    page.type("9")  # 239: there is no such row, and the field says so
    assert page.text("#row-title") == "Row 23"
    assert page.js("document.querySelector('#row-number').getAttribute('aria-invalid')") == "true"
    page.focus("#row-list")
    assert page.js("document.querySelector('#row-number').value") == "23"
    page.press("ArrowDown", times=2)
    assert page.text("#row-title") == "Row 25"
    active = "document.getElementById(document.querySelector('#row-list').getAttribute('aria-activedescendant'))"
    assert page.js(f"{active}.getAttribute('aria-selected')") == "true"
    assert page.js(f"{active}.dataset.row") == "25"
    for key, row in (("Home", 0), ("End", 39), ("PageUp", None), ("ArrowUp", None)):
        page.press(key)
        if row is not None:
            assert page.text("#row-title") == f"Row {row}"
    assert 20 < int(page.text("#row-title")[4:]) < 38
    page.press("Home")
    page.press("ArrowRight", times=3)
    page.press("ArrowLeft")
    assert page.text("#row-title") == "Row 2"
    page.click("#row-list .line:nth-child(5)")
    assert page.text("#row-title") == "Row 4"
    page.js("location.hash = '#row=11'")
    page.js("new Promise(done => setTimeout(done, 50))")
    assert page.text("#row-title") == "Row 11"
    page.js("location.hash = '#row=4000'")
    page.js("new Promise(done => setTimeout(done, 50))")
    assert page.text("#row-title") == "Row 11"


def test_filtering_and_sorting_rows(visit, sampled):
    status = np.where(np.arange(40) % 4 == 3, "exact", "converged")
    page = visit(replace(sampled, status=status))
    page.fill("#row-filter", "exact")
    assert page.text("#row-count") == "10 rows of 40"
    assert page.text("#row-title") == "Row 3"
    page.click("#next")
    assert page.text("#row-title") == "Row 7"
    value = f"x2={sampled.data[31, 2]:.3f}"[:7]
    page.fill("#row-filter", value)
    wanted = [row for row in range(40) if f"x2={sampled.data[row, 2]:.6g}".startswith(value)]
    assert page.text("#row-count") == f"{len(wanted)} row{'' if len(wanted) == 1 else 's'} of 40"
    assert page.text("#row-title") == f"Row {wanted[0]}"
    page.fill("#row-filter", "no such thing")
    assert page.text("#row-count") == "0 rows of 40"
    assert page.js("document.querySelector('#next').disabled")
    page.js("document.querySelector('#row-filter').value = ''")
    predictions = sampled.base_values + sampled.values.sum(axis=1)
    page.choose("#row-sort", "high")
    page.focus("#row-list")
    page.press("Home")
    assert page.text("#row-title") == f"Row {predictions.argmax()}"
    page.choose("#row-sort", "error")
    page.press("Home")
    assert page.text("#row-title") == f"Row {sampled.standard_errors.max(axis=1).argmax()}"


def test_sorting_and_filtering_players(visit, sampled):
    page = visit(sampled, "#row=3")
    names, values = np.array(sampled.feature_names), sampled.values[3]
    assert order_shown(page) == names[np.argsort(-np.abs(values))].tolist()
    page.choose("#player-sort", "value")
    assert order_shown(page) == names[np.argsort(-values)].tolist()
    page.choose("#player-sort", "name")
    assert order_shown(page) == sorted(names)
    page.choose("#player-sort", "error")
    assert order_shown(page) == names[np.argsort(-sampled.standard_errors[3])].tolist()
    page.fill("#player-filter", "X4")
    assert order_shown(page) == ["x4"]
    page.type("?")
    assert order_shown(page) == []
    assert not page.js("document.querySelector('#nothing').hidden")
    page.click("#plain")
    assert page.js("document.querySelectorAll('line.without').length") == 0


def test_tooltip_by_mouse_and_keyboard(visit, sampled):
    page = visit(sampled)
    page.point("#players tbody tr:nth-child(2)")
    assert page.text("#tooltip strong") == order_shown(page)[1]
    page.press("Escape")
    assert page.js("document.querySelector('#tooltip').hidden")
    page.focus("#plain")
    page.press("Tab")
    assert page.text("#tooltip strong") == order_shown(page)[0]
    page.press("ArrowDown", times=3)
    assert page.text("#tooltip strong") == order_shown(page)[3]
    assert page.js("document.activeElement.getAttribute('aria-describedby')") == "tooltip"
    page.js("new Promise(done => setTimeout(done, 80))")  # the page may scroll to the player: the tooltip stays
    box = page.js("(() => {const b = document.querySelector('#tooltip').getBoundingClientRect();"
                  "return [b.left, b.top, b.right, b.bottom];})()")  # fmt: skip
    assert box[2] - box[0] > 100
    assert min(box) >= 0
    assert box[2] <= 1280
    assert box[3] <= 900
    outline = page.js("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.press("ArrowRight")
    assert page.text("#row-title") == "Row 1"
    assert page.text("#tooltip strong") == order_shown(page)[0]


def test_every_control_is_reached_by_tab_and_has_a_name(visit, several):
    page = visit(several)
    reached = set()
    page.js("document.body.tabIndex = -1; document.body.focus(); scrollTo(0, 0)")
    for _ in range(40):
        page.press("Tab")
        reached.add(page.js("document.activeElement.id"))
    assert {"output", "row-number", "next", "row-filter", "row-sort", "row-list", "player-sort", "player-filter",
            "plain"} <= reached  # fmt: skip
    tree = page.send("Accessibility.getFullAXTree")["nodes"]
    roles = {}
    for node in tree:
        if not node.get("ignored"):
            roles.setdefault(node["role"]["value"], []).append(node.get("name", {}).get("value", ""))
    for role in ("button", "textbox", "searchbox", "spinbutton", "combobox", "listbox", "checkbox", "navigation"):
        assert all(roles.get(role, [])), (role, roles.get(role))
    assert {"main", "navigation", "banner", "contentinfo"} <= set(roles)


def test_several_outputs(visit, several):
    page = visit(several, "#row=5&output=1")
    assert page.js("document.querySelector('#output').value") == "1"
    assert order_shown(page) == list(several.ranking().names(5, 1))
    shown = page.js("[...document.querySelectorAll('#importance .of-output')].map(e => e.offsetParent !== null)")
    assert shown == [False, True, False]
    page.choose("#output", "2")
    assert link(page) == "#row=5&output=2"
    assert "Prediction of output 2" in page.text("#row-sum")
    assert order_shown(page)[0] == "x0"  # this output is the first column
    plain = visit(several, script=False)
    shown = [e in plain.text("#summary") for e in ("output 0", "output 1", "output 2")]
    assert shown == [True, True, True]


def test_certified_ranking_of_a_row(visit, sampled):
    ranking = sampled.ranking(0.9)
    rows = [int(ranking.n_ordered.argmin()), int(ranking.n_ordered.argmax())]
    page = visit(sampled, level=0.9)
    for row in rows:
        page.js(f"location.hash = '#row={row}'")
        page.js("new Promise(done => setTimeout(done, 50))")
        groups = page.js(
            "[...document.querySelectorAll('#row-ranking li')].map(l => [...l.querySelectorAll('.chip')]"
            ".map(c => c.textContent))"
        )
        told = " > ".join(one[0] if len(one) == 1 else "{" + ", ".join(one) + "}" for one in groups)
        assert told == ranking.describe(row)
    assert "90 %" in page.text("#row-ranking-text")
    certified = page.texts("#ranking .number")[1:]
    assert certified[0] == f"{share(int(ranking.separated[:, 0].sum()), 40)} of rows"


@pytest.mark.parametrize("phone", [False, True])
def test_one_row(visit, phone):
    explanation = explain(1)
    page = visit(explanation, width=360 if phone else 1280, height=640 if phone else 900, phone=phone)
    assert page.js("document.querySelector('.chooser')") is None
    assert order_shown(page) == list(explanation.ranking().names(0))
    assert explanation.ranking().describe() in page.text("#ranking")
    assert page.js("document.scrollingElement.scrollWidth") <= (360 if phone else 1280)


def test_exact_values_are_called_exact(visit):
    explanation = explain(3, 3, control="auto", budget=5000)
    assert set(explanation.status) == {"exact"}
    page = visit(explanation)
    assert "All values are exact: there is no sampling error." in page.text("#summary")
    assert page.texts("#players .error") == ["exact"] * 3
    page.focus("#players tbody tr")
    assert "0 (exact)" in page.text("#tooltip")
    assert page.js("document.querySelectorAll('.whisker').length") == 0
    assert "no noise to control" in page.text("#control")


def test_without_control_and_one_player(visit):
    page = visit(explain(3, control="none"))
    assert "No control was used." in page.text("#control")
    assert page.js("document.querySelector('#plain-label').hidden")
    one = explain(2, 3, control="auto", groups={"all": [0, 1, 2]})
    page = visit(one)
    assert order_shown(page) == ["all"]
    assert page.js("document.querySelector('#ranking')") is None


def test_rows_that_did_not_converge_are_told(visit):
    with pytest.warns(cs.NotConvergedWarning):
        explanation = explain(2, control="none", tolerance=1e-6)
    assert "2 rows ended (budget reached) before what was asked for was reached" in visit(explanation).text(".warning")


def test_hostile_names_and_values_stay_text(visit):
    explanation = explain(5, names=HOSTILE)
    labels = np.array([[*HOSTILE]] * 5, dtype=object)
    labels[1] = [None, np.nan, True, 12345678.0, "007", -1.5]
    explanation = replace(explanation, data=labels, column_names=HOSTILE, status=np.array([HOSTILE[0]] * 5))
    page = visit(explanation, title=HOSTILE[0], width=360, height=640, phone=True)
    assert page.js("document.title") == page.text("h1") == HOSTILE[0]
    assert page.js("document.querySelectorAll('script').length") == 3
    assert page.js("document.querySelectorAll('img, b').length") == 0
    # what UTF-8 or HTML cannot hold is replaced in the page, and kept by the script
    assert set(order_shown(page)) == {name.replace("\ud800", "\ufffd") for name in HOSTILE} or set(
        order_shown(page)
    ) == set(HOSTILE)
    assert HOSTILE[1] in page.texts("#importance tbody th")
    assert page.texts("#players .shows")[0] == "= " + order_shown(page)[0]
    assert page.js("document.scrollingElement.scrollWidth") <= 360
    page.focus("#players tbody tr")
    assert page.js("document.scrollingElement.scrollWidth") <= 360
    page.js("location.hash = '#row=1'")
    page.js("new Promise(done => setTimeout(done, 50))")
    page.choose("#player-sort", "name")
    shown = dict(zip(order_shown(page), page.texts("#players .shows"), strict=True))
    assert sorted(shown.values()) == sorted(["= missing", "= missing", "= True", "= 12345678.0", "= 007", "= -1.5"])
    page.fill("#row-filter", HOSTILE[0][:12])
    assert page.text("#row-count") == "5 rows"


def test_a_frame_with_categories(visit):
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(
        {
            "age": rng.normal(40.0, 9.0, 30),
            "job": pandas.Categorical(rng.choice(["<i>admin</i>", "student", "none"], 30)),
            "smoker": rng.random(30) < 0.4,
        }
    )
    explainer = cs.Explainer(lambda f: f["age"] * 0.01 + (f["job"] == "student") * f["smoker"], frame)
    page = visit(explainer(frame.head(8), budget=400, rng=0))
    page.choose("#player-sort", "name")
    assert page.texts("#players .shows")[1] == f"= {frame['job'][0]}"
    page.fill("#row-filter", "job=student")
    assert page.text("#row-count").startswith(f"{(frame['job'].head(8) == 'student').sum()} row")


def test_what_the_data_show(visit):
    explanation = explain(3)
    data = np.empty((3, 6), dtype=object)
    data[:] = [
        [1.0, 0.1234567, "red", True, np.nan, -2],
        [np.float64(-12345678), 1e-9, "007", False, 3.5, 10**17],
        [np.inf, 2.0, None, None, None, 3],
    ]
    page = visit(replace(explanation, data=data))
    page.choose("#player-sort", "name")
    found = []
    for row in range(3):
        page.fill("#row-number", str(row))
        found.append(page.texts("#players .shows"))
    assert found == [
        ["= 1.0", "= 0.123457", "= red", "= True", "= missing", "= −2"],
        ["= -12345678.0", "= 1e−9", "= 007", "= False", "= 3.5", "= 100000000000000000"],
        ["= inf", "= 2", "= missing", "= missing", "= missing", "= 3"],
    ]
    page.fill("#row-filter", "x5=-2")
    assert page.text("#row-count") == "1 row of 3"


def test_the_file_is_alone(sampled, tmp_path):
    path = write_report(sampled, tmp_path / "deep" / "report.html")
    text = path.read_text()
    assert set(re.findall(r"https?://([^/\s\"']*)", text)) <= {"www.w3.org"}
    assert not re.search(
        r"""(?:src|href)\s*=\s*["'](?!#)|@import|url\(|fetch\(|XMLHttpRequest|innerHTML|eval\(""", text
    )
    assert "default-src 'none'" in text
    assert "unsafe-inline" not in text
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]
    assert write_report(sampled, path) == path  # a file that is there is replaced
    again = path.read_text()
    assert again == text
    block = re.search(r'<script type="application/json" id="common">(.*?)</script>', text)[1]
    assert json.loads(block)["players"] == list(sampled.feature_names)


def test_content_that_got_in_would_not_run(sampled, tmp_path, browser):
    """The negative control: with markup in the file, the policy still stops it, and the page would have complained."""
    path = write_report(sampled, tmp_path / "report.html")
    broken = path.read_text().replace("<main>", "<main><script>document.title = 'broken'</script>")
    path.write_text(broken)
    page = browser.open(path)
    assert page.js("document.title") == "Shapley values of 40 rows"
    assert any("Content Security Policy" in str(one) for one in page.complaints())
    page.close()


def test_many_rows(visit, tmp_path):
    big = tiled(explain(50, 20, budget=460), 100)
    began = time.perf_counter()
    page = visit(big, "#row=4321")
    assert (tmp_path / "report.html").stat().st_size < 8e6
    assert time.perf_counter() - began < 30.0
    assert page.load_seconds < 8.0
    assert page.text("#row-title") == "Row 4,321"
    assert page.js("document.querySelectorAll('#row-list .line').length") < 40
    assert page.js("document.querySelectorAll('*').length") < 3000
    seconds = page.js(
        "(() => {const began = performance.now(); const f = document.querySelector('#row-filter'); f.value = '=0.12';"
        "f.dispatchEvent(new Event('input')); return (performance.now() - began) / 1000;})()"
    )
    assert seconds < 3.0
    wanted = (np.char.find(np.array([[f"{v:.6g}" for v in row] for row in big.data]), "0.12") == 0).any(axis=1)
    assert page.text("#row-count") == f"{wanted.sum():,} rows of 5,000"
    page.focus("#row-list")
    page.press("End")
    assert page.text("#row-title") == f"Row {np.flatnonzero(wanted)[-1]:,}"


@pytest.mark.parametrize("dark", [False, True])
def test_phone(visit, several, dark):
    page = visit(several, width=360, height=640, phone=True, dark=dark)
    assert page.js("document.scrollingElement.scrollWidth") <= 360
    outside = page.js(
        "[...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > 361).length"
    )
    assert outside == 0
    page.focus("#players tbody tr:nth-child(2)")
    box = page.js("(() => {const b = document.querySelector('#tooltip').getBoundingClientRect();"
                  "return [b.left, b.right, b.top, b.bottom];})()")  # fmt: skip
    assert box[0] >= 0
    assert box[1] <= 360
    assert page.js("document.scrollingElement.scrollWidth") <= 360


@pytest.mark.parametrize("dark", [False, True])
def test_text_has_contrast(visit, several, dark):
    """WCAG AA: 4.5 to 1 for every piece of text."""
    page = visit(several, dark=dark)
    page.focus("#players tbody tr")
    found = page.js("""(() => {
      const light = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number).map(v => v / 255)
        .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
      const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
        if (!/, 0\\)$/.test(c)) return c; } return 'rgb(255, 255, 255)'; };
      const low = [];
      for (const e of document.querySelectorAll('body *')) {
        if (e.matches('script, :disabled') || ![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
        const svg = e instanceof SVGElement, style = getComputedStyle(e);
        const a = light(svg ? style.fill : style.color), b = light(behind(e));
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < 4.5) low.push([e.tagName, e.className, ratio]);
      }
      return low;})()""")
    assert found == []


def test_print(visit, sampled):
    page = visit(sampled, "#row=7", dark=True)
    pdf = page.pdf()
    assert pdf.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 12
    page.media("print", dark=True)
    seen = "(s => [...document.querySelectorAll(s)].filter(e => e.getClientRects().length).length)"
    assert page.js(f"{seen}('nav, input, select, button, #row-list, #tooltip')") == 0
    assert page.js(f"{seen}('#summary p, #importance tr, #players tr, #row-ranking li')") > 20
    assert page.text("#row-title") == "Row 7"
    assert page.js("getComputedStyle(document.body).color") == "rgb(28, 33, 38)"  # ink on paper, also in the dark


def test_wrong_arguments(sampled, tmp_path):
    with pytest.raises(cs.InvalidArgumentError, match="`path` must be a file"):
        write_report(sampled, tmp_path)
    with pytest.raises(cs.InvalidArgumentError, match="`level` must lie between 0 and 1"):
        write_report(sampled, tmp_path / "a.html", level=95)
    with pytest.raises(cs.InvalidArgumentError, match="`title` must be a text"):
        write_report(sampled, tmp_path / "a.html", title=3)
    assert list(tmp_path.iterdir()) == []


def test_without_jinja2_it_names_the_extra(sampled, tmp_path):
    sampled.save(tmp_path / "result")
    code = (
        "import sys; sys.modules['jinja2'] = None\n"
        "import controlshap as cs\n"
        "from controlshap.report import write_report\n"
        f"write_report(cs.load({str(tmp_path / 'result')!r}), {str(tmp_path / 'a.html')!r})"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "MissingExtraError" in run.stderr
    assert "controlshap[report]" in run.stderr
    assert not (tmp_path / "a.html").exists()


def sigmoid(rows):
    return 1.0 / (1.0 + np.exp(-model(np.asarray(rows, dtype=float))))


@pytest.mark.parametrize(
    ("settings", "link"),
    [
        ({"control": cs.LogisticRidge(), "estimator": cs.Permutation()}, None),
        ({"control": [cs.LogisticRidge(), cs.Polynomial()], "variance": cs.Bootstrap(50)}, None),
        ({"groups": {"pair": [1, 3]}}, "identity"),
        ({"groups": {"pair": [1, 3]}, "control": cs.LogisticRidge()}, "logit"),
    ],
)
def test_the_code_builds_objects_and_kernel_explainers(settings, link):
    rng = np.random.default_rng(0)
    names = {"model": sigmoid, "background": rng.normal(size=(12, 6)), "X": rng.normal(size=(2, 6))}
    if link is None:
        explanation = cs.explain(sigmoid, names["X"], names["background"], budget=400, rng=3, **settings)
    else:
        explainer = cs.KernelExplainer(sigmoid, names["background"], link=link, rng=3, **settings)
        explainer.shap_values(names["X"], nsamples=28)
        explanation = explainer.explanation
    assert explanation.standard_errors.any()
    exec(reproducing.code(explanation), names)
    np.testing.assert_array_equal(names["explanation"].values, explanation.values)
    assert reproducing.notes(explanation) == []


def test_what_the_code_cannot_write_has_a_note():
    rng = np.random.default_rng(0)
    background, rows = rng.normal(size=(12, 6)), rng.normal(size=(1, 6))
    given = cs.GaussianConditional(mean=np.zeros(6), covariance=np.eye(6))
    found = cs.explain(model, rows, background, features=given, budget=400, rng=0)
    assert "features=features" in reproducing.code(found)
    assert "`features` is the object" in reproducing.notes(found)[0]
    explainer = cs.KernelExplainer(sigmoid, background, link=np.log, keep_index=False)
    explainer.shap_values(rows)
    assert "link=link" in reproducing.code(explainer.explanation)
    assert reproducing.notes(explainer.explanation) == ["`link` is the function that was passed."]


def test_importance_has_the_intervals_of_the_bar_plot(sampled):
    few = replace(sampled, degrees_of_freedom=np.full(sampled.values.shape, 2.0))
    summary = few.summary()
    low, high = importance_interval(few, summary, 0.95)
    chart = charts.importance(few, summary, 0, 0.95)
    order = np.argsort(-summary.mean_absolute, kind="stable")
    drawn = np.array([(bar.low, bar.high) for bar in chart.bars]) / 100.0 * high.max()
    np.testing.assert_allclose(drawn, np.column_stack([low, high])[order], atol=1e-3 * high.max())
    # few degrees of freedom widen the interval, and its scale has no part in them
    assert ((high - summary.mean_absolute) > 1.97 * summary.standard_errors).all()
    tiny = replace(few, values=few.values * 1e-90, standard_errors=few.standard_errors * 1e-90)
    np.testing.assert_allclose(importance_interval(tiny, tiny.summary(), 0.95)[1], high * 1e-90)


def test_words_for_errors_of_zero(sampled):
    assert (sampled.status != "exact").all()
    none = replace(sampled, standard_errors=np.zeros_like(sampled.values), complete=np.ones(len(sampled), dtype=bool))
    assert wording.about_errors(none) == "The evaluations show no sampling error."
    early = replace(none, complete=np.zeros(len(sampled), dtype=bool))
    assert wording.about_errors(early).endswith("so far.")
    assert "exact" not in wording.about_importance(early, early.summary(), 0)
    assert "exact" not in wording.about_control(replace(early, uncontrolled_standard_errors=early.standard_errors))[0]
    n_half = len(sampled) // 2 + 1
    half = sampled.standard_errors.copy()
    half[:n_half] = 0.0
    assert f"in {n_half} of {len(sampled)} rows" in wording.about_control(replace(sampled, standard_errors=half))[0]
