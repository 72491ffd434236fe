"""Shapley values of boxes against enumeration of the boxes themselves, draw by draw."""

import numpy as np
import pytest

from controlshap import InvalidArgumentError
from controlshap.data.players import resolve_players
from controlshap.functions import box_games, trees
from controlshap.functions.trees import Nodes, TreeFunction, count_bits
from controlshap.testing import marginal_game, shapley_by_definition

N_COLUMNS = 6
GROUPS = {
    "alone": None,
    "pairs": [[0, 3], [1, 2]],
    "one block": [[1, 2, 4, 5]],
    "everybody": [[0, 1, 2, 3, 4, 5]],
}


def make_players(groups):
    return resolve_players(groups, [f"c{i}" for i in range(N_COLUMNS)])


def random_boxes(seed, n_leaves=30, n_outputs=2, float32=False):
    """Boxes that need not come from trees, with values on a grid, so that bounds are met exactly."""
    rng = np.random.default_rng(seed)
    sides = [np.sort(rng.choice(N_COLUMNS, rng.integers(0, N_COLUMNS + 1), replace=False)) for _ in range(n_leaves)]
    columns = np.concatenate(sides)
    lowers = rng.integers(-3, 2, len(columns)).astype(float)
    uppers = lowers + rng.integers(1, 4, len(columns))
    lowers[rng.random(len(columns)) < 0.3] = -np.inf
    uppers[rng.random(len(columns)) < 0.3] = np.inf
    return TreeFunction(
        values=rng.normal(size=(n_leaves, n_outputs)),
        starts=np.cumsum([0, *(len(s) for s in sides)]),
        columns=columns,
        lowers=lowers,
        uppers=uppers,
        nan_accepted=rng.random(len(columns)) < 0.5,
        offset=rng.normal(size=n_outputs),
        n_columns=N_COLUMNS,
        float32=float32,
    )


def predict_slowly(boxes, rows):
    """The definition of a box, one comparison at a time."""
    result = np.tile(boxes.offset, (len(rows), 1))
    for i, row in enumerate(rows):
        for leaf in range(boxes.n_leaves):
            for side in range(boxes.starts[leaf], boxes.starts[leaf + 1]):
                value = row[boxes.columns[side]]
                inside = boxes.nan_accepted[side] if np.isnan(value) else value <= boxes.uppers[side]
                if not inside or value <= boxes.lowers[side] > -np.inf:
                    break
            else:
                result[i] += boxes.values[leaf]
    return result


def make_rows(seed, n_rows, missing=0.0):
    rng = np.random.default_rng(seed)
    rows = rng.integers(-3, 4, (n_rows, N_COLUMNS)) + rng.choice([0.0, 0.5], (n_rows, N_COLUMNS))
    rows[rng.random(rows.shape) < missing] = np.nan
    return rows


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("groups", GROUPS.values(), ids=GROUPS)
def test_values_of_each_draw_are_those_of_the_definition(groups, missing):
    players = make_players(groups)
    for seed in range(3):
        boxes, draws, x = random_boxes(seed), make_rows(seed, 7, missing), make_rows(seed + 9, 1, missing)[0]
        draws[3] = x
        values = boxes.draw_values(x, draws, players)
        assert values.shape == (7, players.n_players, 2)
        for draw, found in zip(draws, values, strict=True):
            game = marginal_game(lambda rows, b=boxes: predict_slowly(b, rows), x, draw[None], players.columns)
            np.testing.assert_allclose(found, shapley_by_definition(game, players.n_players), rtol=0, atol=1e-12)
        assert (values[3] == 0).all()
        np.testing.assert_allclose(boxes.mean_values(x, draws, players), values.mean(axis=0), rtol=0, atol=1e-12)


def test_predictions_are_those_of_the_definition():
    boxes, rows = random_boxes(4), make_rows(4, 150, missing=0.2)
    rows[0], rows[1] = np.inf, -np.inf
    np.testing.assert_allclose(boxes.predict(rows), predict_slowly(boxes, rows), rtol=0, atol=1e-12)


@pytest.mark.parametrize("groups", GROUPS.values(), ids=GROUPS)
def test_values_add_up_and_chunks_change_nothing(groups, monkeypatch):
    players = make_players(groups)
    boxes, draws, x = random_boxes(5, n_leaves=200), make_rows(5, 300, missing=0.1), make_rows(6, 1)[0]
    values = boxes.draw_values(x, draws, players)
    gap = boxes.predict(x[None]) - boxes.predict(draws)
    np.testing.assert_allclose(values.sum(axis=1), gap, rtol=0, atol=1e-12)
    predictions = boxes.predict(draws)
    for chunk_bytes in (1, 5_000, 2**25):
        for module in (trees, box_games):
            monkeypatch.setattr(module, "CHUNK_BYTES", chunk_bytes)
        mean = boxes.mean_values(x, draws, players)
        np.testing.assert_allclose(mean, values.mean(axis=0), rtol=0, atol=1e-12)
        np.testing.assert_allclose(boxes.draw_values(x, draws, players), values, rtol=0, atol=1e-12)
        np.testing.assert_allclose(boxes.predict(draws), predictions, atol=1e-12)


