"""Pairwise interactions of an explanation: indices, errors, certainty, tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._checks import check_level, is_whole
from controlshap._errors import InvalidArgumentError
from controlshap._imports import require
from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.results.axes import check_row, label_rows, take_one
from controlshap.results.show import show_interactions
from controlshap.statistics.certainty import quantile, rounding_floor, sidak_half_widths

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation


@dataclass(frozen=True, eq=False, repr=False)
class Interactions:
    """Pairwise Shapley interactions of some rows, with standard errors.

    The index `I_ij` of two players is the mean, over coalitions S without them, of what they add together beyond what
    they add apart, `v(S + ij) - v(S + i) - v(S + j) + v(S)`. Matrices have the shape (rows, players, players), with the
    outputs last where the model has several.
    """

    explanation: Explanation

    def __len__(self) -> int:
        return len(self.explanation)

    def __repr__(self) -> str:
        return show_interactions(self)

    @property
    def index(self) -> FloatArray:
        """`I_ij`, symmetric, 0 on the diagonal."""
        return self._matrix(self._pairs("indices"))

    @property
    def values(self) -> FloatArray:
        """Arrays as shap has them: `I_ij / 2` off the diagonal, on it the main effect `phi_i - sum_j I_ij / 2`.

        A row of a matrix sums to the player's Shapley value, and the whole matrix to the prediction less the base
        value.
        """
        matrix = 0.5 * self.index
        players = np.arange(matrix.shape[1])
        matrix[:, players, players] = self.explanation.values - matrix.sum(axis=2)
        return matrix

    @property
    def standard_errors(self) -> FloatArray:
        """Errors of `index` due to sampling, 0 where exact and on the diagonal."""
        return self._matrix(self._pairs("standard_errors"))

    @property
    def degrees_of_freedom(self) -> FloatArray:
        """Degrees of freedom of the standard errors; infinite where exact and on the diagonal."""
        return self._matrix(self._pairs("degrees_of_freedom"), np.inf)

    def confidence_interval(self, level: float = 0.95, *, simultaneous: bool = False) -> tuple[FloatArray, FloatArray]:
        """Bounds that hold each `I_ij` with probability `level`.

        Parameters
        ----------
        level : float
        simultaneous : bool
            Whether the bounds hold all pairs of a row (and output) together, whatever their correlation (Sidak), also
            where the run was stopped by what it showed.

        Returns
        -------
        low, high : ndarray of the shape of `index`
        """
        reach = self._matrix(self._half_widths(check_level(level), simultaneous=simultaneous))
        return self.index - reach, self.index + reach

    def ranking(self, level: float = 0.95) -> PairRanking:
        """Pairs by magnitude, and which of them are certain to be the largest, and of which sign."""
        level = check_level(level)
        indices, reach = self._pairs("indices"), self._half_widths(level, simultaneous=True)
        several = indices.ndim == 3
        size, reach = (array if several else array[..., None] for array in (np.abs(indices), reach))
        # an error of 0 is knowledge only where every background row had a part
        unsure = (reach == 0) & ~self.explanation.complete[:, None, None]
        reach = np.where(unsure, np.inf, reach)
        order = np.argsort(-size, axis=1, kind="stable")
        low, high = (np.take_along_axis(bound, order, axis=1) for bound in (size - reach, size + reach))
        least_above = np.minimum.accumulate(low, axis=1)[:, :-1]
        most_below = np.maximum.accumulate(high[:, ::-1], axis=1)[:, ::-1][:, 1:]
        floors = [[rounding_floor(row[:, o]) for o in range(size.shape[2])] for row in size]
        floor = np.reshape(floors, (len(size), 1, size.shape[2]))
        cuts, signs = least_above > most_below + floor, low > floor
        if not several:
            order, cuts, signs = order[..., 0], cuts[..., 0], signs[..., 0]
        return PairRanking(order, cuts, signs, level, self._names, self.explanation.output_names)

    def top(self, k: int = 10, row: int = 0, output: int | str | None = None, *, level: float = 0.95) -> Any:
        """A pandas frame of the k largest pairs of a row.

        The column `certain_top` says whether the pairs down to this one are certain to be the largest, and
        `certain_sign` whether its sign is; all of it together holds with probability `level`.
        """
        n_pairs = self._pairs("indices").shape[1]
        if not is_whole(k) or k < 1:
            raise InvalidArgumentError(f"`k` must be a number of pairs, at least 1; got {k!r}.")
        one = self.explanation[check_row(row, len(self), self.explanation.row_names)].output(output).interactions
        ranking, frame = one.ranking(level), one.to_frame()
        certain = np.append(ranking.separated[0], True)
        frame = frame.iloc[ranking.order[0]].assign(certain_top=certain, certain_sign=ranking.signs[0])
        return frame.drop(columns="row").head(min(k, n_pairs)).reset_index(drop=True)

    def to_frame(self) -> Any:
        """A tidy pandas frame: one line for each row, pair and output, with 95 % intervals."""
        pandas = require("pandas", extra="frames", feature="`to_frame()`")
        return pandas.DataFrame(self.tidy_columns())

    def tidy_columns(self) -> dict[str, Any]:
        """Columns of the tidy table."""
        indices = self._pairs("indices")
        several = indices.ndim == 3
        shape = indices.shape if several else (*indices.shape, 1)
        index = np.indices(shape).reshape(3, -1)
        names = np.array(self._names, dtype=object)
        rows = np.array(label_rows(self.explanation), dtype=object)[index[0]]
        columns: dict[str, Any] = {"row": rows, "feature": names[index[1], 0], "partner": names[index[1], 1]}
        if several:
            outputs = self.explanation.output_names or tuple(str(i) for i in range(shape[2]))
            columns["output"] = np.array(outputs, dtype=object)[index[2]]
        reach = self._half_widths(0.95, simultaneous=False)
        columns |= {"interaction": indices.reshape(-1), "standard_error": self._pairs("standard_errors").reshape(-1)}
        return columns | {"low": (indices - reach).reshape(-1), "high": (indices + reach).reshape(-1)}

    def to_shap(self) -> Any:
        """A `shap.Explanation` of `values`, whose arrays are those of shap's tree interactions.

        `shap.summary_plot(found.values, found.data)` and `shap.dependence_plot(("a", "b"), found.values, found.data)`
        take them.
        """
        from controlshap.shap_compat.export import to_shap

        of_values = to_shap(self.explanation)
        return type(of_values)(
            values=self.values,
            base_values=of_values.base_values,
            data=of_values.data,
            display_data=of_values.display_data,
            feature_names=of_values.feature_names,
            output_names=of_values.output_names,
        )

    @property
    def _names(self) -> tuple[tuple[str, str], ...]:
        names = self.explanation.feature_names
        return tuple((names[i], names[j]) for i, j in zip(*self._players, strict=True))

    @property
    def _players(self) -> tuple[IntArray, IntArray]:
        first, second = np.triu_indices(len(self.explanation.feature_names), 1)
        return first, second

    def _pairs(self, name: str) -> FloatArray:
        """An array over pairs, `(rows, pairs, ...)`."""
        array: FloatArray = getattr(self.explanation, f"interaction_{name}")
        return array

    def _matrix(self, pairs: FloatArray, diagonal: float = 0.0) -> FloatArray:
        """Symmetric matrices from the values of pairs `(rows, pairs, ...)`."""
        p = len(self.explanation.feature_names)
        matrix = np.full((len(pairs), p, p, *pairs.shape[2:]), diagonal)
        first, second = self._players
        matrix[:, first, second] = pairs
        matrix[:, second, first] = pairs
        return matrix

    def _half_widths(self, level: float, *, simultaneous: bool) -> FloatArray:
        """Half the width of each interval, of the shape of the pairs; 0 where there is no error."""
        errors, dof = self._pairs("standard_errors"), self._pairs("degrees_of_freedom")
        if not simultaneous:
            return np.where(errors > 0, quantile(dof, (1.0 - level) / 2.0) * errors, 0.0)
        shares = self.explanation.look_shares.reshape(-1, *[1] * (errors.ndim - 1))
        return sidak_half_widths(errors, dof, (1.0 - level) * shares, axis=1)


@dataclass(frozen=True, eq=False)
class PairRanking:
    """Pairs by decreasing magnitude of their interaction, row by row.

    With probability `level`, everything that is certified about a row (and output) is right together: it is read off
    simultaneous intervals.

    Attributes
    ----------
    order : ndarray of shape (rows, pairs) or (rows, pairs, outputs)
        Numbers of pairs in `names`, largest magnitude first.
    separated : ndarray of bool, shape (rows, pairs - 1) or (rows, pairs - 1, outputs)
        Entry k: the first k + 1 of the order are certified to be the k + 1 largest.
    signs : ndarray of bool, of the shape of `order`
        Whether the sign of each pair of the order is certified.
    level : float
    names : tuple of pairs of str
        Players of each pair.
    output_names : tuple of str or None
        Names that may stand in place of the numbers of outputs.
    """

    order: IntArray
    separated: BoolArray
    signs: BoolArray
    level: float
    names: tuple[tuple[str, str], ...]
    output_names: tuple[str, ...] | None = None

    def top(self, k: int, row: int = 0, output: int | str | None = None) -> tuple[tuple[str, str], ...] | None:
        """The k largest pairs of a row, in the estimated order; None where the set is not certified."""
        n_pairs = len(self.names)
        if not is_whole(k) or not 1 <= k <= n_pairs:
            raise InvalidArgumentError(f"`k` must be a number of pairs, 1 to {n_pairs}; got {k!r}.")
        order, separated = (take_one(array, row, output, self.output_names) for array in (self.order, self.separated))
        return tuple(self.names[pair] for pair in order[:k]) if k == n_pairs or separated[k - 1] else None

    def __repr__(self) -> str:
        rows, n_pairs = self.order.shape[:2]
        return f"<PairRanking of {n_pairs} pairs in {rows} row(s) at level {self.level:g}>"
