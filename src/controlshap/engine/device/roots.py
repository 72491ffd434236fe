"""Square roots of the covariance of many rows at once, as `controlshap.statistics.two_stage` has them for one.

Shapes: `r` explained rows, `k` roots, `c` components (players, then the base value), `o` outputs. All explained rows
share one layout of visits, so that blocks and degrees of freedom of the roots are common to them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from controlshap.engine.device.visits import Visits


def block_sums(values: Any, visits: Visits) -> Any:
    """Sums `(r, m, ...)` over the visits of each block, of `(r, n, ...)`."""
    m, rest = visits.n_blocks, values.shape[2:]
    whole = m * visits.fewest
    sums = values[:, :whole].reshape(len(values), visits.fewest, m, *rest).sum(dim=1)
    if visits.extra:
        sums[:, : visits.extra] += values[:, whole:]
    return sums


def block_means(values: Any, visits: Visits) -> Any:
    """Means over the visits of each block."""
    counts = torch.as_tensor(visits.counts, device=values.device, dtype=values.dtype)
    return block_sums(values, visits) / counts.reshape(-1, *[1] * (values.ndim - 2))


@dataclass(frozen=True)
class Structure:
    """What the roots of all rows have in common: first those between blocks, then those within."""

    visits: Visits

    @cached_property
    def n_between(self) -> int:
        """Roots between blocks."""
        return self.visits.n_blocks if self.visits.between > 0 else 0

    @cached_property
    def n_within(self) -> int:
        """Roots within blocks."""
        return self.visits.several.n_units if self.visits.share > 0 else 0

    @property
    def n_roots(self) -> int:
        """All of them."""
        return self.n_between + self.n_within

    @cached_property
    def blocks(self) -> Any:
        """Block of each root, `(k,)`."""
        within = self.visits.several.labels if self.n_within else np.zeros(0, dtype=np.int64)
        return np.concatenate([np.arange(self.n_between), within])

    @cached_property
    def dof(self) -> Any:
        """Degrees of freedom of each part, `(parts,)`."""
        between = [self.visits.n_blocks - 1.0] if self.n_between else []
        within = self.visits.several.counts - 1.0 if self.n_within else np.zeros(0)
        return np.concatenate([between, within])

    def roots(self, values: Any, means: Any) -> Any:
        """Roots `(r, k, ...)` of the covariance of the mean of block means, from `(r, n, ...)` and `(r, m, ...)`."""
        visits, parts = self.visits, []
        if self.n_between:
            parts.append(math.sqrt(visits.between) * (means - means.mean(dim=1, keepdim=True)))
        if self.n_within:
            some = visits.several
            chosen = values if visits.fewest >= 2 else values[:, visits.several_units]
            scale = np.sqrt(visits.within / (some.counts - 1))[some.labels]
            gaps = chosen - means[:, torch.as_tensor(some.labels, device=values.device)]
            parts.append(gaps * _shaped(scale, values))
        if not parts:
            return values[:, :0]
        return torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]

    def degrees_of_freedom(self, rows: Any) -> Any:
        """Satterthwaite's degrees of freedom `(r, ...)` of roots `(r, k, ...)`."""
        shape = (len(rows), *rows.shape[2:])
        if len(self.dof) == 0:
            return torch.full(shape, math.inf, dtype=rows.dtype, device=rows.device)
        if len(self.dof) == 1:
            return torch.full(shape, float(self.dof[0]), dtype=rows.dtype, device=rows.device)
        squares = rows**2
        total = squares.sum(dim=1)
        # shares of the whole: squares of variances may leave the range of doubles
        squares = squares / torch.where(total > 0, total, 1.0)[:, None]
        spread = torch.zeros(shape, dtype=rows.dtype, device=rows.device)
        if self.n_between:
            part = squares[:, : self.n_between].sum(dim=1)
            spread += part**2 / (float(self.dof[0]) + 2.0)
        if self.n_within:
            parts = block_sums(squares[:, self.n_between :], self.visits.several)
            within = self.dof[1:] if self.n_between else self.dof
            spread += (parts**2 * _shaped(1.0 / (within + 2.0), parts)).sum(dim=1)
        varied = spread > 0
        dof = torch.where(varied, 1.0 / torch.where(varied, spread, 1.0) - 2.0, math.inf)
        return dof.clamp(min=min(1.0, float(self.dof.min())))


def _shaped(vector: Any, like: Any) -> Any:
    """A numpy vector along axis 1 of a tensor."""
    tensor = torch.as_tensor(np.asarray(vector), device=like.device, dtype=like.dtype)
    return tensor.reshape(1, -1, *[1] * (like.ndim - 2))
