"""Visits and statistics of many rows at once on a device: those of the core, from the same terms."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from controlshap.engine.device.adjusting import Known
from controlshap.engine.device.analysis import analyse as analyse_many
from controlshap.engine.device.analysis import background_variances as variances_many
from controlshap.engine.device.visits import Visits
from controlshap.statistics.analysis import Sample, analyse
from controlshap.statistics.background_error import background_variances
from controlshap.statistics.control_variate import KnownValues
from controlshap.statistics.terms import MeanTerms
from controlshap.statistics.two_stage import MANY_UNITS, Roots, Strata, visit_sequence
from controlshap.variances import Analytic


class InTurn:
    """Deals folds in turn, as the device does with blocks that are in random order already."""

    def permutation(self, n):
        return np.arange(n)


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
        expected = analyse(sample, Analytic().roots, known, InTurn(), by_folds=by_folds)
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
