"""Fit a boosted ensemble of trees: lightgbm where it is installed, else scikit-learn's histogram boosting."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from typing import Any

import numpy as np

from controlshap._errors import MissingExtraError
from controlshap._types import FloatArray
from controlshap.controls.fits.rows import FoldedRows
from controlshap.functions.tree_function import TreeFunction
from controlshap.functions.tree_readers.nodes import Nodes
from controlshap.functions.tree_readers.sklearn import read_histogram_boosting

#: Fewest rows in a leaf.
LEAF_ROWS = 5


def boosting_available() -> bool:
    """Whether a library that fits trees is installed."""
    return find_spec("lightgbm") is not None or find_spec("sklearn") is not None


def fit_boosting(data: FoldedRows, fold: int | None, n_trees: int, n_leaves: int, learning_rate: float) -> TreeFunction:
    """An ensemble fitted to the rows outside a fold."""
    keep = data.others(fold)
    rows, outputs = data.rows[keep], data.outputs[keep]
    if find_spec("lightgbm") is not None:
        return _lightgbm(rows, outputs, n_trees, n_leaves, learning_rate)
    if find_spec("sklearn") is not None:
        return _sklearn(rows, outputs, n_trees, n_leaves, learning_rate)
    raise MissingExtraError(
        "Trees() fits a boosted ensemble and needs lightgbm or scikit-learn: pip install 'controlshap[lightgbm]'. "
        "Or use control='ridge'."
    )


def _lightgbm(rows: FloatArray, outputs: FloatArray, n_trees: int, n_leaves: int, rate: float) -> TreeFunction:
    import lightgbm

    settings = {
        "objective": "regression", "num_leaves": n_leaves, "learning_rate": rate, "min_data_in_leaf": LEAF_ROWS,
        "num_threads": 1, "verbosity": -1, "deterministic": True, "force_row_wise": True, "seed": 1,
        "feature_pre_filter": False,
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        booster = lightgbm.train(settings, lightgbm.Dataset(rows, outputs), n_trees)
    text = booster.model_to_string()
    nodes = Nodes.concatenate([_read_tree(part) for part in text.split("\nTree=")[1:]])
    return TreeFunction(nodes.boxes(rows.shape[1], np.zeros(1), float32=False), text)


def _read_tree(text: str) -> Nodes:
    """One tree of lightgbm's model text; children below 0 are leaves."""
    fields = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)

    def numbers(name: str, kind: Any) -> Any:
        return np.array(fields[name].split(), dtype=kind)

    leaves = numbers("leaf_value", float)
    n_inner = len(leaves) - 1
    blank = np.full(len(leaves), -1)
    if n_inner == 0:
        nothing = np.zeros(1)
        return Nodes(blank, blank, blank, nothing, nothing > 0, leaves[:, None], np.zeros(1, dtype=np.int64))
    children = [numbers(name, np.int64) for name in ("left_child", "right_child")]
    left, right = (np.append(np.where(c >= 0, c, n_inner + ~c), blank) for c in children)
    thresholds = np.append(numbers("threshold", float), np.zeros(len(leaves)))
    # Training rows hold no NaN; where one was never seen it is read as 0.
    return Nodes(
        left,
        right,
        np.append(numbers("split_feature", np.int64), blank),
        thresholds,
        thresholds >= 0,
        np.append(np.zeros(n_inner), leaves)[:, None],
        np.zeros(1, dtype=np.int64),
    )


def _sklearn(rows: FloatArray, outputs: FloatArray, n_trees: int, n_leaves: int, rate: float) -> TreeFunction:
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(
        max_iter=n_trees, max_leaf_nodes=n_leaves, learning_rate=rate, min_samples_leaf=LEAF_ROWS,
        early_stopping=False, random_state=1,
    )  # fmt: skip
    reading = read_histogram_boosting(model.fit(rows, outputs), margin=False)
    if reading is None or reading.offset is None:
        raise TypeError("the trees of this version of scikit-learn could not be read")
    nodes = Nodes.concatenate(reading.trees)
    return TreeFunction(nodes.boxes(rows.shape[1], reading.offset, float32=reading.float32), None)
