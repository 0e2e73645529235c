"""A change whose answer is lost on the way is done once, and told as if it had not been lost."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from client.conftest import Village
from operations.village import ANA, SQUARE, say
from roomlore.client import Client, Server
from roomlore.client.application import sign_in
from roomlore.client.transport import Transport
from roomlore.domain.errors import Conflict, ServerUnavailable


class Leaky(httpx2.AsyncHTTPTransport):
    """Loses the first answer to each change, which the server has done."""

    def __init__(self) -> None:
        super().__init__()
        self.lost: set[str] = set()
        self.replayed = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        key = request.headers.get("idempotency-key")
        self.replayed += "idempotency-replayed" in response.headers
        if key is not None and key not in self.lost:
            await response.aclose()
            self.lost.add(key)
            raise httpx2.ReadError("lost")
        return response


async def at_once(_: float) -> None:
    """Wait for nothing."""


@asynccontextmanager
async def leaky(village: Village) -> AsyncGenerator[tuple[Client, Leaky]]:
    """Give a client of an operator's from which answers are lost."""
    transport, key = Leaky(), await village.key("operator")
    async with httpx2.AsyncClient(transport=transport) as http:
        yield (
            await sign_in(Transport(Server(address=village.address, key=key), http, sleep=at_once), key),
            transport,
        )


async def test_what_is_said_is_stored_once(both: Village) -> None:
    async with leaky(both) as (app, transport):
        accepted = await app.ingest_batch([say(60, ANA, SQUARE)])
        taken = await app.intake.add_messages(
            [{"room": "a", "id": "1", "author": "x", "text": "y", "sent_at": "2026-01-01T00:00:00Z"}]
        )

    assert [key[1] for key in accepted.added] == ["m60"]
    assert taken.added == 1
    assert transport.replayed == 2


async def test_a_memory_is_told_as_it_stands(both: Village) -> None:
    async with leaky(both) as (app, transport):
        kept = await app.memories.remember("Bo eats no nuts.", sources=["m1"])
        right = await app.memories.correct(str(kept.id), "Bo eats no cashews.")
        gone = await app.memories.archive(str(right.id))
        back = await app.memories.restore(str(right.id))

    assert (right.content, gone.status, back.status) == ("Bo eats no cashews.", "archived", "active")
    assert transport.replayed == 4
    found = await both.app.memories.all(both.app.operator, statuses=["active", "deprecated", "archived"])
    assert {one.id for one in found} == {kept.id, right.id}


async def test_a_conversation_is_told_as_it_stands(both: Village) -> None:
    async with leaky(both) as (app, transport):
        made = await app.conversations.split(["m4"], "The roof")
        named = await app.conversations.rename(str(made.id), "The whole roof")

    assert (named.id, named.label) == (made.id, "The whole roof")
    assert transport.replayed == 2


async def test_receipts_rooms_and_edits_are_told_again(both: Village) -> None:
    async with leaky(both) as (app, transport):
        receipt = await app.erasure.message("m1")
        edited = await app.intake.edit("m2", "Something else.")
        await app.agents.set_injection("square", on=False)
        room = (await app.erasure.set_retention("attic", None)).room_id

    assert receipt.is_clean
    assert [one.id for one in await both.app.erasure.receipts()] == [receipt.id]
    assert edited in {one.id for one in await both.app.messages(both.app.operator, "square")}
    assert room in {one.id for one in await both.app.rooms(both.app.operator)}
    assert transport.replayed == 4


async def test_a_secret_is_told_once_or_not_at_all(both: Village) -> None:
    async with leaky(both) as (app, _):
        with pytest.raises(Conflict, match="it succeeded"):
            await app.keys.create("member", name="phone", participant="bo")

    assert len([key for key in await both.app.keys.all() if key.name == "phone"]) == 1


async def test_what_was_never_begun_is_done(both: Village) -> None:
    class Deaf(httpx2.AsyncHTTPTransport):
        calls = 0

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            self.calls += request.method == "POST"
            if request.method == "POST" and self.calls < 3:
                raise httpx2.ConnectError("nobody there")
            return await super().handle_async_request(request)

    key = await both.key("operator")
    async with httpx2.AsyncClient(transport=Deaf()) as http:
        app = await sign_in(Transport(Server(address=both.address, key=key), http, sleep=at_once), key)
        accepted = await app.ingest_batch([say(61, ANA, SQUARE)])

    assert len(accepted.added) == 1


async def test_a_line_that_is_never_mended_is_told(both: Village) -> None:
    calls: list[Any] = []

    class Broken(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            response = await super().handle_async_request(request)
            if request.method != "POST":
                return response
            calls.append(request.headers["idempotency-key"])
            await response.aclose()
            raise httpx2.ReadError("lost")

    key = await both.key("operator")
    async with httpx2.AsyncClient(transport=Broken()) as http:
        app = await sign_in(Transport(Server(address=both.address, key=key), http, sleep=at_once), key)
        with pytest.raises(ServerUnavailable):
            await app.ingest_batch([say(62, ANA, SQUARE)])

    assert len(calls) == 4
    assert len(set(calls)) == 1
    assert "m62" in {one.external_id for one in await both.app.messages(both.app.operator, "square")}
