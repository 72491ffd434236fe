"""Hill's index on sizes whose tails are known, and values that rest on tails that no sample has."""

import numpy as np
import pytest

import controlshap as cs
from controlshap.statistics.tails import lacks_variance

RUNS = 200


def share(draw, n, seed):
    """Share of samples of n sizes that are said to lack a variance."""
    rng = np.random.default_rng(seed)
    return lacks_variance(np.stack([draw(rng, n) for _ in range(RUNS)])[..., None, None]).mean()


def pareto(index):
    return lambda rng, n: rng.pareto(index, n) + 1.0


@pytest.mark.parametrize("n", [100, 400, 2000])
def test_tails_without_a_variance_are_found(n, global_seed):
    # the estimate has a standard error of 1.2/sqrt(k), and the limit is at 2 (1 + 1/sqrt(k))
    assert share(pareto(1.2), n, global_seed) > 0.9


@pytest.mark.parametrize("n", [400, 2000])
@pytest.mark.parametrize(
    "draw",
    [
        lambda rng, n: np.abs(rng.normal(size=n)),
        lambda rng, n: rng.uniform(size=n),
        lambda rng, n: (rng.uniform(size=n) < 0.3).astype(float),
        lambda rng, n: (rng.uniform(size=n) < 0.002).astype(float),
        pareto(6.0),
    ],
    ids=["normal", "uniform", "labels", "rare labels", "index of 6"],
)
def test_others_are_left_alone(draw, n, global_seed):
    assert share(draw, n, global_seed) < 0.05


def test_the_scale_does_not_matter_and_few_say_nothing():
    sizes = np.random.default_rng(0).pareto(1.0, (300, 1, 1)) + 1.0
    for scale in (1e-200, 1.0, 1e200):
        assert lacks_variance(scale * sizes).all()
    assert not lacks_variance(sizes[:80]).any()
    assert not lacks_variance(np.zeros((300, 1, 1))).any()


def test_tensors_give_the_same():
    torch = pytest.importorskip("torch")
    sizes = np.random.default_rng(1).pareto(1.9, (30, 100, 3, 2)) + 1.0
    found = lacks_variance(torch.as_tensor(sizes)).numpy()
    np.testing.assert_array_equal(found, lacks_variance(sizes))
    assert 0 < found.mean() < 1


@pytest.mark.parametrize("control", ["auto", "none"])
def test_means_of_exponentials_of_wide_scores_are_not_called_reliable(control):
    rng = np.random.default_rng(0)
    mix = 0.3 * rng.normal(size=(8, 8)) + np.eye(8)
    background, x, w = rng.normal(size=(300, 8)) @ mix.T, rng.normal(size=(3, 8)) @ mix.T, rng.normal(size=8)

    def explain(score):
        explainer = cs.Explainer(lambda rows: score(rows @ w), background, features="correlated", control=control)
        return explainer(x, budget=800, rng=0)

    wide, narrow = explain(lambda score: np.exp(1.5 * score)), explain(np.tanh)
    assert not wide.reliable.any()
    assert (wide.degrees_of_freedom <= 2.0).all()
    assert narrow.reliable.all()  # negative control


def test_rare_labels_are_no_tails():
    """Most units show no effect of most players; their mean is no size."""
    rng = np.random.default_rng(1)
    mix = 0.3 * rng.normal(size=(8, 8)) + np.eye(8)
    background, x, w = rng.normal(size=(300, 8)) @ mix.T, rng.normal(size=(6, 8)) @ mix.T, rng.normal(size=8)
    bar = np.quantile(background @ w, 0.95)
    explainer = cs.Explainer(lambda rows: (rows @ w > bar).astype(float), background, features="correlated")
    found = explainer(x, budget=2000, rng=0)
    assert found.reliable[found.standard_errors > 0].mean() > 0.9
