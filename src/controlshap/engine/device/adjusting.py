"""One control and the closed sum for many rows at once: `controlshap.statistics.coefficients` and `control` on tensors.

Shapes: `r` explained rows, `k` roots, `c` components (the base value last), `o` outputs. The model's part and the
control's are separate tensors, since there is one control.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from controlshap.engine.device.roots import Structure
from controlshap.statistics.coefficients import CERTAIN, CHANCE, LEAST_LEFT, ROUNDING

TINY = float(np.finfo(float).tiny)
#: Degrees of freedom that one control needs to be told from chance.
LEAST_DOF = 3.0


@dataclass(frozen=True)
class Estimates:
    """Values `(r, c, o)`, roots of their covariance `(r, k, c, o)`, degrees of freedom `(r, c, o)`."""

    values: Any
    rows: Any
    dof: Any

    @property
    def variances(self) -> Any:
        """Squared standard errors `(r, c, o)`."""
        return (self.rows**2).sum(dim=1)

    @property
    def covariances(self) -> Any:
        """Covariance of the components for each output, `(r, o, c, c)`."""
        by_output = self.rows.permute(0, 3, 1, 2)
        return by_output.transpose(-1, -2) @ by_output


@dataclass(frozen=True)
class Known:
    """Values `(r, c, o)` of the control, roots `(r, k, c, o)` of their error, and its size `(r, 1, o)`."""

    values: Any
    rows: Any
    size: Any

    @property
    def variances(self) -> Any:
        """Of the simulated values, `(r, c, o)`."""
        return (self.rows**2).sum(dim=1)


@dataclass(frozen=True)
class Fit:
    """Coefficient, and the share of the variance it removes, each `(r, c, o)`."""

    alpha: Any
    squared_correlation: Any


@dataclass(frozen=True)
class Moments:
    """Variances of model and control and their covariance, each `(r, c, o)`."""

    model: Any
    cross: Any
    control: Any

    @classmethod
    def of(cls, model: Any, control: Any, known: Known) -> Moments:
        """From roots; the error of the known values is part of the control's variance."""
        cross = (model * control).sum(dim=1)
        return cls((model**2).sum(dim=1), cross, (control**2).sum(dim=1) + known.variances)

    @property
    def inverse(self) -> Any:
        """Of the control's variance; 0 where it has none."""
        varies = self.control > 0
        return torch.where(varies, 1.0 / torch.where(varies, self.control, 1.0), 0.0)


def regress(moments: Moments, dof: Any, size: Any, rows: tuple[Any, Any] | None) -> Fit:
    """Coefficient of the control, shrunk towards 0 as far as the correlation could be chance.

    `rows` are the roots of model and control: with them the coefficient is kept only as far as it predicts roots that
    are left out.
    """
    dof = torch.where(torch.isfinite(dof), dof, 0.0)
    sd = moments.control.sqrt()
    used = sd > ROUNDING * size.clamp(min=TINY)
    inverse = torch.where(used, moments.inverse, 0.0)
    alpha = moments.cross * inverse
    varied = moments.model > 0
    share = torch.where(varied, alpha * moments.cross / torch.where(varied, moments.model, 1.0), 0.0).clamp(0.0, 1.0)
    free = (dof - used.to(dof.dtype)).clamp(min=0.5)
    explains = share > 0
    chance = torch.where(explains, (1.0 - share) / (torch.where(explains, share, 1.0) * free), math.inf)
    keep = (1.0 - CHANCE * chance).clamp(0.0, 1.0)
    many: Any = True
    if rows is not None:
        model, control = rows
        left_out = (model - alpha[:, None] * control) / _left(control, inverse)
        press = (left_out**2).sum(dim=1)
        squares = model**2
        total = squares.sum(dim=1)
        predicted = torch.where(total > 0, 1.0 - press / torch.where(total > 0, total, 1.0), 0.0)
        keep = torch.minimum(keep, predicted / share.clamp(min=1e-300))
        many = total**2 > 2.0 * (squares**2).sum(dim=1)
    is_model = (share > 1.0 - CERTAIN) & (dof > 0.0) & many
    keep = torch.where(is_model, 1.0, torch.where(dof > LEAST_DOF, keep.clamp(0.0, 1.0), 0.0))
    return Fit(alpha * keep, torch.where(varied, share * keep, 0.0))


