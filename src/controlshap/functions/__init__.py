"""Functions with known Shapley values: one kind per file, and the models that are recognised as such."""

from controlshap.functions.base import KnownFunction, warn_not_exact
from controlshap.functions.recognise import agrees, evaluations_to_recognise, recognise, recognise_margin

__all__ = ["KnownFunction", "agrees", "evaluations_to_recognise", "recognise", "recognise_margin", "warn_not_exact"]
