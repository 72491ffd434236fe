"""Data sets larger than memory: sources read in parts, a resumable driver, and its results on disk."""

from controlshap.dataset.driver import explain_dataset
from controlshap.dataset.loading import load_dataset
from controlshap.dataset.result import DatasetResult, FailedPart, RunStoppedError
from controlshap.dataset.source import Source, open_source
from controlshap.progress import Progress

__all__ = [
    "DatasetResult",
    "FailedPart",
    "Progress",
    "RunStoppedError",
    "Source",
    "explain_dataset",
    "load_dataset",
    "open_source",
]