@pytest.mark.parametrize("n_draws", [1, 63, 64, 65, 128])
def test_words_need_not_be_full(n_draws):
    boxes, draws, x = random_boxes(7), make_rows(7, n_draws), make_rows(8, 1)[0]
    values = boxes.mean_values(x, draws, make_players(None))
    gap = predict_slowly(boxes, x[None]) - predict_slowly(boxes, draws).mean(axis=0)
    np.testing.assert_allclose(values.sum(axis=0), gap[0], rtol=0, atol=1e-12)


def test_inputs_are_rounded_where_the_library_rounds_them():
    """0.1 in single precision is above 0.1: it passes a lower bound that the double 0.1 does not pass."""
    bounds = {"lowers": np.array([0.1]), "uppers": np.array([np.inf])}
    common = {"values": np.ones((1, 1)), "starts": np.array([0, 1]), "columns": np.array([0]), "n_columns": 1}
    common |= {"nan_accepted": np.array([False]), "offset": np.zeros(1)}
    row, draw, players = np.array([0.1]), np.array([[0.0]]), resolve_players(None, ["c"])
    assert float(np.float32(0.1)) > 0.1
    for float32, expected in ((True, 1.0), (False, 0.0)):
        boxes = TreeFunction(**common, **bounds, float32=float32)
        assert boxes.predict(row[None]) == expected
        assert boxes.mean_values(row, draw, players) == expected


def test_many_players_on_one_path():
    """A box of 80 sides: one draw that fails them all shares the leaf's value equally."""
    n = 80
    boxes = TreeFunction(
        values=np.ones((1, 1)),
        starts=np.array([0, n]),
        columns=np.arange(n),
        lowers=np.zeros(n),
        uppers=np.full(n, np.inf),
        nan_accepted=np.zeros(n, dtype=bool),
        offset=np.zeros(1),
        n_columns=n,
        float32=False,
    )
    players = resolve_players(None, [str(i) for i in range(n)])
    half = np.where(np.arange(n) < 40, 1.0, -1.0)
    draws = np.stack([-np.ones(n), half, -half])
    values = boxes.draw_values(np.ones(n), draws, players)
    np.testing.assert_allclose(values[0], 1 / n, rtol=1e-13)
    np.testing.assert_allclose(values[1], np.where(half < 0, 1 / 40, 0), rtol=1e-13)
    np.testing.assert_allclose(boxes.draw_values(half, -half[None], players).sum(), 0, atol=1e-13)


def test_trees_without_splits_and_without_values():
    """A constant is worth nothing to anybody; leaves of value 0 are left out."""
    none = np.array([-1])
    stump = Nodes(
        left=np.array([1, -1, -1]),
        right=np.array([2, -1, -1]),
        columns=np.array([2, 0, 0]),
        thresholds=np.array([0.5, 0.0, 0.0]),
        nan_left=np.array([True, False, False]),
        values=np.array([[9.0], [2.0], [0.0]]),
        roots=np.array([0]),
    )
    constant = Nodes(none, none, none, np.zeros(1), np.zeros(1, dtype=bool), np.full((1, 1), 3.0), np.array([0]))
    nothing = Nodes(none, none, none, np.zeros(1), np.zeros(1, dtype=bool), np.zeros((1, 1)), np.array([0]))
    players = make_players(None)
    draws, x = np.tile([[0.5], [0.6], [np.nan]], N_COLUMNS), np.zeros(N_COLUMNS)
    both = Nodes.concatenate([constant, stump, nothing]).to_function(N_COLUMNS, np.ones(1), float32=False)
    assert both.n_leaves == 2
    np.testing.assert_array_equal(both.predict(draws), [6, 4, 6])
    np.testing.assert_array_equal(both.draw_values(x, draws, players).T[2], [0, 2, 0])
    for tree, value in ((constant, 4.0), (nothing, 1.0)):
        boxes = tree.to_function(N_COLUMNS, np.ones(1), float32=False)
        assert (boxes.predict(draws) == value).all()
        assert not boxes.mean_values(x, draws, players).any()
        assert not boxes.draw_values(x, draws, players).any()


def test_bits_are_counted():
    words = np.random.default_rng(0).integers(0, 2**64, (3, 2, 50), dtype=np.uint64)
    words[0, 0, :2] = 0, 2**64 - 1
    by_hand = [[sum(int(w).bit_count() for w in row) for row in level.T] for level in words]
    np.testing.assert_array_equal(count_bits(words), by_hand)


def test_wrong_shapes_are_named():
    boxes, players = random_boxes(0), make_players(None)
    rows = make_rows(0, 3)
    with pytest.raises(InvalidArgumentError, match="`x` must have the 6 columns"):
        boxes.mean_values(rows[0, :5], rows, players)
    with pytest.raises(InvalidArgumentError, match="`draws` must have the 6 columns"):
        boxes.mean_values(rows[0], rows[:, :5], players)
    with pytest.raises(InvalidArgumentError, match="`draws` must have at least one row"):
        boxes.mean_values(rows[0], rows[:0], players)
    with pytest.raises(InvalidArgumentError, match="`players` must divide the 6 columns"):
        boxes.mean_values(rows[0], rows, resolve_players(None, ["a"]))
