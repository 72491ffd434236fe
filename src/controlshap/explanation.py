"""The result: values with errors, what the control bought, and how to get the same numbers again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError, MissingExtraError
from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.arguments import check_level
from controlshap.certainty import quantile, simultaneous_tail
from controlshap.ranking import Ranking, rank
from controlshap.summary import Summary, summarise


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
        The explained rows.
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
    data: FloatArray
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
        spread = own**2 / known + other**2 / max(n_rows - 1, 1)
        total = own + other
        dof = np.where(spread > 0, total**2 / np.where(spread > 0, spread, 1.0), np.inf)
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
        """What each player shows `(rows, players)`: a column's value, or a group's active or first column."""
        shown = np.empty((len(self.data), len(self.player_columns)), dtype=object)
        for player, columns in enumerate(self.player_columns):
            block = self.data[:, list(columns)]
            if len(columns) == 1:
                shown[:, player] = block[:, 0]
            else:
                active = block.argmax(axis=1)
                shown[:, player] = [self.column_names[columns[a]] for a in active]
        return shown

    def to_shap(self) -> Any:
        """A `shap.Explanation`, for shap's plots; standard errors go along as `error_std`."""
        try:
            import shap
        except ImportError as error:
            raise MissingExtraError("`to_shap()` needs shap: pip install 'controlshap[shap]'.") from error
        single = all(len(columns) == 1 for columns in self.player_columns)
        return shap.Explanation(
            values=self.values,
            base_values=self.base_values,
            data=self.data if single else self.player_data(),
            feature_names=list(self.feature_names),
            output_names=list(self.output_names) if self.output_names else None,
            error_std=self.standard_errors,
        )

    def to_frame(self) -> Any:
        """A tidy pandas frame: one line for each row, player and output."""
        try:
            import pandas
        except ImportError as error:
            raise MissingExtraError("`to_frame()` needs pandas: pip install 'controlshap[frames]'.") from error
        several = self.values.ndim == 3
        rows, players = self.values.shape[:2]
        outputs = self.values.shape[2] if several else 1
        low, high = self.confidence_interval(0.95)
        index = np.indices((rows, players, outputs)).reshape(3, -1)
        frame: dict[str, Any] = {
            "row": index[0],
            "feature": np.array(self.feature_names, dtype=object)[index[1]],
        }
        if several:
            names = self.output_names or tuple(str(i) for i in range(outputs))
            frame["output"] = np.array(names, dtype=object)[index[2]]
        for name, array in (
            ("value", self.values),
            ("standard_error", self.standard_errors),
            ("low", low),
            ("high", high),
            ("uncontrolled_value", self.uncontrolled_values),
            ("uncontrolled_standard_error", self.uncontrolled_standard_errors),
            ("variance_reduction", self.variance_reduction),
        ):
            frame[name] = array.reshape(-1)
        frame["feature_value"] = self.player_data()[index[0], index[1]]
        return pandas.DataFrame(frame)

    def save(self, path: str | Path) -> Path:
        """Write to a folder (arrays and JSON); `controlshap.load(path)` reads it back."""
        from controlshap.storage import save_explanation

        return save_explanation(self, Path(path))
