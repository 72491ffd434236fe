"""How many of shap's own tests of KernelExplainer pass with our class in its place.

    python benchmarks/shap_own_tests.py PATH_TO_A_CLONE_OF_SHAP

Copies `tests/explainers/test_kernel.py` of the clone, with what it imports, to a temporary folder, replaces
`shap.KernelExplainer` by `controlshap.KernelExplainer` and nothing else, and runs pytest. Three of its tests fetch data
from the network. `tests/shap_compat/test_shap_own_tests.py` has the same situations in our own words.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def main(clone: Path) -> int:
    """Swap the class, and run."""
    tests = clone / "tests"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(tests / "conftest.py", folder)
        (folder / "explainers").mkdir()
        (folder / "explainers" / "__init__.py").touch()
        shutil.copy(tests / "explainers" / "common.py", folder / "explainers")
        text = (tests / "explainers" / "test_kernel.py").read_text(encoding="utf-8")
        text = re.sub(r"\bshap\.KernelExplainer\b", "controlshap.KernelExplainer", text)
        text = re.sub(r"^import shap$", "import shap\nimport controlshap", text, flags=re.MULTILINE)
        (folder / "explainers" / "test_kernel.py").write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-rfs", "-p", "no:cacheprovider", "--rootdir", name, "-c"]
        return subprocess.run([*command, "/dev/null", "--tb=line", name], cwd=name, check=False).returncode


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]).resolve()))
