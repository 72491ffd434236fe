"""`controlshap explain` and `controlshap report`."""

from __future__ import annotations

import importlib.util
import math
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._errors import ControlShapWarning, InvalidArgumentError, MissingExtraError
from controlshap._files import write_json
from controlshap._imports import require
from controlshap._version import __version__
from controlshap.cli.inputs import (
    ChosenColumns,
    SampledBackground,
    choose_columns,
    open_rows,
    parse_rows,
    read_background,
    read_groups,
    read_json,
    split_names,
)
from controlshap.cli.messages import say
from controlshap.datasets.manifest import read_manifest
from controlshap.datasets.part_file import part_path
from controlshap.datasets.result import DatasetResult, load_parts
from controlshap.datasets.run import describe_failed, explain_dataset
from controlshap.explainer import Explainer
from controlshap.limits import Limits
from controlshap.models.files import LoadedModel, load_model, with_arrays
from controlshap.report import write_report
from controlshap.storage.explanations import load

if TYPE_CHECKING:
    from controlshap.cli.plan import PlanOptions

#: Most rows of a report (more if a single part has more).
REPORT_ROWS = 5000


@dataclass(frozen=True)
class ModelOptions:
    """Options that say how to load the model and which columns it takes."""

    allow_pickle: bool
    arrays: bool
    columns: str | None
    drop: str | None


@dataclass(frozen=True)
class DesignOptions:
    """Options that are arguments of `Explainer`."""

    features: str
    estimator: str
    control: str
    groups: Path | None
    order: Path | None
    hierarchy: Path | None

    def make_explainer(self, model: Any, background: Any, **settings: Any) -> Explainer:
        """Return an explainer with these options; `settings` come before them."""
        chosen = {
            "features": self.features,
            "estimator": self.estimator,
            "control": parse_control(self.control),
            "groups": read_groups(self.groups),
            "order": read_json(self.order, "--order"),
            "hierarchy": read_json(self.hierarchy, "--hierarchy"),
        }
        return Explainer(model, background, **chosen | settings)


@dataclass(frozen=True)
class OutputOptions:
    """Options that say which output of the model is explained."""

    output: str
    of_class: str | None


@dataclass(frozen=True)
class ExplainOptions:
    """Other options of `controlshap explain`."""

    seconds_per_evaluation: float | None
    rows: str | None
    max_background: int
    background_seed: int
    rng: int
    jobs: int
    scheduler: str | None
    tls_ca: str | None
    tls_cert: str | None
    tls_key: str | None
    part_rows: int | None
    progress: Any
    no_report: bool
    keep: str | None


@dataclass(frozen=True)
class PreparedInputs:
    """A model, its columns, a background, and the rows to explain (None for all)."""

    loaded: LoadedModel
    columns: ChosenColumns
    background: SampledBackground
    rows: tuple[int, int] | None

    def explainer(
        self, design: DesignOptions, output: OutputOptions, options: ExplainOptions | PlanOptions
    ) -> Explainer:
        """An explainer of the model."""
        return design.make_explainer(
            self.loaded.model, self.background.frame, max_background=options.max_background,
            seconds_per_evaluation=options.seconds_per_evaluation, **vars(output),
        )  # fmt: skip


@dataclass(frozen=True)
class ResultSummary:
    """Summary of a result on disk.

    Attributes
    ----------
    statuses : dict of str to int
        Rows of each status.
    median_gain : float
        Gain of the control, median over rows; infinite if it left no error.
    """

    n_rows: int
    statuses: dict[str, int]
    median_gain: float


