"""`KernelExplainer` answers the calls of shap's, with its numbers where both are exact."""

import re

import numpy as np
import pandas as pd
import pytest
import shap
from numpy.testing import assert_allclose, assert_array_equal
from shap_cases import BACKGROUND, FRAME, MARKS, NAMES, X, both, column, probability, wide

import controlshap as cs
from controlshap.shap_compat.explainer import KernelExplainer
from controlshap.statistics.base_sample import REPEATED

pytestmark = MARKS


BACKGROUNDS = {
    "array": BACKGROUND,
    "frame": FRAME,
    "one row": BACKGROUND[:1],
    "sample": shap.sample(X, 10),
    "weights": shap.kmeans(X, 6),
    "weights of a frame": shap.kmeans(pd.DataFrame(X, columns=NAMES), 6),
    "series": FRAME.iloc[0],
}


ROWS = {
    "rows": X[:3],
    "one row": X[0],
    "rows of one": X[:1],
    "frame": pd.DataFrame(X[:3], columns=NAMES),
    "series": pd.Series(X[0], index=NAMES),
}


@pytest.mark.parametrize("link", ["identity", "logit"])
@pytest.mark.parametrize("model", [probability, column, both])
@pytest.mark.parametrize("background", list(BACKGROUNDS))
def test_numbers_and_shapes_are_shaps(background, model, link):
    data = BACKGROUNDS[background]
    theirs = shap.KernelExplainer(model, data, link=link)
    ours = KernelExplainer(model, data, link=link)
    assert type(ours.expected_value) is type(theirs.expected_value)
    assert_allclose(ours.expected_value, theirs.expected_value, atol=1e-9)
    assert_allclose(ours.data.weights, theirs.data.weights)
    assert_allclose(ours.data.data, theirs.data.data)
    for rows in ROWS.values():
        expected = theirs.shap_values(rows, silent=True, l1_reg=False)
        found = ours.shap_values(rows, nsamples="auto", l1_reg=False, silent=True)
        assert found.shape == expected.shape
        assert_allclose(found, expected, atol=1e-6)
        assert (ours.explanation.status == "exact").all()
    for rows in (ROWS["rows"], ROWS["frame"]):
        expected, found = theirs(rows, silent=True, l1_reg=False), ours(rows, silent=True)
        assert isinstance(found, shap.Explanation)
        assert found.shape == expected.shape
        assert_allclose(found.values, expected.values, atol=1e-6)
        assert_allclose(found.base_values, expected.base_values, atol=1e-9)
        assert_array_equal(found.data, expected.data)


def test_one_row_called_is_one_row():
    found = KernelExplainer(probability, FRAME)(pd.Series(X[0], index=NAMES))
    assert found.shape == (5,)
    assert_allclose(found.values.sum() + found.base_values, probability(X[:1])[0])


@pytest.mark.parametrize("link", ["identity", "logit"])
def test_values_sum_to_the_link_of_the_prediction_when_sampled(link, global_seed):
    rng = np.random.default_rng(global_seed)
    weights = rng.normal(size=14)
    background, rows = rng.normal(size=(6, 14)), rng.normal(size=(2, 14))

    def model(inputs):
        return 1.0 / (1.0 + np.exp(-np.tanh(inputs @ weights) - inputs[:, 0] * inputs[:, 1] * inputs[:, 2]))

    explainer = KernelExplainer(model, background, link=link, rng=global_seed)
    values = explainer.shap_values(rows, nsamples=200)
    at_rows = model(rows) if link == "identity" else np.log(model(rows) / (1.0 - model(rows)))
    assert_allclose(values.sum(axis=1) + explainer.expected_value, at_rows, atol=1e-9)
    assert (explainer.explanation.standard_errors > 0).all()
    assert (explainer.explanation.n_evaluations <= 200 * 6 + 1).all()
    # errors of different rows must not be made of the same random numbers: equal rows get different estimates
    twice = explainer.shap_values(rows[[0, 0]], nsamples=200)
    assert not np.array_equal(twice[0], twice[1])


def counted(model):
    def counting(rows):
        counting.n += len(rows)
        return model(rows)

    counting.n = 0
    return counting


@pytest.mark.parametrize("link", ["identity", "logit"])
@pytest.mark.parametrize("nsamples", ["auto", 300, 64])
def test_nsamples_costs_at_most_what_it_costs_in_shap(nsamples, link):
    background = np.random.default_rng(0).normal(size=(5, 12))
    costs = []
    for kind in (shap.KernelExplainer, KernelExplainer):
        model = counted(lambda rows: 0.5 + 0.4 * wide(rows))
        explainer = kind(model, background, link=link)
        explainer.shap_values(background[:2] + 1.0, nsamples=nsamples, silent=True, l1_reg=False)
        costs.append(model.n)
    repeated = costs[1] - explainer.explanation.n_evaluations.sum() - len(background)
    # rows are asked again: a model that adds noise is noticed
    assert repeated == (REPEATED if link == "identity" else 0)
    assert costs[1] - repeated <= costs[0]


