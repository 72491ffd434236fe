"""The summary in plain sentences, computed from the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from controlshap._types import BoolArray, FloatArray
from controlshap.results.axes import label_rows
from controlshap.results.ranking import Ranking, is_exact
from controlshap.results.summary import Summary, importance_interval
from controlshap.results.wording import (
    count_noun,
    describe_zero_errors,
    format_factor,
    format_level,
    format_number,
    format_share,
    format_with_error,
    join_words,
    shorten_in_sentence,
)

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation

#: A gain this close to 1 is none.
NO_CHANGE = 0.005
#: Players named in the sentence on importance.
N_NAMED = 3


def about_question(explanation: Explanation) -> str:
    """The question: which output of which model is explained, and what it means that a feature is absent."""
    settings = explanation.settings
    model = shorten_in_sentence(settings.get("model") or "the model")
    if explanation.output_labels == ("model output",):
        text = f"This report explains the output of {model}."
    else:
        text = f"This report explains the {_outputs(explanation)} of {model}."
    rows = settings.get("n_background")
    background = f"the {rows:,} rows of the background" if rows else "the background"
    features = str(settings.get("features"))
    absent = _ABSENT.get(features) or _ABSENT_OBJECTS.get(features.split("(")[0])
    if absent is not None:
        return f"{text} {absent.format(background=background)}{_about_order(settings)}"
    asked = shorten_in_sentence(features)
    text = f"{text} What an absent feature means is set by features={asked}, from {background}."
    return text + _about_order(settings)


def _about_order(settings: dict[str, Any]) -> str:
    """Which orders of the players count, where not all."""
    asked = [settings.get(name) not in (None, "None") for name in ("order", "hierarchy")]
    before = " Features are revealed after those of all earlier components of `order` (asymmetric Shapley values)."
    together = " Features of a group of `hierarchy` are revealed together (Owen values)."
    return before * asked[0] + together * asked[1]


_MIXTURE = (
    "Absent features follow their distribution given the present ones, a mixture of Gaussians fitted to {background} "
    "(correlated features; conditional Shapley values)."
)
#: What an absent feature means, for each class of value functions whose objects mean the same whatever their settings.
_ABSENT_OBJECTS = {
    "Mixture": _MIXTURE,
    "Causal": "Absent features follow the present ones as effects follow causes, in a Gaussian fitted to {background} "
    "(causal Shapley values).",
    "Sampler": "Absent features are drawn by a function of the user's, given the present ones.",
}
#: The same for each short name of a value function.
_ABSENT = {
    "independent": "Absent features take their values from {background}, whatever the present ones are "
    "(independent features; interventional, or marginal, Shapley values).",
    "correlated": "Absent features follow their distribution given the present ones, a Gaussian fitted to "
    "{background} (correlated features; conditional Shapley values).",
    "copula": "Absent features follow their distribution given the present ones, a Gaussian copula with the margins of "
    "{background} (correlated features; conditional Shapley values).",
    "mixture": _MIXTURE,
    "empirical": "Absent features take their values from those of {background} that are near in the present features "
    "(correlated features; conditional Shapley values).",
}


def _outputs(explanation: Explanation) -> str:
    labels = explanation.output_labels
    more = f" and {len(labels) - N_NAMED} more outputs" if len(labels) > N_NAMED else ""
    return join_words([shorten_in_sentence(label) for label in labels[:N_NAMED]]) + more


def subtitle(explanation: Explanation) -> str:
    """Output, model and meaning of absent in one line below the title."""
    settings = explanation.settings
    text = _outputs(explanation)
    parts = [text[:1].upper() + text[1:]]
    parts += [shorten_in_sentence(settings["model"])] if settings.get("model") else []
    features = str(settings.get("features", ""))
    parts += [f"{features} features" if features in _ABSENT else f"features={shorten_in_sentence(features)}"]
    return " · ".join(parts)


_NOT_COVERED = (
    "An error covers the sampling of coalitions and background rows in this run. It does not cover the choice of "
    "the background, the model's own fit, or an event rarer than about one unit in the run."
)


def about_trust(explanation: Explanation) -> list[str]:
    """The grounds of the errors of this result, and what they do not cover."""
    errors = explanation.standard_errors
    if describe_zero_errors(explanation) == "exact":
        return [_about_exact(explanation)]
    if not errors.any():
        return [_NOT_COVERED]
    sampled = errors > 0
    weak = int((sampled & ~explanation.reliable).sum())
    n = int(sampled.sum())
    lines = [
        f"{count_noun(weak, 'value')} of {n:,} {'rests' if weak == 1 else 'rest'} on so few units, or so rare draws, "
        "that the error itself is uncertain; raise `budget` before relying on them."
        if weak
        else f"All {n:,} sampled values have enough units behind their errors.",
        _NOT_COVERED,
    ]
    background = _background_errors(explanation)
    if background is not None and background.any():
        largest = format_number(float(np.max(background)), 2)
        lines.append(
            f"With another background of the same size the values would change as well: that standard error is at most "
            f"{largest} (`confidence_interval(background=True)` adds it)."
        )
    return lines


def _background_errors(explanation: Explanation) -> FloatArray | None:
    """Errors of the values because the background is a sample, whichever way they are known."""
    own = explanation.background_standard_errors
    return explanation.distribution_standard_errors if own is None else own


def _about_exact(explanation: Explanation) -> str:
    rows, errors = explanation.settings.get("n_background"), _background_errors(explanation)
    background = f"these {count_noun(rows, 'background row')}" if rows and rows > 1 else "this background"
    text = f"Exact means: no sampling error, for this model and {background}. Another background of the same size "
    text += "would change the values"
    name = "background_standard_errors"
    if explanation.background_standard_errors is None:
        name = "distribution_standard_errors"
    if errors is None or not np.isfinite(errors).all():
        text += "; by how much is not known here"
    else:
        text += f": standard error at most {format_number(float(errors.max()), 2)} (`{name}`)"
    return f"{text}. The model's own fit is not covered."


def about_check(explanation: Explanation) -> str:
    """The outcome of the self-check of the errors, where the result has one."""
    return str(explanation.check()) if explanation.standard_errors.any() else ""


def about_run(explanation: Explanation, n_outputs: int) -> str:
    """How many rows, players and evaluations, and how the rows ended."""
    n, p = explanation.values.shape[:2]
    spent = explanation.n_evaluations
    parts = f"It covers {'the prediction' if n == 1 else 'the predictions'} of {count_noun(n, 'row')}"
    parts += f", for {count_noun(n_outputs, 'output')} each" if n_outputs > 1 else ""
    grouped = any(len(columns) > 1 for columns in explanation.player_columns)
    what = "features or groups of features" if grouped else "features"
    parts += f", by {count_noun(p, 'player')} ({what if p > 1 else what.replace('features', 'a feature', 1)}). "
    low, high = int(spent.min()), int(spent.max())
    if high == 0:
        return parts + "The values come from the model's own form, without evaluating it again."
    if low == high:
        parts += f"{'It' if n == 1 else 'Each row'} took {count_noun(high, 'model evaluation')}"
    else:
        parts += f"A row took {low:,} to {high:,} model evaluations"
    return parts + (f", {int(spent.sum()):,} in all." if n > 1 else ".")


def about_importance(explanation: Explanation, summary: Summary, level: float) -> str:
    """Which players matter most for one output, with half their intervals."""
    n = len(explanation)
    if not explanation.values.any():
        return "No player has an effect on the prediction: all values are 0."
    if n > 1:
        values, order = np.maximum(summary.mean_absolute, 0.0), summary.order
        reaches = importance_interval(explanation, summary, level)[1] - values
    else:
        values, reaches = explanation.values[0], explanation.confidence_interval(level)[1][0] - explanation.values[0]
        order = np.argsort(-np.abs(values), kind="stable")
    named = []
    for place, player in enumerate(order[:N_NAMED]):
        value = float(values[player])
        shown = ("+" if n == 1 and value > 0 else "") + format_with_error(value, float(reaches[player]))
        named.append(shown if place == 0 else f"{shorten_in_sentence(explanation.feature_names[player])} ({shown})")
    first = shorten_in_sentence(explanation.feature_names[order[0]])
    if n > 1:
        text = f"On average over the rows, {first} moves the prediction most, by {named[0]} in either direction"
    else:
        text = f"The largest value is that of {first}, {named[0]}"
    text += f", followed by {join_words(named[1:])}" if len(named) > 1 else ""
    if explanation.standard_errors.any():
        return text + f"; ± is half a {format_level(level)} interval."
    return text + (". These values are exact." if describe_zero_errors(explanation) == "exact" else ".")


def about_order(ranking: Ranking) -> str:
    """How certain the order of the players is for one output."""
    (n, p), ordered = ranking.order.shape, ranking.n_ordered
    if p == 1:
        return "With one player there is no order to certify."
    if is_exact(ranking):
        ties = "" if (ordered == p).all() else " Equal magnitudes have no order."
        return f"The order is exact for this background.{ties}"
    level = f"with a probability of {format_number(100 * ranking.level)} %"
    whole, first = int((ordered == p).sum()), int(ranking.separated[:, 0].sum())
    if n == 1:
        return _about_order_of_row(int(ordered[0]), p, level)
    text = f"By magnitude, and {level} for each row, the largest player is certified in {format_share(first, n)} of "
    text += f"the rows and the whole order in {format_share(whole, n)}; "
    k = int(np.median(ordered))
    if k < 2:
        return text + f"in the median row {'only the first' if k else 'not even the first'} has a certified place."
    return text + f"in the median row the {k} largest have a certified order."


def _about_order_of_row(n_ordered: int, p: int, level: str) -> str:
    if n_ordered == p:
        return f"The order of all {p} players by magnitude is certified {level}."
    if n_ordered == 0:
        return f"Not even the largest player is certified {level}: the first ones are too close, or tied."
    certain = "The largest player" if n_ordered == 1 else f"The order of the {n_ordered} largest players"
    return f"{certain} of {p} is certified {level}; the rest is not settled."


def about_errors(explanation: Explanation) -> str:
    """How large the errors are."""
    errors = explanation.standard_errors
    if not errors.any():
        return {
            "exact": "All values are exact: there is no sampling error.",
            "no sampling error": "The evaluations show no sampling error.",
            "no error seen yet": "The evaluations show no sampling error so far.",
        }[describe_zero_errors(explanation)]
    place = np.unravel_index(int(errors.argmax()), errors.shape)
    exact = int((explanation.status == "exact").sum())
    largest, median = format_number(float(errors.max()), 2), format_number(float(np.median(errors[errors > 0])), 2)
    where = f"row {label_rows(explanation)[int(place[0])]}, {shorten_in_sentence(explanation.feature_names[place[1]])}"
    text = f"The largest standard error is {largest} ({where}); the median is {median}."
    text += f" The values of {count_noun(exact, 'row')} are exact." if exact else ""
    check = explanation.check()
    return f"{text} {check}" if check.looks_right else text


def controlled_rows(explanation: Explanation) -> BoolArray:
    """Rows with a control, and with an error for it to reduce."""
    axes = tuple(range(1, explanation.values.ndim))
    sampled = np.any(explanation.uncontrolled_standard_errors > 0, axis=axes)
    controlled: BoolArray = np.logical_and(sampled, explanation.controls != "")
    return controlled


def about_control(explanation: Explanation) -> list[str]:
    """How much the control reduced the variance."""
    gains = explanation.gain[controlled_rows(explanation)]
    if len(gains) == 0:
        if explanation.standard_errors.any():
            return ["No control was used."]
        exact = describe_zero_errors(explanation) == "exact"
        return ["The values are exact, so there was no noise to control." if exact else "No noise was seen to control."]
    sentences = [_about_median_gain(gains)]
    if len(gains) >= 10:
        low, high = (format_factor(float(end)) for end in np.quantile(gains, [0.05, 0.95], method="nearest"))
        sentences.append(f"Nine rows in ten gained between {low} and {high} times.")
    worse = int((gains < 1.0 - NO_CHANGE).sum())
    if worse and len(gains) > 1:
        sentences.append(f"In {count_noun(worse, 'row')} the control made the variance larger.")
    rest = len(explanation) - len(gains)
    if rest:
        verb = "is" if rest == 1 else "are"
        sentences.append(
            f"{count_noun(rest, 'row')} had no sampling error, or no control, and {verb} not counted here."
        )
    return sentences


def _about_median_gain(gains: FloatArray) -> str:
    middle = float(np.median(gains))
    where = "in the median row " if len(gains) > 1 else ""
    if np.isinf(middle):
        n_clear = int(np.isinf(gains).sum())
        return f"The control left no sampling error{f' in {n_clear:,} of {len(gains):,} rows' if where else ''}."
    if abs(middle - 1.0) < NO_CHANGE:
        return f"The control {where}changed nothing: it had no variance to explain."
    if middle < 1.0:
        factor = format_factor(1.0 / middle)
        return f"The control made the variance {where}{factor} times larger, and should be left out."
    factor = format_factor(middle)
    return (
        f"The control made the variance {where}{factor} times smaller: for the same errors, plain sampling would have "
        f"needed {factor} times the model evaluations."
    )


def warnings_of(explanation: Explanation) -> list[str]:
    """Cautions for a reader who relies on the numbers."""
    warnings, settings = [], explanation.settings
    asked = any(settings.get(name) for name in ("tolerance", "absolute_tolerance", "stop"))
    for status, way_out in (("budget reached", "budget"), ("time reached", "time_limit")):
        n = int((explanation.status == status).sum())
        if n and (asked or status == "time reached"):
            warnings.append(
                f"{count_noun(n, 'row')} ended ({status}) before what was asked for was reached. The errors shown are "
                f"right, but larger than wanted; raise `{way_out}` or refine the result."
            )
    silent = (explanation.standard_errors == 0).reshape(len(explanation), -1).any(axis=1)
    partial = int((silent & ~explanation.complete).sum())
    if partial:
        warnings.append(
            f"In {count_noun(partial, 'row')} not every background row was used. An error of 0 proves nothing there, "
            "and nothing is certified from it."
        )
    check = explanation.check()
    if check.looks_right is False:
        warnings.append(str(check))
    of_base = explanation.base_standard_errors
    if of_base.any():
        largest = format_number(float(of_base.max()), 2)
        warnings.append(f"The base value was estimated; its largest standard error is {largest}.")
    return warnings
