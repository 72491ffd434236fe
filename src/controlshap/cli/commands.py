"""The commands and their options; each calls the module that does the work."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import click

from controlshap._version import __version__
from controlshap.cli.messages import EXIT_FAILED_PARTS, OneLineGroup, traceback_option
from controlshap.explainer import DEFAULTS
from controlshap.limits import Limits
from controlshap.strategies import CONTROLS, ESTIMATORS, VALUE_FUNCTIONS

_FOLDER = click.Path(file_okay=False, path_type=Path)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_Command = TypeVar("_Command", bound=Callable[..., Any])
_Options = TypeVar("_Options")
_EXIT_CODES = (
    "Exit codes: 0 done, 1 error, 2 wrong use, 3 finished but some parts failed, 130 interrupted, 143 terminated."
)


@click.group(cls=OneLineGroup, context_settings={"help_option_names": ["-h", "--help"]}, epilog=_EXIT_CODES)
@click.version_option(__version__)
def commands() -> None:
    """Shapley values with calibrated errors, stabilised by control variates."""


def _options(*options: Callable[[_Command], _Command]) -> Callable[[_Command], _Command]:
    """Combine several options to one decorator."""

    def add(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def _limit_options() -> Callable[[_Command], _Command]:
    """Make an option of each field of `Limits`: its type, its default, and its documentation as the help."""
    texts = dict(re.findall(r"^(\w+) : .*\n((?:    .*\n?)+)", inspect.getdoc(Limits) or "", re.MULTILINE))
    hints = get_type_hints(Limits)
    options = []
    for field in fields(Limits):
        types = (hints[field.name], *get_args(hints[field.name]))
        settings: dict[str, Any] = {"default": field.default, "show_default": field.default is not None}
        if any(get_origin(kind) is tuple for kind in types):  # two numbers
            settings |= {"type": float, "nargs": 2}
        elif names := [name for kind in types if get_origin(kind) is Literal for name in get_args(kind)]:
            settings |= {"type": click.Choice(names)}
        elif str in types:  # rules, of which there may be several
            settings = {"multiple": True, "callback": lambda _context, _option, rules: list(rules) or None}
        else:
            settings |= {"type": int if int in types else float}
        text = " ".join(texts[field.name].replace("`", "").split())
        options.append(click.option(f"--{field.name.replace('_', '-')}", help=text, **settings))
    return _options(*options)


def _take(settings: dict[str, Any], kind: type[_Options]) -> _Options:
    """Remove the options that are fields of `kind` from `settings`, and return them as such an object."""
    return kind(**{field.name: settings.pop(field.name) for field in fields(kind)})  # type: ignore[arg-type]


_MODEL_OPTIONS = _options(
    click.option("--allow-pickle", is_flag=True, help="Load joblib, pickle and torch files: this runs their code."),
    click.option("--arrays", is_flag=True, help="Give the model arrays instead of pandas frames."),
    click.option("--columns", metavar="A,B,C", help="The model's columns, in its order."),
    click.option("--drop", metavar="A,B", help="Columns of the files that are not for the model: target, identifiers."),
)
_DESIGN_OPTIONS = _options(
    click.option("--features", type=click.Choice(list(VALUE_FUNCTIONS)), default=DEFAULTS["features"],
                 show_default=True, help="Whether absent features ignore the revealed ones."),
    click.option("--estimator", default=DEFAULTS["estimator"], show_default=True,
                 help=f"auto, {', '.join(ESTIMATORS)}."),
    click.option("--control", default=DEFAULTS["control"], show_default=True,
                 help=f"auto, thorough, none, or one or several of {', '.join(CONTROLS)}, separated by commas."),
    click.option("--groups", type=_FILE, help='JSON file of players: {"Job": ["Job_a", "Job_b"]}.'),
    click.option("--order", type=_FILE, help='JSON file of columns, causes first: [["age", "sex"], ["income"]].'),
    click.option("--hierarchy", type=_FILE, help='JSON file of groups that keep their columns: {"person": ["age"]}.'),
)  # fmt: skip
_OUTPUT_OPTIONS = _options(
    click.option("--output", type=click.Choice(["auto", "margin", "probability"]), default=DEFAULTS["output"],
                 show_default=True, help="What a classifier is asked for; the margin of boosted trees is exact."),
    click.option("--of-class", metavar="LABEL", help="The class whose output is explained."),
)  # fmt: skip
_BACKGROUND_OPTIONS = _options(
    click.option("--max-background", type=click.IntRange(min=2), default=DEFAULTS["max_background"], show_default=True,
                 help="A larger background is sampled to this many rows."),
    click.option("--background-seed", type=click.IntRange(min=0), default=0, show_default=True,
                 help="Seed of that sample."),
)  # fmt: skip
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout, and nothing else there.")


@commands.command(short_help="Explain a network on data of scikit-learn.")
@click.option("--out", type=_FOLDER, default=Path("demo_output"), show_default=True, help="Folder for the results.")
@traceback_option
def demo(out: Path) -> None:
    """Explain a network on data that comes with scikit-learn; prints a table and draws a picture."""
    from controlshap.cli.demo import main

    main(["--out", str(out)])


@commands.command(epilog=_EXIT_CODES, short_help="Explain the rows of a file, with a report.")
@click.argument("model")
@click.argument("data")
@click.option("--background", required=True, help="Ordinary rows, from which absent features take their values.")
@click.option("--out", type=_FOLDER, required=True, help="Folder for the result and report.html.")
@_DESIGN_OPTIONS
@_OUTPUT_OPTIONS
@_limit_options()
@click.option(
    "--seconds-per-evaluation",
    type=float,
    help="Time of the model for a row; with --control auto, a slow model gets trees as well.",
)
@click.option(
    "--rows",
    metavar="FROM:TO",
    help="Explain only these rows of DATA, such as 0:100; they have the values of a run over all rows.",
)
@_MODEL_OPTIONS
@_BACKGROUND_OPTIONS
@click.option("--rng", type=click.IntRange(min=0), default=0, show_default=True, help="Seed; same seed, same numbers.")
@click.option("--jobs", type=int, default=1, show_default=True, help="Processes; -1 for all cores.")
@click.option("--scheduler", metavar="ADDRESS", help="A dask scheduler whose workers explain the parts.")
@click.option("--tls-ca", type=click.Path(exists=True, dir_okay=False), help="Certificates of a tls:// scheduler.")
@click.option("--tls-cert", type=click.Path(exists=True, dir_okay=False), help="Your certificate for it.")
@click.option("--tls-key", type=click.Path(exists=True, dir_okay=False), help="Key of that certificate.")
@click.option(
    "--part-rows", type=click.IntRange(min=1), help="Most rows of a part: as many are lost when a run is stopped."
)
@click.option("--keep", metavar="A,B", help="Columns of DATA to keep beside the values; the first names the rows.")
@click.option("--no-report", is_flag=True, help="Do not write report.html.")
@click.option("--progress", type=click.Choice(["auto", "none", "json"]), default="auto", show_default=True,
              help="A bar on a terminal, nothing, or a line of JSON for each part on stderr.")  # fmt: skip
@_JSON
@traceback_option
@click.pass_context
def explain(ctx: click.Context, /, model: str, data: str, background: str, out: Path, **settings: Any) -> None:
    """Explain the rows of DATA by MODEL, and write a result and a report to a folder.

    MODEL is a function as module:function (the current directory is searched first), or a file: skops, ONNX,
    xgboost (.json, .ubj), lightgbm (.txt); joblib, pickle and torch files only with --allow-pickle, since loading one
    runs code. DATA and the background are CSV, Parquet or Arrow files, folders or globs of them.

    A model that names its columns gets them by name. Otherwise both files must have the same columns.

    The same command with the same folder continues where it stopped.
    """
    from controlshap.cli.explain import DesignOptions, ExplainOptions, ModelOptions, OutputOptions
    from controlshap.cli.explain import explain as run

    as_json = settings.pop("as_json")
    settings["progress"] = {"auto": None, "none": False, "json": "json"}[settings["progress"]]
    model_options, design = _take(settings, ModelOptions), _take(settings, DesignOptions)
    limits, options, output = _take(settings, Limits), _take(settings, ExplainOptions), _take(settings, OutputOptions)
    outcome = run((model, data, background), out, model_options, design, output, limits, options)
    click.echo(json.dumps(outcome.to_json(), allow_nan=False) if as_json else "\n".join(outcome.lines()))
    if outcome.result.failed:
        ctx.exit(EXIT_FAILED_PARTS)


@commands.command(short_help="What `explain` would do, and what it costs.")
@click.argument("model")
@click.argument("data")
@click.option("--background", required=True, help="Ordinary rows, from which absent features take their values.")
@_DESIGN_OPTIONS
@_OUTPUT_OPTIONS
@_limit_options()
@click.option("--seconds-per-evaluation", type=float, help="Time of the model for a row; measured if it is not given.")
@click.option("--rows", metavar="FROM:TO", help="Plan for these rows of DATA only, such as 0:100.")
@_MODEL_OPTIONS
@_BACKGROUND_OPTIONS
@_JSON
@traceback_option
def plan(model: str, data: str, background: str, as_json: bool, **settings: Any) -> None:
    """Say what `explain` would do with the same arguments, how many evaluations it takes, and about how long.

    The model is called on the background only.
    """
    from controlshap.cli.explain import DesignOptions, ModelOptions, OutputOptions
    from controlshap.cli.plan import PlanOptions
    from controlshap.cli.plan import plan as run

    planned = run(
        (model, data, background), _take(settings, ModelOptions), _take(settings, DesignOptions),
        _take(settings, OutputOptions), _take(settings, Limits), _take(settings, PlanOptions),
    )  # fmt: skip
    click.echo(json.dumps(planned.to_json(), allow_nan=False) if as_json else "\n".join(planned.lines()))


@commands.command()
@click.argument("result", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="The file [RESULT/report.html].")
@click.option("--title", help="Heading of the page.")
@click.option("--partial", is_flag=True, help="Show what is there, although parts are missing.")
@_JSON
@traceback_option
def report(result: Path, out: Path | None, title: str | None, partial: bool, as_json: bool) -> None:
    """Write the report of a result: one HTML file."""
    from controlshap.cli.explain import report_result

    path = report_result(result, out or result / "report.html", title=title, partial=partial)
    click.echo(json.dumps({"report": str(path)}) if as_json else f"Report: {path}")


@commands.command(short_help="Compare errors with shap on your own model.")
@click.argument("model", required=False)
@click.argument("data", required=False)
@click.option("--background", help="Ordinary data; needed with MODEL and DATA.")
@_DESIGN_OPTIONS
@_MODEL_OPTIONS
@click.option("--budget", type=click.IntRange(min=1), default=2000, show_default=True, help="Evaluations for a row.")
@click.option("--rows", "n_rows", type=click.IntRange(min=1), default=3, show_default=True, help="Rows to explain.")
@click.option("--seeds", type=click.IntRange(min=2), default=5, show_default=True, help="Runs of each method.")
@click.option("--max-background", type=click.IntRange(min=2), default=50, show_default=True,
              help="Background rows, sampled; the same for all methods.")  # fmt: skip
@click.option("--rng", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of all choices.")
@_JSON
@traceback_option
def benchmark(model: str | None, data: str | None, background: str | None, as_json: bool, **settings: Any) -> None:
    """Compare errors and times on your own model, or on a built-in one when nothing is given.

    At equal model evaluations: our default, the same without control, and shap.KernelExplainer where shap is
    installed. Errors are taken against a long run, whose own error is shown.
    """
    from controlshap.cli.benchmark import BenchmarkOptions
    from controlshap.cli.benchmark import benchmark as run
    from controlshap.cli.explain import DesignOptions, ModelOptions

    if len({model is None, data is None, background is None}) > 1:
        raise click.UsageError("Give MODEL, DATA and --background, or none of them for the built-in problem.")
    model_options, design = _take(settings, ModelOptions), _take(settings, DesignOptions)
    files = None if model is None or data is None or background is None else (model, data, background)
    comparison = run(files, model_options, design, _take(settings, BenchmarkOptions))
    click.echo(json.dumps(comparison.to_json(), allow_nan=False) if as_json else "\n".join(comparison.lines()))


@commands.command(short_help="Run the paper's experiments.")
@click.option("--out", type=_FOLDER, default=Path("reproduction"), show_default=True, help="Folder for the results.")
@click.option("--data", type=_FOLDER, help="Folder of the paper's data sets [CONTROLSHAP_DATA, ../shared/data].")
@click.option("--download", is_flag=True, help="Fetch the public data sets to OUT/data, and use them.")
@click.option("--quick", is_flag=True, help="6 rows, 12 runs, 300 coalitions: everything in minutes.")
@click.option("--jobs", default=2, show_default=True, type=click.IntRange(min=1), help="Processes.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of the runs.")
@click.option("--only", default="", help="Run only what has a name that matches this expression.")
@click.option("--report", is_flag=True, help="Run nothing: tables and figures from what is there.")
def reproduce(**settings: Any) -> int:
    """Run the paper's experiments in cells that are saved as they finish; the same command goes on where it stopped."""
    from controlshap_paper.command import reproduce as run

    return 0 if run(**settings) else 1
