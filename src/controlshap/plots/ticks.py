"""Ticks of a logarithmic axis that are read at a glance."""

from __future__ import annotations

from typing import Any

import numpy as np

from controlshap._types import FloatArray
from controlshap.results.numerals import numeral

#: Leading digits of the ticks, fewest first.
DIGITS = ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0))


def logarithmic_ticks(low: float, high: float, most: int = 6) -> FloatArray:
    """Round numbers between two positive ones, three or more where there are; else the two."""
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    for digits in DIGITS:
        ticks = np.array([digit * 10.0**power for power in powers for digit in digits])
        ticks = ticks[(ticks >= low) & (ticks <= high)]
        if len(ticks) >= 3:
            return ticks[:: int(np.ceil(len(ticks) / most))]
    return ticks if len(ticks) == 2 else np.array([low, high])


def use_logarithm(axis: Any, low: float, high: float) -> None:
    """A logarithmic scale from `low` to `high` for `ax.xaxis`, with few ticks in plain numbers."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis.axes.set_xscale("log")
    axis.axes.set_xlim(low, high)
    axis.set_major_locator(FixedLocator(logarithmic_ticks(low, high).tolist()))
    axis.set_major_formatter(FuncFormatter(lambda value, _: numeral(float(value), 2)))
    axis.set_minor_locator(NullLocator())
