"""The result: values with errors, what the control bought, and how to get the same numbers again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._checks import check_level
from controlshap._errors import InvalidArgumentError
from controlshap._optional import require
from controlshap._types import AnyArray, BoolArray, FloatArray, IntArray
from controlshap.results.history import History
from controlshap.results.ranking import Ranking, rank
from controlshap.results.summary import Summary, summarise
from controlshap.statistics.certainty import quantile, simultaneous_tail

if TYPE_CHECKING:
    from controlshap.plots import Plots


@dataclass(frozen=True, eq=False)
class Explanation:
    """Shapley values of some rows.

    One shape rule: rows first, then players, then outputs if and only if the model has several.

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
        Anticipated share of the variance that the control removes, 0 to 1 (a squared correlation).
    degrees_of_freedom : ndarray
        Of the standard errors; infinite where exact.
    covariance : ndarray of shape (rows, players, players) or (rows, outputs, players, players)
        Covariance of the values of a row.
    n_evaluations : ndarray of shape (rows,)
        Model evaluations spent on each row, derivatives included.
    status : ndarray of str, shape (rows,)
        "exact", "converged" (what was asked for was reached), "budget reached" or "time reached".
    method : ndarray of str, shape (rows,)
        Estimator and control that were used.
    controls : ndarray of str, shape (rows,)
        The controls with their mean coefficients, such as "LogisticRidge 0.98, Trees 0.02"; empty without control.
    look_shares : ndarray of shape (rows,)
        Share of `1 - level` that rankings and simultaneous intervals may use: 1, or less where a run was looked at
        several times and stopped by what was seen.
    complete : ndarray of bool, shape (rows,)
        Whether every background row had a part (or the values are exact). Before that an error of 0 may only mean that
        nothing that matters was met yet, and certifies nothing.
    background_standard_errors : ndarray of the shape of `values`, or None
        What the values owe to the choice of the background rows, if these are a sample of a population; no part of
        `standard_errors`. None where it is not known: with features="correlated", where the background only gives a
        mean and a covariance, and where all units use the whole background.
    data : ndarray of shape (rows, columns)
        The explained rows: numbers, or objects where some columns are categories.
    feature_names : tuple of str
        Names of the players.
    column_names : tuple of str
        Names of the columns of `data`.
    output_names : tuple of str or None
        Names of the outputs, when the model gives them.
    entropy : int
        `rng=` that gives the same numbers.
    settings : dict
        How the explanation was made.
    evaluations : tuple of ndarray, or None
        What the model said about each row, from which `Explainer.refine` goes on; None where it was not kept.
    stages : tuple of tuples of int
        Units after which each row was looked at.
    history : tuple of History, or None
        The estimates of each row after each of its stages; None unless asked for with `history=True`.
    """

    values: FloatArray
    standard_errors: FloatArray
    base_values: FloatArray
    base_standard_errors: FloatArray
    uncontrolled_values: FloatArray
    uncontrolled_standard_errors: FloatArray
    variance_reduction: FloatArray
    degrees_of_freedom: FloatArray
    covariance: FloatArray
    n_evaluations: IntArray
    status: np.ndarray[Any, np.dtype[np.str_]]
    method: np.ndarray[Any, np.dtype[np.str_]]
    controls: np.ndarray[Any, np.dtype[np.str_]]
    data: AnyArray
    feature_names: tuple[str, ...]
    column_names: tuple[str, ...]
    output_names: tuple[str, ...] | None
    player_columns: tuple[tuple[int, ...], ...]
    entropy: int
    settings: dict[str, Any]
    look_shares: FloatArray
    complete: BoolArray
    background_standard_errors: FloatArray | None = None
    evaluations: tuple[FloatArray, ...] | None = None
    stages: tuple[tuple[int, ...], ...] = ()
    history: tuple[History, ...] | None = None

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        rows, players = self.values.shape[:2]
        outputs = f", {self.values.shape[2]} outputs" if self.values.ndim == 3 else ""
        kinds = ", ".join(f"{(self.status == s).sum()} {s}" for s in np.unique(self.status))
        return (
            f"<Explanation of {rows} row(s), {players} players{outputs}: {kinds}; largest standard error "
            f"{self.standard_errors.max():.3g}>"
        )

    @property
    def gain(self) -> FloatArray:
        """What the control bought, shape (rows,): variance without it over variance with it, summed over values.

        The plain estimate would have needed this many times the evaluations; 1 where there is no error either way,
        infinite where the control left none.
        """
        axes = tuple(range(1, self.values.ndim))
        plain = (self.uncontrolled_standard_errors**2).sum(axis=axes)
        controlled = (self.standard_errors**2).sum(axis=axes)
        ratio = plain / np.where(controlled > 0, controlled, 1.0)
        return np.where(controlled > 0, ratio, np.where(plain > 0, np.inf, 1.0))

    @property
    def evaluations_saved(self) -> FloatArray:
        """Evaluations that the control saved, shape (rows,): what plain sampling would need for the same error, less.

        Negative where the control made it worse, infinite where it left no error.
        """
        return (self.gain - 1.0) * self.n_evaluations

    def confidence_interval(
        self, level: float = 0.95, *, simultaneous: bool = False, background: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        """Bounds that hold each true value with probability `level`.

        Parameters
        ----------
        level : float
        simultaneous : bool
            Whether the bounds hold all values of a row (and output) together, also where the run was stopped by what
            was seen; otherwise one value at a time.
        background : bool
            Whether the true value is that of the population which the background is a sample of
            (`background_standard_errors`); otherwise that of the background itself.

        Returns
        -------
        low, high : ndarray of the shape of `values`
        """
        level = check_level(level)
        errors, dof = self.standard_errors, self.degrees_of_freedom
        if background:
            errors, dof = self._with_background()
        critical = self._simultaneous(level, errors, dof) if simultaneous else quantile(dof, (1.0 - level) / 2.0)
        reach = np.where(errors > 0, critical * errors, 0.0)
        return self.values - reach, self.values + reach

    def _with_background(self) -> tuple[FloatArray, FloatArray]:
        """Errors and degrees of freedom of both terms together."""
        of_background = self.background_standard_errors
        if of_background is None:
            raise InvalidArgumentError(
                "`background=True`: the error of the background is not known here. It needs features='independent', "
                "units that share their draws and do not all use the whole background (KernelSHAP may). Leave it out."
            )
        own, other = self.standard_errors**2, of_background**2
        n_rows = min(int(self.settings["n_background"]), int(self.settings["max_background"]))
        known = np.where(np.isfinite(self.degrees_of_freedom), self.degrees_of_freedom, 1e12)
        total = own + other
        share = own / np.where(total > 0, total, 1.0)
        spread = np.where(total > 0, share**2 / known + (1.0 - share) ** 2 / max(n_rows - 1, 1), 0.0)
        dof = np.where(spread > 0, 1.0 / np.where(spread > 0, spread, 1.0), np.inf)
        return np.sqrt(total), dof

    def _simultaneous(self, level: float, errors: FloatArray, dof: FloatArray) -> FloatArray:
        """Critical values, of the shape of `values`."""
        several = self.values.ndim == 3
        covariance = self.covariance if several else self.covariance[:, None]
        shaped = errors if several else errors[..., None]
        freedom = dof if several else dof[..., None]
        critical = np.empty(shaped.shape)
        for row in range(len(shaped)):
            alpha = (1.0 - level) * self.look_shares[row]
            for output in range(shaped.shape[2]):
                spread = covariance[row, output]
                # an error that was added (of the background) has no known correlation: it is taken as independent
                more = shaped[row, :, output] ** 2 - np.diag(spread)
                tail = simultaneous_tail(spread + np.diag(np.maximum(more, 0.0)), freedom[row, :, output], alpha)
                critical[row, :, output] = quantile(freedom[row, :, output], tail)
        return critical if several else critical[..., 0]

    def ranking(self, level: float = 0.95) -> Ranking:
        """Players by magnitude, which of them are separated, and how likely neighbours are to swap on a rerun."""
        return rank(self, check_level(level))

    def summary(self, *, sampled_rows: bool = False) -> Summary:
        """Mean absolute value of each player over rows, with errors and corrected for noise.

        Parameters
        ----------
        sampled_rows : bool
            Whether the explained rows are a sample, whose choice is then part of the standard errors.
        """
        if sampled_rows and len(self) < 2:
            raise InvalidArgumentError("`sampled_rows=True` needs two explained rows or more. Leave it out.")
        return summarise(self, sampled_rows=sampled_rows)

    def player_data(self) -> np.ndarray[Any, np.dtype[Any]]:
        """What each player shows `(rows, players)`: its value, the level of a one-hot group, all values of another."""
        shown = np.empty((len(self.data), len(self.player_columns)), dtype=object)
        for player, columns in enumerate(self.player_columns):
            block = self.data[:, list(columns)]
            if len(columns) == 1:
                shown[:, player] = block[:, 0]
            elif not one_hot(block):
                shown[:, player] = [", ".join(_short(value) for value in row) for row in block.tolist()]
            else:
                active = block.argmax(axis=1)
                shown[:, player] = [self.column_names[columns[a]] for a in active]
        return shown

    @property
    def plot(self) -> Plots:
        """Pictures: `plot.bar()`, `plot.waterfall(row)`, `plot.beeswarm()`, `plot.ranking(row)` and others."""
        from controlshap.plots import Plots

        return Plots(self)

    def report(self, path: str | Path, *, title: str | None = None, level: float = 0.95) -> Path:
        """Write one self-contained HTML file to read, to hand on and to print.

        Parameters
        ----------
        path : str or Path
            The file.
        title : str, optional
        level : float
            Of intervals and certified rankings.
        """
        from controlshap.report import write_report

        return write_report(self, path, title=title, level=check_level(level))

    def to_shap(self, level: float | None = None) -> Any:
        """A `shap.Explanation`, for shap's plots.

        Parameters
        ----------
        level : float, optional
            Of intervals that shap's waterfall draws; left out where not given, since shap's means cannot take them.
        """
        from controlshap.shap_compat.export import to_shap

        return to_shap(self, level)

    def to_frame(self) -> Any:
        """A tidy pandas frame: one line for each row, player and output."""
        pandas = require("pandas", extra="frames", feature="`to_frame()`")
        from controlshap.results.tables import tidy_columns

        return pandas.DataFrame(tidy_columns(self))

    def save(self, path: str | Path) -> Path:
        """Write to a folder (arrays and JSON) that `controlshap.load(path)` reads back.

        A path that ends in .csv, .parquet, .arrow or .feather gets the tidy table of `to_frame()` instead.
        """
        from controlshap.results.tables import write_table
        from controlshap.storage.explanations import save_explanation

        path = Path(path)
        is_table = path.suffix.lower() in (".csv", ".parquet", ".arrow", ".feather")
        return write_table(self, path) if is_table else save_explanation(self, path)

    def export(self, folder: str | Path) -> Path:
        """Write a folder for an experiment tracker (`mlflow.log_artifacts(folder)`).

        It holds the result (`controlshap.load(folder)`), the tidy table (Parquet, or CSV without pyarrow), and
        `metrics.json` and `params.json`, flat, for `mlflow.log_metrics` and `mlflow.log_params`.
        """
        from controlshap.results.tables import export

        return export(self, Path(folder))


def one_hot(block: AnyArray) -> bool:
    """Whether exactly one of the columns is 1, and the others 0, in every row."""
    try:
        numbers = block.astype(float)
    except (TypeError, ValueError):
        return False
    return bool(np.isin(numbers, (0.0, 1.0)).all() and (numbers.sum(axis=1) == 1).all())


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
