"""Explanations to report, and a real Chromium that opens the report and hears every complaint."""

import numpy as np
import pytest
from chromium import Chromium

import controlshap as cs
from controlshap.report import write_report


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
        assert complaints == [], complaints
        assert set(requests) <= {page.url}, requests


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
    return page.texts("#players tbody .name")
