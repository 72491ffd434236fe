"""Allowance for one more unit unlike the others, by the number of units that a player's value rests on.

Each factor of a covariance is a jump that was seen: the distance by which one unit moves a value. A player whose value
rests on few jumps, as with labels, trees and rare events, has an error that is itself poorly known, and may not have
shown its largest jump at all. So, player by player (docs/mathematics.md, section 13):

- `P = V^2 / Q`, with V the sum of the squares of its factors and Q of their fourth powers, is the effective number of
  units that show an effect of it: n for n jumps of one size, n/3 for normal ones. It is at most that of the player's
  contributions without control: what a control adds to a player without effect is the control's noise.
- The next unit is of a new kind with probability 1 / (P + 1) (Laplace's rule of succession). Its square is a mean of
  `own^2 = Q / V`, that of the player's jumps, and `all^2`, that of all jumps of the row, with this weight on the
  latter, and never less than the player's own. It is added to the variance. What a control leaves in units of a new
  kind, such as a level of a category that no unit had, may be larger than in the others (`analysis.left_in_rows`).
- Degrees of freedom follow from the kurtosis with the added jump: `2 / (1/P' - 1/(N + 1))` for N factors, which is
  2 (k + 1) for k equal jumps among many units, close to the exact interval of a Poisson count, and N for normal ones.

`compare_halves` tests the errors of a row by the row itself: is the estimate from one half of the units within the
interval from the other? The Helmert contrasts of the deviations of one part are uncorrelated, of mean 0 and as many as
there are degrees of freedom; each is the deviation of one unit from those before it. Every second one forms a half. The
second half has no part in the error of the first, so that it reveals an error that is too small for what was not seen.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import stdtrit

from controlshap._arrays import Array, at_least, namespace, sum_products, to_like
from controlshap._types import FloatArray, IntArray
from controlshap.statistics.control_variate import Estimate
from controlshap.statistics.covariance_root import CovarianceRoot
from controlshap.statistics.terms import ROUNDING, Terms

#: Fewest degrees of freedom of an interval: if no jump was seen, its 95 % limit is then 3.2 jumps; that of the rule of
#: three is 3.0, and that of Garwood's exact interval 3.7.
FEWEST_DOF = 3.0
#: Level of the first half's interval, which should contain the second.
LEVEL = 0.95
#: Fewest contrasts of a half.
FEWEST_CONTRASTS = 3
#: Largest ratio, so that all are finite.
FARTHEST = 1e6


def allow_for_jump(
    estimate: Estimate,
    root: CovarianceRoot,
    terms: Terms,
    weights: FloatArray,
    live: Array | None,
    gap: Array,
    left: Array | None = None,
) -> Estimate:
    """The estimate with one more jump in its errors, and the degrees of freedom that its jumps leave.

    `root` is the covariance root that the first factors of the estimate come from, unit by unit, `live` (..., players)
    are the players that are not known to be 0, and `gap` (..., outputs) is what units do not show of f(x) - v(0), the
    sum of their values. For an estimate with controls, `left` (..., components, outputs) are squares of what these
    leave in units of a new kind; infinite where nothing is known of it.
    """
    xp, speaking = namespace(estimate.values), terms.count_speaking()
    # f(x) may differ from v(0) although no unit shows any effect
    unseen = xp.maximum(terms.jump_if_unseen(weights), xp.abs(gap) * float(weights.max()))
    # in units of a jump of the row, since fourth powers overflow for outputs beyond 1e77
    unit = xp.maximum(unseen, xp.amax(xp.sqrt(estimate.variances), axis=-2))[..., None, :]
    unit = xp.where(unit > 0, unit, 1.0)
    variances, fourth = _sums_of_powers(estimate.factors / unit[..., None, :], root)
    new = None
    if left is not None:
        plain = _mean_jump(*_sums_of_powers(root.factors[..., 0] / unit[..., None, :], root))[..., None, :]
        new = xp.minimum(left / unit**2, plain)
        if speaking is not None:  # a player without effect in any unit shows nothing of a control
            new[..., :-1, :] = xp.where(speaking > 0, new[..., :-1, :], plain)
    n_factors = max(1.0, float(root.dof.sum()) - terms.n_fitted)
    fallback = (unseen / unit[..., 0, :]) ** 2
    jump, dof = spread_of_jumps(variances, fourth, speaking, fallback, n_factors, live, new)
    return replace(estimate, dof=dof, allowance=jump * unit**2)


def spread_of_jumps(
    variances: Array,
    fourth: Array,
    speaking: Array | None,
    fallback: Array,
    n_factors: float,
    live: Array | None,
    new: Array | None = None,
) -> tuple[Array, Array]:
    """Square of the jump that is added to the variances, and degrees of freedom, `(..., components, outputs)`.

    From sums of squares and of fourth powers of the jumps that were seen, of the same shape. `speaking` (..., players,
    outputs) bounds the number of units that show an effect of each player, `fallback` (..., outputs) is the square of a
    jump where none was seen, and `new` (..., components, outputs) that of a unit of a new kind, where it is larger than
    the jumps of the row.
    """
    xp = namespace(variances)
    moves = variances > ROUNDING**2
    own = xp.where(moves, fourth / xp.where(moves, variances, 1.0), 0.0)
    count = xp.where(moves, variances**2 / xp.where(moves, fourth, 1.0), 0.0)
    if speaking is not None:
        count[..., :-1, :] = xp.minimum(count[..., :-1, :], speaking)
    every = _mean_jump(variances, fourth)
    every = xp.where(moves[..., :-1, :].any(axis=-2), every, fallback)
    every = every[..., None, :] if new is None else xp.maximum(every[..., None, :], new)
    jump = xp.maximum(own, (count * own + every) / (count + 1.0))
    jump[..., -1, :] = own[..., -1, :]  # the base value is exact, or has an error of its own
    if live is not None:
        jump[..., :-1, :] = xp.where(live[..., None], jump[..., :-1, :], 0.0)
    error = variances + jump
    kurtosis = (fourth + jump**2) / xp.where(error > 0, error, 1.0) ** 2
    left = at_least(kurtosis - 1.0 / (n_factors + 1.0), 2.0 / n_factors)
    dof = xp.minimum(at_least(2.0 / left, FEWEST_DOF), to_like(np.array(n_factors), left))
    return jump, xp.where(error > 0, dof, np.inf)


def _sums_of_powers(factors: Array, root: CovarianceRoot) -> tuple[Array, Array]:
    """Sums of squares and of fourth powers `(..., components, outputs)` of factors, those of the root first."""
    squares = factors**2
    return squares.sum(axis=-3), sum_products(squares, _per_factor(root, squares) * squares, axis=-3)


def _mean_jump(variances: Array, fourth: Array) -> Array:
    """Square of a jump of the row, `(..., outputs)`: the mean over all jumps, weighted by their squares."""
    xp = namespace(variances)
    moves = variances[..., :-1, :] > ROUNDING**2
    total = xp.where(moves, variances[..., :-1, :], 0.0).sum(axis=-2)
    return xp.where(moves, fourth[..., :-1, :], 0.0).sum(axis=-2) / xp.where(total > 0, total, 1.0)


def _per_factor(root: CovarianceRoot, squares: Array) -> Array:
    """Weights `(n_factors, 1, 1)` of fourth powers.

    The deviations of k units from their mean have the sum of squares of k - 1 independent contrasts, and (k - 1) / k of
    their sum of fourth powers; with k = 2 they are one number with two signs.
    """
    weights = np.ones(squares.shape[-3])
    weights[: len(root.part)] = (np.bincount(root.part) / root.dof)[root.part]
    return to_like(weights[:, None, None], squares)


def compare_halves(estimate: Estimate, root: CovarianceRoot, terms: Terms, live: Array | None) -> Array | None:
    """Distance of the second half from 0, `(players, outputs)`, in half widths of the first half's interval.

    None for rows that were explained together, on a device, and where there are too few units.
    """
    if estimate.factors.ndim != 3 or not isinstance(estimate.factors, np.ndarray):
        return None
    contrasts = helmert_contrasts(estimate.factors[: len(root.part), :, :], root.part)
    first, second = contrasts[::2], contrasts[1::2]
    if len(second) < FEWEST_CONTRASTS:
        return None
    speaking = terms.count_speaking()
    return halves_apart(first, second, None if speaking is None else speaking / 2.0, live)


def halves_apart(first: FloatArray, second: FloatArray, speaking: Array | None, live: Array | None) -> FloatArray:
    """The same of two sets of contrasts `(n, components, outputs)`."""
    # in units of the largest, so that fourth powers do not overflow
    unit = max(float(np.abs(first).max(initial=0.0)), float(np.abs(second).max(initial=0.0)))
    if unit == 0.0:
        return np.zeros((first.shape[1] - 1, first.shape[2]))
    squares = 2.0 * (first / unit) ** 2
    variances, fallback = squares.sum(axis=0), np.ones(first.shape[2])
    jump, dof = spread_of_jumps(variances, (squares**2).sum(axis=0), speaking, fallback, float(len(first)), live)
    error = np.sqrt(variances + jump)[:-1]
    half_width = -stdtrit(np.minimum(dof, 1e12), (1.0 - LEVEL) / 2.0)[:-1] * error
    apart = np.sqrt(2.0) * np.abs(second.sum(axis=0))[:-1] / unit
    silent = np.where(apart > 0, FARTHEST, 0.0)  # the first half shows no effect
    found: FloatArray = np.where(half_width > 0, apart / np.where(half_width > 0, half_width, 1.0), silent)
    return np.minimum(found, FARTHEST)


def helmert_contrasts(factors: FloatArray, part: IntArray) -> FloatArray:
    """Contrasts of the factors `(n, ...)` of each part: one fewer than its factors, with the same sum of squares."""
    xp = namespace(factors)
    order = np.argsort(part, kind="stable")
    sizes = np.bincount(part)
    start = np.repeat(np.cumsum(sizes) - sizes, sizes)
    place = np.arange(len(part)) - start  # of each factor within its part
    values = factors[order]
    before = np.concatenate([np.zeros((1, *values.shape[1:])), xp.cumsum(values, axis=0)])
    before = before[:-1] - before[start]  # sums of the factors before each one in its part
    later = np.flatnonzero(place > 0)
    k = place[later].reshape(-1, *[1] * (factors.ndim - 1)).astype(float)
    contrasts: FloatArray = (k * values[later] - before[later]) / np.sqrt(k * (k + 1.0))
    return contrasts
