"""What agents remember and whom they met, on the command line."""

import asyncio
import json

import pytest

from roomlore.db.cluster import start_cluster
from surfaces.test_cli import refused, roomlore

SAID = [
    ("1", "mira", "human", "which driver does the attic printer need?", None),
    ("2", "pip", "agent", "it needs toner-blue 4.2, the installer is on the shelf drive", "1"),
    ("3", "teo", "human", "agreed, toner-blue", "2"),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data directory whose server stays up for the module, with one small room in the org "village"."""
    folder = tmp_path_factory.mktemp("agents")
    server = asyncio.run(start_cluster(folder))
    export = folder / "village.jsonl"
    head = {"schema": "roomlore.message/1", "platform": "p", "room": "square"}
    lines = [
        head
        | {"id": number, "author": {"id": who, "name": who.title(), "kind": kind}, "text": text}
        | {"sent_at": f"2026-01-01T10:0{number}:00Z"}
        | ({} if parent is None else {"reply_to": parent})
        for number, who, kind, text, parent in SAID
    ]
    export.write_text("\n".join(map(json.dumps, lines)))
    done = roomlore("--data", folder, "--org", "village", "import", export)
    assert done.returncode == 0, done.stderr
    done = roomlore(
        *("--data", folder, "--org", "village", "--as", "pip", "remember", "Printers want the blue toner"),
        *("--kind", "insight", "--from", "2", "--tag", "printer"),
    )
    assert done.returncode == 0, done.stderr
    yield folder
    asyncio.run(server.close())


def village(data, *args):
    return roomlore("--data", data, "--org", "village", *args)


def read(data, *args):
    done = village(data, "--json", *args)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_memories_of_an_agent_are_listed(data):
    [memory] = read(data, "agents", "memories", "pip", "--tag", "printer")
    assert memory["content"] == "Printers want the blue toner"
    assert read(data, "agents", "memories", "pip", "--kind", "observation") == []
    by_kind = read(data, "agents", "experiences", "pip", "--topic", "toner")
    assert [one["content"] for one in by_kind["insight"]] == ["Printers want the blue toner"]
    assert "insights" in village(data, "--text", "agents", "experiences", "pip").stdout


def test_whom_an_agent_met_comes_with_reasons(data):
    found = read(data, "agents", "relationships", "pip")
    assert {one["name"] for one in found} == {"Mira", "Teo"}
    text = village(data, "--text", "agents", "relationships", "pip", "--with", "mira").stdout
    assert "Mira" in text
    assert "1 conversation, 2 answers between them" in text or "1 conversation, 1 answer between them" in text
    refused(village(data, "--as", "mira", "agents", "relationships", "pip"), 1, "not allowed")


def test_a_block_is_printed_and_explained(data):
    text = village(data, "--text", "agents", "block", "pip", "square", "--explain").stdout
    assert "[What Pip remembers]" in text
    assert "among the insights that weigh most" in text
    block = read(data, "agents", "block", "pip", "square", "--topic", "tea", "--with", "teo")
    assert block["tokens"] <= block["budget"] == 1000
    assert "k1" in block["citations"]
    refused(village(data, "agents", "block", "mira", "square"), 1, "Mira: is no agent")
    refused(village(data, "--as", "mira", "agents", "block", "pip", "square"), 1, "not allowed")
    own = village(data, "--text", "--as", "pip", "agents", "block", "pip", "square")
    assert "[What Pip remembers]" in own.stdout


def test_a_context_for_an_agent_begins_with_its_block(data):
    context = read(data, "--as", "pip", "context", "square", "--explain")
    assert context["text"].startswith("[What Pip remembers]")
    assert "k1" in context["memories"]
    assert (
        "memory: among the insights"
        in village(data, "--text", "--as", "pip", "context", "square", "--explain").stdout
    )
    assert "memories" not in read(data, "context", "square")


def test_whether_to_answer_is_decided_with_a_reason(data):
    decision = read(data, "agents", "decide", "pip", "square", "--at", "1")
    assert decision.keys() == {"answer", "score", "why"}
    assert (decision["answer"], decision["why"]["what"]) == (False, "somebody answered it")
    text = village(data, "--text", "agents", "decide", "pip", "square").stdout
    assert text.startswith("yes  1.00  it is said to the agent\n      message ")
    refused(village(data, "agents", "decide", "mira", "square"), 1, "Mira: is no agent")
    refused(village(data, "--as", "mira", "agents", "decide", "pip", "square"), 1, "not allowed")
    refused(village(data, "agents", "decide", "pip", "nowhere"), 1, "nowhere")


def test_an_answer_is_noted_and_remembered_by_the_worker(data):
    done = village(data, "agents", "note-reply", "pip", "square", "1", "2")
    assert done.returncode == 0, done.stderr
    assert village(data, "worker", "--drain").returncode == 0
    [memory] = read(data, "agents", "memories", "pip", "--kind", "interaction")
    assert "toner-blue" in memory["content"]
    assert memory["importance"] == round(memory["importance"], 1)
    refused(village(data, "agents", "note-reply", "pip", "square", "2", "1"), 1, "agent's own")


def test_rooms_are_compacted_and_injecting_is_switched(data):
    assert read(data, "agents", "compact", "square")["compacted_at"]
    assert village(data, "agents", "inject", "square", "off").returncode == 0
    refused(village(data, "--as", "pip", "agents", "inject", "square", "on"), 1, "another key")
