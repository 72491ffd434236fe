"""Some rows together: their Taylor polynomials, the terms of their walks, and what these come to."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from controlshap._types import FloatArray
from controlshap.controls.d_matrices import DMatrices
from controlshap.engine.device.adjusting import Known
from controlshap.engine.device.analysis import analyse, background_variances
from controlshap.engine.device.evaluation import MOST_ROWS, Evaluator, in_chunks, refuse_not_finite
from controlshap.engine.device.rows import Conditioner
from controlshap.engine.device.taylor import TaylorPolynomials, derivatives, known_correlated, known_independent
from controlshap.engine.device.walks import Ground, Group, walk_terms
from controlshap.values.gaussian import GaussianImputer
from controlshap.values.marginal import MarginalImputer


def evaluate_rows(evaluator: Evaluator, conditioner: Conditioner | None, rows: Any, where: str, first_row: int) -> Any:
    """The module on plain rows `(n, c)`, in chunks."""
    parts: dict[int, Any] = {}

    def work(start: int, stop: int) -> None:
        some = rows[start:stop]
        # a copy: a module may work in place, and these rows are used again
        inputs = some.clone() if conditioner is None else conditioner.to_inputs(some.clone())
        parts[start] = evaluator(inputs, f"{where}s {first_row + start} to {first_row + stop - 1}")

    in_chunks(len(rows), MOST_ROWS["cpu"], work, "row")
    outputs = torch.cat([parts[start] for start in sorted(parts)])
    refuse_not_finite(outputs, first_row, where)
    return outputs


def explain_group(
    ground: Ground,
    imputer: MarginalImputer | GaussianImputer,
    rows: FloatArray,
    first_row: int,
    chunk: int,
    matrices: DMatrices | None,
    *,
    uses_taylor: bool,
    closes_sum: bool,
    by_folds: bool,
) -> tuple[list[dict[str, Any]], int]:
    """Evaluate and reduce some rows; what comes back to the host is the estimates. And the chunk for the next."""
    evaluator = ground.evaluator
    x = torch.as_tensor(np.ascontiguousarray(rows), dtype=torch.float64, device=evaluator.device)
    at_x = evaluate_rows(evaluator, ground.conditioner, x, "row", first_row)
    polynomial = _polynomial(ground, x, at_x) if uses_taylor else None
    group = Group.of(ground, x, at_x, polynomial, first_row)
    n_units = ground.visits.n_units
    chunk = in_chunks(
        len(x) * n_units, chunk, lambda start, stop: walk_terms(ground, group, start, stop), "pair of walks"
    )
    shape = (len(x), n_units, *group.terms.shape[1:])
    terms = group.terms.reshape(shape)
    refuse_not_finite(terms, first_row, "row")
    of_control = None if group.control_terms is None else group.control_terms.reshape(shape)
    found: dict[int, dict[str, Any]] = {}

    def reduce(start: int, stop: int) -> None:
        some = slice(start, stop)
        known = None if polynomial is None else _known(ground, imputer, matrices, polynomial, x, some)
        analysed = analyse(
            terms[some], None if of_control is None else of_control[some], known, at_x[some], ground.visits,
            closes_sum=closes_sum, by_folds=by_folds, base_varies=not ground.finite,
        )  # fmt: skip
        controlled, plain, fit = analysed.controlled, analysed.uncontrolled, analysed.fit
        nothing = torch.zeros_like(controlled.values)
        between = None
        if ground.finite and not ground.replaced:
            between = background_variances(terms[some], ground.visits, ground.at_draws)
        tensors = {
            "values": controlled.values,
            "variances": controlled.variances,
            "degrees_of_freedom": controlled.dof,
            "covariances": controlled.covariances[:, :, :-1, :-1],
            "uncontrolled_values": plain.values[:, :-1],
            "uncontrolled_variances": plain.variances[:, :-1],
            "variance_reduction": (nothing if fit is None else fit.squared_correlation)[:, :-1],
            "alpha": (nothing if fit is None else fit.alpha)[:, :-1],
            "background_variances": between,
        }
        found[start] = {name: None if one is None else one.cpu().numpy() for name, one in tensors.items()}

    in_chunks(len(x), len(x), reduce, "explained row")
    return [found[start] for start in sorted(found)], chunk


def _polynomial(ground: Ground, x: Any, at_x: Any) -> TaylorPolynomials:
    """The Taylor polynomials of some rows."""
    evaluator = ground.evaluator
    found: dict[int, tuple[Any, Any]] = {}
    second = ground.conditioner is None
    inputs = x if ground.conditioner is None else ground.conditioner.to_inputs(x)

    def work(start: int, stop: int) -> None:
        some = inputs[start:stop].to(evaluator.dtype)
        found[start] = derivatives(evaluator.module, some, at_x.shape[1], second=second)

    in_chunks(len(x), MOST_ROWS["cpu"], work, "row with its derivatives")
    firsts = torch.cat([found[start][0] for start in sorted(found)])
    return TaylorPolynomials(at_x, firsts, torch.cat([found[start][1] for start in sorted(found)]) if second else None)


def _known(
    ground: Ground,
    imputer: MarginalImputer | GaussianImputer,
    matrices: DMatrices | None,
    polynomial: TaylorPolynomials,
    x: Any,
    some: slice,
) -> Known:
    """What is known of the Taylor polynomials of some rows."""
    hessian = None if polynomial.hessian is None else polynomial.hessian[some]
    part = TaylorPolynomials(polynomial.at_x[some], polynomial.gradient[some], hessian)
    if matrices is None or ground.conditioner is None:
        return known_independent(part, x[some], ground.draws, imputer.players)
    center = torch.as_tensor(imputer.center, dtype=torch.float64, device=x.device)
    return known_correlated(matrices, part, x[some] - center, ground.conditioner.scale)
