"""The paper's figures from what was run, as PNG and SVG; a figure whose runs are missing is left out.

A figure is not drawn over one of an earlier run that shows more: `details.csv` tells which estimates there were.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from controlshap import metrics
from controlshap._imports import require
from controlshap_paper.cells import ESTIMATORS, FEATURES, Cell, Size
from controlshap_paper.data import NAMES as DATA
from controlshap_paper.data import FloatArray
from controlshap_paper.models import NAMES as MODELS
from controlshap_paper.runs import (
    SAMPLES_PLAYER,
    CellEstimates,
    is_done,
    read_estimates,
    read_players,
    read_truth,
    truth_name,
)
from controlshap_paper.tables import Line

COLORS = {"without control": "#c8782a", "Taylor control": "#1f6fb4", "default": "#2e8b57"}
_SERIES = ("#1f6fb4", "#7fb2dc", "#c8782a", "#e8bd8f")
#: Lowest reduction that is drawn; what is below is marked at the edge.
FLOOR = -0.5
TITLES = {"logistic": "logistic regression", "network": "neural network", "forest": "random forest"}
TITLES_OF_DATA = {name: "BRCA" if name == "brca" else name.capitalize() for name in DATA}
SETTINGS = [(estimator, features) for features in FEATURES for estimator in ESTIMATORS]
SETTING_NAMES = {(e, f): f"{'Shapley sampling' if e == 'shapley_sampling' else 'KernelSHAP'}, {f}" for e, f in SETTINGS}


class Results:
    """Saved results, None where they are missing; `lost` says that the table had one of these."""

    def __init__(self, raw: Path, size: Size, seed: int, lines: list[Line]) -> None:
        self.raw, self.size, self.seed, self.lost = raw, size, seed, False
        self._lines = {(line.cell, line.method) for line in lines}

    def runs(self, cell: Cell, method: str) -> CellEstimates | None:
        """Estimates of a cell by a method."""
        name = f"{cell.name}-{method}"
        if is_done(self.raw, name, self.size, self.seed):
            return read_estimates(self.raw, name)
        self.lost |= (cell, method) in self._lines
        return None

    def by_method(self, cell: Cell) -> dict[str, FloatArray]:
        """Estimates without control, with the paper's, and by default; none where the paper's are missing."""
        paper, default = self.runs(cell, "paper"), self.runs(cell, "default")
        if paper is None:
            return {}
        values = {"without control": paper.uncontrolled, "Taylor control": paper.controlled}
        return values | ({"default": default.controlled} if default is not None else {})

    def truth(self, cell: Cell) -> FloatArray | None:
        """True values of a cell."""
        done = is_done(self.raw, truth_name(cell), self.size, self.seed)
        return read_truth(cell, self.raw)[0] if done else None

    def study(self, name: str) -> dict[str, FloatArray] | None:
        """Arrays of a study."""
        if not is_done(self.raw, name, self.size, self.seed):
            return None
        with np.load(self.raw / f"{name}.npz") as stored:
            return dict(stored)


@dataclass
class Panel:
    """Several series of reductions over the players of one data set."""

    title: str
    players: list[str]
    series: dict[str, FloatArray] = field(default_factory=dict)
    importance: FloatArray | None = None

    def add(self, name: str, plain: FloatArray, controlled: FloatArray, truth: FloatArray) -> None:
        """Add the quartiles over rows of a method's reductions."""
        reductions = metrics.variance_reduction(plain, controlled)
        self.series[name] = np.quantile(reductions, [0.25, 0.5, 0.75], axis=0)
        if self.importance is None:
            self.importance = np.abs(truth).sum(axis=0)

    def draw(self, axes: Any) -> None:
        """Draw all series, the most important players first."""
        if self.importance is None:
            return
        order = np.argsort(-self.importance)
        place = np.arange(len(order))
        for number, ((name, quartiles), color) in enumerate(zip(self.series.items(), _SERIES, strict=False)):
            low, middle, high = np.maximum(quartiles[:, order], FLOOR)
            at = place + 0.15 * (number - (len(self.series) - 1) / 2)
            axes.errorbar(at, middle, yerr=[middle - low, high - middle], fmt="o", ms=4, color=color, label=name,
                          elinewidth=1)  # fmt: skip
            below = quartiles[1, order] < FLOOR
            axes.plot(at[below], np.full(below.sum(), FLOOR), "v", color=color, ms=6)
        axes.set_xticks(place, [self.players[j] for j in order], rotation=35, ha="right", fontsize=8)
        axes.axhline(0, color="0.6", lw=0.8)
        axes.set_ylim(min(-0.05, axes.get_ylim()[0]), 1.02)
        axes.set_ylabel("variance reduction", fontsize=9)
        axes.set_title(self.title, fontsize=10)


