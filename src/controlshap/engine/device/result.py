"""What comes back from the device: arrays for all rows, and an `Explanation` of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from controlshap._types import AnyArray, BoolArray, FloatArray, IntArray
from controlshap.results.collect import Names
from controlshap.results.explanation import Explanation


@dataclass(frozen=True, eq=False)
class DeviceResult:
    """Values of some rows.

    Attributes
    ----------
    values, variances, degrees_of_freedom : ndarray of shape (rows, players + 1, outputs)
        The base value is the last component.
    covariances : ndarray of shape (rows, outputs, players, players)
    uncontrolled_values, uncontrolled_variances : ndarray of shape (rows, players, outputs)
    variance_reduction, alpha : ndarray of shape (rows, players, outputs)
        Zeros without control.
    background_variances : ndarray of shape (rows, players, outputs) or None
    n_evaluations : ndarray of shape (rows,)
    stages : list of tuple of int
        Units of each row after each of its stages.
    complete : ndarray of bool, shape (rows,)
        Whether every background row had a part.
    status : ndarray of str, shape (rows,)
    control : str
        "" or "Taylor".
    device : str
        Where it was computed.
    dtype : str
        Type of the module's inputs.
    chunk_rows : int
        Rows that went through the module at once, in the end.
    estimator : str
    alpha_fraction : float
        Part of alpha that a look at the result may be wrong with.
    """

    values: FloatArray
    variances: FloatArray
    degrees_of_freedom: FloatArray
    covariances: FloatArray
    uncontrolled_values: FloatArray
    uncontrolled_variances: FloatArray
    variance_reduction: FloatArray
    alpha: FloatArray
    n_evaluations: IntArray
    stages: list[tuple[int, ...]]
    complete: BoolArray
    status: AnyArray
    control: str
    device: str
    dtype: str
    chunk_rows: int
    background_variances: FloatArray | None = None
    estimator: str = "Permutation"
    alpha_fraction: float = 1.0

    @property
    def method(self) -> str:
        """Estimator and control."""
        return self.estimator + (f" + {self.control}" if self.control else "")

    @property
    def controls(self) -> list[str]:
        """The control of each row with its mean coefficient."""
        if not self.control:
            return [""] * len(self.values)
        return [f"{self.control} {mean:.2f}" for mean in self.alpha.mean(axis=(1, 2))]


def device_explanation(
    result: DeviceResult,
    rows: Any,
    names: Names,
    base_error: FloatArray,
    *,
    entropy: int,
    settings: dict[str, Any],
) -> Explanation:
    """The same object as for rows that were explained one by one; `base_error` as for `build_explanation`."""
    single = result.values.shape[2] == 1

    def squeeze_outputs(array: FloatArray) -> FloatArray:
        return array[..., 0] if single else array

    n = len(result.values)
    between = result.background_variances
    where = {"device": result.device, "device_dtype": result.dtype, "device_chunk": result.chunk_rows}
    return Explanation(
        values=squeeze_outputs(result.values[:, :-1]),
        standard_errors=squeeze_outputs(np.sqrt(result.variances[:, :-1])),
        base_values=squeeze_outputs(result.values[:, -1]),
        base_standard_errors=squeeze_outputs(np.sqrt(result.variances[:, -1] + base_error**2)),
        uncontrolled_values=squeeze_outputs(result.uncontrolled_values),
        uncontrolled_standard_errors=squeeze_outputs(np.sqrt(result.uncontrolled_variances)),
        variance_reduction=squeeze_outputs(result.variance_reduction),
        degrees_of_freedom=squeeze_outputs(result.degrees_of_freedom[:, :-1]),
        covariance=result.covariances[:, 0] if single else result.covariances,
        n_evaluations=result.n_evaluations,
        status=result.status,
        method=np.full(n, result.method),
        controls=np.array(result.controls),
        data=rows,
        feature_names=names.players.names,
        column_names=names.columns,
        output_names=names.outputs,
        player_columns=tuple(tuple(int(c) for c in columns) for columns in names.players.columns),
        entropy=entropy,
        settings=settings | where,
        look_shares=np.full(n, result.alpha_fraction),
        complete=result.complete,
        background_standard_errors=None if between is None else squeeze_outputs(np.sqrt(between)),
        evaluations=tuple(np.zeros((0, 0)) for _ in range(n)) if (result.status == "exact").all() else None,
        stages=tuple(result.stages),
    )
