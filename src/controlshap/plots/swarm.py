"""Where the dots of a swarm stand: the same picture for the same numbers."""

from __future__ import annotations

import numpy as np

from controlshap._types import FloatArray, IntArray

GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0


def offsets(positions: FloatArray, step: float, spacing: float, reach: float) -> FloatArray:
    """Sideways offsets of dots at some positions along a line, so that neighbours stand beside each other.

    Parameters
    ----------
    positions : ndarray of shape (n,)
    step : float
        Dots that are less than about this apart get different offsets.
    spacing : float
        Offset of neighbours.
    reach : float
        Largest offset; crowds are pressed together to keep it.
    """
    if len(positions) == 0:
        return np.zeros(0)
    cells: IntArray = (
        np.floor((positions - positions.min()) / step).astype(np.int64)
        if step > 0
        else np.zeros(len(positions), dtype=np.int64)
    )
    found = np.zeros(len(positions))
    order = np.lexsort((positions, cells))
    starts = np.flatnonzero(np.diff(cells[order], prepend=-1))
    for members in np.split(order, starts[1:]):
        turn = np.arange(len(members))
        side = np.where(turn % 2 == 1, (turn + 1) // 2, -(turn // 2))
        # in their own order they would draw arrowheads: multiples of the golden ratio mix them evenly
        mixed = np.argsort(turn * GOLDEN % 1.0, kind="stable")
        found[members[mixed]] = side * spacing
    widest = np.abs(found).max()
    return found * (reach / widest) if widest > reach else found
