"""Models that want arrays without names, although the rows come from files with names."""

from __future__ import annotations

from typing import Any

import numpy as np

from controlshap.models.adapters import as_model
from controlshap.models.model import Model


class ArrayInput:
    """Hands a prediction function the values of a frame; a class, so that it can be sent to workers."""

    def __init__(self, predict: Any) -> None:
        self.predict = predict

    def __call__(self, rows: Any) -> Any:
        """Predict."""
        return self.predict(np.asarray(rows))


def with_arrays(model: Any) -> Model:
    """The same model, given arrays."""
    known = as_model(model)
    return Model(ArrayInput(known.predict), known.source, output_names=known.output_names)
