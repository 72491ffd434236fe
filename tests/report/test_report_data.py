"""Data in a report never becomes markup, and the file needs nothing beside it."""

import json
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas
import pytest
from report_cases import explain, open_page, order_shown

import controlshap as cs
from controlshap.report import write_report

HOSTILE = (
    "</script><script>document.title='broken'</script>",
    '"><img src=x onerror="document.title=\'broken\'">',
    "&amp; &lt; <b>bold</b> ' \" ` ${1}",
    "{{ 7 * 7 }} {% raw %}",
    "line\u2028break\u2029 \x00 \ud800",
    "a-very-long-name-without-any-place-to-break-it-" * 6,
)


def test_hostile_names_and_values_stay_text(visit):
    explanation = explain(5, names=HOSTILE)
    labels = np.array([[*HOSTILE]] * 5, dtype=object)
    labels[1] = [None, np.nan, True, 12345678.0, "007", -1.5]
    explanation = replace(explanation, data=labels, column_names=HOSTILE, status=np.array([HOSTILE[0]] * 5))
    page = visit(explanation, title=HOSTILE[0], width=360, height=640, phone=True)
    assert page.evaluate("document.title") == page.text_content("h1") == HOSTILE[0]
    assert page.evaluate("document.querySelectorAll('script').length") == 3
    assert page.evaluate("document.querySelectorAll('img, b').length") == 0
    # what UTF-8 or HTML cannot hold is replaced in the page, and kept by the script
    assert set(order_shown(page)) == {name.replace("\ud800", "\ufffd") for name in HOSTILE} or set(
        order_shown(page)
    ) == set(HOSTILE)
    assert HOSTILE[1] in page.locator("#importance tbody th").all_text_contents()
    assert page.locator("#players .shows").all_text_contents()[0] == "= " + order_shown(page)[0]
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 360
    page.focus("#players tbody tr")
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 360
    page.evaluate("location.hash = '#row=1'")
    page.evaluate("new Promise(done => setTimeout(done, 50))")
    page.select_option("#player-sort", "name")
    shown = dict(zip(order_shown(page), page.locator("#players .shows").all_text_contents(), strict=True))
    assert sorted(shown.values()) == sorted(["= missing", "= missing", "= True", "= 12345678.0", "= 007", "= -1.5"])
    page.fill("#row-filter", HOSTILE[0][:12])
    assert page.text_content("#row-count") == "5 rows"


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
    page.select_option("#player-sort", "name")
    assert page.locator("#players .shows").all_text_contents()[1] == f"= {frame['job'][0]}"
    page.fill("#row-filter", "job=student")
    assert page.text_content("#row-count").startswith(f"{(frame['job'].head(8) == 'student').sum()} row")


def test_what_the_data_show(visit):
    explanation = explain(3)
    data = np.empty((3, 6), dtype=object)
    data[:] = [
        [1.0, 0.1234567, "red", True, np.nan, -2],
        [np.float64(-12345678), 1e-9, "007", False, 3.5, 10**17],
        [np.inf, 2.0, None, None, None, 3],
    ]
    page = visit(replace(explanation, data=data))
    page.select_option("#player-sort", "name")
    found = []
    for row in range(3):
        page.fill("#row-number", str(row))
        found.append(page.locator("#players .shows").all_text_contents())
    assert found == [
        ["= 1.0", "= 0.1235", "= red", "= True", "= missing", "= −2"],
        ["= -12345678.0", "= 1e−9", "= 007", "= False", "= 3.5", "= 100000000000000000"],
        ["= inf", "= 2", "= missing", "= missing", "= missing", "= 3"],
    ]
    page.fill("#row-filter", "x5=-2")
    assert page.text_content("#row-count") == "1 row of 3"


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
    page, complaints, _ = open_page(browser, path)
    assert page.evaluate("document.title") == "Shapley values of 40 rows"
    assert any("Content Security Policy" in complaint for complaint in complaints)
    page.context.close()


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
