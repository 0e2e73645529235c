"""How Sphinx builds these pages."""  # noqa: INP001  Sphinx reads it by itself

import tomllib
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, GoogleDocstring

_PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]

project = "Roomlore"
author = "The Roomlore authors"
copyright = "2026, The Roomlore authors"  # noqa: A001  the name that Sphinx reads
release = version = _PROJECT["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "Roomlore"

myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3

add_module_names = False
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True
autodoc_member_order = "bysource"
autodoc_typehints = "signature"

# Types whose pages are other projects': the build reads nothing from the network, so it cannot link to them.
nitpick_ignore_regex = [
    ("py:.*", r"(asyncio|collections|contextlib|datetime|numpy|pathlib|typing|uuid|zoneinfo)(\..+)?"),
    ("py:class", r"(Path|UUID|date|datetime|timedelta|int|bool|str|float|bytes|ndarray|float32|Any)"),
    # Variables for the type of an answer's items, and of a record.
    ("py:class", r"roomlore\.operations\.graph\.Found"),
    ("py:class", r"roomlore\.domain\.records\.Record"),
    # Limits of arguments, and aliases in annotations that are not evaluated.
    (
        "py:class",
        r"(msgspec\.Meta|ZoneInfo|(lookup\.)?PositionLike|(runner\.)?Progress|expiry\.OnExpired|work_queue\.QueueName|GraphTexts)",
    ),
]


def setup(app: Sphinx) -> None:
    """Read docstrings in Google's convention, but not the comments on fields, where a colon is just a colon."""
    app.connect("autodoc-process-docstring", _read_sections)
    # These pages show the text of a diagram, which GitHub draws.
    app.add_lexer("mermaid", TextLexer)
    # The lexer of this language does not know parameters.
    app.add_lexer("cypher", TextLexer)


def _read_sections(app: Sphinx, what: str, name: str, obj: object, *rest: Any) -> None:
    options, lines = rest
    if what not in {"attribute", "data"}:
        lines[:] = GoogleDocstring(lines, Config(), app, what, name, obj, options).lines()
