"""What is measured once, before the first part: the time of an evaluation, by which "auto" chooses, and of a row."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace

from controlshap._errors import BudgetTooSmallError, ControlShapWarning
from controlshap.datasets.part import Job, explain_rows
from controlshap.results.explanation import Explanation

#: Evaluations of a first look, and of a second one where the model is fast: few batches are timed too slow.
FIRST, SECOND = 2_000, 10_000
#: Seconds that the second look may take.
AFFORDED = 10.0


def probe_seconds(job: Job) -> float:
    """Explain a background row, which the model is known to bear; returns the seconds that a row may take."""
    took, found = _timed(job, FIRST)
    if took * SECOND / found.n_evaluations[0] < AFFORDED:
        took, found = _timed(job, SECOND)
    if found.status[0] == "budget reached":
        took *= max(1.0, job.stopping.budget / found.n_evaluations[0])
    return took


def _timed(job: Job, budget: int) -> tuple[float, Explanation]:
    explainer = job.explainer
    row = explainer.encoding(explainer.background[:1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ControlShapWarning)
        while True:
            short = replace(job, stopping=replace(job.stopping, budget=min(budget, job.stopping.budget)))
            began = time.perf_counter()
            try:
                found = explain_rows(short, row, 0)
                return time.perf_counter() - began, found
            except BudgetTooSmallError as error:
                if budget >= job.stopping.budget:
                    raise
                budget = max(error.needed, 2 * budget)
