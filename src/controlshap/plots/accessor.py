"""`explanation.plot`, whose methods are the functions of the other files."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controlshap._imports import require
from controlshap.plots.bar import draw_bar, draw_interactions
from controlshap.plots.beeswarm import draw_beeswarm
from controlshap.plots.canvas import follow_style
from controlshap.plots.convergence import draw_convergence
from controlshap.plots.dependence import draw_dependence
from controlshap.plots.groups import draw_cohorts, draw_compare
from controlshap.plots.heatmap import draw_heatmap
from controlshap.plots.ranking import draw_ranking
from controlshap.plots.variance_reduction import draw_variance_reduction
from controlshap.plots.waterfall import draw_waterfall

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation


def _finish_plots(cls: type[Plots]) -> type[Plots]:
    """Let all plots need matplotlib, follow its style, and answer shap's name of an argument with the one here."""
    for name, method in list(vars(cls).items()):
        if not name.startswith("_") and inspect.isfunction(method):
            setattr(cls, name, _finish_plot(name, method))
    return cls


def _finish_plot(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    limit = next((argument for argument in inspect.signature(method).parameters if argument.startswith("max_")), None)

    @functools.wraps(method)
    def draw(*args: Any, **arguments: Any) -> Any:
        if "max_display" in arguments:
            way_out = f"Use {limit}={arguments['max_display']!r}." if limit else "It shows one player."
            raise TypeError(f"plot.{name}() has no argument 'max_display'. {way_out}")
        require("matplotlib.pyplot", extra="plots", feature=f"`explanation.plot.{name}()`")
        return follow_style(method(*args, **arguments))

    draw.__name__, draw.__qualname__ = name, f"Plots.{name}"
    return draw


@_finish_plots
@dataclass(frozen=True, eq=False)
class Plots:
    """Plots of an explanation, drawn with matplotlib.

    Every method returns the matplotlib `Axes`. Without `ax` it makes a figure (through pyplot, so that notebooks show
    it) whose size follows the number of players; with `ax` it draws there. No setting of matplotlib is changed; on dark
    axes (`plt.style.use("dark_background")`) the colours are those of a dark page.
    Arguments in common:

    - `output`: number or name of the output; needed when the model has several.
    - `max_players`: the most players to show, largest first; None for all of them.
    - `level`: confidence level of the intervals, each for one value.

    Attributes
    ----------
    explanation : Explanation
    """

    explanation: Explanation

    def __repr__(self) -> str:
        return f"<Plots of an explanation: {_names_of_plots()}>"

    if not TYPE_CHECKING:  # type checkers know the plots

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"`explanation.plot` has no {name!r}; it has {_names_of_plots()}. For shap's plots there is "
                "`explanation.to_shap()`."
            )

    bar = draw_bar
    waterfall = draw_waterfall
    beeswarm = draw_beeswarm
    dependence = draw_dependence
    ranking = draw_ranking
    interactions = draw_interactions
    heatmap = draw_heatmap
    cohorts = draw_cohorts
    compare = draw_compare
    convergence = draw_convergence
    variance_reduction = draw_variance_reduction


def _names_of_plots() -> str:
    return ", ".join(name for name, method in vars(Plots).items() if name[0] != "_" and inspect.isfunction(method))
