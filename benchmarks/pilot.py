"""How many times smaller must the predicted variance be, for a pilot to leave walks for KernelSHAP?

    python benchmarks/pilot.py [--seeds 5] [--passes 0.35 0.9 1.5] [--rows 100]

Sixteen models of the kinds of `efficiency_kinds.py`, other than those there; budgets of so many passes of single walks
over the background. Each row is explained by walks that stay and by walks that leave after the pilot; the regret of a
limit is the error of what each pilot would choose by it, over the smaller of the two. Takes minutes. Writes nothing.
"""

from __future__ import annotations

import argparse
import warnings
from unittest import mock

import numpy as np
from efficiency_kinds import KINDS

import controlshap as cs
from controlshap.engine import pilot
from controlshap.engine.pilot import Prediction, predict

MODELS = (
    ("boosted", 18), ("tanh", 16), ("relu", 24), ("logistic pairs", 20), ("embedding", 25), ("forest levels", 30),
    ("trees levels", 25), ("rate", 14), ("steps", 20), ("kernel machine", 14), ("neighbours mean", 12),
    ("neighbours", 16), ("corner", 12), ("kernel machine", 25), ("tanh", 35), ("relu", 40),
)  # fmt: skip
LIMITS = (1.0, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.4, 1.6, 2.0)


def measure(kind: str, n_players: int, n_background: int, passes: float, n_seeds: int) -> list[tuple[float, float]]:
    """Predicted gains of pilots, each with the error of walks that stay over that of walks that leave."""
    model, data, fitted = KINDS[kind](n_players, np.random.default_rng(2000 + n_players))
    background, rows = data[:n_background], data[-2:]
    truth = cs.Explainer(model if fitted is None else fitted, background)(rows, budget=60_000, rng=0).values
    steps = np.mean([(x != background).sum(axis=1).mean() for x in rows]) - 1.0
    explainer, found = cs.Explainer(model, background), []
    for x, values in zip(rows, truth, strict=True):
        gains: list[float] = []

        def note(*arguments: object, gains: list[float] = gains) -> Prediction | None:
            predicted = predict(*arguments)
            gains.append(0.0 if predicted is None else predicted.gain)
            return predicted

        errors = []
        for limit in (np.inf, -1.0):  # stay, leave
            gains.clear()
            with mock.patch.multiple(pilot, LEAVE=limit, predict=note):
                runs = explainer(np.tile(x, (n_seeds, 1)), budget=1 + int(passes * n_background * steps), rng=3)
            errors.append(((runs.values - values) ** 2).mean())
        found += [(gain, errors[0] / errors[1]) for gain in gains if gain > 0.0]
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=100, help="background rows")
    parser.add_argument("--passes", type=float, nargs="+", default=[0.35, 0.9, 1.5])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for passes in arguments.passes:
        pairs: list[tuple[float, float]] = []
        for kind, n_players in MODELS:
            pairs += measure(kind, n_players, arguments.rows, passes, arguments.seeds)
        gains, ratios = np.array(pairs).T
        print(f"{passes} passes, {arguments.rows} background rows, {len(gains)} pilots")
        for limit in LIMITS:
            regret = np.where(gains > limit, 1.0 / ratios, 1.0) / np.minimum(1.0, 1.0 / ratios)
            mean, most = np.exp(np.log(regret).mean()), regret.max()
            print(f"  leaving above {limit}: regret {mean:.3f} in the geometric mean, {most:.2f} at most", flush=True)


if __name__ == "__main__":
    main()
