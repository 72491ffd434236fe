"""One self-contained HTML file that shows an explanation: no network, no further files.

The first view (summary, importance) is in the page itself; rows are drawn by a script from JSON inside the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from controlshap._checks import as_path, check_level
from controlshap._errors import InvalidArgumentError
from controlshap._files import replacing

if TYPE_CHECKING:
    from controlshap.results.explanation import Explanation

__all__ = ["write_report"]


def write_report(explanation: Explanation, path: str | Path, *, title: str | None = None, level: float = 0.95) -> Path:
    """Write an explanation as one HTML file.

    Parameters
    ----------
    explanation : Explanation
    path : str or Path
        The file; folders above it are made, and a file that is there is replaced.
    title : str, optional
        Heading of the page.
    level : float
        Probability of the intervals and of the certified ranking.

    Returns
    -------
    Path
        The file.
    """
    from controlshap.report.page import render

    level = check_level(level)
    path = as_path(path, "path")
    if path.is_dir():
        raise InvalidArgumentError(f"`path` must be a file; {str(path)!r} is a folder. Give it a name: report.html.")
    if path.suffix.lower() not in ("", ".html", ".htm"):
        raise InvalidArgumentError(
            f"`path` must end in .html or .htm; got {path.name!r}. A report is one HTML file; for a PDF, "
            "print it from a browser."
        )
    if title is not None and not isinstance(title, str):
        raise InvalidArgumentError(f"`title` must be a text; got {title!r}.")
    if len(explanation) == 0:
        raise InvalidArgumentError("`explanation` has no rows, and there is nothing to report.")
    if title is None:
        title = f"Shapley values of {'one row' if len(explanation) == 1 else f'{len(explanation):,} rows'}"
    page = render(explanation, title, level)
    with replacing(path) as temporary:
        # a lone surrogate in a name has no UTF-8; it is shown as a question mark
        temporary.write_text(page, encoding="utf-8", errors="replace", newline="\n")
    return path
