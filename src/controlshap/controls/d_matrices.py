"""The matrices D_j of Theorem 2: `phi_j = J^T D_j (x - mu)` for a linear function of rows that are affine in x - b.

Along a permutation, revealing player j moves the row by a matrix times x - b; D_j is its mean over permutations. Under
a Gaussian the column at position k moves it by L[:,k] (L^-1)[k,:] (x - b), L being the Cholesky factor of the permuted
correlation: a rank-one term for every column from one factor, added up over the columns of a group (which stand
together). The matrices do not depend on x, sum to the identity, and are exact by enumeration for few players.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controlshap._random import EXPLAINER_ENTROPY, Purpose, stream
from controlshap._types import FloatArray
from controlshap.estimators.enumeration import coalition_table
from controlshap.estimators.permutation import reverse_permutations, sample_permutations
from controlshap.statistics.control_variate import KnownValues
from controlshap.statistics.covariance_root import CovarianceRoot
from controlshap.values.base import Imputer

#: Up to this many players all coalitions are enumerated.
EXACT_PLAYERS = 10
#: Replications kept to know the simulation error, within this many bytes.
MOST_REPLICATIONS, FEWEST_REPLICATIONS, REPLICATION_BYTES = 20, 4, 128 * 2**20
#: Doubles in one batch of factors, which stays in the processor's cache.
BATCH_DOUBLES = 100_000
#: Permutations in a batch, however many doubles that is.
FEWEST_AT_ONCE = 64


@dataclass(frozen=True)
class DMatrices:
    """D_j in standardised columns.

    Attributes
    ----------
    matrices : ndarray of shape (replications, players, columns, columns)
        Independent replications, one when exact.
    n_permutations : int
        Permutations behind all replications together, 0 when exact.
    """

    matrices: FloatArray
    n_permutations: int

    @property
    def is_exact(self) -> bool:
        """Whether the matrices carry no error."""
        return self.n_permutations == 0

    def known_values(self, gradient: FloatArray, gap: FloatArray, at_x: FloatArray) -> KnownValues:
        """Values and base `(players + 1, outputs, 1)` of the linear function with this standardised gradient."""
        by_replication = (self.matrices @ gap) @ gradient.T
        values = by_replication.mean(axis=0)
        base = at_x - gradient @ gap
        full = np.concatenate([values, base[None]])[..., None]
        n = len(by_replication)
        if self.is_exact:
            return KnownValues.exact(full)
        rows = np.zeros((n, *full.shape))
        rows[:, :-1, :, 0] = (by_replication - values) / np.sqrt(n * (n - 1))
        root = CovarianceRoot(rows, np.zeros(n, dtype=np.int64), np.array([n - 1.0]))
        return KnownValues(full, root, np.zeros((0, 1)), shared=True)


def d_matrices(imputer: Imputer, n_permutations: int, seed: int = 0) -> DMatrices:
    """D matrices, exact for few players, else simulated with reversed pairs of permutations."""
    arrangement = imputer.players.arrangement
    few = imputer.players.n_players <= EXACT_PLAYERS
    if few if arrangement is None else arrangement.n_places <= EXACT_PLAYERS * 2 ** (EXACT_PLAYERS - 1):
        return DMatrices(_enumerate(imputer)[None], 0)
    p, c = imputer.players.n_players, imputer.players.n_columns
    affordable = REPLICATION_BYTES // (8 * p * c * c)
    n_replications = int(np.clip(affordable, FEWEST_REPLICATIONS, MOST_REPLICATIONS))
    pairs = max(1, -(-n_permutations // (2 * n_replications)))
    matrices = np.zeros((n_replications, p, c, c))
    for number in range(n_replications):
        rng = stream(EXPLAINER_ENTROPY + seed, Purpose.D_MATRICES, number)
        _simulate(imputer, pairs, rng, matrices[number])
    return DMatrices(matrices, 2 * pairs * n_replications)


def _simulate(imputer: Imputer, n_pairs: int, rng: np.random.Generator, total: FloatArray | None = None) -> FloatArray:
    """The mean over some permutations `(players, columns, columns)`, added to `total` (zeros) where that is given."""
    players = imputer.players
    c = players.n_columns
    total = np.zeros((players.n_players, c, c)) if total is None else total
    forward = sample_permutations(players.n_players, n_pairs, rng, players.arrangement)
    permutations = np.concatenate([forward, reverse_permutations(forward, players.arrangement)])
    # Not few at once: every batch goes through all of `total`.
    step = max(FEWEST_AT_ONCE, BATCH_DOUBLES // (c * c))
    for start in range(0, len(permutations), step):
        imputer.add_walk_maps(permutations[start : start + step], total)
    total /= len(permutations)
    return total


def _enumerate(imputer: Imputer) -> FloatArray:
    players = imputer.players
    p, c = players.n_players, players.n_columns
    coalitions, weights = coalition_table(p, players.arrangement)
    scale = imputer.scale
    # With x = 0 and b = -scale e_i the rows are b + scale A_S e_i: column i of A_S.
    draws = -np.diag(scale)
    total = np.zeros((p, c, c))
    step = max(1, BATCH_DOUBLES // (c * c))
    for start in range(0, len(coalitions), step):
        part = coalitions[start : start + step]
        rows = imputer.coalition_rows(np.zeros(c), part[None], draws[None])[0]  # (n, i, c)
        maps = (rows - draws) / scale
        total += np.tensordot(weights[:, start : start + step], maps, axes=1).transpose(0, 2, 1)
    return total
