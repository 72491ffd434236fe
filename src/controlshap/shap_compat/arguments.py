"""Arguments that only shap's KernelExplainer has: backgrounds with weights (shap.kmeans), links, feature selection."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from controlshap._checks import is_real
from controlshap._errors import ControlShapWarning, InvalidArgumentError
from controlshap._imports import require
from controlshap._types import AnyArray, FloatArray
from controlshap.data.frames import native_frame
from controlshap.data.table import is_frame, read_array
from controlshap.shap_compat.log_odds import LogOdds

Link: TypeAlias = Callable[[FloatArray], FloatArray]

#: Sparse data may have this many columns: the covariance of a row's values takes 8 times the square of it, 800 MB.
MOST_SPARSE_COLUMNS = 10_000
#: Arguments of `shap_values` that scripts give to the constructor, where shap ignores them in silence.
OF_SHAP_VALUES = ("nsamples", "l1_reg", "silent", "gc_collect")


@dataclass(frozen=True, eq=False)
class WeightedBackground:
    """Rows with weights; attributes have the names of shap's own object.

    Attributes
    ----------
    data : ndarray of shape (n, columns)
    weights : ndarray of shape (n,)
        They sum to 1.
    column_names : tuple of str or None
        None if the data had no names.
    groups : dict or None
        Columns that are one player, if shap's object has groups.
    frame : frame or None
        The same rows as a frame, if the columns have names.
    sparse : bool
        Whether the rows came as a sparse matrix; functions then get sparse matrices, as in shap.
    """

    data: AnyArray
    weights: FloatArray
    column_names: tuple[str, ...] | None
    groups: dict[str, list[int]] | None
    frame: Any
    sparse: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, numbered if they have none."""
        return self.column_names or tuple(f"x{i}" for i in range(self.data.shape[1]))

    @property
    def is_weighted(self) -> bool:
        """Whether the weights differ."""
        return not np.allclose(self.weights, self.weights[0], rtol=1e-12, atol=0.0)


def read_background(data: Any, feature_names: Sequence[str] | None) -> WeightedBackground:
    """Read rows, weights and names of the argument `data`."""
    if isinstance(feature_names, str) or callable(feature_names):  # once, `link` came third
        got = f"the text {feature_names!r}" if isinstance(feature_names, str) else f"the function {feature_names!r}"
        link = f"; did you mean link={feature_names!r}?" if feature_names in ("identity", "logit") else "."
        raise InvalidArgumentError(f"`feature_names` must be a list of names; got {got}{link} Pass a link as link=.")
    if is_sparse(data):
        return replace(read_background(to_dense(data, "data"), feature_names), sparse=True)
    if _is_dense_data(data):
        return _from_dense_data(data, feature_names)
    if is_frame(data):
        data = native_frame(data, "data")
        names = tuple(str(name) for name in data.columns)
        if feature_names is not None and tuple(str(name) for name in feature_names) != names:
            raise InvalidArgumentError(
                f"`feature_names` must be those of the frame `data`, {list(names)[:8]}; got {list(feature_names)[:8]}. "
                "Leave it out, or rename the columns of the frame."
            )
        return WeightedBackground(data.to_numpy(), _equal_weights(len(data)), names, None, data)
    if hasattr(data, "to_frame") and hasattr(data, "index"):  # one row of a frame
        return read_background(data.to_frame().T.infer_objects(), feature_names)
    rows = read_array(data, "data")
    if rows.ndim != 2 or len(rows) == 0:
        raise InvalidArgumentError(
            f"`data` must be two-dimensional, (rows, columns), with at least one row; got the shape {rows.shape}. "
            "Reshape one row with row[None]."
        )
    return _add_frame(rows, _equal_weights(len(rows)), _check_names(feature_names, rows.shape[1]), None)


def read_rows(X: Any, background: WeightedBackground) -> tuple[AnyArray, list[Any]]:
    """Return rows to explain as an array, in the order of the background's columns, and their index."""
    if hasattr(X, "to_frame") and hasattr(X, "index") and background.column_names is not None:
        X = X.to_frame().T.infer_objects()
    names, n_columns = background.column_names, background.data.shape[1]
    labels = list(X.index) if hasattr(X, "iloc") and hasattr(X, "columns") else []
    if hasattr(X, "columns") and names is not None:
        given = [str(name) for name in X.columns]
        if sorted(given) != sorted(names):
            odd = sorted(set(given) ^ set(names))
            raise InvalidArgumentError(f"`X` and `data` must have the same columns; these differ: {odd[:8]}.")
        X = X[[X.columns[given.index(name)] for name in names]]
    rows = X.to_numpy() if hasattr(X, "columns") else read_array(X, "X")
    rows = rows[None] if rows.ndim == 1 else rows
    if rows.ndim != 2 or rows.shape[1] != n_columns or len(rows) == 0:
        raise InvalidArgumentError(f"`X` must have the {n_columns} columns of `data`; got the shape {rows.shape}.")
    return rows, labels or list(range(len(rows)))


def is_sparse(data: Any) -> bool:
    """Whether this is a sparse matrix of scipy, or shap's object that holds one."""
    return type(data).__module__.startswith("scipy.sparse") or type(data).__name__ == "SparseData"