def check_plots() -> None:
    """Refuse a missing matplotlib before hours of work, not after."""
    require("matplotlib", extra="reproduce", feature="Drawing the figures")


def draw_all(raw: Path, folder: Path, size: Size, seed: int, lines: list[Line]) -> int:
    """Draw every figure whose results are there, and return how many; `lines` are those of the table."""
    check_plots()
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    makers: dict[str, Callable[[Results, Any], Any]] = {
        "variance_by_samples": by_samples,
        "variance_reductions_credit_logistic": partial(reductions, sets=[("credit", "logistic")]),
        "variance_reductions_simulated_forest": partial(reductions, sets=[("simulated", "forest")]),
        "rank_changes_credit_network": credit_ranks,
        "efficiency_gap": gaps,
        "anticipated_and_observed": anticipated,
        "bootstrap_and_least_squares": covariances,
        "grouped_instability": grouped,
        "mean_squared_error": errors,
    }
    for model in MODELS:
        makers[f"variance_reductions_{model}"] = partial(reductions, sets=[(data, model) for data in DATA])
        makers[f"rank_changes_{model}"] = partial(rank_changes, model=model)
    n_drawn = 0
    for name, make in makers.items():
        results = Results(raw, size, seed, lines)
        figure = make(results, plt)
        if figure is not None and not (results.lost and (folder / f"{name}.png").is_file()):
            figure.savefig(folder / f"{name}.png", dpi=110)
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None})  # a date would make every drawing a change
            n_drawn += 1
        plt.close("all")
    return n_drawn


def by_samples(results: Results, plt: Any) -> Any:
    """Variance of one player's value by the number of permutations, reported (quartiles of runs) and observed."""
    study = results.study("study-samples")
    if study is None:
        return None
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for which, name in enumerate(("without control", "Taylor control")):
        color = COLORS[name]
        low, middle, high = np.quantile(study["variances"][:, :, which], [0.25, 0.5, 0.75], axis=1)
        axes.plot(study["numbers"], middle, color=color, label=f"{name}, reported (quartiles of runs)")
        axes.fill_between(study["numbers"], low, high, color=color, alpha=0.25, lw=0)
        observed = study["values"][:, :, which].var(axis=1, ddof=1)
        axes.plot(study["numbers"], observed, "o--", color=color, mfc="none", label=f"{name}, observed over runs")
    axes.set(xscale="log", yscale="log", xlabel="permutations", ylabel="variance of the Shapley value")
    axes.set_title(f"Bank, logistic regression, Shapley sampling, independent: {SAMPLES_PLAYER}", fontsize=10)
    axes.set_xticks(study["numbers"], [str(int(n)) for n in study["numbers"]])
    axes.minorticks_off()
    axes.legend(fontsize=8)
    return figure


def reductions(results: Results, plt: Any, sets: list[tuple[str, str]]) -> Any:
    """Reductions of variance by player, sorted by importance: medians and quartiles over rows, four settings."""
    panels = []
    for data, model in sets:
        panel = None
        for setting in SETTINGS:
            cell = Cell(data, model, *setting)
            runs, truth = results.runs(cell, "paper"), results.truth(cell)
            if runs is not None and truth is not None:
                title = f"{TITLES_OF_DATA[data]}, {TITLES[model]}: Taylor control against none"
                panel = panel or Panel(title, read_players(cell, results.raw))
                panel.add(SETTING_NAMES[setting], runs.uncontrolled, runs.controlled, truth)
        if panel is not None:
            panels.append(panel)
    return _draw_panels(panels, plt)


