"""Tables for spreadsheets hold text that stays text."""

import csv

import numpy as np
import pandas as pd

import controlshap as cs


def test_cells_of_text_are_no_formulas(tmp_path):
    names = ["=1+1", "@SUM(A1)", "-2", "plain"]
    levels = ["=HYPERLINK(1)", "fine"] * 3
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(6, 4)), columns=names).assign(plain=levels)
    explanation = cs.explain(lambda rows: rows["-2"] * 1.0, frame[:2], frame, rng=0)
    explanation.save(tmp_path / "table.csv")
    cells = list(csv.DictReader((tmp_path / "table.csv").open(newline="")))
    assert [cell["feature"] for cell in cells[:4]] == ["'=1+1", "'@SUM(A1)", "'-2", "plain"]
    assert cells[3]["feature_value"] == "'=HYPERLINK(1)"
    assert not [cell for row in cells for name, cell in row.items() if name.startswith("feature") and cell[0] in "=+@"]
    assert min(float(cell["value"]) for cell in cells) < 0, "numbers keep their signs"
