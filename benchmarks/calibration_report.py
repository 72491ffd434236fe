"""Table and plot of the calibration benchmark."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
#: What a cell must reach: coverage, reported over observed error, share of runs with a wrong certificate.
COVERAGE, RATIO, WRONG = (0.93, 0.97), (0.9, 1.1), 0.05
Record = dict[str, Any]
COLUMNS = (
    "model", "features", "estimator", "control", "budget", "stop", "variance", "coverage", "ratio", "certified",
    "wrong", "evaluations", "runs", "failed", "peer",
)  # fmt: skip


def passes(record: Record) -> bool:
    """Whether a cell is as it should be; one without errors (all exact) is."""
    if record.get("failed"):
        return False
    if record["coverage"] is None:
        return True
    inside = COVERAGE[0] <= round(record["coverage"], 3) <= COVERAGE[1]
    inside = inside and RATIO[0] <= round(record["ratio"], 2) <= RATIO[1]
    return inside and record.get("wrong", 0.0) <= WRONG


def write(records: list[Record], missing: list[str], replications: int, *, publish: bool) -> None:
    """Table, numbers and picture; `missing` are cells that were not measured."""
    folder = HERE / ("results" if publish else ".cache")
    ours = [record for record in records if "peer" not in record]
    text = _text(ours, [r for r in records if "peer" in r], missing, replications)
    (folder / "calibration.md").write_text(text)
    with (folder / "calibration.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for record in records:
            rounded = {k: round(v, 4) if isinstance(v, float) else v for k, v in record.items()}
            writer.writerow(rounded)
    _plot(ours, folder / "calibration.png")
    print(text)


def _text(ours: list[Record], peers: list[Record], missing: list[str], replications: int) -> str:
    lines = [
        "# Calibration", "",
        f"`benchmarks/calibration.py`, {replications} replications of a cell (4 rows of the diabetes data, 8 players, "
        "of which one has three strongly correlated columns), bare callables, players pooled. Coverage of 95 % "
        f"intervals (wanted {COVERAGE[0]:.0%} to {COVERAGE[1]:.0%}), reported over observed standard error (median "
        f"over rows and players; wanted {RATIO[0]} to {RATIO[1]}), and the share of runs in which something certified "
        f"by `explanation.ranking(0.95)` was wrong (wanted at most {WRONG:.0%}).", "",
        "![Coverage and errors of all cells](calibration.png)", "",
        "## By variance method", "",
        "| variance method | cells | as wanted | coverage: lowest, median, highest | reported / observed: lowest, "
        "median, highest | most wrong certificates |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name in sorted({record["variance"] for record in ours}):
        some = [r for r in ours if r["variance"] == name and not r.get("failed") and r["coverage"] is not None]
        if some:
            coverage, ratio = np.array([r["coverage"] for r in some]), np.array([r["ratio"] for r in some])
            worst = max(r["wrong"] for r in some)
            n_good = sum(passes(r) for r in some)
            lines.append(
                f"| {name if name != 'auto' else 'as chosen, after stopping'} | {len(some)} | {n_good} | "
                f"{coverage.min():.3f}, {np.median(coverage):.3f}, {coverage.max():.3f} | "
                f"{ratio.min():.2f}, {np.median(ratio):.2f}, {ratio.max():.2f} | {worst:.3f} |"
            )
    refused = [record for record in ours if record.get("failed")]
    odd = [record for record in ours if not passes(record) and not record.get("failed")]
    lines += ["", f"## Not as wanted: {len(odd)} of {len(ours) - len(refused)}", "", *_table(odd), ""]
    lines += [f"The library refuses {len(refused)} more, all of them `grouped` with too few units for 20 groups."]
    lines += ["", f"## Not measured: {len(missing)} cells", "", *(f"- {name}" for name in missing)]
    lines += ["", "## Other explainers' own error figures", ""]
    lines += ["Features independent, ten players. Intervals are the estimate plus and minus 1.96 errors.", ""]
    lines += ["| explainer | model | evaluations | coverage | reported / observed |", "|---|---|---|---|---|"]
    for r in sorted(peers, key=lambda r: (r["peer"], r["model"], r["budget"])):
        lines.append(f"| {r['peer']} | {r['model']} | {r['budget']:,} | {r['coverage']:.3f} | {r['ratio']:.2f} |")
    stopped = [record for record in ours if record["stop"]]
    lines += ["", "## After stopping", "", *_table(stopped)]
    lines += ["", "## Fixed budgets", "", *_table([record for record in ours if not record["stop"]])]
    return "\n".join(lines) + "\n"


def _table(records: list[Record]) -> list[str]:
    lines = [
        "| model | features | estimator | control | budget | until | variance | coverage | reported / observed | "
        "certified | wrong | evaluations |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    order = sorted(records, key=lambda r: tuple(str(r[c]).rjust(6) for c in COLUMNS[:7]))
    for r in order:
        head = (
            f"| {r['model']} | {r['features']} | {r['estimator']} | {r['control']} | {r['budget']:,} | {r['stop']} | "
        )
        head += f"{r['variance']} | "
        if r.get("failed"):
            lines.append(head + f"{r['failed']} | | | | |")
        elif r["coverage"] is None:
            lines.append(head + "exact | exact | 1.00 | 0.000 | |")
        else:
            lines.append(
                head + f"{r['coverage']:.3f} | {r['ratio']:.2f} | {r['certified']:.2f} | {r['wrong']:.3f} | "
                f"{r['evaluations']:,.0f} |"
            )
    return lines


def _plot(records: list[Record], file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    some = [r for r in records if not r.get("failed") and r["coverage"] is not None]
    names = sorted({r["variance"] for r in some})
    if not some:
        return
    fig, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    colors = {"none": "#888888", "taylor": "#c77c11", "auto": "#1b6ca8"}
    panels = (("coverage", COVERAGE, "coverage of 95 % intervals"), ("ratio", RATIO, "reported / observed error"))
    rng = np.random.default_rng(0)
    for axis, (key, wanted, label) in zip(axes, panels, strict=True):
        axis.axhspan(*wanted, color="#2e8b57", alpha=0.15, lw=0)
        axis.axhline(0.95 if key == "coverage" else 1.0, color="#2e8b57", lw=0.8)
        for control, color in colors.items():
            points = [r for r in some if r["control"] == control]
            place = [names.index(r["variance"]) + rng.uniform(-0.25, 0.25) for r in points]
            axis.scatter(place, [r[key] for r in points], s=14, color=color, alpha=0.8, label=f"control {control}")
        axis.set_xticks(range(len(names)), [n if n != "auto" else "after stopping" for n in names])
        axis.set_ylabel(label)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].legend(frameon=False, loc="lower left")
    fig.savefig(file, dpi=120, metadata={"Software": None})
    plt.close(fig)
