"""Build an `Explanation` from the results of rows, or from other explanations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._types import AnyArray, BoolArray, FloatArray, IntArray
from controlshap.controls.base import EvaluatedRows
from controlshap.data.players import Players
from controlshap.results.axes import join_row_names, join_rows, select_rows
from controlshap.results.explanation import Explanation, History, StrArray
from controlshap.statistics.analysis import Analysis

#: Bytes of evaluations that are kept unless asked otherwise.
KEPT = 64 * 2**20


@dataclass(frozen=True)
class PairResult:
    """Interactions of the pairs of players of one row, with errors and degrees of freedom, `(pairs, outputs)`."""

    indices: FloatArray
    standard_errors: FloatArray
    dof: FloatArray

    @classmethod
    def exact(cls, indices: FloatArray) -> PairResult:
        """A result without error."""
        return cls(indices, np.zeros(indices.shape), np.full(indices.shape, np.inf))

    @classmethod
    def concatenate(cls, parts: list[PairResult]) -> PairResult:
        """The pairs of one row, of which some were analysed after others."""
        return cls(*(np.concatenate([getattr(part, name.name) for part in parts]) for name in fields(cls)))

    @classmethod
    def stack(cls, parts: list[PairResult]) -> PairResult:
        """The pairs of several rows, with a leading axis of rows."""
        return cls(*(np.stack([getattr(part, name.name) for part in parts]) for name in fields(cls)))


@dataclass(frozen=True)
class RowResult:
    """Estimates of one row, what they cost and how the run ended; `evaluated` has rows for later ones to learn from.

    `guaranteed` (4, players, outputs) are bounds that hold for any number of units: low and high of each value, and of
    all values together.
    """

    analysis: Analysis
    n_evaluations: int
    status: str
    method: str
    controls: str = ""
    alpha_fraction: float = 1.0
    complete: bool = True
    background_variances: FloatArray | None = None
    distribution_variances: FloatArray | None = None
    evaluations: FloatArray | None = None
    stages: tuple[int, ...] = ()
    history: tuple[tuple[int, FloatArray, FloatArray], ...] = ()
    pairs: PairResult | None = None
    evaluated: EvaluatedRows | None = None
    guaranteed: FloatArray | None = None

    @property
    def halves(self) -> FloatArray | None:
        """How far one half of the units lies from the other `(players, outputs)`; 0 where there is no error."""
        found = self.analysis.halves
        return np.zeros(self.analysis.controlled.values[:-1].shape) if self.status == "exact" else found

    @property
    def largest_error(self) -> float:
        """Largest standard error of a value."""
        return float(np.sqrt(self.analysis.controlled.variances[:-1].max(initial=0.0)))


@dataclass(frozen=True, eq=False, kw_only=True)
class RowArrays:
    """Results of rows as arrays.

    Attributes
    ----------
    values, variances, degrees_of_freedom : ndarray of shape (rows, players + 1, outputs)
        The base value is the last component.
    covariances : ndarray of shape (rows, outputs, players, players)
    uncontrolled_values, uncontrolled_variances, variance_reduction : ndarray of shape (rows, players, outputs)
    n_evaluations, status, method, controls, alpha_fraction, complete : ndarray of shape (rows,)
        As in `RowResult`, with the part of alpha that a look at the result may be wrong with.
    stages : tuple of tuple of int
        Units of each row after each of its stages.
    background_variances, distribution_variances : ndarray of shape (rows, players, outputs) or None
    pairs : PairResult or None
        With a leading axis of rows.
    guaranteed : ndarray of shape (rows, 4, players, outputs) or None
    halves : ndarray of shape (rows, players, outputs) or None
    """

    values: FloatArray
    variances: FloatArray
    degrees_of_freedom: FloatArray
    covariances: FloatArray
    uncontrolled_values: FloatArray
    uncontrolled_variances: FloatArray
    variance_reduction: FloatArray
    n_evaluations: IntArray
    status: StrArray
    method: StrArray
    controls: StrArray
    alpha_fraction: FloatArray
    complete: BoolArray
    stages: tuple[tuple[int, ...], ...]
    background_variances: FloatArray | None = None
    distribution_variances: FloatArray | None = None
    evaluations: tuple[FloatArray, ...] | None = None
    pairs: PairResult | None = None
    guaranteed: FloatArray | None = None
    halves: FloatArray | None = None

    @classmethod
    def stack(cls, results: list[RowResult]) -> RowArrays:
        """The results of rows that were explained one by one."""
        controlled = [r.analysis.controlled for r in results]
        uncontrolled = [r.analysis.uncontrolled for r in results]
        of_background = [r.background_variances[:-1] for r in results if r.background_variances is not None]
        of_distribution = [r.distribution_variances for r in results if r.distribution_variances is not None]
        pairs = [r.pairs for r in results if r.pairs is not None]
        halves = [r.halves for r in results if r.halves is not None]
        return cls(
            values=np.stack([estimate.values for estimate in controlled]),
            variances=np.stack([estimate.variances for estimate in controlled]),
            degrees_of_freedom=np.stack([estimate.dof for estimate in controlled]),
            covariances=np.stack([estimate.covariances[:, :-1, :-1] for estimate in controlled]),
            uncontrolled_values=np.stack([estimate.values[:-1] for estimate in uncontrolled]),
            uncontrolled_variances=np.stack([estimate.variances[:-1] for estimate in uncontrolled]),
            variance_reduction=np.stack([r.analysis.variance_reduction[:-1] for r in results]),
            n_evaluations=np.array([r.n_evaluations for r in results], dtype=np.int64),
            status=np.array([r.status for r in results]),
            method=np.array([r.method for r in results]),
            controls=np.array([r.controls for r in results]),
            alpha_fraction=np.array([r.alpha_fraction for r in results]),
            complete=np.array([r.complete for r in results]),
            stages=tuple(r.stages for r in results),
            background_variances=np.stack(of_background) if len(of_background) == len(results) else None,
            distribution_variances=np.stack(of_distribution) if len(of_distribution) == len(results) else None,
            evaluations=_evaluations(results),
            pairs=PairResult.stack(pairs) if pairs else None,
            guaranteed=_stack_bounds(results),
            halves=np.stack(halves) if len(halves) == len(results) else None,
        )

    def explanation(
        self,
        data: AnyArray,
        base_error: FloatArray,
        *,
        players: Players,
        column_names: tuple[str, ...],
        output_names: tuple[str, ...] | None,
        entropy: int,
        settings: dict[str, Any],
    ) -> Explanation:
        """An `Explanation` of these rows; `base_error` (outputs,) is that of a background which was itself sampled."""
        single = self.values.shape[2] == 1

        def drop_output(array: FloatArray) -> FloatArray:
            return array[..., 0] if single else array

        between, pairs, bounds = self.background_variances, self.pairs, self.guaranteed
        if bounds is None and settings.get("guarantee"):  # all rows are exact
            bounds = np.repeat(self.values[:, None, :-1], 4, axis=1)
        ends = [None] * 4 if bounds is None else [drop_output(bounds[:, k]) for k in range(4)]
        return Explanation(
            values=drop_output(self.values[:, :-1]),
            standard_errors=drop_output(np.sqrt(self.variances[:, :-1])),
            base_values=drop_output(self.values[:, -1]),
            base_standard_errors=drop_output(np.sqrt(self.variances[:, -1] + base_error**2)),
            uncontrolled_values=drop_output(self.uncontrolled_values),
            uncontrolled_standard_errors=drop_output(np.sqrt(self.uncontrolled_variances)),
            variance_reduction=drop_output(self.variance_reduction),
            degrees_of_freedom=drop_output(self.degrees_of_freedom[:, :-1]),
            covariance=self.covariances[:, 0] if single else self.covariances,
            n_evaluations=self.n_evaluations,
            status=self.status,
            method=self.method,
            controls=self.controls,
            data=data,
            feature_names=players.names,
            column_names=column_names,
            output_names=output_names,
            player_columns=tuple(tuple(int(c) for c in columns) for columns in players.columns),
            entropy=entropy,
            settings=settings,
            look_shares=self.alpha_fraction,
            complete=self.complete,
            background_standard_errors=None if between is None else drop_output(np.sqrt(between)),
            distribution_standard_errors=(
                None if self.distribution_variances is None else drop_output(np.sqrt(self.distribution_variances))
            ),
            evaluations=self.evaluations,
            stages=self.stages,
            half_ratios=None if self.halves is None else drop_output(self.halves),
            guaranteed_low=ends[0],
            guaranteed_high=ends[1],
            guaranteed_low_together=ends[2],
            guaranteed_high_together=ends[3],
            interaction_indices=None if pairs is None else drop_output(pairs.indices),
            interaction_standard_errors=None if pairs is None else drop_output(pairs.standard_errors),
            interaction_degrees_of_freedom=None if pairs is None else drop_output(pairs.dof),
        )


def _stack_bounds(results: list[RowResult]) -> FloatArray | None:
    """Bounds of rows, of exact ones their values; None where no row has any."""
    if all(r.guaranteed is None for r in results):
        return None
    exact = [np.stack([r.analysis.controlled.values[:-1]] * 4) for r in results]
    return np.stack([own if r.guaranteed is None else r.guaranteed for r, own in zip(results, exact, strict=True)])


def histories(results: list[RowResult]) -> list[History]:
    """Estimates of each row after each of its stages; a row that was not sampled has one."""
    rows = []
    for result in results:
        final = result.analysis.controlled
        stages = result.history or ((result.n_evaluations, final.values[:-1], np.sqrt(final.variances[:-1])),)
        counts, values, errors = (list(column) for column in zip(*stages, strict=True))
        single = values[0].shape[1] == 1
        arrays = [np.stack(column)[..., 0] if single else np.stack(column) for column in (values, errors)]
        rows.append(History(np.array(counts, dtype=np.int64), *arrays))
    return rows


def limit_kept(results: Iterable[RowResult], keep: bool | None) -> list[RowResult]:
    """All results; by default evaluations are dropped as soon as they take more than `KEPT` bytes."""
    kept: list[RowResult] = []
    n_bytes, too_much = 0, False
    for result in results:
        n_bytes += 0 if result.evaluations is None else result.evaluations.nbytes
        if keep is None and n_bytes > KEPT and not too_much:
            too_much, kept = True, [replace(earlier, evaluations=None) for earlier in kept]
        kept.append(replace(result, evaluations=None) if too_much else result)
    return kept


def _evaluations(results: list[RowResult]) -> tuple[FloatArray, ...] | None:
    """Outputs of the model for each row, none for exact rows; None where some were not kept."""
    if any(r.evaluations is None and r.status != "exact" for r in results):
        return None
    return tuple(np.zeros((0, 0)) if r.evaluations is None else r.evaluations for r in results)


def merge(
    before: Explanation,
    refined: dict[int, RowResult],
    build: Callable[..., Explanation],
    settings: dict[str, Any],
) -> Explanation:
    """The earlier explanation with some of its rows replaced; their history ends where it did."""
    before = replace(before, settings=settings)
    if not refined:
        return before
    rows = list(refined)
    after = build(RowArrays.stack(list(refined.values())), before.data[rows], before.entropy, settings)
    of_rows = select_rows(before, np.array(rows))
    after = replace(after, **{name: of_rows[name] for name in ("row_numbers", "row_names", "kept")})
    order = np.arange(len(before))
    order[rows] = len(before) + np.arange(len(rows))
    return replace(Explanation.concat([before, after])[order], history=before.history)


def join_explanations(parts: list[Explanation]) -> Explanation:
    """The rows of all parts, one after the other; see `Explanation.concat`."""
    _check_joined(parts)
    first = parts[0]
    joined = join_rows(parts) | {"row_names": join_row_names(parts)}
    if any(part.entropy != first.entropy or part.settings != first.settings for part in parts):
        nothing = object()
        shared = {n: v for n, v in first.settings.items() if all(p.settings.get(n, nothing) == v for p in parts)}
        joined["settings"] = shared | {"runs": sum(part.settings.get("runs", 1) for part in parts)}
        joined["evaluations"] = None
    return replace(first, **joined)


def _check_joined(parts: list[Explanation]) -> None:
    """Refuse parts that are not explanations of the same players, columns and outputs."""
    if not parts or not all(isinstance(part, Explanation) for part in parts):
        kinds = sorted({type(part).__name__ for part in parts})
        raise InvalidArgumentError(f"`parts` must be explanations, one or more; got {', '.join(kinds) or 'none'}.")
    for name in ("feature_names", "column_names", "player_columns", "output_names"):
        first = getattr(parts[0], name)
        for number, part in enumerate(parts):
            if getattr(part, name) != first:
                raise InvalidArgumentError(
                    f"`parts` must agree in `{name}`: part 0 has {first!r}, part {number} {getattr(part, name)!r}. "
                    "Explain all rows with the same explainer."
                )
    shapes = sorted({part.values.shape[2:] for part in parts})
    if len(shapes) > 1:
        raise InvalidArgumentError(f"`parts` must have the same outputs; for each player they have shapes {shapes}.")
