"""Pairs of coalitions over the whole background: evaluated once, interpolated, and honest about pairs never met."""

import numpy as np
import pytest
from calibration_cases import DATA, smooth2
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer
from sklearn.neural_network import MLPClassifier

import controlshap as cs
from controlshap.controls.coalition_process import FittedProcess, fit_process
from controlshap.estimators.enumeration import all_coalitions, shapley_matrix
from controlshap.sampling import kept
from controlshap.statistics import two_stage as strata
from controlshap.testing import marginal_game, shapley_by_definition

RNG = np.random.default_rng(0)
BACKGROUND, X = RNG.normal(size=(10, 8)), RNG.normal(size=8)
SINGLE = [(j,) for j in range(8)]
FIRST, SECOND = RNG.normal(size=(2, 8))


def bent(rows):
    return np.tanh(0.5 * rows @ FIRST) + 0.3 * np.sin(rows @ SECOND) * rows[:, 0]


TRUTH = shapley_by_definition(marginal_game(bent, X, BACKGROUND, SINGLE), 8)[:, 0]


class Counted:
    def __init__(self, model):
        self.model, self.n_rows = model, 0

    def __call__(self, rows):
        self.n_rows += len(rows)
        return self.model(rows)


@pytest.mark.parametrize("p", [3, 4, 7])
@pytest.mark.parametrize("rho", [0.03, 0.5])
def test_values_of_a_process_are_those_of_its_game(p, rho):
    signs = 2.0 * all_coalitions(p) - 1.0
    rng = np.random.default_rng(1)
    game = FittedProcess(signs[rng.integers(0, len(signs), 5)], rng.normal(size=5), rho)
    assert_allclose(game.values(), shapley_matrix(p) @ game.predict(signs), atol=1e-8 * np.abs(game.values()).max())


def test_a_fitted_process_predicts_pairs_it_has_not_seen():
    signs = 2.0 * all_coalitions(8)[:128] - 1.0  # one of each pair
    targets = np.tanh(signs @ (0.05 * np.arange(1.0, 9.0)))  # odd, with interactions of all odd orders
    seen = np.zeros(128, dtype=bool)
    seen[np.random.default_rng(2).permutation(128)[:90]] = True
    game = fit_process(signs[seen], targets[seen])
    additive = signs @ np.linalg.lstsq(signs[seen], targets[seen], rcond=None)[0]
    left = np.abs(game.predict(signs[~seen]) - targets[~seen]).mean()
    assert left < 0.7 * np.abs(additive[~seen] - targets[~seen]).mean()


@pytest.mark.parametrize("budget", [600, 1500, 2500])
def test_a_pair_is_evaluated_once(budget):
    model = Counted(bent)
    explainer = cs.Explainer(model, BACKGROUND, estimator=cs.Kernel(n_draws=10, reuse=True), control="none")
    explanation = explainer(X, budget=budget, rng=0)
    assert explanation.n_evaluations[0] <= budget
    assert model.n_rows == explanation.n_evaluations[0] + explainer.n_background_evaluations
    assert not model.n_rows > 1 + 10 + 10 * 254  # all coalitions but the ends
    plain = cs.Explainer(bent, BACKGROUND, estimator=cs.Kernel(n_draws=10), control="none")(X, budget=budget, rng=0)
    assert explanation.standard_errors.max() < plain.standard_errors.max()  # more units for the same evaluations


@pytest.mark.parametrize("control", ["none", "auto", "ridge"])
def test_all_pairs_together_are_exact(control):
    explainer = cs.Explainer(bent, BACKGROUND, estimator=cs.Kernel(n_draws=10, reuse=True), control=control)
    found = explainer(X, budget=1 + 20 * 127, rng=0)
    assert_allclose(found.values[0], TRUTH, atol=1e-12)
    assert found.status[0] == "exact"
    assert (found.standard_errors == 0.0).all()
    most = explainer(X, budget=10_000, rng=0)  # there is nothing else to evaluate
    assert most.n_evaluations[0] == found.n_evaluations[0]
    short = explainer(X, budget=20 * 127, rng=0)
    assert short.status[0] == "budget reached"
    assert (short.standard_errors > 0.0).all()


def test_a_run_over_distinct_pairs_can_go_on():
    explainer = cs.Explainer(bent, BACKGROUND, estimator=cs.Kernel(n_draws=10, reuse=True))
    first = explainer(X, budget=900, rng=4)
    assert_array_equal(explainer.refine(first, budget=900).values, explainer(X, budget=1800, rng=4).values)
    last = explainer.refine(first, budget=5000)
    assert last.status[0] == "exact"
    assert_allclose(last.values[0], TRUTH, atol=1e-12)


def test_auto_takes_the_whole_background_where_the_budget_pays_for_it():
    explainer = cs.Explainer(bent, BACKGROUND)
    assert explainer(X, budget=700, rng=0).method[0].startswith("Permutation")  # 34 pairs, not 12 times 8
    found = explainer(X, budget=2000, rng=0)
    assert found.method[0] == "Kernel + CoalitionProcess + CoalitionProcess"
    assert found.status[0] == "budget reached"
    assert explainer(X, budget=2600, rng=0).status[0] == "exact"
    assert explainer(X, tolerance=0.02, budget=2000, rng=0).method[0].startswith("Permutation")


