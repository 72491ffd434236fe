"""Value functions, which define what "absent" means, from the data and never from the model."""

from typing import TYPE_CHECKING

from controlshap._imports import lazy_names
from controlshap.values.base import Imputer, Marginal, ValueFunction

if TYPE_CHECKING:
    from controlshap.values.causal import Causal
    from controlshap.values.empirical import Empirical
    from controlshap.values.gaussian import GaussianConditional
    from controlshap.values.mixture import Mixture
    from controlshap.values.sampler import Sampler

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "causal": ("Causal",),
        "empirical": ("Empirical",),
        "gaussian": ("GaussianConditional",),
        "mixture": ("Mixture",),
        "sampler": ("Sampler",),
    },
)

__all__ = ["Causal", "Empirical", "GaussianConditional", "Imputer", "Marginal", "Mixture", "Sampler", "ValueFunction"]
