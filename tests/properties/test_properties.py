"""Properties that hold for every game, estimate and file: hypothesis looks for the one that breaks them.

No statistical claim is made here: a search for failures finds the unlucky draw.
"""

import tempfile
from itertools import combinations

import numpy as np
import pytest
from calibration_cases import check_nothing_seen
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.testing import assert_allclose, assert_array_equal

import controlshap as cs
from controlshap.statistics.coefficients import regress
from controlshap.statistics.control_variate import Estimate, enforce_efficiency
from controlshap.statistics.covariance_root import CovarianceRoot
from controlshap.statistics.two_stage import TwoStageDesign
from controlshap.testing import game_from_values, shapley_by_definition

NUMBERS = st.floats(-10, 10, allow_subnormal=False)
SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.integers(1, 5)


def table_games(n_players):
    return arrays(float, 2**n_players, elements=NUMBERS)


GAMES = SIZES.flatmap(table_games)


def model_of(table):
    """The table as a model of binary columns: with a background row of zeros and x = ones, v(S) is `table[S]`."""
    bits = 1 << np.arange(n_players_of(table))
    return lambda rows: table[(rows @ bits).astype(int)]


def n_players_of(table):
    return len(table).bit_length() - 1


def explain(table, *, groups=None, **settings):
    p = n_players_of(table)
    explainer = cs.Explainer(model_of(table), np.zeros((1, p)), groups=groups, **settings)
    return explainer(np.ones(p), budget=400, rng=0)


def truth_of(table):
    return shapley_by_definition(game_from_values(table), n_players_of(table))[:, 0]


@given(GAMES)
def test_the_values_of_a_table_game_are_its_shapley_values(table):
    explanation = explain(table)
    assert_allclose(explanation.values[0], truth_of(table), atol=1e-12)
    assert explanation.status[0] == "exact"
    assert (explanation.standard_errors == 0).all()
    assert explanation.base_values[0] == table[0]
    assert_allclose(explanation.values.sum(), table[-1] - table[0], atol=1e-12)


@given(SIZES.flatmap(lambda p: arrays(float, (2**p, 2), elements=NUMBERS)))
def test_outputs_are_explained_one_by_one(table):
    both = explain(table).values[0]
    for output in range(2):
        assert_allclose(both[:, output], truth_of(table[:, output]), atol=1e-12)


@given(GAMES, SEEDS)
def test_relabelled_players_keep_their_values(table, seed):
    p = n_players_of(table)
    new = np.random.default_rng(seed).permutation(p)  # player j becomes new[j]
    relabelled = np.empty_like(table)
    for number in range(2**p):
        relabelled[sum(1 << int(new[j]) for j in range(p) if number >> j & 1)] = table[number]
    assert_allclose(explain(relabelled).values[0, new], explain(table).values[0], atol=1e-12)


@given(SIZES.filter(lambda p: p > 1).flatmap(table_games), SEEDS)
def test_a_null_player_gets_nothing_and_equal_players_get_the_same(table, seed):
    p = n_players_of(table)
    one, other = np.random.default_rng(seed).choice(p, 2, replace=False)
    numbers = np.arange(2**p)
    assert abs(explain(table[numbers & ~(1 << one)]).values[0, one]) < 1e-12
    swapped = (numbers >> one & 1) != (numbers >> other & 1)
    symmetric = 0.5 * (table + table[np.where(swapped, numbers ^ (1 << one | 1 << other), numbers)])
    values = explain(symmetric).values[0]
    assert_allclose(values[one], values[other], atol=1e-12)


@given(SIZES.flatmap(lambda p: st.tuples(table_games(p), table_games(p))), NUMBERS, NUMBERS, NUMBERS)
def test_values_are_linear_in_the_game_and_blind_to_a_constant(games, a, b, shift):
    one, other = games
    # values up to 10 times 10 in each of two games
    expected = a * explain(one).values + b * explain(other).values
    assert_allclose(explain(a * one + b * other + shift).values, expected, atol=1e-10)


