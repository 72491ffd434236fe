"""Shapley values of predictions with calibrated errors, stabilised by control variates."""

from typing import TYPE_CHECKING

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
from controlshap._imports import lazy_names as _lazy_names
from controlshap._other_names import MODULE_NAMES as _MODULE_NAMES
from controlshap._version import __version__
from controlshap.explainer import Explainer, explain
from controlshap.results.explanation import Explanation, History

if TYPE_CHECKING:
    from controlshap.compare import FeatureComparison, compare_features
    from controlshap.controls import (
        CoalitionProcess,
        Control,
        LogisticRidge,
        Polynomial,
        RidgeNetwork,
        ShallowTrees,
        Taylor,
        Trees,
        WaveNetwork,
        WideNetwork,
    )
    from controlshap.data.pipelines import EncodedSpace, encoded_space, one_hot_groups
    from controlshap.datasets.result import DatasetResult, FailedPart
    from controlshap.engine.plan import Plan
    from controlshap.engine.progress import Progress
    from controlshap.estimators import Estimator, Kernel, PerFeature, Permutation
    from controlshap.functions.base import KnownFunction
    from controlshap.models.derivatives.finite_differences import FiniteDifferences
    from controlshap.results.check import Check
    from controlshap.results.difference import Difference, difference
    from controlshap.results.interactions import Interactions, PairRanking
    from controlshap.results.ranking import Ranking
    from controlshap.results.summary import Summary
    from controlshap.shap_compat.explainer import KernelExplainer
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

# A default explanation needs none of these, so that importing the library does not load them.
__getattr__, __dir__ = _lazy_names(
    __name__,
    {
        "engine.progress": ("Progress",),
        "compare": ("FeatureComparison", "compare_features"),
        "controls": (
            "CoalitionProcess", "Control", "LogisticRidge", "Polynomial", "RidgeNetwork", "ShallowTrees", "Taylor",
            "Trees", "WaveNetwork", "WideNetwork",
        ),
        "data.pipelines": ("EncodedSpace", "encoded_space", "one_hot_groups"),
        "datasets.result": ("DatasetResult", "FailedPart"),
        "engine.plan": ("Plan",),
        "estimators": ("Estimator", "Kernel", "PerFeature", "Permutation"),
        "functions.base": ("KnownFunction",),
        "models.derivatives.finite_differences": ("FiniteDifferences",),
        "results.check": ("Check",),
        "results.difference": ("Difference", "difference"),
        "results.interactions": ("Interactions", "PairRanking"),
        "results.ranking": ("Ranking",),
        "results.summary": ("Summary",),
        "shap_compat.explainer": ("KernelExplainer",),
        "storage.explanations": ("load",),
        "values": (
            "Causal", "Empirical", "GaussianConditional", "Imputer", "Marginal", "Mixture", "Sampler", "ValueFunction",
        ),
        "variances": ("Analytic", "Bootstrap", "Grouped", "LeastSquares", "Variance"),
    },
    _MODULE_NAMES,
)  # fmt: skip


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
    "ShallowTrees",
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
