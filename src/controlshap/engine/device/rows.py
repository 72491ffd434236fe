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

#: Up to this many columns a product is summed by itself; beyond, a matrix product reads the factors once.
FEW_COLUMNS = 32


def prefix_masks(by_column: Any, n_players: int) -> Any:
    """Columns `(u, k, c)` that prefixes reveal, from the place `(u, c)` of each column's player."""
    lengths = torch.arange(1, n_players, device=by_column.device)
    return by_column[:, None, :] < lengths[None, :, None]


def mixed_rows(masks: Any, x: Any, draws: Any) -> Any:
    """X where revealed, the draw elsewhere, and the other way round: `(u, 2, k, c)`, for x and draws `(u, c)`."""
    ours = torch.stack([x, draws], dim=1)[:, :, None]
    theirs = torch.stack([draws, x], dim=1)[:, :, None]
    return torch.where(masks[:, None], ours, theirs)


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

    def walk_gaps(self, by_column: Any, masks: Any, gaps: Any, *, grouped: bool) -> Any:
        """Remaining gaps `(u, 2, k, c)`, of x - draw `(u, c)`, when each prefix, or its complement, is revealed.

        The Cholesky factor of the permuted correlation is made column by column, rows in the order of the data, and
        each new column moves the gap at once: a few large operations for each column, and none that waits for the
        host.
        """
        u, c = gaps.shape
        places = by_column * c + torch.arange(c, device=gaps.device)
        places = (places[:, None, :] < places[:, :, None]).sum(dim=-1)
        columns = torch.arange(c, device=gaps.device).expand(u, c)
        order = torch.empty_like(places).scatter_(1, places, columns)
        order = torch.cat([order, order.flip(1)])
        gap = (gaps / self.scale).repeat(2, 1)
        left = torch.empty((u, 2, c - 1, c), dtype=gap.dtype, device=gap.device)
        factors = torch.empty((2 * u, c - 1, c), dtype=gap.dtype, device=gap.device)
        for k in range(c - 1):
            pivot = order[:, k, None]
            column = self.correlation[pivot[:, 0]]
            if k:
                known = factors[:, :k]
                at_pivot = known.gather(2, pivot[:, None].expand(-1, k, 1))
                if c <= FEW_COLUMNS:
                    column = column - (at_pivot * known).sum(dim=1)
                else:
                    column = column - torch.bmm(at_pivot.transpose(1, 2), known)[:, 0]
            # the part of the pivot that the columns before it do not explain
            column = column * column.gather(1, pivot).rsqrt()
            factors[:, k] = column
            gap = gap - column * (gap.gather(1, pivot) / column.gather(1, pivot))
            left[:, 0, k] = gap[:u]
            left[:, 1, c - 2 - k] = gap[u:]
        if grouped:
            ends = masks.sum(dim=-1) - 1  # the step that reveals the last column of a prefix
            left = left.gather(2, ends[:, None, :, None].expand(u, 2, -1, c))
        # revealed columns are x itself
        both = torch.stack([masks, ~masks], dim=1)
        return torch.where(both, 0.0, left * self.scale)

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
