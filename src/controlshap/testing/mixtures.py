"""Games under a mixture of Gaussians, from the textbook conditional distributions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.stats import multivariate_normal

from controlshap._types import FloatArray
from controlshap.testing.oracles import GRID, SHARES, Columns, GameFunction, conditional_map, gaussian_quadratic_game


def weights_given(
    x: FloatArray, revealed: Sequence[int], weights: FloatArray, means: FloatArray, covariances: FloatArray
) -> FloatArray:
    """Weights of the components given x in the revealed columns, by Bayes' rule."""
    chosen = sorted(revealed)
    if not chosen:
        return np.array(weights)
    joint = np.array([
        weight * multivariate_normal(mean[chosen], covariance[np.ix_(chosen, chosen)]).pdf(x[chosen])
        for weight, mean, covariance in zip(weights, means, covariances, strict=True)
    ])  # fmt: skip
    given: FloatArray = joint / joint.sum()
    return given


def mixture_quadratic_game(
    linear: FloatArray,
    quadratic: FloatArray,
    x: FloatArray,
    weights: FloatArray,
    means: FloatArray,
    covariances: FloatArray,
    columns: Columns,
) -> GameFunction:
    """v(S) of `linear . r + r' quadratic r`: the Gaussians' values, weighted."""
    games = [
        gaussian_quadratic_game(linear, quadratic, x, mean, covariance, columns)
        for mean, covariance in zip(means, covariances, strict=True)
    ]

    def v(coalition: frozenset[int]) -> FloatArray:
        revealed = [column for player in coalition for column in columns[player]]
        given = weights_given(x, revealed, weights, means, covariances)
        return np.asarray(np.sum([w * game(coalition) for w, game in zip(given, games, strict=True)], axis=0))

    return v


def mixture_score_game(
    function: Callable[[FloatArray], FloatArray],
    slope: FloatArray,
    x: FloatArray,
    weights: FloatArray,
    means: FloatArray,
    covariances: FloatArray,
    columns: Columns,
) -> GameFunction:
    """v(S) of `function(slope . r)`: for each component a sum over 20,001 points of the normal score."""

    def v(coalition: frozenset[int]) -> FloatArray:
        revealed = [column for player in coalition for column in columns[player]]
        total = 0.0
        for given, mean, covariance in zip(
            weights_given(x, revealed, weights, means, covariances), means, covariances, strict=True
        ):
            matrix = conditional_map(covariance, revealed)
            center = slope @ (mean + matrix @ (x - mean))
            spread = slope @ (covariance - matrix @ covariance) @ slope
            total = total + given * (SHARES @ function(center + np.sqrt(max(spread, 0.0)) * GRID))
        return np.atleast_1d(total)

    return v
