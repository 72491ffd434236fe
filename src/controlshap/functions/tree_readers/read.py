"""From a fitted tree ensemble of a known library to its boxes.

Optional packages are never imported here: a model of theirs can only exist when the package is loaded already, so its
type is looked up. Types must match exactly, since a subclass may predict anything. What a reader finds is believed
only after it has reproduced the model's predictions at, below and above its own thresholds.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from controlshap._types import FloatArray
from controlshap.functions.tree_readers.lightgbm import read_lightgbm
from controlshap.functions.tree_readers.nodes import Nodes, Reading
from controlshap.functions.tree_readers.sklearn import (
    read_forest,
    read_gradient_boosting,
    read_histogram_boosting,
    read_tree,
)
from controlshap.functions.tree_readers.xgboost import read_xgboost
from controlshap.functions.trees import LeafBoxes

__all__ = ["probe_count", "tree_boxes", "tree_margin_boxes"]

_Reader: TypeAlias = "Callable[[Any], Reading | None]"

#: Module and name of each type, and how what the library explains of it (values, probabilities) is read.
_READERS: Mapping[tuple[str, str], _Reader] = {
    ("sklearn.tree", "DecisionTreeClassifier"): read_tree,
    ("sklearn.tree", "DecisionTreeRegressor"): read_tree,
    ("sklearn.tree", "ExtraTreeClassifier"): read_tree,
    ("sklearn.tree", "ExtraTreeRegressor"): read_tree,
    ("sklearn.ensemble", "RandomForestClassifier"): read_forest,
    ("sklearn.ensemble", "RandomForestRegressor"): read_forest,
    ("sklearn.ensemble", "ExtraTreesClassifier"): read_forest,
    ("sklearn.ensemble", "ExtraTreesRegressor"): read_forest,
    ("sklearn.ensemble", "GradientBoostingRegressor"): partial(read_gradient_boosting, margin=False),
    ("sklearn.ensemble", "HistGradientBoostingRegressor"): partial(read_histogram_boosting, margin=False),
    ("lightgbm", "LGBMRegressor"): partial(read_lightgbm, margin=False),
    ("lightgbm", "Booster"): partial(read_lightgbm, margin=False),
    ("xgboost", "XGBRegressor"): partial(read_xgboost, margin=False),
    ("xgboost", "XGBRFRegressor"): partial(read_xgboost, margin=False),
    ("xgboost", "Booster"): partial(read_xgboost, margin=False),
}

#: The same for margins before a logistic or softmax link.
_MARGIN_READERS: Mapping[tuple[str, str], _Reader] = {
    ("sklearn.ensemble", "GradientBoostingClassifier"): partial(read_gradient_boosting, margin=True),
    ("sklearn.ensemble", "HistGradientBoostingClassifier"): partial(read_histogram_boosting, margin=True),
    ("lightgbm", "LGBMClassifier"): partial(read_lightgbm, margin=True),
    ("lightgbm", "Booster"): partial(read_lightgbm, margin=True),
    ("xgboost", "XGBClassifier"): partial(read_xgboost, margin=True),
    ("xgboost", "XGBRFClassifier"): partial(read_xgboost, margin=True),
    ("xgboost", "Booster"): partial(read_xgboost, margin=True),
}

_LOGGER = logging.getLogger(__name__)

#: Rows at which a reading must agree with its model.
_N_PROBES = 128


def tree_boxes(model: Any) -> LeafBoxes | None:
    """The boxes of what the library explains of a model: a regression's value, a forest's probability.

    Two classes give the probability of the second as one output, more classes give all.

    Returns
    -------
    LeafBoxes or None
        None for every model that is not a sum of leaves or not understood; in particular for classifiers that put a
        link on the sum (boosting), for several targets, and for categorical splits.
    """
    return _checked_boxes(model, _READERS)


def tree_margin_boxes(model: Any) -> LeafBoxes | None:
    """The boxes of a boosted classifier's margin, before its logistic or softmax link; None as in `tree_boxes`."""
    return _checked_boxes(model, _MARGIN_READERS)


def probe_count(model: Any) -> int:
    """Most evaluations that reading a model (or its margin) takes: none for models that are no trees."""
    known = _reader(model, _READERS) is not None or _reader(model, _MARGIN_READERS) is not None
    return 2 * _N_PROBES if known else 0


def _reader(model: Any, readers: Mapping[tuple[str, str], _Reader]) -> _Reader | None:
    same = (r for (package, name), r in readers.items() if type(model) is getattr(sys.modules.get(package), name, None))
    return next(same, None)


def _checked_boxes(model: Any, readers: Mapping[tuple[str, str], _Reader]) -> LeafBoxes | None:
    reader = _reader(model, readers)
    if reader is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about names of columns: the probes are bare arrays
            reading = reader(model)
            return None if reading is None else _verify(reading)
    except Exception:
        _LOGGER.info("%s could not be read as trees and is sampled", type(model).__name__, exc_info=True)
        return None


def _verify(reading: Reading) -> LeafBoxes | None:
    """The boxes, if they predict as the model does."""
    nodes = Nodes.concatenate(reading.trees)
    boxes = nodes.boxes(reading.n_columns, np.zeros(nodes.values.shape[1]), float32=reading.float32)
    rows = _probes(nodes, reading)
    expected = _predict(reading, rows)
    gaps = expected - boxes.predict(rows)
    offset = gaps.mean(axis=0) if reading.offset is None else reading.offset
    scale = np.abs(expected).max() + np.abs(offset).max()
    if not (np.abs(gaps - offset) <= reading.tolerance * scale).all():
        return None
    rng = np.random.default_rng(1)
    rows = np.where(rng.random(rows.shape) < 0.3, np.nan, rows)
    try:
        expected = _predict(reading, rows)
    except ValueError:
        pass  # a model that refuses NaN need not be reproduced there
    else:
        if not (np.abs(expected - boxes.predict(rows) - offset) <= reading.tolerance * scale).all():
            return None
    return replace(boxes, offset=offset)


def _predict(reading: Reading, rows: FloatArray) -> FloatArray:
    return np.asarray(reading.predict(rows), dtype=float).reshape(len(rows), -1)


def _probes(nodes: Nodes, reading: Reading) -> FloatArray:
    """Rows of values at thresholds, next to them, between and beyond them, in random combinations."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(_N_PROBES, reading.n_columns))
    inner = nodes.left >= 0
    for column in range(reading.n_columns):
        cuts = np.unique(nodes.thresholds[inner & (nodes.columns == column)])
        cuts = cuts[np.abs(cuts) < np.finfo(np.float32).max / 2]  # some libraries write infinity so
        if not len(cuts):
            continue
        single = cuts.astype(np.float32)
        candidates = (
            cuts,
            np.nextafter(cuts, np.inf),
            single.astype(float),
            np.nextafter(single, np.float32(np.inf)).astype(float),
            (cuts[1:] + cuts[:-1]) / 2,
            np.array([cuts[0] - 1 - abs(cuts[0]), 0.0, cuts[-1] + 1 + abs(cuts[-1])]),
        )
        every = np.concatenate(candidates)
        # lightgbm cuts at +-1e-35 around 0, and what it does on the cut itself no data will ever show
        rows[:, column] = rng.choice(every[(every == 0) | (np.abs(every) > 1e-30)], size=_N_PROBES)
    return rows
