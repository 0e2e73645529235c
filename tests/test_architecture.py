"""The shape of the code: who imports whom, how large things are, what stands nowhere."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from statistics import quantiles

import pytest

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "roomlore"

LONGEST_MODULE = 800
LONGEST_FUNCTION = 70
#: Nine functions in ten are no longer than this.
USUAL_FUNCTION = 27
#: Names that take in anything.
SHAPELESS = {"utils", "util", "helpers", "helper", "common", "base", "manager", "core", "misc"}
#: Where each third-party package may be imported. A new one needs a home first.
HOMES = {
    "click": "cli/",
    "fastapi": ("http/", "web/gateway.py"),
    "httpcore2": "articles/fetching.py",
    "httpx2": ("models/http_models.py", "client/"),
    "idna": "articles/links.py",
    "ijson": "importers/reading/json_stream.py",
    "jinja2": "web/",
    "markupsafe": "web/",
    "mcp": "mcp/",
    "mcp_types": "mcp/",
    "msgspec": (
        "ingest/accept.py",
        "client/",
        "operations/",
        "agents/reply_policy.py",
        "http/operations.py",
        "search/llm_answers.py",
    ),
    "neo4j": "projections/neo4j",
    "numpy": "",
    "onnxruntime": "models/local_embedding.py",
    "pgvector": "db/",
    "prometheus_client": "http/metrics.py",
    "psycopg": ("db/", "legacy/source.py"),
    "psycopg_pool": "db/database.py",
    "pydantic": ("http/", "mcp/", "web/"),
    "pydantic_core": "http/",
    "qdrant_client": "projections/qdrant",
    "rich": "cli/",
    "starlette": ("http/", "mcp/", "web/", "cli/"),
    "threadpoolctl": "jobs/disentanglement.py",
    "tokenizers": "models/local_embedding.py",
    "trafilatura": "articles/extraction.py",
    "uvicorn": "http/runtime.py",
}
#: Whatever bears one of these names is made, not written.
MADE = {"_build", "__pycache__"}
WRITTEN = ("src", "tests", "docs", "evaluation", "benchmarks", "training", ".ci")

#: A statement begins its literal; advice to a person may quote one further on.
SQL = re.compile(
    r"\s*(select\b.+\bfrom\b|insert\s+into\b|delete\s+from\b|update\s+\w+\s+set\b|set\s+local\b|with\s+\w+\s+as\b"
    r"|(create|alter|drop)\s+(table|view|index|role|function|schema|extension|policy)\b)",
    re.IGNORECASE | re.DOTALL,
)
REGISTRIES = re.compile(
    r"pypi\.org|pythonhosted\.org|npmjs\.(org|com)|yarnpkg\.com|crates\.io|rubygems\.org|deb\.debian\.org"
    r"|proxy\.golang\.org|registry\.[a-z]+\.[a-z]+|anaconda\.org"
)
MACHINE_PATHS = re.compile(r"(?<![\w.~])/(home/\w|Users/\w|root/\w|work/\w)")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def sources() -> list[Path]:
    return sorted(SRC.rglob("*.py"))


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def functions(path: Path) -> Iterator[Function]:
    return (node for node in ast.walk(tree_of(path)) if isinstance(node, Function))


def length(function: Function) -> int:
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def written_files() -> Iterator[Path]:
    tops = [path for path in ROOT.iterdir() if path.is_file() and path.name != ".coverage"]
    below = [path for name in WRITTEN for path in (ROOT / name).rglob("*") if path.is_file()]
    for path in (*tops, *below):
        if MADE.isdisjoint(path.relative_to(ROOT).parts):
            yield path


def found_in_files(pattern: re.Pattern[str]) -> list[str]:
    found: list[str] = []
    for path in written_files():
        text = path.read_bytes().decode("utf-8", "replace")
        found += [
            f"{shown(path)}:{number}: {line.strip()[:100]}"
            for number, line in enumerate(text.splitlines(), start=1)
            if pattern.search(line)
        ]
    return found


# Imports


def module_name(path: Path) -> str:
    parts = path.relative_to(SRC.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(node: ast.AST) -> Iterator[str]:
    """Yield the full names that an import statement may mean: modules, or names in modules."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "relative imports hide who is meant"
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def import_graph() -> dict[str, set[str]]:
    trees = {module_name(path): tree_of(path) for path in sources()}
    graph: dict[str, set[str]] = {name: set() for name in trees}
    for name, tree in trees.items():
        for full in (full for node in ast.walk(tree) for full in imported(node)):
            target = full if full in trees else full.rpartition(".")[0]
            if target in trees and target != name:
                graph[name].add(target)
    return graph


def test_the_import_contracts_hold() -> None:
    linter = Path(sys.executable).with_name("lint-imports")

    done = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = import_graph()
    assert graph["roomlore.operations.startup"] > {"roomlore.settings", "roomlore.db.database"}

    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


