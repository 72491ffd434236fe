"""Terms of paired walks for many explained rows: random numbers, rows, module, contributions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from controlshap._arrays import prefix_masks
from controlshap._random import Purpose
from controlshap._types import IntArray
from controlshap.engine.device.counters import (
    random_integers,
    random_orders,
    random_ranks,
    random_sizes,
    row_keys,
    standard_normals,
    unit_keys,
)
from controlshap.engine.device.evaluation import DeviceEvaluator
from controlshap.engine.device.rows import Conditioner, mixed_rows
from controlshap.engine.device.surrogate import DeviceWaves
from controlshap.engine.device.taylor import TaylorPolynomials
from controlshap.estimators.kernel import size_probabilities
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
    surrogate : DeviceWaves or None
        A function that controls all rows.
    by_coalitions : bool
        Whether units are pairs of coalitions (KernelSHAP), not of walks.
    fits : bool
        Whether functions fitted to the evaluations control each row.
    n_shared : int
        Evaluations that each row hands back, for later ones to learn from.
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
    surrogate: DeviceWaves | None = None
    by_coalitions: bool = False
    fits: bool = False
    n_shared: int = 0

    @property
    def finite(self) -> bool:
        """Whether f is known at all draws."""
        return self.draws is not None

    @property
    def in_cycles(self) -> bool:
        """Whether background rows are visited in shuffled cycles."""
        return self.finite and not self.replaced

    @property
    def n_controls(self) -> int:
        """Controls that a fitted function gives: one for a Gaussian, two where the values of all draws are known."""
        return 0 if self.surrogate is None and not self.fits else 2 if self.finite else 1

    @property
    def keeps(self) -> bool:
        """Whether what the module said is used once more."""
        return self.fits or self.n_shared > 0

    @property
    def n_terms(self) -> int:
        """Numbers of a unit, output and function: contributions and base value, or the target of a regression."""
        return 1 if self.by_coalitions else self.n_players + 1

    @property
    def unit_cost(self) -> int:
        """Evaluations of a unit."""
        if self.by_coalitions:
            return 2
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
    known : tensor of shape (r, ...) or None
        What is known of the surrogate.
    """

    x: Any
    at_x: Any
    polynomial: TaylorPolynomials | None
    keys: dict[Purpose, Any]
    orders: Any
    known: Any = None

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
        orders, known = (None if part is None else part[chosen] for part in (self.orders, self.known))
        return RowGroup(self.x[chosen], self.at_x[chosen], polynomial, keys, orders, known)

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


def walk_terms(
    common: DeviceData, group: RowGroup, units: Any, terms: Any, outputs: Any, start: int, stop: int
) -> None:
    """Evaluate some pairs of explained rows and units, numbered row by row, and put their terms into their places.

    `units` are the numbers of each row's units, `terms` has the shape (rows * units, terms, o, functions); `outputs`
    (rows * units, evaluations, o) keeps what the module said, unless it is None.
    """
    flat = torch.arange(start, stop, device=group.x.device)
    rows = flat // len(units)
    walks = Walks.of(common, group, rows, units[flat - rows * len(units)])
    n, at_x, at_draws = walks.inputs.shape[1], group.at_x[rows], walks.at_draws
    # an error names explained rows, and only then is there something to compute for it
    where, once = f"the walks of units {start} to {stop - 1}", common.surrogate is None
    values = common.evaluator(walks.inputs.flatten(0, 1), where, once=once).reshape(stop - start, n, -1)
    if outputs is not None:
        outputs[start:stop] = values
    if common.by_coalitions:
        terms[start:stop, ..., 0] = 0.5 * (values[:, :1] - values[:, 1:])
        return
    if at_draws is None:
        at_draws = values[:, -1]
        base = at_draws
    else:
        base = common.at_draws.mean(dim=0).expand_as(at_draws)
    terms[start:stop, ..., 0] = contributions(values, at_draws, at_x, base, walks.ranks)
    if group.polynomial is not None:
        of_control = group.polynomial.values(rows, walks.gaps)
        if common.finite:
            at_gap = group.polynomial.values(rows, (walks.x - walks.draws)[:, None])[:, 0]
            base = torch.zeros_like(at_gap)  # f is known at all draws: no error for a control to explain
        else:
            base = at_gap = of_control[:, -1]
        terms[start:stop, ..., 1] = contributions(of_control, at_gap, at_x, base, walks.ranks)
    if common.surrogate is not None:
        terms[start:stop, ..., 1:] = _surrogate_terms(common.surrogate, group, rows, walks)


