"""A demonstration on data that comes with scikit-learn: `python -m controlshap.cli.demo [--out DIR] [--shap]`.

Fits a network to the breast-cancer data and explains one prediction again and again, with another seed each time: the
values of plain KernelSHAP (with `--shap`, of shap's own KernelExplainer) scatter, ours do not. Both get the same number
of model evaluations, then the same time. Ends with a report on some test rows.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from controlshap._imports import require
from controlshap._types import FloatArray
from controlshap._version import __version__
from controlshap.explainer import Explainer
from controlshap.results.wording import format_factor

#: Evaluations for a row, rows of the background, reruns, rows of the report, players that are listed.
BUDGET, N_BACKGROUND, N_RERUNS, N_REPORT, N_SHOWN = 5000, 50, 20, 60, 8
OURS, THEIRS = "#0072B2", "#D55E00"


@dataclass(frozen=True)
class DemoCase:
    """A fitted classifier, its background and rows to explain."""

    model: Any
    background: FloatArray
    rows: FloatArray
    names: tuple[str, ...]
    accuracy: float

    def explainer(self, **settings: Any) -> Explainer:
        """Return an explainer whose players have the names of the measurements."""
        columns = {name: [number] for number, name in enumerate(self.names)}
        return Explainer(self.model, self.background, groups=columns, **settings)

    def predict(self, rows: FloatArray) -> FloatArray:
        """Return what is explained, the probability of the second class."""
        found: FloatArray = self.model.predict_proba(rows)[:, 1]
        return found


@dataclass(frozen=True)
class Reruns:
    """One row explained with several seeds: who, the values `(reruns, players)`, seconds for a run."""

    label: str
    values: FloatArray
    seconds: float

    @property
    def variance(self) -> float:
        """Variance between the runs, summed over the players."""
        return float(self.values.var(axis=0, ddof=1).sum())


def need(module: str) -> Any:
    """Import an optional package, or say how to get it."""
    return require(module, extra="demo", feature="The demo")


def make_case() -> DemoCase:
    """Fit a small tanh network to all 30 measurements of each tumour."""
    datasets, selection = need("sklearn.datasets"), need("sklearn.model_selection")
    pipeline, scaling = need("sklearn.pipeline"), need("sklearn.preprocessing")
    network = need("sklearn.neural_network").MLPClassifier(
        hidden_layer_sizes=(20,), activation="tanh", solver="lbfgs", alpha=10.0, max_iter=2000, random_state=0
    )
    data = datasets.load_breast_cancer()
    kinds = data.target_names[data.target]
    rows, others, target, other_target = selection.train_test_split(data.data, kinds, random_state=0)
    model = pipeline.make_pipeline(scaling.StandardScaler(), network).fit(rows, target)
    names = tuple(str(name) for name in data.feature_names)
    return DemoCase(model, rows[:N_BACKGROUND], others, names, float(model.score(others, other_target)))


def rerun(label: str, explain: Callable[[int], FloatArray], n_runs: int = N_RERUNS) -> Reruns:
    """Explain one row with several seeds."""
    explain(0)  # what happens once is not timed
    start = time.perf_counter()
    values = np.array([explain(100 + seed) for seed in range(n_runs)])
    return Reruns(label, values, (time.perf_counter() - start) / n_runs)


def compare(case: DemoCase, row: FloatArray, *, with_shap: bool) -> list[Reruns]:
    """Rerun ours and theirs at equal evaluations, and theirs in the time that ours takes."""
    ours = case.explainer()
    own = rerun("controlshap", lambda seed: ours(row, budget=BUDGET, rng=seed).values[0])
    plain = case.explainer(estimator="kernel", control="none")

    def explain(seed: int, budget: int) -> FloatArray:
        if not with_shap:
            found: FloatArray = plain(row, budget=budget, rng=seed).values[0]
            return found
        np.random.seed(seed)  # noqa: NPY002 (shap draws from the global state)
        explainer = need("shap").KernelExplainer(case.predict, case.background)
        values: FloatArray = explainer.shap_values(
            row, nsamples=(budget - 1) // len(case.background), silent=True, l1_reg=False
        )
        return values

    name = "shap.KernelExplainer" if with_shap else "KernelSHAP, no control"
    same = rerun(name, lambda seed: explain(seed, BUDGET))
    in_time = int(np.clip(BUDGET * own.seconds / same.seconds, BUDGET, 40 * BUDGET))
    longer = rerun(f"{name}, {in_time:,} evaluations", lambda seed: explain(seed, in_time), 8)
    return [own, same, longer]


def table(case: DemoCase, runs: list[Reruns]) -> str:
    """Return the largest values with the range over the reruns."""
    ours, theirs = runs[0], runs[1]
    width = max(len(name) for name in case.names)
    lines = [f"  {'feature':{width}}  {ours.label:>20}   {theirs.label:>24}"]
    for player in np.argsort(-np.abs(ours.values.mean(axis=0)))[:N_SHOWN]:
        ranges = [f"{run.values[:, player].min():+.3f} to {run.values[:, player].max():+.3f}" for run in (ours, theirs)]
        lines.append(f"  {case.names[player]:{width}}  {ranges[0]:>20}   {ranges[1]:>24}")
    return "\n".join(lines)


def picture(case: DemoCase, runs: list[Reruns], path: Path) -> None:
    """Draw a dot for each rerun, ours above theirs."""
    need("matplotlib").use("Agg")
    plt = need("matplotlib.pyplot")
    order = np.argsort(-np.abs(runs[0].values.mean(axis=0)))[:N_SHOWN]
    figure, ax = plt.subplots(figsize=(8.0, 4.4), layout="constrained")
    for run, colour, shift in ((runs[1], THEIRS, 0.17), (runs[0], OURS, -0.17)):
        for place, player in enumerate(order):
            dots = run.values[:, player]
            label = run.label if place == 0 else None
            ax.plot(dots, np.full(len(dots), place + shift), "o", color=colour, markersize=4, alpha=0.45, label=label)
    ax.axvline(0.0, color="0.6", linewidth=0.8, zorder=0)
    ax.set_yticks(range(len(order)), [case.names[player] for player in order])
    ax.set_ylim(len(order) - 0.4, -0.6)
    ax.set_xlabel("Shapley value for the probability of class 'malignant'", fontsize=9)
    title = f"One prediction, explained {N_RERUNS} times with {BUDGET:,} model evaluations each"
    ax.set_title(title, fontsize=11, loc="left")
    ax.grid(axis="x", color="0.9", linewidth=0.6)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2, fontsize=9, frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def conclude(runs: list[Reruns]) -> str:
    """Return what the reruns showed."""
    ours, theirs, longer = runs
    equal = format_factor(theirs.variance / ours.variance)
    text = (
        f"Conclusion: from {BUDGET:,} evaluations each, the variance between reruns of {theirs.label} is {equal} times "
        f"that of controlshap ({theirs.seconds:.2f} s and {ours.seconds:.2f} s for a run)."
    )
    later = longer.variance / ours.variance
    return f"{text} {longer.label}, {longer.seconds:.2f} s: still {format_factor(later)} times."


def main(arguments: list[str] | None = None) -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(prog="python -m controlshap.cli.demo", description=__doc__)
    parser.add_argument("--out", default="demo_output", help="folder for the report, the picture and the explanation")
    parser.add_argument("--shap", action="store_true", help="compare with shap's KernelExplainer, which must be there")
    options = parser.parse_args(arguments)
    for module in ("matplotlib", "jinja2", *(["shap"] if options.shap else [])):
        need(module)  # before the work, not after it
    case, out = make_case(), Path(options.out)
    print(f"controlshap {__version__}: a network for 30 measurements of tumours, test accuracy {case.accuracy:.3f}\n")
    explanation = case.explainer()(case.rows[:N_REPORT], budget=BUDGET, rng=0, progress=False)
    explanation.save(out / "explanation")
    # the row that the model is least sure of: there the values differ most
    row = int(np.abs(case.predict(case.rows[:N_REPORT]) - 0.5).argmin())
    print(explanation[row])
    runs = compare(case, case.rows[row], with_shap=options.shap)
    print(f"\nThe same row explained {N_RERUNS} times, with another seed each time:\n{table(case, runs)}\n")
    print(conclude(runs))
    print("A smooth network is what the control fits best. For your own model: controlshap benchmark MODEL ROWS")
    picture(case, runs, out / "demo.png")
    report = explanation.report(out / "report.html", title="Tumours: why the model says malignant")
    print(f"\nOpen {report}: every row, its values with intervals, and what is certain. Beside it: demo.png")


if __name__ == "__main__":
    main()