@given(GAMES, SEEDS)
def test_grouping_then_explaining_is_explaining_the_grouped_game(table, seed):
    p = n_players_of(table)
    owner = np.random.default_rng(seed).integers(0, p, p)
    groups = {f"g{g}": np.flatnonzero(owner == g).tolist() for g in np.unique(owner)}
    explanation = explain(table, groups=groups)
    members = [groups[name] for name in explanation.feature_names]
    grouped = np.array(
        [table[sum(1 << c for g, columns in enumerate(members) if number >> g & 1 for c in columns)]
         for number in range(2 ** len(members))]
    )  # fmt: skip
    assert_allclose(explanation.values[0], truth_of(grouped), atol=1e-12)
    assert [min(columns) for columns in members] == sorted(min(columns) for columns in members)


def two_additive(p, seed):
    """A random game with interactions of at most two players, as a table."""
    rng = np.random.default_rng(seed)
    single, pairs = rng.normal(size=p), {pair: rng.normal() for pair in combinations(range(p), 2)}
    table = np.empty(2**p)
    for number in range(2**p):
        inside = [j for j in range(p) if number >> j & 1]
        table[number] = single[inside].sum() + sum(pairs[pair] for pair in combinations(inside, 2))
    return table + rng.normal()


@pytest.mark.parametrize("estimator", ["permutation", "per_feature", "kernel"])
@given(p=st.integers(2, 5), seed=SEEDS)
def test_pairs_are_exact_for_any_game_of_two_way_interactions(estimator, p, seed):
    table = two_additive(p, seed)
    explanation = explain(table, estimator=estimator, control="none")
    # 400 evaluations are 19 units or more, or 199 pairs of coalitions: for five players never a singular system
    assert explanation.status[0] == "budget reached"
    assert_allclose(explanation.values[0], truth_of(table), atol=1e-9)
    check_nothing_seen(explanation.standard_errors[0])


@pytest.mark.parametrize("estimator", ["permutation", "per_feature", "kernel"])
def test_pairs_are_not_exact_for_a_game_of_three_way_interactions(estimator):
    # Negative control of the test above: a player has nothing without both of the two others.
    table = np.where(np.arange(16) & 7 == 7, 1.0, 0.0) + two_additive(4, 0)
    explanation = explain(table, estimator=estimator, control="none")
    assert np.abs(explanation.values[0] - truth_of(table)).max() > 1e-4
    assert explanation.standard_errors.max() > 1e-4


@given(arrays(np.int64, st.integers(1, 40), elements=st.integers(0, 12)), st.booleans(), st.booleans(), SEEDS)
def test_weights_of_units_sum_to_one_whatever_the_visits(labels, finite, exact_within, seed):
    design = TwoStageDesign(labels, 13 if finite else np.inf, exact_within)
    assert_allclose(design.weights.sum(), 1.0, atol=1e-12)
    # every visited block counts the same, however often it was visited
    assert_allclose(np.bincount(design.index, design.weights), 1.0 / len(design.visits), atol=1e-12)
    assert 0.0 <= design.sampling_fraction <= 1.0
    values = np.random.default_rng(seed).normal(size=(len(labels), 2, 1, 1))
    roots = design.covariance_root(values)
    assert np.isfinite(roots.variances()).all()
    assert (roots.degrees_of_freedom() > 0).all()
    # a constant has no variance, and a shift changes none
    assert_allclose(design.covariance_root(np.ones_like(values)).variances(), 0.0, atol=1e-20)
    assert_allclose(design.covariance_root(values + 3.0).variances(), roots.variances(), atol=1e-12)


def random_roots(rng):
    n_parts = int(rng.integers(0, 4))
    sizes = rng.integers(2, 6, n_parts)
    group = np.repeat(np.arange(n_parts), sizes)
    return CovarianceRoot(rng.normal(size=(len(group), 3, 2, 2)), group, sizes - 1.0)


