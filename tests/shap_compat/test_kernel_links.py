"""Links of the mean over the background: the game, its errors, and what is refused."""

import decimal
import itertools
import math

import numpy as np
import pytest
import shap
from numpy.testing import assert_allclose, assert_array_equal
from shap_cases import BACKGROUND, MARKS, X, probability, wide
from sklearn.linear_model import LogisticRegression

import controlshap as cs
from controlshap.shap_compat.explainer import KernelExplainer

pytestmark = MARKS


def test_a_linked_game_is_estimated_without_bias_and_with_the_right_errors(global_seed):
    """Mean and spread of the errors over 60 seeds, at level 1e-4.

    The spread has at least 59 degrees of freedom: chi-squared over 59 lies between 0.47 and 1.80, and its root against
    a standard error that is right to 10 % between 0.67 and 1.61.
    """
    rng = np.random.default_rng(3)
    weights, last = rng.normal(size=(9, 6)), rng.normal(size=6)
    background, row = rng.normal(size=(8, 9)), rng.normal(size=(1, 9))

    def model(rows):
        return 1.0 / (1.0 + np.exp(-np.tanh(rows @ weights) @ last))

    exact = KernelExplainer(model, background, link="logit").shap_values(row, nsamples=510)
    values, errors = [], []
    for seed in range(60):
        explainer = KernelExplainer(model, background, link="logit", rng=60 * global_seed + seed)
        values.append(explainer.shap_values(row, nsamples=150)[0])
        errors.append(explainer.explanation.standard_errors[0])
    gaps = np.array(values) - exact
    observed = gaps.std(axis=0, ddof=1)
    # nine values at level 1e-4 together: two-sided normal quantile of 1e-4 / 18
    assert np.abs(gaps.mean(axis=0) / observed * np.sqrt(60)).max() < 4.6
    ratio = np.sqrt((np.array(errors) ** 2).mean() / (gaps**2).mean())
    assert 0.67 < ratio < 1.61
    assert not 0.67 < ratio / 2.5 < 1.61
    shifted = gaps + observed
    assert np.abs(shifted.mean(axis=0) / observed * np.sqrt(60)).max() > 4.6


def test_a_link_of_means_is_not_a_mean_of_links():
    """What the page says about log-odds: both are to be had, and they differ."""
    of_means = KernelExplainer(probability, BACKGROUND, link="logit").shap_values(X[:1])
    of_odds = KernelExplainer(lambda rows: np.log(probability(rows) / (1 - probability(rows))), BACKGROUND)
    assert not np.allclose(of_means, of_odds.shap_values(X[:1]), atol=0.01)


def test_other_links_are_functions():
    found = KernelExplainer(probability, BACKGROUND, link=np.log1p)
    assert_allclose(found.expected_value, np.log1p(probability(BACKGROUND).mean()))
    assert KernelExplainer(probability, BACKGROUND, link=shap.links.identity)._explainer is not None
    assert_allclose(
        KernelExplainer(probability, BACKGROUND, link=shap.links.logit).shap_values(X[:1]),
        KernelExplainer(probability, BACKGROUND, link="logit").shap_values(X[:1]),
    )
    for name, of_shap in (("identity", shap.utils._legacy.IdentityLink()), ("logit", shap.utils._legacy.LogitLink())):
        theirs = shap.KernelExplainer(probability, BACKGROUND, link=of_shap)
        ours = KernelExplainer(probability, BACKGROUND, link=of_shap)
        assert_allclose(ours.shap_values(X[:1]), theirs.shap_values(X[:1], silent=True, l1_reg=False), atol=1e-6)
        assert str(ours.link) == name
    for wrong in ("probit", 3):
        with pytest.raises(cs.InvalidArgumentError, match="`link` must be"):
            KernelExplainer(probability, BACKGROUND, link=wrong)
    with pytest.raises(cs.ModelOutputError, match="finite"):
        KernelExplainer(probability, BACKGROUND, link=lambda mean: np.inf if mean > 0 else 0.0).shap_values(X[:1])


