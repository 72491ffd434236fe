"""Absent columns follow what is revealed as causes are followed by effects (Heskes, Sijben, Bucur and Claassen 2020).

Columns stand in components, in the order of causes. Revealing a column is an intervention: it changes later components,
none before. Within a component the others follow it as well, unless what they share comes from a common cause that was
not measured (confounded). With a Gaussian and a draw b, component by component,

    row_A = b_A + Sigma_AD Sigma_DD^-1 (row - b)_D

for the absent columns A of the component, with D all columns of earlier components and, unless it is confounded, its
own revealed ones. So rows are affine in x - b, and the D matrices of Theorem 2 exist. One component that is not
confounded is `GaussianConditional`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from controlshap._checks import is_real, show
from controlshap._errors import InvalidArgumentError
from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.data.orders import read_order
from controlshap.data.players import Players
from controlshap.values.base import Imputer, ValueFunction
from controlshap.values.gaussian import GaussianConditional, GaussianImputer

#: Doubles of one batch of matrices.
BATCH_DOUBLES = 2**17


@final
@dataclass(frozen=True)
class Causal(ValueFunction):
    """Intervene on the revealed columns, in a Gaussian fitted to the background and a causal order that is known.

    Parameters
    ----------
    components : list of lists
        Columns or groups by name or position, causes first: `[["age", "sex"], ["education"], ["income"]]`. Columns
        whose order is not known share a component.
    confounded : bool or list of bool
        For each component, or all: whether its columns are related by common causes that were not measured (True), or
        by causing each other, in whatever direction, or by selection (False).
    min_eigenvalue : float
        As for `GaussianConditional`.
    """

    components: Sequence[Sequence[str | int]]
    confounded: bool | Sequence[bool] = False
    min_eigenvalue: float = 1e-4

    def __post_init__(self) -> None:
        flags = [self.confounded] if isinstance(self.confounded, (bool, np.bool_)) else self.confounded
        if isinstance(flags, str) or not isinstance(flags, Sequence):
            flags = [None]
        if not all(isinstance(flag, (bool, np.bool_)) for flag in flags):
            raise InvalidArgumentError(
                f"`confounded` must be True or False, or a list of these, one for each component; got "
                f"{show(self.confounded)}."
            )
        if flags is self.confounded and isinstance(self.components, Sequence) and len(flags) != len(self.components):
            raise InvalidArgumentError(
                f"`confounded` has {len(flags)} entries for {len(self.components)} components; give one for each."
            )
        if not is_real(self.min_eigenvalue) or not 0 < self.min_eigenvalue < 1:
            raise InvalidArgumentError(
                f"`min_eigenvalue` must lie between 0 and 1; got {show(self.min_eigenvalue)}. The default is 1e-4."
            )

    def bind(self, background: FloatArray, players: Players, feature_names: tuple[str, ...]) -> CausalImputer:
        """Find the columns of the components, and estimate the Gaussian."""
        components = read_order(self.components, players, feature_names, "components")
        columns = tuple(np.concatenate([players.columns[player] for player in members]) for members in components)
        flags = self.confounded
        confounded = (flags,) * len(columns) if isinstance(flags, (bool, np.bool_)) else tuple(flags)
        gaussian = GaussianConditional(min_eigenvalue=self.min_eigenvalue).bind(background, players, feature_names)
        return CausalImputer(players, gaussian, columns, tuple(bool(flag) for flag in confounded))


@final
@dataclass(frozen=True)
class CausalImputer(Imputer):
    """Rows after interventions.

    Attributes
    ----------
    gaussian : GaussianImputer
        What nothing was done to.
    components : tuple of ndarray
        Columns of each component.
    confounded : tuple of bool
    """

    players: Players
    gaussian: GaussianImputer
    components: tuple[IntArray, ...]
    confounded: tuple[bool, ...]

    linear_in_x = True
    is_refitted = True

    @property
    def center(self) -> FloatArray:
        """Mean of the Gaussian."""
        return self.gaussian.center

    @property
    def scale(self) -> FloatArray:
        """Standard deviations of the columns."""
        return self.gaussian.scale

    def sample(self, n_rows: int, rng: np.random.Generator) -> FloatArray:
        """Draws from the Gaussian."""
        return self.gaussian.sample(n_rows, rng)

    def coalition_rows(self, x: FloatArray, coalitions: BoolArray, draws: FloatArray) -> FloatArray:
        """Moved by one matrix for each coalition, or each by itself where few coalitions come again."""
        u, k, _ = coalitions.shape
        n_draws, c = draws.shape[1:]
        revealed = self.players.expand(coalitions).reshape(u * k, c)
        gaps = np.repeat((x - draws) / self.scale, k, axis=0)  # (u k, d, c)
        packed = np.ascontiguousarray(np.packbits(revealed, axis=1))
        keys = packed.view(np.dtype((np.void, packed.shape[1])))[:, 0]  # much faster to sort than rows
        _, first, which = np.unique(keys, return_index=True, return_inverse=True)
        masks = revealed[first]
        if c * len(masks) < len(revealed) * n_draws:
            maps = self._moves(masks, np.broadcast_to(np.eye(c), (len(masks), c, c)))  # of the unit vectors
            moved: FloatArray = np.empty(gaps.shape)
            order = np.argsort(which, kind="stable")
            ends = np.cumsum(np.bincount(which, minlength=len(masks)))
            for number, members in enumerate(np.split(order, ends[:-1])):
                moved[members] = gaps[members] @ maps[number]
        else:
            moved = self._moves(revealed, gaps)
        rows = moved.reshape(u, k, n_draws, c) * self.scale + draws[:, None]
        np.copyto(rows, x, where=revealed.reshape(u, k, 1, c))  # to the bit
        return rows

    def _moves(self, revealed: BoolArray, gaps: FloatArray) -> FloatArray:
        """`A_S gap` `(n, d, c)` in standard deviations, for masks `(n, c)` and gaps `(n, d, c)`."""
        moved = np.empty(gaps.shape)
        step = max(1, BATCH_DOUBLES // (gaps.shape[2] * (gaps.shape[1] + gaps.shape[2])))
        for start in range(0, len(gaps), step):
            part = slice(start, start + step)
            moved[part] = self._moves_of(revealed[part], gaps[part])
        return moved

    def _moves_of(self, revealed: BoolArray, gaps: FloatArray) -> FloatArray:
        correlation = self.gaussian.moments.correlation
        moved = np.where(revealed[:, None], gaps, 0.0)
        earlier = np.zeros(gaps.shape[2], dtype=bool)
        for columns, confounded in zip(self.components, self.confounded, strict=True):
            own = np.zeros_like(earlier)
            own[columns] = True
            given = np.broadcast_to(earlier, revealed.shape) if confounded else earlier | (own & revealed)
            if given.any():
                both = given[:, :, None] & given[:, None, :]
                blocks = np.where(both, correlation, np.eye(len(own)))
                solved = np.linalg.solve(blocks, np.where(given[:, None], moved, 0.0).swapaxes(1, 2)).swapaxes(1, 2)
                np.copyto(moved, solved @ correlation, where=(own & ~revealed)[:, None])
            earlier = earlier | own
        return moved

    def workspace(self, *, walk: bool) -> int:
        """A few matrices for each coalition."""
        c = self.players.n_columns
        return 3 * c * c * (self.players.n_players if walk else 1)
