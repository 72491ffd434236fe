"""The picture of the efficiency benchmark: one line for each cell, one marker for each contender."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from efficiency_cases import Cell
from efficiency_peers import KERNEL, PLAIN

if TYPE_CHECKING:
    from efficiency_report import Ratio

#: Ratios beyond are drawn at the edge.
LIMITS = (0.1, 2e4)
INK, GRID = "#333333", "#e4e4e4"
#: Colour, marker, size and layer; the peers that the figures name stand in front.
STYLES = {
    "shap kernel": ("#d1495b", "o", 42, 9),
    "shap permutation": ("#edae49", "D", 26, 7),
    "lightshap": ("#66a182", "^", 32, 6),
    "shapiq KernelSHAP": ("#00798c", "s", 26, 8),
    "shapiq PolySHAP": ("#4aa3df", "v", 30, 5),
    "shapiq OddSHAP": ("#8e6c8a", "P", 32, 4),
    "shapiq RegressionMSR": ("#2e4057", "X", 32, 6),
    "shapiq ProxySHAP": ("#b08968", "<", 28, 3),
    PLAIN: ("#ffffff", "o", 34, 2),
    KERNEL: ("#7a1fa2", "h", 44, 9),
}


def draw(file: Path, chosen: list[Cell], ratios: list[Ratio]) -> None:
    """Two columns of sections, log axis, 1 in the middle of attention."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    sections = {s: [cell for cell in chosen if cell.section == s] for s in dict.fromkeys(c.section for c in chosen)}
    columns = _halves(sections)
    tallest = max(sum(len(sections[s]) + 1.6 for s in column) for column in columns)
    with plt.rc_context({"font.size": 8.5, "font.family": "DejaVu Sans", "axes.edgecolor": GRID}):
        height = 0.185 * tallest + 1.6
        figure, axes = plt.subplots(1, len(columns), figsize=(6.6 * len(columns), height), squeeze=False)
        for axis, column in zip(axes[0], columns, strict=True):
            _draw_column(axis, [(s, sections[s]) for s in column], ratios, tallest)
        drawn = {ratio.contender for ratio in ratios}
        handles = [
            plt.Line2D([], [], ls="", color=color, marker=marker, ms=6, mec=INK if name == PLAIN else "white",
                       mew=0.8 if name == PLAIN else 0.4, label=f"ours, {name}" if name in (PLAIN, KERNEL) else name)
            for name, (color, marker, _, _) in STYLES.items() if name in drawn
        ]  # fmt: skip
        handles.append(plt.Line2D([], [], ls="", color=INK, marker="|", ms=9, mew=1.6, label="figure to reach"))
        figure.suptitle(
            "Mean squared error of other explainers over ours, equal model evaluations",
            x=0.012, y=1 - 0.18 / height, ha="left", va="top", fontsize=13, fontweight="bold", color=INK,
        )  # fmt: skip
        figure.text(
            0.012, 1 - 0.5 / height, "Median over rows; right of the line we are better. Ratios beyond the axis stand "
            "at its edge; both exact counts as 1.", ha="left", va="top", color=INK,
        )  # fmt: skip
        figure.legend(
            handles=handles, loc="upper left", bbox_to_anchor=(0.005, 1 - 0.64 / height), ncols=6, frameon=False,
            columnspacing=1.4, handletextpad=0.2, labelcolor=INK,
        )  # fmt: skip
        figure.tight_layout(rect=(0, 0, 1, 1 - 0.98 / height), w_pad=2.0)
        figure.savefig(file, dpi=130, facecolor="white", metadata={"Software": None})
        plt.close(figure)


def _halves(sections: dict[str, list[Cell]]) -> list[list[str]]:
    """Sections in order, cut where both columns are about as tall."""
    heights = np.cumsum([len(part) + 1.6 for part in sections.values()])
    cut = int(np.abs(heights - heights[-1] / 2).argmin()) + 1
    names = list(sections)
    return [half for half in (names[:cut], names[cut:]) if half]


def _draw_column(axis, part: list[tuple[str, list[Cell]]], ratios: list[Ratio], tallest: float) -> None:
    place, y = {}, 0.0
    for section, members in part:
        axis.text(
            LIMITS[0] * 0.8, y + 0.15, section[0].upper() + section[1:], ha="right", va="center", fontweight="bold",
            color=INK,
        )  # fmt: skip
        for cell in members:
            y += 1
            place[cell.name] = y
            axis.axhline(y, color=GRID, lw=0.6, zorder=0)
            axis.text(LIMITS[0] * 0.8, y, _label(cell), ha="right", va="center", color=INK, fontsize=7.6)
            if cell.target is not None:
                axis.scatter(cell.target, y, marker="|", s=110, color=INK, linewidths=1.6, zorder=10)
        y += 1.6
    for ratio in ratios:
        if ratio.cell.name not in place:
            continue
        color, marker, size, layer = STYLES[ratio.contender]
        plain = ratio.contender == PLAIN
        axis.scatter(
            np.clip(ratio.median, *LIMITS), place[ratio.cell.name], color=color, marker=marker, s=size, zorder=layer,
            edgecolors=INK if plain else "white", linewidths=0.8 if plain else 0.4, clip_on=False,
        )  # fmt: skip
    axis.axvspan(LIMITS[0], 1, color="#f7e6e8", zorder=-1, lw=0)
    axis.axvline(1, color=INK, lw=1.1, zorder=1)
    axis.set(xscale="log", xlim=LIMITS, ylim=(tallest, -0.9), yticks=[])
    ticks = [0.1, 1, 10, 100, 1000, 10_000]
    axis.set_xticks(ticks, [f"{tick:,}" for tick in ticks], color=INK)
    axis.xaxis.set_ticks_position("both")
    axis.tick_params(axis="x", which="both", labeltop=True, color=GRID)
    axis.grid(axis="x", color=GRID, lw=0.6, zorder=0)
    axis.set_axisbelow(True)
    for side in ("left", "right"):
        axis.spines[side].set_visible(False)


def _label(cell: Cell) -> str:
    """What the section does not say."""
    parts = [cell.case]
    if f"{cell.budget:,} evaluations" not in cell.section and not cell.correlated:
        parts.append(f"{cell.budget:,}")
    return ", ".join(parts)
