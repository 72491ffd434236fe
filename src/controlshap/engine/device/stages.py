"""Groups of explained rows: the terms of their walks, the analysis of these, and which rows end after a stage."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from controlshap._arrays import concat, to_like
from controlshap._random import Purpose, stream
from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.controls.d_matrices import DMatrices
from controlshap.data.players import differs_from_x
from controlshap.engine.device.designs import Designs
from controlshap.engine.device.evaluation import (
    MOST_ROWS,
    all_to_host,
    evaluate_rows,
    in_chunks,
    most_rows,
    refuse_not_finite,
)
from controlshap.engine.device.fitted import fitted_controls, share_evaluations
from controlshap.engine.device.known import known_values, no_error, values_of_rows
from controlshap.engine.device.ridge import fit_rows
from controlshap.engine.device.taylor import TaylorPolynomials, derivatives, known_correlated, known_independent
from controlshap.engine.device.walks import DeviceData, RowGroup, walk_terms
from controlshap.statistics.analysis import Sample, analyse, background_variances
from controlshap.statistics.control_variate import KnownValues
from controlshap.statistics.stopping import Snapshot, Stopping
from controlshap.statistics.terms import LeastSquaresTerms, MeanTerms, Terms
from controlshap.values.base import Imputer
from controlshap.variances import Variance

#: Doubles of the terms that are analysed at once on a processor: eight megabytes; more of them at once is no faster.
CACHED = 2**20
#: Copies of the rows of units that fitting functions to them makes.
COPIES = 4


@dataclass(frozen=True)
class Method:
    """The settings that all explained rows share.

    Attributes
    ----------
    imputer : Imputer
    uses_taylor : bool
    matrices : DMatrices or None
        For the Taylor control of correlated features.
    efficient, by_folds : bool
        As for `analyse`.
    stopping : Stopping
    n_units : int
        Most units of a row.
    variance : Variance
    designs : Designs or None
        Where background rows are visited in cycles, of which some may be taken all.
    """

    imputer: Imputer
    uses_taylor: bool
    matrices: DMatrices | None
    efficient: bool
    by_folds: bool
    stopping: Stopping
    n_units: int
    variance: Variance
    designs: Designs | None = None
    fewest_units: int = 2

    @property
    def stages(self) -> list[int]:
        """Units after each stage, if none ends the run."""
        stages = [self.stopping.first_stage(self.fewest_units, self.n_units)]
        while stages[-1] < self.n_units:
            stages.append(self.stopping.next_stage(stages[-1], self.n_units, 0.0))
        return stages

    @property
    def alpha_fraction(self) -> float:
        """Part of alpha for each look."""
        return self.stopping.alpha_fraction / self.stopping.n_looks(self.stages[0], self.n_units)


@dataclass(frozen=True)
class GroupUnits:
    """Units of the rows of a group, in the order in which they were evaluated.

    Attributes
    ----------
    units : ndarray of shape (n,)
        Numbers of each row's units.
    terms : tensor of shape (rows, n, terms, outputs, functions)
    outputs : tensor of shape (rows, n, evaluations, outputs) or None
        What the module said, where functions are fitted to it.
    """

    units: IntArray
    terms: Any
    outputs: Any = None

    @classmethod
    def none(cls, common: DeviceData, group: RowGroup) -> GroupUnits:
        """No units yet."""
        n_functions = 1 + (0 if common.fits else common.n_controls) + (group.polynomial is not None)
        n_outputs = group.at_x.shape[1]
        terms = group.x.new_zeros((len(group), 0, common.n_terms, n_outputs, n_functions))
        outputs = group.x.new_zeros((len(group), 0, common.unit_cost, n_outputs)) if common.keeps else None
        return cls(np.zeros(0, dtype=np.int64), terms, outputs)

    def extend(self, common: DeviceData, group: RowGroup, n_units: int, chunk: int) -> tuple[GroupUnits, int]:
        """With as many units for each row, evaluated in chunks; and the chunk for the next."""
        new = np.setdiff1d(common.units(n_units), self.units)
        units, r = torch.as_tensor(new, device=group.x.device), len(self.terms)
        terms, outputs = (
            None if part is None else group.x.new_empty((r * len(new), *part.shape[2:]))
            for part in (self.terms, self.outputs)
        )
        chunk = in_chunks(
            r * len(new), chunk, lambda start, stop: walk_terms(common, group, units, terms, outputs, start, stop),
            "pair of coalitions" if common.by_coalitions else "pair of walks",
        )  # fmt: skip
        added = GroupUnits(
            new, *(None if part is None else part.unflatten(0, (r, len(new))) for part in (terms, outputs))
        )
        return self._join(added) if len(self.units) else added, chunk

    def _join(self, other: GroupUnits) -> GroupUnits:
        """These units and others, in the order of their numbers."""
        units = np.concatenate([self.units, other.units])
        order = np.argsort(units)
        index = torch.as_tensor(order, device=self.terms.device)
        pairs = ((self.terms, other.terms), (self.outputs, other.outputs))
        joined = (None if one is None else torch.cat([one, two], dim=1).index_select(1, index) for one, two in pairs)
        return GroupUnits(units[order], *joined)

    def of_rows(self, rows: Any) -> GroupUnits:
        """The units of some explained rows."""
        return GroupUnits(self.units, self.terms[rows], None if self.outputs is None else self.outputs[rows])


def explain_group(
    common: DeviceData, method: Method, rows: FloatArray, first_row: int, chunk: int
) -> tuple[dict[str, Any], int]:
    """Explain rows until each is done: arrays for all of them, on the host, and the chunk for the next rows."""
    group = _group(common, method, rows, first_row)
    if method.designs is None:
        return _explain_alike(common, method, group, first_row + np.arange(len(rows)), chunk)
    finished = []
    for designed, numbers, some in method.designs.share(common, group, rows):
        part, chunk = _explain_alike(designed, method, some, first_row + numbers, chunk)
        finished.append((numbers, part))
    return _in_order(finished), chunk


def _explain_alike(
    common: DeviceData, method: Method, group: RowGroup, numbers: IntArray, chunk: int
) -> tuple[dict[str, Any], int]:
    """The same of rows with these numbers, whose units have one design."""
    evaluated, active, finished = GroupUnits.none(common, group), np.arange(len(group)), []
    shared: dict[str, Any] = {}
    for n_units in method.stages:
        evaluated, chunk = evaluated.extend(common, group, n_units, chunk)
        shared = shared or share_evaluations(common, group, evaluated.units, evaluated.outputs)
        results = _analyse_in_chunks(common, method, group, evaluated)
        # only now: it waits for the device, and the analysis is better queued while the module is at work
        refuse_not_finite(evaluated.terms[..., 0], numbers[active], "row")
        results["n_units"] = np.full(len(group), n_units)
        results["complete"] = np.full(len(group), common.design(evaluated.units).sampling_fraction >= 1.0)
        results["converged"] = _find_converged(method, results, n_units)
        done = results["converged"] | (n_units == method.n_units)
        if done.all():
            finished.append((active, results))
            break
        if done.any():
            finished.append((active[done], {name: array[done] for name, array in results.items()}))
        left = torch.as_tensor(np.flatnonzero(~done), device=group.x.device)
        active, group, evaluated = active[~done], group[left], evaluated.of_rows(left)
    return _in_order(finished) | shared, chunk


def _in_order(finished: list[tuple[IntArray, dict[str, Any]]]) -> dict[str, Any]:
    """Results of all rows by their numbers; rows that ended at different stages are put together."""
    if len(finished) == 1:
        return finished[0][1]
    order = np.argsort(np.concatenate([numbers for numbers, _ in finished]))
    parts = [part for _, part in finished]
    names = set.intersection(*(set(part) for part in parts))
    return {name: np.concatenate([part[name] for part in parts])[order] for name in names}


def _group(common: DeviceData, method: Method, rows: FloatArray, first_row: int) -> RowGroup:
    """Rows on the device, with f and the Taylor polynomial or what is known of the surrogate, where there is one."""
    evaluator = common.evaluator
    x = torch.as_tensor(np.ascontiguousarray(rows), dtype=torch.float64, device=evaluator.device)
    at_x = evaluate_rows(evaluator, common.conditioner, x, "row", first_row)
    group = RowGroup.of(common, x, at_x, _polynomial(common, x, at_x) if method.uses_taylor else None, first_row)
    if common.surrogate is None:
        return group
    return replace(group, known=values_of_rows(common, method.matrices, x, method.n_units))


def _polynomial(common: DeviceData, x: Any, at_x: Any) -> TaylorPolynomials:
    """The Taylor polynomials of some rows."""
    evaluator = common.evaluator
    parts: dict[int, tuple[Any, Any]] = {}
    second = common.conditioner is None
    inputs = x if common.conditioner is None else common.conditioner.to_inputs(x)

    def work(start: int, stop: int) -> None:
        some = inputs[start:stop].to(evaluator.dtype)
        parts[start] = derivatives(evaluator.module, some, at_x.shape[1], second=second)

    in_chunks(len(x), MOST_ROWS["cpu"], work, "row with its derivatives")
    gradients, hessians = zip(*(parts[start] for start in sorted(parts)), strict=True)
    return TaylorPolynomials(at_x, torch.cat(gradients), torch.cat(hessians) if second else None)


def _analyse_in_chunks(common: DeviceData, method: Method, group: RowGroup, evaluated: GroupUnits) -> dict[str, Any]:
    """Estimates from terms, on the host, for as many rows at once as memory allows."""
    parts: dict[int, dict[str, Any]] = {}

    def work(start: int, stop: int) -> None:
        some = slice(start, stop)
        tensors = _analyse(common, method, group[some], evaluated.of_rows(some))
        parts[start] = all_to_host(tensors)

    step = len(group)
    if group.x.device.type == "cpu":
        step = max(1, CACHED * len(group) // evaluated.terms.numel())
    if common.fits:  # the rows of all units are made again
        doubles = (len(evaluated.units) * common.unit_cost + fit_rows(common)) * len(common.owner)
        step = min(step, most_rows(None, group.x.device, COPIES * doubles))
    in_chunks(len(group), step, work, "explained row")
    ordered = [parts[start] for start in sorted(parts)]
    return {name: concat([part[name] for part in ordered], axis=0) for name in ordered[0]}


def _analyse(common: DeviceData, method: Method, group: RowGroup, evaluated: GroupUnits) -> dict[str, Any]:
    """Values, errors and coefficients of some rows, by the statistics of the library."""
    design, known = common.design(evaluated.units), None
    if group.polynomial is not None:
        known = _known_values(common, method, group.polynomial, group.x)
    at_rows, values, regressors = _at_rows(common), evaluated.terms, None
    if common.surrogate is not None:
        known = known_values(common, group.known)
    if common.fits or common.by_coalitions:
        regressors, controls, at_rows = fitted_controls(common, group, evaluated.units, evaluated.outputs)
        values = values if controls is None else torch.cat([values, controls], dim=-1)
        known = None if controls is None else no_error(values, common.n_players)
    # a Taylor polynomial has f(x) at x, and a fitted function is of the size of f
    at_x = torch.stack([group.at_x] * values.shape[-1], dim=-1)
    terms = _terms(common, values, regressors, at_x)
    no_base = at_x.new_zeros((len(group), 0, *at_x.shape[1:]))
    live = None
    if method.imputer.mixes_columns:
        live = differs_from_x(group.x, common.draws, method.imputer.players).any(dim=-2)
    sample = Sample(terms, design, no_base, at_x, method.efficient, not common.finite, live, at_rows)
    # blocks are numbered at random for each row, so that folds may be the same for all of them
    rng = stream(common.entropy, Purpose.RESAMPLING)
    analysis = analyse(sample, method.variance.roots, known, rng, by_folds=method.by_folds)
    controlled, plain = analysis.controlled, analysis.uncontrolled
    tensors = {
        "values": controlled.values,
        "variances": controlled.variances,
        "degrees_of_freedom": controlled.dof,
        "covariances": controlled.covariances[:, :, :-1, :-1],
        "uncontrolled_values": plain.values[:, :-1],
        "uncontrolled_variances": plain.variances[:, :-1],
        "variance_reduction": analysis.variance_reduction[:, :-1],
        "alpha": analysis.alpha[:, :-1].sum(dim=-1),
    }
    if analysis.shared is not None:
        tensors["shared_factors"] = analysis.shared[:, :, :-1]
    if common.in_cycles:
        rows_of_units = _rows_of_units(common, group, evaluated.units)
        between = background_variances(terms, design, rows_of_units, common.at_draws, at_x)
        tensors |= {} if between is None else {"background_variances": between[:, :-1]}
    return tensors


def _terms(common: DeviceData, values: Any, regressors: Any, at_x: Any) -> Terms:
    """Terms of a mean, or of a regression whose controls have the values 0."""
    if not common.by_coalitions:
        return MeanTerms(values, n_walks=2)
    base = torch.zeros_like(at_x)
    base[..., 0] = common.at_draws.mean(dim=0)
    total = torch.zeros_like(at_x)
    total[..., 0] = at_x[..., 0] - base[..., 0]
    targets = values[..., 0, :, :]
    return LeastSquaresTerms(regressors, targets, targets[..., None, :, :], total, base, paired=True)


def _at_rows(common: DeviceData) -> Any:
    """F and the surrogate's controls at the rows of a background in cycles, where the noise of coalitions is none."""
    if common.surrogate is None or not common.in_cycles:
        return None
    at_draws = common.surrogate.values(common.draws)
    return torch.stack([common.at_draws, torch.zeros_like(at_draws), at_draws], dim=-1)


