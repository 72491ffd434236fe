"""Fetch the public data sets and lay them out as `data.load` reads them, with the published splits.

The splits were drawn with seeds, so the same rows come out; the simulated set needs no download, and the weights of the
published networks are in none (a network is then fitted).
"""

from __future__ import annotations

import http.client
import io
import json
import urllib.request
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from controlshap import ControlShapError
from controlshap_paper.data import IntArray, need_pandas

_UCI = "https://archive.ics.uci.edu/static/public"
_BANK = ("Age", "Job", "Marital", "Education", "Default", "Balance", "Housing", "Loan", "Contact", "Day", "Month",
         "Duration", "Campaign", "Prev_Days", "Prev_Contacts", "Prev_Outcome", "Success")  # fmt: skip
_CENSUS = ("Age", "Workclass", "fnlwgt", "Education", "Education-Num", "Marital Status", "Occupation", "Relationship",
           "Race", "Sex", "Capital Gain", "Capital Loss", "Hours per week", "Country", "Income>50K")  # fmt: skip
_CREDIT = (
    "Checking Status", "Duration", "Credit History", "Purpose", "Credit Amount", "Savings Account/Bonds",
    "Employment Since", "Installment Rate", "Personal Status", "Debtors/Guarantors", "Residence Duration",
    "Property Type", "Age", "Other Installment Plans", "Housing Ownership", "Number Existing Credits", "Job",
    "Number Liable", "Telephone", "Foreign Worker", "Good Customer",
)  # fmt: skip


class DownloadError(ControlShapError):
    """A data set could not be fetched, or has changed since the paper."""


@dataclass(frozen=True)
class PublicSet:
    """Where a set is, what is in it, and how the published rows were split.

    Attributes
    ----------
    members : tuple of str
        The file within the archive, within the archive in it.
    categorical : tuple of str
        Columns that become one column for each level.
    """

    url: str
    members: tuple[str, ...]
    read: Callable[[Any, bytes], Any]
    target: str
    categorical: tuple[str, ...]
    n_rows: int
    split: Callable[[int], tuple[IntArray, IntArray]]
    n_features: int | None = None


def fetch(folder: Path, download: Callable[[str], bytes] | None = None) -> Path:
    """Fetch the data sets that the folder lacks, and return it for `data.load`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in SOURCES.items():
        if not (folder / f"{name}.json").is_file():
            lay_out(name, source, (download or open_url)(source.url), folder)
    return folder


def lay_out(name: str, source: PublicSet, content: bytes, folder: Path) -> None:
    """Write table, description and split of one set."""
    pandas = need_pandas()
    try:
        for member in source.members:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                content = archive.read(member)
        table = source.read(pandas, content)
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise DownloadError(f"What {source.url} gave for {name!r} cannot be read: {error}") from error
    if len(table) != source.n_rows:
        raise DownloadError(f"{name!r} from {source.url} has {len(table)} rows; {source.n_rows} were published.")
    features = [column for column in table.columns if column != source.target][: source.n_features]
    table = table[[*features, source.target]]
    plain = [column for column in features if column not in source.categorical]
    levels = {c: sorted(table[c].unique().tolist()) for c in features if c in source.categorical}
    groups = {c: [c] for c in plain} | {c: [f"{c}_{level}" for level in of_column] for c, of_column in levels.items()}
    train, test = source.split(len(table))
    np.savez(folder / f"{name}_split_indices.npz", train=train, test=test)
    table.to_csv(folder / f"{name}.csv", index=False)
    schema = {
        "source": source.url,
        "target": source.target,
        "target_encoding": {"no": 0, "yes": 1},
        "feature_types": {c: "categorical" if c in levels else "number" for c in features},
        "features_used": features,
        "encoded_columns": [column for columns in groups.values() for column in columns],
        "one_hot_groups": groups if levels else None,
    }
    (folder / f"{name}.json").write_text(json.dumps(schema, indent=1) + "\n")  # last: it says that the set is there


def open_url(url: str) -> bytes:
    """The content at an address."""
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            content: bytes = answer.read()
            return content
    except (OSError, http.client.HTTPException) as error:
        raise DownloadError(f"{url} cannot be reached: {error}. Pass --data FOLDER with the files instead.") from error


def _bank(pandas: Any, content: bytes) -> Any:
    return pandas.read_csv(io.BytesIO(content), sep=";", names=_BANK, header=0, keep_default_na=False)


def _census(pandas: Any, content: bytes) -> Any:
    table = pandas.read_csv(
        io.BytesIO(content), names=_CENSUS, header=None, skipinitialspace=True, keep_default_na=False
    )
    table["Income>50K"] = (table["Income>50K"] == ">50K").map({True: "yes", False: "no"})
    return table.drop(columns=["fnlwgt", "Education"])


def _credit(pandas: Any, content: bytes) -> Any:
    return pandas.read_csv(io.BytesIO(content), sep=r"\s+", names=_CREDIT, header=0)


def _brca(pandas: Any, content: bytes) -> Any:
    table = pandas.read_csv(io.BytesIO(content))
    # one copy has the row numbers as its first column
    return table.drop(columns=[c for c in table.columns if c.startswith("Unnamed")])


def _shuffled(n_test: int, seed: int, *, twice: bool) -> Callable[[int], tuple[IntArray, IntArray]]:
    """Test rows by scikit-learn's shuffle, `twice` where a validation set that nobody used was cut off next."""

    def split(n_rows: int) -> tuple[IntArray, IntArray]:
        order = np.random.RandomState(seed).permutation(n_rows)
        test, train = order[:n_test], order[n_test:]
        if twice:
            train = train[np.random.RandomState(seed).permutation(len(train))[n_test:]]
        return train, test

    return split


