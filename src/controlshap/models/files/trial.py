"""Load a model file in another process first: compiled readers may crash, or never return, on a damaged file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from controlshap._errors import ControlShapError, InvalidArgumentError, MissingExtraError
from controlshap._types import FloatArray
from controlshap.models.files.columns import model_columns
from controlshap.models.files.structure import refuse_bad_trees
from controlshap.models.model import as_model

#: Time that the other process has, start included, and the extra time for each megabyte of the file.
SECONDS, SECONDS_PER_MEGABYTE = 60.0, 1.0
_CODE = """
import sys
sys.path.extend(sys.argv[2:])
from {0} import {1}
from {2} import load_and_predict
load_and_predict({1}, sys.argv[1])
"""
_ERRORS = {2: InvalidArgumentError, 3: MissingExtraError}


@contextmanager
def trial(load: Callable[[Path], Any], path: Path) -> Iterator[None]:
    """Load a file and predict a few rows in another process, while the body of the `with` statement runs.

    Raises what the loader raises there, and `InvalidArgumentError` if that process crashes or does not end. The file
    is then not to be loaded here: what raises in one process may crash another.
    """
    code = _CODE.format(load.__module__, load.__name__, __name__)
    seconds = SECONDS + SECONDS_PER_MEGABYTE * path.stat().st_size / 1e6
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", code, str(path), *sys.path],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace",
    )  # fmt: skip
    with process:
        try:
            yield
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise _refusal(path, f"did not end within {seconds:.0f} s") from None
        finally:
            process.kill()
    if process.returncode in _ERRORS:
        raise _ERRORS[process.returncode](output.splitlines()[-1])
    if process.returncode != 0:
        number = -process.returncode
        name = signal.Signals(number).name if number in signal.valid_signals() else f"status {process.returncode}"
        raise _refusal(path, f"crashed ({name})")


def load_and_predict(load: Callable[[Path], Any], path: str) -> None:
    """Load a file, follow its trees, predict rows that end in many of their leaves, and end the process."""
    warnings.simplefilter("ignore")
    try:
        model = load(Path(path))
        refuse_bad_trees(model)
    except ControlShapError as error:
        sys.stdout.write("\n" + " ".join(str(error).split()))
        sys.stdout.flush()
        os._exit(3 if isinstance(error, MissingExtraError) else 2)
    n_columns = model_columns(model).number
    for rows in () if n_columns is None else _probes(n_columns):
        with suppress(Exception):  # columns may hold text, or need names; a crash is what is looked for
            as_model(model).predict(rows)
    os._exit(0)  # without the time that a clean end takes


def _probes(n_columns: int) -> tuple[FloatArray, FloatArray]:
    """Zeros, large numbers of either sign and numbers of many sizes; and, since not all models take them, gaps."""
    scales = np.repeat(10.0 ** np.arange(-3.0, 7.0), 20)
    numbers = np.random.default_rng(0).normal(size=(len(scales), n_columns)) * scales[:, None]
    return np.concatenate([np.outer([0.0, -1e30, 1e30], np.ones(n_columns)), numbers]), np.full((1, n_columns), np.nan)


def _refusal(path: Path, outcome: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"`model`: {str(path)!r} could not be read: the process that tried to load it {outcome}. The file is damaged; "
        "save the model again, with the version that is installed here."
    )