def _rows_of_units(common: DeviceData, group: RowGroup, units: IntArray) -> Any:
    """Background rows `(r, units, 1)` that units drew from a finite background."""
    rows = torch.arange(len(group), device=group.x.device)[:, None]
    return group.rows_of_units(common, to_like(units, group.x), rows)[..., None]


def _known_values(common: DeviceData, method: Method, polynomial: TaylorPolynomials, x: Any) -> KnownValues:
    """Known values of the Taylor polynomials of some rows."""
    if method.matrices is None or common.conditioner is None:
        return known_independent(polynomial, x, common.draws, method.imputer.players)
    center = torch.as_tensor(method.imputer.center, dtype=torch.float64, device=x.device)
    return known_correlated(method.matrices, polynomial, x - center, common.conditioner.scale)


def _find_converged(method: Method, results: dict[str, Any], n_units: int) -> BoolArray:
    """Which rows have reached what they are to stop for."""
    stopping, n_rows = method.stopping, len(results["values"])
    if not stopping.looks or (n_units < stopping.first_look and n_units < method.n_units):
        return np.zeros(n_rows, dtype=bool)
    values, covariances, dof = (results[name] for name in ("values", "covariances", "degrees_of_freedom"))
    step = max(1, CACHED // max(1, covariances[0].size))
    ratios = [
        stopping.error_ratio(Snapshot(values[some, :-1], covariances[some], dof[some, :-1]), method.alpha_fraction)
        for some in (slice(start, start + step) for start in range(0, n_rows, step))
    ]
    return np.concatenate(ratios) <= 1.0
