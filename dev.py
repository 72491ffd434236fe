"""The front door for people with Python and pip and nothing else.

    python3 dev.py demo      make the environment, explain an embedded data set, write a picture
    python3 dev.py test      make the environment, lint, check types, run every test
    python3 dev.py env       make the environment only
    python3 dev.py peers     make .venv-peers, where benchmarks/efficiency.py runs (needs Python 3.12: --python PATH)

Further arguments of `test` go to pytest. Uses the standard library alone.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent
ENVIRONMENT = ROOT / ".venv"
PYTHON = ENVIRONMENT / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
STAMP = ENVIRONMENT / "installed.sha256"
PEERS = ROOT / ".venv-peers"


def run(*command: str) -> None:
    """Run in the project's root and stop with its exit code when it fails."""
    print("+", *command, flush=True)
    code = subprocess.call([str(part) for part in command], cwd=ROOT)
    if code != 0:
        sys.exit(code)


def make_environment() -> None:
    """Create `.venv` and install the project into it, once for each state of the requirements."""
    if sys.version_info < (3, 11):
        sys.exit(f"controlshap needs Python 3.11 or newer; this is {sys.version.split()[0]}.")
    wanted = hashlib.sha256(
        (ROOT / "pyproject.toml").read_bytes() + (ROOT / "constraints.txt").read_bytes() + sys.version.encode()
    ).hexdigest()
    if STAMP.is_file() and STAMP.read_text() == wanted:
        return
    print(f"Making the environment in {ENVIRONMENT.name} (a few minutes the first time)", flush=True)
    venv.create(ENVIRONMENT, with_pip=True, clear=True)
    pip = (PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", "constraints.txt")
    # torch by its exact version first: the range in the extra would take the newest build.
    torch = next(line for line in (ROOT / "constraints.txt").read_text().split() if line.startswith("torch=="))
    run(*pip, torch)
    run(*pip, "-e", ".[dev]")
    STAMP.write_text(wanted)


def make_peers(arguments: list[str]) -> None:
    """Create `.venv-peers` with the packages that the efficiency benchmark compares with."""
    given = arguments[1:2] if arguments[:1] == ["--python"] else [sys.executable, "python3.12", "python3.13"]
    check = "import sys; sys.exit(sys.version_info < (3, 12))"
    for python in given:
        if shutil.which(python) and subprocess.call([python, "-c", check], stderr=subprocess.DEVNULL) == 0:
            break
    else:
        sys.exit("The peers need Python 3.12 or newer: python3 dev.py peers --python PATH")
    run(python, "-m", "venv", "--clear", PEERS)
    pip = (PEERS / PYTHON.relative_to(ENVIRONMENT), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, "-r", "benchmarks/requirements-peers.txt")
    run(*pip, "-e", ".")


def test(arguments: list[str]) -> None:
    """Lint, format, types, dependency direction, tests."""
    run(PYTHON, "-m", "ruff", "check", ".")
    run(PYTHON, "-m", "ruff", "format", "--check", ".")
    run(PYTHON, "-m", "mypy")
    run(ENVIRONMENT / PYTHON.parent.name / "lint-imports", "--no-cache")
    run(PYTHON, "-m", "pytest", "-n", "auto", "--dist", "worksteal", *arguments)


def main() -> None:
    """Do one job."""
    jobs = {"demo", "test", "env", "peers"}
    if len(sys.argv) < 2 or sys.argv[1] not in jobs:
        sys.exit(__doc__)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if sys.argv[1] == "peers":
        make_peers(sys.argv[2:])
        return
    make_environment()
    if sys.argv[1] == "demo":
        run(PYTHON, "-m", "controlshap.cli.demo", *sys.argv[2:])
    elif sys.argv[1] == "test":
        test(sys.argv[2:])


if __name__ == "__main__":
    main()
