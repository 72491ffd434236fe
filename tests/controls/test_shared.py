"""A surrogate fitted once and shared by all rows; what the automatic control chooses, and what it says about it."""

import numpy as np
import pytest
from calibration_cases import DATA, smooth2
from numpy.testing import assert_array_equal
from scipy.special import expit

import controlshap as cs
from controlshap.controls.base import EvaluatedRows
from controlshap.controls.shared import best_learner, default_learners
from controlshap.testing import marginal_game, shapley_by_definition

RNG = np.random.default_rng(3)
BACKGROUND, X = RNG.normal(size=(30, 6)), RNG.normal(size=6)
SINGLE = [(j,) for j in range(6)]
WEIGHTS = np.array([1.0, -2.0, 0.5, 1.5, 0.7, -0.3, 0.2])


def stepped(rows):
    """What trees know and a ridge does not."""
    chosen = np.where(rows[:, 0] > 0, rows[:, 1] > 0.3, rows[:, 2] > -0.2)
    return chosen * (rows[:, 3] > -0.5) + 0.3 * (rows[:, 3] * rows[:, 4] * rows[:, 5] > 0)


def explainer(model=stepped, background=BACKGROUND, **settings):
    return cs.Explainer(model, background, estimator="permutation", **settings)


@pytest.mark.slow
@pytest.mark.parametrize("features", ["independent", "correlated"])
def test_a_shared_surrogate_is_used_counted_and_helps(features):
    one = explainer(features=features)
    before = one(X, budget=600, rng=0)
    assert one.n_surrogate_evaluations == 0
    assert one.fit_surrogate(BACKGROUND, budget=3000, rng=0) is one
    assert one.n_surrogate_evaluations == 3000
    after = one(X, budget=600, rng=0)
    assert "SharedSurrogate" in after.controls[0]
    assert after.settings["n_surrogate_evaluations"] == 3000
    assert after.n_evaluations[0] == before.n_evaluations[0]
    assert after.gain[0] > 1.2


@pytest.mark.slow
def test_a_shared_surrogate_is_unbiased_and_honest():
    one = explainer().fit_surrogate(BACKGROUND, budget=3000, rng=0)
    found = one(np.tile(X, (200, 1)), budget=700, rng=1)
    truth = shapley_by_definition(marginal_game(stepped, X, BACKGROUND, SINGLE), 6)[:, 0]
    z = (found.values.mean(axis=0) - truth) / np.maximum(found.values.std(axis=0, ddof=1), 1e-12) * np.sqrt(200)
    assert np.abs(z).max() < 4.3  # family-wise 1e-4 over 6 players
    observed = np.sqrt(((found.values - truth) ** 2).mean())
    assert 0.8 < np.sqrt((found.standard_errors**2).mean()) / observed < 1.3


@pytest.mark.parametrize(
    "learner",
    [
        cs.LogisticRidge(),
        cs.RidgeNetwork(2),
        cs.Polynomial(),
        cs.Trees(n_trees=10, n_leaves=8),
        cs.Trees(n_trees=5, n_leaves=4, start=None),
        cs.Trees(n_trees=5, n_leaves=4, start=cs.Polynomial(degree=1)),
    ],
    ids=str,
)
def test_an_explainer_comes_back_with_its_surrogate(tmp_path, learner):
    one = explainer(smooth2, DATA.background).fit_surrogate(DATA.background, budget=400, learner=learner, rng=0)
    again = cs.Explainer.load(one.save(tmp_path), smooth2)
    assert again.n_surrogate_evaluations == 400
    assert_array_equal(again(DATA.x, budget=300, rng=0).values, one(DATA.x, budget=300, rng=0).values)


def test_what_cannot_be_shared_is_refused():
    with pytest.raises(cs.InvalidArgumentError, match="`budget` must be a whole number of at least 100"):
        explainer().fit_surrogate(BACKGROUND, budget=10)
    with pytest.raises(cs.InvalidArgumentError, match=r"`learner` must be Trees\(\)"):
        explainer().fit_surrogate(BACKGROUND, learner=cs.Taylor())
    holed = BACKGROUND.copy()
    holed[0, 0] = np.nan
    with pytest.raises(cs.InvalidArgumentError, match="`X` holds NaN"):
        explainer().fit_surrogate(holed)


def test_time_decides_about_trees():
    quick, slow = explainer(seconds_per_evaluation=1e-6), explainer(seconds_per_evaluation=1e-2)
    assert "Trees" not in quick(X, budget=400, rng=0).method[0].split(" + ")
    found = slow(X, budget=400, rng=0)
    assert found.method[0].split(" + ")[-1] == "Trees"
    assert found.controls[0].startswith("LogisticRidge ")
    assert "Trees" in explainer(control="thorough", seconds_per_evaluation=0.0)(X, budget=400, rng=0).controls[0]


def test_thorough_finds_what_a_ridge_does_not():
    auto, thorough = (explainer(control=c)(X, budget=1500, rng=0) for c in ("ridge", "thorough"))
    assert thorough.gain[0] > 1.5 * auto.gain[0]


def test_a_saved_explainer_decides_as_before(tmp_path):
    slow = explainer(seconds_per_evaluation=1e-2)
    again = cs.Explainer.load(slow.save(tmp_path), stepped)
    assert again.plan(budget=400) == slow.plan(budget=400) != explainer().plan(budget=400)


@pytest.mark.parametrize("seconds", [-1.0, np.nan, "fast", True])
def test_seconds_are_checked(seconds):
    with pytest.raises(cs.InvalidArgumentError, match="`seconds_per_evaluation` must be a number of seconds"):
        explainer(seconds_per_evaluation=seconds)


