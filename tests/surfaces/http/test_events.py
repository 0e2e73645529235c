"""Events over HTTP: to whoever may see them, without end, and without being in anybody's way."""

import asyncio
from uuid import UUID

import pytest

from operations.village import ANA, ATTIC, BO, CY, SQUARE, say
from roomlore.db import outbox
from roomlore.http.limits import RequestLimits
from roomlore.http.routes import events as routes
from roomlore.operations import events
from surfaces.http.conftest import Serve, Served
from surfaces.http.streaming import listening, subjects


async def test_an_event_is_told_as_it_happens_with_what_it_takes_to_go_on(served: Served) -> None:
    eve = await served.principal("eve")
    async with listening(served.api, eve.key) as heard:
        said = await served.app.ingest(say(20, BO, SQUARE))
        told = await heard.next()

    assert told is not None
    assert told.kind == "message.added"
    assert set(told.data) == {"id", "kind", "room", "subjects", "at"}
    assert subjects(told) == {said}
    assert heard.status == 200
    assert heard.headers["content-type"].startswith("text/event-stream")
    assert heard.headers["x-accel-buffering"] == "no"
    assert heard.headers["cache-control"] == "no-store"
    assert "content-length" not in heard.headers


async def test_it_goes_on_after_the_event_that_is_named(served: Served) -> None:
    bo = await served.principal("bo")
    async with listening(served.api, bo.key) as heard:
        said = [await served.app.ingest(say(number, BO, SQUARE)) for number in range(20, 24)]
        told = [await heard.next() for _ in said]
    first, third = told[0], told[2]
    assert first is not None
    assert third is not None

    async with listening(served.api, bo.key, last_event_id=first.id) as heard:
        assert [await heard.next() for _ in range(3)] == told[1:]
    async with listening(served.api, bo.key, f"/v1/events?after={first.id}") as heard:
        assert [await heard.next() for _ in range(3)] == told[1:]
    # A reader that comes again asks the same address: what it heard last counts.
    async with listening(served.api, bo.key, f"/v1/events?after={first.id}", last_event_id=third.id) as heard:
        assert await heard.next() == told[3]


async def test_a_place_that_is_none_is_refused(served: Served) -> None:
    for word in ["x", "6f1d2c3e-5a4b-4c6d-8e9f-0a1b2c3d4e5f", "é", "0" * 101]:
        for given in ({"headers": {"last-event-id": word.encode()}}, {"params": {"after": word}}):
            response = await served.operator("GET", "/v1/events", **given)
            assert response.status_code == 400


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("fields", "where", "detected_by"),
    [
        ({}, ATTIC, {"ana", "bo"}),
        ({"kind": "whisper", "audience": (ANA,)}, SQUARE, {"ana", "bo"}),
        ({"kind": "whisper", "audience": (CY,)}, ATTIC, {"bo", "cy"}),
        ({}, SQUARE, {"ana", "bo", "cy", "eve"}),
    ],
)
async def test_whoever_may_not_see_it_hears_nothing_of_it(served: Served, fields, where, detected_by) -> None:
    found = set[str]()
    for who in ("ana", "bo", "cy", "eve"):
        caller = await served.principal(who)
        async with listening(served.api, caller.key) as heard:
            secret = await served.app.ingest(say(len(found) + 200 + ord(who[0]), BO, where, **fields))
            await served.app.ingest(say(len(found) + 400 + ord(who[0]), BO, SQUARE))
            if secret in subjects(await heard.next()):
                found.add(who)
        # Nor does it change anything that nobody was told: there is no gap, and no other number of lines.
        assert heard.sent <= 4
    assert found == detected_by


async def test_an_operator_listens_as_somebody_else(served: Served) -> None:
    async with listening(served.api, served.operator.key, roomlore_viewer="eve") as heard:
        await served.app.ingest(say(20, BO, ATTIC))
        said = await served.app.ingest(say(21, BO, SQUARE))
        assert subjects(await heard.next()) == {said}
    eve = await served.principal("eve")
    async with listening(served.api, eve.key, roomlore_viewer="bo") as heard:
        assert heard.status == 403


async def test_an_event_of_others_is_as_one_that_is_not_there(served: Served) -> None:
    bo, eve = await served.principal("bo"), await served.principal("eve")
    async with listening(served.api, bo.key) as heard:
        await served.app.ingest(say(20, BO, SQUARE, kind="whisper", audience=(ANA,)))
        hidden = await heard.next()
    assert hidden is not None
    for number in (21, 22):
        await served.app.ingest(say(number, BO, SQUARE))
    made_up = str(UUID(int=UUID(hidden.id).int ^ 1))

    answers: list[list[object]] = []
    for word in (hidden.id, made_up):
        async with listening(served.api, eve.key, last_event_id=word) as heard:
            answers.append([heard.status, await heard.next(), await heard.next()])
    assert answers[0] == answers[1]


