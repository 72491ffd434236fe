"""Runs of many units keep batches of them: the parts, and estimates that are the same to rounding.

`MANY_UNITS` is lowered, so that a few hundred units are many.
"""

import numpy as np
import pytest
from merging_cases import BACKGROUND, FEW, RNG, X, explain, model, unit_stream
from scipy.stats import norm

import controlshap as cs
from controlshap._random import Purpose, stream
from controlshap.engine import rows as running
from controlshap.statistics import two_stage
from controlshap.statistics.batched_terms import MergedSquares
from controlshap.statistics.batches import Batches, UnitIds
from controlshap.statistics.terms import LeastSquaresTerms
from controlshap.statistics.two_stage import TwoStageDesign
from controlshap.statistics.visits import visit_sequence

PATHS = [
    (features, estimator)
    for features in ("independent", "correlated", cs.Marginal(replace=True), cs.GaussianConditional(draws="background"))
    for estimator in (
        cs.Permutation(closes_sum=False),
        cs.Kernel(closes_sum=False),
        cs.Kernel(paired=False, n_draws=3, closes_sum=False),
        cs.Kernel(n_draws=37, closes_sum=False),
        cs.PerFeature(closes_sum=False),
    )
]


@pytest.fixture
def few(monkeypatch):
    """A few hundred units are many."""
    monkeypatch.setattr(two_stage, "MANY_UNITS", FEW)


@pytest.mark.parametrize("n_blocks", [2, 3, 7, 40])
@pytest.mark.parametrize("n_units", [5, 100, 333])
def test_visits_in_parts_are_those_of_the_whole_sequence(n_blocks, n_units):
    units, found = unit_stream(n_blocks, 3), []
    while units.n_units < n_units:
        found.append(units.visit(min(13, n_units - units.n_units))[0])
    block, rank = (np.concatenate([getattr(one, name) for one in found]) for name in ("block", "rank"))
    np.testing.assert_array_equal(block, units.restart().visit(n_units)[0].block)
    rng = stream(3, Purpose.VISITS, 0)
    rng.permutation(n_blocks)  # which rows are in which block
    expected = visit_sequence(n_blocks, n_units, np.random.default_rng(int(rng.integers(0, 2**62))))
    np.testing.assert_array_equal(block, expected)
    for number in range(n_blocks):
        np.testing.assert_array_equal(rank[block == number], np.arange((block == number).sum()))


def test_rows_with_replacement_in_parts_are_those_drawn_at_once():
    units = unit_stream(100, 5, "with replacement", n_draws=3)
    found = np.concatenate([units.visit(n)[1] for n in (1, 17, 200, 3)])
    np.testing.assert_array_equal(found, units.restart().visit(221)[1])
    assert np.bincount(found.ravel(), minlength=100).max() > 8 + 3  # some more often than others: in no cycles


@pytest.mark.parametrize("n_blocks", [1, 10, 100])
def test_batches_depend_on_the_units_and_not_on_how_they_were_cut(n_blocks, few):
    values = RNG.normal(size=(1500, 2))
    every = unit_stream(n_blocks, 3).visit(1500)[0]
    whole, parts = Batches(n_blocks), Batches(n_blocks)
    whole.add(every, values)
    for start in range(0, 1500, 70):
        parts.add(every[slice(start, start + 70)], values[start : start + 70])
    np.testing.assert_array_equal(parts.counts, whole.counts)
    np.testing.assert_allclose(parts.sums, whole.sums, rtol=1e-12, atol=1e-12)
    assert whole.sizes.min() > 1
    assert whole.counts.sum() == 1500
    assert len(whole.means()) <= max(FEW, 4 * n_blocks)
    if n_blocks > 1:
        assert ((whole.counts > 0).sum(axis=1) >= 2).all()  # two batches show the variance within a block


@pytest.mark.parametrize("independent", [True, False])
def test_batches_of_one_unit_are_units(independent):
    labels = np.arange(90) if independent else visit_sequence(20, 90, np.random.default_rng(2))
    population = np.inf if independent else 20.0
    values = RNG.normal(size=(90, 3, 1, 1))
    one, other = (
        TwoStageDesign(labels, population),
        TwoStageDesign(labels, population, sizes=np.ones(90, dtype=np.int64)),
    )
    np.testing.assert_allclose(other.weights, one.weights, rtol=1e-12)
    np.testing.assert_allclose(
        other.covariance_root(values).variances(), one.covariance_root(values).variances(), rtol=1e-12
    )
    np.testing.assert_allclose(other.noise_within(values, other.block_means(values)),
                               one.noise_within(values, one.block_means(values)), rtol=1e-12)  # fmt: skip


