"""Pickles, joblib and torch files. Loading one runs code that the file names, so the user must allow it."""

from __future__ import annotations

import copyreg
import io
import pickle
import warnings
from functools import partial
from pathlib import Path
from typing import Any

from controlshap._errors import InvalidArgumentError, MissingExtraError
from controlshap._imports import require
from controlshap.models.files.references import current_directory_first


def load_pickle(path: Path) -> Any:
    """Unpickle with joblib if it is installed (it reads plain pickles, too)."""
    current_directory_first()  # where the user's own classes usually are
    try:
        joblib = require("joblib", extra="parallel", feature=f"`{path.name}`")
    except MissingExtraError:
        if path.suffix.lower() == ".joblib":
            raise
        return _unpickle(path, lambda path: pickle.loads(path.read_bytes()))
    return _unpickle(path, joblib.load)


def _unpickle(path: Path, load: Any) -> Any:
    try:
        return load(path)
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"`{path.name}` needs the module {error.name!r}, which is neither installed nor in the current directory."
        ) from error
    except (Exception, SystemExit) as error:  # an unpickler raises whatever the damaged bytes make it do
        raise InvalidArgumentError(
            f"`model`: {str(path)!r} could not be unpickled ({type(error).__name__}: {error}). It is damaged, written "
            "by another version, or its classes were defined in a script and cannot be found here."
        ) from error


def load_torch(path: Path) -> Any:
    """Return a whole module or a TorchScript module, on the CPU."""
    torch = require("torch", extra="torch", feature=f"`{path.name}`")
    current_directory_first()
    copyreg.pickle(torch.jit.RecursiveScriptModule, _script_to_bytes)  # or it could not be sent to workers
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*TorchScript archive", UserWarning)  # which `torch.load` reads as well
        module = _unpickle(path, partial(torch.load, map_location="cpu", weights_only=False))
    if not isinstance(module, torch.nn.Module):
        content = "weights (a state dict) without the module they belong to"
        raise InvalidArgumentError(
            f"`model`: {str(path)!r} holds {content if isinstance(module, dict) else f'a {type(module).__name__}'}. "
            "Save the whole module with torch.save(module, file), export it to ONNX, or give module:function."
        )
    return module


def _script_to_bytes(module: Any) -> tuple[Any, tuple[bytes]]:
    import torch

    content = io.BytesIO()
    torch.jit.save(module, content)
    return _script_from_bytes, (content.getvalue(),)


def _script_from_bytes(content: bytes) -> Any:
    import torch

    copyreg.pickle(torch.jit.RecursiveScriptModule, _script_to_bytes)
    return torch.jit.load(io.BytesIO(content), map_location="cpu")