@pytest.mark.slow
def test_every_third_party_package_has_one_home() -> None:
    strays: list[str] = []
    for path in sources():
        for full in (full for node in ast.walk(tree_of(path)) for full in imported(node)):
            package = full.partition(".")[0]
            if package in sys.stdlib_module_names or package in {"roomlore", "_typeshed"}:
                continue
            if not path.relative_to(SRC).as_posix().startswith(HOMES.get(package, "nowhere")):
                strays.append(f"{shown(path)} imports {package}")

    assert not strays


@pytest.mark.slow
def test_every_home_is_lived_in() -> None:
    packages = {
        full.partition(".")[0] for p in sources() for n in ast.walk(tree_of(p)) for full in imported(n)
    }

    assert set(HOMES) <= packages


# Sizes and names


def test_modules_are_short() -> None:
    lines = {shown(path): len(path.read_text(encoding="utf-8").splitlines()) for path in sources()}

    assert {name: count for name, count in lines.items() if count > LONGEST_MODULE} == {}


@pytest.mark.slow
def test_functions_are_short() -> None:
    lengths = {
        f"{shown(path)}:{function.name}": length(function)
        for path in sources()
        for function in functions(path)
    }

    assert {name: count for name, count in lengths.items() if count > LONGEST_FUNCTION} == {}
    assert quantiles(lengths.values(), n=10)[-1] <= USUAL_FUNCTION


def test_names_of_modules_say_what_is_in_them() -> None:
    stems = {shown(path): path.stem for path in SRC.rglob("*") if path.is_dir() or path.suffix == ".py"}

    assert {name for name, stem in stems.items() if stem in SHAPELESS} == set()


# Docstrings


def public_without_docstring(node: ast.Module | ast.ClassDef, where: str) -> Iterator[str]:
    if ast.get_docstring(node) is None:
        yield where
    for child in node.body:
        if isinstance(child, Function | ast.ClassDef) and not child.name.startswith("_"):
            if any(isinstance(one, ast.Name) and one.id == "overload" for one in child.decorator_list):
                continue  # described by what it stands before
            inner = f"{where}.{child.name}"
            if isinstance(child, ast.ClassDef):
                yield from public_without_docstring(child, inner)
            elif ast.get_docstring(child) is None:
                yield inner


@pytest.mark.slow
def test_whatever_is_public_has_a_docstring() -> None:
    bare = [
        where for path in sources() for where in public_without_docstring(tree_of(path), module_name(path))
    ]

    assert bare == []


# What stands nowhere


def docstrings(tree: ast.Module) -> set[ast.expr]:
    """Return the nodes of docstrings: prose, which may speak of selecting from things."""
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef | Function)]
    return {body[0].value for body in bodies if body and isinstance(body[0], ast.Expr)}


def literals(tree: ast.Module) -> Iterator[tuple[int, str]]:
    prose = docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in prose:
            yield node.lineno, node.value


@pytest.mark.slow
def test_sql_stands_in_the_store_only() -> None:
    found = [
        f"{shown(path)}:{line}: {text[:60]}"
        for path in sources()
        if path.relative_to(SRC).parts[0] != "db"
        for line, text in literals(tree_of(path))
        if SQL.match(text)
    ]

    assert found == []


@pytest.mark.parametrize(
    "text", ["select id\nfrom rooms", "INSERT INTO rooms values (1)", "drop table rooms", "set local x = '1'"]
)
def test_sql_is_recognised(text: str) -> None:
    assert SQL.match(text)


@pytest.mark.parametrize("look", [REGISTRIES, MACHINE_PATHS], ids=["registry host", "machine path"])
def test_no_file_names_where_it_was_made(look: re.Pattern[str]) -> None:
    assert found_in_files(look) == []


@pytest.mark.parametrize(
    ("look", "text"),
    [(REGISTRIES, "https://pypi" + ".org/simple"), (MACHINE_PATHS, "cd /home" + "/ana/roomlore")],
)
def test_where_it_was_made_is_recognised(look: re.Pattern[str], text: str) -> None:
    assert look.search(text)


def test_written_files_are_looked_at() -> None:
    looked_at = {shown(path) for path in written_files()}

    assert {
        "README.md",
        "pyproject.toml",
        "docs/conf.py",
        "src/roomlore/operations/__init__.py",
        ".ci/run",
    } <= looked_at


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("[a-z]*.py")), ids=lambda path: path.stem)
def test_a_benchmark_starts(path: Path) -> None:
    # Those that others import have no options; Python then runs to their end.
    words = [sys.executable, "-m", f"benchmarks.{path.stem}", "--help"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# Releases


def test_the_version_is_that_of_the_newest_changelog_entry() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)

    assert headings[0] == project["version"]


def test_changelog_entries_stand_newest_first() -> None:
    headings = re.findall(
        r"^## \[([\d.]+)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    versions = [tuple(int(part) for part in heading.split(".")) for heading in headings]

    assert versions
    assert all(newer > older for newer, older in pairwise(versions))
