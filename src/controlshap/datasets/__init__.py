"""Data sets larger than memory: rows read in parts, a run that can be resumed, and its results on disk."""

from controlshap._errors import RunStoppedError
from controlshap.datasets.result import DatasetResult, FailedPart, load_dataset
from controlshap.datasets.sources import RowSource, open_source
from controlshap.engine.progress import Progress

__all__ = [
    "DatasetResult",
    "FailedPart",
    "Progress",
    "RowSource",
    "RunStoppedError",
    "load_dataset",
    "open_source",
]
