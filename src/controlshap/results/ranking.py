"""The order of the players of a row, and how much of it is certain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._checks import is_whole
from controlshap._errors import InvalidArgumentError
from controlshap._imports import require
from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.data.table import RowName
from controlshap.results.axes import label_rows, take_one, with_outputs
from controlshap.results.intervals import covariance_with_background
from controlshap.statistics.certainty import (
    magnitude_order,
    mark_separated,
    order_ratios,
    separated_by,
    swap_probabilities,
)

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation


#: What certificates rest on: of exact values, and of sampled ones.
ENUMERATED, KNOWN_FORM = "by enumeration", "by the known form of the model"
RANGE, SAMPLED = "by range", "if no unseen jump is larger than those seen"
BACKGROUND = "if the background is a sample of a population"


@dataclass(frozen=True, eq=False)
class Ranking:
    """Players by decreasing magnitude of their values, row by row.

    With probability `level`, everything that is certified about a row (and output) is right: all top-k sets and all
    orders together, also where the run stopped as soon as it could certify them (`docs/mathematics.md`).

    Attributes
    ----------
    order : ndarray of shape (rows, players) or (rows, players, outputs)
        Players' numbers, largest magnitude first.
    separated : ndarray of bool, shape (rows, players - 1) or (rows, players - 1, outputs)
        Entry k: the first k + 1 of the order are certified to be the k + 1 largest.
    swap_probability : ndarray of the same shape
        Chance that a rerun of the same size puts the k-th neighbours the other way round, over all true gaps that the
        estimate leaves possible.
    level : float
    feature_names : tuple of str
        Names of the players.
    rests_on : tuple of str
        What certificates of each row rest on: "by enumeration", "by the known form of the model", "by range" (with
        `guarantee="finite"`), "if no unseen jump is larger than those seen", or (exact values, with `background=True`)
        "if the background is a sample of a population".
    output_names : tuple of str or None
        Names that may stand in place of the numbers of outputs.
    output_labels : tuple of str
        Each output in words, as `Explanation.output_labels`.
    row_labels : sequence of str or int
        Name or number of each row.
    row_names : tuple of str or int, or None
        Names that may stand in place of the numbers of rows.
    background : bool
        Whether the choice of the background rows is part of the errors.
    """

    order: IntArray
    separated: BoolArray
    swap_probability: FloatArray
    level: float
    feature_names: tuple[str, ...]
    rests_on: tuple[str, ...] = ()
    output_names: tuple[str, ...] | None = None
    output_labels: tuple[str, ...] = ()
    row_labels: Sequence[RowName] = ()
    row_names: tuple[RowName, ...] | None = None
    background: bool = False

    @property
    def n_ordered(self) -> IntArray:
        """Number of the largest players whose order is certified, shape (rows,) or (rows, outputs)."""
        count: IntArray = np.cumprod(self.separated, axis=1).sum(axis=1)
        # when all neighbours are separated, the last player has its place, too
        return np.where(count == self.separated.shape[1], count + 1, count)

    def top(self, k: int, row: int | str = 0, output: int | str | None = None) -> tuple[str, ...] | None:
        """Names of the k largest players of a row, in the estimated order; None where the set is not certified."""
        p = len(self.feature_names)
        if not is_whole(k) or not 1 <= k <= p:
            raise InvalidArgumentError(f"`k` must be a number of players, 1 to {p}; got {k!r}.")
        order, separated = self._of(row, output)
        return self._names(order[:k]) if k == p or separated[k - 1] else None

    def names(self, row: int | str = 0, output: int | str | None = None) -> tuple[str, ...]:
        """All players of a row in the estimated order."""
        return self._names(self._of(row, output)[0])

    def _names(self, players: IntArray) -> tuple[str, ...]:
        return tuple(self.feature_names[player] for player in players)

    def _of(self, row: int | str, output: int | str | None) -> tuple[IntArray, BoolArray]:
        names = self.output_names, self.row_names
        return take_one(self.order, row, output, *names), take_one(self.separated, row, output, *names)

    def describe(self, row: int | str = 0, output: int | str | None = None) -> str:
        """A row in words: `age > income > {debt, tenure}`; braces hold what is not certified, or tied."""
        order, separated = self._of(row, output)
        groups: list[list[str]] = [[]]
        for place, name in enumerate(self._names(order)):
            groups[-1].append(name)
            if place < len(separated) and separated[place]:
                groups.append([])
        return " > ".join(group[0] if len(group) == 1 else "{" + ", ".join(group) + "}" for group in groups)

    def __repr__(self) -> str:
        from controlshap.results.show import show_ranking

        return show_ranking(self)

    def _repr_html_(self) -> str:
        from controlshap.results.show import ranking_as_html

        return ranking_as_html(self)

    def to_frame(self) -> Any:
        """A pandas frame: one line for each row, output and place."""
        pandas = require("pandas", extra="frames", feature="`to_frame()`")
        several = self.order.ndim == 3
        order = self.order if several else self.order[..., None]
        rows, p, outputs = order.shape
        index = np.indices((rows, p, outputs)).reshape(3, -1)

        def below(array: Any, last: Any) -> Any:
            shaped = array if several else array[..., None]
            return np.concatenate([shaped, np.full((rows, 1, outputs), last)], axis=1).reshape(-1)

        frame = {
            "row": np.array(self.row_labels or range(rows), dtype=object)[index[0]],
            "place": index[1] + 1,
            "feature": np.array(self.feature_names, dtype=object)[order.reshape(-1)],
            "separated_from_next": below(self.separated, True),
            "swap_probability": below(self.swap_probability, 0.0),
        }
        if several:
            frame["output"] = index[2]
        return pandas.DataFrame(frame)


def rank(explanation: Explanation, level: float, *, background: bool) -> Ranking:
    """The ranking of every row and output."""
    values = with_outputs(explanation, "values")
    if background:
        covariance, dof = covariance_with_background(explanation)
    else:
        covariance, dof = (with_outputs(explanation, name) for name in ("covariance", "degrees_of_freedom"))
    n_rows, p, n_outputs = values.shape
    bounds = _bounds(explanation, level, background=background)
    order = np.empty((n_rows, p, n_outputs), dtype=np.int64)
    cuts = np.empty((n_rows, p - 1, n_outputs), dtype=bool)
    swaps = np.empty((n_rows, p - 1, n_outputs))
    for row in range(n_rows):
        alpha = (1.0 - level) * explanation.look_shares[row]
        for output in range(n_outputs):
            estimates, spread, freedom = values[row, :, output], covariance[row, output], dof[row, :, output]
            players = magnitude_order(estimates)
            order[row, :, output] = players
            if bounds is not None:
                cuts[row, :, output] = separated_by(bounds[0, row, :, output], bounds[1, row, :, output], players)
            else:
                ratios = order_ratios(estimates, spread, freedom, alpha)
                cuts[row, :, output] = mark_separated(ratios, estimates, players)
            swaps[row, :, output] = swap_probabilities(estimates, spread, freedom, players)
    if explanation.values.ndim == 2:
        order, cuts, swaps = order[..., 0], cuts[..., 0], swaps[..., 0]
    sampled = SAMPLED if bounds is None or background else RANGE
    rests_on = tuple(
        (BACKGROUND if background else _exact_by(method)) if status == "exact" else sampled
        for status, method in zip(explanation.status, explanation.method, strict=True)
    )
    names, labels = explanation.output_names, explanation.output_labels
    return Ranking(
        order, cuts, swaps, level, explanation.feature_names, rests_on, names, labels, label_rows(explanation),
        explanation.row_names, background,
    )  # fmt: skip


def is_exact(ranking: Ranking) -> bool:
    """Whether the values of all rows are exact, and their order with them."""
    return bool(ranking.rests_on) and set(ranking.rests_on) <= {ENUMERATED, KNOWN_FORM}


def _exact_by(method: str) -> str:
    """How a row became exact; `KnownFunction.name` ends in "form", and no estimator's does."""
    return KNOWN_FORM if method.endswith(" form") else ENUMERATED


def _bounds(explanation: Explanation, level: float, *, background: bool) -> FloatArray | None:
    """Bounds `(2, rows, players, outputs)` that hold all values of a row, for orders without tests of pairs.

    These are the bounds that hold for any number of units, where there are any at this level; and those with the error
    of the background, whose correlations between players are not known.
    """
    low, high = explanation.guaranteed_low_together, explanation.guaranteed_high_together
    if background:
        low, high = explanation.confidence_interval(level, simultaneous=True, background=True)
    elif low is None or high is None or abs(level - explanation.settings["level"]) > 1e-12:
        return None
    return np.stack([low, high]).reshape(2, *with_outputs(explanation, "values").shape)
