"""Known values of a surrogate of cosines for many rows, as controls of their walks.

For independent features the values of every draw are known, which gives two controls of known value 0: what a walk
misses of its draw's values, and how these differ from the mean over draws. For a Gaussian the mean of a cosine is known
along a permutation, so that only permutations are simulated: the same ones for all rows, whose scores are then one
product of matrices. What a linear function of the same slopes adds is taken off, and its values come from the D
matrices of the explainer, as in `crossfitting/network_walks.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from controlshap._arrays import prefix_masks
from controlshap._random import Purpose
from controlshap.controls.d_matrices import DMatrices
from controlshap.crossfitting.known_simulated import REPLICATIONS
from controlshap.engine.device.counters import random_ranks, row_keys, unit_keys
from controlshap.engine.device.rows import Conditioner
from controlshap.engine.device.surrogate import DeviceWaves, at_once, full_precision
from controlshap.engine.device.walks import DeviceData, contributions
from controlshap.statistics.control_variate import KnownValues
from controlshap.statistics.covariance_root import CovarianceRoot

#: Pairs of permutations that are simulated for each unit of a row: what the linear function leaves of them, over so
#: many, is little beside what the surrogate leaves of units. Of a trained network of 2 x 512, 1 and 2 take 15 and 10 %
#: less time and leave 20 and 7 % more variance; 8 take 19 % more, and leave 3 % less.
PAIRS_A_UNIT = 4


def values_of_rows(common: DeviceData, matrices: DMatrices | None, x: Any, n_units: int) -> Any:
    """Known values of the surrogate for rows `(r, c)`, the rows first.

    For independent features values `(r, M, players, o)` of the draws, else values and base by replication,
    `(r, replications, players + 1, o)`.
    """
    assert common.surrogate is not None
    if common.conditioner is None:
        return common.surrogate.draw_values(x, common.draws, common.owner, common.n_players)
    each = max(1, -(-PAIRS_A_UNIT * n_units // REPLICATIONS))
    with full_precision():
        return _Simulation(common, common.surrogate, common.conditioner, matrices).values(x, each)


def known_values(common: DeviceData, known: Any) -> KnownValues:
    """The known values of the surrogate's controls, from those of some rows."""
    if common.conditioner is None:
        return no_error(known[..., None], known.shape[2])
    mean = known.mean(dim=1)
    factors = (known - mean[:, None])[..., None] / (REPLICATIONS * (REPLICATIONS - 1)) ** 0.5
    root = CovarianceRoot(factors, np.zeros(REPLICATIONS, dtype=np.int64), np.array([REPLICATIONS - 1.0]))
    return KnownValues(mean[..., None], root, np.array([[1.0], [0.5]]), shared=True)


def no_error(like: Any, n_players: int) -> KnownValues:
    """Known values 0 of the two controls that a function with known values of all draws gives.

    `like` is a tensor of shape (r, ..., o, any), with o outputs for r rows.
    """
    zero = like.new_zeros((len(like), n_players + 1, like.shape[-2], 2))
    return KnownValues(zero, CovarianceRoot.zero_like(zero), np.array([[1.0, 1.0], [1.0, 0.0], [0.5, 0.5]]))


