"""How a report is used: choosing, filtering and sorting rows and players by mouse and keyboard."""

import time
from dataclasses import fields, replace

import numpy as np
from report_cases import explain, order_shown, press


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
    return page.evaluate("new Promise(done => setTimeout(() => done(location.hash), 250))")


def test_choosing_rows(visit, sampled):
    page = visit(sampled)
    assert page.text_content("#row-title") == "Row 0"
    assert page.evaluate("document.querySelector('#previous').disabled")
    page.click("#next")
    assert page.text_content("#row-title") == "Row 1"
    assert link(page) == "#row=1"
    assert page.text_content("#live").startswith("Row 1: prediction")
    page.fill("#row-number", "23")
    assert page.text_content("#row-title") == "Row 23"
    page.keyboard.type("9")  # 239: there is no such row, and the field says so
    assert page.text_content("#row-title") == "Row 23"
    assert page.evaluate("document.querySelector('#row-number').getAttribute('aria-invalid')") == "true"
    page.focus("#row-list")
    assert page.evaluate("document.querySelector('#row-number').value") == "23"
    press(page, "ArrowDown", times=2)
    assert page.text_content("#row-title") == "Row 25"
    active = "document.getElementById(document.querySelector('#row-list').getAttribute('aria-activedescendant'))"
    assert page.evaluate(f"{active}.getAttribute('aria-selected')") == "true"
    assert page.evaluate(f"{active}.dataset.row") == "25"
    for key, row in (("Home", 0), ("End", 39), ("PageUp", None), ("ArrowUp", None)):
        page.keyboard.press(key)
        if row is not None:
            assert page.text_content("#row-title") == f"Row {row}"
    assert 20 < int(page.text_content("#row-title")[4:]) < 38
    page.keyboard.press("Home")
    press(page, "ArrowRight", times=3)
    page.keyboard.press("ArrowLeft")
    assert page.text_content("#row-title") == "Row 2"
    page.click("#row-list .line:nth-child(5)")
    assert page.text_content("#row-title") == "Row 4"
    page.evaluate("location.hash = '#row=11'")
    page.wait_for_function("document.querySelector('#row-title').textContent === 'Row 11'")
    page.evaluate("location.hash = '#row=4000'")
    page.evaluate("new Promise(done => setTimeout(done, 50))")
    assert page.text_content("#row-title") == "Row 11"


def test_filtering_and_sorting_rows(visit, sampled):
    status = np.where(np.arange(40) % 4 == 3, "exact", "converged")
    page = visit(replace(sampled, status=status))
    page.fill("#row-filter", "exact")
    assert page.text_content("#row-count") == "10 rows of 40"
    assert page.text_content("#row-title") == "Row 3"
    page.click("#next")
    assert page.text_content("#row-title") == "Row 7"
    value = f"x2={sampled.data[31, 2]:.3f}"[:7]
    page.fill("#row-filter", value)
    wanted = [row for row in range(40) if f"x2={sampled.data[row, 2]:.6g}".startswith(value)]
    assert page.text_content("#row-count") == f"{len(wanted)} row{'' if len(wanted) == 1 else 's'} of 40"
    assert page.text_content("#row-title") == f"Row {wanted[0]}"
    page.fill("#row-filter", "no such thing")
    assert page.text_content("#row-count") == "0 rows of 40"
    assert page.evaluate("document.querySelector('#next').disabled")
    page.evaluate("document.querySelector('#row-filter').value = ''")
    predictions = sampled.base_values + sampled.values.sum(axis=1)
    page.select_option("#row-sort", "high")
    page.focus("#row-list")
    page.keyboard.press("Home")
    assert page.text_content("#row-title") == f"Row {predictions.argmax()}"
    page.select_option("#row-sort", "error")
    page.keyboard.press("Home")
    assert page.text_content("#row-title") == f"Row {sampled.standard_errors.max(axis=1).argmax()}"


def test_sorting_and_filtering_players(visit, sampled):
    page = visit(sampled, "#row=3")
    names, values = np.array(sampled.feature_names), sampled.values[3]
    assert order_shown(page) == names[np.argsort(-np.abs(values))].tolist()
    page.select_option("#player-sort", "value")
    assert order_shown(page) == names[np.argsort(-values)].tolist()
    page.select_option("#player-sort", "name")
    assert order_shown(page) == sorted(names)
    page.select_option("#player-sort", "error")
    assert order_shown(page) == names[np.argsort(-sampled.standard_errors[3])].tolist()
    page.fill("#player-filter", "X4")
    assert order_shown(page) == ["x4"]
    page.keyboard.type("?")
    assert order_shown(page) == []
    assert not page.evaluate("document.querySelector('#nothing').hidden")
    page.click("#plain")
    assert page.evaluate("document.querySelectorAll('line.without').length") == 0


