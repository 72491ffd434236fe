"""What a new user does first works: clone, demo, the example of the README, a report."""

import shutil
import subprocess
import sys

import pytest
from test_docs import ROOT, fenced_blocks

pytestmark = pytest.mark.slow


@pytest.mark.skipif(not (ROOT / ".git").exists() or shutil.which("git") is None, reason="there is nothing to clone")
def test_the_first_five_minutes():
    done = subprocess.run(
        [sys.executable, "docs/first_five_minutes.py"], cwd=ROOT, capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    commands = [line for line in lines if line.startswith("$ ")]
    assert [command.split()[1] for command in commands] == ["git", "python", "python"]
    assert sum(line.endswith(" s") and line.startswith("# ") for line in lines) == 4
    assert any(line.startswith("Explanation of 2 rows by 30 players") for line in lines)
    assert any(line.startswith("# report.html: ") for line in lines)


def test_the_recording_is_of_that_script():
    page = (ROOT / "docs" / "first_five_minutes.md").read_text(encoding="utf-8")
    (recording,) = [block.text for block in fenced_blocks(page) if block.info == ("text",)]
    for wanted in ("$ git clone", "$ python3 dev.py demo", "of packages", "# report.html: ", "# in all: "):
        assert wanted in recording
