"""A real notebook: long work shows a bar by itself, and results show pictures and tables."""

import pytest

pytestmark = pytest.mark.slow

CELLS = (
    """
import time
import numpy as np
import controlshap as cs

def slow(rows):
    time.sleep(0.08)
    return np.tanh(rows.sum(axis=1) + rows[:, 0] * rows[:, 1])

background = np.random.default_rng(0).normal(size=(20, 8))
explainer = cs.Explainer(slow, background)
""",
    "explanation = explainer(background[:14], budget=300, rng=0)",
    "explainer(background[:1], budget=100, rng=0, progress=False)",
    "explanation",
    "explanation.ranking()",
    "explainer",
)


@pytest.mark.timeout(200)
def test_a_notebook_shows_bars_pictures_and_tables(tmp_path):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in CELLS])
    nbclient.NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()

    def outputs(cell, kind):
        found = notebook.cells[cell].outputs
        return [one["data"].get(kind, "") if "data" in one else one.get("text", "") for one in found]

    bar = "".join(outputs(1, "text/plain"))
    assert "14/14" in bar
    assert "evaluations/s" in bar
    assert "largest error" in bar
    (quick,) = outputs(2, "text/html")  # no bar, and the waterfall of the one row
    assert quick.startswith("<svg")
    (table,) = outputs(3, "text/html")
    assert "<table>" in table
    assert "half a 95 % interval" in table
    assert "certified" in outputs(4, "text/html")[0]
    assert "Explainer of slow" in outputs(5, "text/html")[0]
