"""`Explanation.ranking`: the estimated order, what of it is certified, and how it is told."""

import math
import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from conftest import make_data
from scipy.stats import binomtest
from sklearn.linear_model import LinearRegression

import controlshap as cs
from controlshap.results.ranking import Ranking, is_exact
from controlshap.statistics.certainty import order_ratios
from controlshap.testing import marginal_game, shapley_by_definition

RARE = 1e-4
DATA = make_data(n_rows=80, grouped=False)
X = np.array([DATA.x, 0.5 * DATA.x, DATA.background[0], DATA.background[1]])


def walks(model=DATA.model, **settings):
    return cs.Explainer(model, DATA.background, estimator="permutation", control="none", **settings)


@pytest.fixture(scope="module")
def explanation():
    return walks()(X, budget=2000, rng=0)


@pytest.fixture(scope="module")
def explanation2():
    return walks(DATA.model2)(X, budget=2000, rng=0)


def with_values(explanation, values, spread, dof=math.inf):
    """The explanation of one row with other values, and errors that are independent of each other."""
    values = np.asarray(values, dtype=float)[None]
    p = values.shape[1]
    names = tuple("abcdefgh"[:p])
    return replace(
        explanation, values=values, standard_errors=np.full((1, p), spread), covariance=spread**2 * np.eye(p)[None],
        degrees_of_freedom=np.full((1, p), dof), look_shares=np.ones(1), feature_names=names,
    )  # fmt: skip


def test_players_are_ordered_by_the_magnitude_of_their_values(explanation):
    sizes = np.take_along_axis(np.abs(explanation.values), explanation.ranking().order, axis=1)
    assert (np.diff(sizes, axis=1) <= 0).all()
    assert (np.sort(explanation.ranking().order, axis=1) == np.arange(7)).all()


def test_shapes_have_rows_first_and_outputs_last(explanation, explanation2):
    one, two = explanation.ranking(), explanation2.ranking()
    assert (one.order.shape, one.separated.shape, one.swap_probability.shape) == ((4, 7), (4, 6), (4, 6))
    assert (two.order.shape, two.separated.shape, two.swap_probability.shape) == ((4, 7, 2), (4, 6, 2), (4, 6, 2))
    assert (one.n_ordered.shape, two.n_ordered.shape) == ((4,), (4, 2))


def test_a_place_is_separated_where_all_pairs_across_it_are_certain(explanation):
    ranking = explanation.ranking(0.8)
    for row in range(4):
        dof = explanation.degrees_of_freedom[row]
        passed = order_ratios(explanation.values[row], explanation.covariance[row], dof, 0.2) <= 1.0
        order = ranking.order[row]
        wanted = [all(passed[i, j] for i in order[:k] for j in order[k:]) for k in range(1, 7)]
        assert ranking.separated[row].tolist() == wanted


def test_an_output_is_ranked_as_it_would_be_alone(explanation2):
    both = explanation2.ranking()
    for output in range(2):
        alone = replace(
            explanation2, values=explanation2.values[..., output], covariance=explanation2.covariance[:, output],
            degrees_of_freedom=explanation2.degrees_of_freedom[..., output],
        ).ranking()  # fmt: skip
        np.testing.assert_array_equal(both.order[..., output], alone.order)
        np.testing.assert_array_equal(both.separated[..., output], alone.separated)
        np.testing.assert_array_equal(both.swap_probability[..., output], alone.swap_probability)


def test_a_higher_level_certifies_no_more(explanation):
    levels = [explanation.ranking(level).separated for level in (0.5, 0.9, 0.99, 0.9999)]
    for low, high in pairwise(levels):
        assert (high <= low).all()
    assert levels[0].sum() > levels[-1].sum()


def test_a_run_that_was_looked_at_certifies_less_than_one_that_was_not(explanation):
    looked = replace(explanation, look_shares=np.full(4, 0.01)).ranking(0.95)
    as_strict = explanation.ranking(1 - 0.05 * 0.01)
    np.testing.assert_array_equal(looked.separated, as_strict.separated)
    assert looked.separated.sum() < explanation.ranking(0.95).separated.sum()


def test_scale_and_sign_of_the_output_do_not_matter():
    one = walks()(X, budget=1000, rng=1).ranking()
    other = walks(lambda rows: -4.0 * DATA.model(rows))(X, budget=1000, rng=1).ranking()
    np.testing.assert_array_equal(one.order, other.order)
    np.testing.assert_array_equal(one.separated, other.separated)
    np.testing.assert_allclose(one.swap_probability, other.swap_probability, atol=1e-12)


def test_neighbours_that_are_separated_are_unlikely_to_swap(explanation):
    ranking = explanation.ranking(0.95)
    assert ranking.separated.any()
    assert ranking.swap_probability[ranking.separated].max() < 0.05
    assert ranking.swap_probability.min() >= 0
    assert ranking.swap_probability.max() <= 0.5