def _chosen(n_train: int) -> Callable[[int], tuple[IntArray, IntArray]]:
    """Training rows drawn without replacement, legacy seed 1."""

    def split(n_rows: int) -> tuple[IntArray, IntArray]:
        train = np.random.RandomState(1).choice(n_rows, n_train, replace=False)
        return train, np.setdiff1d(np.arange(n_rows), train)

    return split


_REGRESSION = "https://raw.githubusercontent.com/iancovert/shapley-regression/a018692eb2f2c71a6a39eb053e73a19e71f5bed6"
SOURCES = {
    "bank": PublicSet(
        url=f"{_UCI}/222/bank+marketing.zip",
        members=("bank.zip", "bank-full.csv"),
        read=_bank,
        target="Success",
        categorical=("Job", "Marital", "Education", "Contact", "Month", "Prev_Outcome"),
        n_rows=45_211,
        split=_shuffled(4521, 123, twice=True),
    ),
    "census": PublicSet(
        url=f"{_UCI}/2/adult.zip",
        members=("adult.data",),
        read=_census,
        target="Income>50K",
        categorical=("Workclass", "Marital Status", "Occupation", "Relationship", "Race", "Sex", "Country"),
        n_rows=32_561,
        split=_chosen(24_421),
    ),
    "credit": PublicSet(
        url=f"{_UCI}/573/south+german+credit+update.zip",
        members=("SouthGermanCredit.asc",),
        read=_credit,
        target="Good Customer",
        categorical=(
            "Checking Status",
            "Credit History",
            "Purpose",
            "Savings Account/Bonds",
            "Employment Since",
            "Personal Status",
            "Debtors/Guarantors",
            "Property Type",
            "Other Installment Plans",
            "Housing Ownership",
            "Job",
        ),
        n_rows=1000,
        split=_chosen(800),
    ),
    "brca": PublicSet(
        url=f"{_REGRESSION}/data/brca_small.csv",
        members=(),
        read=_brca,
        target="BRCA_Subtype_PAM50",
        categorical=(),
        n_rows=572,
        split=_shuffled(100, 0, twice=False),
        n_features=20,
    ),
}
