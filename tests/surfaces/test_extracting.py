"""Drawing memories on demand, and what a language model was asked, on the command line."""

import asyncio
import json

import pytest

from roomlore.db.cluster import start_cluster
from surfaces.test_cli import refused, roomlore

SAID = [
    ("1", "mira", "I live in Porto.", None),
    ("2", "teo", "oh nice", "1"),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data directory whose server stays up for the module, with one small room in the org "village"."""
    folder = tmp_path_factory.mktemp("extracting")
    server = asyncio.run(start_cluster(folder))
    export = folder / "village.jsonl"
    head = {"schema": "roomlore.message/1", "platform": "p", "room": "square"}
    lines = [
        head
        | {"id": number, "author": {"id": who, "name": who.title(), "kind": "human"}, "text": text}
        | {"sent_at": f"2026-01-01T10:0{number}:00Z"}
        | ({} if parent is None else {"reply_to": parent})
        for number, who, text, parent in SAID
    ]
    export.write_text("\n".join(map(json.dumps, lines)))
    done = roomlore("--data", folder, "--org", "village", "import", export, "--no-embed")
    assert done.returncode == 0, done.stderr
    yield folder
    asyncio.run(server.close())


def village(data, *args):
    return roomlore("--data", data, "--org", "village", *args)


def test_memories_are_drawn_on_demand_and_once(data):
    first, again = (json.loads(village(data, "--json", "extract", "square").stdout) for _ in range(2))
    assert (first["conversations"], first["messages"]) == (1, 2)
    assert (again["conversations"], again["added"], again["released"]) == (1, 0, 0)
    told = village(data, "--text", "extract", "message:1").stdout
    assert told.strip() == "1 conversation, 2 messages: 0 memories added, 0 let go"
    [memory] = json.loads(village(data, "--json", "memories").stdout)
    assert memory["content"] == "Mira lives in Porto."
    assert json.loads(village(data, "--json", "ops").stdout)["counts"]["extracted"]["done"] == 2


def test_a_conversation_is_closed(data):
    village(data, "extract")
    closed = village(data, "--json", "conversation", "close", "message:1")
    assert json.loads(closed.stdout)["is_open"] is False


def test_what_was_asked_is_told_where_something_was(data):
    assert json.loads(village(data, "--json", "readings").stdout) == []
    assert village(data, "--text", "readings").stdout.strip() == "no readings"


@pytest.mark.parametrize(
    "args",
    [
        ("extract", "nowhere"),
        ("readings", "nowhere"),
        ("conversation", "close", "nowhere"),
        ("--as", "mira", "extract"),
        ("--as", "mira", "readings"),
    ],
)
def test_what_is_not_there_or_not_for_everybody_is_refused_in_a_line(data, args):
    refused(village(data, *args), 1)
