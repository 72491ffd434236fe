"""Learning across rows: who is in which generation, that nothing but earlier rows matters, and that it helps."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import controlshap as cs
from controlshap.engine.generations import MOST_BEFORE, Generation
from controlshap.testing import marginal_game, shapley_by_definition

RNG = np.random.default_rng(5)
BACKGROUND, ROWS = RNG.normal(size=(30, 6)), RNG.normal(size=(40, 6))
SINGLE = [(j,) for j in range(6)]


def waved(rows):
    """Smooth, with interactions of three players that a ridge does not have; in two outputs."""
    first = np.tanh(rows[:, 0] * rows[:, 1] + rows[:, 2]) + np.sin(rows[:, 3] + rows[:, 4] * rows[:, 5])
    return np.column_stack([first, np.cos(rows[:, 0] * rows[:, 5]) - first])


def explainer(**settings):
    return cs.Explainer(waved, BACKGROUND, estimator="permutation", **settings)


def learn(n_rows=7, **call):
    return explainer()(ROWS[:n_rows], budget=300, rng=0, surrogate="online", **call)


def assert_same(one, other):
    for name in ("values", "standard_errors", "covariance", "n_evaluations", "controls"):
        assert_array_equal(getattr(one, name), getattr(other, name))


def test_generations_double_and_the_last_has_no_end():
    firsts = [Generation.of(row).first for row in range(9)]
    assert firsts == [0, 1, 1, 3, 3, 3, 3, 7, 7]
    every = [Generation.of(row) for row in (0, 2, 6, MOST_BEFORE - 1)]
    assert [(each.number, each.end) for each in every] == [(0, 1), (1, 3), (2, 7), (10, MOST_BEFORE)]
    last = Generation.of(10**9)
    assert (last.first, last.end, last.share(10)) == (MOST_BEFORE, None, 0)
    assert all(row in range(g.first, g.end or 10**9) for row in range(5000) for g in [Generation.of(row)])


def test_rows_behind_do_not_matter_and_rows_before_do():
    whole = learn(9)
    assert_same(learn(5), whole[:5])
    assert_same(explainer()(ROWS[0], budget=300, rng=0), whole[0])
    changed = ROWS[:9].copy()
    changed[0] += 1.0
    other = explainer()(changed, budget=300, rng=0, surrogate="online")
    assert (other.values[1:] != whole.values[1:]).any()
    assert "SharedSurrogate" in whole.method[8]


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [2, 8])
def test_workers_do_not_matter(n_jobs):
    assert_same(learn(9, n_jobs=n_jobs), learn(9))


@pytest.mark.slow
def test_it_helps_and_counts_nothing_more():
    alone, taught = (explainer()(ROWS, budget=400, rng=0, surrogate=s) for s in (None, "online"))
    assert_array_equal(alone.n_evaluations, taught.n_evaluations)
    ratio = (alone.standard_errors**2).mean(axis=(1, 2)) / (taught.standard_errors**2).mean(axis=(1, 2))
    assert np.median(ratio[15:]) > 1.5
    assert "SharedSurrogate" in taught.method[20]


@pytest.mark.slow
def test_it_is_unbiased_and_honest_in_every_generation(global_seed):
    """Over runs with other seeds; a family-wise level of 1e-4 over rows, players and outputs."""
    runs = [explainer()(ROWS[:8], budget=300, rng=1000 * global_seed + k, surrogate="online") for k in range(60)]
    truth = np.stack([shapley_by_definition(marginal_game(waved, x, BACKGROUND, SINGLE), 6) for x in ROWS[:8]])
    values, errors = (np.stack([getattr(run, name) for run in runs]) for name in ("values", "standard_errors"))
    gaps = values - truth
    z = gaps.mean(axis=0) / gaps.std(axis=0, ddof=1) * np.sqrt(len(runs))
    assert np.abs(z).max() < 5.4  # Bonferroni over 96 for t with 59 degrees of freedom
    for first, end in ((0, 1), (1, 3), (3, 7), (7, 8)):
        observed = np.sqrt((gaps[:, first:end] ** 2).mean())
        told = np.sqrt((errors[:, first:end] ** 2).mean())
        assert 0.75 < told / observed < 1.4
        assert not 0.75 < 0.5 * told / observed < 1.4  # errors of half the size would be noticed


def test_what_would_be_ignored_is_refused():
    with pytest.raises(cs.InvalidArgumentError, match="`surrogate` must be 'online' or None"):
        explainer()(ROWS[:2], surrogate="offline")
    with pytest.raises(cs.InvalidArgumentError, match="needs control='auto'"):
        explainer(control="ridge")(ROWS[:2], surrogate="online")
    with pytest.raises(cs.InvalidArgumentError, match="`surrogate='online'`: the explanation was made without"):
        explainer().refine(explainer()(ROWS[:1], budget=100, rng=0), budget=100, surrogate="online")
    with pytest.raises(cs.InvalidArgumentError, match="not all of these are here"):
        explainer().refine(learn(3, keep=True)[1:], budget=300)


def test_refine_goes_on_with_what_rows_taught_and_pays_for_new_evaluations_alone():
    asked = []

    def counted(rows):
        asked.append(len(rows))
        return waved(rows)

    one = cs.Explainer(counted, BACKGROUND, estimator="permutation")
    before = one(ROWS[:9], budget=300, rng=0, surrogate="online")
    asked.clear()
    after = one.refine(before, budget=600)
    assert sum(asked) == (after.n_evaluations - before.n_evaluations).sum() > 0
    assert "SharedSurrogate" in after.method[8]
    assert (after.standard_errors.mean(axis=(1, 2)) < before.standard_errors.mean(axis=(1, 2))).all()
    assert_same(one.refine(before[:4], budget=600), after[:4])
    assert_same(one.refine(before, budget=600, n_jobs=2), after)


def test_a_surrogate_that_was_paid_for_stays_until_something_is_better():
    one = explainer().fit_surrogate(ROWS, budget=4000, rng=0, learner=cs.WideNetwork(n_hidden=32, n_steps=3000))
    taught = one(ROWS[:5], budget=300, rng=0, surrogate="online")
    assert all(method == "Permutation + SharedSurrogate + LogisticRidge" for method in taught.method[1:])
    alone = one(ROWS[:5], budget=300, rng=0)
    ratio = (alone.standard_errors**2).mean() / (taught.standard_errors**2).mean()
    assert ratio > 0.8
    poor = explainer().fit_surrogate(ROWS, budget=200, rng=0, learner=cs.Polynomial(degree=1))
    first = learn(12)
    assert_array_equal(poor(ROWS[:12], budget=300, rng=0, surrogate="online").values[7:], first.values[7:])


def test_the_plan_says_what_is_learned():
    assert "generations of 1, 2, 4" in str(explainer().plan(surrogate="online", budget=300))
    assert "surrogate='online' makes" in str(explainer().plan(ROWS, budget=300))
    assert "surrogate=" not in str(explainer().plan(ROWS[:15], budget=300))
    assert "learning    none" in str(cs.Explainer(waved, BACKGROUND).plan(surrogate="online", budget=2000))


@pytest.mark.slow
@pytest.mark.parametrize("features", ["correlated", "copula"])
def test_correlated_features_learn_as_well(features):
    alone, taught = (
        explainer(features=features)(ROWS[:24], budget=300, rng=0, surrogate=surrogate)
        for surrogate in (None, "online")
    )
    ratio = (alone.standard_errors**2).mean(axis=(1, 2)) / (taught.standard_errors**2).mean(axis=(1, 2))
    assert "SharedSurrogate" in taught.method[-1]
    assert np.median(ratio[15:]) > 1.0


def test_groups_interactions_and_stopping_go_together_with_it(tmp_path):
    groups = {"first": [0, 1], "second": [2], "third": [3, 4], "fourth": [5]}
    one = explainer(groups=groups)
    found = one(ROWS[:9], budget=150, rng=0, surrogate="online", interactions=2, tolerance=2.0)
    assert found.interactions.values.shape[0] == 9
    again = cs.load(found.save(tmp_path / "found"))
    assert again.settings["surrogate"] == "online"
    assert_same(again, found)


def test_where_nothing_is_sampled_nothing_is_learned():
    exact = cs.Explainer(waved, BACKGROUND)
    one, other = (exact(ROWS[:4], budget=2000, rng=0, surrogate=s) for s in (None, "online"))
    assert_same(one, other)
    assert set(other.status) == {"exact"}


@pytest.mark.filterwarnings("ignore::controlshap.NotConvergedWarning")
@pytest.mark.parametrize("settings", [{"variance": "analytic"}, {"variance": "bootstrap"}, {}], ids=str)
def test_what_the_first_row_could_do_later_rows_can(settings):
    """A surrogate of all rows leads to KernelSHAP only where the variance and the budget allow it."""
    one, budget = cs.Explainer(waved, BACKGROUND, **settings), 300 if settings else 30
    found = one(ROWS[:3], budget=budget, rng=0, surrogate="online", tolerance=0.001)
    assert all(method.startswith("Permutation") for method in found.method)