def test_gain_is_one_without_control_and_infinite_where_nothing_is_left():
    plain = explainer(control="none")(X, budget=300, rng=0)
    assert plain.gain.tolist() == [1.0]
    assert plain.controls.tolist() == [""]
    exact = cs.explain(stepped, X, BACKGROUND, budget=2000, rng=0)
    assert exact.status[0] == "exact"
    assert exact.gain.tolist() == [1.0]
    found = cs.Explainer(
        lambda rows: expit(rows @ WEIGHTS), DATA.background, groups=DATA.groups, estimator="permutation"
    )(DATA.x, budget=400, rng=0)
    assert found.gain[0] > 100


def smooth3(rows):
    return np.tanh(rows[:, 0] * rows[:, 1] * rows[:, 2] + rows[:, 3]) + np.sin(rows[:, 4] * rows[:, 5])


def test_a_row_out_of_reach_gets_a_control_of_its_own():
    """The quadrature of a shared network ends at scores of 200; such a row is explained as if nothing was shared."""
    one = explainer(smooth3, seconds_per_evaluation=1e-6)
    one.fit_surrogate(BACKGROUND, budget=1500, rng=0, learner=cs.WideNetwork(n_hidden=16, n_steps=500))
    far = X + np.array([500.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    assert one._assembly.shared.reaches(X, BACKGROUND, one.players)
    assert not one._assembly.shared.reaches(far, BACKGROUND, one.players)
    found = one(np.stack([X, far]), budget=600, rng=0)
    assert found.method[0] == "Permutation + SharedSurrogate"
    assert found.method[1].startswith("Permutation + LogisticRidge")
    plain = explainer(smooth3, seconds_per_evaluation=1e-6)(np.stack([X, far]), budget=600, rng=0)
    assert_array_equal(found.values[1], plain.values[1])


def test_trees_on_a_network_reach_as_far_as_the_network():
    one = explainer(smooth3)
    network = cs.WideNetwork(n_hidden=4, n_steps=200)
    one.fit_surrogate(BACKGROUND, budget=500, rng=0, learner=cs.Trees(n_trees=3, n_leaves=4, start=network))
    assert one._assembly.shared.reaches(X, BACKGROUND, one.players)
    assert not one._assembly.shared.reaches(X + 1e4, BACKGROUND, one.players)
    one.fit_surrogate(BACKGROUND, budget=500, rng=0, learner=cs.Trees(n_trees=3, n_leaves=4, start=None))
    assert one._assembly.shared.reaches(X + 1e4, BACKGROUND, one.players)


@pytest.mark.parametrize("learner", [cs.WideNetwork(n_hidden=4, n_steps=100)], ids=["wide"])
def test_a_wide_network_comes_back_alone_and_under_trees(tmp_path, learner):
    for number, one in enumerate((learner, cs.Trees(n_trees=3, n_leaves=4, start=learner))):
        before = explainer(smooth3).fit_surrogate(BACKGROUND, budget=400, learner=one, rng=0)
        again = cs.Explainer.load(before.save(tmp_path / str(number)), smooth3)
        assert_array_equal(again(X, budget=300, rng=0).values, before(X, budget=300, rng=0).values)


def test_the_best_learner_is_found_and_found_again():
    rows = np.random.default_rng(0).normal(size=(1500, 6))
    candidates = (cs.WideNetwork(n_hidden=16, n_steps=800), cs.Trees(n_trees=30, n_leaves=16))
    for model, kind in ((lambda r: np.tanh(r @ WEIGHTS[:6]), cs.WideNetwork), (stepped, cs.Trees)):
        outputs = np.stack([model(rows), np.full(1500, 2.0)], axis=1)  # one output says nothing
        found = [best_learner(EvaluatedRows(rows, outputs), candidates) for _ in range(2)]
        assert found[0] is found[1]
        assert isinstance(found[0], kind)


def test_what_is_shared_by_default():
    assert default_learners(correlated=False)[0] == cs.WideNetwork()
    assert all(isinstance(one, cs.LogisticRidge | cs.RidgeNetwork) for one in default_learners(correlated=True))


def test_a_constant_model_with_a_shared_surrogate():
    one = cs.Explainer(lambda rows: np.full(len(rows), 3.0), BACKGROUND).fit_surrogate(BACKGROUND, budget=100, rng=0)
    found = one(X, tolerance=0.05, budget=5000, rng=0)
    assert np.abs(found.values).max() < 1e-12
    assert found.standard_errors.max() < 1e-12


@pytest.mark.slow
def test_errors_hold_after_an_early_stop_with_a_shared_surrogate():
    """KernelSHAP is chosen there; 60 runs of one row, stopped by a tolerance."""
    rng = np.random.default_rng(5)
    background, x = rng.normal(size=(60, 8)), rng.normal(size=8)

    def model(rows):
        return smooth3(rows) + 0.4 * rows[:, 6] * rows[:, 7] * rows[:, 0]

    one = cs.Explainer(model, background, seconds_per_evaluation=1e-6)
    one.fit_surrogate(background, budget=1500, rng=0, learner=cs.RidgeNetwork(2))
    found = one(np.tile(x, (60, 1)), tolerance=0.08, budget=9000, rng=1, keep=False)
    assert set(found.method) == {"Kernel + SharedSurrogate"}
    truth = shapley_by_definition(marginal_game(model, x, background, [(j,) for j in range(8)]), 8)[:, 0]
    observed = np.sqrt(((found.values - truth) ** 2).mean())
    assert 0.85 < np.sqrt((found.standard_errors**2).mean()) / observed < 1.2
    low, high = found.confidence_interval(0.95)
    assert 0.9 < ((low <= truth) & (truth <= high)).mean() < 0.985
