"""KernelSHAP: coalitions from the Shapley kernel, constrained least squares in closed form (the paper's equation 5).

A unit is a coalition and, by default, its complement, with the same draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._types import BoolArray, FloatArray
from controlshap.estimators.base import Evaluator, UnitDraws
from controlshap.estimators.kernel_sampling import sample_coalitions
from controlshap.estimators.permutation import check_draws
from controlshap.statistics.terms import LeastSquaresTerms


@final
@dataclass(frozen=True)
class Kernel:
    """KernelSHAP.

    Parameters
    ----------
    paired : bool
        Evaluate each coalition together with its complement.
    n_draws : int
        Draws averaged for each coalition; the number of background rows uses all of them every time, as shap
        does.
    reuse : bool
        Evaluate a pair of coalitions once, however often it is drawn; for pairs, and `n_draws` the number of background
        rows. The units that a budget buys are then more.
    closes_sum : bool
        Spread the gap to f(x) - v(0) that a control leaves over the values; the paper does not.
    """

    paired: bool = True
    n_draws: int = 1
    reuse: bool = False
    closes_sum: bool = True

    def __post_init__(self) -> None:
        check_draws(self.n_draws)
        if self.reuse and not self.paired:
            raise InvalidArgumentError("`reuse=True` keeps pairs of coalitions; use paired=True.")

    @property
    def is_least_squares(self) -> bool:
        """A regression."""
        return True

    @property
    def settles_draws(self) -> bool:
        """Most coalitions stay open."""
        return False

    @property
    def needs_spare_draws(self) -> bool:
        """One set of draws serves a coalition and its complement."""
        return False

    def draws_base(self, *, finite: bool) -> bool:  # noqa: ARG002
        """The regression takes v(0) as given."""
        return False

    def unit_cost(self, n_players: int, *, finite: bool) -> int:  # noqa: ARG002
        """One evaluation for each coalition and draw."""
        return self.n_draws * (2 if self.paired else 1)

    def fewest_units(self, n_players: int) -> int:
        """Random coalitions need to be several times as many as players to determine them all."""
        return 3 * n_players + 2

    def sample(self, n_players: int, n_units: int, rng: np.random.Generator) -> BoolArray:
        """Coalitions from the kernel."""
        return sample_coalitions(n_players, n_units, rng)

    def terms(self, game: Evaluator, design: BoolArray, draws: UnitDraws) -> LeastSquaresTerms:
        """Regression rows."""
        total = game.at_x - draws.base
        if self.paired:
            both = np.stack([design, ~design], axis=1)
            evaluate = game.repeated_values if self.reuse else game.coalition_values
            values = evaluate(both, draws.rows)  # (u, 2, d, o, f)
            by_draw = 0.5 * (values[:, 0] - values[:, 1])
        else:
            by_draw = game.coalition_values(design[:, None], draws.rows)[:, 0] - draws.base
        return LeastSquaresTerms(self.regressors(design), by_draw.mean(axis=1), by_draw, total, draws.base, self.paired)

    def regressors(self, design: BoolArray) -> FloatArray:
        """Those of pairs are held against a half."""
        return np.asarray(design - 0.5 if self.paired else design.astype(float))

    def gather(self, parts: Sequence[LeastSquaresTerms]) -> LeastSquaresTerms:
        """Stack."""
        first = parts[0]
        if len(parts) == 1:
            return first
        return LeastSquaresTerms(
            np.concatenate([part.regressors for part in parts]),
            np.concatenate([part.targets for part in parts]),
            np.concatenate([part.draw_targets for part in parts]),
            first.total,
            first.base,
            first.paired,
        )
