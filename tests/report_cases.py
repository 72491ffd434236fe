"""Explanations to report, and a real Chromium that opens the report and hears every complaint."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import controlshap as cs
from controlshap.report import write_report

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")  # not longer: its event loop would be that of other tests, too
def browser():
    """The system's Chromium, or the one that playwright has installed."""
    from playwright.sync_api import Error, sync_playwright

    path = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=path)
        except Error as error:
            pytest.fail(
                "The report is tested in a real browser, and none starts here: install one of "
                f"{', '.join(CHROMIUM)}, or run `python -m playwright install chromium`. {error}"
            )
        yield browser
        browser.close()


def open_page(browser, path, fragment="", *, width=1280, height=900, phone=False, dark=False, script=True):
    """A page, and the growing lists of its complaints and of the addresses that it asks for."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, is_mobile=phone, color_scheme="dark" if dark else "light",
        reduced_motion="reduce", java_script_enabled=script,
    )  # fmt: skip
    page, complaints, requests = context.new_page(), [], []
    page.set_default_timeout(60_000)
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: requests.append(request.url.partition("#")[0]))
    page.goto(Path(path).resolve().as_uri() + fragment)
    return page, complaints, requests


@pytest.fixture
def visit(browser, tmp_path):
    """Write a report, open it, and ask afterwards whether anything was wrong or asked for."""
    opened = []

    def go(explanation, fragment="", *, title=None, level=0.95, **settings):
        path = write_report(explanation, tmp_path / "report.html", title=title, level=level)
        opened.append(open_page(browser, path, fragment, **settings))
        return opened[-1][0]

    yield go
    for page, complaints, requests in opened:
        page.context.close()
        assert complaints == []
        assert set(requests) == {(tmp_path / "report.html").resolve().as_uri()}


def press(page, key, *, times):
    for _ in range(times):
        page.keyboard.press(key)


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


def order_shown(page):
    return page.locator("#players tbody .name").all_text_contents()
