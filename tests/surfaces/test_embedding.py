"""Choosing an embedding model on the command line."""

import asyncio
import json

import pytest

from models.embeddingserver import embedding_server, embeddings
from roomlore.db.cluster import start_cluster
from roomlore.models.fake import FakeEmbedder
from surfaces.test_cli import refused, roomlore

KEY = "sesame-opens-nothing"


def lengths(asked):
    """Vectors of as many numbers as the name of the model says."""
    return embeddings(FakeEmbedder(int(asked["model"])).embed(asked["input"]).tolist())


@pytest.fixture
def village(tmp_path_factory):
    """A way to run a command line in an org with two messages, whose models are behind an address."""
    folder = tmp_path_factory.mktemp("embedding")
    cluster = asyncio.run(start_cluster(folder))
    with embedding_server() as server:
        server.says = lengths
        file = folder / "embeddings.json"
        file.write_text(json.dumps({"small": {"url": server.url, "model": "32", "key_from": "SMALL_KEY"}}))
        env = {"ROOMLORE_EMBEDDINGS": str(file), "SMALL_KEY": KEY}
        env |= {"ROOMLORE_EMBEDDING_URL": server.url, "ROOMLORE_EMBEDDING_NAME": "64"}

        def run(*words):
            done = roomlore("--data", folder, "--org", "village", *words, **env)
            assert KEY not in done.stdout + done.stderr
            return done

        export = folder / "village.jsonl"
        head = {"schema": "roomlore.message/1", "platform": "p", "room": "square"}
        ana = {"id": "ana", "name": "Ana", "kind": "human"}
        lines = [
            head | {"id": number, "author": ana, "text": text, "sent_at": f"2026-01-01T10:0{number}:00Z"}
            for number, text in (("1", "where is the key?"), ("2", "under the mat"))
        ]
        export.write_text("\n".join(map(json.dumps, lines)))
        assert run("import", export).returncode == 0
        yield run
    asyncio.run(cluster.close())


def held(village):
    return {one["state"]: one for one in json.loads(village("--json", "embed", "status").stdout)}


def test_a_model_is_switched_to_and_left_again(village):
    [line] = village("--text", "embed", "status").stdout.splitlines()[:1]
    assert line.startswith("searched by")
    assert "default (http/64" in line
    assert line.endswith("2 of 2 texts embedded")
    coming = village("--text", "embed", "switch", "small")
    assert "small is coming: 2 texts to be embedded by the worker" in coming.stdout
    assert held(village)["next"]["waiting"] == 2
    assert "given up" in village("--text", "embed", "back").stdout
    done = village("--text", "embed", "switch", "small", "--wait")
    assert done.stdout == "searched by small now\n"
    now = held(village)
    assert (now["current"]["provider"], now["current"]["dimensions"]) == ("small", 32)
    assert now["previous"]["provider"] == "default"
    assert "under the mat" in village("--text", "search", "mat").stdout
    assert village("--text", "embed", "back").stdout == "searched by default now\n"
    assert json.loads(village("--json", "embed", "switch", "default").stdout)["is_done"]


def test_the_worker_makes_the_switch(village):
    village("embed", "switch", "small")
    assert village("worker", "--drain").returncode == 0
    assert held(village)["current"]["provider"] == "small"
    village("embed", "back", "--wait")


def test_a_mistake_is_told_in_one_line(village):
    refused(village("embed", "switch", "large"), 1, "must be one of default, small")
    village("embed", "switch", "small")
    village("embed", "back", "--wait")
    refused(village("--as", "ana", "embed", "status"), 1, "not allowed")