class _Simulation:
    """Means of a surrogate along permutations, under a Gaussian, for many rows."""

    def __init__(
        self, common: DeviceData, waves: DeviceWaves, conditioner: Conditioner, matrices: DMatrices | None
    ) -> None:
        self.common, self.waves, self.conditioner, self.matrices = common, waves, conditioner, matrices
        mean, spread = conditioner.mean, conditioner.spread
        self.centre = waves.intercepts + waves.weights @ mean
        deviations = (waves.weights * spread) @ conditioner.factor
        damped = waves.scales * torch.exp(-0.5 * (deviations**2).sum(dim=1))[:, None]
        self.base = waves.constant + mean @ waves.linear + torch.cos(self.centre) @ damped
        # the mean slope, which is that of the best linear function of normal columns
        slope = waves.linear - waves.weights.T @ (torch.sin(self.centre)[:, None] * damped)
        self.slope = slope if matrices is not None else torch.zeros_like(slope)

    def values(self, x: Any, each: int) -> Any:
        """Values and base `(r, replications, players + 1, o)`, with so many pairs of permutations in each."""
        common, (r, c), o = self.common, x.shape, self.waves.n_outputs
        key = row_keys(common.entropy, Purpose.KNOWN_VALUES, torch.zeros(1, dtype=torch.int64, device=x.device))
        ranks = random_ranks(unit_keys(key, torch.arange(REPLICATIONS * each, device=x.device)), common.n_players)
        gaps, at_x = x - self.conditioner.mean, self.waves.values(x) - x @ self.slope
        sums = x.new_zeros((r, REPLICATIONS, common.n_players + 1, o))
        step = max(1, at_once(x.device) // (4 * common.n_players * c * (len(self.centre) + o)))
        for start in range(0, len(ranks), step):
            some = ranks[start : start + step]
            replication = torch.arange(start, start + len(some), device=x.device) // each
            member = torch.nn.functional.one_hot(replication, REPLICATIONS).to(x.dtype)
            for rows, added in self._walk(some, gaps, at_x):
                sums[rows] += torch.einsum("us,rupo->rspo", member, added)
        values = sums / each
        if self.matrices is not None:
            values[:, :, :-1] += self._through_scores(self.matrices, gaps)
        values[:, :, -1] = self.base
        return values

    def _walk(self, ranks: Any, gaps: Any, at_x: Any) -> Any:
        """Slices of rows, and what each player adds on average along some permutations, less what is linear."""
        waves, (u, p) = self.waves, ranks.shape
        by_column = ranks[:, self.common.owner]
        weights = torch.cat([waves.weights, (waves.linear - self.slope).T])
        maps, variances = self.conditioner.walk_scores(by_column, prefix_masks(by_column, p), weights)
        n, h = 2 * u * (p - 1), len(waves.weights)
        maps = maps.reshape(n, -1, h + waves.n_outputs)
        # scores have their means as a last column, beside which gaps have 1
        of_units = torch.cat([maps[..., :h], self.centre.expand(n, 1, -1)], dim=1).to(waves.dtype)
        of_linear = maps[..., h:]
        scales = (torch.exp(-0.5 * variances.reshape(n, -1)[:, :h, None]) * waves.scales).to(waves.dtype)
        constant = waves.constant + self.conditioner.mean @ (waves.linear - self.slope)
        at_nobody = self.base - self.conditioner.mean @ self.slope
        step = max(1, at_once(gaps.device) // (n * h))
        for start in range(0, len(gaps), step):
            some = gaps[start : start + step]
            beside = torch.cat([some, torch.ones_like(some[:, :1])], dim=1).to(waves.dtype)
            cosines = torch.matmul(beside, of_units).cos_()
            means = torch.matmul(cosines, scales).to(gaps.dtype) + torch.matmul(some, of_linear) + constant
            means = means.movedim(0, 1).reshape(len(some) * u, 2 * (p - 1), -1)
            ends = at_x[start : start + step].repeat_interleave(u, dim=0)
            nobody = at_nobody.expand_as(ends)
            added = contributions(means, nobody, ends, nobody, ranks.repeat(len(some), 1))
            yield slice(start, start + step), added.reshape(len(some), u, p + 1, -1)

    def _through_scores(self, matrices: DMatrices, gaps: Any) -> Any:
        """Values `(r, replications, players, o)` of the linear function."""
        scale = self.conditioner.scale
        tensor = torch.as_tensor(matrices.matrices, dtype=gaps.dtype, device=gaps.device)
        moved = torch.einsum("npcd,rd->rnpc", tensor, gaps / scale)
        return moved @ (self.slope * scale[:, None])
