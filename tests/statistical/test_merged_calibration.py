"""Runs of many units keep batches of them: unbiased values, calibrated errors, checked as in `test_calibration.py`."""

import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from calibration_cases import BEND, DATA, SLOPE, check, quadratic2, smooth2
from merging_cases import FEW

import controlshap as cs
from controlshap.statistics import two_stage as strata
from controlshap.testing import gaussian_quadratic_game, marginal_game, shapley_by_definition

pytestmark = pytest.mark.slow


@pytest.fixture
def few(monkeypatch):
    """A few hundred units are many."""
    monkeypatch.setattr(strata, "MANY_UNITS", FEW)


@cache
def explainer_and_truth(features, estimator, control):
    target = smooth2 if features == "independent" else quadratic2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cs.ControlShapWarning)
        explainer = cs.Explainer(
            target, DATA.background, features=features, estimator=estimator, control=control, groups=DATA.groups
        )
    if features == "independent":
        game = marginal_game(target, DATA.x, DATA.background, DATA.columns)
    else:
        moments = explainer._assembly.imputer.moments
        covariance = moments.correlation * np.outer(moments.scale, moments.scale)
        game = gaussian_quadratic_game(SLOPE, BEND, DATA.x, moments.mean, covariance, DATA.columns)
    return explainer, shapley_by_definition(game, len(DATA.columns))


CONTROLS = {"none": "none", "taylor": "taylor", "ridge": cs.LogisticRidge(n_folds=3, max_rows=300)}


CELLS = [
    (features, estimator, control)
    for features in ("independent", "correlated")
    for estimator in ("permutation", "kernel", "per_feature")
    for control in CONTROLS
    if (estimator, control) != ("per_feature", "ridge")  # nothing is fitted for it
]


@pytest.mark.parametrize(("features", "estimator", "control"), CELLS)
def test_merged_units_are_unbiased_and_calibrated(features, estimator, control, few, global_seed):
    explainer, truth = explainer_and_truth(features, estimator, CONTROLS[control])
    n = 200 if control == "ridge" else 400  # fits take their time; tolerances follow
    found = explainer(np.tile(DATA.x, (n, 1)), budget=2500 if estimator != "per_feature" else 5000, rng=global_seed)
    check(found, truth)


@pytest.mark.parametrize("estimator", ["permutation", "kernel"])
def test_the_bootstrap_of_merged_units_is_calibrated(estimator, few, global_seed):
    explainer = cs.Explainer(
        smooth2, DATA.background, estimator=estimator, control="none", variance="bootstrap", groups=DATA.groups
    )
    truth = explainer_and_truth("independent", estimator, "none")[1]
    check(explainer(np.tile(DATA.x, (400, 1)), budget=2500, rng=global_seed), truth)


def test_the_check_refuses_errors_that_are_a_sixth_too_small(few, global_seed):
    """Negative control."""
    explainer, truth = explainer_and_truth("correlated", "permutation", "none")
    found = explainer(np.tile(DATA.x, (400, 1)), budget=2500, rng=global_seed)
    with pytest.raises(AssertionError, match="variance ratio"):
        check(replace(found, standard_errors=found.standard_errors / 1.2), truth)
