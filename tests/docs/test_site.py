"""The documentation site: no warnings, nothing loaded from elsewhere, examples that print what it says."""

import contextlib
import doctest
import io
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from test_docs import ROOT, fenced_blocks, relative, traces

import controlshap

pytestmark = pytest.mark.slow

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
NOTEBOOKS = sorted(DOCS.rglob("*.ipynb"))
PROMISED = (
    "start", "settings", "correlated", "slow_models", "categories", "errors", "coming_from_shap", "mathematics",
    "design", "api", "reproduction", "benchmarks", "scale", "command_line", "vocabulary", "gallery", "tutorials/credit",
    "tutorials/night", "tutorials/conditional", "tutorials/interactions",
)  # fmt: skip
CHECKED = [page for page in PAGES if "```text output" in page.read_text(encoding="utf-8")]


# ---------------------------------------------------------------------------------------------------------------------
# Examples: `text output` stands for what the block before it prints, `shell` blocks are run by a shell.


def run_page(text, filename, folder):
    """Run Python and shell blocks in order in a folder, and compare with the outputs that the page shows."""
    namespace, printed = {"__name__": "__main__"}, None
    for block in fenced_blocks(text):
        where = f"{filename}, line {block.line}"
        if block.info == ("python",):
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile("\n" * (block.line - 1) + block.text, filename, "exec"), namespace)
            printed = out.getvalue()
        elif block.info == ("shell",):
            printed = run_shell(block.text, folder, where)
        elif block.info == ("text", "output"):
            assert printed is not None, f"{where}: nothing ran before this output"
            check_output(block.text, printed, where)


def run_shell(text, folder, where):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = os.environ | {"PATH": path, "PYTHONWARNINGS": "default", "OMP_NUM_THREADS": "1"}
    command = ["bash", "-e", "-u", "-o", "pipefail", "-c", text]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, f"{where}: exit code {done.returncode}\n{done.stderr}"
    return done.stdout


def check_output(expected, printed, where):
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    same = doctest.OutputChecker().check_output(expected, printed, options)
    assert same, f"{where}: the page shows\n{expected}\nbut this is printed:\n{printed}"


