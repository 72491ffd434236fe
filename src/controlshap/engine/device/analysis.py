"""From terms to values with errors, for many rows at once: `controlshap.statistics.analysis` and its folds, on tensors.

Blocks are numbered in random order for each row, so dealing them to folds in turn is random dealing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from controlshap.engine.device.adjusting import (
    Estimates,
    Fit,
    Known,
    Moments,
    adjust,
    close_sum,
    closing,
    extrapolation,
    mix,
    project,
    regress,
)
from controlshap.engine.device.roots import Structure, block_means, block_sums
from controlshap.engine.device.visits import Visits
from controlshap.statistics.crossfit import FEW_BLOCKS, FEWER_FOLDS, MOST_FOLDS
from controlshap.statistics.two_stage import MANY_UNITS


@dataclass(frozen=True)
class Analysed:
    """Values with and without control; `fit` is None without."""

    controlled: Estimates
    uncontrolled: Estimates
    fit: Fit | None


@dataclass(frozen=True)
class _Blocks:
    """Means `(r, m, c, o)` over blocks and roots `(r, k, c, o)`, of the model and of the control."""

    means: Any
    rows: Any
    control_means: Any
    control_rows: Any
    structure: Structure


def analyse(
    model: Any, control: Any, known: Known | None, total: Any, visits: Visits, *, closes_sum: bool, by_folds: bool,
    base_varies: bool,
) -> Analysed:  # fmt: skip
    """Means, covariance, control, closed sum.

    Parameters
    ----------
    model, control : tensor of shape (r, n, c, o)
        Terms in the layout of `visits`; `control` is None without `known`.
    total : tensor of shape (r, o)
        f(x), to which players and base value sum.
    closes_sum, by_folds, base_varies : bool
        As for the core's `analyse`.
    """
    structure = Structure(visits)
    blocks = _reduced(model, control, structure, base_varies=base_varies)
    n_blocks = visits.n_blocks
    part = 1.0 - visits.share if by_folds and n_blocks <= MANY_UNITS else 0.0
    target = total if closes_sum else None

    def adjusted(known: Known | None) -> tuple[Estimates, Fit | None]:
        if part == 0.0 or (known is None and target is None):
            return _by_units(blocks, known, target)
        crossed, fit = _by_folds(blocks, known, target)
        if part < 1.0:
            crossed = mix(_by_units(blocks, known, target)[0], crossed, part)
        return crossed, fit

    uncontrolled, _ = adjusted(None)
    if known is None:
        return Analysed(uncontrolled, uncontrolled, None)
    controlled, fit = adjusted(known)
    return Analysed(controlled, uncontrolled, fit)


def _reduced(model: Any, control: Any, structure: Structure, *, base_varies: bool) -> _Blocks:
    def reduce(terms: Any) -> tuple[Any, Any]:
        means = block_means(terms, structure.visits)
        rows = structure.roots(terms, means)
        if not base_varies:
            rows[:, :, -1] = 0.0  # not rounding either
        return means, rows

    means, rows = reduce(model)
    control_means, control_rows = (None, None) if control is None else reduce(control)
    return _Blocks(means, rows, control_means, control_rows, structure)


def _by_units(blocks: _Blocks, known: Known | None, total: Any) -> tuple[Estimates, Fit | None]:
    """Coefficients from the same units."""
    plain = Estimates(blocks.means.mean(dim=1), blocks.rows, blocks.structure.degrees_of_freedom(blocks.rows))
    fit = None
    if known is not None:
        control = blocks.control_means.mean(dim=1)
        plain, fit = adjust(plain, control, blocks.control_rows, known, blocks.structure)
    return (plain if total is None else close_sum(plain, total)), fit


def fold_count(n_blocks: int) -> int:
    """Folds for so many blocks, as the core deals them."""
    return min(MOST_FOLDS if n_blocks <= FEW_BLOCKS else FEWER_FOLDS, n_blocks)


@dataclass(frozen=True)
class _Fold:
    """What the other folds say, and what is inside.

    Attributes
    ----------
    residual : tensor of shape (r, k, c, o)
        Roots of the others after the control.
    roots, blocks : ndarray of int
        Those inside.
    size : float
        Share of the blocks.
    fit : Fit or None
    """

    residual: Any
    roots: Any
    blocks: Any
    size: float
    fit: Fit | None


def _by_folds(blocks: _Blocks, known: Known | None, total: Any) -> tuple[Estimates, Fit | None]:
    """Each fold with what the other folds say."""
    structure = blocks.structure
    m = structure.visits.n_blocks
    n_folds = fold_count(m)
    dof = structure.degrees_of_freedom(blocks.rows) * (n_folds - 1) / n_folds
    means, rows = blocks.means.clone(), blocks.rows.clone()
    folds, known_rows = [], torch.zeros_like(rows[:, :0]) if known is None else torch.zeros_like(known.rows)
    for k in range(n_folds):
        inside = np.arange(k, m, n_folds)
        here = np.flatnonzero(structure.blocks % n_folds == k)
        others, fit = _without(blocks.rows, here, structure), None
        if known is not None:
            others_control = _without(blocks.control_rows, here, structure)
            moments = Moments.of(others, others_control, known)
            fit = regress(moments, dof, known.size, (others, others_control) if m <= FEW_BLOCKS else None)
            overall = blocks.control_means.mean(dim=1) - known.values
            reach, alpha = extrapolation(fit, overall, moments, dof).sqrt()[:, None], fit.alpha[:, None]
            others = reach * (others - alpha * others_control)
            rows[:, here] = reach * (rows[:, here] - alpha * blocks.control_rows[:, here])
            means[:, inside] -= alpha * (blocks.control_means[:, inside] - known.values[:, None])
        folds.append(_Fold(others, here, inside, len(inside) / m, fit))
    unclosed = means.mean(dim=1)
    for fold in folds:
        of_known = None if known is None or fold.fit is None else -fold.fit.alpha[:, None] * known.rows
        if total is not None:
            shares, _ = closing(Estimates(unclosed, fold.residual, dof), total)
            gaps = total[:, None] - means[:, fold.blocks].sum(dim=2)
            means[:, fold.blocks] += shares[:, None] * gaps[:, :, None]
            rows[:, fold.roots] = project(rows[:, fold.roots], shares)
            of_known = None if of_known is None else project(of_known, shares)
        if of_known is not None:
            known_rows = known_rows + fold.size * of_known
    found = Estimates(means.mean(dim=1), torch.cat([rows, known_rows], dim=1), structure.degrees_of_freedom(rows))
    fits = [(fold.size, fold.fit) for fold in folds if fold.fit is not None]
    if not fits:
        return found, None
    alpha = sum(size * fit.alpha for size, fit in fits)
    return found, Fit(alpha, sum(size * fit.squared_correlation for size, fit in fits))


def _without(rows: Any, left_out: Any, structure: Structure) -> Any:
    """Roots of the other folds, centred on these alone, and 0 for those left out; within blocks they are centred."""
    others = rows.clone()
    others[:, left_out] = 0.0
    n = structure.n_between
    if n:
        n_kept = max(1, n - int((left_out < n).sum()))
        others[:, :n] -= others[:, :n].sum(dim=1, keepdim=True) / n_kept
        others[:, left_out] = 0.0
    return others


def background_variances(terms: Any, visits: Visits, of_background: Any) -> Any:
    """What the values owe to the choice of the background rows, `(r, players, o)`; None where too few were visited.

    `terms` (r, n, c, o) are the model's alone; see `controlshap.statistics.background_error`.
    """
    if visits.n_blocks < 2:
        return None
    n_rows = len(of_background)
    players = terms[:, :, :-1]
    means = block_means(players, visits)
    between = means.var(dim=1, correction=1)
    some = visits.several
    if some.n_blocks:
        chosen = players if visits.fewest >= 2 else players[:, visits.several_units]
        labels = torch.as_tensor(some.labels, device=terms.device)
        squares = block_sums((chosen - means[:, labels]) ** 2, some).sum(dim=1)
        spread = squares / float((some.counts - 1).sum())
        between = between - spread * float((1.0 / visits.counts).mean())
    alike = (1.0 - 1.0 / n_rows) * visits.population / (visits.population - 1.0)
    return between.clamp(min=0.0) / (n_rows * alike)
