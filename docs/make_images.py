"""The pictures of the plots in `docs/images`: `python docs/make_images.py`."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

from controlshap.cli.demo import make_case

IMAGES = Path(__file__).parent / "images"


def main() -> None:
    """Explain the demonstration's network, without control, so that there are errors to see, and draw."""
    mpl.use("Agg")
    case = make_case()
    many = case.explainer(control="none")(case.rows[:100], budget=1000, rng=0)
    few = case.explainer(control="none")(case.rows[:3], budget=20_000, rng=0)
    kinds = case.model.predict(case.rows[:100])
    pictures = {
        "bar": many.plot.bar(), "beeswarm": many.plot.beeswarm(), "waterfall": few.plot.waterfall(0),
        "heatmap": many.plot.heatmap(max_players=12), "cohorts": many.plot.cohorts(kinds),
        "ranking": few.plot.ranking(0, max_players=12),
    }  # fmt: skip
    for name, axes in pictures.items():
        axes.figure.savefig(IMAGES / f"plots_{name}.png", dpi=100)


if __name__ == "__main__":
    main()
