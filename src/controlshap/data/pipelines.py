"""Explain the final estimator of a scikit-learn pipeline on encoded rows.

A pipeline itself is explained in its raw columns. In its encoded space, the columns that a one-hot encoder made of a
feature are one player. Nothing of scikit-learn is imported; only public attributes are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError
from controlshap._types import FloatArray


@dataclass(frozen=True, eq=False)
class EncodedSpace:
    """A fitted pipeline, split into transformers and final estimator.

    Attributes
    ----------
    model : object
        The final estimator.
    groups : dict of str to list of int
        Players of the encoded columns, by position: one for each feature that was one-hot encoded, and one for each
        other column; the `groups` of `Explainer`.
    """

    model: Any
    groups: dict[str, list[int]]
    _before: Any

    def transform(self, frame: Any) -> FloatArray:
        """Encode rows, of the background or to explain, to a dense array `(n, columns)`."""
        rows = self._before.transform(frame)
        dense = rows.toarray() if hasattr(rows, "toarray") else rows
        return np.asarray(dense, dtype=float)


def encoded_space(pipeline: Any) -> EncodedSpace:
    """Split a fitted scikit-learn pipeline, to explain it in its encoded columns.

    Parameters
    ----------
    pipeline : sklearn.pipeline.Pipeline
        Fitted; its last step is the model.

    Returns
    -------
    EncodedSpace
    """
    steps = getattr(pipeline, "steps", None)
    if not steps or len(steps) < 2 or not hasattr(steps[-1][1], "predict"):
        raise InvalidArgumentError(
            f"`pipeline` must be a fitted scikit-learn Pipeline of transformers and a model; got "
            f"{type(pipeline).__name__}. Explain a model without transformers as it is."
        )
    before = pipeline[:-1]
    return EncodedSpace(steps[-1][1], one_hot_groups(before), before)


def one_hot_groups(transformer: Any) -> dict[str, list[int]]:
    """Return players of the output columns of a fitted transformer, by position.

    Columns that a `OneHotEncoder` made of one feature are one player with the feature's name; every other column is a
    player of its own.

    Parameters
    ----------
    transformer : fitted OneHotEncoder, ColumnTransformer or Pipeline of them

    Returns
    -------
    dict of str to list of int
    """
    try:
        names = [str(name) for name in transformer.get_feature_names_out()]
    except (AttributeError, ValueError) as error:
        raise InvalidArgumentError(
            f"`transformer` ({type(transformer).__name__}) does not say what its columns are called ({error}). Fit it, "
            "on a frame, and use transformers with `get_feature_names_out`; or write `groups` by hand."
        ) from error
    groups: dict[str, list[int]] = {}
    grouped: set[int] = set()
    for feature, positions in _encoded_features(transformer, len(names), None):
        groups[feature] = groups.get(feature, []) + positions  # a feature may be encoded twice
        grouped.update(positions)
    singles = {names[c] if names[c] not in groups else f"{names[c]} (column)": [c] for c in range(len(names))}
    singles = {name: columns for name, columns in singles.items() if columns[0] not in grouped}
    return dict(sorted((groups | singles).items(), key=lambda item: item[1][0]))


def _encoded_features(transformer: Any, n_out: int, names: list[str] | None) -> Iterator[tuple[str, list[int]]]:
    """Yield features that were one-hot encoded, and the positions of their columns; `names` are those of the inputs."""
    if hasattr(transformer, "categories_") and hasattr(transformer, "drop_idx_"):
        yield from _encoder_features(transformer, n_out, names)
    elif hasattr(transformer, "output_indices_"):
        for name, part, columns in transformer.transformers_:
            place = transformer.output_indices_[name]
            if place.stop > place.start and hasattr(part, "get_feature_names_out"):
                inputs = _select_names(_input_names(transformer, names), columns)
                for feature, positions in _encoded_features(part, place.stop - place.start, inputs):
                    yield feature, [place.start + position for position in positions]
    elif hasattr(transformer, "steps"):
        steps = [step for _, step in transformer.steps if step not in (None, "passthrough")]
        yield from _step_features(steps, n_out, names)


def _step_features(steps: list[Any], n_out: int, names: list[str] | None) -> Iterator[tuple[str, list[int]]]:
    """Yield the features of the last step that encodes, if the steps behind it (scalers, say) keep the columns."""
    for number, step in reversed(list(enumerate(steps))):
        if any(hasattr(step, name) for name in ("categories_", "output_indices_", "steps")):
            if all(getattr(later, "n_features_in_", None) == n_out for later in steps[number + 1 :]):
                yield from _encoded_features(step, n_out, names)
            return


def _input_names(transformer: Any, names: list[str] | None) -> list[str]:
    """Return names of the inputs of a fitted transformer: its own, or else those of the steps before it."""
    if hasattr(transformer, "feature_names_in_"):
        return [str(name) for name in transformer.feature_names_in_]
    n_inputs = int(transformer.n_features_in_)
    if names is not None and len(names) == n_inputs:  # the steps before it (imputers, say) kept the columns
        return names
    stem = "" if names is None else f"{', '.join(names)} "  # names must differ between the parts of a transformer
    return [f"{stem}{number}" for number in range(n_inputs)]


def _select_names(names: list[str], columns: Any) -> list[str]:
    """Return names of columns that a `ColumnTransformer` selects by name, position, mask or slice."""
    if isinstance(columns, slice) and isinstance(columns.start or columns.stop, str):
        first = 0 if columns.start is None else names.index(columns.start)
        return names[first : None if columns.stop is None else names.index(columns.stop) + 1]
    if isinstance(columns, slice):
        return names[columns]
    chosen = np.atleast_1d(np.asarray(columns))
    return [str(name) for name in (chosen if chosen.dtype.kind in "OUT" else np.array(names, dtype=object)[chosen])]


def _encoder_features(encoder: Any, n_out: int, names: list[str] | None) -> Iterator[tuple[str, list[int]]]:
    features = _input_names(encoder, names)
    dropped = encoder.drop_idx_ if encoder.drop_idx_ is not None else [None] * len(features)
    infrequent = getattr(encoder, "infrequent_categories_", None) or [None] * len(features)
    sizes = [
        len(levels) - (0 if rare is None else len(rare) - 1) - (drop is not None)
        for levels, rare, drop in zip(encoder.categories_, infrequent, dropped, strict=True)
    ]
    if sum(sizes) != n_out:
        raise InvalidArgumentError(
            f"`transformer`: a OneHotEncoder of {len(features)} features gives {n_out} columns, where its categories "
            f"account for {sum(sizes)}. Write `groups` by hand."
        )
    start = 0
    for feature, size in zip(features, sizes, strict=True):
        if size:
            yield feature, list(range(start, start + size))
        start += size
