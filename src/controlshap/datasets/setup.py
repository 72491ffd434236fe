"""What a run is, and what is fixed once for all its parts and resumptions."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._types import FloatArray
from controlshap._version import __version__
from controlshap.datasets import manifest as manifests
from controlshap.datasets.part import Job
from controlshap.datasets.sources import DEFAULT_ROWS, MOST_ROWS, RowSource
from controlshap.engine.rows import ready_problem
from controlshap.problem import Assembly
from controlshap.statistics.stopping import Stopping
from controlshap.storage.explainers import save_assembly

#: Seconds that a part of cheap rows should take.
PART_SECONDS = 20.0
#: Background rows that tell one model from another where the background itself is not evaluated.
TOLD_APART = 100


def look_into(folder: Path) -> dict[str, Any] | None:
    """The manifest of an earlier run, if there is one; a folder of something else is refused."""
    if (folder / "manifest.json").is_file():
        return manifests.read_manifest(folder)
    if folder.exists() and not folder.is_dir():
        raise InvalidArgumentError(f"`out`: {str(folder)!r} is a file; give a folder.")
    # a run that was stopped before its manifest was written leaves these
    ours = ("explainer", "predictions.npy", "parts")
    found = [p.name for p in folder.iterdir()] if folder.exists() else []
    other = sorted(name for name in found if name not in ours and not name.startswith(".manifest.json"))
    if other or any((folder / "parts").glob("part-*")):
        raise InvalidArgumentError(
            f"`out`: {str(folder)!r} is not empty and holds no run ({', '.join(other[:3]) or 'parts'}). Use another "
            "folder."
        )
    return None


def explainer_identity(explainer: Assembly) -> dict[str, Any]:
    """What tells this explainer from another, without the model: what it would save."""
    with tempfile.TemporaryDirectory(prefix="controlshap-") as temporary:
        return manifests.identity_of_explainer(save_assembly(explainer, Path(temporary)))


def background_predictions(explainer: Assembly, stopping: Stopping) -> FloatArray:
    """What the model says about the background `(rows, outputs)`; this computes f(background) where it is needed."""
    problem = ready_problem(explainer, stopping)
    if problem.base.finite:
        return problem.base.values[:, :, 0]
    rows = explainer.background[:TOLD_APART]
    return explainer.model(problem.imputer.to_inputs(rows), n_outputs=problem.base.n_outputs, where="background rows")


def choose_part_rows(seconds: float, n_rows: int, n_jobs: int) -> int:
    """Rows of a part: as many as take `PART_SECONDS`, but enough parts for all workers; 50 or more."""
    by_time = int(PART_SECONDS / max(seconds, 1e-6))
    by_workers = n_rows // (8 * max(n_jobs, 4))
    wanted = min(by_time, by_workers, MOST_ROWS)
    return max(DEFAULT_ROWS, wanted // DEFAULT_ROWS * DEFAULT_ROWS)


def make_manifest(identity: dict[str, Any], job: Job, source: RowSource) -> dict[str, Any]:
    """What is written before the first part."""
    explainer = job.explainer
    columns = [[int(c) for c in columns] for columns in explainer.raw_players.columns]
    return {
        "kind": manifests.KIND,
        "schema": manifests.SCHEMA,
        "version": __version__,
        "hash": job.run,
        "entropy": str(job.entropy),
        "n_rows": source.n_rows,
        "n_parts": source.n_parts,
        "part_rows": source.part_rows,
        "bounds_sha256": manifests.hash_array(source.bounds),
        "layout": job.layout.to_json(),
        "output_names": explainer.model.output_names,
        "player_columns": columns,
        "settings": job.settings,
        "identity": identity,
    }


def plain_numbers(call: dict[str, Any]) -> dict[str, Any]:
    """Arguments as JSON knows them."""
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in call.items()}
