"""What docs/mission.md names exists: tables, calls, fields, verbs, paths, settings and tests."""

import ast
import importlib
import inspect
import json
import pkgutil
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args

import click
import pytest

import roomlore
from roomlore.cli.main import cli
from roomlore.domain.projections import EdgeKind, NodeLabel
from roomlore.mcp.tools import TOOLS
from roomlore.operations import App
from roomlore.operations.embedding_versions import EmbeddingVersions
from roomlore.operations.exports import Exports
from roomlore.operations.graph import GraphQueries
from roomlore.operations.jobs import Extraction
from roomlore.operations.projection_service import Projections
from roomlore.operations.registry import signature_of
from roomlore.operations.services import SERVICES

ROOT = Path(__file__).parents[2]
PRODUCT = ROOT / "src" / "roomlore"
PAGE = (ROOT / "docs" / "mission.md").read_text(encoding="utf-8")
CAPABILITIES, _, ELSEWHERE = PAGE.partition("\n## Names from elsewhere\n")
#: How many rows each chapter has.
CHAPTERS = {"A": 11, "B": 13, "C": 7, "D": 7, "E": 11, "F": 19}
#: The services behind the properties of `App`.
ALL_SERVICES = {
    **SERVICES,
    "embedding_versions": EmbeddingVersions,
    "exports": Exports,
    "extraction": Extraction,
    "graph": GraphQueries,
    "projections": Projections,
}
#: The modules with the records that the App returns or takes.
RECORDS = (
    "domain.records",
    "domain.incoming",
    "context.records",
    "context.limits",
    "context.expansion",
    "context.memory_section",
    "search.records",
    "agents.trust",
    "agents.reply_policy",
    "agents.section_cache",
    "operations.monitoring",
)
#: The functions that write properties of nodes in Neo4j, by the label of the node.
WRITERS = {"User": "_user_properties", "Room": "_room", "Message": "_message", "Memory": "_memory"}


class UnknownName(Exception):
    """A name that does not exist."""


def rows(text: str, columns: int) -> Iterator[list[str]]:
    """Yield the cells of the rows of all tables with this number of columns, without their heads."""
    for head, *lines in (block.splitlines() for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)):
        if head.count("|") == columns + 1:
            yield from ([cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:])


