"""Plots of an explanation with its errors: `explanation.plot.bar()` and the others. Needs matplotlib."""

from controlshap.plots.accessor import Plots

__all__ = ["Plots"]
