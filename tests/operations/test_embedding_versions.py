"""Embedding models behind addresses, by name: lazily asked, missed without harm, and their keys in nothing that is shown."""

import json
import logging
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ingest.stories import message
from jobs.copying import Shelf
from models.embeddingserver import EmbeddingServer, Reply, embedding_server, embeddings
from roomlore.domain.errors import BadInput, ModelUnavailable
from roomlore.models.fake import FakeEmbedder
from roomlore.operations import App, projection_service
from roomlore.operations.embedding_models import BACKOFF_SECONDS, ModelCache
from roomlore.settings import EmbeddingSettings, QdrantSettings, Settings, from_environment

KEY = "sesame-opens-nothing"
SHUT: Reply = (401, {}, b"{}")


def short(asked: dict[str, Any]) -> Reply:
    return embeddings(FakeEmbedder(32).embed(asked["input"]).tolist())


@pytest.fixture(name="server")
def _server() -> Generator[EmbeddingServer]:
    with embedding_server() as found:
        yield found


def named(folder: Path, **entries: object) -> dict[str, str]:
    """Return an environment that names embedding models."""
    file = folder / "embeddings.json"
    file.write_text(json.dumps(entries))
    return {"ROOMLORE_EMBEDDINGS": str(file), "TINY_KEY": KEY}


def opened(app: App, settings: Settings, **fields: Any) -> App:
    return App(db=app.db, org_id=app.org_id, settings=settings, **fields)


async def held(admin: Any, app: App) -> str:
    rows = await admin.execute(
        "select string_agg(to_jsonb(g)::text, ' ') from embedding_versions g where org_id = %s", [app.org_id]
    )
    return str(await rows.fetchall())


# What settings may say


def test_models_are_named_in_a_file_and_their_keys_in_the_environment(tmp_path):
    env = named(
        tmp_path,
        tiny={"url": "http://127.0.0.1:9/v1", "model": "tiny", "key_from": "TINY_KEY", "dimensions": 32},
        local={"folder": "/srv/model"},
    )
    settings = from_environment(env)
    assert settings.embeddings == {
        "tiny": EmbeddingSettings(url="http://127.0.0.1:9/v1", name="tiny", key=KEY, dimensions=32),
        "local": Path("/srv/model"),
    }
    assert KEY not in repr(settings) + repr(settings.embeddings)


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ({"default": {"folder": "x"}}, "choose another"),
        ({"a b": {"folder": "x"}}, "must be called by"),
        ({"tiny": {"folder": ""}}, "must be {"),
        ({"tiny": []}, "must be {"),
        ({"tiny": {"url": "http://h/v1"}}, "must be {"),
        ({"tiny": {"url": "http://h/v1", "model": "m", "key": "k"}}, "must be {"),
        ({"tiny": {"url": "http://h/v1", "model": "m", "dimensions": True}}, "must be {"),
        ({"tiny": {"url": "ftp://h", "model": "m"}}, "must be like https://host/v1"),
        ({"tiny": {"url": "http://h/v1", "model": "m", "key_from": "NO_SUCH"}}, "come from NO_SUCH"),
        ({"tiny": {"url": "http://h/v1", "model": "m", "key_from": KEY}}, "name of an environment variable"),
    ],
)
def test_a_model_that_cannot_work_is_refused_by_its_name_with_the_reason(tmp_path, entries, why):
    with pytest.raises(BadInput, match=why) as refused:
        from_environment(named(tmp_path, **entries))
    assert next(iter(entries)) in str(refused.value)
    assert KEY not in str(refused.value)


# Behind an address


async def test_an_org_is_switched_to_a_model_behind_an_address(
    app: App, admin, server: EmbeddingServer, caplog: pytest.LogCaptureFixture, *, tmp_path
):
    caplog.set_level(logging.DEBUG)
    server.says = short
    env = named(tmp_path, tiny={"url": server.url, "model": "tiny", "key_from": "TINY_KEY"})
    tiny = opened(app, from_environment(env), _embedder=FakeEmbedder())
    await tiny.ingest_batch([message("1", "apples are red"), message("2", "pears are green")])
    await tiny.drain()

    await tiny.embedding_versions.switch("tiny")
    await tiny.drain()

    current, previous = await tiny.embedding_versions.status()
    assert (current.provider, current.model, current.dimensions, current.done) == ("tiny", "http/tiny", 32, 2)
    assert previous.provider == "default"
    assert (await tiny.search(tiny.operator, "red apples")).hits[0].best.external_id == "1"
    assert server.heads[0]["authorization"] == f"Bearer {KEY}"
    assert KEY not in repr(tiny.settings) + await held(admin, tiny) + caplog.text + repr(current)


@pytest.mark.slow
async def test_whoever_starts_while_the_model_is_away_works_and_says_so(app: App, server, caplog):
    server.says = lambda _: SHUT
    settings = Settings(embedding=EmbeddingSettings(url=server.url, name="tiny", key=KEY))
    alone = opened(app, settings)
    await alone.ingest(message("1", "apples are red"))

    drained = await alone.drain()

    assert drained.disentangled == 1
    assert len(drained.unembedded) == 1
    assert (await alone.waiting()).waiting == 1
    found = await alone.search(alone.operator, "apples")
    assert (found.hits[0].best.external_id, found.degraded) == ("1", ("no embedding model",))
    server.says = short
    again = opened(app, settings)
    assert (await again.drain()).unembedded == []
    assert (await again.search(again.operator, "apples")).degraded == ()
    assert KEY not in caplog.text + str(drained)