@given(SEEDS)
def test_joining_parts_of_a_variance_is_associative(seed):
    rng = np.random.default_rng(seed)
    a, b, c = (random_roots(rng) for _ in range(3))
    left, right = a.join(b).join(c), a.join(b.join(c))
    assert_allclose(left.variances(), right.variances(), rtol=1e-12)
    assert_allclose(left.variances(), a.variances() + b.variances() + c.variances(), rtol=1e-12)
    assert_allclose(left.degrees_of_freedom(), right.degrees_of_freedom(), rtol=1e-12)
    assert_allclose(left.function_covariances(), c.join(b).join(a).function_covariances(), atol=1e-12)
    assert_allclose(a.join(CovarianceRoot.zero((3, 2, 2))).variances(), a.variances())


@st.composite
def estimates(draw):
    """Values and roots of some components, now and then without any variance, or with roots that sum to (almost) 0."""
    n_components, n_outputs, n_roots = draw(st.integers(2, 6)), draw(st.integers(1, 2)), draw(st.integers(0, 5))
    values = draw(arrays(float, (n_components, n_outputs), elements=NUMBERS))
    rows = draw(arrays(float, (n_roots, n_components, n_outputs), elements=NUMBERS))
    rows = rows - (1.0 - draw(st.sampled_from([1.0, 1e-3, 1e-6, 1e-8, 0.0]))) * rows.mean(axis=1, keepdims=True)
    rows = rows * 10.0 ** draw(st.integers(-12, 3))
    dof = draw(arrays(float, (n_components, n_outputs), elements=st.sampled_from([1.0, 7.0, 1e4, np.inf])))
    return Estimate(values, rows, dof), draw(arrays(float, n_outputs, elements=NUMBERS))


@given(estimates())
def test_closing_always_closes_and_its_roots_sum_to_zero(case):
    estimate, total = case
    closed = enforce_efficiency(estimate, total)
    assert_allclose(closed.values.sum(axis=0), total, rtol=0, atol=1e-9)
    # rounding of a sum, in the size of what was summed; a root may be enlarged tenfold for its leverage
    size = np.abs(estimate.factors).max(initial=0.0) + np.abs(closed.factors).max(initial=0.0)
    assert_allclose(closed.factors.sum(axis=1), 0.0, rtol=0, atol=1e-9 * size)
    assert np.isfinite(closed.variances).all()
    assert_array_equal(closed.dof, estimate.dof)
    again = enforce_efficiency(closed, total)
    assert_allclose(again.values, closed.values, rtol=0, atol=1e-8)
    # A value moves by the gap, or by what its own error allows: a slope on a sum that hardly varies says nothing
    # about a gap that is large.
    gap = np.abs(total - estimate.values.sum(axis=0))
    reach = np.sqrt(np.minimum(estimate.dof.min(axis=0), 1e9) * estimate.variances)
    assert (np.abs(closed.values - estimate.values) <= gap + reach + 1e-9).all()


def test_closing_the_sum_does_no_harm_where_the_rows_that_matter_are_rare():
    # f(b) is tiny but for 5 of 100 rows, which few units meet: the sum hardly varies between units and misses by 0.05.
    rng = np.random.default_rng(0)
    background = rng.normal(size=(100, 6))
    background[:, 0] = np.where(np.arange(100) < 5, 3.0, -1.0 - 0.1 * rng.random(100))
    x = np.array([3.0, 1.0, 1.0, 1.0, 1.0, 1.0])

    def gated(rows):
        inner = rows[:, 1] * rows[:, 2] + rows[:, 3] * rows[:, 4] * rows[:, 5] + rows[:, 1]
        return (1.0 + np.tanh(inner)) / (1.0 + np.exp(-8.0 * rows[:, 0]))

    truth = cs.explain(gated, x, background, budget=62 * 100 + 1, rng=0, control="none").values[0]
    errors = {}
    for closes_sum in (True, False):
        estimator = cs.Permutation(closes_sum=closes_sum)
        explainer = cs.Explainer(gated, background, estimator=estimator, control="none")
        errors[closes_sum] = np.abs(explainer(np.tile(x, (50, 1)), budget=121, rng=0).values - truth).max(axis=1)
    # the median and the worst of 50 runs: closing spreads a gap of 0.05 over values of the size of 1
    assert np.median(errors[True]) < np.median(errors[False]) + 0.05
    assert errors[True].max() < 2 * errors[False].max()