@dataclass(frozen=True)
class Walks:
    """Some pairs of walks, or of coalitions: what is random in them, and the rows that they evaluate.

    Attributes
    ----------
    ranks : tensor of shape (u, players)
    x, draws : tensors of shape (u, c)
    at_draws : tensor of shape (u, o) or None
        f at the draws; None where they are evaluated with the rest, as the last rows.
    rows_of_units : tensor of shape (u,) or None
        Which background rows the draws are.
    masks : tensor of bool, shape (u, players - 1, c); (u, 1, c) for coalitions
    gaps : tensor of shape (u, n, c) or None
        X less what is evaluated, where it is needed.
    inputs : tensor of shape (u, n, c)
    lengths : tensor of shape (u, 1) or None
        Sizes of coalitions.
    """

    ranks: Any
    x: Any
    draws: Any
    at_draws: Any
    rows_of_units: Any
    masks: Any
    gaps: Any
    inputs: Any
    lengths: Any = None

    @property
    def regressors(self) -> Any:
        """Coalitions of a regression `(u, players)`, less a half."""
        return (self.ranks < self.lengths).to(torch.float64) - 0.5

    @classmethod
    def of(cls, common: DeviceData, group: RowGroup, rows: Any, units: Any, dtype: Any = None) -> Walks:
        """Units of these numbers of some rows of a group; inputs in the type of the module, unless another is named."""
        p = common.n_players
        keys = unit_keys(group.keys[Purpose.COALITIONS][rows], units)
        ranks = random_ranks(keys, p)
        by_column = ranks[:, common.owner]
        masks, lengths, x, gaps = prefix_masks(by_column, p), None, group.x[rows], None
        if common.by_coalitions:
            lengths = random_sizes(keys, size_probabilities(p))[:, None]
            masks = (by_column < lengths)[:, None]
        draws, at_draws, rows_of_units = _draws(common, group, rows, units)
        if common.conditioner is None:
            dtype = dtype or common.evaluator.dtype
            inputs = mixed_rows(masks, x.to(dtype), draws.to(dtype)).flatten(1, 2)
            if group.polynomial is not None:
                gap = x - draws
                gaps = mixed_rows(masks, torch.zeros_like(gap), gap).flatten(1, 2)
        else:
            gaps = common.conditioner.walk_gaps(by_column, masks, x - draws).flatten(1, 2)
            if at_draws is None:
                gaps = torch.cat([gaps, (x - draws)[:, None]], dim=1)
            inputs = common.conditioner.to_inputs(x[:, None] - gaps)
        return cls(ranks, x, draws, at_draws, rows_of_units, masks, gaps, inputs, lengths)


def _surrogate_terms(surrogate: DeviceWaves, group: RowGroup, rows: Any, walks: Walks) -> Any:
    """The controls of some units, `(u, players + 1, o, controls)`."""
    inputs = walks.inputs
    if inputs.dtype not in (surrogate.dtype, torch.float64):  # the module's own type is too narrow for a control
        inputs = mixed_rows(walks.masks, walks.x.to(surrogate.dtype), walks.draws.to(surrogate.dtype)).flatten(1, 2)
    values = surrogate.values(inputs.flatten(0, 1)).reshape(*inputs.shape[:2], -1)
    at_x = surrogate.values(group.x)[rows]
    if walks.at_draws is None:
        return contributions(values, values[:, -1], at_x, values[:, -1], walks.ranks)[..., None]
    at_draws = surrogate.values(walks.draws)
    terms = contributions(values, at_draws, at_x, torch.zeros_like(at_draws), walks.ranks)
    own = group.known[rows, walks.rows_of_units]
    both = terms.new_zeros((*terms.shape, 2))
    both[:, :-1, :, 0] = terms[:, :-1] - own
    both[:, :-1, :, 1] = own - group.known.mean(dim=1)[rows]
    return both


def _draws(common: DeviceData, group: RowGroup, rows: Any, units: Any) -> tuple[Any, Any, Any]:
    """Draws `(u, c)` of units, f there `(u, o)`, None where it is to be evaluated, and which background rows."""
    if not common.finite:
        keys = unit_keys(group.keys[Purpose.DRAWS][rows], units)
        normals = standard_normals(keys, len(common.owner))
        return common.conditioner.draws(normals), None, None  # type: ignore[union-attr]
    rows_of_units = group.rows_of_units(common, units, rows)
    return common.draws[rows_of_units], common.at_draws[rows_of_units], rows_of_units


def contributions(values: Any, at_draws: Any, at_x: Any, base: Any, ranks: Any) -> Any:
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