def _draw_panels(panels: list[Panel], plt: Any) -> Any:
    """Panels below one another with one legend; None without any."""
    if not panels:
        return None
    figure, axes = plt.subplots(len(panels), 1, figsize=(10, 3.6 * len(panels)), layout="constrained", squeeze=False)
    for panel, axis in zip(panels, axes[:, 0], strict=True):
        panel.draw(axis)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), fontsize=9, ncols=4, loc="outside upper center")
    return figure


def rank_changes(results: Results, plt: Any, model: str) -> Any:
    """Rank changes of correlated KernelSHAP without control, with the paper's, and by default."""
    changes = {}
    for data in DATA:
        values = results.by_method(Cell(data, model, "kernelshap", "correlated"))
        if values:
            changes[data] = {name: metrics.rank_changes(estimates) for name, estimates in values.items()}
    if not changes:
        return None
    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    _draw_boxes(axes, changes)
    axes.set(ylabel="rank changes (the paper's statistic)", title=f"KernelSHAP, correlated: {TITLES[model]}")
    return figure


def credit_ranks(results: Results, plt: Any) -> Any:
    """The paper's figure: the credit network, row by row."""
    values = results.by_method(Cell("credit", "network", "kernelshap", "correlated"))
    if not values:
        return None
    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    changes = {name: metrics.rank_changes(estimates) for name, estimates in values.items()}
    order = np.argsort(changes["without control"])
    for name, of_rows in changes.items():
        label = f"{name}: mean {of_rows.mean():.1f}"
        axes.plot(np.arange(len(order)), of_rows[order], "o", color=COLORS[name], label=label, ms=5)
    axes.set(xlabel="explained rows, by changes without control", ylabel="rank changes (the paper's statistic)")
    axes.set_title("Credit, neural network, KernelSHAP, correlated", fontsize=10)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8)
    return figure


def gaps(results: Results, plt: Any) -> Any:
    """How far estimates are from summing to f(x) - v(0)."""
    study = results.study("study-gap")
    if study is None:
        return None
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    by_model = {
        TITLES[model]: {"without control": gap[:, 0], "Taylor control": gap[:, 1]}
        for model, gap in zip(MODELS, study["gaps"], strict=True)
    }
    _draw_boxes(axes, by_model)
    axes.set(ylabel="|sum of values - (f(x) - v(0))| / |f(x) - v(0)|", title="Credit, Shapley sampling, independent")
    return figure


def anticipated(results: Results, plt: Any) -> Any:
    """Foreseen and observed reductions by player: medians and quartiles over rows."""
    columns = [("shapley_sampling", "paper", "Shapley sampling"), ("kernelshap", "paper", "KernelSHAP, least squares"),
               ("kernelshap", "bootstrap", "KernelSHAP, bootstrap")]  # fmt: skip
    sets = [("credit", "logistic"), ("brca", "network")]
    if any(results.runs(Cell(*pair, e, "independent"), m) is None for pair in sets for e, m, _ in columns):
        return None
    figure, axes = plt.subplots(2, 3, figsize=(11, 7), layout="constrained", sharex=True, sharey=True)
    for row, (data, model) in zip(axes, sets, strict=True):
        for axis, (estimator, method, title) in zip(row, columns, strict=True):
            for features, color in (
                ("independent", COLORS["Taylor control"]),
                ("correlated", COLORS["without control"]),
            ):
                runs = results.runs(Cell(data, model, estimator, features), method)
                if runs is None:
                    continue
                seen = metrics.variance_reduction(runs.uncontrolled, runs.controlled)
                foreseen = runs.anticipated.mean(axis=0)
                x, y = np.quantile(foreseen, [0.25, 0.5, 0.75], axis=0), np.quantile(seen, [0.25, 0.5, 0.75], axis=0)
                axis.errorbar(x[1], y[1], xerr=np.abs(x[[0, 2]] - x[1]), yerr=np.abs(y[[0, 2]] - y[1]), fmt="o", ms=4,
                              color=color, elinewidth=0.6, label=features)  # fmt: skip
            axis.plot([0, 1], [0, 1], color="0.6", lw=0.8)
            axis.set_title(f"{TITLES_OF_DATA[data]}, {TITLES[model]}\n{title}", fontsize=9)
            axis.set(xlim=(0, 1.02), ylim=(-0.2, 1.02))
    figure.supxlabel("anticipated reduction of variance")
    figure.supylabel("observed reduction of variance")
    axes[0, 0].legend(fontsize=8)
    return figure


