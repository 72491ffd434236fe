"""Many explained rows at once, in numpy and in torch: what each of them gives on its own."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from controlshap.statistics.analysis import Sample, analyse, background_variances
from controlshap.statistics.control_variate import KnownValues
from controlshap.statistics.covariance_root import CovarianceRoot
from controlshap.statistics.terms import LeastSquaresTerms, MeanTerms
from controlshap.statistics.two_stage import MANY_UNITS, TwoStageDesign
from controlshap.statistics.visits import visit_sequence
from controlshap.variances import Analytic, LeastSquares


def in_lines(n_rows, n_units):
    """Cycles whose units are sorted: whole lines of one visit to each block, and the beginning of another."""
    counts = np.bincount(visit_sequence(n_rows, n_units, None))
    _, block = np.nonzero(np.arange(counts.max())[:, None] < counts)
    return TwoStageDesign(block, n_rows)


def as_visited(n_rows, n_units):
    return TwoStageDesign(visit_sequence(n_rows, n_units, np.random.default_rng(2)), n_rows)


DESIGNS = {
    "independent": TwoStageDesign.independent(50),
    "many independent": TwoStageDesign.independent(150),
    "more than many": TwoStageDesign.independent(MANY_UNITS + 4),
    "two": TwoStageDesign.independent(2),
    "batches": TwoStageDesign(np.arange(30), sizes=np.arange(140, 170)),
    "a part without revisits": in_lines(40, 4),
    "less than a cycle": in_lines(40, 23),
    "less than a cycle, as visited": as_visited(40, 23),
    "one cycle of few rows": in_lines(4, 4),
    "exactly one": in_lines(21, 25),
    "one and a half": in_lines(20, 32),
    "one and a half, as visited": as_visited(20, 32),
    "exactly two": in_lines(20, 40),
    "many cycles": in_lines(7, 100),
    "one row": in_lines(1, 12),
    "exact within": TwoStageDesign(np.arange(15), 20, exact_within=True),
}
N_ROWS, N_COMPONENTS, N_OUTPUTS = 3, 5, 2
KNOWN = {
    "none": (0, 0, False),
    "exact": (1, 0, False),
    "simulated": (1, 8, False),
    "several": (2, 8, False),
    "fitted": (2, 0, True),
}


def case(design, known, *, base_varies, n_base=0):
    """Terms `(r, n, c, o, f)`, v(all), factors of v(0), and known values with their factors and priors."""
    n_controls, n_simulated, fitted = KNOWN[known]
    rng, n = np.random.default_rng(7), design.n_units
    block = rng.normal(size=(N_ROWS, len(design.counts), N_COMPONENTS, N_OUTPUTS))[:, design.index]
    controls = [block + rng.normal(size=(N_ROWS, n, N_COMPONENTS, N_OUTPUTS)) for _ in range(n_controls)]
    model = (
        0.8 * sum(controls, start=block) + block + 0.3 * rng.standard_t(3, size=(N_ROWS, n, N_COMPONENTS, N_OUTPUTS))
    )
    model[0, :, 1] = 0.0  # a player without any noise, not even of rounding
    if controls and len(design.counts) > 4:  # for three blocks beside a fold it is a tie whether that is chance
        controls[0][1, :, 2] = 3.0 * model[1, :, 2] + 1e-5 * controls[0][1, :, 2]  # a control that is the model itself
    if controls:
        controls[0][2, :, 0] = 1.0  # and one that does not vary
    terms = np.stack([model, *controls], axis=-1)
    if not base_varies:
        terms[:, :, -1] = 0.5
    at_x = rng.normal(size=(N_ROWS, N_OUTPUTS, 1 + n_controls))
    base = 0.1 * rng.normal(size=(N_ROWS, n_base, N_OUTPUTS, 1 + n_controls))
    values = terms[..., 1:].mean(axis=1) + 0.05 * rng.normal(size=(N_ROWS, N_COMPONENTS, N_OUTPUTS, n_controls))
    simulated = 0.01 * rng.normal(size=(N_ROWS, n_simulated, N_COMPONENTS, N_OUTPUTS, n_controls))
    priors = np.vstack([np.eye(n_controls), np.full((1, n_controls), 0.5)]) if fitted else np.zeros((0, n_controls))
    return terms, at_x, base, values, simulated, priors


def analysed(design, arrays, options):
    """The analysis of arrays with or without an axis of explained rows."""
    (terms, at_x, base, values, simulated, priors), (efficient, by_folds, base_varies) = arrays, options
    n_simulated = simulated.shape[-4]
    known = None
    if values.shape[-1]:
        part, dof = np.zeros(n_simulated, dtype=np.int64), np.full(int(n_simulated > 0), 7.0)
        inflation = 1.3 if len(priors) else 1.0
        known = KnownValues(values, CovarianceRoot(simulated, part, dof), priors, inflation)
    sample = Sample(MeanTerms(terms), design, base, at_x, efficient, base_varies)
    return analyse(sample, Analytic().roots, known, np.random.default_rng(5), by_folds=by_folds)


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("options", [(True, True, False), (True, False, True), (False, True, True)])
@pytest.mark.parametrize("name", DESIGNS)
def test_rows_together_are_rows_alone(name, options, known, as_array):
    design, base_varies = DESIGNS[name], options[2]
    *arrays, priors = case(design, known, base_varies=base_varies, n_base=0 if base_varies else 6)
    together = analysed(design, [*map(as_array, arrays), priors], options)
    for row in range(N_ROWS):
        alone = analysed(design, [*(array[row] for array in arrays), priors], options)
        for ours, theirs in (
            (together.controlled, alone.controlled),
            (together.uncontrolled, alone.uncontrolled),
        ):
            assert_allclose(ours.values[row], theirs.values, rtol=1e-9, atol=1e-10)
            assert_allclose(ours.variances[row], theirs.variances, rtol=1e-8, atol=1e-10)
            assert_allclose(ours.covariances[row], theirs.covariances, rtol=1e-8, atol=1e-10)
            assert_allclose(ours.dof[row], theirs.dof, rtol=1e-8)
        assert_allclose(together.alpha[row], alone.alpha, rtol=1e-8, atol=1e-10)
        assert_allclose(together.variance_reduction[row], alone.variance_reduction, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", [name for name, design in DESIGNS.items() if np.isfinite(design.population)])
def test_the_part_of_the_background_of_rows_together(name, as_array):
    design, rng = DESIGNS[name], np.random.default_rng(1)
    n_rows = int(design.population)
    block = rng.normal(size=(2, len(design.counts), 4, 2, 1))[:, design.index]
    terms = block + rng.normal(size=(2, design.n_units, 4, 2, 1))
    of_background, at_x = rng.normal(size=(n_rows, 2)), np.zeros((2, 2, 1))
    draws = np.tile(design.labels[:, None], (2, 1, 1))
    together = background_variances(
        MeanTerms(as_array(terms)), design, as_array(draws), as_array(of_background), as_array(at_x)
    )
    for row in range(2):
        alone = background_variances(MeanTerms(terms[row]), design, draws[row], of_background, at_x[row])
        if alone is None:
            assert together is None
        else:
            assert_allclose(together[row], alone, rtol=1e-9, atol=1e-14)


def regression(n_units, n_rows=2, p=5, n_outputs=2, n_functions=3):
    rng = np.random.default_rng(4)
    regressors = np.where(rng.random((n_rows, n_units, p)) < 0.5, 0.5, -0.5)
    regressors[..., 0], regressors[..., 1] = 0.5, np.where(rng.random((n_rows, n_units)) < 0.9, -0.5, 0.5)
    targets = rng.normal(size=(n_rows, n_units, n_outputs, n_functions)) + regressors[..., :1, None]
    total, base = rng.normal(size=(2, n_rows, n_outputs, n_functions))
    return regressors, targets, targets[..., None, :, :], total, base


@pytest.mark.parametrize("name", ["less than a cycle", "one and a half, as visited", "many cycles", "more than many"])
def test_regressions_of_rows_together_are_those_of_rows_alone(name, as_array):
    design = DESIGNS[name]
    arrays = regression(design.n_units)
    together = LeastSquaresTerms(*map(as_array, arrays), paired=True)
    root = LeastSquares().roots(together, design, None)
    for row in range(2):
        alone = LeastSquaresTerms(*(array[row] for array in arrays), paired=True)
        w = design.weights
        for ours, theirs in (
            (together.solve(w[None])[0], alone.solve(w[None])[0]),
            (together.pseudo_values(w), alone.pseudo_values(w)),
            (together.residual_pseudo_values(w), alone.residual_pseudo_values(w)),
            (together.jump_if_unseen(w), alone.jump_if_unseen(w)),
            (root.factors, LeastSquares().roots(alone, design, None).factors),
        ):
            assert_allclose(ours[row], theirs, rtol=1e-8, atol=1e-11)


def test_the_part_of_the_background_of_regressions_together(as_array):
    design, arrays = DESIGNS["many cycles"], regression(100)
    draws, of_background = np.tile(design.labels[:, None], (2, 1, 1)), np.random.default_rng(1).normal(size=(7, 2))
    together = LeastSquaresTerms(*map(as_array, arrays), paired=True)
    found = background_variances(together, design, as_array(draws), as_array(of_background), as_array(arrays[3]))
    for row in range(2):
        alone = LeastSquaresTerms(*(array[row] for array in arrays), paired=True)
        expected = background_variances(alone, design, draws[row], of_background, arrays[3][row])
        assert_allclose(found[row], expected, rtol=1e-9, atol=1e-14)
