"""The paper's figures from what was run, as PNG and SVG; a figure whose runs are missing is left out.

A figure that is there stays where some of the estimates that it shows are there no longer: the table tells.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from controlshap import metrics
from controlshap._optional import require
from controlshap._types import FloatArray
from controlshap_paper.cells import ESTIMATORS, FEATURES, Cell, Size
from controlshap_paper.data import NAMES as DATA
from controlshap_paper.models import NAMES as MODELS
from controlshap_paper.panels import COLORS, Panel
from controlshap_paper.runs import Estimates, is_done, read
from controlshap_paper.studies import SAMPLES_PLAYER
from controlshap_paper.tables import Line
from controlshap_paper.truth import read_players, read_truth, truth_name

TITLES = {"logistic": "logistic regression", "network": "neural network", "forest": "random forest"}
TITLES_OF_DATA = {name: "BRCA" if name == "brca" else name.capitalize() for name in DATA}
SETTINGS = [(estimator, features) for features in FEATURES for estimator in ESTIMATORS]
SETTING_NAMES = {(e, f): f"{'Shapley sampling' if e == 'shapley_sampling' else 'KernelSHAP'}, {f}" for e, f in SETTINGS}


class Results:
    """What is on disk; None where it is missing, and `lost` where the table says that it was there."""

    def __init__(self, raw: Path, size: Size, seed: int, lines: list[Line]) -> None:
        self.raw, self.size, self.seed, self.lost = raw, size, seed, False
        self._lines = {(line.cell, line.method) for line in lines}

    def runs(self, cell: Cell, method: str) -> Estimates | None:
        """Estimates of a cell."""
        name = f"{cell.name}-{method}"
        if is_done(self.raw, name, self.size, self.seed):
            return read(self.raw, name)
        self.lost |= (cell, method) in self._lines
        return None

    def truth(self, cell: Cell) -> FloatArray | None:
        """True values."""
        done = is_done(self.raw, truth_name(cell), self.size, self.seed)
        return read_truth(cell, self.raw)[0] if done else None

    def study(self, name: str) -> dict[str, FloatArray] | None:
        """Arrays of a study."""
        if not is_done(self.raw, name, self.size, self.seed):
            return None
        with np.load(self.raw / f"{name}.npz") as stored:
            return dict(stored)


def check_plots() -> None:
    """Refuse before hours of work, not after."""
    require("matplotlib", extra="reproduce", feature="Drawing the figures")


def draw_all(raw: Path, folder: Path, size: Size, seed: int, lines: list[Line]) -> int:
    """How many figures were drawn; `lines` are those of the table."""
    check_plots()
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    drawn = 0
    makers: dict[str, Callable[[Results, Any], Any]] = {
        "variance_by_samples": by_samples,
        "variance_reductions_credit_logistic": lambda r, p: reductions(r, p, [("credit", "logistic")]),
        "variance_reductions_simulated_forest": lambda r, p: reductions(r, p, [("simulated", "forest")]),
        "rank_changes_credit_network": credit_ranks,
        "efficiency_gap": gaps,
        "anticipated_and_observed": anticipated,
        "bootstrap_and_least_squares": covariances,
        "grouped_instability": grouped,
        "mean_squared_error": errors,
    }
    for model in MODELS:
        makers[f"variance_reductions_{model}"] = lambda r, p, m=model: reductions(r, p, [(d, m) for d in DATA])  # type: ignore[misc]
        makers[f"rank_changes_{model}"] = lambda r, p, m=model: rank_changes(r, p, m)  # type: ignore[misc]
    for name, make in makers.items():
        results = Results(raw, size, seed, lines)
        figure = make(results, plt)
        if figure is None:
            continue
        if results.lost and (folder / f"{name}.png").is_file():
            plt.close(figure)  # the one that is there shows more
            continue
        for kind in ("png", "svg"):
            # the date would make every drawing a change
            figure.savefig(folder / f"{name}.{kind}", dpi=110, metadata={"Date": None} if kind == "svg" else None)
        plt.close(figure)
        drawn += 1
    return drawn


def by_samples(results: Results, plt: Any) -> Any:
    """Variance of one player's value by the number of permutations, reported (quartiles of runs) and observed."""
    found = results.study("study-samples")
    if found is None:
        return None
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for which, (name, color) in enumerate((("without control", COLORS["plain"]), ("Taylor control", COLORS["paper"]))):
        low, middle, high = np.quantile(found["variances"][:, :, which], [0.25, 0.5, 0.75], axis=1)
        axes.plot(found["numbers"], middle, color=color, label=f"{name}, reported (quartiles of runs)")
        axes.fill_between(found["numbers"], low, high, color=color, alpha=0.25, lw=0)
        observed = found["values"][:, :, which].var(axis=1, ddof=1)
        axes.plot(found["numbers"], observed, "o--", color=color, mfc="none", label=f"{name}, observed over runs")
    axes.set(xscale="log", yscale="log", xlabel="permutations", ylabel="variance of the Shapley value")
    axes.set_title(f"Bank, logistic regression, Shapley sampling, independent: {SAMPLES_PLAYER}", fontsize=10)
    axes.set_xticks(found["numbers"], [str(int(n)) for n in found["numbers"]])
    axes.minorticks_off()
    axes.legend(fontsize=8)
    return figure


