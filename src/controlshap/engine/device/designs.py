"""Which explained rows have units of one design: those for which equally many background rows are taken all."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from controlshap._types import FloatArray, IntArray
from controlshap.data.players import Players, differs_from_x
from controlshap.engine.device.walks import DeviceData, RowGroup
from controlshap.statistics.visits import TakeAll, choose_take_all, seldom

#: Cells of explained rows beside background rows that are compared at once.
AT_ONCE = 2**24
#: Explained rows are compared with so many times as many background rows first as must tell of a player that is not
#: rare: all of these do of continuous columns, and rarely too few of eight times as many do of columns of a few values.
LOOKED_AT = (1, 8)


@dataclass(frozen=True)
class Designs:
    """The choice of background rows to be taken all (`choose_take_all`), made on the host before anything is sampled.

    Attributes
    ----------
    draws, at_draws : ndarrays of shape (M, c) and (M, o)
        The background, visited in cycles, and f there.
    players : Players
    n_units : int
        Units that each explained row will have.
    """

    draws: FloatArray
    at_draws: FloatArray
    players: Players
    n_units: int

    def choose(self, rows: FloatArray) -> list[TakeAll | None]:
        """The background rows that each explained row takes all."""
        # how far background rows are from each other does not depend on x, and which alone tell of a player rarely does
        everywhere = np.ones((len(self.draws), self.players.n_players), dtype=bool)
        chosen = [choose_take_all(-self.at_draws, everywhere, self.n_units)] * len(rows)
        enough = seldom(len(self.draws), self.n_units)
        maybe = np.arange(len(rows))
        for times in LOOKED_AT:
            some = self.draws[: math.ceil(times * enough)]
            maybe = maybe[(self._count_telling(rows[maybe], some) < enough).any(axis=-1)]
        n_telling = self._count_telling(rows[maybe], self.draws)
        for number in maybe[((n_telling > 0) & (n_telling < enough)).any(axis=-1)]:
            differs = differs_from_x(rows[number], self.draws, self.players)
            chosen[number] = choose_take_all(-self.at_draws, differs, self.n_units)
        return chosen

    def _count_telling(self, rows: FloatArray, draws: FloatArray) -> IntArray:
        """How many of some background rows tell of each player, `(r, players)`: those where it is not as in x."""
        counts = np.empty((len(rows), self.players.n_players), dtype=np.int64)
        step = max(1, AT_ONCE // draws.size)
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            counts[part] = differs_from_x(rows[part], draws, self.players).sum(axis=-2)
        return counts

    def share(
        self, common: DeviceData, group: RowGroup, rows: FloatArray
    ) -> Iterator[tuple[DeviceData, IntArray, RowGroup]]:
        """Numbers of the rows of a group that share a design, with data and group in which it is theirs.

        Background rows that are taken all are the first blocks of each row.
        """
        chosen = self.choose(rows)
        shapes = [None if one is None else (len(one.blocks), one.every, one.first_visits) for one in chosen]
        for shape in dict.fromkeys(shapes):
            numbers = np.array([number for number, own in enumerate(shapes) if own == shape])
            some = group if len(numbers) == len(group) else group[torch.as_tensor(numbers, device=group.x.device)]
            if shape is None:
                yield common, numbers, some
                continue
            n_taken, every, first = shape
            taken = np.zeros((len(numbers), len(self.draws)), dtype=bool)
            for own, number in zip(taken, numbers, strict=True):
                own[chosen[number].blocks] = True
            designed = replace(common, take_all=TakeAll(np.arange(n_taken), every, first))
            yield designed, numbers, some.taking(torch.as_tensor(taken, device=group.x.device))
