"""The result: values with errors, the effect of the control, and how to get the same numbers again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from controlshap._checks import as_folder, as_path, check_level, check_whole
from controlshap._errors import InvalidArgumentError
from controlshap._imports import require
from controlshap._other_names import RESULT_ATTRIBUTES, refuse_attribute
from controlshap._types import AnyArray, BoolArray, FloatArray, IntArray
from controlshap.data.table import RowName
from controlshap.results.axes import RowsByName, axes, output_number, row_index, select_rows, take_output
from controlshap.statistics.one_more_jump import FEWEST_DOF

if TYPE_CHECKING:
    from controlshap.plots import Plots
    from controlshap.results.check import Check
    from controlshap.results.interactions import Interactions
    from controlshap.results.ranking import Ranking
    from controlshap.results.summary import Summary

StrArray = np.ndarray[Any, np.dtype[np.str_]]


@dataclass(frozen=True, eq=False)
class History:
    """Estimates of one row after each stage of its run.

    Attributes
    ----------
    n_evaluations : ndarray of shape (stages,)
        Model evaluations spent by then.
    values : ndarray of shape (stages, players) or (stages, players, outputs)
    standard_errors : ndarray of the same shape
    """

    n_evaluations: IntArray = field(metadata=axes("stages"))
    values: FloatArray = field(metadata=axes("stages", "players", "outputs"))
    standard_errors: FloatArray = field(metadata=axes("stages", "players", "outputs"))

    def __len__(self) -> int:
        return len(self.n_evaluations)


@dataclass(frozen=True, eq=False)
class Explanation:
    """Shapley values of some rows.

    One shape rule: rows first, then players, then outputs if and only if the model has several. `explanation[rows]`
    is the explanation of some rows (a number, a slice, a mask, an array of numbers, or names as text),
    `explanation.output(name)` that of one output; `for row in explanation` goes through the rows.

    Attributes
    ----------
    values : ndarray of shape (rows, players) or (rows, players, outputs)
        The estimates; with `base_values` they sum to the prediction.
    standard_errors : ndarray of the same shape
        Error of each value due to sampling, 0 where exact.
    base_values : ndarray of shape (rows,) or (rows, outputs)
        v(0), the prediction when nothing is revealed.
    base_standard_errors : ndarray of the same shape
        Error of `base_values`; 0 unless it was estimated.
    uncontrolled_values, uncontrolled_standard_errors : ndarray
        The same evaluations without control.
    variance_reduction : ndarray
        Expected share of the variance that the control removes, 0 to 1 (a squared correlation).
    degrees_of_freedom : ndarray
        Degrees of freedom of the standard errors; infinite where exact.
    covariance : ndarray of shape (rows, players, players) or (rows, outputs, players, players)
        Covariance of the values of a row.
    n_evaluations : ndarray of shape (rows,)
        Model evaluations spent on each row, derivatives included.
    status : ndarray of str, shape (rows,)
        "exact", "converged" (all goals were reached), "budget reached" or "time reached".
    method : ndarray of str, shape (rows,)
        Estimator and control that were used.
    controls : ndarray of str, shape (rows,)
        The controls with their mean coefficients, such as "LogisticRidge 0.98, Trees 0.02"; empty without control.
    look_shares : ndarray of shape (rows,)
        Share of `1 - level` that rankings and simultaneous intervals may use: 1, or less where a run was checked
        several times and could stop by its results.
    complete : ndarray of bool, shape (rows,)
        Whether every background row was used (or the values are exact). Before that an error of 0 may only mean that
        no row that matters was drawn yet, and certifies nothing.
    background_standard_errors : ndarray of the shape of `values`, or None
        Error of the values due to the choice of the background rows, if these are a sample of a population; not
        included in `standard_errors`. None where it is not known: with features="correlated", where the background
        only gives a mean and a covariance, and where all units use the whole background.
    distribution_standard_errors : ndarray of the shape of `values`, or None
        Error of the values because the distribution of absent features was estimated from the background, by a
        jackknife over 20 blocks of its rows; not included in `standard_errors`. It is there for features that are not
        independent where `Explainer(..., distribution_errors=True)` asks for it, and None where no fitted function
        explains half of the variance of the evaluations of some row.
    data : ndarray of shape (rows, columns)
        The explained rows: numbers, or objects where some columns are categories.
    feature_names : tuple of str
        Names of the players.
    column_names : tuple of str
        Names of the columns of `data`.
    output_names : tuple of str or None
        Names of the outputs, if the model has any: classes, of two the second alone. `output_labels` describes the
        outputs.
    player_columns : tuple of tuples of int
        Columns of `data` that belong to each player.
    entropy : int
        `rng=` that gives the same numbers.
    settings : dict
        How the explanation was made.
    evaluations : tuple of ndarray, or None
        Outputs of the model that each row was estimated from, which `Explainer.refine` starts with; None where they
        were not kept.
    stages : tuple of tuples of int
        Numbers of units after which each row was checked.
    history : tuple of History, or None
        The estimates of each row after each of its stages; None unless asked for with `history=True`.
    interaction_indices, interaction_standard_errors, interaction_degrees_of_freedom : ndarray or None
        Of shape (rows, pairs) or (rows, pairs, outputs); read by `interactions`. None unless asked for with
        `interactions=2`.
    half_ratios : ndarray of the shape of `values`, or None
        Distance of one half of a row's units from the estimate of the other half, in half widths of its 95 % interval;
        read by `check`. None where units were few, resampled or grouped, or explained on a device.
    shared_factors : ndarray of shape (rows, n_shared, players) or (rows, n_shared, players, outputs), or None
        Errors of known values that were simulated once for all rows, by replication; part of `standard_errors`, and
        read by `summary`, in which they do not average out. None where there are none.
    guaranteed_low, guaranteed_high, guaranteed_low_together, guaranteed_high_together : ndarray or None
        Bounds of the shape of `values` that `confidence_interval(guarantee="finite")` reads: of each value, and of all
        values of a row. None unless asked for with `guarantee="finite"`.
    row_numbers : ndarray of shape (rows,)
        Number of each row in the run that explained it, on which its random numbers depend.
    row_names : tuple of str or int, or None
        Index of the frame that the rows came in, unless it counts from 0. `loc[name]` finds rows by it.
    kept : tuple of tuples, or None
        What `explain_dataset(keep=...)` kept of each row beside its values.
    kept_names : tuple of str
        Names of these columns.
    """

    values: FloatArray = field(metadata=axes("rows", "players", "outputs"))
    standard_errors: FloatArray = field(metadata=axes("rows", "players", "outputs"))
    base_values: FloatArray = field(metadata=axes("rows", "outputs"))
    base_standard_errors: FloatArray = field(metadata=axes("rows", "outputs"))
    uncontrolled_values: FloatArray = field(metadata=axes("rows", "players", "outputs"))
    uncontrolled_standard_errors: FloatArray = field(metadata=axes("rows", "players", "outputs"))
    variance_reduction: FloatArray = field(metadata=axes("rows", "players", "outputs"))
    degrees_of_freedom: FloatArray = field(metadata=axes("rows", "players", "outputs"))
    covariance: FloatArray = field(metadata=axes("rows", "outputs", "players", "players"))
    n_evaluations: IntArray = field(metadata=axes("rows"))
    status: StrArray = field(metadata=axes("rows"))
    method: StrArray = field(metadata=axes("rows"))
    controls: StrArray = field(metadata=axes("rows"))
    data: AnyArray = field(metadata=axes("rows", "columns"))
    feature_names: tuple[str, ...] = field(metadata=axes("players"))
    column_names: tuple[str, ...] = field(metadata=axes("columns"))
    output_names: tuple[str, ...] | None = field(metadata=axes("outputs"))
    player_columns: tuple[tuple[int, ...], ...] = field(metadata=axes("players"))
    entropy: int = field(metadata=axes())
    settings: dict[str, Any] = field(metadata=axes())
    look_shares: FloatArray = field(metadata=axes("rows"))
    complete: BoolArray = field(metadata=axes("rows"))
    background_standard_errors: FloatArray | None = field(default=None, metadata=axes("rows", "players", "outputs"))
    distribution_standard_errors: FloatArray | None = field(default=None, metadata=axes("rows", "players", "outputs"))
    evaluations: tuple[FloatArray, ...] | None = field(default=None, metadata=axes("rows"))
    stages: tuple[tuple[int, ...], ...] = field(default=(), metadata=axes("rows"))
    history: tuple[History, ...] | None = field(default=None, metadata=axes("rows"))
    interaction_indices: FloatArray | None = field(default=None, metadata=axes("rows", "pairs", "outputs"))
    interaction_standard_errors: FloatArray | None = field(default=None, metadata=axes("rows", "pairs", "outputs"))
    interaction_degrees_of_freedom: FloatArray | None = field(default=None, metadata=axes("rows", "pairs", "outputs"))
    half_ratios: FloatArray | None = field(default=None, metadata=axes("rows", "players", "outputs"))
    shared_factors: FloatArray | None = field(default=None, metadata=axes("rows", "shared", "players", "outputs"))
    guaranteed_low: FloatArray | None = field(default=None, metadata=axes("rows", "players", "outputs"))
    guaranteed_high: FloatArray | None = field(default=None, metadata=axes("rows", "players", "outputs"))
    guaranteed_low_together: FloatArray | None = field(default=None, metadata=axes("rows", "players", "outputs"))
    guaranteed_high_together: FloatArray | None = field(default=None, metadata=axes("rows", "players", "outputs"))
    row_numbers: IntArray = field(default=None, metadata=axes("rows"))  # type: ignore[arg-type]  # filled in below
    row_names: tuple[RowName, ...] | None = field(default=None, metadata=axes("rows"))
    kept: tuple[tuple[Any, ...], ...] | None = field(default=None, metadata=axes("rows"))
    kept_names: tuple[str, ...] = field(default=(), metadata=axes())

    def __post_init__(self) -> None:
        if self.row_numbers is None:  # rows of a run from its first
            object.__setattr__(self, "row_numbers", np.arange(len(self.values)))

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> Explanation:
        return replace(self, **select_rows(self, row_index(rows, len(self), lambda: self.row_names)))

    def __iter__(self) -> Iterator[Explanation]:
        return (self[row] for row in range(len(self)))

    @classmethod
    def concat(cls, parts: Iterable[Explanation]) -> Explanation:
        """Put explanations of different rows together, one after the other.

        They must be of the same players, columns and outputs. Where their settings or seeds differ, the settings that
        all of them share are kept, `entropy` is that of the first, and evaluations are dropped, because `refine` goes
        on with one run.

        Parameters
        ----------
        parts : iterable of Explanation
        """
        from controlshap.results.collect import join_explanations

        return join_explanations(list(parts))

    def output(self, output: int | str | None = None) -> Explanation:
        """The explanation of one output; its arrays have no axis of outputs.

        Evaluations are dropped, because `refine` goes on with all outputs.

        Parameters
        ----------
        output : int or str, optional
            Number or name; left out when the model has one output.
        """
        number = check_output(self, output)
        if number is None:
            return self
        changes = take_output(self, number)
        if self.output_names is not None:
            changes["output_names"] = (self.output_names[number],)
        if self.history is not None:
            changes["history"] = tuple(replace(past, **take_output(past, number)) for past in self.history)
        return replace(self, evaluations=None, **changes)

    @property
    def loc(self) -> RowsByName:
        """Rows by name: `explanation.loc["customer 17"]`, `explanation.loc[[567, 568]]`."""
        return RowsByName(self)

    def __repr__(self) -> str:
        from controlshap.results.show import show_explanation

        return show_explanation(self)

    if not TYPE_CHECKING:  # a type checker would take any name for an attribute

        def __getattr__(self, name: str) -> Any:
            return refuse_attribute(self, name, RESULT_ATTRIBUTES)

    def _repr_html_(self) -> str:
        from controlshap.results.show import explanation_as_html

        return explanation_as_html(self)

    @property
    def output_labels(self) -> tuple[str, ...]:
        """Each output in words, such as "probability of class 'malignant'"."""
        from controlshap.results.wording import describe_outputs

        return tuple(describe_outputs(self))

    @property
    def reliable(self) -> BoolArray:
        """Which values have an error that is well enough known for an interval, of the shape of `values`.

        These are exact values, and those whose error comes from three or more independent units or visits. Others have
        an interval, too, but with one or two degrees of freedom, as have values whose units are so heavy-tailed that
        they may have no variance, or, if a sample shows no difference between any two outputs of the model, an error of
        0 that proves nothing; raise `budget`.
        """
        errors, exact = self.standard_errors, self.status == "exact"
        flat = (errors == 0).all(axis=1, keepdims=True) & ~exact.reshape(-1, *[1] * (errors.ndim - 1))
        reliable: BoolArray = np.where(errors == 0, ~flat, self.degrees_of_freedom >= FEWEST_DOF)
        return reliable

    @property
    def gain(self) -> FloatArray:
        """Gain of the control, shape (rows,): variance without it over variance with it, summed over values.

        Without control, the same error would have needed this many times the evaluations; 1 where there is no error
        either way, infinite where the control left none.
        """
        axes = tuple(range(1, self.values.ndim))
        plain = (self.uncontrolled_standard_errors**2).sum(axis=axes)
        controlled = (self.standard_errors**2).sum(axis=axes)
        ratio = plain / np.where(controlled > 0, controlled, 1.0)
        return np.where(controlled > 0, ratio, np.where(plain > 0, np.inf, 1.0))

    @property
    def evaluations_saved(self) -> FloatArray:
        """Evaluations that the control saved, shape (rows,): how many more plain sampling needs for the same error.

        Negative where the control made it worse, infinite where it left no error.
        """
        return (self.gain - 1.0) * self.n_evaluations

    def confidence_interval(
        self,
        level: float = 0.95,
        *,
        simultaneous: bool = False,
        background: bool = False,
        guarantee: Literal["finite"] | None = None,
        output_range: tuple[float, float] | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """Bounds that hold each true value with probability `level`.

        Parameters
        ----------
        level : float
        simultaneous : bool
            Whether the bounds hold all values of a row (and output) together, even if the run was stopped by its
            results; otherwise each bound holds for one value at a time.
        background : bool
            Whether the true value is that of the population of which the background is a sample
            (`background_standard_errors`, `distribution_standard_errors`); otherwise that of the background itself.
        guarantee : {None, "finite"}
            "finite" for bounds that hold for any number of units and at any moment of stopping, whatever the sample has
            missed. The rows must have been explained with `guarantee="finite"`, the same level and `output_range`.
        output_range : (float, float), optional
            The range that was given then.

        Returns
        -------
        low, high : ndarray of the shape of `values`
        """
        from controlshap.results.intervals import guaranteed_interval, half_widths

        level = check_level(level)
        if guarantee is not None or output_range is not None:
            return guaranteed_interval(
                self, level, guarantee, output_range, simultaneous=simultaneous, background=background
            )
        reach = half_widths(self, level, simultaneous=simultaneous, background=background)
        return self.values - reach, self.values + reach

    def check(self) -> Check:
        """Whether errors look right on this model: two halves of each row's units against each other, over all rows.

        The first half of the units of a row has errors and intervals of its own. The second half should lie in these
        about as often as their level says, and does so less often where jumps are larger or rarer than units show. The
        test needs some ten rows.

        Returns
        -------
        Check
            Prints as a sentence.
        """
        from controlshap.results.check import check_errors

        return check_errors(self)

    def ranking(self, level: float = 0.95, *, background: bool = False) -> Ranking:
        """Players by magnitude, which of them are separated, and how likely neighbours are to swap on a rerun.

        Parameters
        ----------
        level : float
        background : bool
            Whether the order is to hold for the population of which the background is a sample, and a rerun to take
            another one; otherwise for the background itself.
        """
        from controlshap.results.ranking import rank

        return rank(self, check_level(level), background=background)

    @property
    def interactions(self) -> Interactions:
        """Pairwise interactions with errors, of an explanation that was made with `interactions=2`."""
        from controlshap.results.interactions import Interactions

        if self.interaction_indices is None:
            raise InvalidArgumentError(
                "`explanation.interactions`: none were asked for. Explain with interactions=2, which takes no further "
                "evaluation."
            )
        return Interactions(self)

    def summary(self, *, sampled_rows: bool = False, background: bool = False) -> Summary:
        """Mean absolute value of each player over rows, with errors and corrected for noise.

        Parameters
        ----------
        sampled_rows : bool
            Whether the explained rows are a sample, whose choice is then part of the standard errors.
        background : bool
            Whether the background is a sample, whose choice is then part of them too. All rows share it, so that its
            part does not shrink with more rows.
        """
        from controlshap.results.summary import summarise

        if sampled_rows and len(self) < 2:
            raise InvalidArgumentError("`sampled_rows=True` needs two explained rows or more. Leave it out.")
        return summarise(self, sampled_rows=sampled_rows, background=background)

    def least_certain(self, n: int = 10) -> Explanation:
        """The n rows with the largest standard errors, largest first: those to explain again with a larger budget.

        Parameters
        ----------
        n : int
            Rows, or all where there are fewer.
        """
        n = check_whole("n", n, 1, "rows")
        largest = self.standard_errors.reshape(len(self), -1).max(axis=1)
        return self[np.argsort(-largest, kind="stable")[:n]]

    def by_group(self, groups: Mapping[str, Sequence[str]] | None = None) -> Explanation:
        """The same explanation with the sums over groups of players in place of players.

        Errors of sums come from `covariance`. Of an explanation with `hierarchy`, the sum over a group is the Shapley
        value that the group has as one player; otherwise it is no more than the sum.

        Parameters
        ----------
        groups : dict, optional
            Names of players for the name of each group; players in none stay alone. By default those of `hierarchy`.
        """
        from controlshap.results.groups import sum_by_group

        return sum_by_group(self, groups)

    def player_data(self) -> np.ndarray[Any, np.dtype[Any]]:
        """Data of the players `(rows, players)`: a value, the level of a one-hot group, all values of another group."""
        from controlshap.results.player_data import collect_player_data

        return collect_player_data(self)

    @property
    def plot(self) -> Plots:
        """Plots: `plot.bar()`, `plot.waterfall(row)`, `plot.beeswarm()`, `plot.heatmap()` and others."""
        from controlshap.plots import Plots

        return Plots(self)

    def report(self, path: str | Path, *, title: str | None = None, level: float = 0.95) -> Path:
        """Write one self-contained HTML file to read, share and print.

        Parameters
        ----------
        path : str or Path
            The file.
        title : str, optional
        level : float
            Confidence level of intervals and certified rankings.
        """
        from controlshap.report import write_report

        return write_report(self, path, title=title, level=check_level(level))

    def to_shap(self, level: float | None = None) -> Any:
        """A `shap.Explanation`, for shap's plots.

        Parameters
        ----------
        level : float, optional
            Confidence level of intervals, which shap's waterfall draws; by default there are none, because shap cannot
            average them.
        """
        from controlshap.shap_compat.export import to_shap

        return to_shap(self, level)

    def to_frame(self) -> Any:
        """A tidy pandas frame: one line for each row, player and output."""
        from controlshap.results.tables import tidy_columns

        pandas = require("pandas", extra="frames", feature="`to_frame()`")
        return pandas.DataFrame(tidy_columns(self))

    def save(self, path: str | Path) -> Path:
        """Write to a folder (arrays and JSON) that `controlshap.load(path)` reads back.

        A path that ends in .csv, .parquet, .arrow or .feather gets the tidy table of `to_frame()` instead.
        """
        from controlshap.results.tables import write_table
        from controlshap.storage.explanations import save_explanation

        path = as_path(path, "path")
        if path.suffix.lower() in (".csv", ".parquet", ".arrow", ".feather"):
            return write_table(self, path)
        way_out = ", or end in .csv, .parquet, .arrow or .feather for a table; pages are written by `report(path)`"
        return save_explanation(self, as_folder(path, "path", way_out))

    def export(self, folder: str | Path) -> Path:
        """Write a folder for an experiment tracker (`mlflow.log_artifacts(folder)`).

        It holds the result (`controlshap.load(folder)`), the tidy table (Parquet, or CSV without pyarrow), and
        `metrics.json` and `params.json`, flat, for `mlflow.log_metrics` and `mlflow.log_params`.
        """
        from controlshap.results.tables import export

        return export(self, as_path(folder, "folder"))


def check_output(explanation: Explanation, output: Any) -> int | None:
    """An output's number from its number or name; None for a model with one output."""
    n = explanation.values.shape[2] if explanation.values.ndim == 3 else None
    return output_number(output, n, explanation.output_names)
