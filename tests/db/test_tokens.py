"""Token vectors: stored beside the vector, out of its way, seen by whoever sees the message, and gone with it."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import numpy as np
import psycopg
import pytest

from ingest.stories import at, author, message, room
from jobs.test_embed import QUICK
from roomlore.db import search
from roomlore.domain.ids import MessageId
from roomlore.domain.incoming import IncomingMembership
from roomlore.domain.ports import TextEmbeddings
from roomlore.domain.records import Viewer
from roomlore.domain.vectors import TokenVectors
from roomlore.jobs import runner
from roomlore.jobs.embedding import EmbeddingWorker
from roomlore.models.fake import FakeEmbedder
from roomlore.operations import App

OpenApp = Callable[[str], Awaitable[App]]

MODEL = FakeEmbedder().model_id
LONG = " ".join(f"word{number}" for number in range(200))


class Tokenless(FakeEmbedder):
    """The same model without token vectors."""

    @property
    def has_token_vectors(self) -> bool:
        return False

    def embed_with_tokens(self, texts) -> TextEmbeddings:
        return replace(super().embed_with_tokens(texts), tokens=None)


async def ids_of(admin: psycopg.AsyncConnection, app: App) -> dict[str, MessageId]:
    rows = await admin.execute("select external_id, id from messages where org_id = %s", [app.org_id])
    return dict(await rows.fetchall())


async def seen(app: App, admin: psycopg.AsyncConnection, viewer: Viewer) -> dict[str, TokenVectors]:
    """What a viewer is given of all token vectors, by external id."""
    ids = await ids_of(admin, app)
    async with app.db.read_transaction(viewer) as conn:
        found = await search.token_vectors(conn, MODEL, list(ids.values()))
    return {external: found[id_] for external, id_ in ids.items() if id_ in found}


async def drain(app: App, embedder: FakeEmbedder) -> int:
    done = await runner.drain(
        EmbeddingWorker(db=app.db, embedder=embedder), only_org=app.org_id, policy=QUICK
    )
    return done.done


async def test_tokens_come_back_as_they_were_read(app: App, admin):
    bodies = {"1": "hm", "2": "the tent leaks", "3": LONG, "4": "?!"}
    await app.ingest_batch([message(key, body, author=author("bo")) for key, body in bodies.items()])
    await app.drain()
    found = await seen(app, admin, app.operator)
    assert found.keys() == bodies.keys()
    for key, body in bodies.items():
        expected = FakeEmbedder().embed_with_tokens([f"Bo: {body}"]).tokens
        assert expected is not None
        assert np.array_equal(found[key], expected[0])


async def test_of_another_model_nothing_comes_back(app: App, admin):
    await app.ingest(message("1", "the tent leaks"))
    await app.drain()
    async with app.db.read_transaction(app.operator) as conn:
        assert await search.token_vectors(conn, "another", list((await ids_of(admin, app)).values())) == {}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("words", [1, 25, 200])
async def test_tokens_lie_outside_the_rows_that_are_scanned(app: App, admin, words: int):
    body = " ".join(f"word{number}" for number in range(words))
    await app.ingest_batch([message(str(number), body) for number in range(40)])
    await app.drain()
    assert len(next(iter((await seen(app, admin, app.operator)).values()))) == min(words + 1, 128)
    # A page has 8 kB: nine rows of a vector each, or three that hold their tokens too. The place of a row in its page
    # also counts rows of other tests, and rows that were written twice.
    places = await admin.execute(
        "select max((ctid::text::point)[1]) from message_embeddings where org_id = %s", [app.org_id]
    )
    assert (await places.fetchone())[0] >= 8


async def test_vectors_without_tokens_are_made_anew_once_there_are_tokens_to_have(app: App, admin):
    await app.ingest_batch([message("1", "the tent leaks"), message("2", "who packed it?")])
    assert await drain(app, Tokenless()) == 2
    assert await seen(app, admin, app.operator) == {}
    assert await drain(app, Tokenless()) == 0
    assert await drain(app, FakeEmbedder()) == 2
    assert (await seen(app, admin, app.operator)).keys() == {"1", "2"}
    assert await drain(app, FakeEmbedder()) == 0
    # A model that has none to give leaves what is there.
    assert await drain(app, Tokenless()) == 0
    assert (await seen(app, admin, app.operator)).keys() == {"1", "2"}


GOINGS: dict[str, Callable[[App], Awaitable[object]]] = {
    "edit": lambda app: app.ingest(message("1", "pears", author=author("bo"), edited_at=at(50))),
    "redaction": lambda app: app.erasure.redact("1"),
    "erasure": lambda app: app.erasure.message("1"),
    "erasure of a stretch": lambda app: app.erasure.range("general", since=at(1), until=at(2)),
    "erasure of a person": lambda app: app.erasure.person("bo"),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("going", GOINGS.values(), ids=GOINGS)
async def test_tokens_go_with_what_was_said(app: App, admin, going: Callable[[App], Awaitable[object]]):
    await app.ingest_batch([message("1", "apples", author=author("bo")), message("2", "plums")])
    await app.drain()
    assert (await seen(app, admin, app.operator)).keys() == {"1", "2"}
    await going(app)
    assert (await seen(app, admin, app.operator)).keys() == {"2"}
    assert all(receipt.is_clean for receipt in await app.erasure.receipts())


async def test_tokens_of_answers_go_where_a_room_embeds_exchanges_and_come_back(app: App, admin):
    await app.ingest_batch([message("1", "where is the tent?"), message("2", "in the attic", reply_to="1")])
    await app.drain()
    await app.monitoring.set_embedding_policy("general", "thread")
    assert (await seen(app, admin, app.operator)).keys() == {"1"}
    await app.monitoring.set_embedding_policy("general", "message")
    await app.drain()
    assert (await seen(app, admin, app.operator)).keys() == {"1", "2"}


async def test_nobody_is_given_tokens_of_what_they_may_not_read(app: App, admin, open_app: OpenApp):
    ana, bo = author("ana"), author("bo")
    closed = room("closed", visibility="members", members=(IncomingMembership(author=ana),))
    await app.ingest_batch(
        [
            message("1", "for all", author=bo),
            message("2", "for members", room=closed, author=ana),
            message("3", "for one", kind="whisper", author=ana),
        ]
    )
    await app.drain()
    assert (await seen(app, admin, await app.viewer("ana"))).keys() == {"1", "2", "3"}
    assert (await seen(app, admin, await app.viewer("bo"))).keys() == {"1"}
    other = await open_app("other")
    ids = list((await ids_of(admin, app)).values())
    async with app.db.read_transaction(other.operator) as conn:
        assert await search.token_vectors(conn, MODEL, ids) == {}
