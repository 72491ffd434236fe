"""What a device draws: random numbers that are uniform and independent, and rows that are those of the core."""

from __future__ import annotations

from math import factorial

import numpy as np
import pytest
import scipy.stats
import torch
from device_cases import GROUPS, bound, data

import controlshap as cs
from controlshap._arrays import prefix_masks
from controlshap._random import Purpose
from controlshap.engine.device.counters import (
    random_integers,
    random_orders,
    random_ranks,
    row_keys,
    standard_normals,
    unit_keys,
)
from controlshap.engine.device.rows import Conditioner
from controlshap.values.gaussian import GaussianConditional


def keys_of(n_rows, n_units, entropy=5, purpose=Purpose.COALITIONS):
    rows = torch.arange(n_rows).repeat_interleave(n_units)
    units = torch.arange(n_units).repeat(n_rows)
    return unit_keys(row_keys(entropy, purpose, rows), units)


def test_mixing_is_that_of_splitmix64():
    # the first outputs of the reference implementation for seed 1234567
    from controlshap.engine.device.counters import GOLDEN, mix, to_signed

    states = torch.tensor([to_signed(1234567 + GOLDEN * k) for k in range(1, 4)])
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert mix(states).tolist() == [to_signed(number) for number in expected]


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
    gaps = conditioner.walk_gaps(by_column, masks, torch.as_tensor(x - draws))
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
