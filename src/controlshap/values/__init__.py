"""What "absent" means; one value function per file. They know the data, never the model."""

from controlshap.values.base import Imputer, ValueFunction
from controlshap.values.gaussian import GaussianConditional
from controlshap.values.marginal import Marginal

__all__ = ["GaussianConditional", "Imputer", "Marginal", "ValueFunction"]
