"""KernelSHAP with the Taylor control as one writes it first from the paper: loops over coalitions and draws.

The reference of `overhead.py`. It is not slow on purpose: what belongs to a coalition (its conditional mean and
covariance, its draws) is computed once for the coalition, and all linear algebra is numpy's. But a row is built and
given to the model by itself, and nothing is shared between coalitions.

Notation of the paper: z marks the players of a coalition, v(z) is its value, A(Z) the matrix that turns values into
Shapley values, D_j the matrices of Theorem 2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Function = Callable[[np.ndarray], float]


@dataclass(frozen=True)
class Result:
    """Values with and without control, and the standard errors of the paper's least-squares formula."""

    values: np.ndarray
    uncontrolled_values: np.ndarray
    standard_errors: np.ndarray
    uncontrolled_standard_errors: np.ndarray


def sample_coalitions(n_players: int, n_coalitions: int, rng: np.random.Generator) -> np.ndarray:
    """Coalitions from the Shapley kernel, each followed by its complement."""
    sizes = np.arange(1, n_players)
    weights = 1.0 / (sizes * (n_players - sizes))
    coalitions = []
    for _ in range(n_coalitions // 2):
        size = rng.choice(sizes, p=weights / weights.sum())
        z = np.zeros(n_players, dtype=bool)
        z[rng.choice(n_players, size=size, replace=False)] = True
        coalitions.extend([z, ~z])
    return np.array(coalitions)


def draws_independent(
    x: np.ndarray, revealed: np.ndarray, background: np.ndarray, n_draws: int, rng: np.random.Generator
) -> np.ndarray:
    """Rows with x on the revealed columns and a background row elsewhere."""
    rows = background[rng.integers(len(background), size=n_draws)]
    rows[:, revealed] = x[revealed]
    return rows


def draws_correlated(
    x: np.ndarray,
    revealed: np.ndarray,
    mean: np.ndarray,
    covariance: np.ndarray,
    n_draws: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Rows from the Gaussian given the revealed columns."""
    absent = ~revealed
    within = covariance[np.ix_(revealed, revealed)]
    across = covariance[np.ix_(absent, revealed)]
    weights = np.linalg.solve(within, across.T).T
    center = mean[absent] + weights @ (x[revealed] - mean[revealed])
    spread = covariance[np.ix_(absent, absent)] - weights @ across.T
    rows = np.empty((n_draws, len(x)))
    rows[:, revealed] = x[revealed]
    rows[:, absent] = rng.multivariate_normal(center, spread, size=n_draws)
    return rows


def solve(Z: np.ndarray, values: np.ndarray, base: float, total: float) -> tuple[np.ndarray, np.ndarray]:
    """Constrained least squares (the paper's equation 5) and A(Z)."""
    n_players = Z.shape[1]
    ones = np.ones(n_players)
    inverse = np.linalg.inv(Z.T @ Z)
    projection = np.eye(n_players) - np.outer(ones, ones @ inverse) / (ones @ inverse @ ones)
    A = inverse @ projection @ Z.T
    return A @ (values - base) + inverse @ ones * (total - base) / (ones @ inverse @ ones), A


def kernel_shap(
    model: Function,
    surrogate: Function,
    x: np.ndarray,
    columns: list[np.ndarray],
    draw: Callable[[np.ndarray, np.random.Generator], np.ndarray],
    base: float,
    surrogate_base: float,
    known: np.ndarray,
    n_coalitions: int,
    rng: np.random.Generator,
) -> Result:
    """Explain one row.

    Parameters
    ----------
    model, surrogate : callable
        Functions of one row.
    columns : list of ndarray
        Columns of each player.
    draw : callable
        Rows for a mask of revealed columns.
    base, surrogate_base : float
        v(0) of the model and of the surrogate.
    known : ndarray of shape (players,)
        Shapley values of the surrogate.
    """
    coalitions = sample_coalitions(len(columns), n_coalitions, rng)
    means = np.zeros((2, n_coalitions))
    covariances = np.zeros((n_coalitions, 2, 2))
    for i, z in enumerate(coalitions):
        revealed = np.zeros(len(x), dtype=bool)
        for j in np.flatnonzero(z):
            revealed[columns[j]] = True
        rows = draw(revealed, rng)
        outputs = np.empty((2, len(rows)))
        for k, row in enumerate(rows):
            outputs[0, k] = model(row)
            outputs[1, k] = surrogate(row)
        means[:, i] = outputs.mean(axis=1)
        covariances[i] = np.cov(outputs) / len(rows)
    Z = coalitions.astype(float)
    of_model, A = solve(Z, means[0], base, model(x))
    of_surrogate, _ = solve(Z, means[1], surrogate_base, surrogate(x))
    # A(Z) Var(v) A(Z)', of which only the diagonal is needed.
    variances = np.einsum("jm,mab->jab", A**2, covariances)
    alpha = variances[:, 0, 1] / variances[:, 1, 1]
    squared_correlation = variances[:, 0, 1] ** 2 / (variances[:, 0, 0] * variances[:, 1, 1])
    uncontrolled = np.sqrt(variances[:, 0, 0])
    return Result(
        of_model - alpha * (of_surrogate - known),
        of_model,
        uncontrolled * np.sqrt(1.0 - squared_correlation),
        uncontrolled,
    )


def known_independent(
    gradient: np.ndarray, hessian: np.ndarray, x: np.ndarray, background: np.ndarray, columns: list[np.ndarray]
) -> tuple[np.ndarray, float]:
    """Theorem 1 with the columns of a player added up, and v(0) of the polynomial less its value at x."""
    gap = x - background.mean(axis=0)
    covariance = np.cov(background, rowvar=False, bias=True)
    by_column = gradient * gap - 0.5 * (hessian @ gap) * gap - 0.5 * (covariance * hessian).sum(axis=1)
    return np.array([by_column[members].sum() for members in columns]), -by_column.sum()


def d_matrices(
    covariance: np.ndarray, columns: list[np.ndarray], n_permutations: int, rng: np.random.Generator
) -> np.ndarray:
    """The matrices D_j of Theorem 2: one conditioning for every permutation and player."""
    n_columns, n_players = len(covariance), len(columns)
    total = np.zeros((n_players, n_columns, n_columns))
    for _ in range(n_permutations):
        revealed = np.zeros(n_columns, dtype=bool)
        before = np.zeros((n_columns, n_columns))
        for j in rng.permutation(n_players):
            revealed[columns[j]] = True
            after = np.zeros((n_columns, n_columns))
            within = covariance[np.ix_(revealed, revealed)]
            after[:, revealed] = np.linalg.solve(within, covariance[revealed]).T
            total[j] += after - before
            before = after
    return total / n_permutations


def known_correlated(gradient: np.ndarray, matrices: np.ndarray, x: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Theorem 2."""
    return np.array([gradient @ D @ (x - mean) for D in matrices])


def floored(covariance: np.ndarray) -> np.ndarray:
    """The covariance with eigenvalues raised to a ten-thousandth of the largest: one-hot blocks are singular."""
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * np.maximum(values, values[-1] / 10_000)) @ vectors.T
