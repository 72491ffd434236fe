"""Mean and covariance of the background, conditioned with a stated limit.

A singular covariance (a full one-hot block, a duplicated column) makes conditioning undefined, and a
tiny eigenvalue lets an x that the covariance calls impossible blow up rows: the coefficients of a
conditional mean grow like 1/(2 sqrt(eigenvalue)). So the correlation matrix is mixed with the
identity, as little as brings its smallest eigenvalue to the limit.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from controlshap._errors import InvalidArgumentError, SingularCovarianceWarning
from controlshap._types import FloatArray

#: Loadings on an offending eigenvector above which a column is named in the warning.
NAMED_LOADING = 0.1


@dataclass(frozen=True)
class Moments:
    """Mean, scales and correlation; `spread` is 0 for constant columns, whose scale is 1.

    Attributes
    ----------
    mean, scale, spread : ndarray of shape (columns,)
    correlation : ndarray of shape (columns, columns)
        Positive definite.
    mixed : float
        Weight of the identity that conditioning added (0 when none was needed).
    """

    mean: FloatArray
    scale: FloatArray
    spread: FloatArray
    correlation: FloatArray
    mixed: float

    @property
    def covariance(self) -> FloatArray:
        """Covariance of the draws, shape (columns, columns)."""
        return self.correlation * np.outer(self.spread, self.spread)


def condition(
    mean: FloatArray, covariance: FloatArray, min_eigenvalue: float, feature_names: tuple[str, ...]
) -> Moments:
    """Standardise a covariance and bring its smallest eigenvalue to `min_eigenvalue`."""
    variance = np.diag(covariance).copy()
    if (variance < 0).any():
        raise InvalidArgumentError(
            f"`covariance` has a negative variance ({variance.min():.3g}, column "
            f"{feature_names[int(variance.argmin())]!r}). Give a covariance matrix."
        )
    constant = variance <= 1e-20 * max(1.0, float(variance.max(initial=0.0)))
    spread = np.where(constant, 0.0, np.sqrt(variance))
    scale = np.where(constant, 1.0, spread)
    correlation = covariance / np.outer(scale, scale)
    correlation[constant, :] = 0.0
    correlation[:, constant] = 0.0
    np.fill_diagonal(correlation, 1.0)
    correlation = 0.5 * (correlation + correlation.T)
    values, vectors = np.linalg.eigh(correlation)
    smallest = float(values[0])
    mixed = 0.0
    if smallest < min_eigenvalue:
        mixed = (min_eigenvalue - smallest) / (1.0 - smallest)
        loadings = np.abs(vectors[:, values < min_eigenvalue]).max(axis=1)
        named = [name for name, load in zip(feature_names, loadings, strict=True) if load > NAMED_LOADING]
        listed = ", ".join(repr(n) for n in named[:10]) + (f" and {len(named) - 10} more" if len(named) > 10 else "")
        warnings.warn(
            f"The covariance of the features is singular or nearly so (smallest eigenvalue of the correlation "
            f"{smallest:.2g}, limit {min_eigenvalue:.2g}), because of the columns {listed}. It was mixed with "
            f"{mixed:.2g} times the identity. Drop duplicated columns or one level of a one-hot block, or set "
            "GaussianConditional(min_eigenvalue=...).",
            SingularCovarianceWarning,
            stacklevel=2,
        )
        correlation = (1.0 - mixed) * correlation
        np.fill_diagonal(correlation, 1.0)
    return Moments(mean, scale, spread, correlation, mixed)