@pytest.mark.parametrize("page", CHECKED, ids=relative)
def test_the_outputs_on_a_page_are_what_is_printed(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    run_page(page.read_text(encoding="utf-8"), str(page), tmp_path)


def test_a_wrong_output_and_a_failing_command_are_caught(tmp_path):
    page = "```python\nprint(1 + 1)\n```\n```text output\n{}\n```\n"
    run_page(page.format("2"), "page.md", tmp_path)
    with pytest.raises(AssertionError, match="but this is printed"):
        run_page(page.format("3"), "page.md", tmp_path)
    run_page("```shell\necho two  words\n```\n```text output\ntwo ...\n```\n", "page.md", tmp_path)
    with pytest.raises(AssertionError, match="line 2: exit code 1"):
        run_page("```shell\nfalse\ntrue\n```\n", "page.md", tmp_path)


# ---------------------------------------------------------------------------------------------------------------------
# The site.


@dataclass(frozen=True)
class Site:
    folder: Path
    messages: str
    returncode: int

    def html(self):
        return sorted(self.folder.rglob("*.html"))


def build(source, out, *options):
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", "-W", "--keep-going", "-n", "-d", str(out / "trees")]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
    done = subprocess.run(
        [*command, *options, str(source), str(out / "html")], capture_output=True, text=True, env=environment
    )
    # what a kernel says about its own transport is not about the pages
    lines = [line for line in (done.stdout + done.stderr).splitlines() if "IPKernelApp" not in line]
    return Site(out / "html", "\n".join(lines).strip(), done.returncode)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Built once, also where several processes of pytest share these tests: the first builds, the others wait."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return build(DOCS, tmp_path_factory.mktemp("site"))
    folder = tmp_path_factory.getbasetemp().parent / "site"
    told = folder / "built.json"
    try:
        folder.mkdir()
    except FileExistsError:
        while not told.exists():
            time.sleep(0.5)
        return Site(folder / "html", **json.loads(told.read_text(encoding="utf-8")))
    built = build(DOCS, folder)
    unfinished = told.with_suffix(".tmp")
    unfinished.write_text(json.dumps({"messages": built.messages, "returncode": built.returncode}), encoding="utf-8")
    unfinished.replace(told)
    return built


#: Where elements name what a browser loads for them.
LOADED = {
    "script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src", "embed": "src",
    "object": "data",
}  # fmt: skip


class Links(HTMLParser):
    """Identifiers of a page, links, and what a browser would load."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loaded = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.ids.update(found[name] for name in ("id", "name") if found.get(name))
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if tag == "link" and "canonical" not in found.get("rel", ""):
            self.loaded.append(found.get("href", ""))
        if tag in LOADED and found.get(LOADED[tag]):
            self.loaded.append(found[LOADED[tag]])
        self.loaded.extend(re.findall(r"url\(([^)]*)\)", found.get("style") or ""))


def is_elsewhere(address):
    return bool(re.match(r"['\"]?\s*(?:https?:)?//", address))


@pytest.mark.timeout(280)
def test_the_site_builds_without_a_warning(site):
    assert site.messages == ""
    assert site.returncode == 0
    for name in PROMISED:
        assert (site.folder / f"{name}.html").is_file(), name


def test_a_warning_is_caught(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "conf.py").write_text("extensions = ['myst_nb']\n")
    (source / "index.md").write_text("# Page\n\n[nowhere](missing.md)\n")
    broken = build(source, tmp_path)
    assert broken.returncode != 0
    assert "missing" in broken.messages


def test_every_page_is_reached_from_the_first(site):
    """By links to documents of the table of contents, which every page has at its side."""
    first = Links((site.folder / "index.html").read_text(encoding="utf-8"))
    listed = {unquote(urlsplit(link).path) for link in first.links}
    pages = [*PAGES, *NOTEBOOKS]
    wanted = {page.relative_to(DOCS).with_suffix(".html").as_posix() for page in pages} - {"index.html"}
    assert len(wanted) > 15
    assert wanted <= listed, sorted(wanted - listed)


def test_every_committed_result_has_a_page():
    results = sorted((ROOT / "benchmarks" / "results").glob("*.md"))
    missing = [path.name for path in results if not (DOCS / "results" / path.name).is_file()]
    assert not missing, "add pages to docs/results, and lines to docs/benchmarks.md"


def test_links_within_the_site_lead_somewhere(site):
    parsed = {path: Links(path.read_text(encoding="utf-8")) for path in site.html()}
    broken = []
    for path, page in parsed.items():
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            where = f"{path.relative_to(site.folder)}: {link}"
            ids = parsed[target].ids if target in parsed else {unquote(parts.fragment)}
            if not target.exists() or (parts.fragment and unquote(parts.fragment) not in ids):
                broken.append(where)
    assert len(parsed) > 15
    # the theme's own buttons for the side bars
    assert [where for where in broken if not where.endswith(("#__navigation", "#__toc", "#"))] == []


def test_the_site_loads_nothing_from_elsewhere(site):
    loaded = {}
    for path in site.html():
        text = path.read_text(encoding="utf-8")
        addresses = [*Links(text).loaded, *re.findall(r"@import\s+['\"]([^'\"]+)", text)]
        loaded[path.name] = [address for address in addresses if is_elsewhere(address)]
    for path in site.folder.rglob("*.css"):
        text = path.read_text(encoding="utf-8")
        addresses = re.findall(r"url\(([^)]*)\)", text) + re.findall(r"@import\s+['\"]([^'\"]+)", text)
        loaded[path.name] = [address for address in addresses if is_elsewhere(address)]
    assert {name: found for name, found in loaded.items() if found} == {}


def test_what_would_be_loaded_is_found():
    text = "<script src='https://cdn.x/a.js'></script><link rel=stylesheet href='//x/y.css'><img src=a.png>"
    assert [is_elsewhere(address) for address in Links(text).loaded] == [True, True, False]


def test_the_site_holds_nothing_of_one_machine(site):
    found = {}
    for path in [*site.html(), *site.folder.rglob("*.js"), *site.folder.rglob("*.txt")]:
        text = path.read_text(encoding="utf-8")
        found[path.name] = traces(text) + ([str(ROOT)] if str(ROOT) in text else [])
    assert {name: what for name, what in found.items() if what} == {}


def test_formulas_are_drawn_by_the_browser_itself(site):
    page = (site.folder / "mathematics.html").read_text(encoding="utf-8")
    assert page.count("<math ") > 300
    assert "mathjax" not in page.lower()
    assert "\\frac" not in page


# ---------------------------------------------------------------------------------------------------------------------
# Every public name, once.

DOCUMENTED = re.compile(r"^\.\. (?:auto\w+|py:data):: (controlshap\.[\w.]+)$", re.MULTILINE)


def test_the_api_page_has_every_public_name_once():
    named = DOCUMENTED.findall((DOCS / "api.md").read_text(encoding="utf-8"))
    wanted = {f"controlshap.{name}" for name in controlshap.__all__}
    assert sorted(wanted - set(named)) == [], "add these to docs/api.md"
    assert len(named) == len(set(named))


def test_public_names_can_be_linked_to(site):
    from sphinx.util.inventory import InventoryFile

    with (site.folder / "objects.inv").open("rb") as file:
        inventory = InventoryFile.load(file, "", os.path.join)
    listed = {name for kind, names in inventory.items() if kind.startswith("py:") for name in names}
    assert {f"controlshap.{name}" for name in controlshap.__all__} <= listed
    assert {"controlshap.metrics.rank_changes", "controlshap.Explanation.confidence_interval"} <= listed
    assert "controlshap.Explainer.__call__" in listed


# ---------------------------------------------------------------------------------------------------------------------
# Notebooks.


@pytest.mark.parametrize("path", NOTEBOOKS, ids=relative)
def test_a_notebook_is_stored_without_outputs(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in cells)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=relative)
def test_a_notebook_was_run_when_the_site_was_built(path, site):
    page = (site.folder / path.relative_to(DOCS).with_suffix(".html")).read_text(encoding="utf-8")
    assert "cell_output" in page
    assert len(re.findall(r"<img [^>]*_images/", page)) >= 3
    assert "Traceback" not in page
    assert "stderr" not in page


def test_there_are_two_notebooks():
    assert [path.stem for path in NOTEBOOKS] == ["correlated_features", "first_steps"]
