"""When to stop: pure functions of a snapshot.

Rules are checked after stages, whose number is fixed before the first. Each check may be wrong with an equal share of
`1 - level` (alpha spending: the chance that any look is wrong is at most their sum), so what a rule has certified holds
at the level although its result decided when to stop.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._types import FloatArray
from controlshap.statistics.certainty import (
    NEGLIGIBLE,
    cut_ratios,
    magnitude_order,
    order_ratios,
    quantile,
    separated_by,
    sidak_half_widths,
    sign_ratios,
    top_ratio,
)

#: How many times as long as the one before each stage is.
GROWTH = 1.4
#: Fewest units at the first look, and at the first look of a rule, whose far quantiles need more degrees of freedom.
FIRST_UNITS, FIRST_RULE_UNITS = 16, 40
#: A last stage before the time limit adds at least this share of the units.
WORTH = 0.05


@dataclass(frozen=True)
class Snapshot:
    """Values `(..., p, outputs)`, their covariance `(..., outputs, p, p)` and degrees of freedom `(..., p, outputs)`.

    Leading axes are for rows that are explained together, and ratios have them. `pairs` has interactions, their errors
    and degrees of freedom, `(pairs, outputs)` each, where a rule asks for them.
    """

    values: FloatArray
    covariance: FloatArray
    dof: FloatArray
    pairs: tuple[FloatArray, FloatArray, FloatArray] | None = None

    @property
    def errors(self) -> FloatArray:
        """Standard errors `(..., p, outputs)`."""
        errors: FloatArray = np.sqrt(np.einsum("...opp->...po", self.covariance))
        return errors


@dataclass(frozen=True)
class Rule:
    """A stop rule: the signs, or the places in the order, that must be certain.

    Attributes
    ----------
    kind : {"signs", "top", "ranking"}
    k : int or None
        How many of the largest; None for all.
    of_pairs : bool
        Whether the largest are interactions.
    """

    kind: str
    k: int | None = None
    of_pairs: bool = False

    @property
    def text(self) -> str:
        """The rule as the user wrote it."""
        return self.kind + (f" {self.k}" if self.k else "") + (" interactions" if self.of_pairs else "")

    def ratio(self, snapshot: Snapshot, alpha: float) -> Any:
        """Factor by which the errors are too large, at level `1 - alpha` for each output."""
        n_outputs = snapshot.values.shape[-1]
        return np.max([self._ratio(snapshot, output, alpha) for output in range(n_outputs)], axis=0)

    def certain_by(self, values: FloatArray, low: FloatArray, high: FloatArray) -> bool:
        """Whether intervals `(p, outputs)` that hold all values together leave only one answer."""
        return all(self._certain_by(*of_output) for of_output in zip(values.T, low.T, high.T, strict=True))

    def _certain_by(self, values: FloatArray, low: FloatArray, high: FloatArray) -> bool:
        if self.kind == "signs":
            largest = np.maximum(-low, high)
            return bool(((low > 0) | (high < 0) | (largest <= NEGLIGIBLE * np.abs(values).max(initial=0.0))).all())
        apart = separated_by(low, high, magnitude_order(values))
        if self.kind == "top":
            return self.k is None or bool(apart[self.k - 1])
        return bool(apart[: self.k].all())

    def _ratio(self, snapshot: Snapshot, output: int, alpha: float) -> Any:
        if self.of_pairs:
            assert snapshot.pairs is not None
            assert self.k is not None
            pairs, pair_errors, pair_dof = (part[:, output] for part in snapshot.pairs)
            return top_ratio(pairs, sidak_half_widths(pair_errors, pair_dof, np.array(alpha), axis=0), self.k)
        values, dof = snapshot.values[..., output], snapshot.dof[..., output]
        if self.kind == "signs":
            return sign_ratios(values, snapshot.errors[..., output], dof, alpha).max(axis=-1)
        ratios = order_ratios(values, snapshot.covariance[..., output, :, :], dof, alpha)
        cuts = cut_ratios(ratios, magnitude_order(values))
        if self.kind == "top":
            return cuts[..., self.k - 1] if self.k is not None else np.zeros(values.shape[:-1])
        return cuts[..., : self.k].max(axis=-1, initial=0.0)


def widen_interval(dof: FloatArray) -> FloatArray:
    """Width of a 95 % interval with so many degrees of freedom, relative to that of a known error."""
    return np.asarray(quantile(dof, 0.025) / quantile(np.array(np.inf), 0.025))


def parse_rules(stop: Any, n_players: int) -> tuple[Rule, ...]:
    """`stop=`: "signs", "top 5", "ranking", "ranking 5", "top 3 interactions", or several in a list."""
    if stop is None:
        return ()
    rules = []
    several = list(stop) if isinstance(stop, (list, tuple)) and len(stop) else [stop]
    for rule in several:
        form = r"(signs|ranking|(?:top|ranking)\s+(\d+)|top\s+(\d+)\s+interactions?)"
        match = re.fullmatch(form, rule.strip()) if isinstance(rule, str) else None
        if match is None:
            raise InvalidArgumentError(
                f"`stop` must be 'signs', 'top 5', 'ranking', 'ranking 5' or 'top 3 interactions' (or other numbers), "
                f"or a list of them; got {rule!r}."
            )
        if match[3]:
            rules.append(_pair_rule(int(match[3]), n_players))
            continue
        k = int(match[2]) if match[2] else None
        if n_players == 1 and match[2]:
            raise InvalidArgumentError(f"`stop={rule!r}` is about the order of players, and there is one player only.")
        if k is not None and not 1 <= k < n_players:
            raise InvalidArgumentError(
                f"`stop={rule!r}` needs a number from 1 to {n_players - 1}: there are {n_players} players."
            )
        rules.append(Rule(match[1].split()[0], k))
    return tuple(rules)


def _pair_rule(k: int, n_players: int) -> Rule:
    """The largest k interactions."""
    n_pairs = n_players * (n_players - 1) // 2
    if not 1 <= k < n_pairs:
        range_of = f"a number from 1 to {n_pairs - 1}" if n_pairs > 1 else "two pairs or more"
        raise InvalidArgumentError(
            f"`stop='top {k} interactions'` needs {range_of}: there are {n_players} players, {n_pairs} pairs."
        )
    return Rule("top", k, of_pairs=True)


@dataclass(frozen=True)
class Stopping:
    """The most evaluations of a row, and the goals that end its run earlier.

    Attributes
    ----------
    budget : int
    tolerance, absolute : float or None
        Largest standard error, divided by the spread (largest minus smallest) of the values, as in Covert and Lee; or
        undivided.
    rules : tuple of Rule
        All of these must be certain.
    alpha : float
        Chance that any of the rules is wrong, for each row and output.
    time_limit : float or None
        Seconds for the row.
    planned : int or None
        Budget that estimator and control were chosen for, where this is a continuation.
    was_early, was_by_pairs : bool
        Whether the run that is continued could end early, and by interactions.
    alpha_fraction : float
        Share of alpha for all looks of this run; less than 1 where an earlier run was looked at already.
    staged : bool
        Whether the run has stages although nothing can end it early, to show how the estimates settle.
    is_default : bool
        Whether the budget is the default, so that a few times as much may be spent where the values are then exact.
    interactions : bool
        Whether pairwise interactions are asked for beside values.
    online : bool
        Whether rows are controlled by what was learned from the rows before them.
    output_range : tuple of float, or None
        Range of the model's outputs, where intervals must hold for any number of units.
    """

    budget: int
    tolerance: float | None = None
    absolute: float | None = None
    rules: tuple[Rule, ...] = ()
    alpha: float = 0.05
    time_limit: float | None = None
    planned: int | None = None
    was_early: bool = False
    was_by_pairs: bool = False
    alpha_fraction: float = 1.0
    staged: bool = False
    is_default: bool = False
    interactions: bool = False
    online: bool = False
    output_range: tuple[float, float] | None = None

    @property
    def looks(self) -> bool:
        """Whether results may end a run before its budget."""
        return self.tolerance is not None or self.absolute is not None or bool(self.rules)

    @property
    def needs_pairs(self) -> bool:
        """Whether a rule is about interactions."""
        return any(rule.of_pairs for rule in self.rules)

    @property
    def by_pairs(self) -> bool:
        """Whether interactions may end the run, as far as choices of the design are concerned."""
        return self.was_by_pairs if self.planned is not None else self.needs_pairs

    @property
    def goals(self) -> str:
        """The goals of the run, as the user wrote them."""
        asked = [f"tolerance={self.tolerance}"] if self.tolerance is not None else []
        asked += [f"absolute_tolerance={self.absolute}"] if self.absolute is not None else []
        asked += [f"stop={rule.text!r}" for rule in self.rules]
        return " and ".join(asked)

    @property
    def early(self) -> bool:
        """Whether a run may end before its budget, as far as choices of the design are concerned."""
        return self.was_early if self.planned is not None else self.looks or self.time_limit is not None

    @property
    def design_budget(self) -> int:
        """Budget that estimator and control are chosen for."""
        return self.budget if self.planned is None else self.planned

    def error_ratio(self, snapshot: Snapshot, alpha_fraction: float) -> Any:
        """Largest factor by which the errors are too large for the goals: 1 or less meets them, and 1 without goals.

        This look may be wrong with the share `alpha_fraction` of alpha.
        """
        if not self.looks:
            return 1.0
        ratios = [rule.ratio(snapshot, alpha_fraction * self.alpha / len(self.rules)) for rule in self.rules]
        # an error with few degrees of freedom may be far too small, and stopping selects for small ones
        largest = (snapshot.errors * widen_interval(snapshot.dof)).max(axis=-2)
        if self.absolute is not None:
            ratios.append((largest / self.absolute).max(axis=-1))
        if self.tolerance is not None:
            values = snapshot.values
            limit = self.tolerance * (np.ptp(values, axis=-2) if values.shape[-2] > 1 else np.abs(values[..., 0, :]))
            short = np.where(limit > 0, largest / np.where(limit > 0, limit, 1.0), np.where(largest > 0, np.inf, 0.0))
            ratios.append(short.max(axis=-1))
        return np.max(ratios, axis=0)

    @property
    def first_look(self) -> int:
        """Fewest units before anything is concluded."""
        return FIRST_RULE_UNITS if self.rules else FIRST_UNITS

    def first_stage(self, fewest: int, most: int) -> int:
        """Units of the first stage: few where time may be short, else as many as the first look needs."""
        if not self.looks and self.time_limit is None and not self.staged:
            return most
        return min(most, max(fewest, 2 if self.time_limit is not None else self.first_look))

    def next_stage(self, n_units: int, most: int, seconds: float, n_before: int = 0) -> int:
        """Units of the next stage, after `seconds` for those beyond `n_before`; the same number where time is up."""
        if n_units >= most:
            return n_units
        step = (
            min(most, int(np.ceil(n_units * GROWTH)))
            if self.looks or self.time_limit is not None or self.staged
            else most
        )
        if self.time_limit is None:
            return step
        if n_units == n_before:  # nothing has been timed yet
            return min(step, n_units + max(2, int(WORTH * n_units)))
        affordable = n_before + int((n_units - n_before) * self.time_limit / max(seconds, 1e-9))
        enough = n_units + max(1.0, WORTH * (n_units - n_before))
        return min(step, affordable) if affordable >= enough else n_units

    def n_looks(self, start: int, most: int) -> int:
        """The number of looks if none ends the run; one where nothing was asked for."""
        if not self.looks:
            return 1
        stages = [start]
        while stages[-1] < most:
            stages.append(min(most, int(np.ceil(stages[-1] * GROWTH))))
        return max(1, sum(n >= self.first_look or n == most for n in stages))