@dataclass(frozen=True)
class ExplainedFiles:
    """The outcome of `controlshap explain`."""

    reference: str
    prepared: PreparedInputs
    result: DatasetResult
    summary: ResultSummary
    report: Path | None
    rng: int

    def to_json(self) -> dict[str, Any]:
        """Return the outcome for programs; `median_gain` is null if the control left no error at all."""
        background, gain = self.prepared.background, self.summary.median_gain
        return {
            "result": str(self.result.path),
            "report": None if self.report is None else str(self.report),
            "rows": self.summary.n_rows,
            "first_row": 0 if self.prepared.rows is None else self.prepared.rows[0],
            "parts": self.result.n_parts,
            "parts_done": self.result.n_done,
            "failed": [
                {"part": failed.part, "rows": list(failed.rows), "reason": failed.reason}
                for failed in self.result.failed
            ],
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
        """Return the outcome as lines for people."""
        rows, gain = self.summary.n_rows, self.summary.median_gain
        statuses = ", ".join(f"{n:,} {status}" for status, n in self.summary.statuses.items())
        lines = [
            f"{rows:,} {'row' if rows == 1 else 'rows'} explained in {self.result.seconds:.1f} s with "
            f"{self.result.n_evaluations:,} model evaluations: {statuses}."
        ]
        if math.isinf(gain):
            lines.append("The control left no error (median over rows).")
        elif gain > 1.05:
            lines.append(f"Without control {gain:.1f} times the evaluations would have been needed (median over rows).")
        if self.prepared.background.seed is not None:
            lines.append(self.prepared.background.describe().capitalize() + ".")
        lines.append(f"Result: {self.result.path} (read with controlshap.load)")
        if self.report is not None:
            lines.append(f"Report: {self.report}")
        return lines


def explain(
    files: tuple[str, str, str],
    out: Path,
    model_options: ModelOptions,
    design: DesignOptions,
    output: OutputOptions,
    limits: Limits,
    options: ExplainOptions,
) -> ExplainedFiles:
    """Explain rows of a file, and write the result and a report to the folder `out`.

    `files` are the model (a file or `module:function`), the rows to explain and the background (files, folders or
    globs).
    """
    if not options.no_report and importlib.util.find_spec("jinja2") is None:  # before the work, not after it
        raise MissingExtraError("`report.html` needs jinja2: pip install 'controlshap[report]', or give --no-report.")
    prepared = prepare(files, model_options, options.rows, options.max_background, options.background_seed)
    if prepared.columns.left_out:
        say(f"controlshap: columns left out: {', '.join(prepared.columns.left_out)}")
    if prepared.background.seed is not None:
        say(f"controlshap: {prepared.background.describe()}")
    model, data, _ = files
    _use_certificates(options)
    if options.scheduler is not None and prepared.loaded.kind == "function":
        _send_by_value(model)
    explainer = prepared.explainer(design, output, options)
    # the file may not fit into memory, so it was sampled before: base values carry that error
    explainer.assembly.n_background = prepared.background.n_rows
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"\d+ of \d+ parts failed", ControlShapWarning)  # reported below
        result = explain_dataset(
            explainer.assembly, data, out, limits, rng=options.rng, n_jobs=options.jobs, scheduler=options.scheduler,
            rows=prepared.rows, part_rows=options.part_rows, model_hash=prepared.loaded.sha256,
            keep=split_names(options.keep), progress=options.progress,
        )  # fmt: skip
    _report_failures(result)
    report = None if options.no_report else report_result(result.path, result.path / "report.html", partial=True)
    outcome = ExplainedFiles(model, prepared, result, summarise_result(result.path), report, options.rng)
    # without the way to the folder, which may be moved, and names people and machines
    summary = outcome.to_json()
    summary["model"]["reference"] = Path(model).name if Path(model).exists() else model
    names = {"result": ".", "report": None if report is None else report.name}
    write_json(result.path / "summary.json", summary | names)
    return outcome