def _left(control: Any, inverse: Any) -> Any:
    """One minus the leverage of each root."""
    return (1.0 - control**2 * inverse[:, None]).clamp(min=LEAST_LEFT)


def extrapolation(fit: Fit, error: Any, moments: Moments, dof: Any) -> Any:
    """What the variance gains because a fitted coefficient is multiplied by the control's error."""
    distance = error**2 * moments.inverse
    used = (fit.alpha != 0) & torch.isfinite(dof)
    return torch.where(used, 1.0 + torch.minimum(distance, dof**2) / torch.where(used, dof, 1.0), 1.0)


def adjust(model: Estimates, control: Any, control_rows: Any, known: Known, structure: Structure) -> tuple[Any, Fit]:
    """Subtract what the control's error explains, the coefficient from the same units; `Estimates` and `Fit`."""
    moments = Moments.of(model.rows, control_rows, known)
    fit = regress(moments, model.dof, known.size, (model.rows, control_rows))
    error = control - known.values
    rows = model.rows - fit.alpha[:, None] * control_rows
    used = fit.alpha != 0
    residual = structure.degrees_of_freedom(rows)
    free = (residual - used.to(residual.dtype)).clamp(min=1.0)
    rows = rows / _left(control_rows, torch.where(used, moments.inverse, 0.0))
    rows = rows * extrapolation(fit, error, moments, residual).sqrt()[:, None]
    with_known = torch.cat([rows, -fit.alpha[:, None] * known.rows], dim=1)
    return Estimates(model.values - fit.alpha * error, with_known, free), fit


def closing(estimates: Estimates, total: Any) -> tuple[Any, Any]:
    """Shares `(r, c, o)` of the gap between `total` (r, o) and the sum, and leverages `(r, k, o)`."""
    rows, values = estimates.rows, estimates.values
    variances = estimates.variances
    sums = rows.sum(dim=2)
    covariance = (rows * sums[:, :, None]).sum(dim=1)
    variance_of_sum = (sums**2).sum(dim=1)
    total_variance = variances.sum(dim=1)
    scale = torch.maximum(values.abs().amax(dim=1), total.abs())
    noisy = variance_of_sum.sqrt() > ROUNDING * scale.clamp(min=TINY)
    divisor = torch.where(noisy, variance_of_sum, 1.0)
    varied = (total_variance > 0)[:, None]
    # without any variance a gap is rounding: it goes to the players in equal parts
    even = torch.full_like(variances, 1.0 / max(1, variances.shape[1] - 1))
    even[:, -1] = 0.0
    by_variance = torch.where(varied, variances / torch.where(varied, total_variance[:, None], 1.0), even)
    dof = torch.where(torch.isfinite(estimates.dof), estimates.dof, 1e9).amin(dim=1)
    distance = (total - values.sum(dim=1)) ** 2 / divisor
    trust = torch.where(noisy, dof / (dof + 10.0 + distance), 0.0)
    shares = trust[:, None] * covariance / divisor[:, None] + (1.0 - trust)[:, None] * by_variance
    return shares, trust[:, None] * sums**2 / divisor[:, None]


def project(rows: Any, shares: Any) -> Any:
    """Roots of the closed values: each sums to zero."""
    return rows - shares[:, None] * rows.sum(dim=2, keepdim=True)


def close_sum(estimates: Estimates, total: Any) -> Estimates:
    """Make the components sum to `total` (r, o)."""
    shares, leverage = closing(estimates, total)
    values = estimates.values + shares * (total - estimates.values.sum(dim=1))[:, None]
    rows = project(estimates.rows, shares) / (1.0 - leverage).clamp(min=LEAST_LEFT)[:, :, None]
    return Estimates(values, rows, estimates.dof)


def mix(one: Estimates, other: Estimates, part: float) -> Estimates:
    """`1 - part` of one and `part` of the other, root by root."""
    return Estimates(
        (1.0 - part) * one.values + part * other.values, (1.0 - part) * one.rows + part * other.rows, other.dof
    )
