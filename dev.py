"""The front door for people with Python and pip and nothing else.

    python3 dev.py demo             make .venv-demo (400 MB), explain an embedded data set, write a report
    python3 dev.py demo --shap      the same beside shap's KernelExplainer (300 MB more)
    python3 dev.py test             make the environment, lint, check types and imports, run every test
    python3 dev.py test --fast      the same without slow tests: two minutes
    python3 dev.py test --oldest    make .venv-oldest with the oldest versions promised, run the fast tests there
    python3 dev.py env              make the environment only
    python3 dev.py peers            make .venv-peers, where benchmarks/efficiency.py runs (Python 3.12: --python PATH)

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
ENVIRONMENT, DEMO, OLDEST, PEERS = (ROOT / name for name in (".venv", ".venv-demo", ".venv-oldest", ".venv-peers"))
BINARIES = "Scripts" if os.name == "nt" else "bin"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
#: Tests of the lanes, by their marks.
LANES = {"--oldest": "not slow", "--fast": "not slow and not seconds"}
INSTALL = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")


def python_of(folder: Path) -> Path:
    """The interpreter of an environment."""
    return folder / BINARIES / ("python.exe" if os.name == "nt" else "python")


def run(*command: object) -> None:
    """Run in the project's root and stop with its exit code when it fails."""
    print("+", *command, flush=True)
    code = subprocess.call([str(part) for part in command], cwd=ROOT)
    if code != 0:
        sys.exit(code)


def read_constraints(*names: str) -> dict[str, str]:
    """Versions by package; a later file replaces what an earlier one says."""
    lines = [line.partition("#")[0].strip() for name in names for line in (ROOT / name).read_text().splitlines()]
    return {line.partition("==")[0]: line for line in lines if line}


def make_environment(folder: Path, extra: str, *constraints: str) -> Path:
    """Install the project with an extra, once for each state of the requirements; the interpreter."""
    if sys.version_info < (3, 11):
        sys.exit(f"controlshap needs Python 3.11 or newer; this is {sys.version.split()[0]}.")
    versions = read_constraints(*constraints)
    state = (ROOT / "pyproject.toml").read_text() + "\n".join(versions.values()) + sys.version + extra
    wanted, stamp, python = hashlib.sha256(state.encode()).hexdigest(), folder / "installed.sha256", python_of(folder)
    if stamp.is_file() and stamp.read_text() == wanted:
        return python
    print(f"Making the environment in {folder.name} (a few minutes the first time)", flush=True)
    venv.create(folder, with_pip=True, clear=True)
    merged = folder / "constraints.txt"
    merged.write_text("\n".join(versions.values()) + "\n")
    if extra in ("dev", "test"):
        # torch by its exact version first: the range in the extra would take the newest build.
        run(python, *INSTALL, "-c", merged, versions["torch"])
    run(python, *INSTALL, "--no-compile", "-c", merged, "-e", f".[{extra}]")
    stamp.write_text(wanted)
    return python


def demo(arguments: list[str]) -> None:
    """Explain an embedded data set, in an environment with what that needs and no more."""
    extra = "demo,shap" if "--shap" in arguments else "demo"
    python = make_environment(DEMO, extra, "constraints.txt")
    run(python, "-m", "controlshap.cli.demo", *arguments)


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
    run(python_of(PEERS), *INSTALL, "-r", "benchmarks/requirements-peers.txt")
    run(python_of(PEERS), *INSTALL, "-e", ".")


def find_browser(python: Path) -> None:
    """Install a Chromium for the tests of the report where there is none: root by apt-get, others by playwright."""
    if any(shutil.which(name) for name in BROWSERS):
        return
    print(f"The report is tested in a real browser, and there is none of {', '.join(BROWSERS)}", flush=True)
    if hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get"):
        os.environ["DEBIAN_FRONTEND"] = "noninteractive"
        run("apt-get", "update", "-q")
        run("apt-get", "install", "-y", "-q", "--no-install-recommends", "chromium")
    else:
        run(python, "-m", "playwright", "install", "chromium")


def test(arguments: list[str]) -> None:
    """Lint, format, types, dependency direction, tests; of the oldest versions the tests only."""
    lanes = [lane for lane in LANES if lane in arguments]
    chosen = ["-m", LANES[lanes[0]]] if lanes else []
    pytest = ["-m", "pytest", "-n", "auto", "--dist", "worksteal", *chosen]
    pytest += [argument for argument in arguments if argument not in lanes]
    if "--oldest" in lanes:
        run(make_environment(OLDEST, "test", "constraints.txt", "constraints-oldest.txt"), *pytest)
        return
    python = make_environment(ENVIRONMENT, "dev", "constraints.txt")
    run(python, "-m", "ruff", "check", ".")
    run(python, "-m", "ruff", "format", "--check", ".")
    run(python, "-m", "mypy")
    run(ENVIRONMENT / BINARIES / "lint-imports", "--no-cache")
    if not lanes:
        find_browser(python)
    run(python, *pytest)


def main() -> None:
    """Do one job."""
    jobs = {"demo", "test", "env", "peers"}
    if len(sys.argv) < 2 or sys.argv[1] not in jobs:
        sys.exit(__doc__)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    job, arguments = sys.argv[1], sys.argv[2:]
    if job == "peers":
        make_peers(arguments)
    elif job == "test":
        test(arguments)
    elif job == "demo":
        demo(arguments)
    else:
        make_environment(ENVIRONMENT, "dev", "constraints.txt")


if __name__ == "__main__":
    main()
