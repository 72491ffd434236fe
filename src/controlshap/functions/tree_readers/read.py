"""From a fitted ensemble of a known library to a function with known values.

Optional packages are never imported here: a model of theirs can only exist when the package is loaded already, so its
type is looked up. Types must match exactly, since a subclass may predict anything. What a reader returns is trusted
only after it has reproduced the model's predictions at, below and above its own thresholds.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from controlshap.functions.base import warn_not_exact

if TYPE_CHECKING:
    from controlshap.functions.tree_readers.reading import Reading
    from controlshap.functions.trees import TreeFunction

#: Package, types, and the function of our module of that library that reads what is explained of them: values, or
#: probabilities.
_READERS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("sklearn.tree", ("DecisionTreeClassifier", "DecisionTreeRegressor"), "read_forest"),
    ("sklearn.tree", ("ExtraTreeClassifier", "ExtraTreeRegressor"), "read_forest"),
    ("sklearn.ensemble", ("RandomForestClassifier", "RandomForestRegressor"), "read_forest"),
    ("sklearn.ensemble", ("ExtraTreesClassifier", "ExtraTreesRegressor"), "read_forest"),
    ("sklearn.ensemble", ("GradientBoostingRegressor",), "read_gradient_boosting"),
    ("sklearn.ensemble", ("HistGradientBoostingRegressor",), "read_histogram_boosting"),
    ("lightgbm", ("LGBMRegressor", "Booster"), "read_lightgbm"),
    ("xgboost", ("XGBRegressor", "XGBRFRegressor", "Booster"), "read_xgboost"),
)
#: The same for margins before a logistic or softmax link.
_MARGIN_READERS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("sklearn.ensemble", ("GradientBoostingClassifier",), "read_gradient_boosting"),
    ("sklearn.ensemble", ("HistGradientBoostingClassifier",), "read_histogram_boosting"),
    ("lightgbm", ("LGBMClassifier", "Booster"), "read_lightgbm"),
    ("xgboost", ("XGBClassifier", "XGBRFClassifier", "Booster"), "read_xgboost"),
)

#: Rows at which a reading must agree with its model.
N_PROBES = 128


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
    found = _find_reader(model, margin=margin)
    if found is None:
        return None
    package, name = found
    home = import_module(f"controlshap.functions.tree_readers.{package}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about names of columns: the probes are bare arrays
            reading: Reading | None = getattr(home, name)(model, margin=margin)
            function = None if reading is None else reading.verify(N_PROBES)
    except Exception as error:  # noqa: BLE001 (whatever another version of a library does: the model can be sampled)
        if package == "sklearn" and not hasattr(model, "n_features_in_"):
            return None  # it was never fitted, and says so itself when it is called
        warn_not_exact(type(model).__name__, f"its trees could not be read ({type(error).__name__}: {error})")
        return None
    if reading is not None and function is None:
        warn_not_exact(type(model).__name__, "the trees that were read do not predict what it predicts")
    return function


def count_probes(model: Any) -> int:
    """Most evaluations that reading a model (or its margin) takes: none for models that are no trees."""
    known = any(_find_reader(model, margin=margin) is not None for margin in (False, True))
    return 2 * N_PROBES if known else 0


def _find_reader(model: Any, *, margin: bool) -> tuple[str, str] | None:
    """The library of a model and the name of its reader."""
    for package, names, reader in _MARGIN_READERS if margin else _READERS:
        module = sys.modules.get(package)
        if any(type(model) is getattr(module, name, None) for name in names):
            return package.partition(".")[0], reader
    return None
