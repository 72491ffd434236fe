"""Games of interventions in a Gaussian, by following the causes one component after the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from controlshap._types import FloatArray
from controlshap.testing.oracles import Columns, GameFunction, mean_of_quadratic


def moments_after(
    x: FloatArray,
    revealed: Sequence[int],
    mean: FloatArray,
    covariance: FloatArray,
    components: Sequence[Sequence[int]],
    confounded: Sequence[bool],
) -> tuple[FloatArray, FloatArray]:
    """Mean and covariance of all columns after do(x in the revealed ones)."""
    center, spread = np.array(x, dtype=float), np.zeros_like(covariance)
    earlier: list[int] = []
    for component, shares_causes in zip(components, confounded, strict=True):
        absent = [column for column in component if column not in revealed]
        given = earlier + ([] if shares_causes else [column for column in component if column in revealed])
        slopes = covariance[np.ix_(absent, given)] @ np.linalg.inv(covariance[np.ix_(given, given)])
        center[absent] = mean[absent] + slopes @ (center[given] - mean[given])
        left = covariance[np.ix_(absent, absent)] - slopes @ covariance[np.ix_(given, absent)]
        before = slopes @ spread[given]
        spread[absent] = before
        spread[:, absent] = before.T
        spread[np.ix_(absent, absent)] = left + slopes @ spread[np.ix_(given, given)] @ slopes.T
        earlier = earlier + list(component)
    return center, spread


def causal_quadratic_game(
    linear: FloatArray,
    quadratic: FloatArray,
    x: FloatArray,
    mean: FloatArray,
    covariance: FloatArray,
    components: Sequence[Sequence[int]],
    confounded: Sequence[bool],
    columns: Columns,
) -> GameFunction:
    """v(S) of `linear . r + r' quadratic r` after do(x_S); components are lists of columns."""

    def v(coalition: frozenset[int]) -> FloatArray:
        revealed = [column for player in coalition for column in columns[player]]
        center, spread = moments_after(x, revealed, mean, covariance, components, confounded)
        return mean_of_quadratic(linear, quadratic, center, spread)

    return v
