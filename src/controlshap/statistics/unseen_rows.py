"""What the units have not met of the background: errors that they cannot show, and few degrees of freedom. Arrays only.

With independent features a player changes nothing in background rows that agree with x in its columns. Of M rows let m
differ. Until a unit meets one of these, all that the player has is missing from its value, and from its error, which
comes from the units: both are 0, or what a control says. What is missing is m / M times the mean change in the m rows.
Once some units did, they alone carry its variance, however many units there are.

Along a walk that starts at row b all contributions together are f(x) - f(b), less what a control has of it. f and
control are known at every row, so the variance of that sum over all rows is, too. Where it is larger than over the rows
that were met, rare rows that matter were not, and the difference is missing from the variance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.data.players import Players
from controlshap.statistics.analysis import Analysis
from controlshap.statistics.control_variate import Estimate

#: Units that meet a player, below which they limit its degrees of freedom.
FEW = 30
#: Times as large as over the rows that were met that a variance over all rows must be, beyond chance.
MUCH_LARGER = 1.5
#: Largest difference of coefficients that are taken for the same.
ALIKE = 0.1
#: Units times draws times players that are looked at together, bounding the memory.
AT_ONCE = 2**22


@dataclass(frozen=True)
class Background:
    """Rows with what model and surrogates say: `(rows, columns)`, `(rows, outputs, functions)`, and of x."""

    rows: FloatArray
    values: FloatArray
    x: FloatArray
    at_x: FloatArray


@dataclass(frozen=True)
class Changes:
    """Of the model from each background row to x, and of its controls.

    Attributes
    ----------
    model : ndarray of shape (rows, outputs)
    controls : ndarray of shape (rows, outputs, controls)
    alpha : ndarray of shape (players, outputs, controls)
        Their coefficients; no controls at all where there is nothing to subtract.
    """

    model: FloatArray
    controls: FloatArray
    alpha: FloatArray

    def left(self, player: int | None = None) -> FloatArray:
        """What the controls leave of the model `(rows, outputs)`, with a player's coefficients or their means."""
        alpha = self.alpha.mean(axis=0) if player is None else self.alpha[player]
        rest: FloatArray = self.model - np.einsum("bos,os->bo", self.controls, alpha)
        return rest

    def alike(self) -> BoolArray:
        """For which outputs all players have the same coefficients, so that contributions add up to what is left."""
        alike: BoolArray = (np.ptp(self.alpha, axis=0) <= ALIKE).all(axis=1)
        return alike

    def without_controls(self) -> Changes:
        """Of the model alone."""
        return Changes(self.model, self.controls[..., :0], self.alpha[..., :0])


@dataclass(frozen=True)
class Unmet:
    """What the units so far leave open.

    Attributes
    ----------
    differ : ndarray of bool, shape (rows, players)
        In which background rows which players are not as in x.
    index : ndarray of shape (units, draws)
        Rows that units drew.
    """

    differ: BoolArray
    index: IntArray

    @cached_property
    def share(self) -> float:
        """Of all rows that were drawn; 1 where every row had a part."""
        return len(np.unique(self.index)) / len(self.differ)

    def n_met(self) -> IntArray:
        """Units `(players,)` that drew a row in which a player differs."""
        found = np.zeros(self.differ.shape[1], dtype=np.int64)
        step = max(1, AT_ONCE // (self.index.shape[1] * self.differ.shape[1]))
        for start in range(0, len(self.index), step):
            found += self.differ[self.index[start : start + step]].any(axis=1).sum(axis=0)
        return found

    def widen(self, estimate: Estimate, n_met: IntArray, changes: Changes | None, *, closes_sum: bool) -> Estimate:
        """With what is missing; `changes` are None where every row had a part."""
        few = (n_met > 0) & (n_met < min(FEW, len(self.index)))
        most = np.append(np.where(few, np.maximum(n_met - 1.0, 1.0), np.inf), np.inf)
        estimate = replace(estimate, dof=np.minimum(estimate.dof, most[:, None]))
        if changes is None:
            return estimate
        added = self._of_players(n_met, changes, closes_sum=closes_sum)
        rows = estimate.rows * np.sqrt(self._inflation(estimate, changes))
        return replace(estimate, rows=np.concatenate([rows, added]))

    def _of_players(self, n_met: IntArray, changes: Changes, *, closes_sum: bool) -> FloatArray:
        """Roots `(unmet players, components, outputs)`; where sums are closed the other players have them, too.

        The change in rows that were not met is taken to be as large as the sum of all, or as that is spread over the
        background.
        """
        n_players = len(n_met)
        some = np.flatnonzero((n_met == 0) & self.differ.any(axis=0))
        roots = np.zeros((len(some), n_players + 1, changes.model.shape[1]))
        for root, j in zip(roots, some, strict=True):
            unseen, left = self.differ[:, j], changes.left(int(j))
            size = np.maximum(left.std(axis=0), np.sqrt((left[unseen] ** 2).mean(axis=0)))
            if closes_sum:
                root[:-1] = -unseen.mean() * size / max(1, n_players - 1)
            root[j] = unseen.mean() * size
        return roots

    def _inflation(self, estimate: Estimate, changes: Changes) -> FloatArray:
        """How many times larger `(outputs,)` the variances are than units show, alike for all players."""
        left = changes.left()
        of_all, of_met = left.var(axis=0), left[self.index.ravel()].var(axis=0)
        missing = (1.0 - self.share) * (of_all - of_met) / self.index.size
        shown = estimate.variances[:-1].sum(axis=0)
        much = (of_all > MUCH_LARGER * of_met) & (shown > 0) & changes.alike()
        return np.where(much, 1.0 + missing / np.where(shown > 0, shown, 1.0), 1.0)


def widened(
    analysis: Analysis,
    unmet: Unmet,
    background: Background,
    fitted: Callable[[FloatArray], FloatArray] | None,
    *,
    closes_sum: bool,
) -> Analysis:
    """With what was not met: of the model, and of what its controls leave of it.

    `fitted` tells what functions that were fitted say of rows, `(rows, outputs, learners)`.
    """
    n_met, changes, plain = unmet.n_met(), None, None
    if unmet.share < 1.0:
        changes = changes_of(analysis.alpha[:-1], background, fitted)
        plain = changes.without_controls()
    return replace(
        analysis,
        controlled=unmet.widen(analysis.controlled, n_met, changes, closes_sum=closes_sum),
        uncontrolled=unmet.widen(analysis.uncontrolled, n_met, plain, closes_sum=closes_sum),
    )


def changes_of(alpha: FloatArray, background: Background, fitted: Callable[[FloatArray], FloatArray] | None) -> Changes:
    """With coefficients `(players, outputs, controls)`; of the two of a fitted function the first counts."""
    every = background.at_x - background.values
    model, controls = every[..., 0], every[..., 1:]
    n_made = controls.shape[2]
    if alpha.shape[2] == 0:
        return Changes(model, controls[..., :0], alpha)
    if fitted is not None:
        controls = np.concatenate([controls, fitted(background.x[None]) - fitted(background.rows)], axis=2)
    firsts = [*range(n_made), *range(n_made, alpha.shape[2], 2)][: controls.shape[2]]
    return Changes(model, controls, alpha[..., firsts])


def differing(x: FloatArray, rows: FloatArray, players: Players) -> BoolArray:
    """In which rows which players `(rows, players)` are not as in x; a missing value is as another."""
    columns: BoolArray = ~((rows == x) | (np.isnan(rows) & np.isnan(x)))
    if not players.is_grouped:
        return columns
    return np.stack([columns[:, own].any(axis=1) for own in players.columns], axis=1)
