"""What is promised about versions is what is installed and run."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
#: Extras of tools, whose lower bounds nobody relies on.
TOOLS = {"test", "dev"}
#: Run under another name (the build without GPU collectives), and not run (no build for CPUs everywhere).
RENAMED, NOT_RUN = {"xgboost": "xgboost-cpu"}, {"torch"}


def lower_bounds():
    extras = PROJECT["optional-dependencies"]
    lines = PROJECT["dependencies"] + [line for extra in extras if extra not in TOOLS for line in extras[extra]]
    for requirement in map(Requirement, lines):
        if requirement.name != "controlshap":
            (specifier,) = requirement.specifier
            assert specifier.operator == ">=", requirement
            yield requirement.name, specifier.version


def pinned(file):
    return dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / file).read_text(encoding="utf-8"), flags=re.MULTILINE))


def test_the_oldest_versions_that_are_run_are_the_lower_bounds():
    oldest = pinned("constraints-oldest.txt")
    for name, version in lower_bounds():
        if name in NOT_RUN:
            assert name not in oldest
            continue
        installed = oldest[RENAMED.get(name, name)]
        assert re.fullmatch(rf"{re.escape(version)}(\.0)*", installed), f"{name} {version} is promised, {installed} run"


def test_every_package_of_an_extra_has_one_version_for_ci():
    newest = pinned("constraints.txt")
    assert {RENAMED.get(name, name) for name, _ in lower_bounds()} <= set(newest)


def test_no_pin_is_left_over():
    """A package that is no longer required has no line here."""
    names = {RENAMED.get(name, name) for name, _ in lower_bounds()}
    extra = {Requirement(line).name for line in PROJECT["optional-dependencies"]["test"]}
    assert set(pinned("constraints-oldest.txt")) <= names | extra | {"numba"}