async def test_a_key_that_is_revoked_ends_the_stream_before_anything_more_is_told(
    served: Served,
) -> None:
    made = await served.app.keys.create("member", name="eve's", participant="eve")
    async with listening(served.api, made.key) as heard:
        assert await heard.lines() == b"retry: 2000"
        await served.app.keys.revoke(str(made.id))
        await served.app.ingest(say(20, BO, SQUARE))
        assert await heard.next() is None
    async with listening(served.api, made.key) as heard:
        assert heard.status == 401


async def test_a_key_that_is_revoked_while_changes_are_read_ends_the_stream(
    served: Served, monkeypatch
) -> None:
    made = await served.app.keys.create("member", name="eve's", participant="eve")
    read_after = outbox.read_after

    async def read_late(*args, **kwargs):
        await served.app.keys.revoke(str(made.id))
        await served.app.ingest(say(20, BO, SQUARE))
        return await read_after(*args, **kwargs)

    async with listening(served.api, made.key) as heard:
        monkeypatch.setattr(outbox, "read_after", read_late)
        assert await heard.lines() == b"retry: 2000"
        assert await heard.next() is None


async def test_a_key_that_is_revoked_ends_the_stream_though_nothing_happens(
    served: Served, monkeypatch
) -> None:
    monkeypatch.setattr(events, "POLL_SECONDS", 0.05)
    made = await served.app.keys.create("member", name="eve's", participant="eve")
    async with listening(served.api, made.key) as heard:
        await served.app.keys.revoke(str(made.id))
        assert await heard.next() is None


async def test_without_a_key_there_are_no_events(served: Served) -> None:
    async with listening(served.api, None) as heard:
        assert heard.status == 401


async def test_silence_is_broken_by_comments(served: Served, monkeypatch) -> None:
    monkeypatch.setattr(routes, "HEARTBEAT", 0.01)
    async with listening(served.api, served.operator.key) as heard:
        assert [await heard.lines() for _ in range(3)] == [b"retry: 2000", b":", b":"]


async def test_streams_end_at_once_when_the_process_does(served: Served) -> None:
    async with listening(served.api, served.operator.key) as heard:
        assert await heard.lines() == b"retry: 2000"
        served.api.state.stop.set()
        assert await heard.next() is None


async def test_streams_have_places_of_their_own(app, serve: Serve) -> None:
    served = await serve(
        app, RequestLimits(in_flight=2, streams=3, max_streams_per_key=2, rate=10_000, burst=10_000)
    )
    other = (await app.keys.create("operator", name="other")).key
    key = served.operator.key
    async with listening(served.api, key), listening(served.api, key):
        async with listening(served.api, key) as third:
            assert (third.status, third.headers["retry-after"]) == (429, "1")
        async with listening(served.api, other) as one:
            assert one.status == 200
            async with listening(served.api, other) as full:
                assert full.status == 503
        # None of it is in the way of what is asked besides.
        await served.operator.get("/v1/rooms")
    async with listening(served.api, key) as again:
        assert again.status == 200


@pytest.mark.slow
async def test_more_streams_than_connections_keep_nobody_waiting(app, serve: Serve) -> None:
    # So many keys that nobody has seen, at once and from one place, look like guesses.
    served = await serve(app, RequestLimits(rate=10_000, burst=10_000, failed_auth_burst=100))
    async with asyncio.TaskGroup() as group:
        ready, go = asyncio.Semaphore(0), asyncio.Event()

        async def listen(number: int) -> None:
            key = (await served.app.keys.create("operator", name=f"{number}")).key
            async with listening(served.api, key) as heard:
                ready.release()
                told = await heard.next()
                assert told is not None
                await go.wait()

        for number in range(40):
            group.create_task(listen(number))
        for _ in range(40):
            await ready.acquire()
        await asyncio.gather(*(served.operator.get("/v1/rooms") for _ in range(20)))
        await served.app.ingest(say(20, BO, SQUARE))
        go.set()


@pytest.mark.slow
async def test_a_reader_that_takes_nothing_in_is_held_up_alone_and_then_cut_off(
    served: Served, monkeypatch
) -> None:
    monkeypatch.setattr(routes, "PATIENCE", 0.5)
    async with listening(served.api, served.operator.key) as slow:
        assert await slow.lines() == b"retry: 2000"
        slow.takes.clear()
        for number in range(20, 40):
            await served.app.ingest(say(number, BO, SQUARE))
        # Nothing is read ahead for it: one line waits to be taken.
        assert slow.sent == 1
        async with listening(served.api, served.operator.key) as quick:
            said = await served.app.ingest(say(50, BO, SQUARE))
            assert subjects(await quick.next()) == {said}
        ended = await asyncio.wait_for(slow.ended.wait(), 20)
        assert ended
