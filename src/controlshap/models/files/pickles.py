"""Pickles, joblib and torch files. Loading one runs whatever code it names: only on explicit request."""

from __future__ import annotations

import copyreg
import io
import pickle
from pathlib import Path
from typing import Any

from controlshap._errors import InvalidArgumentError, MissingExtraError
from controlshap._optional import require
from controlshap.models.files.kinds import MODELS
from controlshap.models.files.references import current_directory_first


def refuse_code(path: Path, kind: str) -> InvalidArgumentError:
    """Why the file is not loaded, and what would be better."""
    return InvalidArgumentError(
        f"`model`: {str(path)!r} holds {MODELS[kind][0]}, and loading one runs code that the file brings along. Give "
        "--allow-pickle (allow_pickle=True) if you trust whoever made it, or save the model as skops, ONNX or in "
        "xgboost's or lightgbm's own format."
    )


def load_pickle(path: Path, kind: str) -> Any:
    """Unpickle with joblib where it is installed (it reads plain pickles, too)."""
    current_directory_first()  # where the classes of one's own pickles usually are
    try:
        joblib = require("joblib", extra="parallel", feature=f"`{path.name}`")
    except MissingExtraError:
        if kind == "compressed" or path.suffix.lower() == ".joblib":
            raise
        return _unpickle(path, _plain)
    return _unpickle(path, joblib.load)


def _plain(path: Path) -> Any:
    with path.open("rb") as file:
        return pickle.load(file)


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


def load_torch(path: Path, kind: str) -> Any:
    """A whole module, on the CPU."""
    torch = require("torch", extra="torch", feature=f"`{path.name}`")
    current_directory_first()

    def load(file: Path) -> Any:
        if kind == "torchscript":
            copyreg.pickle(torch.jit.RecursiveScriptModule, _script_to_bytes)  # or it could not go to workers
            return torch.jit.load(str(file), map_location="cpu")
        return torch.load(str(file), map_location="cpu", weights_only=False)

    found = _unpickle(path, load)
    if not isinstance(found, torch.nn.Module):
        weights = isinstance(found, dict)
        raise InvalidArgumentError(
            f"`model`: {str(path)!r} holds "
            + ("weights (a state dict) without the module they belong to" if weights else f"a {type(found).__name__}")
            + ". Save the whole module with torch.save(module, file), export it to ONNX, or give module:function."
        )
    return found


def _script_to_bytes(module: Any) -> tuple[Any, tuple[bytes]]:
    import torch

    content = io.BytesIO()
    torch.jit.save(module, content)
    return _script_from_bytes, (content.getvalue(),)


def _script_from_bytes(content: bytes) -> Any:
    import torch

    copyreg.pickle(torch.jit.RecursiveScriptModule, _script_to_bytes)
    return torch.jit.load(io.BytesIO(content), map_location="cpu")
