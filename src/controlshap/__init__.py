"""Shapley values of predictions with calibrated errors, stabilised by control variates."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from controlshap import metrics
from controlshap._errors import (
    BudgetTooSmallError,
    ControlShapError,
    ControlShapWarning,
    ErraticVarianceWarning,
    InvalidArgumentError,
    MissingExtraError,
    ModelOutputError,
    NoClosedFormError,
    NoisyModelWarning,
    NotConvergedWarning,
    NotExactWarning,
    RunStoppedError,
    SingularCovarianceWarning,
    SingularSystemError,
    WeakControlWarning,
)
from controlshap._progress import Progress
from controlshap._version import __version__
from controlshap.controls import (
    CoalitionProcess,
    Control,
    LogisticRidge,
    Polynomial,
    RidgeNetwork,
    Taylor,
    Trees,
    WaveNetwork,
    WideNetwork,
)
from controlshap.data.pipelines import EncodedSpace, encoded_space, one_hot_groups
from controlshap.engine.plan import Plan
from controlshap.estimators import Estimator, Kernel, PerFeature, Permutation
from controlshap.explainer import Explainer, explain
from controlshap.functions import KnownFunction
from controlshap.models.derivatives import FiniteDifferences
from controlshap.results.check import Check
from controlshap.results.explanation import Explanation, History
from controlshap.results.interactions import Interactions, PairRanking
from controlshap.results.ranking import Ranking
from controlshap.results.summary import Summary
from controlshap.storage.explanations import load
from controlshap.values import (
    Causal,
    Empirical,
    GaussianConditional,
    Imputer,
    Marginal,
    Mixture,
    Sampler,
    ValueFunction,
)
from controlshap.variances import Analytic, Bootstrap, Grouped, LeastSquares, Variance

if TYPE_CHECKING:
    from controlshap.compare import FeatureComparison, compare_features
    from controlshap.datasets.result import DatasetResult, FailedPart
    from controlshap.results.difference import Difference, difference
    from controlshap.shap_compat.explainer import KernelExplainer

#: Imported when they are first asked for: most programs need none of them.
_LAZY = {
    "DatasetResult": "controlshap.datasets.result",
    "Difference": "controlshap.results.difference",
    "FailedPart": "controlshap.datasets.result",
    "FeatureComparison": "controlshap.compare",
    "KernelExplainer": "controlshap.shap_compat.explainer",
    "compare_features": "controlshap.compare",
    "difference": "controlshap.results.difference",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'controlshap' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


__all__ = [
    "Analytic",
    "Bootstrap",
    "BudgetTooSmallError",
    "Causal",
    "Check",
    "CoalitionProcess",
    "Control",
    "ControlShapError",
    "ControlShapWarning",
    "DatasetResult",
    "Difference",
    "Empirical",
    "EncodedSpace",
    "ErraticVarianceWarning",
    "Estimator",
    "Explainer",
    "Explanation",
    "FailedPart",
    "FeatureComparison",
    "FiniteDifferences",
    "GaussianConditional",
    "Grouped",
    "History",
    "Imputer",
    "Interactions",
    "InvalidArgumentError",
    "Kernel",
    "KernelExplainer",
    "KnownFunction",
    "LeastSquares",
    "LogisticRidge",
    "Marginal",
    "MissingExtraError",
    "Mixture",
    "ModelOutputError",
    "NoClosedFormError",
    "NoisyModelWarning",
    "NotConvergedWarning",
    "NotExactWarning",
    "PairRanking",
    "PerFeature",
    "Permutation",
    "Plan",
    "Polynomial",
    "Progress",
    "Ranking",
    "RidgeNetwork",
    "RunStoppedError",
    "Sampler",
    "SingularCovarianceWarning",
    "SingularSystemError",
    "Summary",
    "Taylor",
    "Trees",
    "ValueFunction",
    "Variance",
    "WaveNetwork",
    "WeakControlWarning",
    "WideNetwork",
    "__version__",
    "compare_features",
    "difference",
    "encoded_space",
    "explain",
    "load",
    "metrics",
    "one_hot_groups",
]