def covariances(results: Results, plt: Any) -> Any:
    """Reductions with coefficients from least squares and from the bootstrap."""
    panels = []
    for data in DATA:
        cell = Cell(data, "logistic", "kernelshap", "independent")
        least, boot, truth = results.runs(cell, "paper"), results.runs(cell, "bootstrap"), results.truth(cell)
        if least is not None and boot is not None and truth is not None:
            title = f"{TITLES_OF_DATA[data]}, logistic regression, KernelSHAP, independent"
            panel = Panel(title, read_players(cell, results.raw))
            panel.add("least squares", least.uncontrolled, least.controlled, truth)
            panel.add("bootstrap", boot.uncontrolled, boot.controlled, truth)
            panels.append(panel)
    return _draw_panels(panels, plt)


def grouped(results: Results, plt: Any) -> Any:
    """Squared correlation of model and Taylor polynomial that runs report, for one row and player."""
    cell = Cell("bank", "logistic", "kernelshap", "independent")
    least, other, truth = results.runs(cell, "paper"), results.runs(cell, "grouped"), results.truth(cell)
    if least is None or other is None or truth is None:
        return None
    player = int(np.argmax(np.abs(truth[0])))
    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    for runs, name, color in ((least, "least squares", _SERIES[0]), (other, "groups of coalitions", _SERIES[2])):
        reported = runs.anticipated[:, 0, player]  # NaN where a group did not determine the values
        axes.plot(np.arange(1, len(reported) + 1), reported, "o-", ms=4, lw=0.6, color=color, label=name)
    axes.set(
        xlabel="run", ylabel="squared correlation of model\nand Taylor polynomial, as reported", ylim=(-0.02, 1.02)
    )
    axes.set_title(
        f"Bank, logistic regression, KernelSHAP: one row, {read_players(cell, results.raw)[player]}", fontsize=10
    )
    axes.legend(fontsize=8)
    return figure


def errors(results: Results, plt: Any) -> Any:
    """Root mean squared error against the true values: no control, the paper's, default."""
    figure, axes = plt.subplots(1, len(MODELS), figsize=(13, 6.5), layout="constrained", sharex=True, sharey=True)
    places = [(data, setting) for data in DATA for setting in SETTINGS]
    drawn = False
    for axis, model in zip(axes, MODELS, strict=True):
        for place, (data, setting) in enumerate(places):
            cell = Cell(data, model, *setting)
            truth = results.truth(cell)
            if truth is None:
                continue
            for name, values in results.by_method(cell).items():
                error = float(np.sqrt(np.mean((values - truth) ** 2)))
                # exact values have no place on a logarithmic axis
                axis.plot(max(error, 1e-7), place, "<" if error < 1e-7 else "o", color=COLORS[name], ms=5)
                drawn = True
        axis.set(xscale="log", title=TITLES[model], xlabel="root mean squared error")
        axis.grid(axis="y", lw=0.3)
    names = [f"{TITLES_OF_DATA[data]}, {SETTING_NAMES[setting]}" for data, setting in places]
    axes[0].set_yticks(range(len(names)), names, fontsize=8)
    axes[0].invert_yaxis()
    labels = {name: "default (arrow: exact)" if name == "default" else name for name in COLORS}
    marks = [plt.Line2D([], [], marker="o", ls="", color=COLORS[name], label=labels[name]) for name in COLORS]
    axes[-1].legend(handles=marks, fontsize=8)
    return figure if drawn else None


def _draw_boxes(axes: Any, groups: dict[str, dict[str, FloatArray]]) -> None:
    """Groups of boxes, one colour for each method."""
    for place, of_group in enumerate(groups.values()):
        for number, (name, values) in enumerate(of_group.items()):
            at = place + (number - (len(of_group) - 1) / 2) * 0.25
            box = axes.boxplot(values, positions=[at], widths=0.2, patch_artist=True, manage_ticks=False, sym=".")
            box["boxes"][0].set_facecolor(COLORS[name])
            box["medians"][0].set_color("black")
            if place == 0:
                axes.plot([], [], "s", color=COLORS[name], label=name)
    axes.set_xticks(range(len(groups)), [TITLES_OF_DATA.get(name, name) for name in groups])
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8)
