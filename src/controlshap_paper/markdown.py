"""The side-by-side table in Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controlshap_paper.cells import ESTIMATORS, FEATURES, TABLE_METHODS, Cell, Size, all_cells
from controlshap_paper.data import NAMES as DATA
from controlshap_paper.models import NAMES as MODELS
from controlshap_paper.published import published

#: Monte Carlo errors of a difference beyond which it wants a reason.
WANTS_A_REASON = 2.5
_TITLES = {"logistic": "Logistic regression", "network": "Neural network", "forest": "Random forest"}
_SETTINGS = [(estimator, features) for features in FEATURES for estimator in ESTIMATORS]
_INTRODUCTION = """# Table 1, side by side

`controlshap reproduce`: {rows} rows, {runs} runs, {coalitions} coalitions; {there} of {wanted} results are there.

Reduction of variance | of rank changes in percent, against the uncontrolled estimates of the paper's sampling with the
same number of evaluations: as published; with the paper's settings; with shared noise (only correlated Shapley sampling
has noise to share, elsewhere it is the paper's); with the library's defaults. ± is the Monte Carlo error. A star marks
a reduction that differs from the published one by more than {limit} errors of a difference;
`docs/reproduction.md` gives the reasons."""
_BIAS = """
## Bias and error

Root mean square z score of the mean over runs against the true values (1 is no bias, 0 is exact); mean squared
error."""

_GAIN = """
## What the default gains

Mean squared error of the paper's settings over that of the default with as many evaluations; "exact" where the default
has no error.{scores}"""
#: Mean squared error below which values are exact: those of rounding.
EXACT = 1e-20


def differs(ours: float, known: float, error: float) -> bool:
    """Whether a reduction differs from the published one by more than the Monte Carlo error of both."""
    return abs(ours - known) > WANTS_A_REASON * 2**0.5 * max(error, 0.1)


def render(lines: Mapping[tuple[Cell, str], Any], size: Size) -> str:
    """The whole page."""
    wanted = len(all_cells()) * len(TABLE_METHODS)
    text = [_INTRODUCTION.format(rows=size.n_rows, runs=size.n_runs, coalitions=size.n_coalitions, there=len(lines),
                                 wanted=wanted, limit=WANTS_A_REASON)]  # fmt: skip
    for model in MODELS:
        text += ["", f"## {_TITLES[model]}", "", _row(["setting", "method", *DATA]), "|---" * (len(DATA) + 2) + "|"]
        for estimator, features in _SETTINGS:
            cells = [Cell(data, model, estimator, features) for data in DATA]
            known = [published(cell) for cell in cells]
            told = [f"{one.variance:.1f} \\| {one.rank:.1f}" for one in known]
            text.append(_row([_setting(estimator, features), "published", *told]))
            for method in TABLE_METHODS:
                found = [_reductions(lines.get((cell, method))) for cell in cells]
                text.append(_row(["", method.replace("_", " "), *found]))
    text += [_BIAS, "", _row(["model", "setting", "method", *DATA]), "|---" * (len(DATA) + 3) + "|"]
    for model in MODELS:
        for estimator, features in _SETTINGS:
            for method in TABLE_METHODS:
                found = [_errors(lines.get((Cell(data, model, estimator, features), method))) for data in DATA]
                text.append(_row([model, _setting(estimator, features), method.replace("_", " "), *found]))
    text += [_GAIN.format(scores=_scores(lines)), "", _row(["model", "setting", *DATA]), "|---" * (len(DATA) + 2) + "|"]
    for model in MODELS:
        for estimator, features in _SETTINGS:
            cells = [Cell(data, model, estimator, features) for data in DATA]
            found = [_gain(lines.get((cell, "paper")), lines.get((cell, "default"))) for cell in cells]
            text.append(_row([model, _setting(estimator, features), *found]))
    return "\n".join(text) + "\n"


def _gain(paper: Any, default: Any) -> str:
    if paper is None or default is None:
        return "not run"
    if default.mse < EXACT:
        return "exact"
    ratio = paper.mse / default.mse
    return f"{ratio:.1f}" if ratio < 10 else f"{ratio:,.0f}"


def _scores(lines: Mapping[tuple[Cell, str], Any]) -> str:
    scores = [line.bias_z for line in lines.values() if line.method == "default" and line.mse >= EXACT]
    if not scores:
        return ""
    return f" In {len(scores)} cells it has one, with z scores of {min(scores):.2f} to {max(scores):.2f}."


def _row(parts: list[str]) -> str:
    return "| " + " | ".join(parts) + " |"


def _setting(estimator: str, features: str) -> str:
    return f"{'Shapley sampling' if estimator == 'shapley_sampling' else 'KernelSHAP'}, {features}"


def _reductions(line: Any) -> str:
    if line is None:
        return "not run"
    variance, rank = line.variance_reduction, line.rank_reduction
    stars = ["", ""]
    if line.method == "paper":
        stars[0] = "*" if differs(variance, line.published_variance, line.variance_error) else ""
        stars[1] = "*" if differs(rank, line.published_rank, line.rank_error) else ""
    return f"{variance:.1f} ± {line.variance_error:.1f}{stars[0]} \\| {rank:.1f} ± {line.rank_error:.1f}{stars[1]}"


def _errors(line: Any) -> str:
    return "not run" if line is None else f"{line.bias_z:.2f}; {line.mse:.1e}"
