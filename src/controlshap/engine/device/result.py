"""The result of the device: arrays for all rows, and where they were computed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.controls.base import EvaluatedRows
from controlshap.results.explanation import StrArray


@dataclass(frozen=True, eq=False, kw_only=True)
class DeviceResult:
    """Results of rows that were computed on a device.

    Attributes
    ----------
    values, variances, degrees_of_freedom : ndarray of shape (rows, players + 1, outputs)
        The base value is the last component.
    covariances : ndarray of shape (rows, outputs, players, players)
    uncontrolled_values, uncontrolled_variances, variance_reduction : ndarray of shape (rows, players, outputs)
    background_variances : ndarray of the same shape, or None
    shared_factors : ndarray of shape (rows, n_shared, players, outputs), or None
    n_evaluations, status, method, controls, alpha_fraction, complete : ndarray of shape (rows,)
        As in `RowResult`.
    stages : tuple of tuple of int
        Units of each row after each of its stages.
    device : str
        Where they were computed.
    dtype : str
        Type of the module's inputs.
    chunk_rows : int
        Rows that went through the module at once, in the end.
    evaluated : EvaluatedRows or None
        Evaluations that later rows learn from.
    """

    values: FloatArray
    variances: FloatArray
    degrees_of_freedom: FloatArray
    covariances: FloatArray
    uncontrolled_values: FloatArray
    uncontrolled_variances: FloatArray
    variance_reduction: FloatArray
    n_evaluations: IntArray
    status: StrArray
    method: StrArray
    controls: StrArray
    alpha_fraction: FloatArray
    complete: BoolArray
    stages: tuple[tuple[int, ...], ...]
    device: str
    dtype: str
    chunk_rows: int
    background_variances: FloatArray | None = None
    shared_factors: FloatArray | None = None
    evaluations: tuple[FloatArray, ...] | None = None
    evaluated: EvaluatedRows | None = None

    @classmethod
    def concatenate(cls, parts: list[DeviceResult]) -> DeviceResult:
        """Rows one after the other; where they were computed is where the last ones were."""

        def join(name: str) -> Any:
            found = [getattr(part, name) for part in parts]
            if isinstance(found[0], np.ndarray):
                return np.concatenate(found)
            return sum(found, ()) if isinstance(found[0], tuple) else found[-1]

        return cls(**{one.name: join(one.name) for one in fields(cls)})

    @property
    def where(self) -> dict[str, Any]:
        """Settings of an explanation that say where it was computed."""
        return {"device": self.device, "device_dtype": self.dtype, "device_chunk": self.chunk_rows}

    def attributes(self) -> dict[str, Any]:
        """Attributes that an `Explanation` has of the rows, as `stack_rows` gives them for others."""
        between = self.background_variances
        return {
            "values": self.values[:, :-1],
            "standard_errors": np.sqrt(self.variances[:, :-1]),
            "base_values": self.values[:, -1],
            "base_variances": self.variances[:, -1],
            "uncontrolled_values": self.uncontrolled_values,
            "uncontrolled_standard_errors": np.sqrt(self.uncontrolled_variances),
            "variance_reduction": self.variance_reduction,
            "degrees_of_freedom": self.degrees_of_freedom[:, :-1],
            "covariance": self.covariances,
            "n_evaluations": self.n_evaluations,
            "status": self.status,
            "method": self.method,
            "controls": self.controls,
            "look_shares": self.alpha_fraction,
            "complete": self.complete,
            "stages": self.stages,
            "background_standard_errors": None if between is None else np.sqrt(between),
            "shared_factors": self.shared_factors,
            "evaluations": self.evaluations,
        }
