"""The limits of a call: budget, tolerances, stop rules, level and time, declared once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, TypedDict

from controlshap._checks import check_guarantee, check_level, check_positive, check_range, check_whole
from controlshap._errors import InvalidArgumentError
from controlshap.statistics.stopping import Stopping, parse_rules

#: Model evaluations of a row by default.
DEFAULT_BUDGET = 10_000
#: Most evaluations of a row by default if it has goals to stop at.
EARLY_BUDGET = 1_000_000


class LimitOptions(TypedDict, total=False):
    """The fields of `Limits` as keyword arguments."""

    budget: int | None
    tolerance: float | None
    absolute_tolerance: float | None
    stop: str | Sequence[str] | None
    level: float
    time_limit: float | None
    interactions: int | None
    surrogate: str | None
    guarantee: Literal["finite"] | None
    output_range: tuple[float, float] | None


@dataclass(frozen=True, kw_only=True)
class Limits:
    """When a row stops, and what it computes beside values; the arguments of a call with the same names.

    Attributes
    ----------
    budget : int or None
        Most model evaluations for each row; by default 10,000 (up to 40,000 where the values are then exact), or
        1,000,000 with a rule to stop by.
    tolerance : float or None
        Stop when the largest standard error is below this share of the spread of the values.
    absolute_tolerance : float or None
        Stop when the largest standard error is below this.
    stop : str, list of str or None
        Stop when this is certain: "signs", "top 5", "ranking", "ranking 5", or "top 3 interactions", which brings
        interactions.
    level : float
        Probability that everything that `stop` certifies for a row (and output) is right.
    time_limit : float or None
        Most seconds for each row, roughly.
    interactions : {None, 2}
        2 for pairwise interactions beside the values, from the same evaluations.
    surrogate : {None, "online"}
        "online" for rows that are controlled by what was learned from the rows before them.
    guarantee : {None, "finite"}
        "finite" for intervals that hold for any number of units.
    output_range : (float, float) or None
        Range that the model's outputs cannot leave, for the guarantee.
    """

    budget: int | None = None
    tolerance: float | None = None
    absolute_tolerance: float | None = None
    stop: str | Sequence[str] | None = None
    level: float = 0.95
    time_limit: float | None = None
    interactions: int | None = None
    surrogate: str | None = None
    guarantee: Literal["finite"] | None = None
    output_range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.budget is not None:
            check_whole("budget", self.budget, 1, "model evaluations a row")
        check_positive("tolerance", self.tolerance, "a share of the spread of the values", "Use for example 0.01.")
        check_positive(
            "absolute_tolerance", self.absolute_tolerance, "a standard error in the units of the output",
            "Or use `tolerance`.",
        )  # fmt: skip
        check_positive("time_limit", self.time_limit, "seconds for each row", "Leave it out for none.")
        check_level(self.level)
        check_guarantee(self.guarantee, self.output_range)
        if self.guarantee is not None and self.surrogate is not None:
            raise InvalidArgumentError("`guarantee` rules out controls, and `surrogate` is one. Leave one of them out.")
        if self.interactions is not None and (isinstance(self.interactions, bool) or self.interactions != 2):
            raise InvalidArgumentError(
                f"`interactions` must be 2, for pairs of players, or None; got {self.interactions!r}."
            )

        if self.surrogate not in (None, "online"):
            raise InvalidArgumentError(
                f"`surrogate` must be 'online' or None; got {self.surrogate!r}. For one that is fitted before, call "
                "`explainer.fit_surrogate`."
            )

    def stopping(self, n_players: int, *, staged: bool = False) -> Stopping:
        """The limits for the loop over a row; refuses rules that do not fit the players."""
        rules = parse_rules(self.stop, n_players)
        interactions = self.interactions is not None or any(rule.of_pairs for rule in rules)
        if interactions and n_players < 2:
            raise InvalidArgumentError("`interactions=2` is about pairs of players, and there is one player only.")
        if interactions and self.guarantee is not None:
            raise InvalidArgumentError("`guarantee` is about values: interactions have none. Leave one of them out.")
        goals = (self.tolerance, self.absolute_tolerance, self.time_limit)
        default = EARLY_BUDGET if rules or any(goal is not None for goal in goals) else DEFAULT_BUDGET
        return Stopping(
            budget=default if self.budget is None else int(self.budget),
            tolerance=None if self.tolerance is None else float(self.tolerance),
            absolute=None if self.absolute_tolerance is None else float(self.absolute_tolerance),
            rules=rules,
            alpha=1.0 - float(self.level),
            time_limit=None if self.time_limit is None else float(self.time_limit),
            staged=staged,
            is_default=self.budget is None and default == DEFAULT_BUDGET,
            interactions=interactions,
            online=self.surrogate == "online",
            output_range=None if self.output_range is None else check_range(self.output_range),
        )

    def describe(self, stopping: Stopping) -> dict[str, Any]:
        """Settings for a result to keep: the budget that applied, and the rules as a list."""
        rules = [self.stop] if isinstance(self.stop, str) else list(self.stop or [])
        given = None if stopping.output_range is None else list(stopping.output_range)
        numbers = {"output_range": given, "tolerance": stopping.tolerance, "absolute_tolerance": stopping.absolute}
        pairs = {"interactions": 2 if stopping.interactions else None}
        return asdict(self) | numbers | pairs | {
            "budget": stopping.budget, "stop": rules, "time_limit": stopping.time_limit,
        }  # fmt: skip


def read_limits(method: str, given: Mapping[str, Any]) -> Limits:
    """The limits among the keyword arguments of a method of `Explainer`, which takes no others."""
    known = [one.name for one in fields(Limits)]
    unknown = [name for name in given if name not in known]
    if unknown:
        raise TypeError(
            f"Explainer.{method}() got an unexpected keyword argument {unknown[0]!r}. Of the arguments of a call it "
            f"takes {', '.join(known)}; settings, such as seconds_per_evaluation, belong to Explainer(...)."
        )
    return Limits(**given)
