"""Bars of the charts that stand in the page itself, as percentages of the width; readable without a script."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from controlshap._types import FloatArray
from controlshap.results.importance import importance_interval
from controlshap.results.numbers import MINUS, count, factor, number, share, with_error
from controlshap.results.ranking import Ranking
from controlshap.results.summary import Summary

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation

#: Players shown before "all players", and places of the ranking.
N_BARS, N_PLACES = 20, 10
#: Fewest rows whose gains are drawn as a distribution, and most of its bars.
FEWEST_GAINS, MOST_BINS = 10, 9


@dataclass(frozen=True)
class Bar:
    """A line of a chart: label, bar, whisker and the numbers in words. Places are percentages."""

    label: str
    text: str
    length: float
    start: float = 0.0
    low: float | None = None
    high: float | None = None
    positive: bool = True


@dataclass(frozen=True)
class Chart:
    """Bars with an axis: `(place, label)` pairs."""

    bars: tuple[Bar, ...]
    ticks: tuple[tuple[float, str], ...]


def nice_step(span: float, most: int) -> float:
    """A step of 1, 2 or 5 times a power of ten that gives at most `most` intervals."""
    power = 10.0 ** np.floor(np.log10(span / most))
    return float(next(step * power for step in (1.0, 2.0, 5.0, 10.0) if span / (step * power) <= most))


def _axis(low: float, high: float) -> tuple[tuple[float, str], ...]:
    if high <= low:
        return ((0.0, "0"),)
    step = nice_step(high - low, 5)
    places = np.arange(np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9) + 1) * step
    return tuple((_percent(place, low, high), number(float(round(place / step) * step), 6)) for place in places)


def _percent(place: float, low: float, high: float) -> float:
    return round(float(np.clip(100.0 * (place - low) / (high - low), 0.0, 100.0)), 2) if high > low else 0.0


def signed(value: float, error: float) -> str:
    """A value with its sign, always."""
    text = with_error(value, error)
    return text if text.startswith(MINUS) or value == 0 else "+" + text


def importance(explanation: Explanation, summary: Summary, output: int, level: float) -> Chart:
    """Mean absolute values with intervals, largest first; for one row its values, with their signs."""
    several = explanation.values.ndim == 3

    def of(array: FloatArray) -> FloatArray:
        return array[..., output] if several else array

    if len(explanation) == 1:
        lows, highs = (of(bound)[0] for bound in explanation.confidence_interval(level))
        values, errors = of(explanation.values)[0], of(explanation.standard_errors)[0]
    else:
        values, errors = of(summary.mean_absolute), of(summary.standard_errors)
        lows, highs = (of(bound) for bound in importance_interval(explanation, summary, level))
    low, high = min(0.0, float(lows.min())), max(0.0, float(highs.max()))
    bars = []
    for player in np.argsort(-np.abs(values), kind="stable"):
        value, error = float(values[player]), float(errors[player])
        ends = sorted((0.0, value))
        start, end = (_percent(place, low, high) for place in ends)
        text = signed(value, error) if len(explanation) == 1 else with_error(value, error)
        whisker = (_percent(float(lows[player]), low, high), _percent(float(highs[player]), low, high))
        bars.append(
            Bar(
                explanation.feature_names[player],
                text,
                round(end - start, 2),
                start,
                low=whisker[0] if error > 0 else None,
                high=whisker[1] if error > 0 else None,
                positive=value >= 0,
            )
        )
    return Chart(tuple(bars), _axis(low, high))


def certified(ranking: Ranking, output: int) -> Chart:
    """For each k: the share of rows whose k largest players are certified."""
    cuts = ranking.separated[..., output] if ranking.separated.ndim == 3 else ranking.separated
    n = len(cuts)
    bars = tuple(
        Bar(
            "the largest" if k == 0 else f"the {k + 1} largest",
            f"{share(int(cuts[:, k].sum()), n)} of rows",
            round(100.0 * float(cuts[:, k].mean()), 2),
        )
        for k in range(min(cuts.shape[1], N_PLACES))
    )
    return Chart(bars, tuple((float(place), f"{place} %") for place in (0, 25, 50, 75, 100)))


def gains(values: FloatArray) -> Chart | None:
    """How the gains of the rows are distributed; None where they are too few to draw."""
    finite = values[np.isfinite(values)]
    if len(values) < FEWEST_GAINS or len(finite) == 0:
        return None
    low, high = np.log10(finite.min()), np.log10(finite.max())
    # edges that one can say: 1, 2, 5, 10, 20, ...; coarser where there would be too many
    for steps in ((1.0, 2.0, 5.0), (1.0, 3.0), (1.0,)):
        powers = 10.0 ** np.arange(np.floor(low), np.ceil(high) + 1)
        edges = np.unique((powers[:, None] * np.array(steps)).reshape(-1))
        first, last = np.searchsorted(edges, finite.min(), "right") - 1, np.searchsorted(edges, finite.max(), "right")
        edges = edges[max(first, 0) : last + 1]
        if len(edges) - 1 <= MOST_BINS:
            break
    counts, _ = np.histogram(finite, edges)
    if len(counts) < 2:
        return None
    lines = [
        (f"{factor(edges[i])} to {factor(edges[i + 1])} times", int(counts[i]))
        for i in range(len(counts))
    ]  # fmt: skip
    unlimited = int(np.isinf(values).sum())
    if unlimited:
        lines.append(("no error left", unlimited))
    most = max(n for _, n in lines)
    return Chart(tuple(Bar(label, count(n, "row"), round(100.0 * n / most, 2)) for label, n in lines), ())
