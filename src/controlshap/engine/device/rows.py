"""Rows of walks, built on the device: all prefixes of a permutation and their complements, for many units.

A reversed walk meets the complements of the prefixes, so that a mask and its negation serve both directions.

Shapes: `u` units, `k` prefixes (1 to players - 1), `c` columns; axis 1 of rows holds prefixes, then complements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from controlshap.values.gaussian import GaussianImputer
from controlshap.values.thresholds import Thresholds


def mixed_rows(masks: Any, x: Any, draws: Any) -> Any:
    """X where revealed, the draw elsewhere, and the other way round: `(u, 2, k, c)`, for x and draws `(u, c)`."""
    ours = torch.stack([x, draws], dim=1)[:, :, None]
    theirs = torch.stack([draws, x], dim=1)[:, :, None]
    return torch.where(masks[:, None], ours, theirs)


def _revealing_steps(revealed: Any) -> Any:
    """Which steps of a way `(u, 2, k, c)` reveal the columns that are revealed: the first ones."""
    steps = torch.arange(revealed.shape[-1], device=revealed.device)
    return steps < revealed.sum(dim=-1, dtype=torch.int32)[..., None]


@dataclass(frozen=True)
class Conditioner:
    """A Gaussian on the device: draws, and what is left of x - draw when columns are revealed.

    Attributes
    ----------
    mean, scale, spread : tensor of shape (c,)
    correlation, factor : tensor of shape (c, c)
    cuts : Cuts or None
        What the model sees of latent columns.
    """

    mean: Any
    scale: Any
    spread: Any
    correlation: Any
    factor: Any
    cuts: Cuts | None

    @classmethod
    def of(cls, imputer: GaussianImputer, device: Any) -> Conditioner:
        """The imputer's moments in double precision."""
        moments = imputer.moments
        mean, scale, spread, correlation = (
            torch.as_tensor(part, dtype=torch.float64, device=device)
            for part in (moments.mean, moments.scale, moments.spread, moments.correlation)
        )
        cuts = None if imputer.thresholds is None else Cuts.of(imputer.thresholds, device)
        return cls(mean, scale, spread, correlation, torch.linalg.cholesky(correlation), cuts)

    def draws(self, normals: Any) -> Any:
        """Rows `(u, c)` from standard normal numbers."""
        return self.mean + self.spread * (normals @ self.factor.T)

    def walk_gaps(self, by_column: Any, masks: Any, gaps: Any) -> Any:
        """Remaining gaps `(u, 2, k, c)`, of x - draw `(u, c)`, when each prefix, or its complement, is revealed.

        With the Cholesky factor L of the correlation in the order of a permutation, and L y = gap, the first m columns
        explain L y of the first m steps: products of small matrices, and none that waits for the host.
        """
        order, factor, place = self._factors(by_column)
        in_order = (gaps / self.scale)[:, None].expand(-1, 2, -1).gather(2, order)
        solved = torch.linalg.solve_triangular(factor, in_order[..., None], upper=False)[..., 0]
        factor = factor.gather(2, place[..., None].expand_as(factor)) * -self.scale[:, None]
        revealed = torch.stack([masks, ~masks], dim=1)
        left = torch.where(_revealing_steps(revealed), solved[:, :, None], 0.0) @ factor.transpose(-1, -2)
        left += gaps[:, None, None]
        return left.masked_fill_(revealed, 0.0)  # revealed columns are x itself

    def walk_scores(self, by_column: Any, masks: Any, weights: Any) -> tuple[Any, Any]:
        """Linear scores `weights` (h, c) given each prefix, or its complement: maps `(u, 2, k, c, h)`, and variances.

        A map takes x - mean to the difference of a score's conditional mean from its mean; variances `(u, 2, k, h)` are
        what the columns that are not revealed leave of it.
        """
        _, factor, place = self._factors(by_column)
        eye = torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
        inverse = torch.linalg.solve_triangular(factor, eye.expand_as(factor), upper=False)
        inverse = inverse.gather(3, place[:, :, None].expand_as(inverse)) / self.scale
        by_step = factor.gather(2, place[..., None].expand_as(factor)).transpose(-1, -2)
        taken = _revealing_steps(torch.stack([masks, ~masks], dim=1))
        moved = torch.where(taken[..., None], (by_step @ (weights * self.scale).T)[:, :, None], 0.0)
        spread = by_step @ (weights * self.spread).T
        return inverse.transpose(-1, -2)[:, :, None] @ moved, (~taken).to(spread.dtype) @ spread**2

    def _factors(self, by_column: Any) -> tuple[Any, Any, Any]:
        """Columns in the order of each way `(u, 2, c)`, the factor of their correlation, and their places in it."""
        c = by_column.shape[1]
        steps = torch.arange(c, device=by_column.device)
        order = (by_column * c + steps).argsort(dim=1)
        order = torch.stack([order, order.flip(1)], dim=1)
        factor, _ = torch.linalg.cholesky_ex(self.correlation[order[..., :, None], order[..., None, :]])
        return order, factor, torch.empty_like(order).scatter_(2, order, steps.expand_as(order))

    def to_inputs(self, rows: Any) -> Any:
        """Model inputs of latent rows."""
        return rows if self.cuts is None else self.cuts.apply(rows)


@dataclass(frozen=True)
class Cuts:
    """`Thresholds` on the device."""

    columns: Any
    cuts: Any
    low: Any
    high: Any
    blocks: tuple[Any, ...]

    @classmethod
    def of(cls, thresholds: Thresholds, device: Any) -> Cuts:
        """The thresholds of an imputer, on the device."""
        cuts, low, high = (
            torch.as_tensor(part, dtype=torch.float64, device=device)
            for part in (thresholds.cuts, thresholds.low, thresholds.high)
        )
        blocks = tuple(torch.as_tensor(block, device=device) for block in thresholds.blocks)
        return cls(torch.as_tensor(thresholds.columns, device=device), cuts, low, high, blocks)

    def apply(self, rows: Any) -> Any:
        """Cut binary columns; a one-hot block shows its largest level."""
        inputs = rows.clone()
        inputs[..., self.columns] = torch.where(rows[..., self.columns] > self.cuts, self.high, self.low)
        for block in self.blocks:
            largest = rows[..., block].argmax(dim=-1, keepdim=True)
            numbers = torch.arange(len(block), device=rows.device)
            inputs[..., block] = (numbers == largest).to(rows.dtype)
        return inputs
