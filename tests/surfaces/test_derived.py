"""Verbs take their arguments, options, limits and help from the signatures of operations."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, TypedDict, Unpack

import click
import pytest
from msgspec import Meta

from roomlore.cli import derived
from roomlore.cli.commands import VERBS
from roomlore.cli.derived import DerivedCommand
from roomlore.cli.main import cli
from roomlore.domain.records import Viewer


class Details(TypedDict, total=False):
    """Details.

    Attributes:
        tags: One of
            the tags.
        since: Only later ones.
    """

    tags: Sequence[str]
    since: datetime | None


class Service:
    """A service."""

    async def find(  # noqa: PLR0913  one of each type
        self,
        viewer: Viewer,
        room: str,
        words: str | None = None,
        *,
        kind: Literal["a", "b"] = "a",
        limit: Annotated[int, Meta(ge=1, le=9)] = 5,
        share: Annotated[float, Meta(ge=0, le=1)] | None = None,
        lasts: timedelta | None = None,
        metadata: Mapping[str, Any] | None = None,
        exact: bool = False,
        **details: Unpack[Details],
    ) -> None:
        """Find.

        Args:
            exact: Only whole words.
            kind: Which kind.
        """


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> DerivedCommand:
    monkeypatch.setattr(derived, "import_module", lambda _: type("module", (), {"Service": Service}))
    monkeypatch.setattr(derived, "SERVICES", {"service": "module:Service"})
    return DerivedCommand("find", operation="service.find", callback=lambda **given: given)


def run(command: DerivedCommand, *words: str) -> dict[str, Any]:
    return command.main(list(words), standalone_mode=False)


def test_arguments_and_options_have_the_types_of_the_signature(command: DerivedCommand) -> None:
    words = ["hall", "key", "--kind", "b", "--limit", "9", "--share", "0.5", "--lasts", "2d", "--exact"]
    words += ["--metadata", '{"a": 1}', "--tag", "x", "--tag", "y", "--since", "2026-01-31"]

    assert run(command, *words) == {
        "room": "hall",
        "words": "key",
        "kind": "b",
        "limit": 9,
        "share": 0.5,
        "lasts": timedelta(days=2),
        "exact": True,
        "metadata": {"a": 1},
        "tags": ("x", "y"),
        "since": datetime(2026, 1, 31, tzinfo=UTC),
    }
    assert derived.given_arguments(run(command, "hall")) == {"room": "hall", "kind": "a", "limit": 5}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "Missing parameter: room"),
        (["hall", "--limit", "0"], "0 is not in the range 1<=x<=9"),
        (["hall", "--limit", "10"], "10 is not in the range"),
        (["hall", "--share", "1.1"], "1.1 is not in the range"),
        (["hall", "--kind", "c"], "'c' is not one of 'a', 'b'"),
        (["hall", "--lasts", "soon"], "'soon' is not a span of time"),
        (["hall", "--since", "soon"], "'soon' does not match"),
        (["hall", "--metadata", "[]"], "must be a JSON object"),
        (["hall", "--viewer", "ana"], "No such option"),
    ],
)
def test_arguments_outside_the_limits_are_refused(
    command: DerivedCommand, words: list[str], reason: str
) -> None:
    with pytest.raises(click.UsageError, match=reason.replace("<=", ".=")):
        run(command, *words)


def test_help_comes_from_the_docstrings(command: DerivedCommand) -> None:
    text = " ".join(command.get_help(click.Context(command, info_name="find")).split())

    assert text.startswith("Usage: find [OPTIONS] ROOM [WORDS]")
    for part in (
        "--kind [a|b] Which kind. [default: a]",
        "--limit INTEGER RANGE How many at most. [default: 5; 1<=x<=9]",
        "--exact Only whole words.",
        "--tag TAG One of the tags. Repeatable.",
        "--since TIME Only later ones.",
    ):
        assert part in text


def every_command() -> dict[str, click.Command]:
    root = click.Context(cli, info_name="roomlore")
    found: dict[str, click.Command] = {}
    for name in VERBS:
        verb = cli.get_command(root, name)
        assert verb is not None
        found[name] = verb
        for inner, command in getattr(verb, "commands", {}).items():
            found[f"{name} {inner}"] = command
    return found


def test_every_verb_explains_itself_and_each_of_its_options() -> None:
    for name, command in every_command().items():
        context = click.Context(command, info_name=name)
        assert len(command.get_help(context).splitlines()) > 4
        for param in command.get_params(context):
            assert isinstance(param, click.Argument) or getattr(param, "help", ""), (name, param.name)
