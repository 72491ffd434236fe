"""Arguments that only shap's KernelExplainer has: links, and the selection of features."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from controlshap._errors import ControlShapWarning, InvalidArgumentError, ModelOutputError
from controlshap._types import FloatArray

Link: TypeAlias = Callable[[FloatArray], FloatArray]

#: Probabilities are kept this far from 0 and 1 before their log-odds are taken, as in shap.
LOGIT_MARGIN = 1e-15
#: Means of probabilities may leave 0 to 1 by rounding.
ROUNDING = 1e-6


def resolve_link(link: Any) -> Link:
    """The link as a function of arrays."""
    name = link if isinstance(link, str) else getattr(link, "__name__", str(link))
    if name == "identity":
        return identity
    if name == "logit":
        return logit
    function = getattr(link, "f", link)
    if not callable(function):
        raise InvalidArgumentError(f"`link` must be 'identity', 'logit', a link of shap or a function; got {link!r}.")
    elementwise: Link = np.vectorize(function, otypes=[float])
    return elementwise


def identity(outputs: FloatArray) -> FloatArray:
    """The outputs themselves."""
    return outputs


def logit(probabilities: FloatArray) -> FloatArray:
    """Log-odds, finite at 0 and 1."""
    odd = probabilities[(probabilities < -ROUNDING) | (probabilities > 1.0 + ROUNDING)]
    if len(odd):
        raise ModelOutputError(
            f"`link='logit'` needs a model that returns probabilities, 0 to 1; a mean over the background is "
            f"{odd[0]:.6g}. Leave the link out, or explain a function that returns probabilities."
        )
    kept = np.clip(probabilities, LOGIT_MARGIN, 1.0 - LOGIT_MARGIN)
    odds: FloatArray = np.log(kept / (1.0 - kept))
    return odds


def check_l1_reg(l1_reg: Any) -> None:
    """Warn of a value that asks shap to select features; refuse what shap does not know."""
    if l1_reg is None or (isinstance(l1_reg, str) and l1_reg == "auto"):
        return
    number = isinstance(l1_reg, (bool, int, float, np.number)) and 0 <= l1_reg < np.inf
    if number and l1_reg == 0:
        return
    if not number and not (isinstance(l1_reg, str) and re.fullmatch(r"aic|bic|num_features\(\d+\)", l1_reg)):
        raise InvalidArgumentError(
            f"`l1_reg` must be one of shap's values (False, 0, 'auto', 'aic', 'bic', 'num_features(10)', a positive "
            f"number); got {l1_reg!r}. Leave it out: nothing is selected here."
        )
    warnings.warn(
        f"`l1_reg={l1_reg!r}` has no effect: no features are selected, all values are estimated and none is set to 0. "
        "Leave it out, or pass l1_reg=False. `explanation.ranking()` says which values are certain to be the largest.",
        ControlShapWarning,
        stacklevel=3,
    )