@pytest.mark.parametrize("kind", ["independent", "cycles", "whole passes"])
def test_the_variance_of_batches_is_that_of_the_estimate(kind, few, global_seed):
    """Over replications, with noise between and within blocks, and last batches of any size."""
    rng, n_blocks = np.random.default_rng(global_seed), 1 if kind == "independent" else 12
    # four places of a block: batches of 2, or of 4, 4 and 1
    n_units = {"independent": 150, "cycles": 12 * 6 + 5, "whole passes": 12 * 9}[kind]
    effects = 0.0 if kind == "independent" else 3.0 * rng.normal(size=n_blocks)
    estimates, variances, ignored = [], [], []
    for seed in range(2000):
        units = unit_stream(n_blocks, seed).visit(n_units)[0]
        noise = rng.normal(size=n_units)
        batches = Batches(n_blocks)
        batches.add(units, (noise if kind == "independent" else effects[units.block] + noise)[:, None, None, None])
        design = batches.design(np.inf if kind == "independent" else n_blocks)
        means = batches.means()
        estimates.append(float(np.tensordot(design.weights, means, axes=1).squeeze()))
        variances.append(float(design.covariance_root(means).variances().squeeze()))
        plain = TwoStageDesign(design.labels, design.population)
        ignored.append(float(plain.covariance_root(means).variances().squeeze()))
    assert batches.sizes.min() > 1
    observed = np.var(estimates, ddof=1)
    # relative errors of the two variances: sqrt(2/n) for a normal estimate, and that of a mean
    limit = norm.isf(1e-5) * np.hypot(np.sqrt(2 / 2000), np.std(variances) / np.mean(variances) / np.sqrt(2000))
    assert abs(np.log(np.mean(variances) / observed)) < limit
    # negative control: a last batch taken for a full one
    if kind == "whole passes":
        assert abs(np.log(np.mean(ignored) / observed)) > limit


@pytest.mark.parametrize("paired", [True, False])
def test_a_row_that_is_visited_more_often_than_others_counts_no_more_in_residuals(paired):
    """Batches of one unit each are the pseudo-values of the units; most of the units are visits to one row."""
    rng, n, p = np.random.default_rng(3), 200, 4
    blocks = np.where(np.arange(n) % 3 > 0, 0, 1 + np.arange(n) % 5)
    rank = np.array([(blocks[:k] == blocks[k]).sum() for k in range(n)])
    regressors = (rng.random((n, p)) < 0.5) - (0.5 if paired else 0.0)
    targets = rng.normal(size=(n, 1, 1, 1)) + 20.0 * (blocks == 0)[:, None, None, None] * regressors[:, :1, None, None]
    total, base = np.full((1, 1), 3.0), np.full((1, 1), 0.0 if paired else 0.5)
    units = LeastSquaresTerms(regressors, targets[:, 0], targets, total, base, paired)
    batches = Batches(6)
    merged = MergedSquares.start_from(batches, units.first(50))
    merged.add(UnitIds(np.arange(n), blocks, rank), units)
    design = batches.design(6)
    found = merged.terms(lambda: [(UnitIds(np.arange(n), blocks, rank), regressors)], batches.unit_weights(design))
    order = np.lexsort([rank, blocks])  # of batches: block by block
    weights = TwoStageDesign(blocks, 6.0).weights
    np.testing.assert_allclose(found.values, units.pseudo_values(weights)[order], rtol=1e-9, atol=1e-9)
    alike = units.pseudo_values(np.full(n, 1.0 / n))[order]
    assert np.abs(found.values - alike).max() > 1.0  # with all units alike, values and residuals are others


