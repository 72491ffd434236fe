"""Values from counted patterns against those of single draws, which are held against the definition."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from test_trees import GROUPS, N_COLUMNS, make_players, make_rows, random_boxes

import controlshap as cs
from controlshap.data.players import resolve_players
from controlshap.functions import tree_patterns
from controlshap.functions.tree_patterns import MOST_FACTORS, PatternGames
from controlshap.functions.tree_readers.read import read_trees
from controlshap.functions.trees import TreeFunction


def check(boxes, draws, rows, players, some):
    values, variances = PatternGames(boxes, draws, players, some).explain(rows)
    for x, found, variance in zip(rows, values, variances, strict=True):
        of_draws = boxes.draw_values(x, draws, players).reshape(len(draws), players.n_players, -1)
        np.testing.assert_allclose(found, of_draws.mean(axis=0), rtol=0, atol=1e-11)
        np.testing.assert_allclose(variance, of_draws[some].var(axis=0, ddof=1), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("groups", GROUPS.values(), ids=GROUPS)
@pytest.mark.parametrize("dense", [12, 2])
def test_patterns_give_the_values_of_single_draws(groups, missing, dense, monkeypatch):
    monkeypatch.setattr(tree_patterns, "MOST_DENSE", dense)
    some = np.array([3, 0, 11, 6])
    for seed, chunk in ((0, 2**25), (1, 5_000)):
        monkeypatch.setattr(tree_patterns, "CHUNK_BYTES", chunk)
        boxes, draws, rows = random_boxes(seed), make_rows(seed, 40, missing), make_rows(seed + 9, 9, missing)
        draws[3], rows[4] = rows[0], rows[5]
        check(boxes, draws, rows, make_players(groups), some)
        check(boxes, draws, rows[:1], make_players(groups), some)


def test_leaves_of_many_factors():
    rng = np.random.default_rng(0)
    n = MOST_FACTORS
    boxes = TreeFunction(
        values=rng.normal(size=(4, 1)),
        starts=n * np.arange(5),
        columns=np.tile(np.arange(n), 4),
        lowers=rng.normal(size=4 * n) - 2.5,
        uppers=np.full(4 * n, np.inf),
        nan_accepted=np.zeros(4 * n, dtype=bool),
        offset=np.zeros(1),
        n_columns=n,
        float32=False,
    )
    rows = np.abs(rng.normal(size=(30, n)))
    check(boxes, rows[:20], rows[20:], resolve_players(None, [str(i) for i in range(n)]), np.arange(5))


def test_beyond_that_many_factors_bits_of_draws_are_counted():
    n = MOST_FACTORS + 1
    boxes = TreeFunction(
        values=np.ones((1, 1)), starts=np.array([0, n]), columns=np.arange(n), lowers=np.zeros(n),
        uppers=np.full(n, np.inf), nan_accepted=np.zeros(n, dtype=bool), offset=np.zeros(1), n_columns=n,
        float32=False,
    )  # fmt: skip
    players = resolve_players(None, [str(i) for i in range(n)])
    assert boxes.games(np.ones((2, n)), players, np.arange(2)) is None


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("scaled", [True, False])
def test_all_rows_of_a_call_go_to_the_model_together(n_jobs, scaled, monkeypatch):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, N_COLUMNS))
    forest = RandomForestRegressor(n_estimators=10, max_depth=5, random_state=0)
    model = make_pipeline(StandardScaler(), forest) if scaled else forest
    model.fit(X, X[:, 0] * X[:, 1] + np.abs(X[:, 2]))
    calls, predict = [], type(model).predict
    if n_jobs == 1:
        monkeypatch.setattr(type(model), "predict", lambda self, rows: calls.append(len(rows)) or predict(self, rows))
    explainer = cs.Explainer(model, X[:60])
    one_by_one = [explainer(x, rng=0) for x in X[-9:]]
    calls.clear()
    together = explainer(X[-9:], rng=0, n_jobs=n_jobs)
    assert (together.status == "exact").all()
    assert n_jobs == 2 or calls == [9]
    # to the bit: what a row gets does not depend on the rows beside it
    np.testing.assert_array_equal(together.values, np.concatenate([part.values for part in one_by_one]))
    errors = np.concatenate([part.background_standard_errors for part in one_by_one])
    np.testing.assert_array_equal(together.background_standard_errors, errors)


def test_what_draws_have_in_common_is_counted_once():
    """Ten times the draws of the same patterns make no more of them."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(400, N_COLUMNS))
    forest = read_trees(RandomForestRegressor(n_estimators=5, max_depth=4, random_state=0).fit(X, X[:, 0] * X[:, 1]))
    players, some = make_players(None), np.arange(5)
    once, often = (
        PatternGames(forest, X[:50], players, some),
        PatternGames(forest, np.tile(X[:50], (10, 1)), players, some),
    )
    assert sum(len(b.bits) for b in once._blocks) == sum(len(b.bits) for b in often._blocks)
    np.testing.assert_allclose(often.explain(X[-5:])[0], once.explain(X[-5:])[0], atol=1e-12)
