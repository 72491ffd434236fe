"""Which explained rows have units of one design: those for which equally many background rows are taken all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from controlshap._types import FloatArray, IntArray
from controlshap.data.players import Players, differs_from_x
from controlshap.engine.device.walks import DeviceData, RowGroup
from controlshap.statistics.visits import RULE_OF_THREE, TakeAll, choose_take_all

#: Cells of explained rows beside background rows that are compared at once.
AT_ONCE = 2**24


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
        n_rows, at_once = len(self.draws), max(1, AT_ONCE // self.draws.size)
        # how far background rows are from each other does not depend on x, and which alone tell of a player rarely does
        usual = choose_take_all(-self.at_draws, np.ones((n_rows, self.players.n_players), dtype=bool), self.n_units)
        chosen: list[TakeAll | None] = []
        for start in range(0, len(rows), at_once):
            differs = differs_from_x(rows[start : start + at_once], self.draws, self.players)
            n_telling = differs.sum(axis=-2)
            rare = ((n_telling > 0) & (n_telling * self.n_units < RULE_OF_THREE * n_rows)).any(axis=-1)
            chosen += [
                choose_take_all(-self.at_draws, own, self.n_units) if is_rare else usual
                for own, is_rare in zip(differs, rare, strict=True)
            ]
        return chosen

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
