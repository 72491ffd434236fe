"""Reductions of variance by player, as several figures show them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from controlshap import metrics
from controlshap._types import FloatArray

COLORS = {"plain": "#c8782a", "paper": "#1f6fb4", "default": "#2e8b57"}
_SERIES = ("#1f6fb4", "#7fb2dc", "#c8782a", "#e8bd8f")
#: Lowest reduction that is drawn; what is below is marked at the edge.
FLOOR = -0.5


@dataclass
class Panel:
    """Several series of reductions over the players of one data set."""

    title: str
    players: list[str]
    series: dict[str, FloatArray] = field(default_factory=dict)
    importance: FloatArray | None = None

    def add(self, name: str, plain: FloatArray, controlled: FloatArray, truth: FloatArray) -> None:
        """Quartiles over rows of the reductions over runs."""
        found = metrics.variance_reduction(plain, controlled)
        self.series[name] = np.quantile(found, [0.25, 0.5, 0.75], axis=0)
        if self.importance is None:
            self.importance = np.abs(truth).sum(axis=0)

    def draw(self, axes: Any) -> None:
        """Players from the most important on."""
        if self.importance is None:
            return
        order = np.argsort(-self.importance)
        place = np.arange(len(order))
        for number, ((name, quartiles), color) in enumerate(zip(self.series.items(), _SERIES, strict=False)):
            low, middle, high = np.maximum(quartiles[:, order], FLOOR)
            at = place + 0.15 * (number - (len(self.series) - 1) / 2)
            axes.errorbar(at, middle, yerr=[middle - low, high - middle], fmt="o", ms=4, color=color, label=name,
                          elinewidth=1)  # fmt: skip
            below = quartiles[1, order] < FLOOR
            axes.plot(at[below], np.full(below.sum(), FLOOR), "v", color=color, ms=6)
        axes.set_xticks(place, [self.players[j] for j in order], rotation=35, ha="right", fontsize=8)
        axes.axhline(0, color="0.6", lw=0.8)
        axes.set_ylim(min(-0.05, axes.get_ylim()[0]), 1.02)
        axes.set_ylabel("variance reduction", fontsize=9)
        axes.set_title(self.title, fontsize=10)
