"""What a sampler keeps of many units: batches of their terms, and a part of what the model said."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from controlshap._types import FloatArray, IntArray
from controlshap.estimators.base import Estimator
from controlshap.sampling.visits import Replaced, Visits
from controlshap.statistics.batched_terms import Merged, MergedMeans, MergedSquares
from controlshap.statistics.batches import Batches, Numbers
from controlshap.statistics.terms import LeastSquaresTerms, Terms

#: Evaluations that are kept for fits, at most: twice what any fit sees.
MOST_TRACED = 100_000
#: Units of which evaluations are kept, at least.
FEWEST_TRACED = 64


@dataclass
class Order:
    """Units in order, with their background rows where these are finite.

    Attributes
    ----------
    blocks : ndarray of shape (n_blocks, draws) or None
        Rows of each block that units visit.
    replaced : Replaced or None
        Where rows are drawn with replacement instead.
    """

    visits: Visits
    blocks: IntArray | None = None
    replaced: Replaced | None = None

    def take(self, n_units: int) -> tuple[Numbers, IntArray | None]:
        """The next units, and their rows `(units, draws)`."""
        numbers = self.visits.take(n_units)
        if self.replaced is not None:
            return numbers, self.replaced.take(n_units)
        return numbers, None if self.blocks is None else self.blocks[numbers.block]


@dataclass
class Traced:
    """What the model said of units evenly spread.

    Attributes
    ----------
    stride : int
        Every so many-th unit is kept.
    parts : list
        Units, their designs, and what the model said `(units, k, draws, outputs)`.
    """

    stride: int = 1
    parts: list[tuple[Numbers, Any, FloatArray]] = field(default_factory=list)

    def add(self, numbers: Numbers, design: Any, values: FloatArray) -> None:
        """The next units."""
        self.parts.append(_every(self.stride, numbers, design, values))
        most = max(FEWEST_TRACED, MOST_TRACED // int(np.prod(values.shape[1:3])))
        while sum(len(one[0]) for one in self.parts) > most:
            self.stride *= 2
            self.parts = [_every(self.stride, *one) for one in self.parts]

    @property
    def kept(self) -> tuple[Numbers, Any, FloatArray]:
        """All that is kept, in one."""
        if len(self.parts) > 1:
            unit, block, rank = (
                np.concatenate([getattr(one[0], name) for one in self.parts]) for name in ("unit", "block", "rank")
            )
            design, values = (np.concatenate([one[k] for one in self.parts]) for k in (1, 2))
            self.parts = [(Numbers(unit, block, rank), design, values)]
        return self.parts[0]


@dataclass
class Merging:
    """Terms in batches, and evaluations of units evenly spread.

    Attributes
    ----------
    order : Order
        Where the next units come from.
    fewest : int
        Units before the first are merged: a regression is linearised at their solution.
    """

    order: Order
    estimator: Estimator
    fewest: int
    waiting: list[tuple[Numbers, Terms]] = field(default_factory=list)
    traced: Traced = field(default_factory=Traced)
    _merged: Merged | None = None

    def take_over(self, parts: list[Terms], traced: list[tuple[Any, FloatArray]], n_units: int) -> None:
        """Begin with units that were not merged so far."""
        if n_units == 0:
            return
        numbers = self.order.take(n_units)[0]
        self.waiting.append((numbers, self.estimator.gather(parts)))
        if traced:
            design, values = (np.concatenate([one[k] for one in traced]) for k in (0, 1))
            self.traced.add(numbers, design, values)
        self._merge()

    def add(self, numbers: Numbers, terms: Terms, said: tuple[Any, FloatArray] | None) -> None:
        """Merge the next units."""
        self.waiting.append((numbers, terms))
        if said is not None:
            self.traced.add(numbers, *said)
        self._merge()

    @property
    def merged(self) -> Merged:
        """The batches."""
        if self._merged is None:  # pragma: no cover - there is an estimate after `fewest` units only
            raise RuntimeError("no units were merged yet")
        return self._merged

    def _merge(self) -> None:
        if self._merged is None:
            if sum(len(numbers) for numbers, _ in self.waiting) < self.fewest:
                return
            self._merged = self._first()
        for numbers, terms in self.waiting:
            self._merged.add(numbers, terms)
        self.waiting = []

    def _first(self) -> Merged:
        batches = Batches(self.order.visits.n_blocks)
        if not self.estimator.is_least_squares:
            return MergedMeans(batches)
        terms = self.estimator.gather([terms for _, terms in self.waiting])
        if not isinstance(terms, LeastSquaresTerms):
            raise TypeError(f"{type(terms).__name__} are no rows of a regression")
        # of a fixed number of units, however they were cut
        return MergedSquares.start_from(batches, terms.first(self.fewest))


def _every(stride: int, numbers: Numbers, design: Any, values: FloatArray) -> tuple[Numbers, Any, FloatArray]:
    """Units whose number is a multiple of `stride`; copies, as views would keep all of them."""
    chosen = np.flatnonzero(numbers.unit % stride == 0)
    return numbers[chosen], design[chosen], values[chosen]
