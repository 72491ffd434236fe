"""A shared surrogate fitted on the device of a torch module, to evaluations along walks of rows to be explained."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import torch

from controlshap._arrays import to_like
from controlshap._random import Purpose
from controlshap._types import FloatArray, IntArray
from controlshap.controls.base import EvaluatedRows, FoldedRows
from controlshap.controls.shared import SharedSurrogate
from controlshap.controls.wide_network import Step, fit_waves
from controlshap.engine.device.evaluation import (
    DeviceEvaluator,
    evaluate_rows,
    in_chunks,
    most_rows,
    refuse_not_finite,
    to_host,
)
from controlshap.engine.device.explain import make_data
from controlshap.engine.device.walks import RowGroup, Walks
from controlshap.models.torch_module import evaluation_mode
from controlshap.problem import Problem

#: Cosines of each output; gradient steps, and rows in each: a GPU takes thousands of rows in the time of a few. Of 16
#: to 64 cosines and 500 to 2,000 steps these left the least error at equal time, the fit for 1,000 rows counted, of the
#: networks of `benchmarks/torch_device.py` with correlated features or trained weights; 64 cosines and twice the steps
#: leave 3 to 14 % less variance, and the fit takes half as long again.
N_WAVES, N_STEPS, STEP_ROWS = 32, 1000, 2048
#: Steps that are taken before any is recorded: libraries set themselves up in the first.
UNRECORDED = 3
#: Steps that are recorded together: a step takes a tenth of a millisecond, and so does telling the GPU of one.
RECORDED = 20


def fit_on_device(
    problem: Problem, rows: FloatArray, budget: int, entropy: int, device: str | None = None
) -> SharedSurrogate:
    """Cosines fitted to about `budget` evaluations of walks from some rows `(r, c)`, in a random order of these."""
    # walks of their own: those of an explanation with the same number may not have been fitted to
    seeds = np.random.SeedSequence(entropy, spawn_key=(int(Purpose.SURROGATE),))
    evaluator, imputer = DeviceEvaluator.of(problem.model.source, device), problem.imputer
    with evaluation_mode(evaluator.module), torch.no_grad():
        own = int(seeds.generate_state(1, np.uint64)[0])
        common = make_data(evaluator, imputer, own, problem.base.values[:, :, 0])
        n_walks = max(1, budget // (2 * common.n_players - 2 + (not common.finite)))
        chosen = np.random.default_rng(seeds).permutation(len(rows))[:n_walks]
        x = torch.as_tensor(rows[chosen], dtype=torch.float64, device=evaluator.device)
        at_x = evaluate_rows(evaluator, common.conditioner, x, "row", 0)
        group = RowGroup.of(common, x, at_x, None, 0)
        parts: list[tuple[Any, Any]] = []

        def work(start: int, stop: int) -> None:
            flat = torch.arange(start, stop, device=x.device)
            walks = Walks.of(common, group, flat % len(x), flat // len(x))
            inputs = walks.inputs.flatten(0, 1)
            parts.append((inputs, common.evaluator(inputs, f"walks {start} to {stop - 1} of the surrogate")))

        columns = x.shape[1] * (8 if common.conditioner else 2)
        in_chunks(n_walks, most_rows(None, evaluator.device, columns) // common.unit_cost or 1, work, "pair of walks")
        inputs, outputs = (torch.cat(part) for part in zip(*parts, strict=True))
        refuse_not_finite(outputs, range(len(outputs)), "evaluation")
        known = EvaluatedRows(to_host(inputs.to(torch.float64)), to_host(outputs))
    return replace(fit_cosines(known, x), n_evaluations=len(x) + len(known))


def fit_cosines(known: EvaluatedRows, like: Any) -> SharedSurrogate:
    """Cosines fitted to evaluations, on the device of a tensor."""
    with torch.no_grad():
        functions = tuple(
            fit_waves(
                FoldedRows(known.rows, known.outputs[:, output], np.full(len(known), -1), output), None, N_WAVES,
                N_STEPS, min(STEP_ROWS, len(known)), like, repeat_on(like),
            )
            for output in range(known.outputs.shape[1])
        )  # fmt: skip
    return SharedSurrogate(functions, len(known))


def repeat_on(like: Any) -> Any:
    """How steps are taken on the device of a tensor.

    On a GPU some are recorded, and replayed: most of their time would be that of telling the GPU what to do. It is at
    work while the host draws the rows of the next.
    """

    def take_steps(step: Step, schedule: Iterable[tuple[IntArray, float]]) -> None:
        steps = iter(schedule)
        if like.device.type == "cuda":
            _take_directly(step, islice(steps, UNRECORDED), like)
            with torch.cuda.device(like.device):  # a graph records what the current device does
                steps = iter(_replay(step, steps, like))
        _take_directly(step, steps, like)

    return take_steps


def _take_directly(step: Step, steps: Iterable[tuple[IntArray, float]], like: Any) -> None:
    for rows, rate in steps:
        step(to_like(rows, like), to_like(np.array(rate, dtype=np.float32), like))


def _replay(step: Step, steps: Iterator[tuple[IntArray, float]], like: Any) -> list[tuple[IntArray, float]]:
    """Record some steps on the current GPU, and take as many sets of them as there are; the steps that are left."""
    graph: Any = None
    batches: Any = None
    sizes: Any = None
    while len(some := list(islice(steps, RECORDED))) == RECORDED:
        rows, rates = zip(*some, strict=True)
        new = to_like(np.stack(rows), like), to_like(np.array(rates, dtype=np.float32), like)
        if graph is None:
            batches, sizes = new
            graph = _record(step, batches, sizes)
        else:
            batches.copy_(new[0])
            sizes.copy_(new[1])
        graph.replay()
    return some


@cache
def _recording_stream(device: int) -> Any:
    """One stream for each device: libraries keep memory for every stream that they have met."""
    return torch.cuda.Stream(device)


def _record(step: Step, batches: Any, sizes: Any) -> Any:
    """Steps with these rows and rates as a graph; recorded, not taken.

    As `torch.cuda.graph`, which collects garbage and returns free memory before, for longer than many fits take.
    """
    graph, stream = torch.cuda.CUDAGraph(), _recording_stream(torch.cuda.current_device())
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        graph.capture_begin()
        try:
            for rows, rate in zip(batches, sizes, strict=True):
                step(rows, rate)
        finally:
            graph.capture_end()
    torch.cuda.current_stream().wait_stream(stream)
    return graph
