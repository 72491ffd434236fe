"""Functions whose Shapley values are known; one file each."""

from typing import TypeAlias

from controlshap.surrogates.learned import LogisticRidge
from controlshap.surrogates.protocol import FittedSurrogate, Surrogate
from controlshap.surrogates.taylor import Taylor

Control: TypeAlias = "Surrogate | LogisticRidge"
"""What `control=` holds: made before sampling, or fitted to what was sampled."""

__all__ = ["Control", "FittedSurrogate", "LogisticRidge", "Surrogate", "Taylor"]
