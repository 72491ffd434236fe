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
    NotConvergedWarning,
    RunStoppedError,
    SingularCovarianceWarning,
    SingularSystemError,
    WeakControlWarning,
)
from controlshap._version import __version__
from controlshap.dataset.result import DatasetResult, FailedPart
from controlshap.derivatives import FiniteDifferences
from controlshap.estimators import Kernel, PerFeature, Permutation
from controlshap.explain import explain
from controlshap.explainer import Explainer
from controlshap.explanation import Explanation
from controlshap.history import History
from controlshap.kernel_explainer import KernelExplainer
from controlshap.pipelines import EncodedSpace, encoded_space, one_hot_groups
from controlshap.progress import Progress
from controlshap.ranking import Ranking
from controlshap.storage import load
from controlshap.summary import Summary
from controlshap.surrogates import CoalitionProcess, LogisticRidge, Polynomial, RidgeNetwork, Taylor, Trees, WideNetwork
from controlshap.values import GaussianConditional, Marginal
from controlshap.variance import Analytic, Bootstrap, Grouped, LeastSquares

__all__ = [
    "Analytic",
    "Bootstrap",
    "BudgetTooSmallError",
    "CoalitionProcess",
    "ControlShapError",
    "ControlShapWarning",
    "DatasetResult",
    "EncodedSpace",
    "ErraticVarianceWarning",
    "Explainer",
    "Explanation",
    "FailedPart",
    "FiniteDifferences",
    "GaussianConditional",
    "Grouped",
    "History",
    "InvalidArgumentError",
    "Kernel",
    "KernelExplainer",
    "LeastSquares",
    "LogisticRidge",
    "Marginal",
    "MissingExtraError",
    "ModelOutputError",
    "NoClosedFormError",
    "NotConvergedWarning",
    "PerFeature",
    "Permutation",
    "Polynomial",
    "Progress",
    "Ranking",
    "RidgeNetwork",
    "RunStoppedError",
    "SingularCovarianceWarning",
    "SingularSystemError",
    "Summary",
    "Taylor",
    "Trees",
    "WeakControlWarning",
    "WideNetwork",
    "__version__",
    "encoded_space",
    "explain",
    "load",
    "metrics",
    "one_hot_groups",
]
