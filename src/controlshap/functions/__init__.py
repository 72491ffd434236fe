"""Models of a known form, whose Shapley values need no sampling; one form per file."""

from controlshap.functions.forms import ExactForm, LinearForm, LogisticForm, TreeForm
from controlshap.functions.recognise import agrees, evaluations_to_recognise, recognise

__all__ = ["ExactForm", "LinearForm", "LogisticForm", "TreeForm", "agrees", "evaluations_to_recognise", "recognise"]
