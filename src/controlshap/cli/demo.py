"""A demonstration on data that comes with scikit-learn: `python -m controlshap.cli.demo [--out DIR]`.

Fits a network to the breast-cancer data, explains some predictions with KernelSHAP with and without control from
the same model evaluations, prints a table, saves the explanations and draws a picture that compares the reported errors
with the spread of repeated runs.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from controlshap._optional import require
from controlshap._types import FloatArray
from controlshap._version import __version__
from controlshap.explainer import Explainer
from controlshap.results.explanation import Explanation

BUDGET, N_ROWS, N_RERUNS, N_SHOWN = 2000, 3, 100, 6
WITH, WITHOUT = "#1f6fb4", "#c8782a"


@dataclass(frozen=True)
class DemoCase:
    """A fitted model, its background and the rows to explain."""

    model: Any
    background: FloatArray
    rows: FloatArray
    names: tuple[str, ...]
    accuracy: float

    def explainer(self, features: str) -> Explainer:
        """Return KernelSHAP with the paper's control."""
        columns = {name: [number] for number, name in enumerate(self.names)}
        return Explainer(
            self.model, self.background, features=features, estimator="kernel", control="taylor", groups=columns
        )


@dataclass(frozen=True)
class Reruns:
    """Results of one row explained with several seeds, arrays of shape (reruns, players)."""

    controlled: FloatArray
    uncontrolled: FloatArray
    errors: FloatArray
    uncontrolled_errors: FloatArray


def need(module: str) -> Any:
    """Import an optional package, or say how to get it."""
    return require(module, extra="sklearn,plots,report", feature="The demo")


def make_case() -> DemoCase:
    """Fit a small tanh network to the ten "worst" measurements of each tumour; class 1 is benign."""
    datasets, selection = need("sklearn.datasets"), need("sklearn.model_selection")
    pipeline, scaling = need("sklearn.pipeline"), need("sklearn.preprocessing")
    network = need("sklearn.neural_network").MLPClassifier(
        hidden_layer_sizes=(20,), activation="tanh", solver="lbfgs", alpha=10.0, max_iter=2000, random_state=0
    )
    data = datasets.load_breast_cancer()
    chosen = [number for number, name in enumerate(data.feature_names) if name.startswith("worst")]
    split = selection.train_test_split(data.data[:, chosen], data.target, random_state=0)
    rows, test_rows, target, test_target = split
    model = pipeline.make_pipeline(scaling.StandardScaler(), network).fit(rows, target)
    names = tuple(str(data.feature_names[number]) for number in chosen)
    return DemoCase(model, rows, test_rows[:N_ROWS], names, float(model.score(test_rows, test_target)))


def variance_factor(explanation: Explanation) -> FloatArray:
    """Return the factor by which the control reduced each variance."""
    errors = np.maximum(explanation.standard_errors, np.finfo(float).tiny)
    factor: FloatArray = (explanation.uncontrolled_standard_errors / errors) ** 2
    return factor


def table(explanation: Explanation, features: str, predictions: FloatArray) -> str:
    """Return a table of the largest values of each row, with standard errors with and without control."""
    width = max(len(name) for name in explanation.feature_names)
    factor = variance_factor(explanation)
    lines = [f"\nFeatures {features}: Shapley value ± standard error, with and without control, same evaluations"]
    for row, prediction in enumerate(predictions):
        lines.append(
            f"\n  test row {row}: prediction {prediction:.3f} = base {explanation.base_values[row]:.3f} + the values "
            f"({explanation.n_evaluations[row]:,} evaluations)"
        )
        lines.append(f"  {'feature':{width}}  {'with control':>18}  {'without control':>18}  smaller variance")
        lines.extend(
            f"  {explanation.feature_names[player]:{width}}  "
            f"{explanation.values[row, player]:+9.4f} ± {explanation.standard_errors[row, player]:.4f}  "
            f"{explanation.uncontrolled_values[row, player]:+9.4f} ± "
            f"{explanation.uncontrolled_standard_errors[row, player]:.4f}  {factor[row, player]:10.1f} times"
            for player in np.argsort(-np.abs(explanation.values[row]))[:N_SHOWN]
        )
    return "\n".join(lines)


def rerun(explainer: Explainer, row: FloatArray) -> Reruns:
    """Explain one row with several seeds."""
    runs = [explainer(row, budget=BUDGET, rng=100 + seed) for seed in range(N_RERUNS)]
    return Reruns(
        np.array([run.values[0] for run in runs]),
        np.array([run.uncontrolled_values[0] for run in runs]),
        np.array([run.standard_errors[0] for run in runs]),
        np.array([run.uncontrolled_standard_errors[0] for run in runs]),
    )


