"""All units of a row with their evaluations, one batch after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from controlshap._types import BoolArray, FloatArray
from controlshap.crossfitting.fit import BATCH_DOUBLES
from controlshap.sampling.sampler import UnitSampler
from controlshap.sampling.units import Units
from controlshap.statistics.two_stage import TwoStageDesign
from controlshap.statistics.visits import UnitIds


@dataclass(frozen=True)
class EvaluatedUnits:
    """The units of a sampler.

    Attributes
    ----------
    sampler : Sampler
    ids : UnitIds
    values : ndarray of shape (units, k, outputs)
        What coalitions are worth, means over draws, less half of v(0) + v(all) of the same draws.
    """

    sampler: UnitSampler
    ids: UnitIds
    values: FloatArray

    @classmethod
    def of(cls, sampler: UnitSampler) -> EvaluatedUnits:
        """From the log of evaluations, and v_b(0) of each unit's draws, or the shared estimate of v(0)."""
        means, starts = sampler.game.log.means, list(sampler.game.log.starts)
        if means is None:
            raise RuntimeError("the evaluations of units are not kept")
        ids, noted = [], bool(starts)
        for units in sampler.kept.replay(_at_once(sampler)):
            ids.append(units.ids)
            if units.draws.values is not None:
                starts.append(units.draws.values[..., 0].mean(axis=1))
            elif not noted:
                starts.append(np.broadcast_to(sampler.base.mean[:, 0], (len(units.ids), sampler.game.n_outputs)))
        half = 0.5 * (np.concatenate(starts) + sampler.game.at_x[:, 0])
        return cls(sampler, UnitIds.concatenate(ids), np.concatenate(means) - half[:, None])

    @property
    def n_outputs(self) -> int:
        """Outputs of the model."""
        return int(self.values.shape[2])

    @cached_property
    def design(self) -> TwoStageDesign:
        """The blocks of all units."""
        if not self.sampler.stream.in_blocks:
            return TwoStageDesign.independent(len(self.ids))
        exact = self.sampler.estimator.exact_per_draw
        return TwoStageDesign(self.ids.block, self.sampler.n_blocks, exact_within=exact)

    @cached_property
    def _importance(self) -> FloatArray:
        """Factors of the coalitions' weights, unit by unit."""
        sizes = self.sampler.size_strata()
        return np.ones(len(self.ids)) if sizes is None else sizes.importance

    def coalition_weights(self, some: Units) -> tuple[BoolArray, FloatArray]:
        """Coalitions of units and their weights (see `Estimator.coalition_weights`), among all units that there are."""
        coalitions, weights = self.sampler.estimator.coalition_weights(some.design)
        return coalitions, weights * self._importance[some.ids.unit, None]

    def replay(self) -> Iterator[Units]:
        """All units again, as many at once as the memory is for."""
        return self.sampler.kept.replay(_at_once(self.sampler))


def _at_once(sampler: UnitSampler) -> int:
    n_players, n_columns = sampler.game.imputer.players.n_players, len(sampler.game.x)
    return max(1, BATCH_DOUBLES // (sampler.unit_cost * max(n_players, n_columns)))