def to_dense(data: Any, argument: str) -> AnyArray:
    """Return a sparse matrix as an array, with a note on what it takes."""
    matrix = data.data if type(data).__name__ == "SparseData" else data
    n_rows, n_columns = matrix.shape
    if n_columns > MOST_SPARSE_COLUMNS:
        raise InvalidArgumentError(
            f"`{argument}` is sparse with {n_columns:,} columns; each would be a player, and at most "
            f"{MOST_SPARSE_COLUMNS:,} are possible. Keep the columns that matter, or explain a function of fewer."
        )
    warnings.warn(
        f"`{argument}` is sparse; it was converted to an array ({n_rows:,} x {n_columns:,}, "
        f"{8e-6 * n_rows * n_columns:.3g} MB), because rows are mixed column by column.",
        ControlShapWarning,
        stacklevel=4,
    )
    dense: AnyArray = matrix.toarray()
    return dense


def _is_dense_data(data: Any) -> bool:
    # "data" last: an array of dates has none
    return all(hasattr(data, name) for name in ("weights", "groups", "group_names", "transposed", "data"))


def _from_dense_data(data: Any, feature_names: Sequence[str] | None) -> WeightedBackground:
    if data.transposed:
        raise InvalidArgumentError("`data` is transposed; it needs one row for each observation.")
    rows, weights = read_array(data.data, "data"), np.asarray(data.weights, dtype=float)
    names = tuple(str(name) for name in data.group_names)
    groups = [[int(column) for column in group] for group in data.groups]
    if any(len(group) != 1 for group in groups):
        shared = {name: group for name, group in zip(names, groups, strict=True) if len(group) > 1}
        return _add_frame(rows, weights, _check_names(feature_names, rows.shape[1]), shared)
    if feature_names is not None:
        return _add_frame(rows, weights, _check_names(feature_names, rows.shape[1]), None)
    # shap numbers the columns of an array; these are not names
    numbered = names == tuple(str(i) for i in range(len(names)))
    return _add_frame(rows, weights, None if numbered else names, None)


def _check_names(feature_names: Sequence[str] | None, n_columns: int) -> tuple[str, ...] | None:
    if feature_names is None:
        return None
    if len(feature_names) != n_columns:
        raise InvalidArgumentError(
            f"`feature_names` must have one name for each of the {n_columns} columns; got {len(feature_names)}."
        )
    return tuple(str(name) for name in feature_names)


def _add_frame(
    rows: AnyArray, weights: FloatArray, names: tuple[str, ...] | None, groups: dict[str, list[int]] | None
) -> WeightedBackground:
    frame = None
    if names is not None:
        pandas = require("pandas", extra="frames", feature="`feature_names`", otherwise="or leave it out")
        frame = pandas.DataFrame(rows, columns=list(names))
    return WeightedBackground(rows, weights / weights.sum(), names, groups, frame)


def _equal_weights(n_rows: int) -> FloatArray:
    return np.full(n_rows, 1.0 / max(n_rows, 1))


def resolve_link(link: Any) -> Link:
    """Return a link as a function of arrays."""
    name = link if isinstance(link, str) else getattr(link, "__name__", str(link))
    if name == "identity":
        return identity
    if name == "logit":
        return logit
    function = getattr(link, "f", link)
    if not callable(function):
        raise InvalidArgumentError(f"`link` must be 'identity', 'logit', a link of shap or a function; got {link!r}.")
    elementwise: Link = np.vectorize(function, otypes=[float])
    return elementwise


def identity(outputs: FloatArray) -> FloatArray:
    """Return the outputs unchanged."""
    return outputs


def logit(probabilities: FloatArray) -> FloatArray:
    """Return log-odds `(n, outputs)`, finite at 0 and 1; explanations know more of the model (`linked_game.py`)."""
    odds = LogOdds(None, probabilities.shape[1])
    return odds.link(odds.expand(probabilities))


def resolve_seed(**names: Any) -> Any:
    """Return the seed that was given under one of its names, 0 if there is none."""
    given = {name: value for name, value in names.items() if value is not None}
    if len(given) > 1:
        raise InvalidArgumentError(f"`{'` and `'.join(given)}` are names for the same thing. Give one of them.")
    seed = next(iter(given.values()), 0)
    if isinstance(seed, np.random.RandomState):
        return int(seed.randint(2**31 - 1))
    return seed


def warn_misplaced(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings without those of `shap_values`, which have no effect in the constructor."""
    misplaced = [name for name in OF_SHAP_VALUES if name in settings]
    if misplaced:
        warnings.warn(
            f"`{'`, `'.join(misplaced)}` has no effect in the constructor, here as in shap. Pass it to `shap_values`.",
            ControlShapWarning,
            stacklevel=3,
        )
    return {name: value for name, value in settings.items() if name not in misplaced}


def check_l1_reg(l1_reg: Any) -> None:
    """Warn if a value asks shap to select features; raise if shap does not know it."""
    if l1_reg is None or (isinstance(l1_reg, str) and l1_reg == "auto"):
        return
    number = (isinstance(l1_reg, bool) or is_real(l1_reg)) and 0 <= l1_reg < np.inf
    if number and l1_reg == 0:
        return
    if not number and not (isinstance(l1_reg, str) and re.fullmatch(r"aic|bic|num_features\(\d+\)", l1_reg)):
        raise InvalidArgumentError(
            f"`l1_reg` must be one of shap's values (False, 0, 'auto', 'aic', 'bic', 'num_features(10)', a positive "
            f"number); got {l1_reg!r}. Leave it out: nothing is selected here."
        )
    warnings.warn(
        f"`l1_reg={l1_reg!r}` has no effect: no features are selected, all values are estimated and none is set to 0. "
        "Leave it out, or pass l1_reg=False. `explanation.ranking()` says which values are certain to be the largest.",
        ControlShapWarning,
        stacklevel=3,
    )
