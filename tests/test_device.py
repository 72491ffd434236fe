"""Many rows of a torch module at once: the same statistics as row by row, the same bits in any chunk."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from math import factorial
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
import torch

import controlshap as cs
from controlshap._errors import BudgetTooSmallError, InvalidArgumentError, ModelOutputError
from controlshap._random import Purpose
from controlshap.analysis import Sample, analyse
from controlshap.background import background_variances
from controlshap.collecting import Names
from controlshap.control import KnownValues
from controlshap.device import device_explanation, wants_device
from controlshap.device.adjusting import Known
from controlshap.device.analysis import analyse as analyse_many
from controlshap.device.analysis import background_variances as variances_many
from controlshap.device.counters import (
    random_integers,
    random_orders,
    random_ranks,
    row_keys,
    standard_normals,
    unit_keys,
)
from controlshap.device.enumeration import enumerate_on_device
from controlshap.device.explain import explain_on_device, explain_problem
from controlshap.device.rows import Conditioner, prefix_masks
from controlshap.device.taylor import derivatives
from controlshap.device.visits import Visits
from controlshap.estimators.terms import MeanTerms
from controlshap.exact import all_coalitions, shapley_values
from controlshap.players import resolve_players
from controlshap.strata import MANY_UNITS, Roots, Strata, visit_sequence
from controlshap.testing import gaussian_quadratic_game, marginal_game, shapley_by_definition
from controlshap.values.gaussian import GaussianConditional
from controlshap.values.marginal import Marginal
from controlshap.variance import Analytic

GROUPS = [[0, 3], [2, 4]]


class InTurn:
    """Deals folds in turn, as the device does with blocks that are in random order already."""

    def permutation(self, n):
        return np.arange(n)


def network(n_columns=5, n_outputs=1, dtype=torch.float64, seed=0):
    torch.manual_seed(seed)
    layers = [torch.nn.Linear(n_columns, 16), torch.nn.Tanh(), torch.nn.Linear(16, n_outputs)]
    module = torch.nn.Sequential(*layers).to(torch.float64)
    with torch.no_grad():
        module[0].weight.mul_(2.0)
    return module.to(dtype)


def data(n_rows=20, n_columns=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_rows, n_columns)) + 0.7 * rng.normal(size=(n_rows, 1))


def bound(features, background, groups=None):
    names = tuple(f"x{i}" for i in range(background.shape[1]))
    return features.bind(background, resolve_players(groups, names), names)


def predictions(module):
    return lambda rows: module(torch.as_tensor(rows)).detach().numpy().astype(float)


# --- the design -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_rows", [1, 2, 5, 20, 37])
def test_visits_are_those_of_the_shuffled_cycles(n_rows):
    for n_units in range(2, 4 * n_rows + 3):
        visits = Visits.in_cycles(n_rows, n_units)
        sequence = visit_sequence(n_rows, n_units, np.random.default_rng(3))
        counts = np.sort(np.bincount(sequence, minlength=n_rows))[::-1]
        np.testing.assert_array_equal(np.sort(visits.counts)[::-1], counts[counts > 0])
        strata = Strata(visits.labels, n_rows)
        np.testing.assert_array_equal(strata.visits, visits.counts)
        assert visits.n_units == n_units
        assert strata.share == visits.share


REGIMES = {
    "independent": Visits.independent(50),
    "many independent": Visits.independent(150),
    "more than many": Visits.independent(MANY_UNITS + 4),
    "two": Visits.independent(2),
    "a part without revisits": Visits.in_cycles(40, 4),
    "less than a cycle": Visits.in_cycles(40, 23),
    "one cycle of few rows": Visits.in_cycles(4, 4),
    "exactly one": Visits.in_cycles(21, 25),
    "one and a half": Visits.in_cycles(20, 32),
    "exactly two": Visits.in_cycles(20, 40),
    "many cycles": Visits.in_cycles(7, 100),
    "one row": Visits.in_cycles(1, 12),
}


@pytest.mark.parametrize("known_error", [False, True, None], ids=["exact", "simulated", "none"])
@pytest.mark.parametrize("options", [(True, True, False), (True, False, True), (False, True, True)])
@pytest.mark.parametrize("regime", REGIMES)
def test_the_same_terms_give_the_same_answers_as_the_core(regime, options, known_error):
    closes_sum, by_folds, base_varies = options
    visits, rng = REGIMES[regime], np.random.default_rng(7)
    r, n, c, o = 3, visits.n_units, 5, 2
    block = rng.normal(size=(r, visits.n_blocks, c, o))[:, visits.labels]
    control = block + rng.normal(size=(r, n, c, o))
    model = 0.8 * control + block + 0.3 * rng.standard_t(3, size=(r, n, c, o))
    model[0, :, 1] = 0.75  # a player without any noise
    if visits.n_blocks > 4:  # for three blocks beside a fold, whether that is chance is a tie that rounding decides
        control[1, :, 2] = 3.0 * model[1, :, 2] + 1e-5 * control[1, :, 2]  # a control that is the model itself
    control[2, :, 0] = 1.0  # and one that does not vary
    if not base_varies:
        model[:, :, -1], control[:, :, -1] = 0.5, 0.25
    total, of_control = rng.normal(size=(r, o)), rng.normal(size=(r, o))
    n_simulated = 8 if known_error else 0
    simulated = 0.01 * rng.normal(size=(r, n_simulated, c, o))
    simulated -= simulated.mean(axis=1, keepdims=True) if n_simulated else 0.0
    values = control.mean(axis=1) + 0.05 * rng.normal(size=(r, c, o))
    size = np.maximum(np.maximum(abs(of_control), abs(values[:, -1])), abs(of_control - values[:, -1]))[:, None]
    tensors = [torch.as_tensor(part) for part in (values, simulated, size)]
    with_control = known_error is not None
    found = analyse_many(
        torch.as_tensor(model), torch.as_tensor(control) if with_control else None,
        Known(*tensors) if with_control else None, torch.as_tensor(total), visits,
        closes_sum=closes_sum, by_folds=by_folds, base_varies=base_varies,
    )  # fmt: skip
    strata = Strata(visits.labels, visits.population)
    for row in range(r):
        functions = [model[row], control[row]] if with_control else [model[row]]
        at_x = np.stack([total[row], of_control[row]][: len(functions)], axis=1)
        terms = MeanTerms(np.stack(functions, axis=-1))
        sample = Sample(terms, strata, np.zeros((0, o, len(functions))), at_x, closes_sum, base_varies)
        known = None
        if with_control:
            roots = Roots(
                simulated[row][..., None], np.zeros(n_simulated, dtype=np.int64), np.full(int(n_simulated > 0), 7.0)
            )
            known = KnownValues(values[row][..., None], roots, np.zeros((0, 1)))
        expected = analyse(sample, Analytic(), known, InTurn(), by_folds=by_folds)
        for ours, theirs in ((found.controlled, expected.controlled), (found.uncontrolled, expected.uncontrolled)):
            np.testing.assert_allclose(ours.values[row], theirs.values, rtol=1e-10, atol=1e-10)
            np.testing.assert_allclose(ours.covariances[row], theirs.covariances, rtol=1e-10, atol=1e-10)
            np.testing.assert_allclose(ours.dof[row], theirs.dof, rtol=1e-9)
        if with_control:
            np.testing.assert_allclose(found.fit.alpha[row], expected.alpha[..., 0], rtol=1e-10, atol=1e-10)
            np.testing.assert_allclose(
                found.fit.squared_correlation[row], expected.variance_reduction, rtol=1e-10, atol=1e-10
            )


@pytest.mark.parametrize("regime", [name for name, visits in REGIMES.items() if np.isfinite(visits.population)])
def test_the_part_of_the_background_is_that_of_the_core(regime):
    visits, rng = REGIMES[regime], np.random.default_rng(1)
    n_rows = int(visits.population)
    terms = rng.normal(size=(2, visits.n_blocks, 4, 2))[:, visits.labels] + rng.normal(size=(2, visits.n_units, 4, 2))
    of_background = rng.normal(size=(n_rows, 2))
    ours = variances_many(torch.as_tensor(terms), visits, torch.as_tensor(of_background))
    for row in range(2):
        theirs = background_variances(
            MeanTerms(terms[row][..., None]), Strata(visits.labels, n_rows), visits.labels[:, None], of_background,
            np.zeros((2, 1)),
        )  # fmt: skip
        if theirs is None:
            assert ours is None
        else:
            np.testing.assert_allclose(ours[row], theirs[:-1], rtol=1e-10, atol=1e-14)


# --- random numbers -------------------------------------------------------------------------------------------------


def keys_of(n_rows, n_units, entropy=5, purpose=Purpose.COALITIONS):
    rows = torch.arange(n_rows).repeat_interleave(n_units)
    units = torch.arange(n_units).repeat(n_rows)
    return unit_keys(row_keys(entropy, purpose, rows), units)


def test_mixing_is_that_of_splitmix64():
    # the first outputs of the reference implementation for seed 1234567
    from controlshap.device.counters import GOLDEN, mix, signed

    states = torch.tensor([signed(1234567 + GOLDEN * k) for k in range(1, 4)])
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert mix(states).tolist() == [signed(number) for number in expected]


@pytest.mark.parametrize("entropy", [0, 1, 2**70])
def test_permutations_are_uniform(entropy):
    ranks = random_ranks(keys_of(60, 400, entropy), 4)
    assert (ranks.sort(dim=1).values == torch.arange(4)).all()
    code = (ranks * torch.tensor([64, 16, 4, 1])).sum(dim=1)
    counts = np.unique(code.numpy(), return_counts=True)[1]
    assert len(counts) == factorial(4)
    assert scipy.stats.chisquare(counts).pvalue > 1e-3


def test_permutations_of_neighbours_are_independent():
    ranks = random_ranks(keys_of(200, 200), 4).reshape(200, 200, 4)[..., 0]
    for one, other in (
        (ranks[:-1], ranks[1:]),  # rows
        (ranks[:, :-1], ranks[:, 1:]),  # units
        (random_ranks(keys_of(200, 200, 5), 4)[:, 0], random_ranks(keys_of(200, 200, 6), 4)[:, 0]),  # entropies
        (ranks.reshape(-1), random_ranks(keys_of(200, 200, 5, Purpose.VISITS), 4)[:, 0]),  # purposes
    ):
        table = np.zeros((4, 4))
        np.add.at(table, (one.reshape(-1).numpy(), other.reshape(-1).numpy()), 1.0)
        assert scipy.stats.chi2_contingency(table).pvalue > 1e-3


def test_a_weak_mix_would_be_noticed():
    rows = torch.arange(200).repeat_interleave(200)
    units = torch.arange(200).repeat(200)
    for keys, weak in ((rows + units, True), (keys_of(200, 200), False)):  # sums are shared by neighbours
        ranks = random_ranks(keys, 4)[:, 0].reshape(200, 200)
        table = np.zeros((4, 4))
        np.add.at(table, (ranks[:-1, 1:].reshape(-1).numpy(), ranks[1:, :-1].reshape(-1).numpy()), 1.0)
        assert (scipy.stats.chi2_contingency(table).pvalue < 1e-3) == weak


def test_orders_integers_and_normals():
    keys = row_keys(3, Purpose.VISITS, torch.arange(6000))
    orders = random_orders(keys, 5)
    first = np.stack([np.bincount(orders[:, k].numpy(), minlength=5) for k in range(5)])
    assert scipy.stats.chisquare(first, axis=1).pvalue.min() > 1e-3
    assert scipy.stats.chisquare(np.bincount(random_integers(keys, 7).numpy(), minlength=7)).pvalue > 1e-3
    normals = standard_normals(keys, 6).numpy()
    assert scipy.stats.kstest(normals.reshape(-1), "norm").pvalue > 1e-3
    correlation = np.corrcoef(normals, rowvar=False) - np.eye(6)
    assert abs(correlation).max() < 4.5 / np.sqrt(6000)


# --- rows -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_columns", [5, 40])
@pytest.mark.parametrize("groups", [None, GROUPS])
def test_conditioned_rows_are_those_of_the_core(groups, n_columns):
    background = data(60, n_columns, seed=2)
    background[:, 1] = 3.0  # constant
    imputer = bound(GaussianConditional(), background, groups)
    p, x = imputer.players.n_players, background[0] + 0.5
    rng = np.random.default_rng(0)
    ranks = np.argsort(rng.permuted(np.tile(np.arange(p), (6, 1)), axis=1), axis=1)
    permutations = np.argsort(ranks, axis=1)
    draws = imputer.sample(6, rng)
    conditioner = Conditioner.of(imputer, torch.device("cpu"))
    by_column = torch.as_tensor(ranks)[:, torch.as_tensor(imputer.players.owner)]
    masks = prefix_masks(by_column, p)
    gaps = conditioner.walk_gaps(by_column, masks, torch.as_tensor(x - draws), grouped=groups is not None)
    rows = torch.as_tensor(x) - gaps
    forward = imputer.walk_rows(x, permutations, draws[:, None])[:, :, 0]
    backward = imputer.walk_rows(x, permutations[:, ::-1], draws[:, None])[:, ::-1, 0]
    np.testing.assert_allclose(rows[:, 0], forward, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(rows[:, 1], backward, rtol=1e-9, atol=1e-9)
    assert (rows[:, 0][masks] == torch.as_tensor(x).expand_as(rows[:, 0])[masks]).all()  # to the bit


def test_latent_columns_are_cut_as_in_the_core():
    rng = np.random.default_rng(0)
    level = rng.integers(0, 3, 80)
    background = np.column_stack([data(80, 2), (rng.random(80) < 0.3) * 2.0 + 1.0, level[:, None] == np.arange(3)])
    with pytest.warns(cs.ControlShapWarning, match="singular"):
        imputer = bound(GaussianConditional(binary="threshold"), background, [[3, 4, 5]])
    rows = rng.normal(size=(50, 6))
    conditioner = Conditioner.of(imputer, torch.device("cpu"))
    np.testing.assert_array_equal(conditioner.to_inputs(torch.as_tensor(rows)), imputer.to_inputs(rows))


# --- whole explanations ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("control", ["none", "taylor"])
@pytest.mark.parametrize("groups", [None, GROUPS])
@pytest.mark.parametrize("budget", [170, 3000])
def test_unbiased_for_independent_features(groups, control, budget):
    """300 runs of one row against enumeration: biases below 4.5 standard errors, errors as observed, 95 % covered.

    With 21 units of 25 background rows and a control, or 3 players and little more than one visit for each row,
    intervals of the core cover less (88 to 90 %), and so do these.
    """
    background, module = data(25), network(n_outputs=2)
    imputer, n = bound(Marginal(), background, groups), 300
    x = background[3] + 0.5
    columns = [list(c) for c in imputer.players.columns]
    truth = shapley_by_definition(marginal_game(predictions(module), x, background, columns), len(columns))
    result = explain_on_device(
        module, np.tile(x, (n, 1)), imputer, budget=budget, entropy=11, control=control, chunk_rows=2**16
    )
    _check_runs(result, truth, calibrated=budget > 170 or (control == "none" and groups is None))
    np.testing.assert_allclose(result.values.sum(axis=1), np.tile(predictions(module)(x[None]), (n, 1)), atol=1e-12)
    np.testing.assert_allclose(result.values[:, -1] - predictions(module)(background).mean(axis=0), 0.0, atol=1e-12)


def _check_runs(result, truth, *, calibrated=True):
    n, errors = len(result.values), result.values[:, :-1] - truth
    observed = errors.std(axis=0, ddof=1)
    assert (abs(errors.mean(axis=0)) < 4.5 * observed / np.sqrt(n)).all()
    if not calibrated:
        return
    claimed = np.sqrt(result.variances[:, :-1].mean(axis=0))
    # a ratio of standard deviations from n runs scatters by 1/sqrt(2n), more for heavy tails
    np.testing.assert_allclose(claimed / observed, 1.0, atol=4.0 / np.sqrt(2 * n) + 0.05)
    critical = scipy.stats.t.ppf(0.975, result.degrees_of_freedom[:, :-1])
    for factor, right in ((1.0, True), (0.6, False)):  # intervals that are too short are noticed
        inside = abs(errors) <= factor * critical * np.sqrt(result.variances[:, :-1])
        covered = inside.mean()
        # players are correlated: as if there were one for each run
        tolerance = 3.0 * np.sqrt(0.95 * 0.05 / n)
        assert (abs(covered - 0.95) < tolerance) == right


class Quadratic(torch.nn.Module):
    """`linear . r + r' quadratic r`, for which conditional values are known."""

    def __init__(self, linear, quadratic):
        super().__init__()
        self.linear = torch.nn.Parameter(torch.as_tensor(linear))
        self.quadratic = torch.nn.Parameter(torch.as_tensor(quadratic))

    def forward(self, rows):
        return rows @ self.linear.T + torch.einsum("nc,ocd,nd->no", rows, self.quadratic, rows)


@pytest.mark.parametrize("groups", [None, GROUPS])
@pytest.mark.parametrize("control", ["none", "taylor"])
@pytest.mark.parametrize("budget", [150, 2000])
def test_unbiased_for_correlated_features(groups, control, budget):
    rng = np.random.default_rng(5)
    background, n = data(50), 300
    linear, quadratic = rng.normal(size=(2, 5)), 0.15 * rng.normal(size=(2, 5, 5))
    quadratic = quadratic + quadratic.transpose(0, 2, 1)
    imputer, x = bound(GaussianConditional(), background, groups), background[1] + 0.3
    columns = [list(c) for c in imputer.players.columns]
    moments = imputer.moments
    game = gaussian_quadratic_game(linear, quadratic, x, moments.mean, moments.covariance, columns)
    truth = shapley_by_definition(game, len(columns))
    result = explain_on_device(
        Quadratic(linear, quadratic), np.tile(x, (n, 1)), imputer, budget=budget, entropy=4, control=control
    )
    _check_runs(result, truth)
    assert (result.variance_reduction.mean() > 0.2) == (control == "taylor")
    assert result.control == ("Taylor" if control == "taylor" else "")


FEATURES = [Marginal(), Marginal(replace=True), GaussianConditional(), GaussianConditional(draws="background")]


@pytest.mark.parametrize("control", ["none", "taylor"])
@pytest.mark.parametrize("groups", [None, GROUPS])
@pytest.mark.parametrize("features", FEATURES, ids=repr)
def test_agrees_with_the_core(features, groups, control):
    background, module = data(30), network(n_outputs=2)
    X, budget = background[:6] + 0.4, 1201
    imputer = bound(features, background, groups)
    result = explain_on_device(module, X, imputer, budget=budget, entropy=0, control=control)
    explainer = cs.Explainer(
        module, background, features=features, estimator="permutation", control=control, groups=groups
    )
    theirs = explainer(X, budget=budget, rng=1)
    errors = np.sqrt(result.variances[:, :-1])
    z = (result.values[:, :-1] - theirs.values) / np.hypot(errors, theirs.standard_errors)
    assert abs(z).max() < 4.5
    np.testing.assert_array_equal(theirs.n_evaluations, result.n_evaluations)
    assert bool(theirs.complete[0]) == result.complete
    # errors of 6 rows together agree within a tenth
    assert np.sqrt((errors**2).sum() / (theirs.standard_errors**2).sum()) == pytest.approx(1.0, abs=0.15)
    assert result.variance_reduction.mean() == pytest.approx(theirs.variance_reduction.mean(), abs=0.1)
    names = Names(imputer.players, imputer.players.names, None)
    settings = theirs.settings
    ours = device_explanation(result, X, names, np.zeros(2), entropy=0, settings=settings)
    assert (ours.method == theirs.method).all()
    assert (ours.background_standard_errors is None) == (theirs.background_standard_errors is None)
    for name in ("values", "standard_errors", "base_values", "base_standard_errors", "uncontrolled_values",
                 "uncontrolled_standard_errors", "variance_reduction", "degrees_of_freedom", "covariance",
                 "n_evaluations", "status", "look_shares", "complete"):  # fmt: skip
        assert getattr(ours, name).shape == getattr(theirs, name).shape, name
    np.testing.assert_allclose(np.einsum("ropp->rpo", ours.covariance), ours.standard_errors**2)
    assert ours.controls[0].startswith("Taylor") == (control == "taylor")


def test_simulated_known_values_of_many_players():
    background, module = data(60, 12), network(12)
    imputer, X, cache = bound(GaussianConditional(), background), background[:3] + 0.2, {}
    result = explain_on_device(module, X, imputer, budget=3000, entropy=0, cache=cache)
    assert not cache["d_matrices"].is_exact
    theirs = cs.Explainer(module, background, "correlated", "permutation", "taylor")(X, budget=20_000, rng=0)
    z = (result.values[:, :-1, 0] - theirs.values) / np.hypot(
        np.sqrt(result.variances[:, :-1, 0]), theirs.standard_errors
    )
    assert abs(z).max() < 4.0
    assert result.control == "Taylor"
    again = explain_on_device(module, X, imputer, budget=3000, entropy=0, cache=cache)
    np.testing.assert_array_equal(again.values, result.values)


def test_auto_uses_the_control_where_it_helps():
    background, module = data(), network()
    correlated = explain_on_device(
        module, background[:2], bound(GaussianConditional(), background), budget=500, entropy=0
    )
    independent = explain_on_device(module, background[:2], bound(Marginal(), background), budget=500, entropy=0)
    assert (correlated.method, independent.method) == ("Permutation + Taylor", "Permutation")
    assert independent.controls == ["", ""]
    assert correlated.controls[0].startswith("Taylor 0.")


# --- chunks, types, modules -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("features", FEATURES, ids=repr)
def test_chunks_change_nothing_but_rounding(features):
    background, module = data(30), network()
    imputer, X = bound(features, background), background[:7]
    whole = explain_on_device(module, X, imputer, budget=400, entropy=3, control="taylor")
    for chunk in (1, 100, 777):
        split = explain_on_device(module, X, imputer, budget=400, entropy=3, control="taylor", chunk_rows=chunk)
        np.testing.assert_allclose(split.values, whole.values, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(split.covariances, whole.covariances, rtol=1e-8, atol=1e-14)
    parts = [
        explain_on_device(module, X[k : k + 3], imputer, budget=400, entropy=3, control="taylor", first_row=k)
        for k in (0, 3, 6)
    ]
    np.testing.assert_allclose(np.concatenate([part.values for part in parts]), whole.values, rtol=1e-10, atol=1e-12)
    other = explain_on_device(module, X, imputer, budget=400, entropy=4, control="taylor")
    assert abs(other.values[:, :-1] - whole.values[:, :-1]).max() > 1e-6


def test_small_groups_of_rows(monkeypatch):
    import controlshap.device.evaluation as path

    background, module = data(30), network()
    imputer = bound(Marginal(), background)
    whole = explain_on_device(module, background, imputer, budget=400, entropy=3)
    monkeypatch.setattr(path, "CPU_BYTES", 2**18)
    split = explain_on_device(module, background, imputer, budget=400, entropy=3)
    np.testing.assert_allclose(split.values, whole.values, rtol=1e-10, atol=1e-12)
    assert split.chunk_rows < whole.chunk_rows


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("features", [Marginal(), GaussianConditional()], ids=repr)
def test_narrow_types(features, dtype):
    """A module in a narrow type against itself, row by row: inputs and outputs are rounded alike."""
    background, module = data(20), network(n_outputs=2, dtype=dtype)
    imputer, X = bound(features, background), background[:4] + 0.3
    result = explain_on_device(module, X, imputer, budget=900, entropy=0)
    theirs = cs.Explainer(module, background, features=features, estimator="permutation", control="none")(
        X, budget=20_000, rng=0
    )
    z = (result.values[:, :-1] - theirs.values) / np.hypot(np.sqrt(result.variances[:, :-1]), theirs.standard_errors)
    assert abs(z).max() < 4.5
    assert result.dtype == str(dtype).removeprefix("torch.")
    assert all(parameter.dtype == dtype for parameter in module.parameters())


class Offset(torch.nn.Module):
    def __init__(self, inner, offset):
        super().__init__()
        self.inner, self.offset = inner, offset

    def forward(self, rows):
        return self.inner(rows) + self.offset


def test_a_large_offset_costs_no_accuracy_in_the_means():
    """Outputs near 2^20 in float32 are multiples of 1/16: the means must not add to that."""
    background = data(20)
    imputer, X = bound(Marginal(), background), background[:3]
    inner = torch.nn.Sequential(torch.nn.Linear(5, 1))
    with torch.no_grad():
        inner[0].weight[:] = torch.tensor([[1.0, 2.0, -1.0, 0.5, 3.0]])
        inner[0].bias.zero_()
    rounded = torch.round(torch.as_tensor(background, dtype=torch.float32) * 4) / 4  # sums are exact in float32
    imputer = bound(Marginal(), rounded.double().numpy())
    X = rounded[:3].double().numpy()
    exact = explain_on_device(Offset(inner, 0.0), X, imputer, budget=2000, entropy=0)
    shifted = explain_on_device(Offset(inner, 2.0**20), X, imputer, budget=2000, entropy=0)
    np.testing.assert_allclose(shifted.values[:, :-1], exact.values[:, :-1], atol=1e-9)
    np.testing.assert_allclose(shifted.values[:, -1] - 2.0**20, exact.values[:, -1], atol=1e-9)


def test_scripted_and_compiled_modules():
    background, module = data(20), network(dtype=torch.float32)
    for features in (Marginal(), GaussianConditional()):
        imputer = bound(features, background)
        plain = explain_on_device(module, background[:3], imputer, budget=600, entropy=0, control="taylor")
        for other in (
            torch.jit.script(module),
            torch.jit.trace(module, torch.zeros(2, 5)),
            torch.compile(module, backend="eager"),
        ):
            found = explain_on_device(other, background[:3], imputer, budget=600, entropy=0, control="taylor")
            np.testing.assert_allclose(found.values, plain.values, rtol=1e-4, atol=1e-5)


def test_modes_are_restored_and_dropout_is_off():
    background = data(20)
    module = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Dropout(0.5), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    module.train()
    module[0].eval()
    imputer = bound(Marginal(), background)
    one = explain_on_device(module, background[:2], imputer, budget=500, entropy=0)
    two = explain_on_device(module, background[:2], imputer, budget=500, entropy=0)
    np.testing.assert_array_equal(one.values, two.values)
    assert [part.training for part in module] == [False, True, True, True]
    assert module.training
    assert all(parameter.grad is None for parameter in module.parameters())


def test_a_module_without_parameters():
    class Sum(torch.nn.Module):
        def forward(self, rows):
            return rows.sum(dim=1)

    background = data(20)
    result = explain_on_device(Sum(), background[:2], bound(Marginal(), background), budget=2000, entropy=0)
    exact = background[:2] - background.mean(axis=0)
    np.testing.assert_allclose(result.values[:, :-1, 0], exact, atol=1e-6)
    assert result.dtype == "float32"


def test_derivatives_are_those_of_a_quadratic():
    rng = np.random.default_rng(0)
    linear, quadratic = rng.normal(size=(2, 4)), rng.normal(size=(2, 4, 4))
    rows = torch.as_tensor(rng.normal(size=(7, 4)))
    with torch.no_grad():
        gradient, hessian = derivatives(Quadratic(linear, quadratic), rows, 2, second=True)
    bend = torch.as_tensor(quadratic + quadratic.transpose(0, 2, 1))
    np.testing.assert_allclose(gradient, torch.as_tensor(linear) + torch.einsum("ocd,nd->noc", bend, rows))
    np.testing.assert_allclose(hessian, bend.expand(7, 2, 4, 4))


def test_a_pair_is_exact_for_two_way_interactions():
    rng = np.random.default_rng(0)
    module = Quadratic(rng.normal(size=(1, 5)), rng.normal(size=(1, 5, 5)))
    background = data(9)
    imputer, x = bound(Marginal(), background), background[0] + 1.0
    result = explain_on_device(module, x[None], imputer, budget=1 + 8 * 18, entropy=0)
    table = np.stack([marginal_game(predictions(module), x, background, [[k] for k in range(5)])(
        frozenset(np.flatnonzero(coalition).tolist())) for coalition in all_coalitions(5)])  # fmt: skip
    np.testing.assert_allclose(result.values[0, :-1], shapley_values(table), atol=1e-10)
    assert result.complete
    assert result.variances.max() < 1e-20


# --- memory and odd modules -----------------------------------------------------------------------------------------


class Forgetful(torch.nn.Module):
    """Runs out of memory on more rows than it may have, or a number of times."""

    def __init__(self, inner, most_rows=10**9, failures=0):
        super().__init__()
        self.inner, self.most_rows, self.failures, self.seen = inner, most_rows, failures, []

    def forward(self, rows):
        self.seen.append(len(rows))
        if len(rows) > self.most_rows or (self.failures and len(rows) > 100):
            self.failures -= 1
            raise torch.OutOfMemoryError("out of memory")
        return self.inner(rows)


@pytest.mark.parametrize("features", [Marginal(), GaussianConditional()], ids=repr)
def test_running_out_of_memory_halves_the_chunk(features):
    background = data(20)
    imputer, X, settings = bound(features, background), background[:5], {"budget": 400, "entropy": 0, "control": "none"}
    plain = explain_on_device(network(), X, imputer, **settings)
    once = Forgetful(network(), failures=1)
    found = explain_on_device(once, X, imputer, **settings)
    np.testing.assert_allclose(found.values, plain.values, rtol=1e-12, atol=1e-13)
    walks = [n for n in once.seen if n > 100]
    assert walks[1] in (walks[0] // 2, walks[0] // 2 - imputer.players.n_players + 1)
    assert found.chunk_rows < plain.chunk_rows
    narrow = Forgetful(network(), most_rows=50)
    split = explain_on_device(narrow, X, imputer, **settings)
    np.testing.assert_allclose(split.values, plain.values, rtol=1e-12, atol=1e-13)
    with pytest.raises(InvalidArgumentError, match=r"ran out of memory with a single pair of walks.*bfloat16"):
        explain_on_device(Forgetful(network(), most_rows=7), X, imputer, **settings)


class Odd(torch.nn.Module):
    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def forward(self, rows):
        return self.answer(rows)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda rows: rows.sum(), r"shape \(\)"),
        (lambda rows: rows[:3, 0], "one value per row"),
        (lambda rows: (rows, rows), "returned tuple"),
        (lambda rows: rows[:, None, :2], "one value per row"),
        (lambda rows: rows[:, :0], "one value per row"),
        (lambda rows: rows[:, : 1 + (len(rows) > 30)], "1 outputs a row before and 2"),
        (lambda rows: torch.where(rows[:, 0] == 77.0, torch.nan, rows[:, 0]), "on row 102 it returned NaN"),
        (lambda rows: torch.where((rows[:, 0] == 77.0) & (rows[:, 1] != 1.0), torch.inf, rows[:, 0]), "on row 102"),
        (lambda rows: rows[:, 0] / 0.0, "on background row 0"),
    ],
)
def test_odd_outputs_are_refused(answer, message):
    background = data(20)
    X = background[:4].copy()
    X[2, :2] = 77.0, 1.0
    with pytest.raises(ModelOutputError, match=message):
        explain_on_device(Odd(answer), X, bound(Marginal(), background), budget=200, entropy=0, first_row=100)


def test_an_error_of_the_module_is_passed_on():
    def fails(rows):
        raise RuntimeError("my own")

    with pytest.raises(RuntimeError, match="my own") as info:
        explain_on_device(Odd(fails), data()[:2], bound(Marginal(), data()), budget=200, entropy=0)
    assert "background rows 0 to 19" in info.value.__notes__[0]


def test_bad_arguments():
    background, module = data(), network()
    imputer = bound(Marginal(), background)
    with pytest.raises(BudgetTooSmallError, match="at least 17 evaluations") as info:
        explain_on_device(module, background[:1], imputer, budget=16, entropy=0)
    assert info.value.needed == 17
    assert explain_on_device(module, background[:1], imputer, budget=17, entropy=0).n_evaluations == 17
    with pytest.raises(InvalidArgumentError, match=r"`device='cuda'`: the module is on 'cpu'"):
        explain_on_device(module, background[:1], imputer, budget=100, entropy=0, device="cuda")
    with pytest.raises(InvalidArgumentError, match="`chunk_rows` must be"):
        explain_on_device(module, background[:1], imputer, budget=100, entropy=0, chunk_rows=0)
    missing = background.copy()
    missing[0, 0] = np.nan
    with pytest.raises(InvalidArgumentError, match="missing values"):
        explain_on_device(module, missing[:1], imputer, budget=100, entropy=0, control="taylor")
    with pytest.raises(InvalidArgumentError, match="two players or more"):
        explain_on_device(module, background[:1], bound(Marginal(), background, [list(range(5))]), budget=9, entropy=0)


# --- where it is used -----------------------------------------------------------------------------------------------


def problem_of(model, budget=3000, **settings):
    explainer = cs.Explainer(model, data(), **settings)
    problem = explainer._assemble(budget)
    from controlshap.arguments import check_stopping

    return problem, lambda **asked: check_stopping(5, budget, *(asked.get(k) for k in (
        "tolerance", "absolute_tolerance", "stop")), 0.95, asked.get("time_limit"))  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "asked", "reason"),
    [
        ({"estimator": "kernel"}, {}, "the estimator is Kernel"),
        ({"estimator": cs.Permutation(paired=False)}, {}, "the estimator is Permutation"),
        ({"estimator": "permutation", "variance": "bootstrap"}, {}, "the variance is Bootstrap"),
        ({"estimator": "permutation", "control": "ridge"}, {}, "the control is"),
        ({"estimator": "permutation", "control": ["taylor", "taylor"]}, {}, "more than one control"),
        ({"estimator": "permutation", "control": "thorough"}, {}, "fits functions"),
        ({"features": GaussianConditional(draws="background")}, {}, "are enumerated"),
        ({"estimator": "permutation"}, {"tolerance": 0.1}, "stop on their own"),
        ({"estimator": "permutation"}, {"time_limit": 9.0}, "stop on their own"),
        ({"groups": [[0, 1, 2, 3, 4]]}, {}, "one player"),
    ],
)
def test_settings_that_are_not_for_the_device(settings, asked, reason):
    problem, stopping = problem_of(network(), **settings)
    with pytest.raises(InvalidArgumentError, match=reason):
        wants_device("cpu", problem, stopping(**asked))
    assert not wants_device(None, problem, stopping(**asked))


def test_the_device_is_used_where_asked_for():
    problem, stopping = problem_of(network(), estimator="permutation")
    assert wants_device("cpu", problem, stopping())
    with pytest.raises(InvalidArgumentError, match="keep=True"):
        wants_device("cpu", problem, stopping(), keep=True)
    with pytest.raises(InvalidArgumentError, match="history=True"):
        wants_device("cpu", problem, replace(stopping(), staged=True))
    assert not wants_device(None, problem, stopping())  # a module on the CPU goes row by row unless asked otherwise
    with pytest.raises(InvalidArgumentError, match="`device` must be None, 'cpu' or 'cuda'"):
        wants_device("tpu", problem, stopping())
    problem, stopping = problem_of(lambda rows: rows[:, 0], estimator="permutation")
    with pytest.raises(InvalidArgumentError, match="not a torch module"):
        wants_device("cpu", problem, stopping())


@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("groups", [None, GROUPS])
@pytest.mark.parametrize("n_rows", [1, 20])
def test_few_players_are_enumerated(groups, n_outputs, n_rows):
    background, module, X = data(n_rows), network(n_outputs=n_outputs), data(7) + 0.3
    explainer = cs.Explainer(module, background, groups=groups)
    theirs = explainer(X, budget=3000, rng=0)
    problem = explainer._assemble(3000)
    assert (theirs.status == "exact").all()
    for settings in ({}, {"chunk_rows": 100}):
        result = explain_problem(problem, X, budget=3000, entropy=0, device="cpu", **settings)
        names = Names(explainer.players, explainer.column_names, None)
        base_error = np.zeros(n_outputs)
        ours = device_explanation(result, X, names, base_error, entropy=0, settings=theirs.settings)
        for name in ("values", "standard_errors", "base_values", "base_standard_errors", "covariance",
                     "degrees_of_freedom", "n_evaluations"):  # fmt: skip
            np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-10, atol=1e-12)
        for name in ("status", "method", "controls", "complete"):
            assert (getattr(ours, name) == getattr(theirs, name)).all()
        if theirs.background_standard_errors is None:
            assert ours.background_standard_errors is None
        else:
            np.testing.assert_allclose(ours.background_standard_errors, theirs.background_standard_errors, rtol=1e-9)
    assert (explainer.refine(ours, budget=100).values == ours.values).all()  # exact rows stay as they are


def test_enumeration_under_pressure():
    background, X = data(20), data(5)
    imputer = bound(Marginal(), background)
    plain = enumerate_on_device(network(), X, imputer)
    halved = enumerate_on_device(Forgetful(network(), most_rows=130), X, imputer)
    np.testing.assert_allclose(halved.values, plain.values, rtol=1e-12, atol=1e-13)
    assert halved.chunk_rows <= 130
    with pytest.raises(InvalidArgumentError, match="single coalition"):
        enumerate_on_device(Forgetful(network(), most_rows=19), X, imputer, at_background=np.zeros((20, 1)))
    X[3, 0] = 77.0
    odd = Odd(lambda rows: torch.where((rows[:, 0] == 77.0) & (rows[:, 1] != X[3, 1]), torch.nan, rows[:, 0]))
    with pytest.raises(ModelOutputError, match="on row 3"):
        enumerate_on_device(odd.double(), X, imputer)


@pytest.mark.parametrize("features", ["independent", "correlated"])
@pytest.mark.parametrize("control", ["auto", "taylor", "none"])
def test_a_problem_of_an_explainer(features, control):
    problem, stopping = problem_of(network(), features=features, estimator="permutation", control=control)
    assert wants_device("cpu", problem, stopping())
    result = explain_problem(problem, data()[:2], budget=1000, entropy=3, device="cpu")
    same = explain_on_device(network(), data()[:2], problem.imputer, budget=1000, entropy=3, control=control)
    np.testing.assert_allclose(result.values, same.values, rtol=1e-12)
    assert ("d_matrices" in problem.cache) == (features == "correlated" and control != "none")


def test_the_benchmark_runs(monkeypatch, tmp_path):
    folder = Path(__file__).parents[1] / "benchmarks"
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("OUT", str(tmp_path))
    import torch_device

    monkeypatch.setattr(torch_device, "SMALL", torch_device.Size(16, 3, 300, 2, 2000, (2**11,)))
    found = torch_device.main(["--small"])
    assert [one["method"] for one in found["overheads"]] == ["Permutation"] * 3 + ["Permutation + Taylor"]
    assert found["memory"]["largest_difference"] < 1e-6
    assert "| float32, correlated, Taylor | Permutation + Taylor |" in (tmp_path / "torch_device.md").read_text()


def test_the_library_does_not_import_torch():
    code = "import controlshap, controlshap.device, sys; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("groups", [None, GROUPS])
@pytest.mark.parametrize("features", FEATURES, ids=repr)
@pytest.mark.parametrize("budget", [150, 900])
def test_nothing_is_read_before_the_end(features, groups, budget, monkeypatch):
    """Tensors without data cannot be read: all goes through but the checks and the copy at the end."""
    import controlshap.device.together as path

    monkeypatch.setattr(path, "refuse_not_finite", lambda *arguments: None)
    module = network(n_outputs=2, dtype=torch.float32).to("meta")
    imputer = bound(features, data(30), groups)
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor") as info:
        explain_on_device(module, data(30)[:4], imputer, budget=budget, entropy=0, control="none")
    assert "one.cpu().numpy()" in str(info.traceback[-1].statement)


@pytest.mark.parametrize("features", [Marginal(), GaussianConditional()], ids=repr)
@pytest.mark.parametrize("control", ["none", "taylor"])
def test_a_module_that_works_in_place_harms_nothing(features, control):
    background, inner = data(20), network()
    X, imputer = background[:3].copy(), bound(features, background)
    settings = {"budget": 300, "entropy": 0, "control": control}

    class InPlace(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = inner

        def forward(self, rows):
            return self.inner(rows.mul_(2.0))

    class Doubled(InPlace):
        def forward(self, rows):
            return self.inner(rows * 2.0)

    found = explain_on_device(InPlace(), X, imputer, **settings)
    expected = explain_on_device(Doubled(), X, imputer, **settings)
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(found.variances, expected.variances, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("features", ["independent", "correlated"])
def test_evaluations_are_those_that_are_told(features):
    seen = []

    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = network()

        def forward(self, rows):
            seen.append(len(rows))
            return self.inner(rows)

    explainer = cs.Explainer(Counting(), data(12), features=features, estimator="permutation", control="none")
    found = explainer(data(4), budget=217, rng=0, device="cpu")
    assert (found.n_evaluations <= 217).all()
    assert sum(seen) == found.n_evaluations.sum() + explainer.n_background_evaluations


@pytest.mark.parametrize("features", ["independent", "correlated"])
def test_a_row_is_explained_alike_alone_and_among_others(features):
    explainer = cs.Explainer(network(n_outputs=2), data(12), features=features, estimator="permutation")
    problem, X = explainer._assemble(217), data(5)
    together = explain_problem(problem, X, budget=217, entropy=5, device="cpu")
    for number in range(5):
        alone = explain_problem(problem, X[number : number + 1], budget=217, entropy=5, device="cpu", first_row=number)
        np.testing.assert_allclose(alone.values[0], together.values[number], rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(alone.variances[0], together.variances[number], rtol=1e-9, atol=1e-16)


def test_names_of_devices():
    explainer = cs.Explainer(network(), data(12), estimator="permutation")
    assert explainer(data(2), budget=100, rng=0, device="cpu:0").settings["device"] == "cpu"
    for device in ("gpu", "cuda:one", "", 0):
        with pytest.raises(InvalidArgumentError, match="`device` must be None"):
            explainer(data(2), budget=100, rng=0, device=device)
    with pytest.raises(ModelOutputError, match="real numbers"):
        explain_on_device(
            Odd(lambda rows: torch.complex(rows[:, 0], rows[:, 1])), data()[:2], bound(Marginal(), data()), budget=200,
            entropy=0,
        )  # fmt: skip
