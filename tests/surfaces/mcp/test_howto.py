"""What the page says of the protocol is so, and all of it is on the page."""

import json
import re
import shlex
from pathlib import Path

import click
import pytest

from roomlore.cli.main import cli
from roomlore.mcp import arguments, prompts, resources, server
from roomlore.mcp.http_transport import PATH
from roomlore.mcp.tools import TOOLS

PAGE = (Path(__file__).parents[3] / "docs" / "howto-mcp.md").read_text(encoding="utf-8")
SNIPPETS = [json.loads(block) for block in re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)]


def first_column(heading: str) -> list[str]:
    table = PAGE.partition(f"| {heading} |")[2].partition("\n\n")[0]
    return re.findall(r"^\| `([^`]+)`", table, re.MULTILINE)


def understood(words: list[str]) -> str:
    """Return the verb of a command line that the command line takes."""
    _, rest, _ = cli.make_parser(click.Context(cli)).parse_args(words)
    verb = cli.get_command(click.Context(cli), rest[0])
    verb.make_parser(click.Context(verb)).parse_args(rest[1:])
    return rest[0]


def test_the_page_has_every_tool_and_no_other() -> None:
    assert first_column("tool") == [tool.name for tool in TOOLS]


def test_the_page_has_every_resource_and_the_prompt_with_its_arguments() -> None:
    assert first_column("resource") == [resources.TIMELINE, resources.MEMORY]
    assert f"The prompt `{prompts.CATCH_UP}`" in PAGE
    assert all(f"`{name}`" in PAGE for name in server.CATCH_UP.model_fields)


def test_the_page_has_the_budgets_as_they_are() -> None:
    assert f"{arguments.DEFAULT_BUDGET:,} tokens" in PAGE
    assert f"({arguments.LEAST_BUDGET} to {arguments.MOST_BUDGET:,})" in PAGE


@pytest.mark.parametrize("snippet", SNIPPETS, ids=range(len(SNIPPETS)))
def test_every_snippet_starts_or_reaches_what_there_is(snippet: dict) -> None:
    servers = snippet.get("mcpServers") or snippet["servers"]
    [(name, server)] = servers.items()

    assert name == "roomlore"
    if "command" in server:
        assert server["command"] == "roomlore"
        assert understood(server["args"]) == "mcp"
    else:
        assert server["url"] == f"http://localhost:7171{PATH}"
        assert server["headers"]["Authorization"].startswith("Bearer ${")


def test_every_command_that_adds_it_names_what_there_is() -> None:
    lines = re.findall(r"^claude mcp add .*$", PAGE, re.MULTILINE)

    [pipes, http] = map(shlex.split, lines)
    assert understood(pipes[pipes.index("--") + 2 :]) == "mcp"
    assert f"http://localhost:7171{PATH}" in http


def test_nothing_a_call_may_say_names_who_reads() -> None:
    said = {name for tool in TOOLS for name in tool.arguments.model_fields}

    assert said.isdisjoint({"viewer", "as", "as_viewer", "org", "org_id", "key", "role"})
