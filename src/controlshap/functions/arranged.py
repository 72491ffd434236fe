"""Values of logistic functions under an arrangement of the players (an order or a hierarchy), in closed form.

For one frequency w the logistic function is a product over players (see `logistic`), and so is it over the children of
every node of the arrangement. With half gaps D of the children's scores, and s the score half way between x and b, a
player's value is

    2 cos(w (s + shift)) sin(w d_j) prod over its ancestors, free ones: integral over t of the product over the other
                                    children of cos(w D) + i (2t - 1) sin(w D)

and an ordered node, whose earlier children are at x and whose later ones at b, adds the D of the earlier less those of
the later ones to the shift.
"""

from __future__ import annotations

import numpy as np

from controlshap._types import AnyArray, FloatArray
from controlshap.data.arrangement import Arrangement, Node, members_of
from controlshap.functions.logistic import BATCH, enough_nodes, integrals, logistic_nodes, powers, score_bound


def arranged_logistic_values(
    intercept: float, at_x: FloatArray, at_draws: FloatArray, arrangement: Arrangement, precision: float
) -> FloatArray:
    """Values `(draws, players)`; arguments as for `logistic_values`."""
    frequencies, weights = logistic_nodes(score_bound(intercept, at_x, at_draws), precision)
    values = np.empty(at_draws.shape)
    step = max(1, BATCH // (len(frequencies) * max(1, len(at_x))))
    for start in range(0, len(at_draws), step):
        part = at_draws[start : start + step].T  # (p, draws)
        gaps = 0.5 * (at_x[:, None] - part)
        middle = intercept + 0.5 * (at_x.sum() + part.sum(axis=0))
        values[start : start + step] = _of_draws(frequencies, weights, gaps, middle, arrangement.root).T
    return values


def _of_draws(
    frequencies: FloatArray, weights: FloatArray, gaps: FloatArray, middle: FloatArray, root: Node
) -> FloatArray:
    """Values `(players, draws)` from half gaps `(players, draws)` and the scores half way `(draws,)`."""
    values = np.empty(gaps.shape)

    def visit(node: Node, factor: AnyArray, shift: FloatArray) -> None:
        own = np.stack([gaps[members_of(child)].sum(axis=0) for child in node.children])
        turns = None if node.ordered else powers(frequencies, own)
        others = None if turns is None else integrals(turns, enough_nodes(len(turns)))
        ahead = np.cumsum(own, axis=0)
        for number, child in enumerate(node.children):
            inner = factor if others is None else factor * others[number]
            moved = shift + 2.0 * ahead[number] - own[number] - ahead[-1] if node.ordered else shift
            if isinstance(child, Node):
                visit(child, inner, moved)
                continue
            waves = np.cos(frequencies[:, None] * (middle + moved))
            sines = np.sin(frequencies[:, None] * own[number]) if turns is None else turns[number].imag
            values[child] = 2.0 * np.einsum("m,mu,mu,mu->u", weights, waves, sines, inner)

    visit(root, np.ones((len(frequencies), len(middle))), np.zeros(len(middle)))
    return values
