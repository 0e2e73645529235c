"""The graph on the command line, as JSON into a pipe and as text."""

import asyncio
import json
from collections.abc import Generator
from pathlib import Path

import pytest

from roomlore.db.cluster import start_cluster
from surfaces.test_cli import refused, roomlore
from surfaces.test_people import Shell

SAID = [
    ("1", "ana", "human", "Who feeds the cat?", None),
    ("2", "pip", "agent", "I did, at nine.", "1"),
    ("3", "bo", "human", "So did I.", "1"),
    ("4", "ana", "human", "Poor cat.", "3"),
]


@pytest.fixture(name="data", scope="module")
def _data(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    """A data directory whose server stays up for the module, with one small room in the org "village"."""
    folder = tmp_path_factory.mktemp("graph")
    server = asyncio.run(start_cluster(folder))
    export = folder / "village.jsonl"
    head = {"schema": "roomlore.message/1", "platform": "p", "room": "square"}
    lines = [
        head
        | {"id": number, "author": {"id": who, "name": who.title(), "kind": kind}, "text": text}
        | {"sent_at": f"2026-01-01T10:0{number}:00Z", **({"reply_to": to} if to else {})}
        for number, who, kind, text, to in SAID
    ]
    export.write_text("\n".join(map(json.dumps, lines)))
    for words in (
        ("import", export),
        ("remember", "Bo likes cats", "--from", "3", "--about", "bo", "--tag", "cats"),
    ):
        done = roomlore("--data", folder, "--org", "village", *words)
        assert done.returncode == 0, done.stderr
    yield folder
    asyncio.run(server.close())


@pytest.fixture(name="shell")
def _shell(data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(data, monkeypatch, capsys)


def test_what_was_said_is_told_by_its_author(shell):
    told = shell.answer("graph", "said-by-bots")
    assert [one["external_id"] for one in told["found"]] == ["2"]
    assert (told["answered_by"], told["degraded"]) == ("postgresql", [])
    assert [one["external_id"] for one in shell.answer("graph", "said-by", "ana")["found"]] == ["4", "1"]
    assert "Poor cat." in shell.village("--text", "graph", "said-by", "ana", "--limit", "1").stdout


def test_talks_are_counted(shell):
    found = shell.answer("--as", "pip", "graph", "talked-to", "ana")["found"]
    assert [(one["name"], one["kind"], one["count"]) for one in found] == [
        ("Bo", "human", 2),
        ("Pip", "agent", 1),
    ]
    assert "replies" in shell.village("--text", "graph", "talked-to", "ana").stdout


def test_what_is_known_and_near_is_told(shell):
    assert [one["content"] for one in shell.answer("graph", "about", "bo")["found"]] == ["Bo likes cats"]
    near = shell.answer("graph", "near", "bo")["found"]
    assert {(one["label"], one["text"]) for one in near} == {
        ("User", "Ana"),
        ("Memory", "Bo likes cats"),
        ("Tag", "cats"),
    }
    assert "Bo likes cats" in shell.village("--text", "graph", "near", "bo").stdout
    for verb in (["known-by-bots"], ["known-by", "ana"]):
        assert shell.answer("graph", *verb)["found"] == []
        assert "nothing found" in shell.village("--text", "graph", *verb).stdout


def test_a_conversation_is_told_by_who_is_present_and_what_bears_on_it(shell):
    present = shell.answer("graph", "present", "message:3")["found"]
    assert "Bo" in {one["name"] for one in present}
    [of_kind] = shell.answer("graph", "for", "message:3")["found"]
    assert (of_kind["kind"], [one["content"] for one in of_kind["memories"]]) == ("fact", ["Bo likes cats"])
    assert "Bo likes cats" in shell.village("--text", "graph", "for", "message:3").stdout
    assert "messages" in shell.village("--text", "graph", "present", "message:3").stdout


def test_nobody_is_refused_in_one_line(shell):
    refused(shell.village("graph", "said-by", "nobody"), 1, "no participant 'nobody'")
    refused(shell.village("graph", "present", "ffff"), 1, "no conversation 'ffff'")