def picture(explanation: Explanation, reruns: Reruns, path: Path) -> None:
    """Draw intervals of the first row, and reported errors beside the spread of the reruns."""
    need("matplotlib").use("Agg")
    plt = need("matplotlib.pyplot")
    order = np.argsort(np.abs(explanation.values[0]))
    place = np.arange(len(order))
    low, high = explanation.confidence_interval(0.95)
    quantile = (high - low)[0] / 2.0 / np.maximum(explanation.standard_errors[0], np.finfo(float).tiny)
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.0, 4.67), sharey=True, layout="constrained")
    both = (
        ("without control", WITHOUT, -0.18, explanation.uncontrolled_values[0],
         explanation.uncontrolled_standard_errors[0], reruns.uncontrolled, reruns.uncontrolled_errors),
        ("with control", WITH, 0.18, explanation.values[0],
         explanation.standard_errors[0], reruns.controlled, reruns.errors),
    )  # fmt: skip
    for label, colour, shift, values, errors, repeated, reported in both:
        left.errorbar(
            values[order], place + shift, xerr=(quantile * errors)[order], fmt="o", color=colour, markersize=3.5,
            elinewidth=1.4, capsize=2.5, label=label,
        )  # fmt: skip
        spread = repeated.std(axis=0, ddof=1)
        right.barh(place + shift, spread[order], height=0.32, color=colour, alpha=0.45, label=f"observed, {label}")
        typical = np.sqrt((reported**2).mean(axis=0))
        right.plot(
            typical[order], place + shift, "D", color=colour, markersize=4, markeredgecolor="black",
            markeredgewidth=0.5, label=f"reported, {label}",
        )  # fmt: skip
    left.axvline(0.0, color="0.6", linewidth=0.8, zorder=0)
    left.set_yticks(place, [explanation.feature_names[player] for player in order])
    right.set_xlim(0.0, None)
    right.locator_params(axis="x", nbins=4)
    _finish(left, "One explanation, 95 % intervals", "Shapley value (probability of benign)")
    _finish(right, f"Reported error and spread of {N_RERUNS} reruns", "standard error")
    figure.suptitle(f"Correlated features, KernelSHAP, {BUDGET:,} model evaluations", fontsize=11)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _finish(axes: Any, title: str, label: str) -> None:
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(label, fontsize=9)
    axes.tick_params(labelsize=8.5)
    axes.grid(axis="x", color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    # below the axes: inside them a legend would hide some of the intervals
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2, fontsize=7.5, frameon=False)


def main(arguments: list[str] | None = None) -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(prog="python -m controlshap.cli.demo", description=__doc__)
    parser.add_argument("--out", default="demo_output", help="folder for the explanations and the picture")
    out = Path(parser.parse_args(arguments).out)
    need("matplotlib")  # before the work, not after it
    need("jinja2")
    case = make_case()
    print(f"controlshap {__version__}: a network for 10 measurements of tumours, test accuracy {case.accuracy:.3f}")
    predictions = case.model.predict_proba(case.rows)[:, 1]
    explanations = {}
    for features in ("independent", "correlated"):
        explanation = explanations[features] = case.explainer(features)(case.rows, budget=BUDGET, rng=0)
        print(table(explanation, features, predictions))
        explanation.save(out / f"explanation_{features}")
    reruns = rerun(case.explainer("correlated"), case.rows[:1])
    picture(explanations["correlated"], reruns, out / "demo.png")
    explanations["correlated"].report(out / "report.html", title="Three tumours, explained")
    ratio = np.sqrt((reruns.errors**2).mean() / reruns.controlled.var(axis=0, ddof=1).mean())
    independent, correlated = (float(np.median(variance_factor(e))) for e in explanations.values())
    print(
        f"\nConclusion: from the same {BUDGET:,} evaluations the control made the variance {correlated:.1f} times "
        f"smaller with correlated features and {independent:.1f} times with independent ones (medians), and over "
        f"{N_RERUNS} reruns the reported standard errors were {ratio:.2f} times the observed ones."
    )
    print(
        f"Written to {out}: report.html, demo.png, explanation_independent, explanation_correlated (read with "
        "controlshap.load)"
    )


if __name__ == "__main__":
    main()
