"""The order in which units visit blocks of background rows.

Blocks are visited in shuffled passes. The first pass contains some second visits, which alone show the variance within
a block, and some blocks are visited several times at once. `two_stage.py` derives the variance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from controlshap._types import BoolArray, FloatArray, IntArray

#: Below this sampling fraction, to which the part of the variance within blocks is proportional, that part is a tenth
#: at most, and not worth its visits (docs/mathematics.md, section 6).
FRESH_FRACTION = 0.1
#: After that, every fifth visit of the first pass is a second visit, to learn the part within blocks. It costs a fifth
#: of the pass, and M/5 of M rows show their own variance (docs/mathematics.md, section 6).
REVISIT_EVERY = 5
#: Second visits that are enough where the number of units is known in advance: with 8 degrees of freedom an interval is
#: 1.18 times as wide as with all, and with many rows they cost a twelfth of the pass (docs/mathematics.md, section 6).
ENOUGH_VISITS, ENOUGH_SHARE = 8, 1.0 / 12.0
#: First visits to a block of the take-all stratum: three contrasts, the fewest degrees of freedom of an interval.
FIRST_VISITS = 4
#: First visits where the block alone shows a player's effect: what one visit in four shows (in walks, a rule with three
#: other players does) is missed by 12 visits one time in 30, by 4 one time in 3.
TELLING_VISITS = 12
#: How many times as far as the others such a block is: of 1,000 normal distances from the median none is 4 times the
#: mean.
FAR = 4.0
#: Expected visits of which none comes one time in 20: exp(-3) = 0.05.
RULE_OF_THREE = 3.0
#: Part of the units that makes the errors of all others 10 % larger where it goes elsewhere: 1 / sqrt(1 - 1/6).
SMALL_PART = 1.0 / 6.0
NEVER = 2**62
TINY = 1e-300


@dataclass(frozen=True)
class UnitIds:
    """The numbers of some units, their blocks, and for each how many earlier visits its block had."""

    unit: IntArray
    block: IntArray
    rank: IntArray

    def __len__(self) -> int:
        return len(self.unit)

    def __getitem__(self, chosen: IntArray | slice) -> UnitIds:
        return UnitIds(self.unit[chosen], self.block[chosen], self.rank[chosen])

    @classmethod
    def concatenate(cls, parts: Sequence[UnitIds]) -> UnitIds:
        """All units of the parts, in order."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("unit", "block", "rank")))


def visit_sequence(
    n_blocks: int, n_units: int, rng: np.random.Generator | None, every: int = REVISIT_EVERY
) -> IntArray:
    """Blocks to visit, in order; a shorter sequence from an equal stream is a prefix of a longer one.

    The first pass visits every block once, in random order, with a second visit as every so-many-th one (they alone
    show the variance within a block); the second pass visits the blocks that had one visit; every later pass is a fresh
    shuffle. Without `rng` the order of the blocks is random already, and those with one visit more than others come
    first.
    """
    shuffle = np.arange if rng is None else rng.permutation
    order = shuffle(n_blocks)
    head = count_fresh(n_blocks)
    fresh = every - 1  # first visits between two second ones
    revisited = max(0, n_blocks - head) // fresh
    mixed = np.empty((revisited, every), dtype=order.dtype)
    mixed[:, :fresh] = order[head : head + revisited * fresh].reshape(revisited, fresh)
    mixed[:, fresh] = order[:revisited]
    passes = [order[:head], mixed.ravel(), order[head + revisited * fresh :], order[revisited:]]
    n_visits = sum(len(part) for part in passes)
    while n_visits < n_units:
        passes.append(shuffle(n_blocks))
        n_visits += n_blocks
    return np.concatenate(passes)[:n_units]


def count_fresh(n_blocks: int) -> int:
    """Visits before the first second one."""
    return max(1, math.ceil(FRESH_FRACTION * n_blocks))


def count_enough(n_blocks: int) -> int:
    """Number of second visits that are enough."""
    return max(ENOUGH_VISITS, math.ceil(ENOUGH_SHARE * n_blocks))