def test_tooltip_by_mouse_and_keyboard(visit, sampled):
    page = visit(sampled)
    page.hover("#players tbody tr:nth-child(2)")
    assert page.text_content("#tooltip strong") == order_shown(page)[1]
    page.keyboard.press("Escape")
    assert page.evaluate("document.querySelector('#tooltip').hidden")
    page.focus("#plain")
    page.keyboard.press("Tab")
    assert page.text_content("#tooltip strong") == order_shown(page)[0]
    press(page, "ArrowDown", times=3)
    assert page.text_content("#tooltip strong") == order_shown(page)[3]
    assert page.evaluate("document.activeElement.getAttribute('aria-describedby')") == "tooltip"
    page.evaluate("new Promise(done => setTimeout(done, 80))")  # the page may scroll to the player: the tooltip stays
    box = page.evaluate("(() => {const b = document.querySelector('#tooltip').getBoundingClientRect();"
                  "return [b.left, b.top, b.right, b.bottom];})()")  # fmt: skip
    assert box[2] - box[0] > 100
    assert min(box) >= 0
    assert box[2] <= 1280
    assert box[3] <= 900
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("ArrowRight")
    assert page.text_content("#row-title") == "Row 1"
    assert page.text_content("#tooltip strong") == order_shown(page)[0]


def test_every_control_is_reached_by_tab_and_has_a_name(visit, several):
    page = visit(several)
    reached = set()
    page.evaluate("document.body.tabIndex = -1; document.body.focus(); scrollTo(0, 0)")
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id"))
    assert {"output", "row-number", "next", "row-filter", "row-sort", "row-list", "player-sort", "player-filter",
            "plain"} <= reached  # fmt: skip
    tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    roles = {}
    for node in tree:
        if not node.get("ignored"):
            roles.setdefault(node["role"]["value"], []).append(node.get("name", {}).get("value", ""))
    for role in ("button", "textbox", "searchbox", "spinbutton", "combobox", "listbox", "checkbox", "navigation"):
        assert all(roles.get(role, [])), (role, roles.get(role))
    assert {"main", "navigation", "banner", "contentinfo"} <= set(roles)


def test_several_outputs(visit, several):
    page = visit(several, "#row=5&output=1")
    assert page.evaluate("document.querySelector('#output').value") == "1"
    assert order_shown(page) == list(several.ranking().names(5, 1))
    shown = page.evaluate("[...document.querySelectorAll('#importance .of-output')].map(e => e.offsetParent !== null)")
    assert shown == [False, True, False]
    page.select_option("#output", "2")
    assert link(page) == "#row=5&output=2"
    assert "Output 2: " in page.text_content("#row-sum")
    assert order_shown(page)[0] == "x0"  # this output is the first column
    plain = visit(several, script=False)
    shown = [e in plain.text_content("#summary") for e in ("output 0", "output 1", "output 2")]
    assert shown == [True, True, True]


def test_many_rows(visit, tmp_path):
    big = tiled(explain(50, 20, budget=460), 100)
    began = time.perf_counter()
    page = visit(big, "#row=4321")
    assert (tmp_path / "report.html").stat().st_size < 8e6
    assert time.perf_counter() - began < 30.0
    assert page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd") < 8000
    assert page.text_content("#row-title") == "Row 4,321"
    assert page.evaluate("document.querySelectorAll('#row-list .line').length") < 40
    assert page.evaluate("document.querySelectorAll('*').length") < 3000
    seconds = page.evaluate(
        "(() => {const began = performance.now(); const f = document.querySelector('#row-filter'); f.value = '=0.12';"
        "f.dispatchEvent(new Event('input')); return (performance.now() - began) / 1000;})()"
    )
    assert seconds < 3.0
    wanted = (np.char.find(np.array([[f"{v:.6g}" for v in row] for row in big.data]), "0.12") == 0).any(axis=1)
    assert page.text_content("#row-count") == f"{wanted.sum():,} rows of 5,000"
    page.focus("#row-list")
    page.keyboard.press("End")
    assert page.text_content("#row-title") == f"Row {np.flatnonzero(wanted)[-1]:,}"
