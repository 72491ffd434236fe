"""Exponents, tables and picture of the scaling benchmark."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scaling_cases import AXES, N_PERMUTATIONS, Axis, Setting

#: An exponent may be this much above its limit by the noise of timing.
SLACK = 0.1
#: Memory that does not reach this many MB does not grow.
FLAT = 8.0
INK, GRID = "#333333", "#e4e4e4"
COLOURS = {
    "permutation, none": "#00798c", "kernel, none": "#d1495b", "permutation, taylor": "#edae49",
    "permutation, ridge": "#66a182", "D matrices": "#2e4057", "walks": "#00798c", "coalitions": "#d1495b",
}  # fmt: skip


@dataclass(frozen=True)
class Line:
    """What was found for one setting along an axis."""

    axis: Axis
    setting: Setting
    sizes: tuple[int, ...]
    found: tuple[dict[str, float], ...]

    @property
    def seconds(self) -> list[float]:
        """Ours: in all, less the model's."""
        return [max(one["total"] - one["model"], 1e-6) for one in self.found]

    @property
    def memory(self) -> list[float]:
        return [one["memory"] for one in self.found]

    @property
    def upper(self) -> tuple[int, ...]:
        """The upper half of the range of sizes, in logarithms; at least two of them."""
        middle = math.sqrt(self.sizes[0] * self.sizes[-1]) * (1 - 1e-9)
        return self.sizes[-max(2, sum(size >= middle for size in self.sizes)) :]

    @property
    def exponent(self) -> float:
        return fitted_exponent(self.upper, self.seconds[-len(self.upper) :])

    @property
    def last_exponent(self) -> float:
        """Between the two largest sizes."""
        return fitted_exponent(self.sizes[-2:], self.seconds[-2:])

    @property
    def memory_exponent(self) -> float:
        """0 where memory stays small."""
        if max(self.memory) < FLAT:
            return 0.0
        return fitted_exponent(self.upper, [max(one, 1.0) for one in self.memory[-len(self.upper) :]])

    @property
    def within(self) -> bool:
        return self.exponent <= self.axis.limit + SLACK

    @property
    def label(self) -> str:
        return f"{self.setting.estimator}, {self.setting.control}" if self.setting.control else self.setting.estimator


