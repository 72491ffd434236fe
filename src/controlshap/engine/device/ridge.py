"""The logistic ridge for many rows at once: fitted fold by fold to the evaluations of each row, with its known values.

The functions, the folds and the controls are those of `controls/ridge.py` and `crossfitting/`, and so are the numbers:
`low + width sigmoid(c + beta . r)`, one for each explained row, fold and output, here called a function. Only the order
of the work differs: a step of all fits is one product of matrices, and one quadrature has the values of all draws.

Shapes: `r` explained rows, `k` folds, `o` outputs, `g` functions of a row (folds times outputs), `n` units, `m`
evaluations of a unit, `c` columns, `M` background rows, `p` players.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from controlshap._arrays import to_like
from controlshap._random import Purpose, stream
from controlshap._types import BoolArray, IntArray
from controlshap.controls.ridge import (
    ENOUGH,
    FEWEST_ROWS,
    FIRST_ROWS,
    FIRST_STEPS,
    MORE_STEPS,
    MOST_HALVINGS,
    PENALTY,
    RIDGE,
    WIDENED,
)
from controlshap.crossfitting.folds import deal
from controlshap.engine.device.surrogate import at_once, full_precision
from controlshap.engine.device.walks import DeviceData, RowGroup, Walks
from controlshap.functions.logistic import MORE_NODES, NATS, WIDEST, enough_nodes, integrals, logistic_nodes
from controlshap.functions.network import PRECISION
from controlshap.statistics.two_stage import TwoStageDesign


@dataclass(frozen=True)
class UnitFolds:
    """The fold of every unit, the same for all explained rows, whose blocks are numbered at random.

    Attributes
    ----------
    units : ndarray of shape (n,)
    design : TwoStageDesign
    fold : ndarray of shape (n,)
    """

    units: IntArray
    design: TwoStageDesign
    fold: IntArray

    @classmethod
    def of(cls, common: DeviceData, units: IntArray) -> UnitFolds:
        """Deal units as `crossfitting.folds` does."""
        design = common.design(units)
        return cls(units, design, deal(design, RIDGE.n_folds, stream(common.entropy, Purpose.FOLDS)))

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return int(self.fold.max()) + 1

    @property
    def taken(self) -> BoolArray:
        """Units of background rows that are taken all, `(n,)`."""
        return np.asarray(~self.design.sampled[self.design.index])

    def shift(self, values: Any) -> Any:
        """Correction of the means over blocks of `values` (r, k, blocks, ...), which `known_marginal` derives."""
        sample, blocks = ~self.taken, self.design.labels
        own = [np.unique(blocks[sample & (self.fold == k)]) for k in range(self.n_folds)]
        visited = np.unique(blocks[sample])
        if sum(len(part) for part in own) != len(visited):
            return torch.zeros_like(values[:, 0, 0])  # rows of several folds
        weights = np.zeros(values.shape[1:3])
        for k, part in enumerate(own):
            if len(part):
                weights[k, part] += 1.0 / values.shape[2]
                weights[k, visited] -= len(part) / len(visited) / values.shape[2]
        return torch.tensordot(to_like(weights, values), values, ([0, 1], [1, 2]))


@dataclass(frozen=True)
class Ridges:
    """Logistic ridge functions of explained rows, with their values.

    Attributes
    ----------
    weights : tensor of shape (r, k, o, c)
    intercepts, low, width : tensors of shape (r, k, o)
        The width is 0 where the values are not known.
    """

    weights: Any
    intercepts: Any
    low: Any
    width: Any

    def values(self, rows: Any, fold: Any) -> Any:
        """Values `(r, n, m, o)` on rows `(r, n, m, c)` of units of these folds `(n,)`."""
        with full_precision():
            scores = rows @ self.weights[:, fold].transpose(-1, -2) + self.intercepts[:, fold, None]
        return self.low[:, fold, None] + self.width[:, fold, None] * torch.sigmoid(scores)

    def draw_values(self, x: Any, draws: Any, owner: Any, n_players: int) -> Any:
        """Shapley values `(r, k, M, players, o)` of the game of each draw `(M, c)`."""
        member = torch.nn.functional.one_hot(owner, n_players).to(x.dtype)
        weights, n_draws = self.weights.flatten(0, 2), len(draws)
        at_x = (weights * x.repeat_interleave(len(weights) // len(x), dim=0)) @ member  # (functions, players)
        intercepts, width = self.intercepts.flatten(), self.width.flatten()
        step = max(1, at_once(x.device) // (8 * n_draws * n_players))
        reach = []
        for start in range(0, len(weights), step):
            some = slice(start, start + step)
            at_draws = (weights[some, None] * draws) @ member
            ends = [pick(at_x[some, None], at_draws).sum(dim=-1) for pick in (torch.maximum, torch.minimum)]
            reach.append((intercepts[some, None] + torch.stack(ends)).abs().amax(dim=(0, 2)))
        bounds = torch.cat(reach).cpu().numpy()
        values = x.new_zeros((len(weights), n_draws, n_players))
        width[to_like(np.flatnonzero(~(bounds <= WIDEST)), width)] = 0.0  # a view of the functions' own
        order = np.argsort(bounds)
        order = order[: int((bounds <= WIDEST).sum())]
        start = 0
        while start < len(order):  # functions of like reach together, from the widest of which there are few in a batch
            n_terms = len(logistic_nodes(float(bounds[order[start]]), PRECISION)[0])
            step = max(1, at_once(x.device) // (12 * n_draws * n_players * n_terms))
            chosen = order[start : start + step]
            some = to_like(chosen, weights)
            at_draws = (weights[some, None] * draws) @ member
            bound = float(bounds[chosen[-1]])
            values[some] = width[some, None, None] * _sine_values(intercepts[some], at_x[some], at_draws, bound)
            start += step
        return values.reshape(*self.width.shape, n_draws, n_players).permute(0, 1, 3, 4, 2)


def _sine_values(intercepts: Any, at_x: Any, at_draws: Any, bound: float) -> Any:
    """Shapley values `(functions, draws, players)` of sigmoids: the sum of sines of `functions/logistic.py`."""
    frequencies, weights = (to_like(part, at_x) for part in logistic_nodes(bound, PRECISION))
    n_players = at_x.shape[-1]
    gaps = (0.5 * (at_x[:, None] - at_draws)).movedim(-1, 0)[:, None]  # (p, 1, functions, draws)
    turns = torch.polar(torch.ones_like(gaps), gaps * frequencies[:, None, None])
    centre = intercepts[:, None] + 0.5 * (at_x.sum(dim=-1)[:, None] + at_draws.sum(dim=-1))
    waves = turns.imag * (2.0 * weights[:, None, None] * torch.cos(frequencies[:, None, None] * centre))
    ends = torch.sigmoid(intercepts + at_x.sum(dim=-1))[:, None] - torch.sigmoid(
        intercepts[:, None] + at_draws.sum(dim=-1)
    )
    full = enough_nodes(n_players)
    n_nodes = min(full, math.ceil((math.log(1.0 / PRECISION) + bound) / NATS))
    while True:
        here = (waves * integrals(turns, n_nodes)).sum(dim=1)
        if n_nodes >= full or float((here.sum(dim=0) - ends).abs().max()) <= 3.0 * PRECISION:
            return here.movedim(0, -1)
        n_nodes = min(full, n_nodes + MORE_NODES)


def fit_ridges(x: Any, draws: Any, rows: Any, outputs: Any, keep: Any) -> Ridges:
    """Fit to rows `(r, N, c)` with outputs `(r, N, o)`, of which each fold keeps some, `(k, N)`.

    The Gauss-Newton steps of `controls/ridge.py`. Columns are standardised by what walks from the background to x have
    on average, which no fold's evaluations enter.
    """
    gap, spread = x - draws.mean(dim=0), draws.var(dim=0, correction=0)
    center = x - 0.5 * gap
    scale = torch.sqrt(0.5 * spread + 0.25 * gap**2)
    scale = torch.where(scale > 1e-12 * center.abs().clamp(min=1.0), scale, math.inf)
    design = torch.cat([(rows - center[:, None]) / scale[:, None], torch.ones_like(rows[..., :1])], dim=-1)
    n_outputs, masks = outputs.shape[-1], keep.to(rows.dtype).repeat_interleave(outputs.shape[-1], dim=0)
    low, high = (
        torch.stack([getattr(outputs[:, kept], what)(dim=1) for kept in keep], dim=1) for what in ("amin", "amax")
    )
    inside = (low >= 0.0) & (high <= 1.0)
    margin = torch.where(high > low, WIDENED * (high - low), 1.0)
    low, high = torch.where(inside, 0.0, low - margin), torch.where(inside, 1.0, high + margin)
    width = high - low
    shares = ((outputs[:, None] - low[:, :, None]) / width[:, :, None]).movedim(-1, 2).flatten(1, 2)  # (r, g, N)
    thin = slice(None, None, max(1, rows.shape[1] // FIRST_ROWS))
    with full_precision():
        first = _Fit(design[:, thin], shares[..., thin], masks[:, thin])
        parameters = first.refine(first.constants(), FIRST_STEPS)
        parameters = _Fit(design, shares, masks).refine(parameters, MORE_STEPS)
    weights = parameters[..., :-1] / scale[:, None]
    intercepts = parameters[..., -1] - (weights * center[:, None]).sum(dim=-1)
    shape = (len(x), len(keep), n_outputs)
    return Ridges(weights.reshape(*shape, -1), intercepts.reshape(shape), low, width.contiguous())


class _Fit:
    """Least squares of all functions of some rows: a design `(r, N, c + 1)`, shares `(r, g, N)` and masks `(g, N)`."""

    def __init__(self, design: Any, shares: Any, masks: Any) -> None:
        self.design, self.shares, self.masks = design, shares, masks
        self.penalty = PENALTY * masks.sum(dim=-1)[:, None].repeat(1, design.shape[-1])
        self.penalty[:, -1] = 0.0

    def constants(self) -> Any:
        """Parameters `(r, g, c + 1)` of the mean."""
        mean = ((self.shares * self.masks).sum(dim=-1) / self.masks.sum(dim=-1)).clamp(1e-3, 1.0 - 1e-3)
        parameters = self.design.new_zeros((*mean.shape, self.design.shape[-1]))
        parameters[..., -1] = torch.log(mean / (1.0 - mean))
        return parameters

    def refine(self, parameters: Any, n_steps: int) -> Any:
        """Take a few steps, none of which raises the error of its function; each function ends by itself."""
        chances, error = self._predict(parameters)
        going = torch.ones_like(error, dtype=torch.bool)
        for _ in range(n_steps):
            before, candidate, waiting = error, self._step(parameters, chances), going
            for _ in range(MOST_HALVINGS):
                of_candidate, new_error = self._predict(candidate)
                better = waiting & (new_error <= error)
                parameters = torch.where(better[..., None], candidate, parameters)
                chances = torch.where(better[..., None], of_candidate, chances)
                error = torch.where(better, new_error, error)
                waiting = waiting & ~better
                if not bool(waiting.any()):
                    break
                candidate = torch.where(waiting[..., None], 0.5 * (candidate + parameters), candidate)
            going = going & (before - error > ENOUGH * before)
            if not bool(going.any()):
                break
        return parameters

    def _predict(self, parameters: Any) -> tuple[Any, Any]:
        chances = torch.sigmoid(parameters @ self.design.transpose(-1, -2))
        squares = ((self.shares - chances) ** 2 * self.masks).sum(dim=-1)
        return chances, squares + (self.penalty * parameters**2).sum(dim=-1)

    def _step(self, parameters: Any, chances: Any) -> Any:
        slope = (chances * (1.0 - chances)).clamp(min=1e-6) * self.masks
        scaled = self.design[:, None] * slope[..., None]
        gram = scaled.transpose(-1, -2) @ scaled
        diagonal = gram.diagonal(dim1=-2, dim2=-1)
        diagonal += self.penalty + 1e-10 * diagonal.sum(dim=-1, keepdim=True)
        gaps = (self.shares - chances)[..., None]
        right = (scaled.transpose(-1, -2) @ gaps)[..., 0] - self.penalty * parameters
        return parameters + torch.linalg.solve(gram, right)


def fit_rows(common: DeviceData) -> int:
    """Rows that the fits of an explained row take together: each function has a design of its own."""
    n_outputs = common.evaluator.n_outputs or 1
    return RIDGE.n_folds * n_outputs * (min(len(common.draws), RIDGE.max_rows // 2) + FEWEST_ROWS)


def fit_to_units(common: DeviceData, group: RowGroup, folds: UnitFolds, inputs: Any, outputs: Any) -> Ridges:
    """Functions fitted to x, the background and evenly spread units, with inputs `(r, n, m, c)`, outputs `(.., o)`."""
    (r, n, m, c), n_draws = inputs.shape, len(common.draws)
    n_units = min(n, max(2, FEWEST_ROWS // m))
    chosen = np.unique(np.linspace(0, n - 1, n_units).astype(np.int64))
    some = to_like(chosen, group.x)
    known, answers = common.draws[: RIDGE.max_rows // 2], common.at_draws[: RIDGE.max_rows // 2]
    rows = [group.x[:, None], known.expand(r, -1, -1), inputs[:, some].reshape(r, -1, c).to(group.x.dtype)]
    found = [group.at_x[:, None], answers.expand(r, -1, -1), outputs[:, some].reshape(r, len(chosen) * m, -1)]
    free = np.full(1 + min(n_draws, RIDGE.max_rows // 2), -1)
    labels = np.concatenate([free, np.repeat(folds.fold[chosen], m)])
    keep = to_like(labels != np.arange(folds.n_folds)[:, None], group.x)
    return fit_ridges(group.x, common.draws, torch.cat(rows, dim=1), torch.cat(found, dim=1), keep)


@dataclass(frozen=True)
class RidgeControls:
    """The functions of some explained rows and their values of draws, by blocks.

    Attributes
    ----------
    folds : UnitFolds
    ridges : Ridges
    inputs : tensor of shape (r, n, m, c)
    of_blocks : tensor of shape (r, k, M, players, o)
    means : tensor of shape (r, k, players, o)
    """

    folds: UnitFolds
    ridges: Ridges
    inputs: Any
    of_blocks: Any
    means: Any

    @classmethod
    def of(cls, common: DeviceData, group: RowGroup, units: IntArray, walks: Walks, outputs: Any) -> RidgeControls:
        """Fit, and compute the values of all draws."""
        folds, r = UnitFolds.of(common, units), len(group)
        inputs = walks.inputs.reshape(r, len(units), -1, group.x.shape[1])
        ridges = fit_to_units(common, group, folds, inputs, outputs)
        of_draws = ridges.draw_values(group.x, common.draws, common.owner, common.n_players)
        index = group.orders[:, None, :, None, None].expand_as(of_draws)
        of_blocks = of_draws.gather(2, index)
        means = of_blocks.mean(dim=2) + folds.shift(of_blocks)[:, None]
        return cls(folds, ridges, inputs, of_blocks, means)

    def unit_values(self) -> Any:
        """Values `(r, n, m, o)` of the functions on the rows of units."""
        return self.ridges.values(self.inputs.to(self.of_blocks.dtype), to_like(self.folds.fold, self.of_blocks))

    def ends(self, x: Any, draws: Any) -> tuple[Any, Any]:
        """Values `(r, n, o)` at x `(r, c)` and at the draws `(r, n, c)` of units."""
        fold = to_like(self.folds.fold, x)
        at_x = self.ridges.values(x[:, None, None].expand(-1, len(fold), -1, -1), fold)
        return at_x[:, :, 0], self.ridges.values(draws[:, :, None], fold)[:, :, 0]

    def own_and_between(self) -> tuple[Any, Any]:
        """Values `(r, n, players, o)` of the draws of units, and what they differ by from the mean over draws.

        How functions differ at a row that every fold knows is no noise: units of such rows have the mean of all folds.
        """
        fold, block = (to_like(part, self.means) for part in (self.folds.fold, self.folds.design.labels))
        own = self.of_blocks[:, fold, block]
        between = own - self.means[:, fold]
        taken = self.folds.taken
        if taken.any():
            counts = np.bincount(self.folds.fold[~taken], minlength=self.folds.n_folds)
            shares = to_like(counts / max(1, counts.sum()), self.means)
            differ = torch.tensordot(shares, self.of_blocks - self.means[:, :, None], ([0], [1]))
            there = to_like(np.flatnonzero(taken), fold)
            between[:, there] = differ[:, block[there]]
        return own, between

    def at_rows(self, draws: Any) -> Any:
        """Values `(r, M, o)` of the functions of the first fold on background rows."""
        first = torch.zeros(1, dtype=torch.int64, device=draws.device)
        return self.ridges.values(draws.expand(len(self.means), 1, -1, -1), first)[:, 0]
