"""The pictures and outputs of pages, made by the pages that show them: `python docs/make_images.py [PAGE ...]`.

Runs the Python blocks of a page. The figure of `ax` is saved wherever a picture `images/plots_*.png` follows a block
(one at the top of a page gets the last figure), and a `text` block right behind one is replaced by what it printed.
Blocks `text output` are compared by the tests instead.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl

DOCS = Path(__file__).parent
#: A Python block, perhaps with its output, or a picture that a page shows.
PART = re.compile(
    r"^```python\n(?P<code>.*?)^```$(?P<output>\n\n```text\n.*?^```$)?"
    r"|^!\[[^\]]*\]\((?P<picture>(?:\.\./)?images/plots_\w+\.png)\)",
    re.M | re.S,
)


def make(page: Path) -> str:
    """Run a page, save its pictures and refresh its outputs; what was made."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    made: list[str] = []
    waiting: list[str] = []

    def save(picture: str) -> None:
        path = (page.parent / picture).resolve()
        # without the version of matplotlib, so that equal pictures are equal files
        namespace["ax"].figure.savefig(path, dpi=100, metadata={"Software": None})
        made.append(path.name)

    def refresh(part: re.Match[str]) -> str:
        if part["picture"]:
            if "ax" in namespace:
                save(part["picture"])
            else:
                waiting.append(part["picture"])
            return part[0]
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(part["code"], str(page), "exec"), namespace)
        if part["output"] is None:
            return part[0]
        made.append("an output")
        return f"```python\n{part['code']}```\n\n```text\n{out.getvalue().rstrip()}\n```"

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # pages write files
        text = PART.sub(refresh, page.read_text(encoding="utf-8"))
    for picture in waiting if "ax" in namespace else ():  # without, the page shows a picture that another made
        save(picture)
    page.write_text(text, encoding="utf-8")
    return ", ".join(made)


def main() -> None:
    """Make the pictures of some pages, or of all that show any."""
    mpl.use("Agg")
    given = [Path(name).resolve() for name in sys.argv[1:]]
    for page in given or sorted(DOCS.rglob("*.md")):
        if given or any(part["picture"] for part in PART.finditer(page.read_text(encoding="utf-8"))):
            sys.stdout.write(f"{page.name}: {make(page)}\n")


if __name__ == "__main__":
    main()
