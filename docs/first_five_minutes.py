"""The first five minutes of a new user, timed: `python docs/first_five_minutes.py [--install] [--record]`.

Clones this repository, runs the demo and the first example of the README, and writes a report. With `--install` it
makes the demo environment as `python3 dev.py demo` does, then installs what README says (both need a package index);
without, it uses the Python that runs it. `--record` writes what was printed into `docs/first_five_minutes.md`.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "first_five_minutes.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


def size_of(path: Path) -> str:
    """Size of a file or folder in MB or KB."""
    files = [path] if path.is_file() else [found for found in path.rglob("*") if found.is_file()]
    total = sum(file.lstat().st_size for file in files)
    return f"{total / 1e6:,.0f} MB" if total > 5e6 else f"{total / 1e3:,.0f} KB"


class Session:
    """Commands run one after another, with what they printed, their times and sizes."""

    def __init__(self, folder: Path, python: str) -> None:
        self.folder, self.python, self.lines = folder, python, list[str]()
        paths = [str(folder / "src"), os.environ.get("PYTHONPATH", "")]
        own = {"MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        self.environment = os.environ | own

    def run(self, shown: str, command: list[str], *, keep: int = 0, cwd: Path | None = None) -> str:
        """Run a command, note its time and the last lines that it printed; its output."""
        started = time.perf_counter()
        done = subprocess.run(
            command, cwd=cwd or self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            sys.exit(f"{shown}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
        self.note(f"$ {shown}", *done.stdout.rstrip().splitlines()[-keep:] if keep else [])
        self.note(f"# {time.perf_counter() - started:.0f} s")
        return done.stdout

    def note(self, *lines: str) -> None:
        """Print lines and keep them."""
        self.lines += lines
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()


def play(work: Path, *, install: bool) -> list[str]:
    """Do what a new user does; the lines of the recording."""
    session = Session(work / "controlshap", sys.executable)
    session.run("git clone ... controlshap", ["git", "clone", "-q", str(ROOT), str(session.folder)], cwd=work)
    session.note(f"# {size_of(session.folder)} with its history")
    if install:
        # the clone is installed, not found by a path
        session.environment.pop("PYTHONPATH")
        session.run("python3 dev.py demo", [sys.executable, "dev.py", "demo"], keep=3)
        session.python = str(session.folder / ".venv-demo" / "bin" / "python")
        extras = ".[explain,sklearn]"
        session.run(f"pip install '{extras}'", [session.python, "-m", "pip", "install", "-q", "-e", extras])
        session.note(f"# {size_of(session.folder / '.venv-demo')} of packages")
    else:
        session.run("python -m controlshap.cli.demo", [session.python, "-m", "controlshap.cli.demo"], keep=3)
    session.note(f"# demo_output/report.html: {size_of(session.folder / 'demo_output' / 'report.html')}")
    readme = (session.folder / "README.md").read_text(encoding="utf-8")
    first = BLOCK.search(readme)
    assert first is not None
    report = first[1] + 'explanation.report("report.html")\n'
    printed = session.run("python  # the example of the README, and a report", [session.python, "-c", report], keep=9)
    session.note(f"# report.html: {size_of(session.folder / 'report.html')}")
    same = printed.strip() in readme
    session.note(f"# {'the same numbers as' if same else 'other numbers than'} in the README")
    return session.lines


def main() -> None:
    """Play, and record on request."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--install", action="store_true", help="make the demo's environment, as a new user does")
    parser.add_argument("--record", action="store_true", help=f"write the recording to {PAGE.name}")
    options = parser.parse_args()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as work:
        lines = play(Path(work), install=options.install)
    lines.append(f"# in all: {time.perf_counter() - started:.0f} s")
    sys.stdout.write(lines[-1] + "\n")
    if options.record:
        text = PAGE.read_text(encoding="utf-8")
        block = "```text\n" + "\n".join(lines) + "\n```"
        PAGE.write_text(re.sub(r"^```text\n.*?^```$", lambda _: block, text, flags=re.M | re.S), encoding="utf-8")


if __name__ == "__main__":
    main()
