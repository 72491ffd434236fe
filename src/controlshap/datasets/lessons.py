"""Learning across the parts of a data set: what parts teach, and the functions that are fitted to it, as files.

Parts are explained in generations of 1, 2, 4, ... parts, as the rows of a call are (`engine.generations`). A worker
writes some of the evaluations of its part before the part itself, and the process that leads the run fits the function
of the next generation when all parts of one are there. What is found in the folder is used, never made anew: a run that
was killed goes on with the same functions.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._files import read_folder, write_folder
from controlshap.controls import SharedSurrogate
from controlshap.controls.base import EvaluatedRows
from controlshap.engine.generations import Generation, Learner, Lesson
from controlshap.problem import Problem
from controlshap.storage.explainers import decode, encode

#: Kinds of the folders that are written.
FUNCTION, LESSON = "function", "lesson"


def begin_lesson(folder: Path, run: str, part: int, n_rows: int, n_numbers: int) -> Lesson:
    """The lesson for a part of so many rows, and how many evaluations of so many numbers each row is to hand back."""
    generation = Generation.of(part)
    function = read_function(folder, run, generation.number) if generation.number else None
    return Lesson(function, -(-generation.share(n_numbers) // n_rows))


def write_lesson(folder: Path, run: str, part: int, lesson: Lesson) -> None:
    """Write the evaluations of a part, in an order in which the first of them come from all of its rows."""
    if Generation.of(part).end is None:
        return
    arrays: dict[str, Any] = {}
    if lesson.parts:
        together = EvaluatedRows.concatenate(lesson.parts)
        turn = np.concatenate([np.arange(len(rows)) for rows in lesson.parts])
        together = together[np.argsort(turn, kind="stable")]
        arrays = {"rows": together.rows, "outputs": together.outputs}
    write_folder(_place(folder, LESSON, part), LESSON, {"run": run}, arrays)


def learn_from_parts(problem: Problem, folder: Path, run: str, part_rows: int, generation: Generation) -> None:
    """Fit the function of the next generation, unless it is there; parts that have failed teach nothing."""
    following = _place(folder, FUNCTION, generation.number + 1)
    if generation.end is None or (following / f"{FUNCTION}.json").is_file():
        return
    learner = Learner(problem, part_rows, [_read_lesson(folder, run, part) for part in range(generation.end)])
    learner.fit(generation)
    arrays: dict[str, Any] = {}
    header = {"run": run, "function": encode(learner.problem.shared, arrays, "function")}
    write_folder(following, FUNCTION, header, arrays)


def read_function(folder: Path, run: str, generation: int) -> SharedSurrogate | None:
    """The function of a generation; None where there was nothing to learn."""
    header, arrays = read_folder(_place(folder, FUNCTION, generation), FUNCTION)
    _check_run(header, run, folder)
    function: SharedSurrogate | None = decode(header["function"], arrays)
    return function


def remove_lessons(folder: Path) -> None:
    """Remove what parts have taught, when all of them are done; the functions stay."""
    shutil.rmtree(folder / f"{LESSON}s", ignore_errors=True)


def _read_lesson(folder: Path, run: str, part: int) -> EvaluatedRows | None:
    place = _place(folder, LESSON, part)
    if not (place / f"{LESSON}.json").is_file():
        return None
    header, arrays = read_folder(place, LESSON)
    _check_run(header, run, folder)
    return EvaluatedRows(arrays["rows"], arrays["outputs"]) if arrays else None


def _place(folder: Path, kind: str, number: int) -> Path:
    return folder / f"{kind}s" / f"{number:06d}"


def _check_run(header: dict[str, Any], run: str, folder: Path) -> None:
    if header.get("run") != run:
        raise InvalidArgumentError(
            f"`out`: {str(folder)!r} holds functions of another run. Remove its folders `functions` and `lessons`, and "
            "run again."
        )
