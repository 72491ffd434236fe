"""Data sets larger than memory: sources read in parts, a resumable driver, and its results on disk."""

from controlshap._errors import RunStoppedError
from controlshap._progress import Progress
from controlshap.datasets.result import DatasetResult, FailedPart, load_dataset
from controlshap.datasets.run import explain_dataset
from controlshap.datasets.sources import RowSource, open_source

__all__ = [
    "DatasetResult",
    "FailedPart",
    "Progress",
    "RowSource",
    "RunStoppedError",
    "explain_dataset",
    "load_dataset",
    "open_source",
]
