"""Events, listened to here and over a socket: the same ones, for whom they are, and none lost where a line is cut."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import httpx2
import pytest

from client.conftest import Village
from client.test_wire import KEY, ORG, Stub, problem
from operations.village import ANA, ATTIC, BO, CELLAR, CY, SQUARE, error_of, say
from roomlore.client import Rooms
from roomlore.client.protocols import Events
from roomlore.db import outbox
from roomlore.domain.errors import BadInput, KeyRefused, NotAllowed, NotFound, ServerUnavailable
from roomlore.domain.ids import uuid7
from roomlore.domain.records import Viewer
from roomlore.operations.events import Event

WITHIN = 60


async def take(events: AsyncIterator[Event], number: int, kind: str = "message.added") -> list[Event]:
    """Return so many events of a kind."""
    found: list[Event] = []
    async with asyncio.timeout(WITHIN):
        while len(found) < number:
            event = await anext(events)
            found += [event] if event.kind == kind else []
    return found


async def begun(
    events: Events, village: Village, stack: AsyncExitStack, *, kind: str = "message.added"
) -> asyncio.Task[list[Event]]:
    """Return who listens for one event; they do when this returns."""
    await stack.enter_async_context(aclosing(events))
    before = await lines(village)
    task = asyncio.create_task(take(events, 1, kind))
    async with asyncio.timeout(WITHIN):
        while await lines(village) == before:  # noqa: ASYNC110  a line in the log is waited for
            await asyncio.sleep(0)
    return task


async def clock(village: Village) -> datetime:
    """Return the second that it is in the database."""
    async with village.app.db.read_transaction(village.app.operator) as conn:
        cursor = await conn.execute("select date_trunc('second', clock_timestamp())")
        [(second,)] = await cursor.fetchall()
    return second


async def lines(village: Village) -> int:
    return sum(one.action == "read events" for one in await village.app.log(village.app.operator, limit=1000))


def viewer(app: Rooms) -> Viewer:
    return app.principal


async def test_what_is_said_is_told_to_those_who_may_hear_it(village: Village) -> None:
    ana, eve = await village("ana"), await village("eve")
    async with AsyncExitStack() as stack:
        hers = await begun(ana.events(viewer(ana)), village, stack)
        theirs = await begun(eve.events(viewer(eve)), village, stack)
        secret = await village.app.ingest(say(50, BO, ATTIC))
        known = await village.app.ingest(say(51, BO, SQUARE))
        (attic,), (square,) = await hers, await theirs

    assert (list(attic.subjects), attic.kind) == ([secret], "message.added")
    assert list(square.subjects) == [known]
    assert isinstance(square.id, UUID)


async def test_a_stream_is_gone_on_with_after_an_event(village: Village) -> None:
    app = await village("operator")
    async with AsyncExitStack() as stack:
        first = await begun(app.events(app.operator, room="attic"), village, stack)
        await village.app.ingest(say(52, BO, ATTIC))
        (event,) = await first
    ids = [await village.app.ingest(say(number, BO, ATTIC)) for number in (53, 54)]
    await village.app.ingest(say(55, CY, CELLAR))
    events = app.events(app.operator, room="attic", after=str(event.id))
    found = await take(events, 2)

    assert [list(one.subjects) for one in found] == [[ids[0]], [ids[1]]]
    assert event.id < found[0].id < found[1].id
    await events.aclose()


@pytest.mark.slow
async def test_a_stream_begun_beside_a_slow_transaction_is_told_of_it(village: Village) -> None:
    app, go, noted = await village("operator"), asyncio.Event(), asyncio.Event()

    async def slowly(conn: Any) -> None:
        said = (await village.app.messages(village.app.operator, "square"))[0]
        await outbox.append(conn, village.app.org_id, "message.revised", [said.id])
        noted.set()
        await go.wait()

    slow = asyncio.create_task(village.app.db.change(village.app.org_id, slowly))
    await asyncio.wait_for(noted.wait(), WITHIN)
    second = await clock(village)
    while await clock(village) == second:  # noqa: ASYNC110  a client knows of a server's time the second alone
        await asyncio.sleep(0.05)
    async with AsyncExitStack() as stack:
        events = app.events(app.operator)
        task = await begun(events, village, stack, kind="message.revised")
        go.set()
        await slow
        await village.app.ingest(say(60, BO, SQUARE))
        [event] = await task

    assert event.kind == "message.revised"


async def test_a_stream_that_is_closed_is_over_for_whoever_comes_then(village: Village) -> None:
    app = await village("operator")
    events = app.events(app.operator)
    await events.aclose()

    with pytest.raises(StopAsyncIteration):
        await asyncio.wait_for(anext(events), WITHIN)
    await events.aclose()


async def test_whoever_waits_in_a_stream_here_is_told_that_it_was_closed(both: Village) -> None:
    events = both.app.events(both.app.operator)
    async with AsyncExitStack() as stack:
        waiting = await begun(events, both, stack)
        await events.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(events)
        with pytest.raises((StopAsyncIteration, RuntimeError)):
            await asyncio.wait_for(waiting, WITHIN)


REFUSED = {
    "no place": (lambda app: app.events(app.principal, after="x"), BadInput),
    "hidden room": (lambda app: app.events(app.principal, room="cellar"), NotFound),
    "another's eyes": (lambda app: app.events(app.operator), NotAllowed),
}


@pytest.mark.parametrize("what", list(REFUSED))
async def test_what_is_wrong_is_told_by_the_first_step_in_the_same_words(both: Village, what) -> None:
    call, kind = REFUSED[what]
    told = [await error_of(anext(call(app))) for app in (await both.here("bo"), await both.there("bo"))]

    assert told[0] == told[1]
    assert told[0][0] is kind


@pytest.mark.slow
async def test_a_key_that_is_revoked_ends_the_stream(village: Village) -> None:
    app = await village("operator")
    made = await app.keys.create("member", name="bo's", participant="bo")
    bo = await app.sign_in(made.key)
    async with AsyncExitStack() as stack:
        listening = await begun(bo.events(viewer(bo)), village, stack)
        await app.keys.revoke(str(made.id))
        await village.app.ingest(say(56, ANA, SQUARE))
        with pytest.raises(KeyRefused):
            await listening


# Lines that are cut


def lines_of(*events: Event, retry: int | None = None) -> bytes:
    told = b"" if retry is None else b"retry: %d\n\n" % retry
    for event in events:
        data = f'{{"id":"{event.id}","kind":"{event.kind}","room":null,"subjects":[],"at":"{event.at.isoformat()}"}}'
        told += f"id: {event.id}\r\nevent: {event.kind}\r\n: still there\r\ndata: {data}\r\n\r\n".encode()
    return told


def event() -> Event:
    from datetime import UTC, datetime  # noqa: PLC0415

    return Event(id=uuid7(), kind="message.added", room=None, subjects=[], at=datetime.now(UTC))


def told(*events: Event, **rest: Any) -> httpx2.Response:
    headers = {"content-type": "text/event-stream", "date": rest.pop("date", "Mon, 23 Nov 2020 03:00:00 GMT")}
    return httpx2.Response(200, content=lines_of(*events, **rest) + rest.get("tail", b""), headers=headers)


async def heard(stub: Stub, number: int, **rest: Any) -> list[Event]:
    client = await stub.client()
    async with aclosing(client.events(client.operator, **rest)) as events:
        return [await anext(events) for _ in range(number)]


async def test_a_stream_that_is_cut_goes_on_after_the_last_event_and_tells_none_twice() -> None:
    one, two, three = event(), event(), event()
    lost = problem(503, "overloaded", "come again")
    stub = Stub(told(one, retry=3000), httpx2.ConnectError("x"), lost, told(one, two, two), told(three))

    assert [found.id for found in await heard(stub, 3)] == [one.id, two.id, three.id]
    after = [dict(asked.url.params).get("after") for asked in stub.asked]
    assert after == [None, str(one.id), str(one.id), str(one.id), str(two.id)]
    assert min(stub.slept) >= 3.0


async def test_what_happens_before_the_first_event_of_a_stream_that_is_cut_is_not_missed() -> None:
    one = event()
    stub = Stub(told(date="Mon, 23 Nov 2020 03:00:00 GMT"), told(one))

    assert [found.id for found in await heard(stub, 1)] == [one.id]
    after = UUID(dict(stub.asked[1].url.params)["after"])
    assert after.version == 7
    assert after.int >> 80 == 1606100400000


async def test_half_an_event_is_none() -> None:
    one, two = event(), event()
    half = lines_of(two)[:-4]
    cut = httpx2.Response(200, content=lines_of(one) + half, headers={"content-type": "text/event-stream"})
    stub = Stub(cut, told(two))

    assert [found.id for found in await heard(stub, 2)] == [one.id, two.id]
    assert dict(stub.asked[1].url.params)["after"] == str(one.id)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (problem(401, "key-refused", "x"), KeyRefused),
        (problem(404, "not-found", "no room 'a'", {"what": "room", "key": "a"}), NotFound),
        (httpx2.Response(404, text="<html>"), ServerUnavailable),
        (httpx2.Response(200, content=b"data: {}\n\n", headers={"content-type": "text/event-stream"}), ServerUnavailable),
    ],
)  # fmt: skip
async def test_what_is_refused_is_not_asked_again(answer, error) -> None:
    stub = Stub(answer)
    with pytest.raises(error):
        await heard(stub, 1)

    assert len(stub.asked) == 1


async def test_a_server_that_never_was_there_is_not_waited_for_long() -> None:
    stub = Stub(*[httpx2.ConnectError("x")] * 20)
    with pytest.raises(ServerUnavailable):
        await heard(stub, 1)

    assert len(stub.asked) == 4


async def test_a_server_that_does_not_come_back_is_told() -> None:
    stub = Stub(told(), *[httpx2.ConnectError("x")] * 40)
    with pytest.raises(ServerUnavailable, match="no server answers"):
        await heard(stub, 1)

    assert 100 < sum(stub.slept) < 600


@pytest.mark.parametrize("end", [b"", b"\n\n"])
async def test_an_event_that_is_too_large_is_told_at_once_and_not_asked_for_again(end) -> None:
    content = b"data: " + b"x" * (5 * 1024 * 1024) + end
    stub = Stub(httpx2.Response(200, content=content, headers={"content-type": "text/event-stream"}))
    with pytest.raises(ServerUnavailable, match="start without `after`"):
        await heard(stub, 1)

    assert len(stub.asked) == 1


async def test_an_event_that_was_noted_before_the_stream_began_is_told() -> None:
    one = event()
    later = (one.at + timedelta(seconds=5)).strftime("%a, %d %b %Y %H:%M:%S GMT")

    assert [found.id for found in await heard(Stub(told(one, date=later)), 1)] == [one.id]
    assert [found.id for found in await heard(Stub(told(date=later), told(one)), 1)] == [one.id]


async def test_a_server_that_is_full_is_left_alone_for_as_long_as_it_wants() -> None:
    full = problem(429, "overloaded", "come again", **{"retry-after": "77"})
    stub = Stub(told(), full, told(event()))
    await heard(stub, 1)
    assert [one for one in stub.slept if one >= 77] == [77.0]

    closed = problem(503, "overloaded", "come again", **{"retry-after": "86400"})
    with pytest.raises(ServerUnavailable):
        await heard(Stub(closed), 1)


async def test_what_is_no_stream_is_none_of_ours() -> None:
    stub = Stub(httpx2.Response(200, text="<html>sign in to the hotel's network"))
    with pytest.raises(ServerUnavailable, match="not as Roomlore does"):
        await heard(stub, 1)


async def test_the_viewer_is_named_as_everywhere() -> None:
    stub = Stub(told(event()))
    client = await stub.client()
    async with aclosing(client.events(Viewer(org_id=ORG, participant_id=ORG), room="a")) as events:  # type: ignore[arg-type]
        await anext(events)

    assert stub.asked[0].headers["roomlore-viewer"] == str(ORG)
    assert stub.asked[0].headers["authorization"] == f"Bearer {KEY}"
    assert dict(stub.asked[0].url.params) == {"room": "a"}