def names_in(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


ROWS = list(rows(CAPABILITIES, 4))
LEGACY = list(rows(ELSEWHERE, 3))


# What a name can be


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The columns of a table, each with its definition."""

    columns: dict[str, str]


@cache
def schema() -> dict[str, Table]:
    text = re.sub(r"--.*", "", (PRODUCT / "db" / "schema.sql").read_text(encoding="utf-8"))
    found: dict[str, Table] = {}
    for name, body in re.findall(r"^create table (\w+) \(\n(.*?)^\)", text, re.MULTILINE | re.DOTALL):
        parts = re.split(r"\n  (?=\S)", "\n" + body)
        named = (re.match(r'"?(\w+)"? (\w+)', part) for part in parts)
        keywords = {"primary", "unique", "foreign", "check", "constraint"}
        columns = {
            match[1]: part
            for match, part in zip(named, parts, strict=True)
            if match and match[1] not in keywords
        }
        found[name] = Table(columns=columns)
    return found


def check_column(name: str) -> None:
    place, _, value = name.partition(" = ")
    table, _, column = place.partition(".")
    if table not in schema() or (column and column not in schema()[table].columns):
        raise UnknownName(name)
    if value and f"'{value}'" not in schema()[table].columns[column]:
        raise UnknownName(name)


@cache
def records() -> dict[str, type]:
    modules = [importlib.import_module(f"roomlore.{module}") for module in RECORDS]
    return {
        name: thing
        for module in modules
        for name, thing in vars(module).items()
        if inspect.isclass(thing) and thing.__module__ == module.__name__
    }


def member(owner: Any, name: str) -> Any:
    if is_dataclass(owner) and name in {field.name for field in fields(owner)}:
        return None  # a field has no members of its own here
    return inspect.getattr_static(owner, name)


def check_argument(call: Any, argument: str) -> None:
    taken = set(inspect.signature(call).parameters)
    if any(one.kind is one.VAR_KEYWORD for one in inspect.signature(call).parameters.values()):
        taken |= {one.name for one in signature_of(call).parameters}
    if argument not in taken - {"self"}:
        raise UnknownName(argument)


def check_python(name: str) -> None:
    """Check a record, a call of the App, or a dotted name to import, with an argument in brackets."""
    dotted, _, argument = name.removesuffix(")").partition("(")
    first, *rest = dotted.split(".")
    if first == "App" and rest and rest[0] in ALL_SERVICES:
        member(App, rest[0])
        found: Any = ALL_SERVICES[rest[0]]
        rest = rest[1:]
    elif first == "App":
        found = App
    elif first == "roomlore":
        found, rest = imported(dotted)
    else:
        found = records()[first]
    for part in rest:
        found = member(found, part)
    if argument:
        check_argument(found, argument)


def imported(dotted: str) -> tuple[Any, list[str]]:
    """Return the longest module that a name begins with, and the rest of the name."""
    first, *rest = dotted.split(".")
    found: Any = roomlore
    while rest and hasattr(found, "__path__"):
        if rest[0] not in {one.name for one in pkgutil.iter_modules(found.__path__)}:
            break
        first, rest = f"{first}.{rest[0]}", rest[1:]
        found = importlib.import_module(first)
    # Public names are loaded when they are first used.
    return (getattr(found, rest[0]), rest[1:]) if rest else (found, rest)


def check_verb(name: str) -> None:
    words = [word for word in shlex.split(name)[1:] if not word.startswith("-")]
    options = [word for word in shlex.split(name)[1:] if word.startswith("-")]
    command: click.Command | None = cli
    for word in words:
        if not isinstance(command, click.Group):
            raise UnknownName(name)
        command = command.get_command(click.Context(command), word)
    if command is None:
        raise UnknownName(name)
    known = {
        option
        for param in command.get_params(click.Context(command))
        for option in (*param.opts, *param.secondary_opts)
    }
    if not set(options) <= known:
        raise UnknownName(name)


@cache
def paths() -> dict[str, set[str]]:
    described = json.loads((ROOT / "docs" / "openapi.json").read_text(encoding="utf-8"))
    return {path: {method.upper() for method in methods} for path, methods in described["paths"].items()}


def check_path(name: str) -> None:
    method, _, path = name.partition(" ")
    if method not in paths().get(path, set()):
        raise UnknownName(name)


@cache
def keys_written_by(module: str, function: str) -> set[str]:
    """Return the keys of the dictionaries that a function of the product makes."""
    tree = ast.parse((PRODUCT / module).read_text(encoding="utf-8"))
    (body,) = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == function)
    found: set[Any] = set()
    for node in ast.walk(body):
        if isinstance(node, ast.Dict):
            found |= {key.value for key in node.keys if isinstance(key, ast.Constant)}
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            found.add(node.slice.value)
    return found


def check_qdrant(name: str) -> None:
    if name not in keys_written_by("projections/qdrant_connection.py", "payload_of"):
        raise UnknownName(name)


def check_neo4j(name: str) -> None:
    label, _, key = name.partition(".")
    if key and key not in keys_written_by("db/graph_nodes.py", WRITERS[label]):
        raise UnknownName(name)
    if label not in {*get_args(NodeLabel), *get_args(EdgeKind)}:
        raise UnknownName(name)


def check_setting(name: str) -> None:
    tree = ast.parse((PRODUCT / "settings.py").read_text(encoding="utf-8"))
    if name not in {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}:
        raise UnknownName(name)


def check_tool(name: str) -> None:
    if name not in {tool.name for tool in TOOLS}:
        raise UnknownName(name)


KINDS = (
    (r"roomlore [a-z].*", check_verb),
    (r"(GET|POST|PUT|PATCH|DELETE) /.*", check_path),
    (r"Qdrant (.+)", check_qdrant),
    (r"Neo4j (.+)", check_neo4j),
    (r"MCP (.+)", check_tool),
    (r"ROOMLORE_\w+", check_setting),
    (r"(?:roomlore\.|[A-Z]).*", check_python),
    (r"[a-z_]+(?:\.[a-z_]+(?: = \w+)?)?", check_column),
)


def check(name: str) -> None:
    """Raise an error unless a name of the page exists."""
    for pattern, look in KINDS:
        match = re.fullmatch(pattern, name)
        if match:
            look(match[1] if match.re.groups and look in {check_qdrant, check_neo4j, check_tool} else name)
            return
    raise UnknownName(name)


def exists(name: str) -> bool:
    try:
        check(name)
    except (UnknownName, AttributeError, KeyError):
        return False
    return True


def test_every_name_of_roomlore_exists() -> None:
    named = [name for *_, cell in LEGACY for name in names_in(cell)]
    named += [name for _, _, cell, _ in ROWS for name in names_in(cell)]

    assert len(named) > 200
    assert [name for name in named if not exists(name)] == []


def test_the_forms_of_names_are_those_that_are_checked() -> None:
    forms = [name for form, cell in rows(CAPABILITIES, 2) if form for name in names_in(cell)]

    assert len(forms) >= len(KINDS)
    assert [name for name in forms if not exists(name)] == []


@pytest.mark.parametrize(
    "made_up",
    [
        "v2_chat_history",
        "messages.role",
        "messages.kind = shout",
        "App.update_trust",
        "App.agents.update_trust",
        "App.context(min_linear)",
        "App.memories.remember(character)",
        "Message.role",
        "MessageNode",
        "roomlore.create_conversation_fetcher",
        "roomlore.legacy.compatibility.MemoryManager.forget_message",
        "roomlore.legacy.compatibility.MemoryManager.add_message(self)",
        "roomlore chat",
        "roomlore migrate everything",
        "roomlore search extra",
        "roomlore memories --yesterday",
        "PUT /v1/ask",
        "GET /v1/trust",
        "Qdrant user_id",
        "Neo4j Bot",
        "Neo4j User.age",
        "MCP shout",
        "ROOMLORE_TRUST",
        "not a name",
    ],
)
def test_a_made_up_name_is_found_out(made_up: str) -> None:
    assert not exists(made_up)


def test_every_row_of_names_says_what_it_is_and_what_it_is_called_here() -> None:
    assert len(LEGACY) > 50
    assert [row for row in LEGACY if not all(row) or not names_in(row[2])] == []


def test_no_name_from_elsewhere_is_listed_twice_in_its_table() -> None:
    for section in ELSEWHERE.split("\n### ")[1:]:
        there = Counter(name for cell, *_ in rows(section, 3) for name in names_in(cell))

        assert there
        assert [name for name, times in there.items() if times > 1] == []


# The rows of the first table


def test_every_row_stands_on_the_page_once_and_in_order() -> None:
    expected = [f"{chapter}{number + 1}" for chapter, most in CHAPTERS.items() for number in range(most)]

    assert [row[0] for row in ROWS] == expected


def test_every_row_names_a_test_unless_it_says_not_yet() -> None:
    untested = [row[0] for row in ROWS if not names_in(row[3]) and not row[1].startswith("Not yet")]

    assert untested == []


def test_every_row_leads_to_a_page() -> None:
    assert [row[0] for row in ROWS if "](" not in row[2]] == []


def test_every_named_test_exists() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    known = {
        name for text in texts for name in re.findall(r"^(?:async )?def (test_\w+)\(", text, re.MULTILINE)
    }
    named = {name for row in ROWS for name in names_in(row[3])}

    assert len(named) > 60
    assert named - known == set()
