"""Functions with known Shapley values: one kind per file, and the models that are recognised as such."""

from controlshap.functions.base import KnownFunction
from controlshap.functions.recognise import agrees, evaluations_to_recognise, recognise

__all__ = ["KnownFunction", "agrees", "evaluations_to_recognise", "recognise"]
