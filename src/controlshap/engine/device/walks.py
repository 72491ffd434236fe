"""Terms of paired walks for many explained rows: random numbers, rows, module, contributions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from controlshap._random import Purpose
from controlshap._types import IntArray
from controlshap.engine.device.counters import (
    random_integers,
    random_orders,
    random_ranks,
    row_keys,
    standard_normals,
    unit_keys,
)
from controlshap.engine.device.evaluation import DeviceEvaluator
from controlshap.engine.device.rows import Conditioner, mixed_rows, prefix_masks
from controlshap.engine.device.taylor import TaylorPolynomials
from controlshap.statistics.two_stage import TwoStageDesign
from controlshap.statistics.visits import TakeAll, visit_sequence


@dataclass(frozen=True)
class DeviceData:
    """Data on the device that all explained rows share: the module, the players and the background.

    Attributes
    ----------
    evaluator : Evaluator
    owner : tensor of shape (c,)
        Player of each column.
    n_players : int
    draws, at_draws : tensors of shape (M, c) and (M, o), or None
        A finite set of draws and f there.
    conditioner : Conditioner or None
        None for independent features.
    replaced : bool
        Whether background rows are drawn with replacement.
    entropy : int
    take_all : TakeAll or None
        The first blocks of each explained row, where these are visited several times at once.
    """

    evaluator: DeviceEvaluator
    owner: Any
    n_players: int
    draws: Any
    at_draws: Any
    conditioner: Conditioner | None
    replaced: bool
    entropy: int
    take_all: TakeAll | None = None

    @property
    def finite(self) -> bool:
        """Whether f is known at all draws."""
        return self.draws is not None

    @property
    def in_cycles(self) -> bool:
        """Whether background rows are visited in shuffled cycles."""
        return self.finite and not self.replaced

    @property
    def unit_cost(self) -> int:
        """Evaluations of a unit."""
        return 2 * (self.n_players - 1) + (0 if self.finite else 1)

    def units(self, n_units: int) -> IntArray:
        """Numbers of the first units of every explained row, sorted; more units hold those of fewer.

        In cycles over M background rows, numbered in a random order for each explained row, visit v to row b is number
        v M + b. Sorted they are whole lines of one visit to each row and the beginning of another.
        """
        if not self.in_cycles:
            return np.arange(n_units)
        n_blocks, take_all = len(self.draws), self.take_all
        visits = visit_sequence(n_blocks, n_units, None) if take_all is None else take_all.sequence(n_blocks, n_units)
        counts = np.bincount(visits, minlength=n_blocks)
        visit, block = np.nonzero(np.arange(counts.max())[:, None] < counts)
        return visit * n_blocks + block

    def design(self, units: IntArray) -> TwoStageDesign:
        """The design of some units."""
        if not self.in_cycles:
            return TwoStageDesign.independent(len(units))
        taken = np.zeros(0, dtype=np.int64) if self.take_all is None else self.take_all.blocks
        return TwoStageDesign(units % len(self.draws), len(self.draws), taken=taken)


@dataclass(frozen=True)
class RowGroup:
    """Explained rows whose units are evaluated together.

    Attributes
    ----------
    x, at_x : tensors of shape (r, c) and (r, o), doubles
    polynomial : TaylorPolynomials or None
        The control.
    keys : dict
        A key for each row and purpose, `(r,)`.
    orders : tensor of shape (r, M) or None
        Background row of each block.
    """

    x: Any
    at_x: Any
    polynomial: TaylorPolynomials | None
    keys: dict[Purpose, Any]
    orders: Any

    @classmethod
    def of(
        cls, common: DeviceData, x: Any, at_x: Any, polynomial: TaylorPolynomials | None, first_row: int
    ) -> RowGroup:
        """Rows that are numbered from `first_row` on, with their random orders."""
        numbers = torch.arange(first_row, first_row + len(x), device=x.device)
        purposes = (Purpose.COALITIONS, Purpose.DRAWS, Purpose.VISITS)
        keys = {purpose: row_keys(common.entropy, purpose, numbers) for purpose in purposes}
        orders = random_orders(keys[Purpose.VISITS], len(common.draws)) if common.in_cycles else None
        return cls(x, at_x, polynomial, keys, orders)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, chosen: Any) -> RowGroup:
        polynomial = None if self.polynomial is None else self.polynomial[chosen]
        keys = {purpose: key[chosen] for purpose, key in self.keys.items()}
        return RowGroup(
            self.x[chosen], self.at_x[chosen], polynomial, keys, None if self.orders is None else self.orders[chosen]
        )

    def taking(self, taken: Any) -> RowGroup:
        """With the background rows that are `taken` (r, M) as the first blocks, equally many for each row."""
        last = (~taken).gather(1, self.orders).long()
        return replace(self, orders=self.orders.gather(1, last.argsort(dim=1, stable=True)))

    def rows_of_units(self, common: DeviceData, units: Any, rows: Any) -> Any:
        """Background rows of units (tensors of the same shape, or that broadcast); None where draws are random."""
        if not common.finite:
            return None
        if common.replaced:
            return random_integers(unit_keys(self.keys[Purpose.VISITS][rows], units), len(common.draws))
        return self.orders[rows, units % len(common.draws)]


def walk_terms(common: DeviceData, group: RowGroup, units: Any, terms: Any, start: int, stop: int) -> None:
    """Evaluate some pairs of explained rows and units, numbered row by row, and put their terms into their places.

    `units` are the numbers of each row's units, `terms` has the shape (rows * units, players + 1, o, functions).
    """
    device, p = group.x.device, common.n_players
    flat = torch.arange(start, stop, device=device)
    rows = flat // len(units)
    units = units[flat - rows * len(units)]
    ranks = random_ranks(unit_keys(group.keys[Purpose.COALITIONS][rows], units), p)
    by_column = ranks[:, common.owner]
    masks = prefix_masks(by_column, p)
    x, at_x = group.x[rows], group.at_x[rows]
    draws, at_draws = _draws(common, group, rows, units)
    gaps = None
    if common.conditioner is None:
        dtype = common.evaluator.dtype
        inputs = mixed_rows(masks, x.to(dtype), draws.to(dtype)).flatten(1, 2)
        if group.polynomial is not None:
            gap = x - draws
            gaps = mixed_rows(masks, torch.zeros_like(gap), gap).flatten(1, 2)
    else:
        gaps = common.conditioner.walk_gaps(by_column, masks, x - draws).flatten(1, 2)
        if at_draws is None:
            gaps = torch.cat([gaps, (x - draws)[:, None]], dim=1)
        inputs = common.conditioner.to_inputs(x[:, None] - gaps)
    n = inputs.shape[1]
    # an error names explained rows, and only then is there something to compute for it
    outputs = common.evaluator(inputs.flatten(0, 1), f"the walks of units {start} to {stop - 1}")
    values = outputs.reshape(stop - start, n, -1)
    if at_draws is None:
        at_draws = values[:, -1]
        base = at_draws
    else:
        base = common.at_draws.mean(dim=0).expand_as(at_draws)
    terms[start:stop, ..., 0] = _contributions(values, at_draws, at_x, base, ranks)
    if group.polynomial is not None:
        of_control = group.polynomial.values(rows, gaps)
        if common.finite:
            at_gap = group.polynomial.values(rows, (x - draws)[:, None])[:, 0]
            base = torch.zeros_like(at_gap)  # f is known at all draws: no error for a control to explain
        else:
            base = at_gap = of_control[:, -1]
        terms[start:stop, ..., 1] = _contributions(of_control, at_gap, at_x, base, ranks)


def _draws(common: DeviceData, group: RowGroup, rows: Any, units: Any) -> tuple[Any, Any]:
    """Draws `(u, c)` of units and f there `(u, o)`, None where it is to be evaluated."""
    if not common.finite:
        keys = unit_keys(group.keys[Purpose.DRAWS][rows], units)
        normals = standard_normals(keys, len(common.owner))
        return common.conditioner.draws(normals), None  # type: ignore[union-attr]
    rows_of_units = group.rows_of_units(common, units, rows)
    return common.draws[rows_of_units], common.at_draws[rows_of_units]


def _contributions(values: Any, at_draws: Any, at_x: Any, base: Any, ranks: Any) -> Any:
    """Terms `(u, players + 1, o)` from values `(u, 2 (players - 1) [+ 1], o)` of prefixes and of complements.

    The player at place t adds v(t + 1) - v(t) on the way and w(t) - w(t + 1) on the way back, w being the values of
    complements: half the difference of v - w.
    """
    p = ranks.shape[1]
    between = values[:, : p - 1] - values[:, p - 1 : 2 * (p - 1)]
    whole = (at_x - at_draws)[:, None]
    added = 0.5 * torch.diff(torch.cat([-whole, between, whole], dim=1), dim=1)
    terms = added.gather(1, ranks[:, :, None].expand(-1, -1, values.shape[2]))
    return torch.cat([terms, base[:, None]], dim=1)
