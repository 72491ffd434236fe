"""The difference of two explanations: exact where they are, errors that hold, signs that are certified together."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from plot_cases import make

import controlshap as cs

ROWS = np.random.default_rng(0).normal(size=(40, 3))


def test_exact_explanations_have_an_exact_difference():
    explanation = cs.Explainer(lambda x: x[:, 0] * x[:, 1] + x[:, 2], ROWS)(ROWS, rng=0)
    high = ROWS[:, 2] > 0
    found = cs.difference(explanation[high], explanation[~high])
    assert_allclose(found.values, explanation.values[high].mean(0) - explanation.values[~high].mean(0))
    assert_array_equal(found.standard_errors, np.zeros(3))
    assert found.certified.all()
    assert found.order[0] == 2
    assert "3 of 3 signs certified at 95 %" in repr(found)
    frame = found.to_frame()
    assert frame["feature"].tolist() == list(explanation.feature_names)
    assert frame["sign_certified"].all()


def noisy(rng, rows, entropy, shift=0.0):
    """Four players without any effect (but for a shift), with normal errors of known size."""
    template = make(p=4, rows=rows)
    errors = np.full((rows, 4), 0.2)
    return replace(
        template, values=shift + rng.normal(size=(rows, 4)) * errors, standard_errors=errors, entropy=entropy,
        degrees_of_freedom=np.full((rows, 4), np.inf),
    )  # fmt: skip


def test_signs_are_certified_wrongly_in_at_most_five_per_cent_and_intervals_cover():
    rng, n = np.random.default_rng(1), 2000
    found = [cs.difference(noisy(rng, 5, 0), noisy(rng, 9, 1)) for _ in range(n)]
    wrong = np.mean([one.certified.any() for one in found])
    # with errors of known size, Bonferroni over 4 players gives 1 - (1 - 0.05 / 4) ** 4 = 0.049; 4 standard errors
    assert wrong < 0.049 + 4 * np.sqrt(0.049 / n)
    low, high = (np.array(ends) for ends in zip(*(one.confidence_interval() for one in found), strict=True))
    covered = ((low <= 0) & (high >= 0)).mean()
    assert abs(covered - 0.95) < 4 * np.sqrt(0.95 * 0.05 / (4 * n))
    # a negative control: a difference of five standard errors is seen
    shifted = [cs.difference(noisy(rng, 5, 0, 5 * 0.2 * np.sqrt(1 / 5 + 1 / 9)), noisy(rng, 9, 1)) for _ in range(50)]
    assert np.mean([one.certified.all() for one in shifted]) > 0.5


def test_sampled_rows_are_part_of_the_errors():
    rng = np.random.default_rng(2)
    a, b = noisy(rng, 50, 0), noisy(rng, 50, 1)
    plain, sampled = cs.difference(a, b), cs.difference(a, b, sampled_rows=True)
    assert_allclose(sampled.standard_errors, plain.standard_errors, rtol=0.4)  # the noise is all the rows differ by
    wide = replace(a, values=a.values + 3.0 * np.arange(50)[:, None])
    assert (cs.difference(wide, b, sampled_rows=True).standard_errors > 5 * plain.standard_errors).all()


def test_what_cannot_be_compared_is_refused():
    rng = np.random.default_rng(3)
    a = noisy(rng, 5, 0)
    with pytest.raises(cs.InvalidArgumentError, match="same random numbers"):
        cs.difference(a, a)
    cs.difference(a[:2], a[2:])  # rows of one run have random numbers of their own
    with pytest.raises(cs.InvalidArgumentError, match="same players and outputs"):
        cs.difference(a, make(p=5))
    with pytest.raises(cs.InvalidArgumentError, match="at least 2 rows"):
        cs.difference(a[:1], a[2:], sampled_rows=True)


def test_nothing_is_certified_by_an_error_of_zero_before_all_of_the_background_was_used():
    a = replace(make(p=4, kind="exact"), complete=np.zeros(6, dtype=bool))
    assert not cs.difference(a, make(p=4, kind="exact", seed=1)).certified.any()


def test_several_outputs_have_differences_of_their_own():
    a, b = make(p=4, outputs=2), replace(make(p=4, outputs=2, seed=1), entropy=1)
    found = cs.difference(a, b)
    assert found.values.shape == found.certified.shape == (4, 2)
    assert len(found.to_frame()) == 8
    assert "of 8 signs" in repr(found)