@pytest.mark.parametrize("control", ["none", "taylor", "ridge"])
def test_controls_of_a_linked_game(control, global_seed):
    """Each value lies within the interval at level 1 - 1e-4 for all twelve together."""
    background = np.random.default_rng(0).normal(size=(5, 12))
    rows = background[:1] + 1.0

    def model(inputs):
        return 0.5 + 0.4 * wide(inputs)

    exact = KernelExplainer(model, background, link="logit").shap_values(rows, nsamples=4094)
    explainer = KernelExplainer(model, background, link="logit", control=control, rng=global_seed)
    explainer.shap_values(rows, nsamples=1000)
    low, high = explainer.explanation.confidence_interval(1 - 1e-4, simultaneous=True)
    assert ((low < exact) & (exact < high)).all()
    assert (high < exact + 5.0).all()


def test_correlated_features_estimate_their_expected_value():
    explainer = KernelExplainer(probability, BACKGROUND, features="correlated")
    with pytest.raises(cs.InvalidArgumentError, match="`expected_value` is estimated"):
        _ = explainer.expected_value
    values = explainer.shap_values(X[:1], budget=2000)
    assert_allclose(values.sum() + explainer.expected_value, probability(X[:1])[0], atol=1e-9)
    for link, data in (("logit", BACKGROUND), ("identity", shap.kmeans(X, 3))):
        with pytest.raises(cs.InvalidArgumentError, match="need features='independent'"):
            KernelExplainer(probability, data, link=link, features="correlated")


def test_linked_explanations_are_whole_explanations(tmp_path):
    explainer = KernelExplainer(
        lambda rows: 0.5 + 0.4 * wide(rows), np.random.default_rng(0).normal(size=(5, 12)), link="logit"
    )
    explainer.shap_values(explainer.data.data[:3] + 1.0, nsamples=300)
    explanation = explainer.explanation
    assert explanation.covariance.shape == (3, 12, 12)
    assert explanation.settings["link"] == "logit"
    low, high = explanation.confidence_interval(simultaneous=True)
    assert (low < high).all()
    assert len(explanation.ranking().order) == 3
    assert explanation.summary() is not None
    again = cs.load(explanation.save(tmp_path / "saved"))
    assert_array_equal(again.values, explanation.values)
    assert "12 players" in repr(explanation)


def test_links_that_are_not_finite_or_of_no_probabilities_are_told():
    with pytest.raises(cs.ModelOutputError, match="`link='logit'` needs a model that returns probabilities"):
        KernelExplainer(lambda rows: 3.0 * probability(rows), BACKGROUND, link="logit").shap_values(X[:2])
    # at 0 and 1 the log-odds are cut, as in shap
    certain = KernelExplainer(lambda rows: (rows[:, 0] > 0).astype(float), BACKGROUND, link="logit")
    theirs = shap.KernelExplainer(certain.model, BACKGROUND, link="logit")
    with pytest.warns(cs.ControlShapWarning, match="were cut at 34.5, as in shap"):
        ours = certain.shap_values(X[:2])
    assert_allclose(
        ours, theirs.shap_values(X[:2], silent=True, l1_reg=False), atol=1e-3
    )  # shap's 1 - 1e-15 is rounded
    with pytest.raises(cs.ModelOutputError, match="`link` must give finite values; on the background it gave -inf"):
        KernelExplainer(lambda rows: np.zeros(len(rows)), BACKGROUND, link=np.log)
    explainer = KernelExplainer(lambda rows: np.where(rows[:, 0] == X[1, 0], 0.0, 1.0), BACKGROUND, link=np.log)
    with pytest.raises(cs.ModelOutputError, match="`link` must give finite values; on row 1 it gave -inf"):
        explainer.shap_values(X[:2])


