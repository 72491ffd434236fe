"""A logistic ridge function fitted to the very evaluations of the explanation.

`g(r) = low + width sigmoid(c + beta . r)` has exact Shapley values for every background row (independent features), so
it gives two controls: what a walk of g misses of g's own value for its row (noise of coalitions), and how the row's
value differs from the mean over the background (noise of rows). Each fold of units is controlled by a g fitted to the
other folds only: the estimate stays unbiased and its standard error honest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import expit

from controlshap._errors import InvalidArgumentError
from controlshap._types import FloatArray, IntArray
from controlshap.exact_forms.logistic import WIDEST, logistic_values, score_bound
from controlshap.exact_forms.ridge_fit import Ridge, RidgeData
from controlshap.players import Players
from controlshap.values.marginal import prefix_masks

#: Precision of the known values, relative to the range of the output.
PRECISION = 1e-8
#: Fewest units behind a fit; with fewer the control is left out.
FEWEST_UNITS = 6


@final
@dataclass(frozen=True)
class LogisticRidge:
    """Control fitted to the evaluated rows of the same explanation, with cross-fitting.

    For permutation walks and independent features. It costs no model evaluations.

    Parameters
    ----------
    n_folds : int
        Folds of units; each is controlled by a function fitted to the others.
    max_rows : int
        Most evaluated rows that a fit uses.
    """

    n_folds: int = 5
    max_rows: int = 8000

    def __post_init__(self) -> None:
        if self.n_folds < 2:
            raise InvalidArgumentError(f"`n_folds` must be at least 2; got {self.n_folds}. The default is 5.")
        if self.max_rows < 100:
            raise InvalidArgumentError(f"`max_rows` must be at least 100; got {self.max_rows}. The default is 8000.")

    def controls(self, walks: WalkRecord, block: IntArray, rng: np.random.Generator) -> FloatArray:
        """Two controls with known value 0, shape (units, players + 1, outputs, 2); see the module.

        Parameters
        ----------
        walks : WalkRecord
            What was evaluated.
        block : ndarray of shape (units,)
            Number of the block of each unit; blocks are never split between folds.
        """
        n, p = walks.permutations.shape
        n_outputs = walks.forward.shape[2]
        found = np.zeros((n, p + 1, n_outputs, 2))
        n_blocks = int(block.max()) + 1
        n_folds = min(self.n_folds, n_blocks)
        if n_folds < 2 or n < FEWEST_UNITS:
            return found
        fold = (rng.permutation(n_blocks) % n_folds)[block]
        rows, outputs, unit = walks.training_rows(self.max_rows)
        # Rows of the background belong to no unit (-1): f(b) is known and serves every fold.
        fold_of_row = np.where(unit < 0, -1, fold[unit])
        for output in range(n_outputs):
            data = RidgeData.standardise(rows, outputs[:, output])
            start = data.fit()
            for k in range(n_folds):
                others = np.flatnonzero(fold_of_row != k)
                ridge = data.ridge(data.refine(start, others))
                inside = np.flatnonzero(fold == k)
                found[inside, :p, output] = walks.ridge_controls(ridge, inside)
        return found


@dataclass(frozen=True)
class WalkRecord:
    """Walks of one row with everything that was evaluated along them.

    Attributes
    ----------
    permutations : ndarray of shape (units, players)
    forward, backward : ndarray of shape (units, players + 1, outputs)
        Values along the walk and its reverse; backward is None for unpaired walks.
    draw : ndarray of shape (units,)
        Background row of each unit.
    background : ndarray of shape (n, columns)
    at_background : ndarray of shape (n, outputs)
    """

    x: FloatArray
    permutations: IntArray
    forward: FloatArray
    backward: FloatArray | None
    draw: IntArray
    background: FloatArray
    at_background: FloatArray
    players: Players

    def training_rows(self, max_rows: int) -> tuple[FloatArray, FloatArray, IntArray]:
        """Evaluated rows, their outputs and the unit of each; the background's own rows with unit -1."""
        n, p = self.permutations.shape
        directions = [(self.permutations, self.forward)]
        if self.backward is not None:
            directions.append((self.permutations[:, ::-1], self.backward))
        per_unit = max(1, len(directions) * (p - 1))
        chosen = np.unique(np.linspace(0, n - 1, min(n, max(2, max_rows // per_unit))).astype(np.int64))
        rows, outputs, units = [self.background], [self.at_background], [np.full(len(self.background), -1)]
        for permutations, values in directions:
            masks = prefix_masks(permutations[chosen], self.players)  # (units, p - 1, columns)
            mixed = np.where(masks, self.x, self.background[self.draw[chosen]][:, None])
            rows.append(mixed.reshape(-1, len(self.x)))
            outputs.append(values[chosen, 1:-1].reshape(-1, values.shape[2]))
            units.append(np.repeat(chosen, p - 1))
        return np.concatenate(rows), np.concatenate(outputs), np.concatenate(units)

    def ridge_controls(self, ridge: Ridge, units: IntArray) -> FloatArray:
        """Both controls `(units, players, 2)` of some units for one fitted function."""
        at_x = self.players.sum_columns(ridge.coef * self.x)
        at_rows = self.players.sum_columns((ridge.coef * self.background).T).T  # (n, players)
        if not score_bound(ridge.intercept, at_x, at_rows) <= WIDEST:
            return np.zeros((len(units), len(at_x), 2))  # out of the quadrature's reach: no control from this fold
        known = ridge.width * logistic_values(ridge.intercept, at_x, at_rows, PRECISION)
        walked = ridge_walks(ridge, at_x, at_rows[self.draw[units]], self.permutations[units])
        if self.backward is not None:
            reverse = ridge_walks(ridge, at_x, at_rows[self.draw[units]], self.permutations[units, ::-1])
            walked = 0.5 * (walked + reverse)
        of_row = known[self.draw[units]]
        return np.stack([walked - of_row, of_row - known.mean(axis=0)], axis=2)


def ridge_walks(ridge: Ridge, at_x: FloatArray, at_draws: FloatArray, permutations: IntArray) -> FloatArray:
    """Contributions `(units, players)` along walks of a ridge function: its score is a cumulative sum."""
    steps = np.take_along_axis(at_x - at_draws, permutations, axis=1)
    start = ridge.intercept + at_draws.sum(axis=1)
    scores = np.concatenate([start[:, None], start[:, None] + np.cumsum(steps, axis=1)], axis=1)
    added = ridge.width * np.diff(expit(scores), axis=1)
    contributions: FloatArray = np.empty_like(added)
    np.put_along_axis(contributions, permutations, added, axis=1)
    return contributions