def fitted_exponent(sizes: tuple[int, ...], values: list[float]) -> float:
    """Slope of a straight line through the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def report(lines: list[Line]) -> str:
    """The page."""
    axes = [axis for axis in AXES if any(line.axis is axis for line in lines)]
    parts = [
        "# How cost grows",
        "",
        "`python benchmarks/scaling.py`: an explanation beside the model, which is the tanh of a linear score. Seconds",
        "are processor time of one thread without the model's own time, which stands apart for the largest size, as",
        "does what is spent once for all rows (moments, background, D matrices). Memory is the peak of a process of",
        "its own, beyond that of a tiny explanation with the same settings, in MB; `memory_limit` is the default, 256.",
        "Exponents are fitted by least squares to the logarithms over the upper half of the range, which is given; the",
        f"last step is the exponent between the two largest sizes. Limits on the exponent of time allow {SLACK} for",
        "noise. The Taylor control takes differences along columns only, and its D matrices come from",
        f"{N_PERMUTATIONS} permutations (the default is 2000).",
        "",
        verdict(lines),
    ]
    for axis in axes:
        of_axis = [line for line in lines if line.axis is axis]
        parts += ["", f"## {axis.title}", "", f"With {axis.fixed}." if axis.name != "columns" else f"{axis.fixed}."]
        parts += ["", "Seconds, ours:", "", *_time_table(axis, of_axis), "", "Memory, MB:", ""]
        parts += _memory_table(axis, of_axis)
    return "\n".join([*parts, "", "![Time and memory against each size](scaling.png)", ""])


def verdict(lines: list[Line]) -> str:
    """Which exponents are above their limits: those fitted, and those of the last step alone."""
    beyond = [line for line in lines if not line.within]
    steeper = [line for line in lines if line.within and line.last_exponent > line.axis.limit + SLACK]
    text = f"All {len(lines)} exponents of time are within their limits."
    if beyond:
        named = _named([(line, line.exponent) for line in beyond])
        text = f"{len(lines) - len(beyond)} of {len(lines)} exponents of time are within their limits, not: {named}."
    if steeper:
        text += f"\nSteeper than the limit in the last step alone: {_named([(s, s.last_exponent) for s in steeper])}."
    return text


def _named(found: list[tuple[Line, float]]) -> str:
    return "; ".join(
        f"{line.axis.title.lower()}, {line.setting.features}, {line.label}: {exponent:.2f}" for line, exponent in found
    )


def _time_table(axis: Axis, lines: list[Line]) -> list[str]:
    sizes = max((line.sizes for line in lines), key=len)
    head = [*_heads(axis), *(f"{size:,}" for size in sizes), "exponent", "over", "last step", "limit", "within"]
    head += [] if axis.name == "columns" else ["model, s", "once, s", "evaluations"]
    rows = []
    for line in lines:
        last = line.found[-1]
        row = [*_names(axis, line.setting), *_cells(line.seconds, len(sizes), _seconds), f"{line.exponent:.2f}"]
        row += [f"{line.upper[0]:,} to {line.upper[-1]:,}", f"{line.last_exponent:.2f}", f"{axis.limit:g}"]
        row += ["yes" if line.within else "no"]
        if axis.name != "columns":
            row += [_seconds(last["model"]), _seconds(last["once"]), f"{int(last['evaluations']):,}"]
        rows.append(row)
    return _markdown(head, rows)


def _memory_table(axis: Axis, lines: list[Line]) -> list[str]:
    sizes = max((line.sizes for line in lines), key=len)
    head = [*_heads(axis), *(f"{size:,}" for size in sizes), "exponent", "over"]
    rows = []
    for line in lines:
        flat = max(line.memory) < FLAT
        fit = "flat" if flat else f"{line.memory_exponent:.2f}"
        span = f"{line.upper[0]:,} to {line.upper[-1]:,}"
        rows.append([*_names(axis, line.setting), *_cells(line.memory, len(sizes), "{:.0f}".format), fit, span])
    return _markdown(head, rows)


def _heads(axis: Axis) -> list[str]:
    return ["features", "part"] if axis.name == "columns" else ["features", "estimator", "control"]


def _names(axis: Axis, setting: Setting) -> list[str]:
    names = [setting.features, setting.estimator]
    return names if axis.name == "columns" else [*names, setting.control]


def _cells(values: list[float], n: int, form) -> list[str]:
    return [form(value) for value in values] + [""] * (n - len(values))


def _seconds(value: float) -> str:
    return f"{value:.2g}" if value < 1 else f"{value:.3g}"


def _markdown(head: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows]]


def draw(file: Path, lines: list[Line]) -> None:
    """Time above, memory below, one column for each axis; a grey line has the exponent of the limit."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    axes = [axis for axis in AXES if any(line.axis is axis for line in lines)]
    with plt.rc_context({"font.size": 8.5, "font.family": "DejaVu Sans", "axes.edgecolor": GRID}):
        figure, grid = plt.subplots(2, len(axes), figsize=(3.3 * len(axes), 6.4), squeeze=False)
        for column, axis in enumerate(axes):
            of_axis = [line for line in lines if line.axis is axis]
            above, below = grid[:, column]
            for line in of_axis:
                style = {
                    "color": COLOURS[line.label], "ls": "-" if line.setting.features == "independent" else "--",
                    "marker": "o", "ms": 3.2, "lw": 1.3,
                }  # fmt: skip
                above.plot(line.sizes, line.seconds, **style)
                below.plot(line.sizes, np.maximum(line.memory, 1.0), **style)
            _draw_limit(above, axis, of_axis)
            above.set_title(axis.title, loc="left", fontweight="bold", color=INK)
            for panel in (above, below):
                panel.set(xscale="log", yscale="log", xlabel=axis.title.lower())
                panel.grid(color=GRID, lw=0.6)
                panel.set_axisbelow(True)
                panel.spines[["top", "right"]].set_visible(False)
        grid[0, 0].set_ylabel("seconds, ours")
        grid[1, 0].set_ylabel("memory, MB (1 and less at 1)")
        _draw_legend(figure, plt, lines)
        figure.tight_layout(rect=(0, 0.08, 1, 1))
        figure.savefig(file, dpi=130, facecolor="white", metadata={"Software": None})
        plt.close(figure)


def _draw_limit(panel, axis: Axis, lines: list[Line]) -> None:
    """Through the slowest setting at its largest size."""
    slowest = max(lines, key=lambda line: line.seconds[-1])
    sizes = np.array(slowest.upper, dtype=float)
    panel.plot(sizes, 1.6 * slowest.seconds[-1] * (sizes / sizes[-1]) ** axis.limit, color="#999999", lw=3, alpha=0.5)


def _draw_legend(figure, plt, lines: list[Line]) -> None:
    drawn = {line.label for line in lines}
    handles = [plt.Line2D([], [], color=c, marker="o", ms=4, label=n) for n, c in COLOURS.items() if n in drawn]
    handles += [
        plt.Line2D([], [], color=INK, ls="-", label="independent"),
        plt.Line2D([], [], color=INK, ls="--", label="correlated"),
        plt.Line2D([], [], color="#999999", lw=3, alpha=0.5, label="slope of the limit"),
    ]
    figure.legend(handles=handles, loc="lower center", ncols=5, frameon=False)