def separated_ranking(separated):
    p = len(separated) + 1
    separated = np.array([separated], dtype=bool)
    return Ranking(np.arange(p)[None], separated, np.zeros((1, p - 1)), 0.95, tuple("abcdefgh"[:p]))


@pytest.mark.parametrize(
    ("separated", "n_ordered", "words"),
    [
        ([], 1, "a"),
        ([0], 0, "{a, b}"),
        ([1], 2, "a > b"),
        ([1, 1, 1], 4, "a > b > c > d"),
        ([1, 1, 0], 2, "a > b > {c, d}"),
        ([0, 1, 1], 0, "{a, b} > c > d"),
        ([1, 0, 1], 1, "a > {b, c} > d"),
        ([0, 0, 0], 0, "{a, b, c, d}"),
    ],
)
def test_places_without_a_certified_order_share_braces(separated, n_ordered, words):
    ranking = separated_ranking(separated)
    assert ranking.n_ordered.tolist() == [n_ordered]
    assert ranking.describe() == words


def test_the_largest_are_named_where_their_set_is_certified():
    ranking = separated_ranking([0, 1, 0])
    assert [ranking.top(k) for k in (1, 2, 3, 4)] == [None, ("a", "b"), None, ("a", "b", "c", "d")]


def test_names_come_in_the_estimated_order(explanation):
    ranking = explanation.ranking()
    assert ranking.names(row=1) == tuple(f"x{player}" for player in ranking.order[1])


def test_groups_are_ranked_by_their_names():
    data = make_data()
    explainer = cs.Explainer(data.model, data.background, groups=data.groups, estimator="permutation")
    assert set(explainer(data.x[None], budget=500, rng=0).ranking().names()) == {"x0", "x2", "pair", "level"}


def test_one_of_several_outputs_has_to_be_chosen(explanation2):
    ranking = explanation2.ranking()
    for method in (ranking.names, ranking.describe, lambda: ranking.top(2)):
        with pytest.raises(cs.InvalidArgumentError, match=r"`output` is needed: the model has 2 outputs"):
            method()
    assert ranking.names(output=1) == tuple(f"x{player}" for player in ranking.order[0, :, 1])
    assert len(ranking.top(7, row=2, output=0)) == 7


def test_rows_and_outputs_that_there_are_not_are_refused(explanation, explanation2):
    for row in (99, 1.0, True, "0"):
        with pytest.raises(cs.InvalidArgumentError, match=r"`row` must be a row number, 0 to \d+; got"):
            explanation.ranking().describe(row)
    for output in (2, -1, "second"):
        with pytest.raises(cs.InvalidArgumentError, match=r"`output` must be a number from 0 to 1: .*; got"):
            explanation2.ranking().names(output=output)
    with pytest.raises(cs.InvalidArgumentError, match="`output` must be left out"):
        explanation.ranking().top(1, output=0)


@pytest.mark.parametrize("k", [0, 8, -1, 1.0, True, "2"])
def test_a_number_of_players_that_there_is_not_is_refused(explanation, k):
    with pytest.raises(cs.InvalidArgumentError, match="`k` must be a number of players, 1 to 7; got"):
        explanation.ranking().top(k)


@pytest.mark.parametrize("level", [0, 1, 95, -0.5, True, "0.95", math.nan, None])
def test_a_level_that_is_no_probability_is_refused(explanation, level):
    with pytest.raises(
        cs.InvalidArgumentError, match=r"`level` must lie between 0 and 1; got .* Use for example 0\.95"
    ):
        explanation.ranking(level)


def test_the_frame_has_one_line_for_each_place(explanation):
    ranking = explanation.ranking()
    frame = ranking.to_frame()
    assert list(frame.columns) == ["row", "place", "feature", "separated_from_next", "swap_probability"]
    assert len(frame) == 4 * 7
    second = frame[frame["row"] == 1]
    assert second["place"].tolist() == list(range(1, 8))
    assert tuple(second["feature"]) == ranking.names(row=1)
    assert second["separated_from_next"].tolist() == [*ranking.separated[1].tolist(), True]
    assert second["swap_probability"].tolist() == [*ranking.swap_probability[1].tolist(), 0.0]


def test_the_frame_tells_outputs_apart(explanation2):
    ranking = explanation2.ranking()
    frame = ranking.to_frame()
    assert len(frame) == 4 * 7 * 2
    part = frame[(frame["row"] == 3) & (frame["output"] == 1)]
    assert tuple(part["feature"]) == ranking.names(row=3, output=1)
    assert part["separated_from_next"].tolist()[:-1] == ranking.separated[3, :, 1].tolist()