@pytest.mark.slow
async def test_a_server_that_failed_is_not_asked_by_every_question(app: App, server):
    seconds = [0.0]
    server.says = short
    settings = Settings(embedding=EmbeddingSettings(url=server.url, name="tiny"))
    one = opened(app, settings, _model_cache=ModelCache(clock=lambda: seconds[0]))
    await one.ingest(message("1", "apples are red"))
    await one.drain()
    server.says = lambda _: SHUT
    assert (await one.search(one.operator, "apples")).degraded == ("no embedding model",)
    asked = len(server.asked)
    assert (await one.search(one.operator, "apples")).degraded == ("no embedding model",)
    assert len(server.asked) == asked
    server.says = short
    seconds[0] += BACKOFF_SECONDS
    assert (await one.search(one.operator, "apples")).degraded == ()


async def test_a_switch_to_a_model_that_is_away_is_refused_and_begins_nothing(
    app: App, admin, server, tmp_path
):
    server.says = lambda _: SHUT
    env = named(tmp_path, tiny={"url": server.url, "model": "tiny", "key_from": "TINY_KEY"})
    tiny = opened(app, from_environment(env), _embedder=FakeEmbedder())
    with pytest.raises(ModelUnavailable) as refused:
        await tiny.embedding_versions.switch("tiny")
    assert KEY not in str(refused.value)
    assert await held(admin, tiny) == "[(None,)]"


@pytest.mark.slow
async def test_a_model_that_this_process_does_not_know_stops_nobody(app: App, server, tmp_path):
    server.says = short
    env = named(tmp_path, tiny={"url": server.url, "model": "tiny"})
    tiny = opened(app, from_environment(env), _embedder=FakeEmbedder())
    await tiny.ingest(message("1", "apples are red"))
    await tiny.drain()
    await tiny.embedding_versions.switch("tiny")
    await tiny.drain()
    await app.ingest(message("2", "pears are green"))

    drained = await app.drain()

    assert drained.unembedded == ["tiny: no embedding model is called 'tiny' here"]
    assert (await app.search(app.operator, "pears")).degraded == ("no embedding model",)
    assert (await app.embedding_versions.status())[0].error == "no embedding model is called 'tiny' here"


@pytest.mark.slow
async def test_an_org_leaves_a_model_that_is_called_nothing_any_more(app: App, server, tmp_path):
    server.says = short
    env = named(tmp_path, tiny={"url": server.url, "model": "tiny"})
    tiny = opened(app, from_environment(env), _embedder=FakeEmbedder())
    await tiny.ingest(message("1", "apples are red"))
    await tiny.drain()
    await tiny.embedding_versions.switch("tiny")
    await tiny.drain()

    await app.embedding_versions.switch("default")
    await app.drain()

    assert [(one.state, one.provider) for one in await app.embedding_versions.status()] == [
        ("current", "default"),
        ("previous", "tiny"),
    ]


# Copies


class Other(FakeEmbedder):
    """Another model with vectors as long."""

    @property
    def model_id(self) -> str:
        return f"other-{self.dimensions}"


def copied_to_a_shelf(app: App, monkeypatch: pytest.MonkeyPatch) -> tuple[App, Shelf]:
    """Return an org that has two models, and where its copies are."""
    shelf = Shelf()
    monkeypatch.setattr(projection_service, "open_projection", lambda _settings, _target: shelf)
    settings = replace(app.settings, qdrant=QdrantSettings(url="http://127.0.0.1:9"))
    copied = opened(
        app, settings, _embedder=FakeEmbedder(), _model_cache=ModelCache(provided={"other": Other()})
    )
    return copied, shelf


@pytest.mark.slow
async def test_after_a_switch_the_copy_is_built_anew_with_the_new_vectors(
    app: App, monkeypatch: pytest.MonkeyPatch
):
    copied, shelf = copied_to_a_shelf(app, monkeypatch)
    await copied.ingest_batch([message("1", "apples are red"), message("2", "pears are green")])
    await copied.drain()
    await copied.projections.rebuild("qdrant")
    await copied.embedding_versions.switch("other")
    assert (await copied.projections.status())[0].model == "fake-hash-384"

    await copied.drain()

    [status] = await copied.projections.status()
    assert (status.is_ready, status.is_building, status.model) == (True, False, "other-384")
    assert (await copied.projections.diff("qdrant")).count == 0
    await copied.embedding_versions.back()
    await copied.drain()
    assert (await copied.projections.status())[0].model == "fake-hash-384"
    assert len(shelf.held_copies) == 1


async def test_a_copy_that_is_dropped_while_another_one_is_made_ready_does_not_come_back(
    app: App, monkeypatch: pytest.MonkeyPatch
):
    copied, shelf = copied_to_a_shelf(app, monkeypatch)
    await copied.ingest(message("1", "apples are red"))
    await copied.drain()
    await copied.projections.rebuild("qdrant")
    await copied.embedding_versions.switch("other")
    prepare = shelf.prepare

    async def prepare_while_it_is_dropped(copy: str, *, dimensions: int) -> None:
        monkeypatch.setattr(shelf, "prepare", prepare)
        await copied.projections.drop("qdrant")
        await prepare(copy, dimensions=dimensions)

    monkeypatch.setattr(shelf, "prepare", prepare_while_it_is_dropped)

    await copied.drain()

    assert await copied.projections.status() == []
    assert shelf.held_copies == {}
