"""What "absent" means; one value function per file. They know the data, never the model."""

from controlshap.values.gaussian import GaussianConditional
from controlshap.values.marginal import Marginal
from controlshap.values.protocol import Imputer, ValueFunction

__all__ = ["GaussianConditional", "Imputer", "Marginal", "ValueFunction"]
