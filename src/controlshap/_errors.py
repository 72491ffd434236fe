"""Exceptions and warnings.

ControlShapError
 ├ InvalidArgumentError(ValueError)   bad input, found at the edge
 │  └ BudgetTooSmallError             the budget does not cover the smallest run
 ├ NoClosedFormError(TypeError)       this surrogate x this value function
 ├ SingularSystemError                too few distinct coalitions
 ├ ModelOutputError(ValueError)       wrong shape, or not finite
 ├ RunStoppedError(RuntimeError)      a run over a data set was stopped from outside
 └ MissingExtraError(ImportError)     an optional package is needed
ControlShapWarning(UserWarning)
 ├ NotConvergedWarning                the budget ended before the tolerance was met
 ├ WeakControlWarning                 a control was cut down to fit the budget
 ├ SingularCovarianceWarning          the covariance was conditioned
 ├ NotExactWarning                    a model with a known form is sampled
 ├ NoisyModelWarning                  the model answers differently when asked the same again
 └ ErraticVarianceWarning             this variance method is known to be unreliable here
"""

from __future__ import annotations


class ControlShapError(Exception):
    """Base of every error that the library raises itself."""


class InvalidArgumentError(ControlShapError, ValueError):
    """An argument breaks a rule; the message names it, the rule, what came in and the way out."""


class BudgetTooSmallError(InvalidArgumentError):
    """The budget does not cover the smallest run; `needed` is the least that does."""

    def __init__(self, message: str, needed: int) -> None:
        super().__init__(message)
        self.needed = needed

    def __reduce__(self) -> tuple[type[BudgetTooSmallError], tuple[str, int]]:
        return type(self), (str(self), self.needed)


class NoClosedFormError(ControlShapError, TypeError):
    """The surrogate's Shapley values are not known under this value function."""


class SingularSystemError(ControlShapError):
    """The sampled coalitions do not determine every player's value."""


class ModelOutputError(ControlShapError, ValueError):
    """The model returned something that is not one finite number per row and output."""


class RunStoppedError(ControlShapError, RuntimeError):
    """A run over a data set was stopped from outside (scheduler lost, disk full); run it again to finish."""


class MissingExtraError(ControlShapError, ImportError):
    """An optional package is needed for what was asked; the message says which to install."""


class ControlShapWarning(UserWarning):
    """Base of every warning that the library gives."""


class NotConvergedWarning(ControlShapWarning):
    """The budget ended before the tolerance was reached."""


class WeakControlWarning(ControlShapWarning):
    """A control was cut down to fit the budget."""


class SingularCovarianceWarning(ControlShapWarning):
    """The covariance was singular or nearly so, and was conditioned."""


class NotExactWarning(ControlShapWarning):
    """A model that was recognised is sampled after all: its known form does not hold, or cannot be computed."""


class NoisyModelWarning(ControlShapWarning):
    """The model answers differently when it is asked the same again; values are those of its mean answer."""


class ErraticVarianceWarning(ControlShapWarning):
    """The chosen variance method is known to be unreliable at this size."""
