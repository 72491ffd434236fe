"""The methods of `explanation.plot`, one for each plot; each plot has a file of its own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controlshap.plots.canvas import follow_style

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation


def _finish_plots(cls: type[Plots]) -> type[Plots]:
    """Let all plots follow matplotlib's style, and answer a name that shap gives to arguments with the one here."""
    for name, method in list(vars(cls).items()):
        if not name.startswith("_") and inspect.isfunction(method):
            setattr(cls, name, _finish_plot(method))
    return cls


def _finish_plot(method: Callable[..., Any]) -> Callable[..., Any]:
    limit = next((name for name in inspect.signature(method).parameters if name.startswith("max_")), None)

    @functools.wraps(method)
    def draw(*args: Any, **arguments: Any) -> Any:
        if "max_display" in arguments:
            way_out = f"Use {limit}={arguments['max_display']!r}." if limit else "It shows one player."
            raise TypeError(f"plot.{method.__name__}() has no argument 'max_display'. {way_out}")
        return follow_style(method(*args, **arguments))

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

    def bar(
        self,
        row: int | None = None,
        *,
        output: int | str | None = None,
        max_players: int | None = 20,
        level: float = 0.95,
        ax: Any = None,
    ) -> Any:
        """Importance of the players over all rows, or the values of one row, with intervals.

        Parameters
        ----------
        row : int, optional
            The row whose values are drawn; without it, the mean absolute values of `explanation.summary()`. The lower
            end of their intervals then allows for the bias that noise may still add (`Summary.bias_bound`).
        output, max_players, level, ax
            See the class.
        """
        from controlshap.plots.bar import draw_bar

        return draw_bar(self.explanation, row=row, output=output, max_players=max_players, level=level, ax=ax)

    def waterfall(
        self,
        row: int = 0,
        *,
        output: int | str | None = None,
        max_players: int | None = 12,
        level: float = 0.95,
        ax: Any = None,
    ) -> Any:
        """The steps from the base value to the prediction of a row, each with its interval.

        Players beyond `max_players` are one step together, with the error of their sum.

        Parameters
        ----------
        row : int
        output, max_players, level, ax
            See the class.
        """
        from controlshap.plots.waterfall import draw_waterfall

        return draw_waterfall(self.explanation, row=row, output=output, max_players=max_players, level=level, ax=ax)

    def beeswarm(
        self,
        *,
        output: int | str | None = None,
        max_players: int | None = 20,
        level: float = 0.95,
        ax: Any = None,
    ) -> Any:
        """One dot for each row and player, coloured by the player's data; hollow where the sign is not certain.

        Colours run from a player's 5 % to its 95 % quantile. Categories and missing data are grey.

        Parameters
        ----------
        output, max_players, level, ax
            See the class. Here `level` only decides which dots are hollow.
        """
        from controlshap.plots.beeswarm import draw_beeswarm

        return draw_beeswarm(self.explanation, output=output, max_players=max_players, level=level, ax=ax)

    def dependence(
        self,
        player: int | str,
        *,
        by: int | str | None = None,
        output: int | str | None = None,
        level: float = 0.95,
        ax: Any = None,
    ) -> Any:
        """Values of one player against its data, with intervals; one dot for each row.

        Parameters
        ----------
        player : int or str
            Number or name.
        by : int or str, optional
            The player whose data colour the dots; "partner" for the one whose interactions with this player are
            certainly the strongest, of an explanation with `interactions=2`.
        output, level, ax
            See the class.
        """
        from controlshap.plots.dependence import draw_dependence

        return draw_dependence(self.explanation, player, by=by, output=output, level=level, ax=ax)

    def ranking(
        self,
        row: int = 0,
        *,
        output: int | str | None = None,
        max_players: int | None = 20,
        level: float = 0.95,
        ax: Any = None,
    ) -> Any:
        """Players of a row by magnitude, and how much of their order is certain.

        A line runs between neighbours that `explanation.ranking(level)` separates: those above it are certified to be
        the largest. Between other neighbours stands the chance that a rerun of the same size swaps them.

        Parameters
        ----------
        row : int
        output, max_players, level, ax
            See the class.
        """
        from controlshap.plots.ranking import draw_ranking

        return draw_ranking(self.explanation, row=row, output=output, max_players=max_players, level=level, ax=ax)

    def interactions(
        self,
        row: int = 0,
        *,
        output: int | str | None = None,
        max_pairs: int | None = 15,
        level: float = 0.95,
        ax: Any = None,
    ) -> Any:
        """The largest pairwise interactions of a row; needs `explainer(X, interactions=2)`.

        Intervals hold all pairs of the row together; pale bars may have the other sign.

        Parameters
        ----------
        row : int
        max_pairs : int or None
            The most pairs to show, largest first; None for all of them.
        output, level, ax
            See the class.
        """
        from controlshap.plots.interactions import draw_interactions

        return draw_interactions(self.explanation, row=row, output=output, max_pairs=max_pairs, level=level, ax=ax)

    def heatmap(
        self,
        *,
        output: int | str | None = None,
        max_players: int | None = 20,
        level: float = 0.95,
        ax: Any = None,
    ) -> Any:
        """All values at once, players by rows; rows run from the smallest prediction to the largest.

        Pale cells are values whose sign is not certain. Colours end at the 99 % quantile of the magnitudes.

        Parameters
        ----------
        output, max_players, level, ax
            See the class.
        """
        from controlshap.plots.heatmap import draw_heatmap

        return draw_heatmap(self.explanation, output=output, max_players=max_players, level=level, ax=ax)

    def cohorts(
        self,
        labels: Any,
        *,
        output: int | str | None = None,
        max_players: int | None = 12,
        level: float = 0.95,
        ax: Any = None,
    ) -> Any:
        """Importance in groups of rows, with intervals; `controlshap.difference` certifies how they differ.

        Parameters
        ----------
        labels : array of shape (rows,)
            The group of each row.
        output, max_players, level, ax
            See the class.
        """
        from controlshap.plots.groups import draw_groups, split_rows

        groups = split_rows(self.explanation, labels)
        return draw_groups(
            groups, method="cohorts", row=None, output=output, max_players=max_players, level=level, ax=ax
        )

    def compare(
        self,
        others: Any,
        row: int | None = None,
        *,
        name: str = "this one",
        output: int | str | None = None,
        max_players: int | None = 12,
        level: float = 0.95,
        ax: Any = None,
    ) -> Any:
        """The explanation beside others of the same players: another model, another run, other rows.

        Parameters
        ----------
        others : Explanation or dict
            One, or several by name.
        row : int, optional
            The row whose values are drawn; without it, mean absolute values over all rows.
        name : str
            What this explanation is called.
        output, max_players, level, ax
            See the class.
        """
        from controlshap.plots.groups import draw_groups

        groups = {name: self.explanation} | (others if isinstance(others, dict) else {"the other": others})
        return draw_groups(
            groups, method="compare", row=row, output=output, max_players=max_players, level=level, ax=ax
        )

    def convergence(
        self,
        row: int = 0,
        *,
        output: int | str | None = None,
        max_players: int | None = 8,
        level: float = 0.95,
        ax: Any = None,
    ) -> Any:
        """Values of a row with their intervals as evaluations were spent; needs `explainer(X, history=True)`.

        The bands use the degrees of freedom at the end, so that the first ones are a little too narrow.

        Parameters
        ----------
        row : int
        output, max_players, level, ax
            See the class.
        """
        from controlshap.plots.convergence import draw_convergence

        return draw_convergence(self.explanation, row=row, output=output, max_players=max_players, level=level, ax=ax)

    def variance_reduction(
        self, *, output: int | str | None = None, max_players: int | None = 20, ax: Any = None
    ) -> Any:
        """Standard errors without and with the control, and the ratio of their squares.

        Medians over the rows that were sampled; players by importance.

        Parameters
        ----------
        output, max_players, ax
            See the class.
        """
        from controlshap.plots.variance_reduction import draw_variance_reduction

        return draw_variance_reduction(self.explanation, output=output, max_players=max_players, ax=ax)


def _names_of_plots() -> str:
    return ", ".join(name for name, method in vars(Plots).items() if name[0] != "_" and inspect.isfunction(method))
