"""Log-odds of mean probabilities, with the digits of those close to 1.

Of a probability p close to 1 most digits are gone: 1 - p of p = 1 - 3e-15 is 5 % wrong, and log-odds with it. So the
mean of the complements q = 1 - p is taken beside that of p, and `log(mean p) - log(mean q)` is the link. Complements
come from the margin s of a classifier, `q = 1/(1 + exp(s))`, where its probabilities are the logistic or softmax
function of it; else from the probabilities of the other classes; else they are 1 - p.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from controlshap._errors import InvalidArgumentError, ModelOutputError
from controlshap._types import BoolArray, FloatArray
from controlshap.models.model import as_model

#: Mean probabilities and complements are kept this far from 0 before their logarithm is taken, as in shap.
LOGIT_MARGIN = 1e-15
#: Probabilities may leave the interval from 0 to 1, and a margin's may differ from them, by this much, by rounding.
ROUNDING = 1e-6
#: Probabilities of a margin are those of the model where they agree to single precision (of lightgbm and xgboost).
SAME = 1e-6


@dataclass(frozen=True, eq=False)
class LogOdds:
    """Probabilities with complements, and their link.

    Attributes
    ----------
    predict : callable or None
        Margins of the model's inputs, in place of its probabilities.
    n_outputs : int
        Probabilities of a row.
    n_asked : int
        How often the background was predicted: once more for the margins.
    """

    predict: Callable[[Any], Any] | None
    n_outputs: int
    n_asked: int = 1

    def expand(self, outputs: FloatArray) -> FloatArray:
        """Probabilities and complements `(n, 2 outputs)` from what was predicted, `(n, margins or outputs)`."""
        if self.predict is None:
            return np.hstack([outputs, _complements(outputs)])
        if self.n_outputs <= 2:
            low, high = np.exp(-np.logaddexp(0.0, outputs)), np.exp(-np.logaddexp(0.0, -outputs))
            return np.hstack([high, low] if self.n_outputs == 1 else [low, high, high, low])
        exponentials = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        probabilities = exponentials / exponentials.sum(axis=1, keepdims=True)
        return np.hstack([probabilities, _complements(probabilities)])

    def link(self, means: FloatArray) -> FloatArray:
        """Log-odds `(m, outputs)` of mean probabilities and complements `(m, 2 outputs)`; finite at 0 and 1."""
        odd = means[(means < -ROUNDING) | (means > 1.0 + ROUNDING)]
        if len(odd):
            raise ModelOutputError(
                f"`link='logit'` needs a model that returns probabilities, 0 to 1; a mean over the background is "
                f"{odd[0]:.6g}. Leave the link out, or explain a function that returns probabilities."
            )
        logarithms = np.log(np.maximum(means, self.least))
        return logarithms[:, : self.n_outputs] - logarithms[:, self.n_outputs :]

    def is_cut(self, means: FloatArray) -> BoolArray:
        """Where a mean is so close to 0 or 1 that its log-odds are cut."""
        cut: BoolArray = means < self.least
        return cut

    @property
    def least(self) -> float:
        """The least probability: that of shap, where a 0 may be one of a forest, or the least number."""
        return LOGIT_MARGIN if self.predict is None else float(np.finfo(float).tiny)


def find_log_odds(source: Any, inputs: Any, outputs: FloatArray) -> tuple[LogOdds, FloatArray]:
    """Log-odds of a model with these probabilities, from its margin if they are its own; and what `expand` gives."""
    n_outputs = outputs.shape[1]
    plain = LogOdds(None, n_outputs)
    try:
        margin = as_model(getattr(source, "__self__", source), "margin").predict  # of a method, its model
    except InvalidArgumentError:
        return plain, plain.expand(outputs)
    found = LogOdds(margin, n_outputs, n_asked=2)
    margins = np.array(margin(inputs), dtype=float).reshape(len(outputs), -1)
    if margins.shape[1] == (1 if n_outputs <= 2 else n_outputs):
        expanded = found.expand(margins)
        if np.allclose(expanded[:, :n_outputs], outputs, rtol=0.0, atol=SAME):
            return found, expanded
    return replace(plain, n_asked=2), plain.expand(outputs)


def _complements(probabilities: FloatArray) -> FloatArray:
    """1 - p of each output; the sum of the others where they are all classes."""
    n = probabilities.shape[1]
    if n > 1 and np.allclose(probabilities.sum(axis=1), 1.0, rtol=0.0, atol=ROUNDING):
        return probabilities @ (1.0 - np.eye(n))
    return 1.0 - probabilities