def test_the_ranking_says_in_short_how_much_is_certified(explanation):
    sure = with_values(explanation, [3.0, -2.0, 1.0], 1e-6)
    unsure = with_values(explanation, [3.0, -2.0, 1.0], 10.0)
    assert repr(sure.ranking()) == (
        "Ranking of 3 players in 1 row, certified at 95 % (whole order in 100% of rows)\n  row 0: a > b > c"
    )
    assert "whole order in 0% of rows" in repr(unsure.ranking(0.9))
    assert "certified at 90 %" in repr(unsure.ranking(0.9))


def test_certified_places_grow_with_accuracy(explanation):
    values = [8.0, -4.0, 2.0, 1.0]
    words = [with_values(explanation, values, spread).ranking().describe() for spread in (9.0, 1.0, 0.5, 0.05)]
    assert words == ["{a, b, c, d}", "a > {b, c, d}", "a > b > {c, d}", "a > b > c > d"]


def test_values_of_opposite_sign_and_equal_magnitude_are_never_separated(explanation):
    ranking = with_values(explanation, [2.0, -2.0, 0.1], 0.01).ranking()
    assert ranking.describe() == "{a, b} > c"
    assert ranking.swap_probability[0, 0] == pytest.approx(0.5)


def test_few_degrees_of_freedom_certify_less(explanation):
    many = with_values(explanation, [3.0, 2.0, 1.0], 0.15).ranking()
    few = with_values(explanation, [3.0, 2.0, 1.0], 0.15, dof=2).ranking()
    assert many.n_ordered.tolist() == [3]
    assert few.n_ordered.tolist() == [0]


def test_exact_values_are_certified_in_full():
    exact = cs.Explainer(DATA.model, DATA.background)(X, budget=200_000, rng=0)
    ranking = exact.ranking(0.999999)
    assert (exact.status == "exact").all()
    assert ranking.separated.all()
    assert (ranking.n_ordered == 7).all()
    assert (ranking.swap_probability == 0).all()


@pytest.mark.parametrize("features", ["independent", "correlated"])
def test_one_player_is_first(features):
    explainer = cs.Explainer(lambda rows: np.tanh(rows[:, 0]), DATA.background[:, :1], features=features)
    ranking = explainer(np.array([[2.0], [1.0]]), budget=200, rng=0).ranking()
    assert ranking.separated.shape == (2, 0)
    assert ranking.n_ordered.tolist() == [1, 1]
    assert ranking.describe() == "x0"
    assert ranking.top(1) == ("x0",)
    assert ranking.to_frame()["feature"].tolist() == ["x0", "x0"]


def n_wrong(ranking, truth):
    """Rows with a certified set that is not one of the largest."""
    size = np.abs(truth)[ranking.order]
    wrong = [
        any(size[row, : k + 1].min() <= size[row, k + 1 :].max() for k in np.flatnonzero(ranking.separated[row]))
        for row in range(len(size))
    ]
    return int(np.sum(wrong))


def truth():
    game = marginal_game(DATA.model, DATA.x, DATA.background, DATA.columns)
    return np.asarray(shapley_by_definition(game, 7)).reshape(-1)


@pytest.mark.parametrize("settings", [{"budget": 1000}, {"budget": 4000, "stop": "top 2"}], ids=["fixed", "stopped"])
def test_all_that_is_certified_about_a_row_is_right_at_the_level(settings, global_seed):
    n = 200
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.NotConvergedWarning)
        ranking = walks()(np.tile(DATA.x, (n, 1)), rng=global_seed, **settings).ranking()
    assert ranking.separated.any(axis=1).mean() > 0.5
    assert binomtest(n_wrong(ranking, truth()), n, 0.05, alternative="greater").pvalue > RARE


def test_an_order_taken_for_certain_as_it_is_would_be_wrong_too_often(global_seed):
    n = 200
    ranking = walks()(np.tile(DATA.x, (n, 1)), budget=1000, rng=global_seed).ranking()
    naive = replace(ranking, separated=np.ones_like(ranking.separated))
    assert binomtest(n_wrong(naive, truth()), n, 0.05, alternative="greater").pvalue < RARE


def test_a_ranking_survives_saving(tmp_path):
    explanation = walks()(X, stop="top 1", budget=50_000, rng=2)
    loaded = cs.load(explanation.save(tmp_path / "kept"))
    before, after = explanation.ranking(), loaded.ranking()
    np.testing.assert_array_equal(before.order, after.order)
    np.testing.assert_array_equal(before.separated, after.separated)


def test_a_ranking_tells_how_its_row_became_exact():
    model = LinearRegression().fit(DATA.background, DATA.background.sum(axis=1))
    known = cs.Explainer(model, DATA.background)(X).ranking()
    assert set(known.rests_on) == {"by the known form of the model"}
    enumerated = cs.Explainer(DATA.model, DATA.background)(X, budget=10**6)
    assert set(enumerated.ranking().rests_on) == {"by enumeration"}
    assert is_exact(known)
    assert is_exact(enumerated.ranking())
    assert not is_exact(walks()(X, budget=400, rng=0).ranking())
