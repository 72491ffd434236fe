"""The charts that are part of the page itself and need no script; places are percentages of the width."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from controlshap._types import FloatArray
from controlshap.results.ranking import Ranking
from controlshap.results.summary import Summary, importance_interval
from controlshap.results.wording import (
    count_noun,
    format_exact,
    format_factor,
    format_number,
    format_share,
    format_signed,
    format_with_error,
)

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation

#: Players shown before "all players", and places of the ranking.
N_BARS, N_PLACES = 20, 10
#: Pairs of players shown for all rows.
N_PAIRS = 10
#: Fewest rows whose gains are drawn as a distribution, and most of its bars.
FEWEST_GAINS, MOST_BINS = 10, 9


@dataclass(frozen=True)
class Bar:
    """A line of a chart: label, bar, whisker and the numbers as text."""

    label: str
    text: str
    length: float
    start: float = 0.0
    low: float | None = None
    high: float | None = None
    kind: str = "unsigned"


@dataclass(frozen=True)
class Chart:
    """Bars with an axis: `(place, label)` pairs."""

    bars: tuple[Bar, ...]
    ticks: tuple[tuple[float, str], ...]


def round_step(span: float, most: int) -> float:
    """A step of 1, 2 or 5 times a power of ten that gives at most `most` intervals."""
    power = 10.0 ** np.floor(np.log10(span / most))
    return float(next(step * power for step in (1.0, 2.0, 5.0, 10.0) if span / (step * power) <= most))


def _ticks(low: float, high: float) -> tuple[tuple[float, str], ...]:
    if high <= low:
        return ((0.0, "0"),)
    step = round_step(high - low, 5)
    places = np.arange(np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9) + 1) * step
    return tuple((_percent(place, low, high), format_number(float(round(place / step) * step), 6)) for place in places)


def _percent(place: float, low: float, high: float) -> float:
    return round(float(np.clip(100.0 * (place - low) / (high - low), 0.0, 100.0)), 2) if high > low else 0.0


def importance(explanation: Explanation, summary: Summary, level: float) -> Chart:
    """Mean absolute values of one output with intervals, largest first; for one row its values, with their signs."""
    single = len(explanation) == 1
    if single:
        lows, highs = (bound[0] for bound in explanation.confidence_interval(level))
        values, errors = explanation.values[0], explanation.standard_errors[0]
    else:
        values, errors = np.maximum(summary.mean_absolute, 0.0), summary.standard_errors  # as in the plot
        lows, highs = importance_interval(explanation, summary, level)
    low, high = min(0.0, float(lows.min())), max(0.0, float(highs.max()))
    exact = None if errors.any() else format_exact(values)
    bars = []
    for player in np.argsort(-np.abs(values), kind="stable"):
        value, error = float(values[player]), float(errors[player])
        reach = float(highs[player]) - value if error > 0 else 0.0
        start, end = (_percent(place, low, high) for place in sorted((0.0, value)))
        bars.append(
            Bar(
                explanation.feature_names[player],
                _text(value, reach, None if exact is None else exact[player], signed=single),
                round(end - start, 2),
                start,
                low=_percent(float(lows[player]), low, high) if error > 0 else None,
                high=_percent(float(highs[player]), low, high) if error > 0 else None,
                kind=("positive" if value >= 0 else "negative") if single else "unsigned",
            )
        )
    return Chart(tuple(bars), _ticks(low, high))


def _text(value: float, reach: float, exact: str | None, *, signed: bool) -> str:
    """A value with its error; one without is written with as many decimals as the others of its column."""
    if exact is not None:
        return f"+{exact}" if signed and value > 0 else exact
    return format_signed(value, reach) if signed else format_with_error(value, reach)


def interactions(explanation: Explanation, level: float) -> Chart:
    """The largest pairs over the rows: root mean square index without the noise's share, and rows certain of its sign.

    Pairs that noise alone explains are left out.

    `mean(index^2 - standard_error^2)` is an unbiased estimate of the mean square of the true indices.
    """
    found, (first, second) = explanation.interactions, np.triu_indices(len(explanation.feature_names), 1)
    index, errors = (array[:, first, second] for array in (found.index, found.standard_errors))
    ranking = found.ranking(level)
    certain = np.zeros(index.shape, dtype=bool)
    np.put_along_axis(certain, ranking.order, ranking.signs, axis=1)
    sizes = np.sqrt(np.maximum((index**2 - errors**2).mean(axis=0), 0.0))
    order = np.argsort(-sizes, kind="stable")[:N_PAIRS]
    largest = float(sizes.max())
    names = explanation.feature_names
    bars = tuple(
        Bar(
            f"{names[first[pair]]} × {names[second[pair]]}",
            f"{format_number(float(sizes[pair]), 2)}, {format_share(int(certain[:, pair].sum()), len(index))}",
            _percent(float(sizes[pair]), 0.0, largest),
        )
        for pair in order
        if sizes[pair] > 0
    )
    return Chart(bars, _ticks(0.0, largest))


def share_certified(ranking: Ranking) -> Chart:
    """For each k: the share of rows whose k largest players are certified."""
    cuts = ranking.separated
    n = len(cuts)
    shown = min(cuts.shape[1], N_PLACES, int((cuts.any(axis=0)).sum()) + 1)  # beyond the first that is certain nowhere
    bars = tuple(
        Bar(
            "the largest" if k == 0 else f"the {k + 1} largest",
            f"{format_share(int(cuts[:, k].sum()), n)} of rows",
            round(100.0 * float(cuts[:, k].mean()), 2),
        )
        for k in range(shown)
    )
    return Chart(bars, tuple((float(place), f"{place} %") for place in (0, 25, 50, 75, 100)))


def gains(values: FloatArray) -> Chart | None:
    """Distribution of the gains of the rows; None where they are too few to draw."""
    finite = values[np.isfinite(values)]
    if len(values) < FEWEST_GAINS or len(finite) == 0:
        return None
    low, high = np.log10(finite.min()), np.log10(finite.max())
    # round edges: 1, 2, 5, 10, 20, ...; coarser where there would be too many
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
    ends = [format_factor(edge) for edge in edges]
    lines = [(f"{ends[i]} to {ends[i + 1]} times", int(n)) for i, n in enumerate(counts)]
    unlimited = int(np.isinf(values).sum())
    if unlimited:
        lines.append(("no error left", unlimited))
    largest = max(n for _, n in lines)
    return Chart(tuple(Bar(label, count_noun(n, "row"), round(100.0 * n / largest, 2)) for label, n in lines), ())
