"""Trees of a fitted model, as the reader of a library returns them: verified against its predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from controlshap._types import FloatArray
from controlshap.functions.trees import Nodes, TreeFunction

#: Nodes of one tree beyond which splits by categories are not written as splits at cuts.
MOST_COPIES = 5_000


def split_by_cuts(tree: Nodes, sides: Mapping[int, tuple[Sequence[float], Sequence[bool]]]) -> Nodes | None:
    """A tree whose splits by sets of categories are chains of splits at cuts; None where it grows too much.

    `sides[node]` are increasing cuts, and whether the values at most each of them (and above the cut before) go left;
    values above the last cut, and NaN, go right. What is below a set is copied for every run of its categories.
    """
    rows: list[tuple[int, int, int, float, bool, int]] = []  # left, right, column, threshold, NaN goes left, old node

    def copy(node: int) -> int:
        number = len(rows)
        rows.append((-1, -1, -1, 0.0, False, node))
        if tree.left[node] < 0 or len(rows) > MOST_COPIES:
            return number
        column, children = int(tree.columns[node]), (int(tree.right[node]), int(tree.left[node]))
        if node not in sides:
            below, above = copy(children[1]), copy(children[0])
            rows[number] = (below, above, column, float(tree.thresholds[node]), bool(tree.nan_left[node]), node)
            return number
        cuts, to_left = sides[node]
        here = number
        for place, (cut, goes_left) in enumerate(zip(cuts, to_left, strict=True)):
            below = copy(children[goes_left])
            last = place == len(cuts) - 1
            above = copy(children[0]) if last else len(rows)
            if not last:
                rows.append((-1, -1, -1, 0.0, False, node))
            rows[here] = (below, above, column, cut, False, node)
            here = above
        return number

    copy(int(tree.roots[0]))
    if len(rows) > MOST_COPIES:
        return None
    left, right, columns, thresholds, nan_left, old = (np.array(part) for part in zip(*rows, strict=True))
    return Nodes(left, right, columns, thresholds, nan_left, tree.values[old], roots=np.zeros(1, dtype=np.int64))


@final
@dataclass(frozen=True)
class Reading:
    """The trees of a fitted model; they are trusted once they have reproduced `predict`.

    Attributes
    ----------
    trees : list of Nodes
    predict : callable
        The model's own predictions, from rows.
    n_columns : int
    float32 : bool
        Whether inputs are rounded to single precision.
    offset : ndarray of shape (outputs,), or None
        Added to the leaves; None where it is to be derived from the predictions.
    tolerance : float
        Largest relative error of a prediction in the library's own arithmetic.
    """

    trees: Sequence[Nodes]
    predict: Callable[[FloatArray], Any]
    n_columns: int
    float32: bool
    offset: FloatArray | None
    tolerance: float = 1e-6

    def verify(self, n_probes: int) -> TreeFunction | None:
        """The function of the trees; None where it does not predict, on so many rows, as the model does."""
        nodes = Nodes.concatenate(self.trees)
        function = nodes.to_function(self.n_columns, np.zeros(nodes.values.shape[1]), float32=self.float32)

        def compare(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
            """Predictions of the model `(n, outputs)`, and their differences from the sum of the leaves."""
            expected = np.asarray(self.predict(rows), dtype=float).reshape(len(rows), -1)
            return expected, expected - function.predict(rows).reshape(expected.shape)

        rows = _probe_rows(nodes, self.n_columns, n_probes)
        expected, gaps = compare(rows)
        offset = gaps.mean(axis=0) if self.offset is None else self.offset
        limit = self.tolerance * (np.abs(expected).max() + np.abs(offset).max())
        if not (np.abs(gaps - offset) <= limit).all():
            return None
        rng = np.random.default_rng(1)
        try:
            _, gaps = compare(np.where(rng.random(rows.shape) < 0.3, np.nan, rows))
        except ValueError:
            pass  # a model that refuses NaN need not be reproduced there
        else:
            if not (np.abs(gaps - offset) <= limit).all():
                return None
        return replace(function, offset=offset)


def _probe_rows(nodes: Nodes, n_columns: int, n_probes: int) -> FloatArray:
    """Rows of values at thresholds, next to them, between and beyond them, in random combinations."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n_probes, n_columns))
    inner = nodes.left >= 0
    for column in range(n_columns):
        cuts = np.unique(nodes.thresholds[inner & (nodes.columns == column)])
        cuts = cuts[np.abs(cuts) < np.finfo(np.float32).max / 2]  # some libraries write infinity so
        if not len(cuts):
            continue
        single = cuts.astype(np.float32)
        candidates = (
            cuts,
            np.nextafter(cuts, np.inf),
            single.astype(float),
            np.nextafter(single, np.float32(np.inf)).astype(float),
            (cuts[1:] + cuts[:-1]) / 2,
            np.array([cuts[0] - 1 - abs(cuts[0]), 0.0, cuts[-1] + 1 + abs(cuts[-1])]),
        )
        every = np.concatenate(candidates)
        # lightgbm cuts at +-1e-35 around 0, and what it does on the cut itself no data will ever show
        rows[:, column] = rng.choice(every[(every == 0) | (np.abs(every) > 1e-30)], size=n_probes)
    return rows
