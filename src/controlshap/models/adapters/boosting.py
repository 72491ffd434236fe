"""Native boosters of xgboost and lightgbm (their scikit-learn wrappers need no adapter)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def boosting_predict(model: Any) -> Callable[[Any], Any] | None:
    """The prediction function of a native booster, or None for anything else."""
    for package, adapter in (("xgboost", XgboostBooster), ("lightgbm", LightgbmBooster)):
        module = sys.modules.get(package)
        if module is not None and isinstance(model, module.Booster):
            return adapter(model)
    return None


class XgboostBooster:
    """Predictions of an `xgboost.Booster`: probabilities or values, as its objective says."""

    def __init__(self, booster: Any) -> None:
        self.booster = booster

    def __call__(self, rows: Any) -> Any:
        """Predict through a DMatrix with the booster's own feature names."""
        import xgboost

        matrix = xgboost.DMatrix(rows, feature_names=self.booster.feature_names, enable_categorical=True)
        return self.booster.predict(matrix)


class LightgbmBooster:
    """Predictions of a `lightgbm.Booster`: probabilities or values, as its objective says."""

    def __init__(self, booster: Any) -> None:
        self.booster = booster

    def __call__(self, rows: Any) -> Any:
        """Predict."""
        return self.booster.predict(rows)
