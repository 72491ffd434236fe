"""Extra variance from background rows that no unit has sampled, and degrees of freedom from units that say something.

With independent features a player changes nothing in background rows that agree with x in its columns. Of M rows let m
differ. Until a unit draws one of these, all that the player has is missing from its value, and from its error, which
comes from the units: both are 0, or what a control says. What is missing is m / M times the mean change in the m rows.
Once some units did, they alone carry its variance, however many units there are.

Along a walk that starts at row b all contributions together are f(x) - f(b), less what a control has of it. f and
control are known at every row, so the variance of that sum over all rows is, too. Where it is larger than over the rows
that were drawn, rare rows that matter were not, and the difference is missing from the variance
(docs/mathematics.md, section 13; measured in benchmarks/results/rare_rows.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from controlshap._arrays import (
    Array,
    at_least,
    concat,
    count_distinct,
    is_tensor,
    mean_where,
    namespace,
    take,
    take_rows,
    to_double,
    variance,
    where_any,
    zeros,
)
from controlshap.data.players import Players
from controlshap.statistics.analysis import Analysis
from controlshap.statistics.control_variate import Estimate

#: Units that draw a row in which a player differs, below which they limit its degrees of freedom: Student's quantile
#: at 95 % with 29 degrees of freedom is 4 % above the normal one.
FEW_UNITS = 30
#: Times as large as over the rows that were drawn that a variance over all rows must be, beyond chance: the variance of
#: 20 normal draws is that much too small in 7 % of cases, of 50 in 1 %.
MUCH_LARGER = 1.5
#: Largest difference of coefficients that are taken for the same: the sum of contributions is then off by a tenth of
#: the control at most.
SAME_ALPHA = 0.1
#: Units times draws times players that are looked at together, bounding the memory to a few megabytes.
AT_ONCE = 2**22


@dataclass(frozen=True)
class UnseenRows:
    """What units have drawn of a background of M rows, and what is known of all rows.

    Attributes
    ----------
    differs : array of bool, shape (..., M, players)
        In which background rows which players are not as in x.
    drawn : array of int, shape (..., units, draws)
        Rows that units drew.
    changes : array of shape (..., M, outputs, functions) or None
        What model and surrogates say of x, less what they say of each row; None where all rows are known to be drawn.
    """

    differs: Array
    drawn: Array
    changes: Array | None

    @cached_property
    def fraction(self) -> Array:
        """Share of the background rows that were drawn, `(...)`."""
        flat = self.drawn.reshape(*self.drawn.shape[:-2], -1)
        return count_distinct(flat, self.differs.shape[-2]) / self.differs.shape[-2]

    @property
    def all_drawn(self) -> bool:
        """Whether every row is known to be drawn; a tensor is not read to find out."""
        return self.changes is None or (not is_tensor(self.fraction) and bool((self.fraction >= 1.0).all()))

    @cached_property
    def n_telling(self) -> Array:
        """Units `(..., players)` that drew a row in which a player differs."""
        *leading, n_units, n_draws = self.drawn.shape
        n_players = self.differs.shape[-1]
        count = 0
        step = max(1, AT_ONCE // (n_draws * n_players * int(np.prod(leading))))
        for start in range(0, n_units, step):
            some = self.drawn[..., start : start + step, :]
            differs = take_rows(self.differs, some.reshape(*leading, -1))
            count = count + differs.reshape(*leading, -1, n_draws, n_players).any(axis=-2).sum(axis=-2)
        return count

    def widen(
        self, estimate: Estimate, controls: Array | None, alpha: Array, *, efficient: bool, sums: bool = True
    ) -> Estimate:
        """The estimate with what is missing.

        `controls` (..., M, outputs, controls) are the changes of the controls and `alpha` (..., players, outputs,
        controls) their coefficients; `controls` is None where every row was drawn. `sums` says that the components of a
        draw add up to its change.
        """
        xp, n_telling = namespace(estimate.values), self.n_telling
        few = (n_telling > 0) & (n_telling < min(FEW_UNITS, self.drawn.shape[-2]))
        most = xp.where(few, at_least(to_double(n_telling) - 1.0, 1.0), np.inf)
        most = concat([most, xp.full_like(most[..., :1], np.inf)], axis=-1)
        estimate = replace(estimate, dof=xp.minimum(estimate.dof, most[..., None]))
        if controls is None:
            return estimate
        added = self._of_players(controls, alpha, efficient=efficient)
        factors = estimate.factors
        if sums:
            factors = factors * xp.sqrt(self._inflation(estimate, controls, alpha))[..., None, None, :]
        return replace(estimate, factors=concat([factors, added], axis=-3))

    def _left(self, controls: Array, alpha: Array) -> Array:
        """What controls leave of the model's changes, `(..., k, M, outputs)` for `alpha` (..., k, outputs, controls).

        Without controls k is 1.
        """
        assert self.changes is not None
        model = self.changes[..., None, :, :, 0]
        if controls.shape[-1] == 0:
            return model
        return model - namespace(model).einsum("...bos,...kos->...kbo", controls, alpha)

    def _of_players(self, controls: Array, alpha: Array, *, efficient: bool) -> Array:
        """Factors `(..., players, components, outputs)` of players that no unit tells of, 0 for others.

        The change in rows that were not drawn is taken to be as large as the sum of all, or as that is spread over the
        background. Where values are efficient, the other players have it in equal parts with the other sign.
        """
        xp, n_players = namespace(alpha), self.differs.shape[-1]
        missing = self.n_telling == 0
        players = where_any(missing)
        if len(players):
            missing = missing & self.differs.any(axis=-2)
            players = where_any(missing)
        shape = (*alpha.shape[:-3], len(players), n_players + 1, alpha.shape[-2])
        if not len(players):
            return zeros(shape, alpha)
        unseen = take(self.differs, players, axis=-1).swapaxes(-1, -2)
        left = self._left(controls, take(alpha, players, axis=-3))
        size = xp.maximum(xp.sqrt(variance(left, axis=-2, ddof=0)), xp.sqrt(mean_where(left**2, unseen)))
        own = to_double(unseen).mean(axis=-1)[..., None] * size
        own = xp.where(take(missing, players, axis=-1)[..., None], own, 0.0)
        factors = zeros(shape, alpha)
        if efficient:
            factors[..., :-1, :] = (-own / max(1, n_players - 1))[..., None, :]
        factors[..., np.arange(len(players)), players, :] = own
        return factors

    def _inflation(self, estimate: Estimate, controls: Array, alpha: Array) -> Array:
        """How many times larger `(..., outputs)` the variances are than units show, alike for all players."""
        xp, size = namespace(alpha), self.drawn.shape[-2] * self.drawn.shape[-1]
        left = self._left(controls, alpha.mean(axis=-3, keepdims=True))[..., 0, :, :]
        met = take_rows(left, self.drawn.reshape(*self.drawn.shape[:-2], -1))
        of_all, of_met = variance(left, axis=-2, ddof=0), variance(met, axis=-2, ddof=0)
        missing = (1.0 - self.fraction)[..., None] * (of_all - of_met) / size
        shown = estimate.variances[..., :-1, :].sum(axis=-2)
        # contributions add up to what is left where all players have the same coefficients
        same = (xp.amax(alpha, axis=-3) - xp.amin(alpha, axis=-3) <= SAME_ALPHA).all(axis=-1)
        much = (of_all > MUCH_LARGER * of_met) & (shown > 0) & same
        return xp.where(much, 1.0 + missing / xp.where(shown > 0, shown, 1.0), 1.0)


def add_unseen_rows(
    analysis: Analysis, unseen: UnseenRows, fitted_changes: Callable[[], Array] | None = None, *, efficient: bool
) -> Analysis:
    """Widen the errors by what was not drawn: of the model, and of what its controls leave of it.

    `fitted_changes` gives what functions that were fitted say of x, less what they say of each row, `(..., M, outputs,
    learners)`; they have two coefficients each, of which the first counts.
    """
    alpha = analysis.alpha[..., :-1, :, :]
    n_alpha, plain = alpha.shape[-1], alpha[..., :0]
    controls = nothing = None
    if not unseen.all_drawn and unseen.changes is not None:
        controls = unseen.changes[..., 1:]
        nothing, n_prepared = controls[..., :0], controls.shape[-1]
        if fitted_changes is not None:
            controls = concat([controls, fitted_changes()], axis=-1)
        firsts = [*range(n_prepared), *range(n_prepared, n_alpha, 2)][: controls.shape[-1]]
        alpha = take(alpha, np.array(firsts, dtype=np.int64), axis=-1)
    uncontrolled = controlled = unseen.widen(analysis.uncontrolled, nothing, plain, efficient=efficient)
    if n_alpha:
        controlled = unseen.widen(analysis.controlled, controls, alpha, efficient=efficient)
    return replace(analysis, controlled=controlled, uncontrolled=uncontrolled)


def differs_from_x(x: Array, rows: Array, players: Players) -> Array:
    """In which rows which players `(..., rows, players)` are not as in x `(..., columns)`; gaps are alike."""
    xp, x = namespace(rows), x[..., None, :]
    columns = (rows != x) & ~(xp.isnan(rows) & xp.isnan(x))
    if not players.is_grouped:
        return columns
    return xp.stack([take(columns, own, axis=-1).any(axis=-1) for own in players.columns], axis=-1)
