"""Optional packages, imported where they are used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from controlshap._errors import MissingExtraError

#: Packages whose name is not that of their module.
_PACKAGES = {"sklearn": "scikit-learn", "distributed": "dask.distributed"}


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
