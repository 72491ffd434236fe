"""Whole trees of one depth: predictions and values next to those of the same trees as boxes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from controlshap.data.players import resolve_players
from controlshap.functions import level_trees
from controlshap.functions.level_trees import LevelTrees
from controlshap.functions.trees import Nodes

RNG = np.random.default_rng(2)
N_TREES, DEPTH, N_COLUMNS = 5, 5, 7
INNER, LEAVES = 2**DEPTH - 1, 2**DEPTH
TREES = LevelTrees(
    RNG.integers(0, N_COLUMNS, (N_TREES, INNER)),
    np.where(RNG.random((N_TREES, INNER)) < 0.1, np.inf, RNG.normal(size=(N_TREES, INNER))),
    RNG.normal(size=(N_TREES, LEAVES)),
    0.75,
    N_COLUMNS,
)
X, DRAWS = RNG.normal(size=N_COLUMNS), RNG.normal(size=(60, N_COLUMNS))


def boxes():
    children, none = 2 * np.arange(INNER) + 1, np.full(LEAVES, -1)
    nodes = [
        Nodes(
            np.concatenate([children, none]),
            np.concatenate([children + 1, none]),
            np.concatenate([columns, np.zeros(LEAVES, dtype=np.int64)]),
            np.concatenate([thresholds, np.zeros(LEAVES)]),
            np.zeros(INNER + LEAVES, dtype=bool),
            np.concatenate([np.zeros(INNER), values])[:, None],
            np.zeros(1, dtype=np.int64),
        )
        for columns, thresholds, values in zip(TREES.columns, TREES.thresholds, TREES.values, strict=True)
    ]
    return Nodes.concatenate(nodes).to_function(N_COLUMNS, np.array([TREES.offset]), float32=False)


def test_rows_fall_into_the_same_leaves():
    rows = np.concatenate([DRAWS, X[None]])
    rows[0, 2] = np.nan
    assert_allclose(TREES.predict(rows), boxes().predict(rows), rtol=1e-12)


@pytest.mark.parametrize("groups", [None, {"first": [0, 1, 4], "second": [2, 3]}], ids=str)
@pytest.mark.parametrize("at_once", [None, 1000])
def test_values_are_those_of_the_boxes(groups, at_once, monkeypatch):
    if at_once is not None:  # a few draws at a time
        monkeypatch.setattr(level_trees, "MOST_PATHS", at_once)
    players = resolve_players(groups, [f"c{j}" for j in range(N_COLUMNS)])
    expected = boxes().draw_values(X, DRAWS, players)
    assert np.abs(expected).max() > 0.1
    assert_allclose(TREES.draw_values(X, DRAWS, players), expected, atol=1e-12)
    assert_allclose(TREES.draw_values(X, DRAWS, players).sum(axis=1), TREES.predict(X[None]) - TREES.predict(DRAWS))
