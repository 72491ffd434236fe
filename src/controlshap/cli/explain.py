"""What `controlshap explain` does: model, columns, background, explainer, parts, report."""

from __future__ import annotations

import importlib.util
import math
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from controlshap._errors import ControlShapWarning, InvalidArgumentError, MissingExtraError
from controlshap._files import write_json
from controlshap._version import __version__
from controlshap.cli.columns import ChosenColumns, choose_columns, split_names
from controlshap.cli.inputs import Background, open_rows, parse_rows, read_background, read_groups
from controlshap.cli.messages import say
from controlshap.cli.results import ResultSummary, report_result, summarise_result
from controlshap.datasets.result import DatasetResult
from controlshap.datasets.run import explain_dataset
from controlshap.explainer import Explainer
from controlshap.limits import Limits
from controlshap.models.files import LoadedModel, load_model, with_arrays


@dataclass(frozen=True)
class ModelOptions:
    """How to read the model and which columns to give it; options of the command line."""

    allow_pickle: bool = False
    arrays: bool = False
    columns: str | None = None
    drop: str | None = None


@dataclass(frozen=True)
class ExplainOptions:
    """Options of `controlshap explain`, as they are written there."""

    features: str = "independent"
    estimator: str = "auto"
    control: str = "auto"
    groups: Path | None = None
    budget: int | None = None
    tolerance: float | None = None
    absolute_tolerance: float | None = None
    stop: tuple[str, ...] = ()
    level: float = 0.95
    time_limit: float | None = None
    seconds_per_evaluation: float | None = None
    rows: str | None = None
    max_background: int = 10_000
    background_seed: int = 0
    rng: int = 0
    jobs: int = 1
    scheduler: str | None = None
    part_rows: int | None = None
    progress: Any = None
    report: bool = True


@dataclass(frozen=True)
class Prepared:
    """Everything that is needed before the first row."""

    loaded: LoadedModel
    columns: ChosenColumns
    background: Background
    data: str
    rows: tuple[int, int] | None = None

    @property
    def model(self) -> Any:
        """What the explainer is given."""
        return self.loaded.model


@dataclass(frozen=True)
class Explained:
    """What was done."""

    prepared: Prepared
    result: DatasetResult
    summary: ResultSummary
    report: Path | None
    rng: int
    reference: str

    def to_json(self) -> dict[str, Any]:
        """For programs. `median_gain` is null where the control left no error at all."""
        background, gain = self.prepared.background, self.summary.median_gain
        return {
            "result": str(self.result.path),
            "report": None if self.report is None else str(self.report),
            "rows": self.summary.n_rows,
            "first_row": 0 if self.prepared.rows is None else self.prepared.rows[0],
            "parts": self.result.n_parts,
            "parts_done": self.result.n_done,
            "failed": [{"part": one.part, "rows": list(one.rows), "reason": one.reason} for one in self.result.failed],
            "evaluations": self.result.n_evaluations,
            "seconds": round(self.result.seconds, 3),
            "statuses": self.summary.statuses,
            "median_gain": gain if math.isfinite(gain) else None,
            "columns": list(self.prepared.columns.names),
            "columns_left_out": list(self.prepared.columns.left_out),
            "background": {"rows": len(background.frame), "of": background.n_rows, "seed": background.seed},
            "model": {
                "reference": self.reference,
                "kind": self.prepared.loaded.kind,
                "sha256": self.prepared.loaded.sha256,
            },
            "rng": self.rng,
            "version": __version__,
        }

    def lines(self) -> list[str]:
        """For people."""
        rows, gain = self.summary.n_rows, self.summary.median_gain
        statuses = ", ".join(f"{n:,} {status}" for status, n in self.summary.statuses.items())
        told = [
            f"{rows:,} {'row' if rows == 1 else 'rows'} explained in {self.result.seconds:.1f} s with "
            f"{self.result.n_evaluations:,} model evaluations: {statuses}."
        ]
        if math.isinf(gain):
            told.append("The control left no error (median over rows).")
        elif gain > 1.05:
            told.append(f"Without control {gain:.1f} times the evaluations would have been needed (median over rows).")
        if self.prepared.background.seed is not None:
            told.append(self.prepared.background.describe().capitalize() + ".")
        told.append(f"Result: {self.result.path} (read with controlshap.load)")
        if self.report is not None:
            told.append(f"Report: {self.report}")
        return told