@given(SEEDS, st.integers(1, 3), st.integers(0, 5), st.sampled_from([0.0, 1.5, 4.0, 60.0, np.inf]), st.booleans())
def test_coefficients_are_numbers_for_any_covariance(seed, n_controls, rank, dof, by_units):
    rng = np.random.default_rng(seed)
    n_functions = n_controls + 1
    # functions of very different sizes, some constant, some equal; fewer roots than functions make it singular
    mixing = rng.normal(size=(n_functions, n_functions)) * 10.0 ** rng.integers(-8, 9, n_functions)
    mixing[:, rng.random(n_functions) < 0.3] = 0.0
    if rng.random() < 0.3:
        mixing[:, -1] = mixing[:, 0]
    rows = np.einsum("kcof,fg->kcog", rng.normal(size=(rank, 3, 2, n_functions)), mixing)
    covariances = np.einsum("kcof,kcog->cofg", rows, rows)
    size = np.abs(rng.normal(size=(2, n_controls))) * (rng.random((2, n_controls)) < 0.7)
    with np.errstate(all="raise", under="ignore"):
        priors = rng.integers(0, 2, (2, n_controls)).astype(float)
        fit = regress(covariances, np.full((3, 2), dof), size, priors, factors=rows if by_units else None)
    assert np.isfinite(fit.alpha).all()
    assert (fit.squared_correlation >= 0).all()
    assert (fit.squared_correlation <= 1).all()
    # a control that does not vary is not used
    constant = np.einsum("cogg->cog", covariances)[..., 1:] == 0
    assert (fit.alpha[constant] == 0).all()


REALS = st.floats(allow_nan=True, allow_infinity=True)
NAMES = st.text(min_size=1, max_size=8)


@st.composite
def explanations(draw):
    """Any explanation that keeps the rule of shapes; numbers and names as odd as they come."""
    rows, players, outputs = draw(array_shapes(min_dims=3, max_dims=3, max_side=3))
    trailing = (outputs,) if outputs > 1 else ()

    def some(*shape):
        return draw(arrays(float, shape, elements=REALS))

    per_value = [some(rows, players, *trailing) for _ in range(6)]
    names = tuple(draw(st.lists(NAMES, min_size=players, max_size=players)))
    return cs.Explanation(
        *per_value[:2], some(rows, *trailing), some(rows, *trailing), *per_value[2:],
        covariance=some(rows, *trailing, players, players),
        n_evaluations=draw(arrays(np.int64, rows)),
        status=np.array(draw(st.lists(st.sampled_from(["exact", "converged"]), min_size=rows, max_size=rows))),
        method=np.array(["Permutation + Taylor"] * rows), controls=np.array(["Taylor 0.90"] * rows),
        data=some(rows, players), feature_names=names, column_names=names,
        output_names=draw(st.none() | st.lists(NAMES, min_size=outputs, max_size=outputs).map(tuple)),
        player_columns=tuple((j,) for j in range(players)),
        entropy=draw(st.integers(0, 2**128)),
        settings=draw(st.dictionaries(NAMES, st.none() | st.text() | st.integers(-(2**53), 2**53) | NUMBERS)),
        look_shares=some(rows), complete=np.ones(rows, dtype=bool),
        background_standard_errors=draw(st.none() | st.just(np.zeros((rows, players)))),
        stages=tuple((2, 3) for _ in range(rows)),
    )  # fmt: skip


@given(explanations())
def test_any_explanation_comes_back_from_disk_as_it_was(explanation):
    with tempfile.TemporaryDirectory() as folder:
        loaded = cs.load(explanation.save(folder))
    for name, value in vars(explanation).items():
        if isinstance(value, np.ndarray):
            assert_array_equal(getattr(loaded, name), value, err_msg=name, strict=True)
        else:
            assert getattr(loaded, name) == value, name
