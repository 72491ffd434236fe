"""Shapley values of predictions with calibrated errors, stabilised by control variates."""

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
    WideNetwork,
)
from controlshap.data.pipelines import EncodedSpace, encoded_space, one_hot_groups
from controlshap.datasets.result import DatasetResult, FailedPart
from controlshap.engine.plan import Plan
from controlshap.estimators import Estimator, Kernel, PerFeature, Permutation
from controlshap.explainer import Explainer, explain
from controlshap.functions import KnownFunction
from controlshap.models.derivatives import FiniteDifferences
from controlshap.results.difference import Difference, difference
from controlshap.results.explanation import Explanation, History
from controlshap.results.interactions import Interactions, PairRanking
from controlshap.results.ranking import Ranking
from controlshap.results.summary import Summary
from controlshap.shap_compat.explainer import KernelExplainer
from controlshap.storage.explanations import load
from controlshap.values import Empirical, GaussianConditional, Imputer, Marginal, Mixture, Sampler, ValueFunction
from controlshap.variances import Analytic, Bootstrap, Grouped, LeastSquares, Variance

__all__ = [
    "Analytic",
    "Bootstrap",
    "BudgetTooSmallError",
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
    "WeakControlWarning",
    "WideNetwork",
    "__version__",
    "difference",
    "encoded_space",
    "explain",
    "load",
    "metrics",
    "one_hot_groups",
]