def reductions(results: Results, plt: Any, sets: list[tuple[str, str]]) -> Any:
    """Reductions of variance by player, sorted by importance: medians and quartiles over rows, four settings."""
    panels = []
    for data, model in sets:
        panel = None
        for estimator, features in SETTINGS:
            cell = Cell(data, model, estimator, features)
            runs, truth = results.runs(cell, "paper"), results.truth(cell)
            if runs is not None and truth is not None:
                title = f"{TITLES_OF_DATA[data]}, {TITLES[model]}: Taylor control against none"
                panel = panel or Panel(title, read_players(cell, results.raw))
                panel.add(SETTING_NAMES[estimator, features], runs.uncontrolled, runs.controlled, truth)
        if panel is not None:
            panels.append(panel)
    if not panels:
        return None
    figure, axes = plt.subplots(len(panels), 1, figsize=(10, 3.6 * len(panels)), layout="constrained", squeeze=False)
    for panel, axis in zip(panels, axes[:, 0], strict=True):
        panel.draw(axis)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), fontsize=9, ncols=4, loc="outside upper center")
    return figure


def rank_changes(results: Results, plt: Any, model: str) -> Any:
    """Rank changes of correlated KernelSHAP without control, with the paper's, and by default."""
    found = {}
    for data in DATA:
        cell = Cell(data, model, "kernelshap", "correlated")
        runs, default = results.runs(cell, "paper"), results.runs(cell, "default")
        if runs is not None:
            values = [("without control", runs.uncontrolled), ("Taylor control", runs.controlled)]
            values += [("default", default.controlled)] if default is not None else []
            found[data] = {name: metrics.rank_changes(one) for name, one in values}
    if not found:
        return None
    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    _boxes(axes, found)
    axes.set(ylabel="rank changes (the paper's statistic)", title=f"KernelSHAP, correlated: {TITLES[model]}")
    return figure


def credit_ranks(results: Results, plt: Any) -> Any:
    """The paper's figure: the credit network, row by row."""
    cell = Cell("credit", "network", "kernelshap", "correlated")
    runs, default = results.runs(cell, "paper"), results.runs(cell, "default")
    if runs is None:
        return None
    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    plain = metrics.rank_changes(runs.uncontrolled)
    order = np.argsort(plain)
    shown = [("without control", plain, "plain"), ("Taylor control", metrics.rank_changes(runs.controlled), "paper")]
    if default is not None:
        shown.append(("default", metrics.rank_changes(default.controlled), "default"))
    for name, changes, color in shown:
        label = f"{name}: mean {changes.mean():.1f}"
        axes.plot(np.arange(len(order)), changes[order], "o", color=COLORS[color], label=label, ms=5)
    axes.set(xlabel="explained rows, by changes without control", ylabel="rank changes (the paper's statistic)")
    axes.set_title("Credit, neural network, KernelSHAP, correlated", fontsize=10)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8)
    return figure


