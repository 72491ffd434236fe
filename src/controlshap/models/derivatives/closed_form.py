"""Linear models of scikit-learn, behind a link or not: closed forms and derivatives without model evaluations."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.special import expit, softmax

from controlshap._types import FloatArray
from controlshap.models.derivatives.base import Derivatives, DerivativeSource, Point

#: Models whose value, or whose decision function where they give no probabilities, is linear.
_LINEAR = {
    "sklearn.linear_model": (
        "ARDRegression", "BayesianRidge", "ElasticNet", "ElasticNetCV", "HuberRegressor", "Lars", "LarsCV", "Lasso",
        "LassoCV", "LassoLars", "LassoLarsCV", "LassoLarsIC", "LinearRegression", "MultiTaskElasticNet",
        "MultiTaskElasticNetCV", "MultiTaskLasso", "MultiTaskLassoCV", "OrthogonalMatchingPursuit",
        "OrthogonalMatchingPursuitCV", "PassiveAggressiveClassifier", "PassiveAggressiveRegressor", "Perceptron",
        "QuantileRegressor", "Ridge", "RidgeCV", "RidgeClassifier", "RidgeClassifierCV", "SGDRegressor",
        "TheilSenRegressor",
    ),
    "sklearn.svm": ("LinearSVC", "LinearSVR"),
}  # fmt: skip
_LOGISTIC = {
    "sklearn.linear_model": ("LogisticRegression", "LogisticRegressionCV", "SGDClassifier"),
    "sklearn.discriminant_analysis": ("LinearDiscriminantAnalysis",),
}
_EXPONENTIAL = {"sklearn.linear_model": ("GammaRegressor", "PoissonRegressor", "TweedieRegressor")}


@final
@dataclass(frozen=True)
class ClosedForm(DerivativeSource):
    """Derivatives of `link(intercept + coef . x)`.

    Attributes
    ----------
    coef : ndarray of shape (scores, columns)
    intercept : ndarray of shape (scores,)
    link : str
        "identity", "exponential", "logistic" (one score, the probability of class 1) or "softmax".
    """

    coef: FloatArray
    intercept: FloatArray
    link: str

    def at(self, point: Point, *, second: bool) -> Derivatives:
        """Differentiate the link by the chain rule."""
        score = self.coef @ point.x + self.intercept
        if self.link == "identity":
            o, c = self.coef.shape
            return Derivatives(self.coef, np.zeros((o, c, c)) if second else None)
        if self.link == "exponential":
            slope = np.exp(score)
            return Derivatives(slope[:, None] * self.coef, self._outer(slope) if second else None)
        if self.link == "logistic":
            chance = expit(score)
            slope = chance * (1.0 - chance)
            bend = slope * (1.0 - 2.0 * chance)
            return Derivatives(slope[:, None] * self.coef, self._outer(bend) if second else None)
        chance = softmax(score)
        centred = self.coef - chance @ self.coef  # d log p_o / dx
        gradient = chance[:, None] * centred
        if not second:
            return Derivatives(gradient, None)
        common = np.einsum("k,kc,kd->cd", chance, centred, centred)
        outer = np.einsum("oc,od->ocd", centred, centred)
        return Derivatives(gradient, chance[:, None, None] * (outer - common))

    def _outer(self, bend: FloatArray) -> FloatArray:
        """Second derivatives `(scores, columns, columns)` of functions of one score each, bent so much."""
        return np.asarray(np.einsum("o,oc,od->ocd", bend, self.coef, self.coef))


def closed_form(source: Any) -> ClosedForm | None:
    """Return the closed form of a fitted scikit-learn model, or None if it has none."""
    if not hasattr(source, "coef_"):
        return None
    coef = np.atleast_2d(np.asarray(source.coef_, dtype=float))
    link = _link(source, len(coef))
    if link is None:
        return None
    intercept = np.broadcast_to(np.atleast_1d(np.asarray(source.intercept_, dtype=float)), (len(coef),))
    return ClosedForm(coef, intercept, link)


def _link(source: Any, n_scores: int) -> str | None:
    """The link between linear scores and what a model predicts; None where it is not known."""
    if _is_in(source, _LINEAR):
        return "identity"
    if _is_in(source, _EXPONENTIAL):
        return "identity" if _has_identity_link(source) else "exponential"
    if not _is_in(source, _LOGISTIC):
        return None
    if not hasattr(source, "predict_proba"):
        return "identity"  # of the decision function
    # liblinear and stochastic gradients fit several classes one against the rest: their probabilities are no softmax
    apart = getattr(source, "solver", "") == "liblinear" or hasattr(source, "loss")
    if (apart and n_scores > 1) or getattr(source, "loss", "log_loss") != "log_loss":
        return None
    return "logistic" if n_scores == 1 else "softmax"


def _has_identity_link(source: Any) -> bool:
    """Whether a generalised linear model predicts its score itself, as Tweedie models of power 0 and less may."""
    link = getattr(source, "link", "log")
    return bool(link == "identity" or (link == "auto" and source.power <= 0))


def is_one_of(model: Any, package: str, names: tuple[str, ...]) -> bool:
    """Whether a model is of one of these types exactly: a subclass may predict anything."""
    module = sys.modules.get(package)
    return any(type(model) is getattr(module, name, None) for name in names)


def _is_in(model: Any, types: Mapping[str, tuple[str, ...]]) -> bool:
    return any(is_one_of(model, package, names) for package, names in types.items())
