"""Gaussian mixtures fitted by expectation and maximisation, in standardised columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from controlshap._random import EXPLAINER_ENTROPY, Purpose, stream
from controlshap._types import FloatArray

#: Starts of each fit, of which the likeliest is kept; most steps of a start; gain in mean log likelihood that ends it.
STARTS, STEPS, SMALL_GAIN = 4, 300, 1e-5
#: Share of a column's variance that every component keeps: a component of equal values has no density.
VARIANCE_FLOOR = 1e-3


@dataclass(frozen=True)
class Components:
    """Weights `(k,)`, means `(k, c)` and covariances `(k, c, c)`, with the log likelihood of the rows fitted to."""

    weights: FloatArray
    means: FloatArray
    covariances: FloatArray
    log_likelihood: float

    def criterion(self, n_rows: int) -> float:
        """Bayes' information criterion: small is good."""
        k, c = self.means.shape
        n_parameters = k - 1 + k * c + k * c * (c + 1) // 2
        return float(-2.0 * self.log_likelihood + n_parameters * np.log(n_rows))


def fit_mixture(rows: FloatArray, n_components: int) -> Components:
    """The likeliest of several starts; always the same for the same rows."""
    center, spread = rows.mean(axis=0), rows.std(axis=0)
    scale = np.where(spread > 0, spread, 1.0)  # columns that never vary stay so
    standard = (rows - center) / scale
    rng = stream(EXPLAINER_ENTROPY, Purpose.MIXTURE, n_components)
    starts = STARTS if n_components > 1 else 1
    best = max((_from(standard, _seeds(standard, n_components, rng)) for _ in range(starts)), key=_likelihood)
    shift = len(rows) * np.log(scale).sum()
    covariances = best.covariances * np.outer(spread, spread)
    return Components(best.weights, center + scale * best.means, covariances, best.log_likelihood - shift)


def _likelihood(found: Components) -> float:
    return found.log_likelihood


def _seeds(rows: FloatArray, n_components: int, rng: np.random.Generator) -> FloatArray:
    """Responsibilities `(n, k)` of the nearest among rows that are far from each other (k-means++)."""
    chosen = [int(rng.integers(len(rows)))]
    squares = ((rows - rows[chosen[0]]) ** 2).sum(axis=1)
    for _ in range(n_components - 1):
        total = squares.sum()
        chance = squares / total if total > 0 else np.full(len(rows), 1.0 / len(rows))
        chosen.append(int(rng.choice(len(rows), p=chance)))
        squares = np.minimum(squares, ((rows - rows[chosen[-1]]) ** 2).sum(axis=1))
    nearest = ((rows[:, None] - rows[chosen]) ** 2).sum(axis=2).argmin(axis=1)
    return np.asarray(np.eye(n_components)[nearest])


def _from(rows: FloatArray, shares: FloatArray) -> Components:
    """Steps from responsibilities, until they gain next to nothing."""
    before, floor = -np.inf, VARIANCE_FLOOR * np.eye(rows.shape[1])
    for _ in range(STEPS):
        counts = shares.sum(axis=0) + 1e-10
        means = shares.T @ rows / counts[:, None]
        gaps = rows[:, None] - means
        covariances = np.einsum("nk,nkc,nkd->kcd", shares, gaps, gaps, optimize=True) / counts[:, None, None] + floor
        weights = counts / counts.sum()
        joint = np.log(weights) + log_densities(gaps, covariances)
        each = logsumexp(joint, axis=1)
        shares, now = np.exp(joint - each[:, None]), float(each.mean())
        if now - before < SMALL_GAIN:
            break
        before = now
    return Components(weights, means, covariances, float(each.sum()))


def log_densities(gaps: FloatArray, covariances: FloatArray) -> FloatArray:
    """Log densities `(n, k)` of gaps `(n, k, c)` from the means of k Gaussians."""
    factors = np.linalg.cholesky(covariances)
    standard = np.linalg.solve(factors, gaps.transpose(1, 2, 0))  # (k, c, n)
    logs = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
    c = gaps.shape[2]
    return np.asarray(-0.5 * (standard**2).sum(axis=1).T - logs - 0.5 * c * np.log(2.0 * np.pi))
