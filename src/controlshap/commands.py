"""Commands of the command line and their options; each hands over to the module that does the work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from controlshap._version import __version__

_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def commands() -> None:
    """Shapley values with calibrated errors, stabilised by control variates."""


@commands.command()
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
    from controlshap.reproduce.command import reproduce as run

    return 0 if run(**settings) else 1
