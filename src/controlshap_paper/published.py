"""The published results at full precision, and the rows they are about."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from controlshap import InvalidArgumentError
from controlshap_paper.cells import Cell
from controlshap_paper.data import IntArray, PaperData

#: Our names to those of the published files.
_DATA = {"simulated": "logistic"}
_MODEL = {"logistic": "glm", "network": "nn", "forest": "rf"}
_SETTING = {
    ("shapley_sampling", "independent"): "ss_indep",
    ("kernelshap", "independent"): "kshap_indep",
    ("shapley_sampling", "correlated"): "ss_dep",
    ("kernelshap", "correlated"): "kshap_dep",
}
#: Seed of rows that were not published.
ROWS_SEED = 1


@dataclass(frozen=True)
class Published:
    """Published reductions of variance and of rank changes, in percent."""

    variance: float
    rank: float


def _read(name: str) -> dict[str, Any]:
    here = Path(__file__).resolve()
    # in an installed wheel beside this file, in a checkout where the experiments are
    for folder in (here.parent / "published_results", here.parents[2] / "experiments" / "published"):
        if (folder / name).is_file():
            content: dict[str, Any] = json.loads((folder / name).read_text())
            return content
    raise InvalidArgumentError(f"The published results {name} are missing from this installation; install it again.")


def published(cell: Cell) -> Published:
    """The cell of the paper's Table 1, before rounding."""
    key = f"{_DATA.get(cell.data, cell.data)}/{_MODEL[cell.model]}/{_SETTING[cell.estimator, cell.features]}"
    reductions = _read("table1.json")[key]
    return Published(reductions["variance_reduction_pct"], reductions["rank_change_reduction_pct"])


def explained_rows(data: PaperData, model: str, n_rows: int) -> IntArray:
    """Places in the test set: the published ones, or (forests) drawn with a stated seed."""
    known = _read("explained_rows.json").get(_MODEL[model], {}).get(_DATA.get(data.name, data.name))
    if known is None or max(known) >= len(data.test):
        known = np.random.default_rng(ROWS_SEED).permutation(len(data.test))
    rows: IntArray = np.asarray(known, dtype=np.int64)[:n_rows]
    return rows