def revisit_every(n_blocks: int, n_units: int) -> int:
    """Interval between second visits in the first pass, if there will be so many units.

    The noise between blocks is proportional to the number that are left out, and ends with the pass. So there are no
    more second visits than are enough, unless units are left for them after the pass.
    """
    mixed, enough = n_units - count_fresh(n_blocks), count_enough(n_blocks)
    if n_units >= n_blocks + enough:
        return max(REVISIT_EVERY, math.ceil(mixed / (n_units - n_blocks)))
    return max(REVISIT_EVERY, mixed // enough)


@dataclass(frozen=True)
class TakeAll:
    """Blocks that are visited several times at once, since each alone shows a large part of a value.

    f(b) is known for all rows before anything is sampled. A row far from the others in f(x) - f(b) is one of a kind,
    and a sample without it shows nothing of its part (Cochran, section 5A.9).

    Attributes
    ----------
    blocks : ndarray of shape (k,)
    every : int
        Units from one visit to these blocks to the next, after the first visits.
    first_visits : int
        Number of first visits to each of them.
    """

    blocks: IntArray
    every: int
    first_visits: int = FIRST_VISITS

    @property
    def n_first(self) -> int:
        """Units up to which each of these blocks has had its first visits, in turns with others."""
        return 2 * self.first_visits * len(self.blocks)

    def visits(self, positions: IntArray) -> tuple[BoolArray, IntArray]:
        """Which units, at positions `(n,)` of the sequence, visit these blocks, and the block of each that does."""
        after = positions - self.n_first
        theirs = np.where(after < 0, positions % 2 == 0, after % self.every == 0)
        number = np.where(after < 0, positions // 2, after // self.every)
        return theirs, self.blocks[number[theirs] % len(self.blocks)]

    def sequence(self, n_blocks: int, n_units: int) -> IntArray:
        """Blocks to visit, in order, where the order of the blocks is random already; the others go in cycles."""
        theirs, taken = self.visits(np.arange(n_units))
        others, n_left = np.setdiff1d(np.arange(n_blocks), self.blocks), n_units - len(taken)
        passes = [others[visit_sequence(len(others), 2 * len(others), None)]]
        passes += [np.arange(n_blocks)] * max(0, -(-(n_left - len(passes[0])) // n_blocks))
        blocks = np.empty(n_units, dtype=np.int64)
        blocks[theirs], blocks[~theirs] = taken, np.concatenate(passes)[:n_left]
        return blocks


def share_of_visits(take_all: TakeAll | None, blocks: IntArray, n_blocks: int, n_units: int) -> float:
    """Share of the units that visit some blocks; those that are not taken all are visited equally often."""
    if take_all is None:
        return len(blocks) / n_blocks
    theirs, taken = take_all.visits(np.arange(n_units))
    others = len(np.setdiff1d(blocks, take_all.blocks)) / max(1, n_blocks - len(take_all.blocks))
    return float(np.isin(taken, blocks).sum() + others * (~theirs).sum()) / n_units


def choose_take_all(changes: FloatArray, differs: BoolArray, n_units: int) -> TakeAll | None:
    """Blocks to be taken all, if there will be so many units; None for none.

    `changes` (n_blocks, outputs) is f(x) - f(b), and `differs` (n_blocks, players) marks players that differ from x. A
    block is taken if its share of the distances from the median is worth the first visits and is FAR times the mean and
    the median share of the blocks that are left, as long as half of the units suffice. Blocks that alone show the
    effect of some player, and that a sample would visit too rarely (`seldom`), are taken if half of the units suffice
    for all of them, and have more first visits.
    """
    most = min(len(changes) - 2, n_units // (2 * FIRST_VISITS))
    if most <= 0:
        return None
    distance = np.abs(changes - np.median(changes, axis=0))
    total = distance.sum(axis=0)
    share = (distance / np.where(total > 0, total, 1.0)).max(axis=1, initial=0.0)
    order, k = np.argsort(-share, kind="stable"), 0
    while k < most and share[order[k]] * n_units >= FIRST_VISITS * share.sum() > 0:
        left = share[order[k:]]
        if left[0] <= FAR * max(float(np.median(left)), float(left.mean())):
            break
        k += 1
    n_telling = differs.sum(axis=0)
    rare = (n_telling > 0) & (n_telling < seldom(len(changes), n_units))
    if k == 0 and not rare.any():
        return None
    telling = np.setdiff1d(np.flatnonzero((differs & rare).any(axis=1)), order[:k])
    if 2 * FIRST_VISITS * (k + len(telling)) > n_units:
        telling = telling[:0]
    blocks = np.concatenate([order[:k], telling])[:most]
    if not len(blocks):
        return None
    visits = min(TELLING_VISITS, n_units // (2 * len(blocks))) if len(telling) else FIRST_VISITS
    first = visits * len(blocks)
    extra = min(n_units * share[blocks].sum() / max(share.sum(), TINY), n_units / 2) - first
    return TakeAll(blocks, max(2, int((n_units - 2 * first) / extra)) if extra >= 1.0 else NEVER, visits)


def seldom(n_blocks: int, n_units: int) -> float:
    """Number of blocks that alone show the effect of a player, below which a sample visits them too rarely.

    It would miss them more than one time in 20, or visit them fewer than TELLING_VISITS times where as many visits to
    each of them are a small part of the units.
    """
    cheap = min(TELLING_VISITS * n_blocks / n_units, SMALL_PART * n_units / TELLING_VISITS)
    return max(RULE_OF_THREE * n_blocks / n_units, cheap)


def block_rows(n_rows: int, n_draws: int) -> IntArray:
    """Rows of each block, shape (n_blocks, n_draws): every row is in equally many blocks.

    Blocks are windows of `n_draws` consecutive rows of a circle, which the caller shuffles, so that the mean over all
    blocks is the mean over all rows, also when `n_draws` does not divide `n_rows`.
    """
    n_draws = min(n_draws, n_rows)
    n_blocks = n_rows // math.gcd(n_rows, n_draws)
    starts = np.arange(n_blocks) * n_draws
    return (starts[:, None] + np.arange(n_draws)) % n_rows
