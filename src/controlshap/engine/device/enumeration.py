"""All coalitions of many rows at once, each with the whole background: exact values of few players."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from controlshap._types import FloatArray
from controlshap.engine.device.evaluation import (
    TERMS_SHARE,
    DeviceEvaluator,
    evaluate_rows,
    free_bytes,
    in_chunks,
    most_rows,
    refuse_not_finite,
)
from controlshap.engine.device.result import DeviceResult
from controlshap.estimators.enumeration import all_coalitions, shapley_matrix
from controlshap.models.torch_module import evaluation_mode
from controlshap.values.base import Imputer


def enumerate_on_device(
    module: Any,
    rows: FloatArray,
    imputer: Imputer,
    *,
    at_background: FloatArray | None = None,
    device: str | None = None,
    chunk_rows: int | None = None,
    first_row: int = 0,
) -> DeviceResult:
    """Exact Shapley values of many rows for independent features; parameters as for `explain_on_device`."""
    evaluator = DeviceEvaluator.of(module, device)
    home = evaluator.device
    background = imputer.finite_draws
    assert background is not None  # rows that mix columns
    n_players, n_draws = imputer.players.n_players, len(background)
    with evaluation_mode(module), torch.no_grad():
        draws = torch.as_tensor(background, dtype=torch.float64, device=home)
        if at_background is None:
            at_draws = evaluate_rows(evaluator, None, draws, "background row", 0)
        else:
            at_draws = torch.as_tensor(at_background, dtype=torch.float64, device=home)
        n_outputs = int(at_draws.shape[1])
        evaluator = DeviceEvaluator(module, home, evaluator.dtype, n_outputs)
        coalitions = all_coalitions(n_players)[1:-1]
        masks = torch.as_tensor(imputer.players.expand(coalitions), device=home)
        weights = torch.as_tensor(shapley_matrix(n_players), device=home)
        chunk = max(1, most_rows(chunk_rows, home, masks.shape[1] + 3 * n_outputs) // n_draws)
        step = max(1, int(TERMS_SHARE * free_bytes(home)) // (4 * 8 * (len(masks) + n_players) * n_draws * n_outputs))
        values, between = [], []
        for start in range(0, len(rows), step):
            x = torch.as_tensor(np.ascontiguousarray(rows[start : start + step]), dtype=torch.float64, device=home)
            at_x = evaluate_rows(evaluator, None, x, "row", first_row + start)
            table = torch.empty((len(x) * len(masks), n_draws, n_outputs), dtype=torch.float64, device=home)
            chunk = in_chunks(len(table), chunk, _filler(evaluator, table, x, draws, masks), "coalition")
            table = table.reshape(len(x), len(masks), n_draws * n_outputs)
            refuse_not_finite(table, range(first_row + start, first_row + start + len(x)), "row")
            by_draw = (weights[:, 1:-1] @ table).reshape(len(x), n_players, n_draws, n_outputs)
            by_draw += weights[:, :1, None] * at_draws + weights[:, -1:, None] * at_x[:, None, None]
            values.append(_spread_rounding(by_draw.mean(dim=2), at_draws.mean(dim=0), at_x).cpu().numpy())
            if n_draws > 1:
                between.append((by_draw.var(dim=2, correction=1) / n_draws).cpu().numpy())
    components = np.concatenate(values)
    nothing = np.zeros_like(components)
    return DeviceResult(
        values=components,
        variances=nothing,
        degrees_of_freedom=np.full(components.shape, np.inf),
        covariances=np.zeros((len(components), n_outputs, n_players, n_players)),
        uncontrolled_values=components[:, :-1],
        uncontrolled_variances=nothing[:, :-1],
        variance_reduction=nothing[:, :-1],
        background_variances=np.concatenate(between) if between else None,
        n_evaluations=np.full(len(components), 1 + len(coalitions) * n_draws),
        status=np.full(len(components), "exact"),
        method=np.full(len(components), "Enumeration"),
        controls=np.full(len(components), ""),
        alpha_fraction=np.ones(len(components)),
        complete=np.full(len(components), True),
        stages=((n_draws,),) * len(components),
        evaluations=(np.zeros((0, 0)),) * len(components),
        device=str(home),
        dtype=str(evaluator.dtype).removeprefix("torch."),
        chunk_rows=chunk * n_draws,
    )


def _filler(evaluator: DeviceEvaluator, table: Any, x: Any, draws: Any, masks: Any) -> Any:
    """Work that evaluates some coalitions of some rows, numbered through."""
    inputs, others = x.to(evaluator.dtype), draws.to(evaluator.dtype)

    def work(start: int, stop: int) -> None:
        flat = torch.arange(start, stop, device=x.device)
        chosen = inputs[flat // len(masks)][:, None]
        mixed = torch.where(masks[flat % len(masks)][:, None], chosen, others[None])
        outputs = evaluator(mixed.flatten(0, 1), f"coalitions {start} to {stop - 1}")
        table[start:stop] = outputs.reshape(stop - start, len(others), -1)

    return work


def _spread_rounding(values: Any, base: Any, at_x: Any) -> Any:
    """Values and base value `(r, players + 1, o)`, what rounding leaves of the sum in equal parts to the players."""
    gap = at_x - base - values.sum(dim=1)
    values = values + gap[:, None] / values.shape[1]
    return torch.cat([values, base.expand(len(values), 1, -1)], dim=1)
