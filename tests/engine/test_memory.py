"""Rows are built under the memory limit, and the limit changes nothing but rounding."""

import tracemalloc

import numpy as np
import pytest

import controlshap as cs

MEGABYTE = 2**20
DEFAULT_LIMIT, LEAST_LIMIT = 256 * MEGABYTE, MEGABYTE
FEATURES = ["independent", "correlated"]


def make_background(n_rows, n_columns):
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((n_rows, 3)) @ rng.standard_normal((3, n_columns))
    return factors + rng.standard_normal((n_rows, n_columns)), rng.standard_normal(n_columns) / n_columns


def traced_peak(action):
    """Bytes that were allocated at once by an action, beyond what existed before; numpy reports to tracemalloc."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        action()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["permutation", "kernel"])
@pytest.mark.parametrize("features", FEATURES)
def test_a_large_budget_stays_under_the_default_limit(features, estimator):
    background, slopes = make_background(1000, 30)
    # The model allocates one number for each row, so the peak is the library's own.
    explainer = cs.Explainer(
        lambda rows: np.tanh(rows @ slopes), background, features=features, estimator=estimator, control="taylor"
    )
    used = []

    def explain():
        used.append(explainer(background[:1] + 0.5, budget=200_000, rng=0).n_evaluations[0])

    assert traced_peak(explain) < DEFAULT_LIMIT
    assert 199_000 < used[0] <= 200_000


def test_a_smaller_limit_takes_less_memory():
    background, slopes = make_background(200, 30)

    def peak(limit):
        explainer = cs.Explainer(
            lambda rows: np.tanh(rows @ slopes),
            background,
            estimator="permutation",
            control="none",
            memory_limit=limit,
        )
        return traced_peak(lambda: explainer(background[:1] + 0.5, budget=50_000, rng=0))

    assert peak(2 * MEGABYTE) < 4 * MEGABYTE < peak(DEFAULT_LIMIT)


@pytest.mark.parametrize(
    "estimator",
    [
        cs.Permutation(),
        cs.Permutation(n_draws=40),
        cs.Kernel(),
        cs.Kernel(paired=False, n_draws=7),
        cs.PerFeature(),
        cs.PerFeature(own_draws=True),
    ],
    ids=["permutation", "permutation-draws", "kernel", "kernel-draws", "per-feature", "own-draws"],
)
@pytest.mark.parametrize("features", FEATURES)
def test_the_limit_does_not_change_the_answer(features, estimator):
    background, slopes = make_background(100, 12)

    def model(rows):
        score = rows @ slopes
        return np.stack([np.tanh(score), score**2 + rows[:, 0] * rows[:, 1] * rows[:, 2]], axis=1)

    batches = []
    results = []
    for limit in (DEFAULT_LIMIT, LEAST_LIMIT):
        seen = []

        def recorded(rows, seen=seen):
            seen.append(len(rows))
            return model(rows)

        explainer = cs.Explainer(
            recorded,
            background,
            features=features,
            estimator=estimator,
            control="taylor",
            groups=[[0, 1, 2], [5, 7]],
            memory_limit=limit,
        )
        results.append(explainer(background[:2] + 0.5, budget=12_000, rng=3))
        batches.append(len(seen))
    assert batches[1] > batches[0]
    assert_equal_to_rounding(*results)


@pytest.mark.slow
@pytest.mark.parametrize("features", FEATURES)
def test_one_unit_larger_than_the_limit_is_split(features):
    # 1000 draws of 12 columns for a coalition and its complement do not fit into 1 MB.
    background, slopes = make_background(1000, 12)
    results = [
        cs.Explainer(
            lambda rows: np.tanh(rows @ slopes),
            background,
            features=features,
            estimator=cs.Kernel(n_draws=1000),
            control="none",
            memory_limit=limit,
        )(background[:1] + 0.5, budget=90_000, rng=3)
        for limit in (DEFAULT_LIMIT, LEAST_LIMIT)
    ]
    assert_equal_to_rounding(*results)


def test_a_limit_below_the_least_is_refused():
    background, slopes = make_background(10, 3)
    with pytest.raises(cs.InvalidArgumentError, match="memory_limit"):
        cs.Explainer(lambda rows: rows @ slopes, background, memory_limit=LEAST_LIMIT - 1)


def assert_equal_to_rounding(one, other):
    for name in ("values", "standard_errors", "base_values", "uncontrolled_values", "uncontrolled_standard_errors"):
        np.testing.assert_allclose(getattr(other, name), getattr(one, name), rtol=1e-10, atol=1e-10, err_msg=name)
    np.testing.assert_array_equal(other.n_evaluations, one.n_evaluations)