def exact_log_odds(scores_of, row, background):
    """Shapley values of log-odds of the mean probability, by definition, with 60 digits."""
    p, context = len(row), decimal.Context(prec=60)

    def value(coalition):
        mixed = [
            [x if j in coalition else b for j, (x, b) in enumerate(zip(row, other, strict=True))]
            for other in background
        ]
        odds = [context.exp(scores_of(rows)) for rows in mixed]
        ones = sum((o / (1 + o) for o in odds), decimal.Decimal(0))
        zeros = sum((1 / (1 + o) for o in odds), decimal.Decimal(0))
        return context.ln(ones) - context.ln(zeros)

    with decimal.localcontext(context):
        values = []
        for j in range(p):
            others = [k for k in range(p) if k != j]
            total = decimal.Decimal(0)
            for size in range(p):
                weight = decimal.Decimal(math.factorial(size) * math.factorial(p - size - 1)) / math.factorial(p)
                for coalition in itertools.combinations(others, size):
                    total += weight * (value({*coalition, j}) - value(set(coalition)))
            values.append(float(total))
    return np.array(values)


@pytest.mark.parametrize("offset", [0.0, 38.0, 300.0, -300.0])
@pytest.mark.parametrize("outputs", [1, 2])
def test_saturated_log_odds_keep_their_digits(offset, outputs):
    """A classifier whose probabilities are 1 to all digits, against decimals; before, all values were 0."""
    model = LogisticRegression().fit(np.vstack([BACKGROUND, -BACKGROUND]), np.repeat([0, 1], len(BACKGROUND)))
    model.coef_, model.intercept_ = np.linspace(-3.0, 4.0, BACKGROUND.shape[1])[None], np.array([offset])
    background, row = BACKGROUND[:4], X[0]
    explainer = KernelExplainer(model.predict_proba if outputs == 2 else model, background, link="logit")
    found = explainer.shap_values(row)
    slopes = [decimal.Decimal(float(c)) for c in model.coef_[0]]

    def score(values):
        return sum(
            (c * decimal.Decimal(float(v)) for c, v in zip(slopes, values, strict=True)), decimal.Decimal(offset)
        )

    exact = exact_log_odds(score, row, background)
    assert np.abs(exact).max() > 0.5
    assert_allclose(found if outputs == 1 else found[:, 1], exact, rtol=1e-9, atol=1e-9)
    if outputs == 2:
        assert_allclose(found[:, 0], -exact, rtol=1e-9, atol=1e-9)
    assert explainer.explanation.settings["n_background_evaluations"] == 2 * len(background)


def test_the_other_classes_keep_digits_that_a_probability_has_lost():
    """Without a margin: of two columns the small one has all digits, of one column alone nothing is to be had."""

    def both(rows):
        small = np.exp(-30.0 - np.abs(rows).sum(axis=1))
        return np.column_stack([small, 1.0 - small])

    background, row = BACKGROUND[:1], X[0]
    found = KernelExplainer(both, background, link="logit").shap_values(row)
    assert_allclose(found[:, 1], -found[:, 0], rtol=1e-12)
    assert_allclose(found[:, 1], np.abs(row) - np.abs(background[0]), rtol=1e-9)
    alone = KernelExplainer(lambda rows: both(rows)[:, 1], background, link="logit").shap_values(row)
    assert np.abs(alone - found[:, 1]).max() > 1e-3


def test_a_decision_function_that_is_no_margin_is_not_used():
    class Odd:
        classes_ = np.array([0, 1])

        def predict_proba(self, rows):
            return np.column_stack([1.0 - probability(rows), probability(rows)])

        def decision_function(self, rows):
            return 2.0 * np.log(probability(rows) / (1.0 - probability(rows)))

    model = Odd()
    found = KernelExplainer(model.predict_proba, BACKGROUND, link="logit").shap_values(X[:1])[..., 1]
    assert_allclose(found, KernelExplainer(probability, BACKGROUND, link="logit").shap_values(X[:1]), rtol=1e-9)
