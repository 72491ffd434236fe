"""Build an `Explanation` from the results of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from controlshap._types import AnyArray, FloatArray
from controlshap.controls.fits.rows import EvaluatedRows
from controlshap.data.players import Players
from controlshap.results.explanation import Explanation, History
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


@dataclass(frozen=True)
class RowResult:
    """Estimates of one row, what they cost and how the run ended; `evaluated` is what later rows may learn from."""

    analysis: Analysis
    n_evaluations: int
    status: str
    method: str
    controls: str = ""
    share: float = 1.0
    complete: bool = True
    background_variances: FloatArray | None = None
    evaluations: FloatArray | None = None
    stages: tuple[int, ...] = ()
    history: tuple[tuple[int, FloatArray, FloatArray], ...] = ()
    pairs: PairResult | None = None
    evaluated: EvaluatedRows | None = None

    @property
    def largest_error(self) -> float:
        """Largest standard error of a value."""
        return float(np.sqrt(self.analysis.controlled.variances[:-1].max(initial=0.0)))


@dataclass(frozen=True)
class Names:
    """Names of players, columns and outputs."""

    players: Players
    columns: tuple[str, ...]
    outputs: tuple[str, ...] | None


def build_explanation(
    results: list[RowResult],
    data: AnyArray,
    names: Names,
    base_error: FloatArray,
    *,
    entropy: int,
    settings: dict[str, Any],
) -> Explanation:
    """Stack the results of rows; `base_error` (outputs,) is that of a background which was itself sampled."""
    single = results[0].analysis.controlled.values.shape[1] == 1

    def stack(parts: list[FloatArray]) -> FloatArray:
        array = np.stack(parts)
        return array[..., 0] if single else array

    covariance = np.stack([r.analysis.controlled.covariances[:, :-1, :-1] for r in results])
    of_background = [np.sqrt(r.background_variances[:-1]) for r in results if r.background_variances is not None]
    pairs = [r.pairs for r in results if r.pairs is not None]
    return Explanation(
        values=stack([r.analysis.controlled.values[:-1] for r in results]),
        standard_errors=stack([np.sqrt(r.analysis.controlled.variances[:-1]) for r in results]),
        base_values=stack([r.analysis.controlled.values[-1] for r in results]),
        base_standard_errors=stack([np.sqrt(r.analysis.controlled.variances[-1] + base_error**2) for r in results]),
        uncontrolled_values=stack([r.analysis.uncontrolled.values[:-1] for r in results]),
        uncontrolled_standard_errors=stack([np.sqrt(r.analysis.uncontrolled.variances[:-1]) for r in results]),
        variance_reduction=stack([r.analysis.variance_reduction[:-1] for r in results]),
        degrees_of_freedom=stack([r.analysis.controlled.dof[:-1] for r in results]),
        covariance=covariance[:, 0] if single else covariance,
        n_evaluations=np.array([r.n_evaluations for r in results], dtype=np.int64),
        status=np.array([r.status for r in results]),
        method=np.array([r.method for r in results]),
        controls=np.array([r.controls for r in results]),
        data=data,
        feature_names=names.players.names,
        column_names=names.columns,
        output_names=names.outputs,
        player_columns=tuple(tuple(int(c) for c in columns) for columns in names.players.columns),
        entropy=entropy,
        settings=settings,
        look_shares=np.array([r.share for r in results]),
        complete=np.array([r.complete for r in results]),
        background_standard_errors=stack(of_background) if len(of_background) == len(results) else None,
        evaluations=_evaluations(results),
        stages=tuple(r.stages for r in results),
        interaction_indices=stack([pair.indices for pair in pairs]) if pairs else None,
        interaction_standard_errors=stack([pair.standard_errors for pair in pairs]) if pairs else None,
        interaction_degrees_of_freedom=stack([pair.dof for pair in pairs]) if pairs else None,
    )


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
    after = build(list(refined.values()), before.data[rows], before.entropy, settings)
    after = replace(after, row_numbers=before.row_numbers[rows])
    order = np.arange(len(before))
    order[rows] = len(before) + np.arange(len(rows))
    return replace(Explanation.concat([before, after])[order], history=before.history)
