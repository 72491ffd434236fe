"""Mean values of trees from counts of patterns: what a row costs hardly depends on the number of draws.

A draw's *pattern* at a leaf says which of the leaf's factors it satisfies, one bit each. Many draws have the same
pattern, and a leaf with k factors has at most 2^k of them, so draws are counted by pattern once (Nadel and Wettenstein,
WOODELF). The same holds for explained rows: what a leaf gives to the players depends on the row's pattern only, and is
computed once for each pattern that occurs. With q the row's pattern and b a draw's, the leaf is worth something where
`q | b` is full; `q & ~b` are the factors of x only, `~q` those of the draw only (`functions/trees.py` has the weights).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np

from controlshap._types import BoolArray, FloatArray, IntArray
from controlshap.data.players import Players
from controlshap.functions.box_games import BoxGames, factor_weights, find_factors
from controlshap.functions.tree_pairs import pairs_of_leaves
from controlshap.functions.trees import CHUNK_BYTES, FEW_ROWS, TreeFunction, run_starts

#: Factors of a leaf up to which patterns are counted in a table of 2^k places.
MOST_DENSE = 12
#: Factors of a leaf up to which pairs are counted in such a table: of a forest of full depth, all pairs of 20 rows take
#: 1.17, 1.02 and 1.47 s with 6, 9 and 12, and 1.29 by draws (4.6, 3.3 and 5.1 with 1,000 background rows).
MOST_PAIRED = 9
#: Factors of a leaf up to which a pattern, and the number of its leaf, are one integer.
MOST_FACTORS = 40


#: Leaves of this many numbers of factors go together: numpy's calls take longer than their work on few rows.
WIDTHS = 3
#: The number of a factor that everything satisfies, which fills up the others of a leaf.
ALWAYS = -1


class _LeafBlock(NamedTuple):
    """Leaves with about equally many factors, filled up to the same number, and the patterns of the draws there.

    Attributes
    ----------
    leaves : ndarray of shape (n,)
    factors, players : ndarray of shape (n, k)
    starts : ndarray of shape (n + 1,)
        Leaf i has the patterns `starts[i]` to `starts[i + 1] - 1`.
    bits, leaf : ndarray of shape (patterns,)
        And the leaf that has it.
    shares : ndarray of shape (patterns,)
        Part of the draws that has the pattern.
    first_draws : ndarray of shape (patterns + 1,)
        The pattern is that of the singled-out draws `draws[first_draws[i]]` to `draws[first_draws[i + 1] - 1]`.
    draws : ndarray of shape (leaves * singled-out draws,)
    """

    leaves: IntArray
    factors: IntArray
    players: IntArray
    starts: IntArray
    bits: IntArray
    leaf: IntArray
    shares: FloatArray
    first_draws: IntArray
    draws: IntArray


class _Pairs(NamedTuple):
    """A leaf's pattern of a row (`owner`, its number) and one of a draw that make the leaf worth something.

    `weights` `(n, k)` are what the leaf gives to the players of its factors, in parts of its value.
    """

    owner: IntArray
    pattern: IntArray
    weights: FloatArray


@final
class PatternGames:
    """The marginal games of a fixed set of draws, for many rows at once.

    Parameters
    ----------
    boxes : TreeFunction
    draws : ndarray of shape (n_draws, columns)
    players : Players
    some : ndarray of numbers of draws
        Those whose own values are computed, to show how values vary between draws.
    """

    def __init__(self, boxes: TreeFunction, draws: FloatArray, players: Players, some: IntArray) -> None:
        self.boxes, self.players, self.some = boxes, players, some
        self._order, self._first, leaf, player = find_factors(boxes, players)
        n_factors = np.bincount(leaf, minlength=boxes.n_leaves)
        self._gain, self._loss = factor_weights(int(n_factors.max(initial=0)))
        from_ = np.cumsum(n_factors) - n_factors
        self._draws = draws
        draws = boxes.round_inputs(draws, "draws")
        passed = _Passed(boxes, draws, self._order, self._first)
        self._blocks: list[_LeafBlock] = []
        sizes = -(-n_factors // WIDTHS) * WIDTHS
        for k in np.unique(sizes[sizes > 0]):
            same = np.flatnonzero(sizes == k)
            step = max(1, CHUNK_BYTES // (16 * len(draws)))
            for start in range(0, len(same), step):
                leaves = same[start : start + step]
                own = np.arange(k) < n_factors[leaves][:, None]
                factors = np.where(own, from_[leaves][:, None] + np.arange(k), ALWAYS)
                counted = _count_patterns(passed.patterns(factors), int(k), some)
                self._blocks.append(_LeafBlock(leaves, factors, np.where(own, player[factors], 0), *counted))

    @staticmethod
    def fits(boxes: TreeFunction, players: Players) -> bool:
        """Whether no leaf has more factors than a pattern has bits."""
        _, _, leaf, _ = find_factors(boxes, players)
        return int(np.bincount(leaf).max(initial=0)) <= MOST_FACTORS

    def explain(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Values `(rows, players, outputs)` of the mean game, and variances of those of the single draws."""
        passed = _Passed(self.boxes, self.boxes.round_inputs(rows, "rows"), self._order, self._first)
        n_outputs = self.boxes.values.shape[1]
        n, p, m = len(rows), self.players.n_players, len(self.some)
        means, of_draws = np.zeros((n * p, n_outputs)), np.zeros((n * m * p, n_outputs))
        if n <= FEW_ROWS:
            self._explain_few(passed, means, of_draws)
        else:
            self._explain_many(passed, n, means, of_draws)
        spread = of_draws.reshape(n, m, p, n_outputs)
        return means.reshape(n, p, n_outputs), spread.var(axis=1, ddof=1) if m > 1 else np.zeros((n, p, n_outputs))

    def interactions(self, rows: FloatArray) -> FloatArray:
        """Pairwise interactions `(rows, players, players, outputs)` of the mean game, 0 on the diagonal.

        Row by row, so that products of matrices have the same bits whatever rows are beside it. Leaves of more than
        `MOST_PAIRED` factors are counted by draws.
        """
        passed = _Passed(self.boxes, self.boxes.round_inputs(rows, "rows"), self._order, self._first)
        p, n_outputs = self.players.n_players, self.boxes.values.shape[1]
        totals = np.zeros((len(rows), p * p, n_outputs))
        for block in self._blocks:
            k = block.factors.shape[1]
            if k > MOST_PAIRED:
                continue
            patterns = passed.patterns(block.factors)
            step = max(1, CHUNK_BYTES // (8 << k))
            for start in range(0, len(block.leaves), step):
                stop = min(start + step, len(block.leaves))
                counted = slice(block.starts[start], block.starts[stop])
                shares = np.zeros((stop - start, 1 << k))
                shares[block.leaf[counted] - start, block.bits[counted]] = block.shares[counted]
                players, (first, second) = block.players[start:stop], np.triu_indices(k, 1)
                places = players[:, first] * p + players[:, second]
                for total, of_x in zip(totals, patterns[start:stop].T, strict=True):
                    for which, order, weights in pairs_of_leaves(shares, of_x, k):
                        self._add(total, places[which[:, None], order], weights, block.leaves[start + which])
        matrices = totals.reshape(len(rows), p, p, n_outputs)
        matrices += matrices.swapaxes(1, 2)
        if self._deep is not None:
            matrices += np.stack([self._deep.mean_interactions(row) for row in rows])
        return matrices

    @cached_property
    def _deep(self) -> BoxGames | None:
        """The games of the leaves of more than `MOST_PAIRED` factors."""
        deep = [block.leaves for block in self._blocks if block.factors.shape[1] > MOST_PAIRED]
        return BoxGames(self.boxes.select(np.concatenate(deep)), self._draws, self.players) if deep else None

    def _explain_few(self, passed: _Passed, means: FloatArray, of_draws: FloatArray) -> None:
        """Add values `(rows * players, outputs)` and `(rows * singled-out draws * players, outputs)`, row by row.

        In the order in which many rows are: what a row gets does not depend on the rows beside it, to the bit.
        """
        p, m = self.players.n_players, len(self.some)
        for block in self._blocks:
            for row, patterns in enumerate(passed.patterns(block.factors).T):
                of_x = patterns[block.leaf]
                alive = np.flatnonzero(_matters(of_x, block.bits, block.factors.shape[1]))
                if not len(alive):
                    continue
                leaf, weights = block.leaf[alive], self._weigh(of_x[alive], block.bits[alive], block.factors.shape[1])
                starts = run_starts(leaf)
                of_leaves = np.add.reduceat((weights * block.shares[alive]).T.copy(), starts, axis=0)
                found = leaf[starts]
                self._add(means, row * p + block.players[found], of_leaves, block.leaves[found])
                which, draw = _expand(block.first_draws[alive], block.first_draws[alive + 1])
                places = block.players[leaf[which]] + ((row * m + block.draws[draw]) * p)[:, None]
                self._add(of_draws, places, weights.T[which], block.leaves[leaf[which]])

    def _explain_many(self, passed: _Passed, n: int, means: FloatArray, of_draws: FloatArray) -> None:
        """The same for many rows, of which some have the same patterns."""
        p, m = self.players.n_players, len(self.some)
        for block in self._blocks:
            patterns = passed.patterns(block.factors)  # (leaves, rows)
            distinct, number = _number_patterns(patterns, block.factors.shape[1])
            pairs = self._join(block, distinct)
            owners = pairs.owner[run_starts(pairs.owner)]
            if not len(owners):
                continue
            starts = np.append(run_starts(pairs.owner), len(pairs.owner))
            weights = np.add.reduceat(pairs.weights * block.shares[pairs.pattern][:, None], starts[:-1], axis=0)
            place = np.full(len(distinct), -1)
            place[owners] = np.arange(len(owners))
            of_leaf = place[number].ravel()
            at = np.flatnonzero(of_leaf >= 0)
            found = of_leaf[at]
            leaf, row = np.divmod(at, n)
            self._add(means, row[:, None] * p + block.players[leaf], weights[found], block.leaves[leaf])
            singles = np.diff(block.first_draws)[pairs.pattern]
            per_owner = np.add.reduceat(singles, starts[:-1])
            for part in _cut(per_owner[found], CHUNK_BYTES // 512):
                # each entry's pairs, and each of these with the draws that have its pattern
                entry, pair = _expand(starts[found[part]], starts[found[part] + 1])
                pattern = pairs.pattern[pair]
                which, draw = _expand(block.first_draws[pattern], block.first_draws[pattern + 1])
                entry, pair = part[entry[which]], pair[which]
                game = row[entry] * m + block.draws[draw]
                places = game[:, None] * p + block.players[leaf[entry]]
                self._add(of_draws, places, pairs.weights[pair], block.leaves[leaf[entry]])

    def _add(self, totals: FloatArray, places: IntArray, weights: FloatArray, leaves: IntArray) -> None:
        """Add weights `(n, k)` times the leaves' values at places `(n, k)` of totals `(places, outputs)`."""
        for output, values in enumerate(self.boxes.values.T):
            of_leaves = weights * values[leaves][:, None]
            totals[:, output] += np.bincount(places.ravel(), of_leaves.ravel(), minlength=len(totals))

    def _join(self, block: _LeafBlock, distinct: IntArray) -> _Pairs:
        """Patterns of rows with those patterns of draws that make the leaf worth something."""
        k = block.factors.shape[1]
        leaf, pattern = distinct >> k, distinct & ((1 << k) - 1)
        sizes = np.diff(block.starts)[leaf]
        parts = []
        for part in _cut(sizes, CHUNK_BYTES // 256):
            owner, of_draw = _expand(block.starts[leaf[part]], block.starts[leaf[part] + 1])
            owner = part[owner]
            of_x, of_b = pattern[owner], block.bits[of_draw]
            alive = np.flatnonzero(_matters(of_x, of_b, k))
            parts.append(_Pairs(owner[alive], of_draw[alive], self._weigh(of_x[alive], of_b[alive], k).T.copy()))
        return _Pairs(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def _weigh(self, of_x: IntArray, of_b: IntArray, k: int) -> FloatArray:
        """Contributions of leaves of k factors to their players `(k, n)`, from patterns `(n,)` of x and of a draw."""
        only_x, only_b = of_x & ~of_b, of_x.dtype.type((1 << k) - 1) & ~of_x
        at = np.bitwise_count(only_x) * np.intp(len(self._gain)) + np.bitwise_count(only_b)
        bits = _bits(k, of_x.dtype)[:, None]
        weights: FloatArray = ((only_x & bits) != 0) * self._gain.ravel()[at]
        weights -= ((only_b & bits) != 0) * self._loss.ravel()[at]
        return weights


class _Passed:
    """Which rows satisfy which factors.

    Many rows are compared by their ranks in a column, which are small integers.
    """

    def __init__(self, boxes: TreeFunction, rows: FloatArray, order: IntArray, first: IntArray) -> None:
        self._columns, self._order = boxes.columns, order
        self._ends = np.append(first, len(order))
        self._accepted, self._missing = boxes.nan_accepted, np.isnan(rows)
        if len(rows) <= FEW_ROWS:
            # a value beyond a bound is at least the next number
            self._ranks, self._below, self._within = rows.T, boxes.beyond_lowers, boxes.beyond_uppers
            return
        kind = np.int16 if len(rows) < 2**15 else np.int32
        self._ranks = np.full(rows.T.shape, -1, dtype=kind)
        self._below, self._within = np.empty(len(boxes.columns), dtype=kind), np.empty(len(boxes.columns), dtype=kind)
        for column, sides in enumerate(boxes.sides_of_column):
            known = ~self._missing[:, column]
            ordered = np.sort(rows[known, column])
            self._ranks[column, known] = np.searchsorted(ordered, rows[known, column])
            # ranks are those of the first equal row, so that a bound is compared with the first row beyond it
            self._below[sides] = np.searchsorted(ordered, boxes.lowers[sides], side="right")
            self._within[sides] = np.searchsorted(ordered, boxes.uppers[sides], side="right")

    def patterns(self, factors: IntArray) -> IntArray:
        """Patterns `(leaves, rows)` from the numbers of the leaves' factors `(leaves, k)`."""
        kind = np.int32 if factors.shape[1] <= 30 else np.int64
        if len(self._missing) <= FEW_ROWS:
            satisfied = self._satisfies(factors.ravel()).reshape(*factors.shape, -1) | (factors == ALWAYS)[:, :, None]
            bits = _bits(factors.shape[1], np.dtype(kind))
            return np.asarray((satisfied * bits[:, None]).sum(axis=1, dtype=kind))
        patterns: IntArray = np.zeros((len(factors), len(self._missing)), dtype=kind)
        for slot, chosen in enumerate(factors.T):
            satisfied = self._satisfies(chosen) | (chosen == ALWAYS)[:, None]
            patterns |= satisfied * patterns.dtype.type(1 << slot)
        return patterns

    def _satisfies(self, factors: IntArray) -> BoolArray:
        """Whether rows satisfy factors, `(factors, rows)`: the AND of all their sides."""
        factors = np.maximum(factors, 0)
        sizes = self._ends[factors + 1] - self._ends[factors]
        if (sizes == 1).all():
            return self._inside(self._order[self._ends[factors]])
        starts = np.cumsum(sizes) - sizes
        sides = np.arange(sizes.sum()) + np.repeat(self._ends[factors] - starts, sizes)
        return np.logical_and.reduceat(self._inside(self._order[sides]), starts, axis=0)

    def _inside(self, sides: IntArray) -> BoolArray:
        ranks = self._ranks[self._columns[sides]]
        inside = (ranks >= self._below[sides][:, None]) & (ranks < self._within[sides][:, None])
        if self._missing.any():
            missing = self._missing.T[self._columns[sides]]
            inside = np.where(missing, self._accepted[sides][:, None], inside)
        return inside


def _bits(k: int, kind: np.dtype[Any]) -> IntArray:
    """1, 2, 4, ..., one bit for each of k factors."""
    return np.asarray(1 << np.arange(k), dtype=kind)


def _matters(of_x: IntArray, of_b: IntArray, k: int) -> BoolArray:
    """Whether leaves of k factors are worth something for patterns of x and a draw, and not to nobody."""
    full = (1 << k) - 1
    return np.asarray(((of_x | of_b) == full) & ((of_x & of_b) != full))


def _count_patterns(
    patterns: IntArray, k: int, some: IntArray
) -> tuple[IntArray, IntArray, IntArray, FloatArray, IntArray, IntArray]:
    """Starts, bits, leaves, shares and singled-out draws of `_LeafBlock` from the draws' patterns `(leaves, draws)`."""
    distinct, number = _number_patterns(patterns, k)
    counts = np.bincount(number.ravel(), minlength=len(distinct))
    of_some = number[:, some].ravel()
    draws = np.argsort(of_some, kind="stable") % len(some)
    first_draws = np.searchsorted(np.sort(of_some), np.arange(len(distinct) + 1))
    starts = np.searchsorted(distinct >> k, np.arange(len(patterns) + 1))
    bits: IntArray = (distinct & ((1 << k) - 1)).astype(patterns.dtype)
    return starts, bits, distinct >> k, counts / patterns.shape[1], first_draws, draws


def _number_patterns(patterns: IntArray, k: int) -> tuple[IntArray, IntArray]:
    """Distinct `leaf << k | pattern`, increasing, and the number among them of each of `(leaves, n)`."""
    keys = (np.arange(len(patterns), dtype=np.int64) << k)[:, None] | patterns
    if patterns.shape[1] == 1:
        return keys[:, 0], np.arange(len(keys))[:, None]
    if k > MOST_DENSE:
        distinct, number = np.unique(keys, return_inverse=True)
        return distinct, number.reshape(keys.shape)
    occurs = np.zeros(len(patterns) << k, dtype=bool)
    occurs[keys] = True
    table = np.cumsum(occurs, dtype=np.int32) - 1
    return np.flatnonzero(occurs), table[keys]


def _expand(starts: IntArray, stops: IntArray) -> tuple[IntArray, IntArray]:
    """All numbers of ranges, one range after the other: the range of each, and the number itself."""
    sizes = stops - starts
    which = np.repeat(np.arange(len(sizes)), sizes)
    return which, np.arange(len(which)) + np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)


def _cut(sizes: IntArray, most: int) -> Iterator[IntArray]:
    """Runs of numbers whose sizes add up to about `most`; one empty run where there are none."""
    which = np.cumsum(sizes) // max(most, 1)
    yield from np.split(np.arange(len(sizes)), np.flatnonzero(np.diff(which)) + 1)
