"""Build an `Explanation` from the results of rows, or from other explanations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._types import FloatArray
from controlshap.controls.base import EvaluatedRows
from controlshap.data.players import Players
from controlshap.results.axes import join_factors, join_row_names, join_rows, select_rows, take_output
from controlshap.results.explanation import Explanation, History
from controlshap.statistics.analysis import Analysis

#: Bytes of evaluations that are kept unless asked otherwise.
KEPT = 64 * 2**20
#: Attributes of bounds that hold for any number of units, in the order in which they come from a row.
BOUNDS = ("guaranteed_low", "guaranteed_high", "guaranteed_low_together", "guaranteed_high_together")


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

    def attributes(self, *, guaranteed: bool) -> dict[str, Any]:
        """Attributes that an `Explanation` has of the row; arrays have the outputs last.

        `base_variances` is there in place of `base_standard_errors`; exact values are bounds, where any are asked for.
        """
        found, plain, exact = self.analysis.controlled, self.analysis.uncontrolled, self.status == "exact"
        values, evaluations, bounds = found.values[:-1], self.evaluations, self.guaranteed
        if bounds is None and guaranteed:
            bounds = np.stack([values] * len(BOUNDS))
        of_background = None if self.background_variances is None else self.background_variances[:-1]
        return {
            "values": values,
            "standard_errors": np.sqrt(found.variances[:-1]),
            "base_values": found.values[-1],
            "base_variances": found.variances[-1],
            "uncontrolled_values": plain.values[:-1],
            "uncontrolled_standard_errors": np.sqrt(plain.variances[:-1]),
            "variance_reduction": self.analysis.variance_reduction[:-1],
            "degrees_of_freedom": found.dof[:-1],
            "covariance": found.covariances[:, :-1, :-1],
            "n_evaluations": self.n_evaluations,
            "status": self.status,
            "method": self.method,
            "controls": self.controls,
            "look_shares": self.alpha_fraction,
            "complete": self.complete,
            "background_standard_errors": None if of_background is None else np.sqrt(of_background),
            "distribution_standard_errors": (
                None if self.distribution_variances is None else np.sqrt(self.distribution_variances)
            ),
            "evaluations": np.zeros((0, 0)) if evaluations is None and exact else evaluations,
            "stages": self.stages,
            "half_ratios": np.zeros(values.shape) if exact else self.analysis.halves,
            "shared_factors": None if self.analysis.shared is None else self.analysis.shared[:, :-1],
            "interaction_indices": None if self.pairs is None else self.pairs.indices,
            "interaction_standard_errors": None if self.pairs is None else self.pairs.standard_errors,
            "interaction_degrees_of_freedom": None if self.pairs is None else self.pairs.dof,
        } | dict(zip(BOUNDS, [None] * len(BOUNDS) if bounds is None else bounds, strict=True))

    @property
    def largest_error(self) -> float:
        """Largest standard error of a value."""
        return float(np.sqrt(self.analysis.controlled.variances[:-1].max(initial=0.0)))


def stack_rows(results: Sequence[RowResult], settings: dict[str, Any]) -> dict[str, Any]:
    """Attributes of the `Explanation` of some rows; None for those that one of the rows does not have."""
    rows = [result.attributes(guaranteed=settings.get("guarantee") is not None) for result in results]
    found = {name: _stack(name, [attributes[name] for attributes in rows]) for name in rows[0]}
    shared = [None if row["shared_factors"] is None else row["shared_factors"][None] for row in rows]
    return found | {"shared_factors": join_factors(shared, [1] * len(rows))}


def _stack(name: str, of_rows: list[Any]) -> Any:
    if any(value is None for value in of_rows):
        return None
    if name in ("stages", "evaluations"):  # of other lengths in each row
        return tuple(of_rows)
    return np.stack(of_rows) if isinstance(of_rows[0], np.ndarray) else np.array(of_rows)


def make_explanation(
    attributes: dict[str, Any],
    base_error: FloatArray,
    players: Players,
    **about: Any,
) -> Explanation:
    """An `Explanation` with these attributes, whose arrays have an axis of outputs, though there may be only one.

    `base_error` (outputs,) is the error of a background which was itself sampled; `about` are attributes of all rows.
    """
    base_variances = attributes["base_variances"] + base_error**2
    found = Explanation(
        **{name: value for name, value in attributes.items() if name != "base_variances"},
        base_standard_errors=np.sqrt(base_variances),
        feature_names=players.names,
        player_columns=tuple(tuple(int(c) for c in columns) for columns in players.columns),
        **about,
    )
    return found if base_variances.shape[1] > 1 else replace(found, **take_output(found, 0))


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
    after = build(stack_rows(list(refined.values()), settings), before.data[rows], before.entropy, settings)
    of_rows = select_rows(before, np.array(rows))
    after = replace(after, **{name: of_rows[name] for name in ("row_numbers", "row_names", "kept")})
    order = np.arange(len(before))
    order[rows] = len(before) + np.arange(len(rows))
    return replace(Explanation.concat([before, after])[order], history=before.history)


def join_explanations(parts: list[Explanation]) -> Explanation:
    """The rows of all parts, one after the other; see `Explanation.concat`."""
    _check_joined(parts)
    first = parts[0]
    factors = join_factors([part.shared_factors for part in parts], [len(part) for part in parts])
    joined = join_rows(parts) | {"row_names": join_row_names(parts), "shared_factors": factors}
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
