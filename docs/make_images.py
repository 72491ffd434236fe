"""The pictures of the plots in `docs/images`: `python docs/make_images.py`."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

import controlshap as cs
from controlshap.cli.demo import make_case

IMAGES = Path(__file__).parent / "images"


def main() -> None:
    """Explain the demonstration's network, and draw."""
    mpl.use("Agg")
    case = make_case()
    groups = {name: [number] for number, name in enumerate(case.names)}
    explainer = cs.Explainer(
        case.model, case.background[:100], features="correlated", estimator="kernel", control="taylor", groups=groups
    )
    many = explainer(case.background[100::3], budget=600, rng=0)
    few = explainer(case.rows, budget=20_000, rng=0)
    pictures = {
        "bar": many.plot.bar(), "beeswarm": many.plot.beeswarm(), "waterfall": few.plot.waterfall(1),
        "ranking": few.plot.ranking(1),
    }  # fmt: skip
    for name, axes in pictures.items():
        axes.figure.savefig(IMAGES / f"plots_{name}.png", dpi=100)


if __name__ == "__main__":
    main()
