"""A model that adds noise to each answer: it is noticed, never exact, and its noise is part of the errors."""

import numpy as np
import pytest

import controlshap as cs
from controlshap.statistics.base_sample import standard_deviation
from controlshap.testing import marginal_game, shapley_by_definition

RNG = np.random.default_rng(0)
BACKGROUND, X = RNG.normal(size=(20, 4)), np.array([0.5, -1.0, 0.3, 1.2])
NOISE = 0.2


def smooth(rows):
    return np.tanh(rows[:, 0] + rows[:, 1] * rows[:, 2]) + 0.5 * rows[:, 3]


TRUTH = np.ravel(shapley_by_definition(marginal_game(smooth, X, BACKGROUND, [[j] for j in range(4)]), 4))


def noisy(seed):
    rng = np.random.default_rng(seed)
    return lambda rows: smooth(rows) + NOISE * rng.normal(size=len(rows))


@pytest.mark.parametrize("settings", [{}, {"estimator": "permutation"}, {"estimator": "kernel", "control": "none"}])
@pytest.mark.parametrize("budget", [300, 4000])
def test_errors_contain_the_noise_of_the_model(settings, budget, global_seed):
    inside, status = [], set()
    for run in range(60):
        with pytest.warns(cs.NoisyModelWarning, match="answers differently"):
            found = cs.Explainer(noisy((global_seed, run)), BACKGROUND, **settings)(X[None], budget=budget, rng=run)
        low, high = found.confidence_interval(0.95)
        inside.append(((low <= TRUTH) & (high >= TRUTH))[0])
        status |= set(found.status)
    inside = np.mean(inside, axis=1)  # players share f(x), so runs are what is independent
    assert inside.mean() > 0.95 - 3.9 * max(inside.std(ddof=1), 0.1) / np.sqrt(60)
    assert "exact" not in status


def test_a_model_without_noise_is_asked_some_rows_more():
    n_rows = []

    def model(rows):
        n_rows.append(len(rows))
        return smooth(rows)

    explainer = cs.Explainer(model, BACKGROUND)
    found = explainer(X[None], budget=2000, rng=0)
    assert found.status[0] == "exact"
    assert n_rows[:2] == [20, 16]
    assert explainer.n_background_evaluations == 36
    assert sum(n_rows) == 36 + found.n_evaluations[0]


def test_rounding_is_no_noise():
    def single(rows):
        return (smooth(rows) * (1.0 + 1e-5 * len(rows) / 20)).astype(np.float32)

    assert cs.Explainer(single, BACKGROUND)(X[None], budget=2000, rng=0).status[0] == "exact"


def flips_labels(rng):
    return lambda rows: (smooth(rows) + 0.5 * rng.normal(size=len(rows)) > 0).astype(float)


def answers_backwards(_):
    return lambda rows: smooth(rows)[::-1].copy()


def less_its_mean(_):
    return lambda rows: smooth(rows) - smooth(rows).mean()


@pytest.mark.parametrize("features", ["independent", "correlated"])
@pytest.mark.parametrize("make", [flips_labels, answers_backwards, less_its_mean])
def test_labels_and_rows_that_depend_on_their_neighbours_are_noticed(make, features):
    """One row that is asked again says nothing of labels far from a boundary, nor of the order of answers."""
    with pytest.warns(cs.NoisyModelWarning, match="rows beside it"):
        found = cs.Explainer(make(np.random.default_rng(0)), BACKGROUND, features=features)(X[None], budget=2000, rng=0)
    assert found.status[0] != "exact"
    assert (found.standard_errors > 0).all()


def test_noise_counts_beside_the_spread_of_answers():
    """Of 0.1 on outputs about 1,000 that vary by 1; of a spread, not of a size."""
    answers = 1_000.0 + np.linspace(0.0, 1.0, 16)[:, None]
    again = answers + 0.1 * (-1.0) ** np.arange(16)[:, None]
    found = standard_deviation(answers, again)
    assert found is not None
    np.testing.assert_allclose(found, 0.1 / np.sqrt(2.0), rtol=1e-9)
    assert standard_deviation(answers, answers + 5e-4) is None
    assert standard_deviation(np.full((16, 1), 1_000.0), np.full((16, 1), 1_000.1)) is None