def explain(
    model: str, data: str, background: str, out: Path, *, model_options: ModelOptions, options: ExplainOptions
) -> Explained:
    """Run, and write `out`.

    Parameters
    ----------
    model : str
        File or `module:function`.
    data, background : str
        Files, folders or globs.
    out : Path
    model_options : ModelOptions
    options : ExplainOptions
    """
    if options.report and importlib.util.find_spec("jinja2") is None:  # before the work, not after it
        raise MissingExtraError("`report.html` needs jinja2: pip install 'controlshap[report]', or give --no-report.")
    groups = read_groups(options.groups)
    prepared = prepare(
        model, data, background, model_options, rows=options.rows, most=options.max_background,
        seed=options.background_seed,
    )  # fmt: skip
    if prepared.columns.left_out:
        say(f"controlshap: columns left out: {', '.join(prepared.columns.left_out)}")
    if prepared.background.seed is not None:
        say(f"controlshap: {prepared.background.describe()}")
    if options.scheduler is not None and prepared.loaded.kind == "function":
        _send_by_value(model)
    explainer = Explainer(
        prepared.model, prepared.background.frame, features=options.features, estimator=options.estimator,
        control=parse_control(options.control), groups=groups, max_background=options.max_background,
        seconds_per_evaluation=options.seconds_per_evaluation,
    )  # fmt: skip
    assembly = explainer._assembly
    # sampled here already, since the file may not fit into memory: base values carry that error
    assembly.n_background = prepared.background.n_rows
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"\d+ of \d+ parts failed", ControlShapWarning)  # told below
        result = explain_dataset(
            assembly, prepared.data, out,
            Limits(
                budget=options.budget, tolerance=options.tolerance, stop=list(options.stop) or None,
                level=options.level, absolute_tolerance=options.absolute_tolerance, time_limit=options.time_limit,
            ),
            rng=options.rng, n_jobs=options.jobs, scheduler=options.scheduler, rows=prepared.rows,
            part_rows=options.part_rows, model_hash=prepared.loaded.sha256, progress=options.progress,
        )  # fmt: skip
    failures = _told_failures(result)
    if result.n_done == 0:
        raise InvalidArgumentError(f"No row could be explained: {failures}.")
    if failures:
        say(f"controlshap: {failures}. The others are done; the same command tries these again.")
    report = report_result(result.path, result.path / "report.html", partial=True) if options.report else None
    done = Explained(prepared, result, summarise_result(result.path), report, options.rng, model)
    write_json(result.path / "summary.json", done.to_json())
    return done


def prepare(
    model: str, data: str, background: str, options: ModelOptions, *, rows: str | None, most: int, seed: int
) -> Prepared:
    """Load the model, and the rows with the columns that it takes."""
    loaded = load_model(model, allow_pickle=options.allow_pickle)
    data_source, background_source = open_rows(data, "DATA"), open_rows(background, "--background")
    columns = choose_columns(
        data_source.columns, background_source.columns, loaded, columns=split_names(options.columns),
        drop=split_names(options.drop),
    )  # fmt: skip
    chosen = read_background(background_source, columns.names, most, seed)
    if options.arrays or loaded.takes_arrays:
        loaded = replace(loaded, model=with_arrays(loaded.model), takes_arrays=True)
    return Prepared(loaded, columns, chosen, data, None if rows is None else parse_rows(rows, data_source.n_rows))


def parse_control(text: str) -> str | Sequence[str]:
    """One name, or several with commas between them."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InvalidArgumentError("`--control` is empty; use --control none.")
    return names[0] if len(names) == 1 else names


def _told_failures(result: DatasetResult) -> str:
    """Which parts failed, in one line; empty where none did."""
    if not result.failed:
        return ""
    first, last = result.failed[0].rows
    reason = " ".join(result.failed[0].reason.replace("controlshap: the model", "The model").split()).rstrip(".")
    n_failed = f"{len(result.failed)} of {result.n_parts} parts failed"
    return f"{n_failed}; the first, rows {first} to {last - 1}: {reason}"


def _send_by_value(reference: str) -> None:
    """Let workers of a cluster have a function from the current directory, which they cannot import."""
    import cloudpickle

    module = sys.modules[reference.partition(":")[0]]
    file = getattr(module, "__file__", None)
    if file is not None and Path(file).resolve().is_relative_to(Path.cwd().resolve()):
        cloudpickle.register_pickle_by_value(module)