def test_budget_and_tolerance_are_taken_too():
    background = np.random.default_rng(0).normal(size=(5, 12))
    explainer = KernelExplainer(wide, background)
    explainer.shap_values(background[:1] + 1.0, budget=700, gc_collect=True)
    assert explainer.explanation.n_evaluations[0] <= 700
    explainer.shap_values(background[:1] + 1.0, tolerance=0.2, n_jobs=1)
    assert explainer.explanation.status.tolist() == ["converged"]
    linked = KernelExplainer(lambda rows: 0.5 + 0.4 * wide(rows), background, link="logit")
    linked.shap_values(background[:1] + 1.0, tolerance=0.2)
    assert linked.explanation.status.tolist() == ["converged"]
    linked.shap_values(background[:1] + 1.0, budget=700)
    assert linked.explanation.n_evaluations[0] <= 700
    for one in (explainer, linked):
        with pytest.raises(cs.InvalidArgumentError, match="both limit"):
            one.shap_values(background, nsamples=100, budget=100)
        with pytest.raises(cs.InvalidArgumentError, match="`nsamples` must be 'auto'"):
            one.shap_values(background, nsamples="many")
        with pytest.raises(cs.InvalidArgumentError, match="`nsamples` must be a whole number"):
            one.shap_values(background, nsamples=0)
        with pytest.raises(cs.BudgetTooSmallError, match="budget"):
            one.shap_values(background, nsamples=1)
    with pytest.raises(cs.BudgetTooSmallError) as caught:
        linked.shap_values(background, nsamples=1)
    linked.shap_values(background[:1] + 1.0, budget=caught.value.needed)


@pytest.mark.parametrize("link", ["identity", "logit"])
def test_the_global_seed_has_no_part_in_the_numbers(link):
    background = np.random.default_rng(0).normal(size=(5, 14))
    rows = background[:2] + 1.0

    def model(inputs):
        return 0.5 + 0.4 * wide(inputs)

    found = {"ours": [], "shap's": []}
    for seed in (0, 1):
        np.random.seed(seed)  # noqa: NPY002
        before = np.random.get_state()  # noqa: NPY002
        found["ours"].append(KernelExplainer(model, background, link=link).shap_values(rows, nsamples=200))
        after = np.random.get_state()  # noqa: NPY002
        assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
        theirs = shap.KernelExplainer(model, background, link=link)
        found["shap's"].append(theirs.shap_values(rows, nsamples=200, silent=True, l1_reg=False))
    assert_array_equal(*found["ours"])
    assert not np.allclose(*found["shap's"])
    explainer = KernelExplainer(model, background, link=link, seed=4)
    first = explainer.shap_values(rows, nsamples=200)
    assert_array_equal(first, explainer.shap_values(rows, nsamples=200))
    assert_array_equal(first, KernelExplainer(model, background, link=link, rng=4).shap_values(rows, nsamples=200))
    assert not np.allclose(first, found["ours"][0])
    with pytest.raises(cs.InvalidArgumentError, match="names for the same thing"):
        KernelExplainer(model, background, rng=1, seed=1)


def test_nothing_is_selected_and_a_wish_for_it_is_answered():
    background = np.random.default_rng(0).normal(size=(5, 12))
    rows = background[:1] + 1.0
    theirs = shap.KernelExplainer(wide, background).shap_values(rows, silent=True)
    assert (theirs == 0).sum() == 2  # num_features(10) is shap's default
    few = {"nsamples": 200}
    ours = KernelExplainer(wide, background)
    for quiet in (False, 0, "auto", None, 0.0):
        assert (ours.shap_values(rows, l1_reg=quiet, **few) != 0).all()
    for loud in ("num_features(10)", "aic", "bic", 0.01, True):
        with pytest.warns(cs.ControlShapWarning, match="no features are selected") as caught:
            found = ours.shap_values(rows, l1_reg=loud, **few)
        assert caught[0].filename == __file__
        assert (found != 0).all()
    with pytest.warns(cs.ControlShapWarning, match="no features are selected") as caught:
        ours(rows, "num_features(3)", **few)
    assert [one.filename for one in caught] == [__file__]
    for wrong in ("num_features", "lasso", -1.0, [1], np.nan):
        with pytest.raises(cs.InvalidArgumentError, match="`l1_reg`"):
            ours.shap_values(rows, l1_reg=wrong, **few)


def test_unknown_settings_are_errors_here_and_ignored_in_shap():
    shap.KernelExplainer(probability, BACKGROUND, budget=3, whatever=1)
    with pytest.raises(cs.InvalidArgumentError, match=r"no settings \['budget'\]. Pass \['budget'\] to `shap_values`"):
        KernelExplainer(probability, BACKGROUND, budget=3)
    with pytest.raises(cs.InvalidArgumentError, match=r"\['whatever'\]. The settings are"):
        KernelExplainer(probability, BACKGROUND, whatever=1)


def test_workers_give_the_same_numbers():
    explainer = KernelExplainer(both, BACKGROUND[:4], link="logit")
    expected = explainer.shap_values(X[:3], nsamples=20)
    assert_array_equal(explainer.shap_values(X[:3], nsamples=20, n_jobs=2), expected)


@pytest.mark.parametrize("link", ["identity", "logit"])
def test_too_few_samples_are_told_in_samples(link):
    background = np.random.default_rng(0).normal(size=(10, 14))
    explainer = KernelExplainer(lambda rows: 0.5 + 0.4 * wide(rows), background, link=link)
    with pytest.raises(cs.BudgetTooSmallError, match=r"`nsamples` (must be )?at least \d+") as caught:
        explainer.shap_values(background[:1] + 1.0, nsamples=1)
    least = int(re.search(r"`nsamples` (?:must be )?at least (\d+)", str(caught.value)).group(1))
    assert explainer.shap_values(background[:1] + 1.0, nsamples=least).shape == (1, 14)
    with pytest.raises(cs.BudgetTooSmallError):
        explainer.shap_values(background[:1] + 1.0, nsamples=least - 1)
