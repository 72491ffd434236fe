"""The base class of imputers whose rows are normal given a coalition: functions of linear scores have known means."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.values.base import Imputer

if TYPE_CHECKING:
    from controlshap.values.gaussian import GaussianImputer


class NormalParts(Imputer):
    """Rows that are normal given a coalition and a part of the distribution; a Gaussian has one part."""

    known_values = "of normal scores"

    @property
    @abstractmethod
    def parts(self) -> tuple[GaussianImputer, ...]:
        """The Gaussians of the mixture."""

    def coalition_weights(self, x: FloatArray, coalitions: BoolArray) -> FloatArray:  # noqa: ARG002
        """Weights `(u, k, parts)` of the parts given x on coalitions `(u, k, players)`."""
        return np.ones((*coalitions.shape[:2], 1))

    def walk_weights(self, x: FloatArray, permutations: IntArray) -> FloatArray:  # noqa: ARG002
        """Weights `(u, players + 1, parts)` at every prefix of permutations."""
        return np.ones((len(permutations), permutations.shape[1] + 1, 1))