def gaps(results: Results, plt: Any) -> Any:
    """How far estimates are from summing to f(x) - v(0)."""
    found = results.study("study-gap")
    if found is None:
        return None
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    by_model = {
        TITLES[m]: {"without control": one[:, 0], "Taylor control": one[:, 1]}
        for m, one in zip(MODELS, found["gaps"], strict=True)
    }
    _boxes(axes, by_model)
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
            for features, color in (("independent", COLORS["paper"]), ("correlated", COLORS["plain"])):
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
    shown = []
    for data in DATA:
        cell = Cell(data, "logistic", "kernelshap", "independent")
        least, boot, truth = results.runs(cell, "paper"), results.runs(cell, "bootstrap"), results.truth(cell)
        if least is not None and boot is not None and truth is not None:
            title = f"{TITLES_OF_DATA[data]}, logistic regression, KernelSHAP, independent"
            panel = Panel(title, read_players(cell, results.raw))
            panel.add("least squares", least.uncontrolled, least.controlled, truth)
            panel.add("bootstrap", boot.uncontrolled, boot.controlled, truth)
            shown.append(panel)
    if not shown:
        return None
    figure, axes = plt.subplots(len(shown), 1, figsize=(10, 3.4 * len(shown)), layout="constrained", squeeze=False)
    for panel, axis in zip(shown, axes[:, 0], strict=True):
        panel.draw(axis)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), fontsize=9, ncols=4, loc="outside upper center")
    return figure


def grouped(results: Results, plt: Any) -> Any:
    """Squared correlation of model and Taylor polynomial that runs report, for one row and player."""
    cell = Cell("bank", "logistic", "kernelshap", "independent")
    least, other, truth = results.runs(cell, "paper"), results.runs(cell, "grouped"), results.truth(cell)
    if least is None or other is None or truth is None:
        return None
    player = int(np.argmax(np.abs(truth[0])))
    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    for values, name, color in ((least, "least squares", "paper"), (other, "groups of coalitions", "plain")):
        found = values.anticipated[:, 0, player]  # NaN where a group did not determine the values
        axes.plot(np.arange(1, len(found) + 1), found, "o-", ms=4, lw=0.6, color=COLORS[color], label=name)
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
    names = [f"{TITLES_OF_DATA[data]}, {SETTING_NAMES[setting]}" for data in DATA for setting in SETTINGS]
    drawn = False
    for axis, model in zip(axes, MODELS, strict=True):
        for place, (data, (estimator, features)) in enumerate((d, s) for d in DATA for s in SETTINGS):
            cell = Cell(data, model, estimator, features)
            runs, default, truth = results.runs(cell, "paper"), results.runs(cell, "default"), results.truth(cell)
            if runs is None or truth is None:
                continue
            drawn = True
            found = [(runs.uncontrolled, "plain"), (runs.controlled, "paper")]
            found += [(default.controlled, "default")] if default is not None else []
            for values, color in found:
                error = float(np.sqrt(np.mean((values - truth) ** 2)))
                # exact values have no place on a logarithmic axis
                axis.plot(max(error, 1e-7), place, "<" if error < 1e-7 else "o", color=COLORS[color], ms=5)
        axis.set(xscale="log", title=TITLES[model], xlabel="root mean squared error")
        axis.grid(axis="y", lw=0.3)
    axes[0].set_yticks(range(len(names)), names, fontsize=8)
    axes[0].invert_yaxis()
    shown = (("plain", "without control"), ("paper", "Taylor control"), ("default", "default (arrow: exact)"))
    marks = [plt.Line2D([], [], marker="o", ls="", color=COLORS[key], label=label) for key, label in shown]
    axes[-1].legend(handles=marks, fontsize=8)
    return figure if drawn else None


def _boxes(axes: Any, found: dict[str, dict[str, FloatArray]]) -> None:
    """Groups of boxes, one colour for each method."""
    colors = {"without control": COLORS["plain"], "Taylor control": COLORS["paper"], "default": COLORS["default"]}
    for place, of_group in enumerate(found.values()):
        for number, (name, values) in enumerate(of_group.items()):
            at = place + (number - (len(of_group) - 1) / 2) * 0.25
            box = axes.boxplot(values, positions=[at], widths=0.2, patch_artist=True, manage_ticks=False, sym=".")
            box["boxes"][0].set_facecolor(colors[name])
            box["medians"][0].set_color("black")
            if place == 0:
                axes.plot([], [], "s", color=colors[name], label=name)
    axes.set_xticks(range(len(found)), [TITLES_OF_DATA.get(name, name) for name in found])
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8)
