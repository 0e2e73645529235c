"""Numbers, what a room embeds and history by exchanges on the command line."""

import asyncio
import json
import re

import psycopg
import pytest

from roomlore.db.cluster import start_cluster
from surfaces.test_cli import refused, roomlore

SAID = [
    ("1", "mira", "where is the key?", None),
    ("2", "teo", "under the mat", "1"),
    ("3", "mira", "good morning", None),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data directory whose server stays up for the module, with one small room in the org "village"."""
    folder = tmp_path_factory.mktemp("operations")
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


async def admin_of(folder):
    """Return how a superuser reaches the server of a data directory that is up."""
    server = await start_cluster(folder)
    try:
        return server.admin_dsn
    finally:
        await server.close()


def village(data, *args):
    return roomlore("--data", data, "--org", "village", *args)


def read(data, *args):
    done = village(data, "--json", *args)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_ops_shows_each_room_and_what_waits(data):
    numbers = read(data, "ops")
    [square] = numbers["rooms"]
    assert (square["name"], square["embedding_policy"]) == ("square", "message")
    assert square["counts"]["messages"] == numbers["counts"]["messages"] == 3
    assert square["counts"]["exchange_size"] == 2.0
    assert square["counts"]["embedded"]["waiting"] == 3
    assert square["counts"]["embedded"]["oldest_at"] is not None
    text = village(data, "--text", "ops").stdout
    assert "square" in text
    assert "all rooms" in text
    assert "67%" in text


def test_ops_tells_how_long_a_room_keeps_what_was_said_and_what_is_in_grace(data):
    village(data, "keep", "square", "30d", "--yes")
    told = village(data, "--text", "ops").stdout
    village(data, "keep", "square", "forever")
    assert "square keeps 30 days, from " in told
    assert ", until then forever; 3 messages in grace" in told
    assert "in grace" not in village(data, "--text", "ops").stdout


def test_ops_tells_how_often_memory_blocks_were_shown_again_by_this_process(data):
    assert read(data, "ops")["blocks"] == {"asked": 0, "hits": 0}
    assert (
        "memory blocks: 0 of 0 shown again; each process counts its own"
        in village(data, "--text", "ops").stdout
    )


def test_ops_tells_of_copies_and_of_the_embedding_model(data):
    numbers = read(data, "ops")
    assert (numbers["copies"], numbers["counts"]["projected"]) == ([], [])
    [current] = numbers["embedding"]
    assert (current["state"], current["provider"], current["waiting"]) == ("current", "default", 3)
    text = village(data, "--text", "ops").stdout
    assert "vectors: searched by: default (never reached); 0 of 3 texts embedded; 3 waiting" in text
    with psycopg.connect(asyncio.run(admin_of(data)), autocommit=True) as conn:
        conn.execute(
            "insert into roomlore.projections (org_id, target, copy, failing_since, error)"
            " select org_id, 'qdrant', 'a', '2026-01-01 10:00Z', 'Qdrant cannot be reached' from roomlore.orgs"
            " where name = 'village'"
        )
        conn.execute(
            "insert into roomlore.work (org_id, stage, subject_id) select org_id, 'qdrant', id from roomlore.messages"
        )
        try:
            text = village(data, "--text", "ops").stdout
        finally:
            conn.execute("delete from roomlore.projections")
            conn.execute("delete from roomlore.work where stage = 'qdrant'")
    assert re.search(
        r"copies in qdrant: ready; 3 messages to be written, the oldest for 0:00:\d\d;"
        r" failing since 2026-01-01 10:00:00: Qdrant cannot be reached",
        text,
    )
    assert re.search(r"messages wait in +for qdrant.*square +3", text, re.DOTALL)


def test_ops_shows_how_long_reads_take(data):
    assert village(data, "search", "key", "--room", "square").returncode == 0
    found = read(data, "ops")["latencies"]
    assert [(one["action"], one["format"]) for one in found] == [("search", "message")]
    assert found[0]["p50_ms"] > 0
    assert "p95" in village(data, "--text", "ops").stdout


def test_numbers_and_policies_are_for_operators(data):
    for args in (("ops",), ("embedding", "square", "exchange")):
        refused(village(data, "--as", "mira", *args), 1, "needs another key")


def test_embedding_says_what_a_room_embeds(data):
    said = village(data, "--text", "embedding", "square", "exchange").stdout
    assert "square embeds each exchange: 0 vectors dropped" in said
    assert read(data, "ops")["rooms"][0]["counts"]["vectors_saved"] == 1
    again = read(data, "embedding", "square", "message")
    assert (again["policy"], again["change"]) == ("message", {"dropped": 0, "wanted": 1})
    refused(village(data, "embedding", "nowhere", "message"), 1, "nowhere")
    refused(village(data, "embedding", "square", "nothing"), 2, "exchange")


def test_show_tells_a_room_by_exchanges_the_one_opened_last_first(data):
    told = read(data, "show", "square", "--exchanges")["exchanges"]
    assert [[said["external_id"] for said in one["messages"]] for one in told] == [["3"], ["1", "2"]]
    assert told[1]["opening"] == told[1]["messages"][0]["id"]
    assert told[1]["replies"][0]["method"] == "explicit"
    lines = village(data, "--text", "show", "square", "--exchanges", "--limit", "1", "--before", "3").stdout
    first, second = lines.splitlines()
    assert first.startswith("2026-01-01 10:01 [Mira]: where is the key?")
    assert second.startswith("    10:02 [Teo]: under the mat")


def test_ops_tells_of_messages_that_could_not_be_listened_to(data):
    with psycopg.connect(asyncio.run(admin_of(data)), autocommit=True) as conn:
        conn.execute(
            "insert into roomlore.work (org_id, stage, subject_id, set_aside_at)"
            " select org_id, 'listen', id, case when external_id = '1' then now() end from roomlore.messages"
        )
        try:
            text = village(data, "--text", "ops").stdout
        finally:
            conn.execute("delete from roomlore.work where stage = 'listen'")
    assert "privacy requests: 2 messages still to be listened to, 1 given up" in text
