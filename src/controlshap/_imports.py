"""Imports that wait until they are needed: of public names (PEP 562), and of optional packages."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from controlshap._errors import MissingExtraError

#: Packages whose name is not that of their module.
_PACKAGES = {"sklearn": "scikit-learn", "distributed": "dask.distributed"}


def lazy_names(
    package: str, homes: Mapping[str, tuple[str, ...]], elsewhere: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions `__getattr__` and `__dir__` of a package whose names have their homes in its modules.

    Parameters
    ----------
    package : str
        The package's `__name__`.
    homes : dict
        Names by the module, relative to the package, that defines them.
    elsewhere : dict, optional
        Names that other libraries have, each with the sentence that says what to write here.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def get_attribute(name: str) -> Any:
        if name not in home_of:
            hint = (elsewhere or {}).get(name)
            raise AttributeError(f"module {package!r} has no attribute {name!r}{f'. {hint}' if hint else ''}")
        value = getattr(import_module(f"{package}.{home_of[name]}"), name)
        setattr(sys.modules[package], name, value)  # the next time it is found without this function
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of})

    return get_attribute, list_names


def require(module: str, *, extra: str, feature: str, otherwise: str = "") -> Any:
    """Import a module of an optional package, or raise an error that names the extra to install.

    Parameters
    ----------
    module : str
    extra : str
        Extra of controlshap that installs the package.
    feature : str
        What needs the package; the message begins with it.
    otherwise : str
        How to do without, such as "or pass an array".
    """
    try:
        return import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        way_out = f", {otherwise}" if otherwise else ""
        raise MissingExtraError(
            f"{feature} needs {_PACKAGES.get(name, name)}: pip install 'controlshap[{extra}]'{way_out}."
        ) from error
