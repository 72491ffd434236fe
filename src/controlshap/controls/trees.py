"""A boosted ensemble of trees, fitted by lightgbm where it is installed, else by scikit-learn."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, final

import numpy as np

from controlshap._errors import InvalidArgumentError, MissingExtraError
from controlshap._types import FloatArray
from controlshap.controls.base import Control, FoldedRows, check_at_least
from controlshap.controls.network import RidgeNetwork
from controlshap.controls.polynomial import Polynomial
from controlshap.controls.ridge import RIDGE, LogisticRidge
from controlshap.controls.wide_network import WaveNetwork, WideNetwork
from controlshap.functions.base import KnownFunction
from controlshap.functions.tree_readers.lightgbm import read_text
from controlshap.functions.tree_readers.sklearn import read_histogram_boosting
from controlshap.functions.trees import Nodes, TreeFunction

#: Fewest rows in a leaf.
LEAF_ROWS = 5


@final
@dataclass(frozen=True)
class Trees(Control):
    """A boosted ensemble of trees (lightgbm or scikit-learn), fitted to what a smoother function leaves over.

    Parameters
    ----------
    model : fitted model, optional
        An ensemble that is fitted already (scikit-learn forest, gradient or histogram boosting, lightgbm, xgboost;
        regressions, and forests of classifiers); nothing is then fitted.
    n_trees, n_leaves, learning_rate
        The ensemble.
    start : LogisticRidge, RidgeNetwork, WideNetwork, WaveNetwork, Polynomial or None
        Fitted first; the trees take its residuals. None fits the trees to the model alone.
    n_folds : int
        As for LogisticRidge; fewer, since a fit takes a tenth of a second and more.
    max_rows : int
        Most evaluated rows that a fit uses.
    """

    model: Any = None
    n_trees: int = 100
    n_leaves: int = 63
    learning_rate: float = 0.2
    start: Control | None = RIDGE
    n_folds: int = 5
    max_rows: int = 50_000

    is_fitted = True

    def __post_init__(self) -> None:
        check_at_least(self, n_trees=1, n_leaves=2, n_folds=2, max_rows=100)
        if not 0.0 < self.learning_rate <= 1.0:
            raise InvalidArgumentError(f"`learning_rate` must lie in (0, 1]; got {self.learning_rate!r}.")
        smooth = LogisticRidge | RidgeNetwork | WideNetwork | WaveNetwork | Polynomial
        if self.start is not None and not isinstance(self.start, smooth):
            raise InvalidArgumentError(
                "`start` must be LogisticRidge(), RidgeNetwork(), WideNetwork(), WaveNetwork(), Polynomial() or None; "
                f"got {self.start!r}."
            )
        if self.model is not None and self._read() is None:
            raise InvalidArgumentError(
                f"`model` must be a fitted sum of trees (a forest, or a boosted regression); "
                f"{type(self.model).__name__} could not be read as one. Leave it out to have trees fitted."
            )

    def _read(self) -> TreeFunction | None:
        """The given ensemble as a function."""
        from controlshap.functions.tree_readers.read import read_trees

        return read_trees(self.model)

    def fit(self, data: FoldedRows, fold: int | None) -> KnownFunction:
        """Fit by boosting, unless an ensemble is given."""
        if self.model is not None:
            return data.remember(self, lambda: self._select_output(data.output))
        return super().fit(data, fold)

    def fit_targets(self, data: FoldedRows, fold: int | None) -> TreeFunction:
        """Fit by boosting."""
        return fit_boosting(data, fold, self.n_trees, self.n_leaves, self.learning_rate)

    def _select_output(self, output: int) -> KnownFunction:
        """The given ensemble's function of one output of the model."""
        trees = self._read()
        if trees is None or not output < len(trees.offset):
            raise InvalidArgumentError(
                f"`model` of Trees() has fewer outputs than the explained model, whose output {output} it lacks."
            )
        return replace(trees, values=trees.values[:, [output]], offset=trees.offset[[output]])


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
