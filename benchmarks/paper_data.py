"""The paper's data sets and networks, for the benchmarks: read by `controlshap_paper`.

The files are not part of the project: they are read from the folder given by `--data`, by the environment
variable CONTROLSHAP_DATA, or `../shared/data` beside the repository.

    python benchmarks/paper_data.py [--data FOLDER]      checks every set and prints its shape
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from controlshap_paper import data as sets
from controlshap_paper.data import NAMES, PaperData, load
from controlshap_paper.models import TanhNetwork, load_network

__all__ = ["NAMES", "PaperData", "TanhNetwork", "add_data_argument", "data_folder", "load", "load_network"]
ROOT = Path(__file__).resolve().parents[1]


def data_folder(given: str | None = None) -> Path:
    """The folder of the data files, or an error that says how to name it."""
    beside = ROOT.parent / "shared" / "data"
    folder = sets.data_folder(given or (beside if beside.is_dir() else None))
    if folder is None:
        raise SystemExit("No data found: pass --data FOLDER or set CONTROLSHAP_DATA.")
    return folder


def add_data_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", help="folder of the paper's data sets (or set CONTROLSHAP_DATA)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_data_argument(parser)
    folder = data_folder(parser.parse_args().data)
    print(
        f"{'set':10} {'train':>6} {'test':>5} {'columns':>7} {'players':>7} {'rate':>6} {'network':>8} {'mean gap':>9}"
    )
    for name in NAMES:
        data = load(name, folder)
        with np.load(folder / f"nn_weights_{name}.npz") as stored:
            gap = np.abs((stored["feature_mean"] - data.mean) / data.std).max()
        schema = json.loads((folder / f"{name}.json").read_text())
        assert data.X_train.shape[1] == schema["n_encoded_columns"] == len(data.columns)
        assert len(data.groups) == schema["n_features"]
        accuracy = ((load_network(name, folder)(data.X_test) > 0.5) == data.y_test).mean()
        rate = data.target.mean()
        print(
            f"{name:10} {len(data.train):6} {len(data.test):5} {len(data.columns):7} {len(data.groups):7} "
            f"{rate:6.3f} {accuracy:8.3f} {gap:9.1e}"
        )


if __name__ == "__main__":
    main()
