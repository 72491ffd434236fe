"""The summary in plain sentences, computed from the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from controlshap._types import BoolArray
from controlshap.results.numbers import count, factor, listed, number, share, short, with_error
from controlshap.results.ranking import Ranking
from controlshap.results.summary import Summary

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation

#: A gain this close to 1 is none.
NO_CHANGE = 0.005
#: Players named in the sentence on importance.
N_NAMED = 3


def about_run(explanation: Explanation, n_outputs: int) -> str:
    """How many rows, players and evaluations, and how the rows ended."""
    n, p = explanation.values.shape[:2]
    spent = explanation.n_evaluations
    parts = f"The report explains {'the prediction' if n == 1 else 'the predictions'} of {count(n, 'row')}"
    parts += f", for {count(n_outputs, 'output')} each" if n_outputs > 1 else ""
    grouped = any(len(columns) > 1 for columns in explanation.player_columns)
    what = "features or groups of features" if grouped else "features"
    parts += f", by {count(p, 'player')} ({what if p > 1 else what.replace('features', 'a feature', 1)}). "
    low, high = int(spent.min()), int(spent.max())
    if high == 0:
        return parts + "The values come from the model's own form, without evaluating it again."
    if low == high:
        parts += f"{'It' if n == 1 else 'Each row'} took {count(high, 'model evaluation')}"
    else:
        parts += f"A row took {low:,} to {high:,} model evaluations"
    return parts + (f", {int(spent.sum()):,} in all." if n > 1 else ".")


def about_importance(explanation: Explanation, summary: Summary, output: int) -> str:
    """Which players matter most, with errors."""
    several, n = explanation.values.ndim == 3, len(explanation)
    means = summary.mean_absolute[:, output] if several else summary.mean_absolute
    errors = summary.standard_errors[:, output] if several else summary.standard_errors
    values = explanation.values[..., output] if several else explanation.values
    row_errors = explanation.standard_errors[..., output] if several else explanation.standard_errors
    if not values.any():
        return "No player has an effect on the prediction: all values are 0."
    order = np.argsort(-(means if n > 1 else np.abs(values[0])), kind="stable")[:N_NAMED]
    named = []
    for place, player in enumerate(order):
        value, error = (means[player], errors[player]) if n > 1 else (values[0, player], row_errors[0, player])
        sign = "+" if n == 1 and value > 0 else ""
        shown = f"{sign}{with_error(float(value), float(error))}"
        named.append(shown if place == 0 else f"{short(explanation.feature_names[player])} ({shown})")
    first = short(explanation.feature_names[order[0]])
    if n > 1:
        text = f"On average over the rows, {first} moves the prediction most, by {named[0]} in either direction"
    else:
        text = f"The largest value is that of {first}, {named[0]}"
    text += f", followed by {listed(named[1:])}" if len(named) > 1 else ""
    if row_errors.any():
        return text + "; after ± stands the standard error due to sampling."
    return text + (". These values are exact." if without_error(explanation) == "exact" else ".")


def about_order(explanation: Explanation, ranking: Ranking, output: int) -> str:
    """How certain the order of the players is."""
    several, (n, p) = explanation.values.ndim == 3, explanation.values.shape[:2]
    if p == 1:
        return "With one player there is no order to certify."
    cuts = ranking.separated[..., output] if several else ranking.separated
    ordered = ranking.n_ordered[:, output] if several else ranking.n_ordered
    level = f"with a probability of {number(100 * ranking.level)} %"
    whole, first = int((ordered == p).sum()), int(cuts[:, 0].sum())
    if n == 1:
        if whole:
            return f"The order of all {p} players by magnitude is certified {level}."
        k = int(ordered[0])
        if k == 0:
            return f"Not even the largest player is certified {level}: the first ones are too close, or tied."
        certain = "The largest player" if k == 1 else f"The order of the {k} largest players"
        return f"{certain} of {p} is certified {level}; the rest is not settled."
    text = f"By magnitude, and {level} for each row, the largest player is certified in {share(first, n)} of the rows"
    text += f" and the whole order in {share(whole, n)}; "
    k = int(np.median(ordered))
    if k < 2:
        return text + f"in the median row {'only the first' if k else 'not even the first'} has a certified place."
    return text + f"in the median row the {k} largest have a certified order."


def without_error(explanation: Explanation) -> str:
    """What an error of 0 everywhere says: until every background row had a part, it says little."""
    if bool((explanation.status == "exact").all()):
        return "exact"
    return "no sampling error" if bool(explanation.complete.all()) else "no error seen yet"


def about_errors(explanation: Explanation) -> str:
    """How large the errors are."""
    errors = explanation.standard_errors
    if not errors.any():
        return {
            "exact": "All values are exact: there is no sampling error.",
            "no sampling error": "The evaluations show no sampling error.",
            "no error seen yet": "The evaluations show no sampling error so far.",
        }[without_error(explanation)]
    place = np.unravel_index(int(errors.argmax()), errors.shape)
    exact = int((explanation.status == "exact").sum())
    largest, median = number(float(errors.max()), 2), number(float(np.median(errors[errors > 0])), 2)
    where = f"row {place[0]}, {short(explanation.feature_names[place[1]])}"
    text = f"The largest standard error is {largest} ({where}); the median is {median}."
    return text + (f" The values of {count(exact, 'row')} are exact." if exact else "")


def controlled_rows(explanation: Explanation) -> BoolArray:
    """Rows with a control, and with an error for it to reduce."""
    axes = tuple(range(1, explanation.values.ndim))
    sampled = np.any(explanation.uncontrolled_standard_errors > 0, axis=axes)
    found: BoolArray = np.logical_and(sampled, explanation.controls != "")
    return found


def about_control(explanation: Explanation) -> list[str]:
    """What the control bought."""
    gains = explanation.gain[controlled_rows(explanation)]
    if len(gains) == 0:
        if explanation.standard_errors.any():
            return ["No control was used."]
        exact = without_error(explanation) == "exact"
        return ["The values are exact, so there was no noise to control." if exact else "No noise was seen to control."]
    middle = float(np.median(gains))
    where = "in the median row " if len(gains) > 1 else ""
    if np.isinf(middle):
        n_clear = int(np.isinf(gains).sum())
        found = [f"The control left no sampling error{f' in {n_clear:,} of {len(gains):,} rows' if where else ''}."]
    elif abs(middle - 1.0) < NO_CHANGE:
        found = [f"The control {where}changed nothing: it had no variance to explain."]
    elif middle < 1.0:
        found = [f"The control made the variance {where}{factor(1.0 / middle)} times larger, and should be left out."]
    else:
        found = [
            f"The control made the variance {where}{factor(middle)} times smaller: for the same errors, plain "
            f"sampling would have needed {factor(middle)} times the model evaluations."
        ]
    if len(gains) >= 10:
        low, high = np.quantile(gains, [0.05, 0.95], method="nearest")
        found.append(f"Nine rows in ten gained between {factor(float(low))} and {factor(float(high))} times.")
    worse = int((gains < 1.0 - NO_CHANGE).sum())
    if worse and len(gains) > 1:
        found.append(f"In {count(worse, 'row')} the control made the variance larger.")
    rest = len(explanation) - len(gains)
    if rest:
        found.append(f"{count(rest, 'row')} had no sampling error, or no control, and {'is' if rest == 1 else 'are'} "
                     "not counted here.")  # fmt: skip
    return found


def warnings_of(explanation: Explanation) -> list[str]:
    """What a reader should know before relying on the numbers."""
    found, settings = [], explanation.settings
    asked = any(settings.get(name) for name in ("tolerance", "absolute_tolerance", "stop"))
    for status, way_out in (("budget reached", "budget"), ("time reached", "time_limit")):
        n = int((explanation.status == status).sum())
        if n and (asked or status == "time reached"):
            found.append(
                f"{count(n, 'row')} ended ({status}) before what was asked for was reached. The errors shown are "
                f"right, but larger than wanted; raise `{way_out}` or refine the result."
            )
    silent = (explanation.standard_errors == 0).reshape(len(explanation), -1).any(axis=1)
    partial = int((silent & ~explanation.complete).sum())
    if partial:
        found.append(
            f"In {count(partial, 'row')} not every background row had a part. An error of 0 there proves nothing, and "
            "nothing is certified from it."
        )
    of_base = explanation.base_standard_errors
    if of_base.any():
        found.append(f"The base value was estimated; its largest standard error is {number(float(of_base.max()), 2)}.")
    return found
