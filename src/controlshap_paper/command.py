"""`controlshap reproduce`: run what is missing with a progress bar, then write tables and figures."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from controlshap import InvalidArgumentError
from controlshap.engine.progress import make_bar
from controlshap_paper.cells import Size
from controlshap_paper.data import NAMES, data_folder
from controlshap_paper.download import fetch
from controlshap_paper.driver import TaskResult, all_tasks, run_tasks
from controlshap_paper.figures import check_plots, draw_all
from controlshap_paper.runs import SCHEMA, is_done
from controlshap_paper.tables import write_tables


def reproduce(
    *,
    out: Path,
    data: Path | None = None,
    download: bool = False,
    quick: bool = False,
    jobs: int = 1,
    seed: int = 0,
    only: str = "",
    report: bool = False,
) -> bool:
    """Run what is missing, write tables and figures, and return whether every task succeeded."""
    size = Size.quick() if quick else Size()
    folder = fetch(out / "data") if download else data_folder(data)
    tasks = all_tasks(only)
    check_plots()
    if not tasks:
        raise InvalidArgumentError(f"`only` must match the name of a task; {only!r} matches none.")
    raw = out / "raw"
    _claim(out, size, seed, folder, runs=not report)
    failed: list[TaskResult] = []
    if not report:
        missing = [task for task in tasks if not is_done(raw, task.name, size, seed)]
        _print(f"{len(tasks) - len(missing)} of {len(tasks)} results are there; {len(missing)} to run.")
        with _bar(sum(task.cost(size) for task in missing), len(missing)) as bar:

            def advance(result: TaskResult) -> None:
                bar.update(result.task.cost(size))
                bar.set_postfix_str(result.task.name, refresh=True)
                if result.error:
                    bar.write(f"{result.task.name} failed: {result.error}", file=sys.stderr)

            failed = run_tasks(missing, size, folder, seed, raw, jobs, advance)
    lines = write_tables(raw, out, size, seed)
    n_drawn = draw_all(raw, out / "figures", size, seed, lines)
    _print(f"Tables in {out}, {n_drawn} figures drawn in {out / 'figures'}.")
    for result in failed:
        _print(f"failed: {result.task.name}: {result.error}")
    return not failed


def _claim(out: Path, size: Size, seed: int, folder: Path | None, *, runs: bool) -> None:
    """Refuse a folder that holds results of other settings: they would be mixed, or lost."""
    weights = [name for name in NAMES if folder is not None and (folder / f"nn_weights_{name}.npz").is_file()]
    settings = {"size": asdict(size), "seed": seed, "published_networks": weights, "schema": SCHEMA}
    file = out / "settings.json"
    if file.is_file():
        stored = json.loads(file.read_text())
        if not runs:
            settings["published_networks"] = stored.get("published_networks")  # which a report does not need
        if stored != settings:
            differing = ", ".join(f"{key} {stored.get(key)} there, {settings[key]} now" for key in settings
                                  if stored.get(key) != settings[key])  # fmt: skip
            raise InvalidArgumentError(
                f"`out`: {out} holds results of other settings ({differing}). Use another folder."
            )
        return
    out.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(settings, indent=1) + "\n")


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")


def _bar(total: float, n_tasks: int) -> Any:
    # by the cost of tasks, not their number: a forest takes a hundred times as long as a logistic regression
    layout = "{percentage:3.0f}% |{bar}| {elapsed} gone, about {remaining} left {postfix}"
    return make_bar("The progress bar", total=total, desc=f"{n_tasks} tasks", bar_format=layout, disable=None)
