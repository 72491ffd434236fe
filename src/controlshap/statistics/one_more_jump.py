"""Allowance for one more unit unlike the others, by how many units a player's value rests on.

Each factor of a covariance is a jump that was seen: what one unit moves a value by. A player whose value rests on few
jumps, as with labels, trees and rare events, has an error that is itself badly known, and may not have shown its
largest jump at all. So, player by player (docs/mathematics.md, section 13):

- `P = V^2 / Q`, with V the sum of the squares of its factors and Q of their fourth powers, counts the units that speak
  of it: n for n jumps of one size, n/3 for normal ones. No player has more than its plain contributions show, without
  any control: what a control adds to a silent player is the control's noise.
- Of the next unit, one in P + 1 is of a new kind (Laplace's rule of succession). Its square is `own^2 = Q / V`, that of
  the player's jumps, or `all^2`, that of all jumps of the row, in this proportion, and never less than its own. That
  square joins the variance.
- Degrees of freedom follow from the kurtosis with the added jump: `2 / (1/P' - 1/(N + 1))` for N factors, which is
  2 (k + 1) for k equal jumps among many units, close to the exact interval of a Poisson count, and N for normal ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from controlshap._arrays import Array, at_least, namespace, sum_products, to_like
from controlshap._types import FloatArray
from controlshap.statistics.control_variate import Estimate
from controlshap.statistics.covariance_root import CovarianceRoot
from controlshap.statistics.terms import ROUNDING, Terms

#: Fewest degrees of freedom of an interval: with no jump seen the limit of 95 % is then 3.2 jumps, where the rule of
#: three has 3.0 and Garwood's exact interval 3.7.
FEWEST_DOF = 3.0


def allow_for_jump(
    estimate: Estimate, root: CovarianceRoot, terms: Terms, weights: FloatArray, live: Array | None, gap: Array
) -> Estimate:
    """The estimate with one more jump in its errors, and the degrees of freedom that its jumps leave.

    `root` is the covariance root that the first factors of the estimate come from, unit by unit, `live` (..., players)
    are the players that are not known to be 0, and `gap` (..., outputs) is what all players share.
    """
    xp, speaking = namespace(estimate.values), terms.count_speaking()
    # where no unit shows anything at all, f(x) differs from v(0) all the same
    largest = xp.maximum(terms.largest_jump(weights), xp.abs(gap) * float(weights.max()))
    # in units of the largest jump of the row: fourth powers leave the range of doubles for outputs beyond 1e77
    unit = xp.maximum(largest, xp.amax(xp.sqrt(estimate.variances), axis=-2))[..., None, :]
    unit = xp.where(unit > 0, unit, 1.0)
    squares = (estimate.factors / unit[..., None, :]) ** 2
    fourth = sum_products(squares, _per_factor(root, squares) * squares, axis=-3)
    n_factors = max(1.0, float(root.dof.sum()) - terms.n_fitted)
    spread = spread_of_jumps(squares.sum(axis=-3), fourth, speaking, (largest / unit[..., 0, :]) ** 2, n_factors, live)
    return replace(estimate, dof=spread.dof, allowance=spread.jump * unit**2)


@dataclass(frozen=True)
class Spread:
    """Squares of the jump that joins the variances, and degrees of freedom, `(..., components, outputs)`."""

    jump: Array
    dof: Array


def spread_of_jumps(
    variances: Array, fourth: Array, speaking: Array | None, fallback: Array, n_factors: float, live: Array | None
) -> Spread:
    """One more jump, given sums of squares and fourth powers `(..., components, outputs)` of the jumps that were seen.

    `speaking` (..., players, outputs) is the most units that speak of each player, and `fallback` (..., outputs) the
    square of a jump where none was seen.
    """
    xp = namespace(variances)
    moves = variances > ROUNDING**2
    own = xp.where(moves, fourth / xp.where(moves, variances, 1.0), 0.0)
    count = xp.where(moves, variances**2 / xp.where(moves, fourth, 1.0), 0.0)
    if speaking is not None:
        count[..., :-1, :] = xp.minimum(count[..., :-1, :], speaking)
    total = xp.where(moves, variances, 0.0)[..., :-1, :].sum(axis=-2)
    every = xp.where(moves, fourth, 0.0)[..., :-1, :].sum(axis=-2) / xp.where(total > 0, total, 1.0)
    every = xp.where(total > 0, every, fallback)[..., None, :]
    jump = xp.maximum(own, (count * own + every) / (count + 1.0))
    jump[..., -1, :] = own[..., -1, :]  # the base value is exact, or has an error of its own
    if live is not None:
        jump[..., :-1, :] = xp.where(live[..., None], jump[..., :-1, :], 0.0)
    error = variances + jump
    kurtosis = (fourth + jump**2) / xp.where(error > 0, error, 1.0) ** 2
    left = at_least(kurtosis - 1.0 / (n_factors + 1.0), 2.0 / n_factors)
    dof = xp.minimum(at_least(2.0 / left, FEWEST_DOF), to_like(np.array(n_factors), left))
    return Spread(jump, xp.where(error > 0, dof, np.inf))


def _per_factor(root: CovarianceRoot, squares: Array) -> Array:
    """Weights `(n_factors, 1, 1)` of fourth powers.

    The k deviations of k units from their mean have the squares of k - 1 independent contrasts, and k - 1 over k of
    their fourth powers; two are one number with two signs.
    """
    weights = np.ones(squares.shape[-3])
    weights[: len(root.part)] = (np.bincount(root.part) / root.dof)[root.part]
    return to_like(weights[:, None, None], squares)
