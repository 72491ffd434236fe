"""From a fitted ensemble of a known library to a function with known values.

Optional packages are never imported here: a model of theirs can only exist when the package is loaded already, so its
type is looked up. Types must match exactly, since a subclass may predict anything. What a reader returns is trusted
only after it has reproduced the model's predictions at, below and above its own thresholds.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from controlshap._types import FloatArray
from controlshap.functions.base import warn_not_exact
from controlshap.functions.tree_readers.lightgbm import read_lightgbm
from controlshap.functions.tree_readers.nodes import Nodes, Reading
from controlshap.functions.tree_readers.sklearn import (
    read_forest,
    read_gradient_boosting,
    read_histogram_boosting,
    read_tree,
)
from controlshap.functions.tree_readers.xgboost import read_xgboost
from controlshap.functions.trees import TreeFunction

_Reader: TypeAlias = "Callable[[Any], Reading | None]"

#: Package, types, and how what the library explains of them (values, probabilities) is read.
_READERS: tuple[tuple[str, tuple[str, ...], _Reader], ...] = (
    ("sklearn.tree", ("DecisionTreeClassifier", "DecisionTreeRegressor"), read_tree),
    ("sklearn.tree", ("ExtraTreeClassifier", "ExtraTreeRegressor"), read_tree),
    ("sklearn.ensemble", ("RandomForestClassifier", "RandomForestRegressor"), read_forest),
    ("sklearn.ensemble", ("ExtraTreesClassifier", "ExtraTreesRegressor"), read_forest),
    ("sklearn.ensemble", ("GradientBoostingRegressor",), partial(read_gradient_boosting, margin=False)),
    ("sklearn.ensemble", ("HistGradientBoostingRegressor",), partial(read_histogram_boosting, margin=False)),
    ("lightgbm", ("LGBMRegressor", "Booster"), partial(read_lightgbm, margin=False)),
    ("xgboost", ("XGBRegressor", "XGBRFRegressor", "Booster"), partial(read_xgboost, margin=False)),
)
#: The same for margins before a logistic or softmax link.
_MARGIN_READERS: tuple[tuple[str, tuple[str, ...], _Reader], ...] = (
    ("sklearn.ensemble", ("GradientBoostingClassifier",), partial(read_gradient_boosting, margin=True)),
    ("sklearn.ensemble", ("HistGradientBoostingClassifier",), partial(read_histogram_boosting, margin=True)),
    ("lightgbm", ("LGBMClassifier", "Booster"), partial(read_lightgbm, margin=True)),
    ("xgboost", ("XGBClassifier", "XGBRFClassifier", "Booster"), partial(read_xgboost, margin=True)),
)

#: Rows at which a reading must agree with its model.
_N_PROBES = 128


def read_trees(model: Any, *, margin: bool = False) -> TreeFunction | None:
    """The function that an ensemble predicts: a regression's value, a forest's probability, a boosted margin.

    Two classes give the probability of the second as one output, more classes give all.

    Parameters
    ----------
    model : fitted model
    margin : bool
        Whether to read the margin of a classifier, before its logistic or softmax link.

    Returns
    -------
    TreeFunction or None
        None for every model that is not a sum of leaves or not understood; in particular for several targets, for
        categorical splits and, without `margin`, for classifiers that put a link on the sum (boosting).
    """
    reader = _find_reader(model, margin=margin)
    if reader is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about names of columns: the probes are bare arrays
            reading = reader(model)
            function = None if reading is None else _verify(reading)
    except Exception as error:  # noqa: BLE001 (whatever another version of a library does: the model can be sampled)
        warn_not_exact(type(model).__name__, f"its trees could not be read ({type(error).__name__}: {error})")
        return None
    if reading is not None and function is None:
        warn_not_exact(type(model).__name__, "the trees that were read do not predict what it predicts")
    return function


def count_probes(model: Any) -> int:
    """Most evaluations that reading a model (or its margin) takes: none for models that are no trees."""
    known = any(_find_reader(model, margin=margin) is not None for margin in (False, True))
    return 2 * _N_PROBES if known else 0


def _find_reader(model: Any, *, margin: bool) -> _Reader | None:
    for package, names, reader in _MARGIN_READERS if margin else _READERS:
        module = sys.modules.get(package)
        if any(type(model) is getattr(module, name, None) for name in names):
            return reader
    return None


def _verify(reading: Reading) -> TreeFunction | None:
    """The function, if it predicts as the model does."""
    nodes = Nodes.concatenate(reading.trees)
    function = nodes.to_function(reading.n_columns, np.zeros(nodes.values.shape[1]), float32=reading.float32)

    def compare(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Predictions of the model `(n, outputs)`, and their differences from the sum of the leaves."""
        expected = np.asarray(reading.predict(rows), dtype=float).reshape(len(rows), -1)
        return expected, expected - function.predict(rows).reshape(expected.shape)

    rows = _probe_rows(nodes, reading)
    expected, gaps = compare(rows)
    offset = gaps.mean(axis=0) if reading.offset is None else reading.offset
    limit = reading.tolerance * (np.abs(expected).max() + np.abs(offset).max())
    if not (np.abs(gaps - offset) <= limit).all():
        return None
    rng = np.random.default_rng(1)
    try:
        _, gaps = compare(np.where(rng.random(rows.shape) < 0.3, np.nan, rows))
    except ValueError:
        pass  # a model that refuses NaN need not be reproduced there
    else:
        if not (np.abs(gaps - offset) <= limit).all():
            return None
    return replace(function, offset=offset)


def _probe_rows(nodes: Nodes, reading: Reading) -> FloatArray:
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
