"""Functions whose Shapley values are known; one file each."""

from controlshap.surrogates.protocol import FittedSurrogate, Surrogate
from controlshap.surrogates.taylor import Taylor

__all__ = ["FittedSurrogate", "Surrogate", "Taylor"]
