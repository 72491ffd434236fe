"""Closed-form derivatives of scikit-learn's linear and logistic models, without model evaluations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.special import expit, softmax

from controlshap._types import FloatArray
from controlshap.data.players import Players
from controlshap.models.derivatives.base import Derivatives, Point

_LINEAR = {
    "LinearRegression",
    "Ridge",
    "RidgeCV",
    "Lasso",
    "LassoCV",
    "ElasticNet",
    "ElasticNetCV",
    "BayesianRidge",
}
_LOGISTIC = {"LogisticRegression", "LogisticRegressionCV"}


@final
@dataclass(frozen=True)
class ClosedForm:
    """Derivatives of `link(intercept + coef . x)`.

    Attributes
    ----------
    coef : ndarray of shape (scores, columns)
    intercept : ndarray of shape (scores,)
    link : str
        "identity", "logistic" (one score, the probability of class 1) or "softmax".
    """

    coef: FloatArray
    intercept: FloatArray
    link: str

    def cost(self, background: FloatArray, players: Players, budget: int, *, second: bool) -> int:  # noqa: ARG002
        """Return 0: no evaluations are taken."""
        return 0

    def at(self, point: Point, *, second: bool) -> Derivatives:
        """Differentiate the link by the chain rule."""
        score = self.coef @ point.x + self.intercept
        if self.link == "identity":
            o, c = self.coef.shape
            return Derivatives(self.coef, np.zeros((o, c, c)) if second else None)
        if self.link == "logistic":
            chance = expit(score)
            slope = chance * (1.0 - chance)
            bend = slope * (1.0 - 2.0 * chance)
            hessian = np.einsum("o,oc,od->ocd", bend, self.coef, self.coef) if second else None
            return Derivatives(slope[:, None] * self.coef, hessian)
        chance = softmax(score)
        centred = self.coef - chance @ self.coef  # d log p_o / dx
        gradient = chance[:, None] * centred
        if not second:
            return Derivatives(gradient, None)
        common = np.einsum("k,kc,kd->cd", chance, centred, centred)
        outer = np.einsum("oc,od->ocd", centred, centred)
        return Derivatives(gradient, chance[:, None, None] * (outer - common))


def closed_form(source: Any) -> ClosedForm | None:
    """Return the closed form of a fitted scikit-learn model, or None if it has none."""
    owner = type(source)
    if not owner.__module__.startswith("sklearn.linear_model") or not hasattr(source, "coef_"):
        return None
    coef = np.atleast_2d(np.asarray(source.coef_, dtype=float))
    intercept = np.broadcast_to(np.atleast_1d(np.asarray(source.intercept_, dtype=float)), (len(coef),))
    if owner.__name__ in _LINEAR:
        return ClosedForm(coef, intercept, "identity")
    if owner.__name__ in _LOGISTIC:
        # liblinear fits several classes one against the rest; its probabilities are not a softmax.
        if len(coef) > 1 and getattr(source, "solver", "") == "liblinear":
            return None
        return ClosedForm(coef, intercept, "logistic" if len(coef) == 1 else "softmax")
    return None
