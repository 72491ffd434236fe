"""Terms of units and the even process against the definition, without sampling."""

from itertools import permutations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from controlshap.estimators import Enumeration, Kernel, Permutation
from controlshap.estimators.enumeration import all_coalitions
from controlshap.estimators.kernel import canonical_pairs, size_probabilities
from controlshap.interactions.even_process import EvenPrior, EvenProcess
from controlshap.interactions.index import index_terms, pair_numbers, squared_weights
from controlshap.testing import game_from_values, interactions_by_definition


def exact_pairs(table):
    p = int(np.log2(len(table)))
    return interactions_by_definition(game_from_values(table), p)[..., 0][pair_numbers(p)]


def everything(estimator, p):
    """All designs there are, and the probability of each."""
    if isinstance(estimator, Permutation):
        designs = np.array(list(permutations(range(p))))
        return designs, np.full(len(designs), 1.0 / len(designs))
    if isinstance(estimator, Kernel):
        designs = all_coalitions(p)[1:-1]
        sizes = designs.sum(axis=1)
        return designs, size_probabilities(p)[sizes - 1] / np.bincount(sizes)[sizes]
    return estimator.sample(p, 1, np.random.default_rng(0)), np.ones(1)


@pytest.mark.parametrize("n_players", [2, 3, 5])
@pytest.mark.parametrize(
    "estimator", [Permutation(), Permutation(paired=False), Kernel(), Kernel(paired=False), Enumeration()], ids=repr
)
def test_the_expected_term_is_the_index(estimator, n_players):
    table = np.random.default_rng(n_players).normal(size=2**n_players) + 10.0
    designs, chances = everything(estimator, n_players)
    coalitions, weights = estimator.coalition_weights(designs)
    values = table[coalitions @ (1 << np.arange(n_players))] - 0.5 * (table[0] + table[-1])
    terms = index_terms(coalitions, weights, values)
    assert_allclose(chances @ terms, exact_pairs(table), atol=1e-11)
    # negative control: with the ends left in, the sizes 1 to p - 1 alone are not enough
    assert np.abs(chances @ index_terms(coalitions, weights, values + 1.0) - exact_pairs(table)).max() > 0.1


@pytest.mark.parametrize("estimator", [Permutation(), Kernel(), Enumeration()], ids=repr)
def test_squared_weights_are_those_of_terms_and_alike_for_all_pairs(estimator):
    designs, chances = everything(estimator, 5)
    coalitions, weights = estimator.coalition_weights(designs)
    squares = squared_weights(coalitions, weights)
    one_at_a_time = sum(
        index_terms(coalitions[:, [k]], weights[:, [k]], np.ones((len(weights), 1))) ** 2
        for k in range(weights.shape[1])
    )
    assert_allclose(squares, one_at_a_time, atol=1e-12)
    expected = chances @ squares
    assert_allclose(expected, expected.mean(), rtol=1e-12)


@pytest.mark.parametrize("n_players", [2, 3, 6])
def test_a_process_has_the_interactions_of_its_game(n_players):
    rng = np.random.default_rng(n_players)
    inner = all_coalitions(n_players)[1:-1]
    distinct = np.unique(canonical_pairs(inner), axis=0)
    prior = EvenPrior(rng.uniform(0.01, 1.1, n_players), 1e-9)
    process = EvenProcess.fit(distinct, rng.normal(size=len(distinct)), prior)
    table = process.predict(all_coalitions(n_players))
    assert_allclose(table, table[::-1], atol=1e-9)  # even
    assert_allclose(table[[0, -1]], 0.0, atol=1e-9)
    assert_allclose(process.interactions(), exact_pairs(table), atol=1e-8)


def test_a_process_that_saw_all_coalitions_knows_the_even_part():
    rng = np.random.default_rng(3)
    p = 5
    index = np.triu(rng.normal(size=(p, p)), 1)
    coalitions = all_coalitions(p).astype(float)
    table = np.einsum("ni,ij,nj->n", coalitions, index, coalitions)
    even = 0.5 * (table + table[::-1]) - 0.5 * (table[0] + table[-1])
    chosen = np.unique(canonical_pairs(all_coalitions(p)[1:-1]), axis=0)
    targets = even[chosen @ (1 << np.arange(p))]
    process = EvenProcess.fit(chosen, targets, EvenPrior.choose(chosen, targets))
    assert_allclose(process.interactions(), index[pair_numbers(p)], atol=1e-3)


def test_players_without_interactions_have_little_strength():
    p, rng = 12, np.random.default_rng(4)
    chosen = np.unique(canonical_pairs(rng.random((60, p)) < 0.5), axis=0)  # fewer than there are interactions
    signs = 2.0 * chosen - 1.0
    targets = 2.0 * signs[:, 0] * signs[:, 1] + signs[:, 1] * signs[:, 2] - 3.0
    truth = np.zeros((p, p))
    truth[0, 1], truth[1, 2] = 8.0, 4.0
    prior, alike = EvenPrior.choose(chosen, targets), EvenPrior(np.full(p, np.arctanh(0.25)), 1e-9)
    found, other = (
        EvenProcess.fit(chosen, targets, one).interactions() - truth[pair_numbers(p)] for one in (prior, alike)
    )
    assert prior.strengths[3:].max() < 0.5 * prior.strengths[:3].min()
    assert np.linalg.norm(found) < 0.5 * np.linalg.norm(other)
