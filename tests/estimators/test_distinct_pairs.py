"""Distinct pairs of coalitions: shares of sizes, equal chances, and errors of what was not taken."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chisquare

from controlshap.estimators.distinct_pairs import deal_pairs
from controlshap.estimators.enumeration import all_coalitions, shapley_values
from controlshap.statistics.size_strata import SizeStrata, count_by_size, count_pairs, n_pairs, pair_weights
from controlshap.statistics.terms import LeastSquaresTerms
from controlshap.statistics.two_stage import TwoStageDesign

LEVEL = 1e-4


@pytest.mark.parametrize("p", [2, 3, 4, 5, 6, 9, 10])
def test_all_pairs_come_once(p):
    dealt = deal_pairs(p, 10_000, np.random.default_rng(p))
    assert len(dealt) == n_pairs(p) == sum(count_pairs(p))
    keys = np.where(dealt[:, :1], dealt, ~dealt) @ (1 << np.arange(p))
    assert len(np.unique(keys)) == len(dealt)
    assert_array_equal(count_by_size(dealt), count_pairs(p))


def test_a_shorter_sequence_is_the_beginning_of_a_longer_one():
    whole = deal_pairs(9, 255, np.random.default_rng(3))
    for n in (1, 7, 60, 200, 254):
        assert_array_equal(deal_pairs(9, n, np.random.default_rng(3)), whole[:n])


def test_sizes_have_their_share_or_all_there_is():
    p, n = 12, 200
    counts = count_by_size(deal_pairs(p, n, np.random.default_rng(0)))
    there, weights = np.array(count_pairs(p)), pair_weights(p)
    assert counts[0] == there[0] == 12  # whole
    assert (counts[1:] < there[1:]).all()
    shares = (n - 12) * weights[1:] / weights[1:].sum()
    assert np.abs(counts[1:] - shares).max() <= len(shares) / 2  # seats by quotients


def test_players_are_met_equally_often():
    dealt = deal_pairs(20, 300, np.random.default_rng(1))
    for size in range(2, 9):
        of_size = dealt[dealt.sum(axis=1) == size]
        at_random = len(of_size) * size / 20 * (1 - size / 20)
        assert of_size.sum(axis=0).var() < 0.3 * at_random  # not 0: hands that were dealt before are thrown away


def test_every_pair_of_a_size_has_the_same_chance(global_seed):
    rng = np.random.default_rng(global_seed)
    counts = np.zeros(2**6)
    for _ in range(2000):
        dealt = deal_pairs(6, 12, rng)
        np.add.at(counts, dealt[dealt.sum(axis=1) == 2] @ (1 << np.arange(6)), 1.0)
    met = counts[all_coalitions(6).sum(axis=1) == 2]
    # without replacement and balanced, counts vary less than independent ones
    assert chisquare(met).pvalue > LEVEL
    assert chisquare(met + np.arange(15) * 0.05 * met.mean()).pvalue < LEVEL


def regression(table, dealt):
    """Terms of a game given as a table, for these pairs."""
    p = dealt.shape[1]
    numbers = dealt @ (1 << np.arange(p))
    targets = 0.5 * (table[numbers] - table[2**p - 1 - numbers])[:, None, None]
    total, base = np.array([[table[-1] - table[0]]]), np.array([[table[0]]])
    return LeastSquaresTerms(dealt - 0.5, targets, targets[:, None], total, base, True, True)


def weights_of(terms):
    return np.full((1, terms.n_units), 1.0 / terms.n_units)


@pytest.mark.parametrize("p", [3, 4, 7, 8])
def test_all_pairs_give_shapley_values(p):
    table = np.random.default_rng(p).normal(size=2**p)
    terms = regression(table, deal_pairs(p, n_pairs(p), np.random.default_rng(0)))
    assert_allclose(terms.solve(weights_of(terms))[0, :-1, 0, 0], shapley_values(table), atol=1e-12)
    assert terms.is_whole


def test_errors_are_those_of_a_sample_without_replacement(global_seed):
    p, n, repetitions = 8, 70, 400
    rng = np.random.default_rng(global_seed)
    table = rng.normal(size=2**p)
    truth, found, told, plain = shapley_values(table), [], [], []
    for _ in range(repetitions):
        terms = regression(table, deal_pairs(p, n, rng))
        design = TwoStageDesign(np.zeros(n, dtype=int), 1)
        factors = design.covariance_root(terms.residual_pseudo_values(design.weights)).factors[:, :-1, 0, 0]
        found.append(terms.solve(weights_of(terms))[0, :-1, 0, 0])
        told.append((factors**2).sum(axis=0))
        plain.append((factors**2 / np.maximum(terms.sizes.unseen, 1e-9)[:, None]).sum(axis=0))
    observed = ((np.array(found) - truth) ** 2).mean()
    # 3,200 dependent squares: 6 % at one in a thousand
    assert 0.88 < np.mean(told) / observed < 1.15
    assert np.mean(plain) / observed > 1.5  # control: as if pairs were drawn again


def test_sizes_that_are_missing_make_nothing_whole():
    some = np.zeros((6, 6), dtype=bool)
    some[np.arange(6), np.arange(6)] = True
    strata = SizeStrata.of(some)
    assert (strata.unseen == 1.0).all()
    assert not strata.is_whole
