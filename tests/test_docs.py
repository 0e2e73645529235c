"""What the documentation says is so: verbs, variables, words, errors, links, examples."""

import ast
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import click
import pytest

import roomlore
from conftest import OpenApp
from roomlore.cli.main import cli
from roomlore.domain import errors
from roomlore.operations import READERS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md")])
STORY = ROOT / "src" / "roomlore" / "cli" / "demo.jsonl"


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(path: Path, language: str) -> list[str]:
    pattern = rf"^```{language}\n(.*?)^```"
    return re.findall(pattern, path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def command_lines() -> list[tuple[str, str]]:
    return [
        (path.name, line.removeprefix("$ "))
        for path in PAGES
        for block in blocks(path, "console")
        for line in block.splitlines()
        if line.startswith("$ ")
    ]


def table(page: str, heading: str) -> set[str]:
    """Return the words in code type that begin the rows of the first table under a heading."""
    section = read(page).partition(f"{heading}\n")[2].partition("\n## ")[0]
    return set(re.findall(r"^\| `([^`]+)`", section, re.MULTILINE))


# Commands

ROOMLORE_LINES = [
    pytest.param(line, id=f"{page}: {line}")
    for page, line in command_lines()
    if re.match(r"(\.venv/bin/)?roomlore ", line)
]
MAKE_LINES = [
    pytest.param(line, id=f"{page}: {line}") for page, line in command_lines() if line.startswith("make ")
]


def test_there_are_command_lines_to_look_at() -> None:
    assert len(ROOMLORE_LINES) > 10
    assert len(MAKE_LINES) > 3


@pytest.mark.parametrize("line", ROOMLORE_LINES)
def test_every_roomlore_line_of_the_pages_is_understood(line: str) -> None:
    words = shlex.split(line, comments=True)[1:]

    _, rest, _ = cli.make_parser(click.Context(cli)).parse_args(words)
    verb = cli.get_command(click.Context(cli), rest[0])
    assert verb is not None
    _, rest, _ = verb.make_parser(click.Context(verb)).parse_args(rest[1:])
    if isinstance(verb, click.Group) and rest:
        inner = verb.commands[rest[0]]
        inner.make_parser(click.Context(inner)).parse_args(rest[1:])


@pytest.mark.parametrize("line", MAKE_LINES)
def test_every_task_of_the_pages_exists(line: str) -> None:
    tasks = set(re.findall(r"^([a-z-]+):.*##", read("Makefile"), re.MULTILINE))

    # A variable may follow the task.
    assert re.split(r"\s*&&|\s*#", line)[0].removeprefix("make ").split(maxsplit=1)[0] in tasks


def test_the_reference_has_every_verb_and_no_other() -> None:
    assert table("docs/reference.md", "## Command line") == set(cli.list_commands(click.Context(cli)))


def test_the_reference_has_every_global_option() -> None:
    section = read("docs/reference.md")
    options = {option for param in cli.params for option in param.opts if option.startswith("--")}

    assert {option for option in options if f"`{option}" not in section} - {"--version", "--quiet"} == set()


# What can be set, what is read, what goes wrong, what it is called


def test_the_reference_has_every_variable_and_no_other() -> None:
    code = (ROOT / "src" / "roomlore" / "settings.py").read_text(encoding="utf-8")
    strings = {node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant)}
    variables = {
        text for text in strings if isinstance(text, str) and re.fullmatch(r"ROOMLORE_[A-Z0-9_]+", text)
    }

    assert len(variables) > 3
    assert table("docs/reference.md", "## Settings") == variables


def test_the_import_page_has_every_format_and_no_other() -> None:
    assert table("docs/howto-import.md", "# Importing an export") == {reader.name for reader in READERS}


def test_the_reference_has_every_error_and_no_other() -> None:
    raised = {
        name
        for name, thing in vars(errors).items()
        if isinstance(thing, type) and issubclass(thing, errors.RoomloreError)
    }

    assert table("docs/reference.md", "## Errors") == raised
    assert raised <= set(roomlore.__all__)


def test_every_link_to_a_file_leads_somewhere() -> None:
    broken = [
        f"{page.name}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]

    assert broken == []


# Examples

EXAMPLES = [(path, example) for path in PAGES for example in blocks(path, "python")]


def run_example(code: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("path", "example"), EXAMPLES, ids=[f"{path.name} {number}" for number, (path, _) in enumerate(EXAMPLES)]
)
def test_python_examples_compile(path: Path, example: str) -> None:
    compile(example, path.name, "exec")


def test_the_readme_example_is_short() -> None:
    example, bot = blocks(ROOT / "README.md", "python")

    assert len([line for line in bot.splitlines() if line.strip()]) <= 30
    assert len([line for line in example.splitlines() if line.strip()]) <= 8


@pytest.mark.slow
def test_the_readme_example_answers_from_an_export(tmp_path: Path) -> None:
    example, _ = blocks(ROOT / "README.md", "python")
    said = '{"schema": "roomlore.message/1", "room": "general", "id": "1", "author": "mira",'
    said += ' "text": "We release on Friday.", "sent_at": "2026-01-12T08:00:00Z"}\n'
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as export:
        export.writestr("said.jsonl", said)

    assert "[mira]: We release on Friday." in run_example(example, tmp_path)


@pytest.mark.slow
def test_the_quickstart_example_answers_and_cites(tmp_path: Path) -> None:
    (example,) = blocks(DOCS / "quickstart.md", "python")

    printed = run_example(example, tmp_path)

    assert "[Ana]: We are out of flour until Friday. ['1']" in printed


# The story that demo and quickstart tell


async def test_the_story_is_read_whole(open_app: OpenApp) -> None:
    app = await open_app("story")

    report = await app.import_path(STORY)

    assert (report.rooms, report.skipped, report.dangling, report.edits) == (5, (), 0, 1)
    assert report.authors["agent"] >= 3
    assert report.stored is not None
    assert report.stored["revised"] == 1


@pytest.mark.slow
async def test_the_story_keeps_its_secrets(open_app: OpenApp) -> None:
    app = await open_app("story")
    app._embedder = None  # the real one: the story rests on its bar
    await app.import_path(STORY)
    await app.drain()
    gift = "what are we getting Ingrid for her birthday?"
    pay = "what is the starting salary for the new skipper?"

    async def known(viewer: str, question: str) -> bool:
        return (await app.ask(await app.viewer(viewer), question)).is_answered

    assert {name: await known(name, gift) for name in ("hal", "ingrid", "brae")} == {
        "hal": True,
        "ingrid": False,
        "brae": False,
    }
    # Priya joined the room two days after it was said.
    assert {name: await known(name, pay) for name in ("teo", "priya", "hal", "pilot")} == {
        "teo": True,
        "priya": False,
        "hal": False,
        "pilot": False,
    }
    assert await known("brae", "when is berth 3 closed for dredging?")
    assert not await known("teo", "what is the wifi password in the office?")