def prepare(
    files: tuple[str, str, str], options: ModelOptions, rows: str | None, most: int, seed: int
) -> PreparedInputs:
    """Load the model, choose its columns, and read at most `most` rows of the background."""
    model, data, background = files
    loaded = load_model(model, allow_pickle=options.allow_pickle)
    data_source, background_source = open_rows(data, "DATA"), open_rows(background, "--background")
    columns = choose_columns(
        data_source.columns, background_source.columns, loaded, columns=split_names(options.columns),
        drop=split_names(options.drop),
    )  # fmt: skip
    sampled = read_background(background_source, columns.names, most, seed)
    if options.arrays or loaded.takes_arrays:
        loaded = replace(loaded, model=with_arrays(loaded.model), takes_arrays=True)
    return PreparedInputs(loaded, columns, sampled, None if rows is None else parse_rows(rows, data_source.n_rows))


def parse_control(text: str) -> str | Sequence[str]:
    """Return one name, or the list of several names between commas."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InvalidArgumentError("`--control` is empty; use --control none.")
    return names[0] if len(names) == 1 else names


def _report_failures(result: DatasetResult) -> None:
    """Say on stderr which parts failed; raise if all did."""
    if not result.failed:
        return
    failures = describe_failed(result.failed, result.n_parts).replace("controlshap: the model", "The model")
    if result.n_done == 0:
        raise InvalidArgumentError(f"No row could be explained: {failures}.")
    say(f"controlshap: {failures}. The others are done; the same command tries these again.")


def _use_certificates(options: ExplainOptions) -> None:
    """Tell dask which certificates to use."""
    given = {"ca-file": options.tls_ca, "client.cert": options.tls_cert, "client.key": options.tls_key}
    given = {f"distributed.comm.tls.{name}": path for name, path in given.items() if path is not None}
    if given and options.scheduler is None:
        raise InvalidArgumentError("`--tls-ca`, `--tls-cert` and `--tls-key` belong to a --scheduler. Give one.")
    if given:
        require("dask.config", extra="cluster", feature="`--scheduler`").set(given)


def _send_by_value(reference: str) -> None:
    """Send a function of the current directory to the workers of a cluster by value: they cannot import it."""
    import cloudpickle

    module = sys.modules[reference.partition(":")[0]]
    file = getattr(module, "__file__", None)
    if file is not None and Path(file).resolve().is_relative_to(Path.cwd().resolve()):
        cloudpickle.register_pickle_by_value(module)


def summarise_result(folder: Path) -> ResultSummary:
    """Summarise a result, one part at a time, because it may not fit into memory."""
    statuses: Counter[str] = Counter()
    gains = []
    for part in _list_parts(folder):
        explanation = load_parts(folder, [part])
        statuses.update(explanation.status.tolist())
        gains.append(explanation.gain)
    gain = np.sort(np.concatenate(gains))
    # not `np.median`, which warns about the mean of two infinite numbers
    return ResultSummary(len(gain), dict(sorted(statuses.items())), float(gain[(len(gain) - 1) // 2]))


def report_result(folder: Path, path: Path, *, title: str | None = None, partial: bool) -> Path:
    """Write the report of a result; if it is large, of rows spread over all of it."""
    if not (folder / "manifest.json").is_file():
        return write_report(load(folder), path, title=title)
    manifest = read_manifest(folder)
    n_rows, n_parts = int(manifest["n_rows"]), int(manifest["n_parts"])
    parts = _list_parts(folder)
    if len(parts) < n_parts and not (partial and parts):
        raise InvalidArgumentError(
            f"`RESULT`: {n_parts - len(parts)} of {n_parts} parts are missing in {str(folder)!r}. Run the same command "
            "again to finish it" + (", or give --partial to see the others." if parts else ".")
        )
    step = max(1, -(-n_rows // REPORT_ROWS))
    explanation = load_parts(folder, parts[::step] if len(parts) > 1 else parts)
    if len(explanation) < n_rows and title is None:
        title = f"Shapley values of {len(explanation):,} of {n_rows:,} rows"
    return write_report(explanation, path, title=title)


def _list_parts(folder: Path) -> list[int]:
    n_parts = int(read_manifest(folder)["n_parts"])
    return [part for part in range(n_parts) if part_path(folder, part).is_file()]
