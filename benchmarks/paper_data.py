"""The paper's five data sets and its published networks, as arrays.

The files are not part of the project: they are read from the folder given by `--data`, by the environment
variable CONTROLSHAP_DATA, or `../shared/data` beside the repository. Each set is described by `<name>.json`
(columns, groups, split, preprocessing), which this loader follows.

    python benchmarks/paper_data.py [--data FOLDER]      checks every set and prints its shape
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("bank", "brca", "census", "credit", "simulated")
#: Scaled to [0, 1] over all rows before the split, as the paper's experiments did.
MIN_MAX = ("credit", "census")
#: The class that counts as 1, where the target has more than two codes.
POSITIVE_CODE = {"brca": 2}


@dataclass(frozen=True)
class PaperData:
    """One data set, encoded and standardised with the training rows' mean and standard deviation.

    Attributes
    ----------
    X_train, X_test : ndarray of shape (rows, columns)
    y_train, y_test : ndarray of shape (rows,), 0 or 1
    columns : tuple of str
        Names of the encoded columns.
    groups : dict
        Player to its columns, for every player, in the order of their first columns.
    mean, std : ndarray of shape (columns,)
        What the columns were standardised with.
    """

    name: str
    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    columns: tuple[str, ...]
    groups: dict[str, list[str]]
    mean: np.ndarray
    std: np.ndarray

    @property
    def several(self) -> dict[str, list[int]]:
        """Groups of two columns or more by position, as `Explainer(groups=...)` takes them."""
        place = {column: i for i, column in enumerate(self.columns)}
        return {name: [place[c] for c in columns] for name, columns in self.groups.items() if len(columns) > 1}


def data_folder(given: str | None = None) -> Path:
    """The folder of the data files, or an error that says how to name it."""
    folder = Path(given or os.environ.get("CONTROLSHAP_DATA") or ROOT.parent / "shared" / "data")
    if not (folder / "credit.json").is_file():
        raise SystemExit(
            f"No data in {folder}: it must hold credit.csv and credit.json. Pass --data FOLDER or set CONTROLSHAP_DATA."
        )
    return folder


def add_data_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", help="folder of the paper's data sets (or set CONTROLSHAP_DATA)")


def load(name: str, folder: Path) -> PaperData:
    """Read, encode, split, standardise."""
    schema = json.loads((folder / f"{name}.json").read_text())
    # "?" and "unknown" are levels of their own in these sets, so nothing is read as missing.
    table = pd.read_csv(next(folder.glob(f"{name}.csv*")), keep_default_na=False)
    columns, groups = _layout(schema)
    owner = {column: player for player, members in groups.items() for column in members}
    encoded = np.column_stack([_encode(table, column, owner[column]) for column in columns])
    if name in MIN_MAX:
        low, high = encoded.min(axis=0), encoded.max(axis=0)
        encoded = (encoded - low) / (high - low)
    target = _target(table, schema, POSITIVE_CODE.get(name))
    train, test = _split(name, schema, folder)
    mean, std = encoded[train].mean(axis=0), encoded[train].std(axis=0)
    # A level that only test rows hold is constant in training; it stays 0 rather than becoming infinite.
    std = np.where(std > 0, std, 1.0)
    standardised = (encoded - mean) / std
    return PaperData(
        name, standardised[train], target[train], standardised[test], target[test], columns, groups, mean, std
    )


def _layout(schema: dict[str, Any]) -> tuple[tuple[str, ...], dict[str, list[str]]]:
    """Column names and players, in the order of the players' first columns."""
    if schema["one_hot_groups"] is None:
        used = schema.get("features_used") or list(schema["feature_types"])
        return tuple(used), {column: [column] for column in used}
    columns = tuple(schema["encoded_columns"])
    groups = sorted(schema["one_hot_groups"].items(), key=lambda item: columns.index(item[1][0]))
    return columns, dict(groups)


def _encode(table: pd.DataFrame, column: str, player: str) -> np.ndarray:
    """One encoded column: the number itself, yes/no as 1/0, or the indicator of a level."""
    values = table[player]
    if column != player:
        return (values.astype(str) == column[len(player) + 1 :]).to_numpy(dtype=float)
    if not pd.api.types.is_numeric_dtype(values):
        return values.map({"yes": 1.0, "no": 0.0}).to_numpy(dtype=float)
    return values.to_numpy(dtype=float)


def _target(table: pd.DataFrame, schema: dict[str, Any], positive: int | None) -> np.ndarray:
    values = table[schema["target"]]
    if positive is not None:
        return (values == positive).to_numpy(dtype=int)
    if not pd.api.types.is_numeric_dtype(values):
        return values.map(schema["target_encoding"]).to_numpy(dtype=int)
    return values.to_numpy(dtype=int)


def _split(name: str, schema: dict[str, Any], folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers of training and test; the simulated set has no index file and is split in order."""
    file = folder / f"{name}_split_indices.npz"
    if file.is_file():
        with np.load(file) as stored:
            return stored["train"], stored["test"]
    n_train = schema["split"]["train"]
    return np.arange(n_train), np.arange(n_train, schema["rows"])


@dataclass(frozen=True)
class TanhNetwork:
    """A published two-layer network: the probability of class 1 for standardised rows.

    A bare callable on purpose: an explainer sees no derivatives, as for any black box.
    """

    first: np.ndarray
    first_bias: np.ndarray
    second: np.ndarray
    second_bias: np.ndarray

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        hidden = np.tanh(rows @ self.first.T + self.first_bias)
        # Two outputs through a softmax: the probability of the second is a logistic function of their difference.
        score = hidden @ (self.second[1] - self.second[0]) + (self.second_bias[1] - self.second_bias[0])
        return 1.0 / (1.0 + np.exp(-score))


def load_network(name: str, folder: Path) -> TanhNetwork:
    """The network that was published for a data set."""
    with np.load(folder / f"nn_weights_{name}.npz") as stored:
        parts = ("linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias")
        return TanhNetwork(*(stored[part].astype(float) for part in parts))


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
        rate = np.concatenate([data.y_train, data.y_test]).mean()
        print(
            f"{name:10} {len(data.X_train):6} {len(data.X_test):5} {len(data.columns):7} {len(data.groups):7} "
            f"{rate:6.3f} {accuracy:8.3f} {gap:9.1e}"
        )


if __name__ == "__main__":
    main()
