"""Learning across rows on a device: later rows are controlled by cosines fitted to evaluations of all earlier ones.

As in `engine/generations.py`, a function is known before any unit of the rows that it controls is drawn, so that it
needs no folds, and the generation of a row depends on its number alone. Four generations are one here: a fit takes as
long as the evaluations of a thousand rows.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from controlshap._types import FloatArray
from controlshap.controls.base import EvaluatedRows
from controlshap.engine.device.evaluation import DeviceEvaluator
from controlshap.engine.device.explain import explain_problem
from controlshap.engine.device.learning import fit_cosines
from controlshap.engine.device.result import DeviceResult
from controlshap.engine.generations import MOST_EVALUATIONS, MOST_NUMBERS, count_numbers
from controlshap.problem import Problem
from controlshap.statistics.stopping import Stopping

#: Rows before the second, the third and the last generation, which has no end.
ENDS = (2**4 - 1, 2**8 - 1, 2**12 - 1)


def explain_online(
    problem: Problem, rows: FloatArray, *, stopping: Stopping, entropy: int, device: str | None = None
) -> DeviceResult:
    """Explain rows from the first of a run on, generation by generation; parameters as for `explain_problem`."""
    like = torch.zeros(1, device=DeviceEvaluator.of(problem.model.source, device).device)
    results: list[DeviceResult] = []
    parts: list[EvaluatedRows] = []
    most, start = min(MOST_EVALUATIONS, MOST_NUMBERS // count_numbers(problem)), 0
    while start < len(rows):
        end = next((end for end in ENDS if end > start), len(rows))
        share = -(-most // end) if end < len(rows) else 0
        result = explain_problem(
            problem, rows[start:end], stopping=stopping, entropy=entropy, device=device, first_row=start, n_shared=share
        )
        results.append(replace(result, evaluated=None))
        if result.evaluated is not None:
            # what earlier rows gave is thinned to what each row gives now
            parts = [part[:: -(-len(part) // (share * n))] for part, n in zip(parts, _sizes(), strict=False)]
            parts.append(result.evaluated)
            problem = replace(problem, shared=fit_cosines(EvaluatedRows.concatenate(parts), like))
        start = end
    return DeviceResult.concatenate(results)


def _sizes() -> list[int]:
    """Rows of the generations that end."""
    return [end - first for first, end in zip((0, *ENDS), ENDS, strict=False)]
