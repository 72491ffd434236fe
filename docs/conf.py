"""Settings of the documentation site: `python -m sphinx -b html -W docs docs/_build`.

The built site loads nothing from elsewhere. Formulas are written as MathML, which browsers draw themselves.
"""

from __future__ import annotations

import os
import re
from typing import Any

import click
from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.utils.math.latex2mathml import tex2mathml
from docutils.utils.math.unichar2tex import uni2tex_table

import controlshap
from controlshap.cli.commands import commands

os.environ["TQDM_DISABLE"] = "1"  # notebooks run on machines of any speed, and a bar is shown only after a while

project = "controlshap"
author = "The controlshap developers"
project_copyright = "The controlshap developers"
version = release = controlshap.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "**.ipynb_checkpoints"]
nitpicky = True
show_warning_types = True

html_theme = "furo"
html_title = f"controlshap {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/favicon.svg"
html_theme_options = {"light_logo": "logo-light.svg", "dark_logo": "logo-dark.svg"}
html_copy_source = False
html_show_sourcelink = False
html_math_renderer = "mathml"
pygments_style = "friendly"
pygments_dark_style = "native"

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
myst_update_mathjax = False

nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 60
nb_execution_in_temp = True
nb_merge_streams = True
nb_output_stderr = "warn"

default_role = "code"
autodoc_typehints = "none"
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_param = False
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]


def _mathml(node: nodes.Node, *, as_block: bool) -> str:
    text = node.astext().translate(uni2tex_table).replace(r"\dots", r"\ldots")
    # TeX reads \frac12 as one half; the converter would take 12 for the numerator.
    text = re.sub(r"(\\t?frac)(\d)(\d)", r"\1{\2}{\3}", text)
    return tex2mathml(text, as_block=as_block)


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(_mathml(node, as_block=False))
    raise nodes.SkipNode


def _display(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="math">{_mathml(node, as_block=True)}</div>')
    raise nodes.SkipNode


class CommandHelp(Directive):
    """What a command of `controlshap` prints for `--help`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """A block of text."""
        name = self.arguments[0]
        context = click.Context(commands, info_name="controlshap")
        text = commands.commands[name].get_help(
            click.Context(commands.commands[name], info_name=name, parent=context, terminal_width=90)
        )
        return [nodes.literal_block(text, text, language="text")]


def _link_files(app: Any, name: str, text: list[str]) -> None:
    """Links to pages outside this folder: committed results have a page here, others are offered as files."""
    folder = (app.srcdir / name).parent

    def link(match: re.Match[str]) -> str:
        target = (folder / match[1]).resolve()
        if target.is_relative_to(app.srcdir):
            return match[0]
        is_result = target.parent.name == "results"
        return f"](/results/{target.name})" if is_result else f"](path:{match[1]})"

    text[0] = re.sub(r"\]\((\.\./[^)#\s]+\.md)\)", link, text[0])


def _colons(old: str, new: str) -> Any:
    """Exchanges colons in docstrings of properties: napoleon would take what stands before the first for a type."""

    def exchange(_app: Any, what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
        if what in ("property", "attribute", "data"):
            lines[:] = [line.replace(old, new) for line in lines]

    return exchange


def setup(app: Any) -> dict[str, bool]:
    """Register how formulas are written, the help of commands, and links to files of the repository."""
    app.add_directive("command-help", CommandHelp)
    app.connect("autodoc-process-docstring", _colons(":", "\ue000"), priority=400)  # before napoleon, 500
    app.connect("autodoc-process-docstring", _colons("\ue000", ":"), priority=600)
    app.connect("source-read", _link_files)
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
