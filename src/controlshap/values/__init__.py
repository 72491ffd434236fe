"""Value functions, which say what "absent" means; one per file. They know the data, never the model."""

from controlshap.values.base import Imputer, ValueFunction
from controlshap.values.causal import Causal
from controlshap.values.empirical import Empirical
from controlshap.values.gaussian import GaussianConditional
from controlshap.values.marginal import Marginal
from controlshap.values.mixture import Mixture
from controlshap.values.sampler import Sampler

__all__ = ["Causal", "Empirical", "GaussianConditional", "Imputer", "Marginal", "Mixture", "Sampler", "ValueFunction"]