def test_a_block_of_many_visits_leaves_the_batches_of_others_as_they_are(few):
    blocks = np.where(np.arange(1500) % 10 > 0, 0, 1 + np.arange(1500) // 10 % 6)
    rank = np.array([(blocks[:k] == blocks[k]).sum() for k in range(1500)])
    batches = Batches(7)
    batches.add(UnitIds(np.arange(1500), blocks, rank), np.ones((1500, 1)))
    assert (batches.sizes[1:] == batches.sizes[1]).all()
    assert batches.sizes[0] >= 16 * batches.sizes[1]  # 54 times as many visits
    np.testing.assert_array_equal(batches.means(), 1.0)


@pytest.mark.parametrize(("features", "estimator"), PATHS, ids=str)
def test_merged_units_give_the_same_estimate(features, estimator, monkeypatch):
    if estimator == cs.Kernel(n_draws=37, closes_sum=False) and features != "independent":
        estimator = cs.Kernel(n_draws=30, closes_sum=False)  # blocks that overlap
    plain = explain(features, estimator)
    monkeypatch.setattr(two_stage, "MANY_UNITS", FEW)
    merged = explain(features, estimator)
    np.testing.assert_array_equal(merged.n_evaluations, plain.n_evaluations)
    np.testing.assert_allclose(merged.values, plain.values, rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(merged.base_values, plain.base_values, rtol=1e-10, atol=1e-11)
    assert (merged.standard_errors != plain.standard_errors).any()  # from batches, indeed
    if plain.background_standard_errors is not None:
        np.testing.assert_allclose(
            merged.background_standard_errors,
            plain.background_standard_errors,
            atol=0.15
            * plain.background_standard_errors.max(),  # the noise within rows, which is taken off, is estimated
        )


@pytest.mark.parametrize("features", ["independent", "correlated"])
def test_up_to_the_limit_nothing_is_merged(features, monkeypatch):
    # a pair of walks of 6 players takes 10 evaluations, 11 with f(b); four visits to each row of a background
    most, cost = (4 * len(BACKGROUND), 10) if features == "independent" else (FEW, 11)
    plain = explain(features, budget=most * cost + 1)
    monkeypatch.setattr(two_stage, "MANY_UNITS", FEW)
    monkeypatch.setattr(Batches, "add", None)
    np.testing.assert_array_equal(explain(features, budget=most * cost + 1).standard_errors, plain.standard_errors)
    with pytest.raises(TypeError):
        explain(features, budget=(most + 1) * cost + 1)


@pytest.mark.parametrize("control", ["none", "taylor", cs.LogisticRidge(max_rows=300)], ids=str)
@pytest.mark.parametrize("estimator", ["permutation", "kernel"])
@pytest.mark.parametrize("features", ["independent", "correlated"])
def test_the_memory_limit_changes_nothing_but_rounding(features, estimator, control, few):
    results = [explain(features, estimator, control, memory_limit=limit) for limit in (2**20, 2**28)]
    for name in ("values", "standard_errors", "uncontrolled_values"):
        np.testing.assert_allclose(getattr(results[1], name), getattr(results[0], name), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("estimator", ["permutation", "kernel"])
@pytest.mark.parametrize("control", ["none", cs.LogisticRidge(max_rows=300)], ids=str)
@pytest.mark.parametrize("first", [400, 3000], ids=["from few units", "from many"])
def test_a_refined_run_is_the_longer_run(control, estimator, first, few):
    explainer = cs.Explainer(model, BACKGROUND, estimator=estimator, control=control)
    refined = explainer.refine(explainer(X, budget=first, rng=1), budget=6000)
    whole = explainer(X, budget=int(refined.n_evaluations[0]), rng=1)
    np.testing.assert_array_equal(refined.n_evaluations, whole.n_evaluations)
    for name in ("values", "standard_errors"):
        np.testing.assert_allclose(getattr(refined, name), getattr(whole, name), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("control", ["none", cs.LogisticRidge(max_rows=300)], ids=str)
def test_looks_before_and_after_units_are_merged(control, few):
    explainer = cs.Explainer(model, BACKGROUND, estimator="permutation", control=control)
    looked = explainer(X, budget=20_000, absolute_tolerance=4e-3, rng=1)
    assert looked.status[0] == "converged"
    assert looked.standard_errors.max() <= 4e-3
    assert 4 * len(BACKGROUND) * 10 < looked.n_evaluations[0] < 20_000
    whole = explainer(X, budget=int(looked.n_evaluations[0]), rng=1)
    np.testing.assert_allclose(looked.values, whole.values, rtol=1e-7, atol=1e-9)


def test_evaluations_beyond_the_limit_are_not_gathered_by_default(monkeypatch, few):
    assert explain(budget=3000).evaluations is not None
    monkeypatch.setattr(running, "KEPT", 1000 * 8)
    assert explain(budget=3000).evaluations is None
    assert explain(budget=3000, keep=True).evaluations is not None


def test_grouped_errors_still_go_by_units(few):
    found = explain(variance=cs.Grouped(20), budget=5000)
    assert np.isfinite(found.standard_errors).all()
