"""The paper's five data sets as arrays.

Four are read from a folder: `<name>.csv` (or `.csv.gz`), `<name>.json` (columns, groups, split, preprocessing) and
`<name>_split_indices.npz`. The simulated one is generated.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controlshap import InvalidArgumentError
from controlshap._imports import require

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.integer[Any]]

NAMES = ("simulated", "bank", "brca", "census", "credit")
#: Scaled to [0, 1] over all rows before the split, as the paper's experiments did.
MIN_MAX = ("credit", "census")
#: The class that counts as 1, where the target has more than two codes.
POSITIVE_CODE = {"brca": 2}
#: Rows of the simulated set, and how many of them are for training.
SIMULATED_ROWS, SIMULATED_TRAIN = 10_000, 8000


@dataclass(frozen=True)
class PaperData:
    """One data set.

    Attributes
    ----------
    encoded : ndarray of shape (rows, columns)
        Numbers as they are (or scaled to [0, 1]), levels as 0 and 1.
    target : ndarray of shape (rows,), 0 or 1
    train, test : ndarray of row numbers
    columns : tuple of str
        Names of the encoded columns.
    groups : dict
        Player to its columns, for every player, in the order of their first columns.
    mean, std : ndarray of shape (columns,)
        Of the training rows; what columns are standardised with.
    """

    name: str
    encoded: FloatArray
    target: IntArray
    train: IntArray
    test: IntArray
    columns: tuple[str, ...]
    groups: dict[str, list[str]]
    mean: FloatArray
    std: FloatArray

    @property
    def X_train(self) -> FloatArray:  # noqa: N802 - as everyone calls it
        """Standardised training rows."""
        return self._standardise(self.train)

    @property
    def X_test(self) -> FloatArray:  # noqa: N802
        """Standardised test rows."""
        return self._standardise(self.test)

    @property
    def y_train(self) -> IntArray:
        """Labels of the training rows."""
        return self.target[self.train]

    @property
    def y_test(self) -> IntArray:
        """Labels of the test rows."""
        return self.target[self.test]

    def _standardise(self, rows: IntArray) -> FloatArray:
        standardised: FloatArray = (self.encoded[rows] - self.mean) / self.std
        return standardised

    @property
    def several(self) -> dict[str, list[int]]:
        """Groups of two columns or more by position, as `Explainer(groups=...)` takes them."""
        place = {column: i for i, column in enumerate(self.columns)}
        return {name: [place[c] for c in columns] for name, columns in self.groups.items() if len(columns) > 1}


def data_folder(given: str | Path | None = None) -> Path | None:
    """The folder of the data files: as given, of CONTROLSHAP_DATA, or `../shared/data`; None without any."""
    named = given or os.environ.get("CONTROLSHAP_DATA")
    folder = Path(named) if named else Path("..") / "shared" / "data"
    if any((folder / f"{name}.json").is_file() for name in NAMES):
        return folder
    if named:
        raise InvalidArgumentError(
            f"`data` must be a folder that holds credit.csv and credit.json, or the like; there are none in {folder}."
        )
    return None


def load(name: str, folder: Path | None) -> PaperData:
    """Read, encode and split a data set; generate the simulated one."""
    if name not in NAMES:
        raise InvalidArgumentError(f"`name` must be one of {', '.join(NAMES)}; got {name!r}.")
    if name == "simulated":
        return simulate()
    if folder is None or not (folder / f"{name}.json").is_file():
        raise InvalidArgumentError(
            f"The data set {name!r} is not part of controlshap: pass --data FOLDER with {name}.csv and {name}.json, "
            "set CONTROLSHAP_DATA, or pass --download where the internet is reachable."
        )
    schema = json.loads((folder / f"{name}.json").read_text())
    pandas = need_pandas()
    # "?" and "unknown" are levels of their own in these sets, so nothing is read as missing.
    table = pandas.read_csv(next(folder.glob(f"{name}.csv*")), keep_default_na=False)
    columns, groups = _layout(schema)
    owner = {column: player for player, members in groups.items() for column in members}
    encoded = np.column_stack([_encode(table, column, owner[column]) for column in columns])
    if name in MIN_MAX:
        low, high = encoded.min(axis=0), encoded.max(axis=0)
        encoded = (encoded - low) / (high - low)
    target = _target(table, schema, POSITIVE_CODE.get(name))
    with np.load(folder / f"{name}_split_indices.npz") as stored:
        train, test = stored["train"], stored["test"]
    return _assemble(name, encoded, target, train, test, columns, groups)


def simulate() -> PaperData:
    """Ten normal columns whose neighbours correlate by 0.5 and 0.25, and labels `1[x . beta > 0]`.

    The paper's words are a block covariance and a logistic regression; its data are these (legacy seed 1).
    """
    beta = np.random.RandomState(1).randn(10)  # the published data were drawn so
    lags = np.abs(np.subtract.outer(np.arange(10), np.arange(10)))
    covariance = np.select([lags == 0, lags == 1, lags == 2], [1.0, 0.5, 0.25])
    rows = np.random.RandomState(1).multivariate_normal(np.zeros(10), covariance, size=SIMULATED_ROWS)
    columns = tuple(f"x{i}" for i in range(10))
    train, test = np.arange(SIMULATED_TRAIN), np.arange(SIMULATED_TRAIN, SIMULATED_ROWS)
    labels = (rows @ beta > 0).astype(np.int64)
    return _assemble("simulated", rows, labels, train, test, columns, {column: [column] for column in columns})


def _assemble(
    name: str,
    encoded: FloatArray,
    target: IntArray,
    train: IntArray,
    test: IntArray,
    columns: tuple[str, ...],
    groups: dict[str, list[str]],
) -> PaperData:
    mean, std = encoded[train].mean(axis=0), encoded[train].std(axis=0)
    # A level that only test rows hold is constant in training; it stays 0 rather than becoming infinite.
    std = np.where(std > 0, std, 1.0)
    return PaperData(name, encoded, target, train, test, columns, groups, mean, std)


def _layout(schema: dict[str, Any]) -> tuple[tuple[str, ...], dict[str, list[str]]]:
    """Column names and players, in the order of the players' first columns."""
    if schema["one_hot_groups"] is None:
        used = schema.get("features_used") or list(schema["feature_types"])
        return tuple(used), {column: [column] for column in used}
    columns = tuple(schema["encoded_columns"])
    groups = sorted(schema["one_hot_groups"].items(), key=lambda item: columns.index(item[1][0]))
    return columns, dict(groups)


def _encode(table: Any, column: str, player: str) -> FloatArray:
    """One encoded column: the number itself, yes/no as 1/0, or the indicator of a level."""
    values = table[player]
    if column != player:
        indicator: FloatArray = (values.astype(str) == column[len(player) + 1 :]).to_numpy(dtype=float)
        return indicator
    if not need_pandas().api.types.is_numeric_dtype(values):
        values = values.map({"yes": 1.0, "no": 0.0})
    numbers: FloatArray = values.to_numpy(dtype=float)
    return numbers


def _target(table: Any, schema: dict[str, Any], positive: int | None) -> IntArray:
    values = table[schema["target"]]
    if positive is not None:
        values = values == positive
    elif not need_pandas().api.types.is_numeric_dtype(values):
        values = values.map(schema["target_encoding"])
    codes: IntArray = values.to_numpy(dtype=np.int64)
    return codes


def need_pandas() -> Any:
    """The pandas module, or an error that says how to install it."""
    return require("pandas", extra="reproduce", feature="Reading the paper's data")
