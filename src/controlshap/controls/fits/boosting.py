"""Fit a boosted ensemble of trees: lightgbm where it is installed, else scikit-learn's histogram boosting."""

from __future__ import annotations

import warnings
from importlib.util import find_spec

import numpy as np

from controlshap._errors import MissingExtraError
from controlshap._types import FloatArray
from controlshap.controls.fits.rows import FoldedRows
from controlshap.functions.tree_readers.lightgbm import read_text
from controlshap.functions.tree_readers.nodes import Nodes
from controlshap.functions.tree_readers.sklearn import read_histogram_boosting
from controlshap.functions.trees import TreeFunction

#: Fewest rows in a leaf.
LEAF_ROWS = 5


def boosting_available() -> bool:
    """Whether a library that fits trees is installed."""
    return find_spec("lightgbm") is not None or find_spec("sklearn") is not None


def fit_boosting(data: FoldedRows, fold: int | None, n_trees: int, n_leaves: int, learning_rate: float) -> TreeFunction:
    """Fit an ensemble to the rows outside a fold."""
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
    _, trees = read_text(text)
    if trees is None:
        raise TypeError("the trees of this version of lightgbm could not be read")
    return Nodes.concatenate(trees).to_function(rows.shape[1], np.zeros(1), float32=False, text=text)


def _sklearn(rows: FloatArray, outputs: FloatArray, n_trees: int, n_leaves: int, rate: float) -> TreeFunction:
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(
        max_iter=n_trees, max_leaf_nodes=n_leaves, learning_rate=rate, min_samples_leaf=LEAF_ROWS,
        early_stopping=False, random_state=1,
    )  # fmt: skip
    reading = read_histogram_boosting(model.fit(rows, outputs), margin=False)
    if reading is None or reading.offset is None:
        raise TypeError("the trees of this version of scikit-learn could not be read")
    return Nodes.concatenate(reading.trees).to_function(rows.shape[1], reading.offset, float32=reading.float32)
