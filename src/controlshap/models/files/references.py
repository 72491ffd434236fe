"""References `module:function` to a callable or fitted model; the current directory is searched first."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from controlshap._checks import suggest
from controlshap._errors import InvalidArgumentError
from controlshap._files import hash_file

_REFERENCE = re.compile(r"(?P<module>[^\W\d]\w*(\.[^\W\d]\w*)*):(?P<names>[^\W\d]\w*(\.[^\W\d]\w*)*)")


def is_reference(text: str) -> bool:
    """Return whether this has the form `module:function` or `package.module:object.attribute`."""
    return _REFERENCE.fullmatch(text) is not None


def current_directory_first() -> None:
    """Put the current directory first on the import path, as `python -m` does."""
    here = str(Path.cwd())
    if sys.path[:1] != [here]:
        sys.path.insert(0, here)


def load_reference(text: str) -> tuple[Any, str]:
    """Return the object and the hash of the file of its module."""
    match = _REFERENCE.fullmatch(text)
    if match is None:
        raise InvalidArgumentError(f"`model` must be a file or module:function; got {text!r}.")
    current_directory_first()
    importlib.invalidate_caches()
    module = _import(match["module"], text)
    target: Any = module
    for name in match["names"].split("."):
        if not hasattr(target, name):
            public = [known for known in dir(target) if not known.startswith("_")]
            raise InvalidArgumentError(
                f"`model`: {text!r}: {_describe(target)} has no {name!r}{suggest(name, public)} Check the name after "
                "the colon."
            )
        target = getattr(target, name)
    return target, _source_hash(module)


def _import(name: str, text: str) -> ModuleType:
    loaded = sys.modules.get(name.partition(".")[0])
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            hint = f" Write {text.replace('.py:', ':')!r}." if ".py:" in text else ""
            raise InvalidArgumentError(
                f"`model`: there is no module {error.name!r} in the current directory or among the installed "
                f"packages.{hint}"
            ) from error
        raise _import_error(name, error) from error
    except (Exception, SystemExit) as error:  # whatever the code of the module raises; a script may call sys.exit
        raise _import_error(name, error) from error
    here = Path.cwd() / name.partition(".")[0]
    own = [file for file in (here.with_suffix(".py"), here / "__init__.py") if file.is_file()]
    at = getattr(sys.modules[name.partition(".")[0]], "__file__", None)
    if own and loaded is not None and (at is None or not own[0].samefile(at)):
        raise InvalidArgumentError(
            f"`model`: {own[0].name} in the current directory has the name of a module that is loaded already. "
            "Rename it."
        )
    return module


def _import_error(name: str, error: BaseException) -> InvalidArgumentError:
    return InvalidArgumentError(f"`model`: importing {name!r} failed by {type(error).__name__}: {error}")


def _source_hash(module: ModuleType) -> str:
    file = getattr(module, "__file__", None)
    if file is None:
        raise InvalidArgumentError(
            f"`model`: the module {module.__name__!r} has no file, so what it does cannot be recorded. Put the "
            "function into a .py file."
        )
    return hash_file(Path(file))


def _describe(target: Any) -> str:
    if isinstance(target, ModuleType):
        return f"the module {target.__name__!r}"
    return f"an object of type {type(target).__name__}"
