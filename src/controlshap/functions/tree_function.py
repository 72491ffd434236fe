"""A fitted boosted ensemble as a function with known Shapley values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

from controlshap._types import FloatArray
from controlshap.data.players import Players
from controlshap.functions.trees import LeafBoxes


@final
@dataclass(frozen=True)
class TreeFunction:
    """Leaf boxes, and the model text of lightgbm where that library fitted them (it predicts faster).

    Attributes
    ----------
    boxes : LeafBoxes
    text : str or None
    """

    boxes: LeafBoxes
    text: str | None

    @cached_property
    def _booster(self) -> Any:
        import lightgbm

        return lightgbm.Booster(model_str=self.text)

    def predict(self, rows: FloatArray) -> FloatArray:
        """Values `(n,)`."""
        if self.text is None:
            return self.boxes.predict(rows)[:, 0]
        values: FloatArray = self._booster.predict(rows, num_threads=1)
        return values

    def draw_values(self, x: FloatArray, draws: FloatArray, players: Players) -> FloatArray:
        """Shapley values `(draws, players)`."""
        return self.boxes.draw_values(x, draws, players)[:, :, 0]
