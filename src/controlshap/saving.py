"""An explainer on disk: background, settings and what was computed once; never the model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap.inputs import FrameMaker
from controlshap.storage import decode, encode, read_folder, write_folder
from controlshap.surrogates.d_matrices import DMatrices

if TYPE_CHECKING:
    from controlshap.explainer import Explainer


def save_explainer(explainer: Explainer, path: Path) -> Path:
    """Write to a folder."""
    table, cache = explainer._table, explainer._cache
    maker = table.restore if isinstance(table.restore, FrameMaker) else None
    arrays: dict[str, Any] = {"background": table.rows, "owner": explainer.players.owner}
    header: dict[str, Any] = {
        "column_names": list(maker.columns) if maker else None,  # as the frame had them, integers too
        "frame": maker.kind if maker else None,
        "player_names": list(explainer.players.names),
        "n_background": explainer._n_background,
        "settings": {name: encode(value, arrays, name) for name, value in explainer._settings.items()},
        "seconds": cache.get("seconds"),
        "shared": encode(explainer._shared, arrays, "shared"),
    }
    matrices = cache.get("d_matrices")
    if isinstance(matrices, DMatrices):
        arrays["d_matrices"] = matrices.matrices
        header["d_permutations"] = matrices.n_permutations
    return write_folder(path, "explainer", header, arrays)


def load_explainer(kind: type[Explainer], path: Path, model: Any) -> Explainer:
    """Read what `save_explainer` wrote."""
    header, arrays = read_folder(path, "explainer")
    try:
        settings = {name: decode(value, arrays) for name, value in header["settings"].items()}
        rows, owner = arrays["background"], arrays["owner"]
        groups = {name: np.flatnonzero(owner == j).tolist() for j, name in enumerate(header["player_names"])}
        names, frame = header["column_names"], header["frame"]
        n_background = int(header["n_background"])
        matrices = arrays.get("d_matrices")
        seconds, shared = header["seconds"], decode(header["shared"], arrays)
        cache: dict[str, Any] = {} if seconds is None else {"seconds": seconds}
        if matrices is not None:
            cache["d_matrices"] = DMatrices(matrices, int(header["d_permutations"]))
    except KeyError as error:
        raise InvalidArgumentError(f"`path`: the explainer in {str(path)!r} lacks {error}; it is damaged.") from error
    explainer = kind(model, FrameMaker(frame, tuple(names))(rows) if frame else rows, groups=groups, **settings)
    explainer._cache.update(cache)
    explainer._n_background = n_background
    explainer._shared = shared
    return explainer
