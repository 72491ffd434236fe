"""Short names to strategies: the one place where "kernel" becomes `Kernel()`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from controlshap import controls, estimators, values, variances
from controlshap._errors import InvalidArgumentError
from controlshap.controls import Control
from controlshap.estimators import Estimator
from controlshap.values import ValueFunction
from controlshap.variances import Variance

#: Makers, so that naming one strategy does not import the others.
VALUE_FUNCTIONS: dict[str, Callable[[], ValueFunction]] = {
    "independent": lambda: values.Marginal(),
    "correlated": lambda: values.GaussianConditional(),
    "copula": lambda: values.GaussianConditional(margins="empirical"),
    "mixture": lambda: values.Mixture(),
    "empirical": lambda: values.Empirical(),
}
ESTIMATORS: dict[str, Callable[[], Estimator]] = {
    "permutation": lambda: estimators.Permutation(),
    "kernel": lambda: estimators.Kernel(),
    "per_feature": lambda: estimators.PerFeature(),
}
CONTROLS: dict[str, Callable[[], Control]] = {
    "taylor": lambda: controls.Taylor(),
    "ridge": lambda: controls.LogisticRidge(),
    "network": lambda: controls.RidgeNetwork(),
    "polynomial": lambda: controls.Polynomial(),
    "trees": lambda: controls.Trees(),
    "shallow_trees": lambda: controls.ShallowTrees(),
    "coalitions": lambda: controls.CoalitionProcess(),
    "wide_network": lambda: controls.WideNetwork(),
    "wave_network": lambda: controls.WaveNetwork(),
}
VARIANCES: dict[str, Callable[[], Variance]] = {
    "analytic": lambda: variances.Analytic(),
    "bootstrap": lambda: variances.Bootstrap(),
    "least_squares": lambda: variances.LeastSquares(),
    "grouped": lambda: variances.Grouped(),
}


def resolve_value_function(features: Any) -> ValueFunction:
    """The value function that `features=` names."""
    value_function: ValueFunction = _resolve("features", features, VALUE_FUNCTIONS, ValueFunction)
    return value_function


def resolve_estimator(estimator: Any) -> Estimator | None:
    """`estimator=`; None for "auto"."""
    found: Estimator | None = _resolve("estimator", estimator, ESTIMATORS, Estimator, "auto")
    return found


def resolve_controls(control: Any) -> tuple[Control, ...] | None:
    """`control=`; None for "auto" and "thorough", empty for "none"."""
    if isinstance(control, (list, tuple)):
        if not control:
            raise InvalidArgumentError("`control` is an empty list; use control='none'.")
        return tuple(_resolve("control", one, CONTROLS, Control) for one in control)
    found = _resolve("control", control, CONTROLS, Control, "auto", "thorough", "none")
    return (found,) if found is not None else () if control == "none" else None


def resolve_variance(variance: Any) -> Variance | None:
    """`variance=`; None for "auto"."""
    found: Variance | None = _resolve("variance", variance, VARIANCES, Variance, "auto")
    return found


def _resolve(argument: str, value: Any, names: Mapping[str, Callable[[], object]], base: type, *others: str) -> Any:
    """The strategy of a name, the object itself where it is one, or None for one of `others`."""
    if isinstance(value, str):
        if value in names or value in others:
            return names[value]() if value in names else None
        known = ", ".join(repr(name) for name in (*others, *names))
        raise InvalidArgumentError(f"`{argument}` must be one of {known}, or an object; got {value!r}.")
    if not isinstance(value, base):
        classes = ", ".join(dict.fromkeys(f"{type(make()).__name__}()" for make in names.values()))
        own = f"Your own is a subclass of controlshap.{base.__name__}."
        raise InvalidArgumentError(
            f"`{argument}` must be a name or an object such as {classes}; got {value!r}. "
            + ("Instantiate the class." if isinstance(value, type) else own)
        )
    return value


def check_combination(variance: Variance | None, estimator: Estimator | None, coefficient: Any) -> None:
    """Refuse settings that do not go together."""
    if not isinstance(coefficient, str) or coefficient not in ("auto", "units", "folds"):
        raise InvalidArgumentError(f"`coefficient` must be 'auto', 'units' or 'folds'; got {coefficient!r}.")
    if variance is not None and estimator is not None:
        variance.check(least_squares=estimator.is_least_squares, n_draws=estimator.n_draws)
    elif variance is not None:
        variance.check(least_squares=False, n_draws=1)
    if coefficient == "folds" and variance is not None and not variance.by_units:
        raise InvalidArgumentError(
            f"`coefficient='folds'` works unit by unit and fits variance='auto', 'analytic' or 'least_squares', "
            f"not {variance}. Use coefficient='units'."
        )
    if estimator is not None and estimator.exact_per_draw:
        raise InvalidArgumentError("`estimator`: enumeration is chosen by estimator='auto' where it fits.")