@pytest.mark.slow
def test_values_are_unbiased_and_errors_honest():
    n = 200
    found = cs.Explainer(bent, BACKGROUND)(np.tile(X, (n, 1)), budget=2000, rng=7)
    z = (found.values.mean(axis=0) - TRUTH) / (found.values.std(axis=0, ddof=1) / np.sqrt(n))
    assert np.abs(z).max() < 4.4  # family-wise 1e-4 over 8 players
    observed = np.sqrt(((found.values - TRUTH) ** 2).mean())
    told = np.sqrt((found.standard_errors**2).mean())
    assert 0.85 < told / observed < 1.25
    low, high = found.confidence_interval(0.95)
    assert 0.92 < ((low <= TRUTH) & (high >= TRUTH)).mean() < 0.99
    plain = np.sqrt(((found.uncontrolled_values - TRUTH) ** 2).mean())
    assert observed < 0.5 * plain
    assert (found.gain > 2).mean() > 0.9


def test_groups_and_several_outputs():
    explainer = cs.Explainer(
        smooth2, DATA.background, groups=DATA.groups, estimator=cs.Kernel(n_draws=40, reuse=True), control="coalitions"
    )
    found = explainer(DATA.x, budget=1150, rng=0)
    truth = shapley_by_definition(marginal_game(smooth2, DATA.x, DATA.background, DATA.columns), 4)
    assert np.abs(found.values[0] - truth).max() < 0.2 * np.abs(truth).max()
    assert_allclose(found.values[0].sum(axis=0) + found.base_values[0], smooth2(DATA.x[None])[0], atol=1e-9)


@pytest.mark.parametrize("estimator", ["permutation", "kernel", cs.Kernel(n_draws=5)])
def test_a_process_needs_values_without_noise(estimator):
    with pytest.raises(cs.NoClosedFormError, match=r"CoalitionProcess.*reuse=True"):
        cs.explain(bent, X, BACKGROUND, estimator=estimator, control="coalitions", budget=500)


def test_settings_are_checked():
    with pytest.raises(cs.InvalidArgumentError, match="`max_units` must be a whole number of at least 20"):
        cs.CoalitionProcess(max_units=3)
    with pytest.raises(cs.InvalidArgumentError, match="`reuse=True` takes distinct pairs"):
        cs.Kernel(paired=False, reuse=True)


WIDE = np.random.default_rng(5).normal(size=(2, 16))
WIDE_BACKGROUND = np.random.default_rng(6).normal(size=(12, 16))


def wide(rows):
    return np.stack([np.tanh(0.4 * rows @ WIDE[0]), np.sin(0.3 * rows @ WIDE[1]) * rows[:, 0]], axis=1)


def explain_wide(control, seed=0):
    estimator = cs.Kernel(n_draws=12, reuse=True)
    explainer = cs.Explainer(wide, WIDE_BACKGROUND, estimator=estimator, control=control, memory_limit=2**20)
    return explainer(np.ones(16), budget=20_000, rng=seed, keep=False)


def test_means_over_the_background_are_enough_of_many_coalitions(monkeypatch):
    whole = explain_wide("none")
    monkeypatch.setattr(strata, "MANY_UNITS", 200)  # of 833 pairs that are paid for
    means = explain_wide("none")
    assert_allclose(means.values, whole.values, rtol=0, atol=1e-12)
    assert_allclose(means.standard_errors, whole.standard_errors, rtol=1e-9)
    # the error of the background comes from the first 200 units, whose noise adds to it
    sizes = [np.sqrt((one.background_standard_errors**2).mean()) for one in (means, whole)]
    assert 1.0 < sizes[0] / sizes[1] < 1.2


def test_processes_with_means_are_as_accurate(monkeypatch):
    whole = explain_wide("coalitions")
    monkeypatch.setattr(strata, "MANY_UNITS", 200)
    monkeypatch.setattr(kept, "MOST_EVALUATIONS", 100 * 24)
    means = explain_wide("coalitions")
    # fitted to other rows, so the same within their errors, which are about the same
    z = (means.values - whole.values) / np.hypot(means.standard_errors, whole.standard_errors)
    assert np.abs(z).max() < 4.0
    ratio = np.sqrt((means.standard_errors**2).mean() / (whole.standard_errors**2).mean())
    assert 0.7 < ratio < 1.4
    assert (means.values != whole.values).any()


def test_a_process_that_fits_well_is_taken_off_whole_beside_sizes_taken_whole():
    data = load_breast_cancer()
    columns = data.data[:, 20:]
    columns = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    network = MLPClassifier((20,), activation="tanh", solver="lbfgs", alpha=10.0, max_iter=2000, random_state=0)
    network.fit(columns[100:], data.target[100:])

    def model(rows):
        return network.predict_proba(rows)[:, 1]

    background, estimator, errors = columns[100:120], cs.Kernel(n_draws=20, reuse=True), []
    true = cs.Explainer(model, background)(columns[:2], budget=20 * 2**10, rng=0)
    for control in (cs.CoalitionProcess(), "none"):
        explainer = cs.Explainer(model, background, estimator=estimator, control=control)
        found = explainer(columns[:2], budget=1 + 40 * 175, rng=0)
        errors.append(np.sqrt(np.mean((found.values - true.values) ** 2)))
    # 0.06 with a coefficient from residuals that leave the whole sizes out, 0.010 to 0.014 with that of all
    assert errors[0] < 0.03 * errors[1]
