"""`controlshap plan`: what a run would do, how many evaluations it would take, and about how long."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

from controlshap.cli.explain import DesignOptions, ModelOptions, OutputOptions, prepare
from controlshap.cli.inputs import open_rows, read_between
from controlshap.engine.plan import Plan
from controlshap.limits import Limits

#: Rows of the file that are looked at: they may need other controls than the first.
ROWS_LOOKED_AT = 20
#: Background rows by which the model is timed.
ROWS_TIMED = 100


@dataclass(frozen=True)
class PlanOptions:
    """Other options of `controlshap plan`."""

    seconds_per_evaluation: float | None
    rows: str | None
    max_background: int
    background_seed: int


@dataclass(frozen=True)
class PlannedRun:
    """A plan for all rows of a file."""

    plan: Plan
    n_background: int
    measured: bool

    def to_json(self) -> dict[str, Any]:
        """The plan for programs."""
        return {
            "plan": str(self.plan).splitlines(),
            "rows": self.plan.n_rows,
            "background": self.n_background,
            "evaluations_a_row": self.plan.most_evaluations,
            "evaluations": self.plan.most_evaluations * self.plan.n_rows + self.n_background,
            "seconds_per_evaluation": self.plan.seconds,
            "measured": self.measured,
        }

    def lines(self) -> list[str]:
        """The plan for people."""
        lines = [*str(self.plan).splitlines(), f"background  {self.n_background:,} rows, evaluated once"]
        if self.measured:
            lines.append(f"(timed on {min(self.n_background, ROWS_TIMED)} rows in one batch; one process)")
        return lines


def plan(
    files: tuple[str, str, str],
    model_options: ModelOptions,
    design: DesignOptions,
    output: OutputOptions,
    limits: Limits,
    options: PlanOptions,
) -> PlannedRun:
    """Plan a run over the rows of a file; the model is called on the background only."""
    prepared = prepare(files, model_options, options.rows, options.max_background, options.background_seed)
    explainer = prepared.explainer(design, output, options)
    source = open_rows(files[1], "DATA")
    first, end = prepared.rows or (0, source.n_rows)
    looked_at = read_between(source, first, min(end, first + ROWS_LOOKED_AT))[list(prepared.columns.names)]
    found = explainer.plan(looked_at, **{name: value for name, value in vars(limits).items() if value is not None})
    seconds = options.seconds_per_evaluation
    if seconds is None:  # only to say how long it takes: no choice rests on a clock
        assembly = explainer.assembly
        rows = assembly.background[:ROWS_TIMED]
        began = time.perf_counter()
        assembly.evaluate(rows, "background")
        seconds = (time.perf_counter() - began) / len(rows)
    found = replace(found, n_rows=end - first, seconds=seconds)
    return PlannedRun(found, len(prepared.background.frame), options.seconds_per_evaluation is None)
