"""Units of explained rows, made again: coalitions of a regression, and controls by functions fitted to each row."""

from __future__ import annotations

from typing import Any

import torch

from controlshap._arrays import to_like
from controlshap._types import AnyArray, IntArray
from controlshap.engine.device.evaluation import to_host
from controlshap.engine.device.ridge import RidgeControls
from controlshap.engine.device.walks import DeviceData, RowGroup, Walks, contributions


def fitted_controls(common: DeviceData, group: RowGroup, units: IntArray, outputs: Any) -> tuple[Any, Any, Any]:
    """Regressors `(r, n, players)` of coalitions, controls `(r, n, terms, o, 2)`, and functions at background rows.

    The last are `(r, M, o, functions)`, with f first. What there is none of is None.
    """
    r, n = len(group), len(units)
    rows = torch.arange(r, device=group.x.device).repeat_interleave(n)
    numbers = to_like(units, group.x).repeat(r)
    # the module's own type is too narrow for a control
    wide = torch.promote_types(common.evaluator.dtype, torch.float32)
    walks = Walks.of(common, group, rows, numbers, wide)
    regressors = walks.regressors.unflatten(0, (r, n)) if common.by_coalitions else None
    if not common.fits:
        return regressors, None, None
    fitted = RidgeControls.of(common, group, units, walks, outputs)
    own, between = fitted.own_and_between()  # (r, n, players, o)
    values = fitted.unit_values()
    if common.by_coalitions:
        within = 0.5 * (values[:, :, 0] - values[:, :, 1]) - torch.einsum("rnp,rnpo->rno", regressors, own)
        between = torch.einsum("rnp,rnpo->rno", regressors, between)
        controls = torch.stack([within, between], dim=-1)[:, :, None]
    else:
        at_x, at_draws = (part.flatten(0, 1) for part in fitted.ends(group.x, walks.draws.unflatten(0, (r, n))))
        terms = contributions(values.flatten(0, 1), at_draws, at_x, torch.zeros_like(at_draws), walks.ranks)
        controls = terms.new_zeros((r, n, *terms.shape[1:], 2))
        controls[:, :, :-1, :, 0] = terms[:, :-1].unflatten(0, (r, n)) - own
        controls[:, :, :-1, :, 1] = between
    at_rows = fitted.at_rows(common.draws)
    both = [common.at_draws.expand_as(at_rows), torch.zeros_like(at_rows), at_rows]
    return regressors, controls, torch.stack(both, dim=-1)


def share_evaluations(common: DeviceData, group: RowGroup, units: IntArray, outputs: Any) -> dict[str, AnyArray]:
    """Inputs `(r, n, c)` and outputs `(r, n, o)` of the first units, for later rows to learn from, if these do.

    The first units are random ones: background rows are in a random order for each row.
    """
    if not common.n_shared:
        return {}
    n = min(len(units), -(-common.n_shared // common.unit_cost))
    r, numbers = len(group), to_like(units[:n], group.x)
    rows = torch.arange(r, device=group.x.device).repeat_interleave(n)
    inputs = Walks.of(common, group, rows, numbers.repeat(r), torch.float64).inputs.reshape(r, -1, group.x.shape[1])
    answers = outputs[:, :n].reshape(r, inputs.shape[1], -1)
    return {
        "shared_inputs": to_host(inputs[:, : common.n_shared]),
        "shared_outputs": to_host(answers[:, : common.n_shared]),
    }
