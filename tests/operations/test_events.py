"""What has changed is told to those who may see it: once, in order, nothing passed by, and without trace to all others."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import psycopg
import pytest

from operations.village import (
    ANA,
    ATTIC,
    BO,
    CELLAR,
    CY,
    EVE,
    SQUARE,
    STORY,
    error_of,
    log_lines,
    say,
    village,
)
from roomlore.db import disentanglement, outbox
from roomlore.db.outbox import Cursor
from roomlore.domain.errors import BadInput, KeyRefused, NotAllowed, NotFound
from roomlore.domain.ids import uuid7
from roomlore.jobs.expiry import expire_everywhere
from roomlore.operations import App
from roomlore.operations import events as module
from roomlore.operations.events import Event, EventStream

#: Long enough for whatever comes.
SOON = 20


async def listen(app: App, who: str | None = None, **where: str | None) -> EventStream:
    """Return a stream that has begun."""
    viewer = app.operator if who is None else await app.viewer(who)
    stream = app.events(viewer, **where)
    await stream.start()
    return stream


async def next_of(stream: EventStream, count: int = 1) -> list[Event]:
    async with asyncio.timeout(SOON):
        return [await anext(stream) for _ in range(count)]


async def told(stream: EventStream, app: App, *, number: int = 999) -> list[Event]:
    """Return what a stream tells before it tells what is said in the square now."""
    last = await app.ingest(say(number, BO, SQUARE))
    found: list[Event] = []
    while not found or last not in found[-1].subjects:
        found += await next_of(stream)
    return found[:-1]


def kinds(found: Sequence[Event]) -> list[str]:
    return [one.kind for one in found]


async def test_what_is_said_is_told_as_it_is_said(app: App) -> None:
    stream = await listen(await village(app))
    waiting = asyncio.create_task(next_of(stream))

    said = await app.ingest(say(20, BO, SQUARE))

    [event] = await waiting
    room = next(room.id for room in await app.rooms(app.operator) if room.name == "square")
    assert (event.kind, event.room, event.subjects) == ("message.added", room, [said])
    assert abs(datetime.now(UTC) - event.at) < timedelta(minutes=1)
    assert event.id.version == 7


async def test_saying_it_again_changes_nothing(app: App) -> None:
    stream = await listen(await village(app))

    await app.ingest(say(1, BO, SQUARE))

    assert await told(stream, app) == []


async def test_one_transaction_tells_of_each_room_and_kind_once(app: App) -> None:
    await village(app)
    stream = await listen(app)

    await app.ingest_batch([say(20, BO, SQUARE), say(21, BO, ATTIC), say(22, CY, SQUARE)])

    found = await told(stream, app)
    assert kinds(found) == ["message.added"] * 2
    assert sorted(len(one.subjects) for one in found) == [1, 2]


async def test_edits_redactions_and_erasures_are_told(app: App) -> None:
    await village(app)
    stream = await listen(app, "bo")

    edited = await app.intake.edit("m1", "another village")
    redacted = await app.erasure.redact("m2")
    await app.erasure.message("m3")
    [erased] = [one.id for one in await app.messages(app.operator, "square") if one.erased_at]

    found = [one for one in await told(stream, app) if one.kind.startswith("message")]
    assert [(one.kind, list(one.subjects)) for one in found] == [
        ("message.revised", [edited]),
        ("message.redacted", [redacted]),
        ("message.erased", [erased]),
    ]


async def test_memories_are_told_as_they_are_kept_and_changed(app: App) -> None:
    await village(app)
    stream = await listen(app, "bo")

    kept = await app.memories.remember("the village has a mill", sources=["m1"])
    await app.memories.archive(str(kept.id))
    await app.memories.restore(str(kept.id))

    found = await told(stream, app)
    assert [(one.kind, list(one.subjects)) for one in found] == [
        ("memory.added", [kept.id]),
        ("memory.changed", [kept.id]),
        ("memory.changed", [kept.id]),
    ]


async def test_conversations_are_told_as_they_change(app: App) -> None:
    await village(app)
    await app.disentangle()
    [one, *_] = await app.conversations.all(app.operator, "square")
    stream = await listen(app, "bo")

    await app.conversations.rename(str(one.id), "the mill")

    [event] = await told(stream, app)
    assert (event.kind, list(event.subjects), event.room) == ("conversation.changed", [one.id], one.room_id)


# Who is told what


@pytest.mark.parametrize(
    ("what", "hearing"),
    [
        (say(30, BO, SQUARE), {"ana", "ana_home", "bo", "cy", "dee", "eve", "pip"}),
        (say(31, BO, ATTIC), {"ana", "bo", "dee"}),
        (say(32, CY, CELLAR), {"ana_home", "cy", "dee"}),
        (say(33, BO, SQUARE, kind="whisper", audience=(ANA,)), {"ana", "bo"}),
        (say(34, BO, ATTIC, kind="whisper", audience=(CY,)), {"bo", "cy"}),
        (say(35, BO, SQUARE, kind="whisper", audience=()), {"bo"}),
    ],
)
async def test_only_who_may_read_it_is_told(app: App, what, hearing) -> None:
    await village(app)
    people = ("ana", "ana_home", "bo", "cy", "dee", "eve", "pip")
    streams = {who: await listen(app, who) for who in people}

    said = await app.ingest(what)

    await app.ingest(say(99, BO, SQUARE))
    first = {who: (await next_of(stream))[0] for who, stream in streams.items()}
    heard = {who for who, event in first.items() if said in event.subjects}
    assert heard == hearing


async def test_of_a_batch_each_is_told_what_they_may_read(app: App) -> None:
    await village(app)
    eve, ana = await listen(app, "eve"), await listen(app, "ana")

    await app.ingest_batch(
        [say(40, BO, SQUARE), say(41, BO, SQUARE, kind="whisper", audience=(ANA,)), say(42, BO, SQUARE)]
    )

    [[less], [more]] = await next_of(eve), await next_of(ana)
    assert len(less.subjects) == 2
    assert len(more.subjects) == 3
    assert set(less.subjects) < set(more.subjects)


async def settled_village(app: App, *, whispers: bool = True) -> App:
    """Tell the story and what is said aloud after it, with or without what is whispered in the square; disentangled."""
    story = [one for one in STORY if whispers or one.external_id != "m10"]
    later = [say(number, EVE if number % 2 else BO, SQUARE) for number in range(13, 17)]
    await app.ingest_batch([*story, *later])
    await app.disentangle()
    return app


async def edit_whisper(app: App) -> None:
    await app.intake.edit("m10", "village quite another whisper, of mills and floods")


async def redact_whisper(app: App) -> None:
    await app.erasure.redact("m10")


async def erase_whisper(app: App) -> None:
    await app.erasure.message("m10")


async def whisper_late(app: App) -> None:
    late = say(11, ANA, SQUARE, kind="whisper", audience=(BO,))
    await app.ingest(replace(late, external_id="late"))


async def whisper_in_answer(app: App) -> None:
    answer = say(12, BO, SQUARE, kind="whisper", audience=(ANA,))
    await app.ingest(replace(answer, external_id="answer", reply_to="m10"))


WHISPERED = [edit_whisper, redact_whisper, erase_whisper, whisper_late, whisper_in_answer]


@pytest.mark.parametrize("whispered", WHISPERED)
async def test_who_hears_no_whisper_is_told_of_no_conversation_for_one(app: App, whispered) -> None:
    await settled_village(app)
    eve, everything = await listen(app, "eve"), await listen(app)

    await whispered(app)
    await app.disentangle()

    assert await told(eve, app) == []
    # It was something that changes.
    assert len(await next_of(everything)) == 1


async def test_untangling_that_changes_nothing_is_not_told(app: App) -> None:
    await settled_village(app)
    stream = await listen(app)
    first = next(one for one in await app.messages(app.operator, "square") if one.external_id == "m1")

    await app.db.change(
        app.org_id, lambda conn: disentanglement.mark_messages_dirty(conn, app.org_id, [first.id])
    )
    await app.disentangle()

    assert await told(stream, app) == []


async def test_conversations_are_told_when_they_get_messages_and_are_called_otherwise(app: App) -> None:
    await settled_village(app)
    stream = await listen(app, "eve")
    await app.ingest(say(17, BO, SQUARE))
    await app.disentangle()
    found = await told(stream, app)
    assert kinds(found) == ["message.added", "conversation.changed"]

    stream = await listen(app, "eve")
    for number in (1, 2, 3, 13, 14, 15, 16, 17):
        await app.intake.edit(f"m{number}", "the baker's oven is on fire, the baker's oven burns")
    await app.disentangle()
    found = await told(stream, app, number=998)
    assert kinds(found)[-1] == "conversation.changed"


async def test_the_events_of_a_village_are_the_same_where_nobody_whispers(app: App, open_app) -> None:
    quiet, streams = await open_app("quiet"), list[EventStream]()
    for org, whispers in ((app, True), (quiet, False)):
        await settled_village(org, whispers=whispers)
        streams.append(await listen(org, "eve"))
        for number, whispered in enumerate((edit_whisper, whisper_late, redact_whisper, erase_whisper), 20):
            if whispers:
                await whispered(org)
                await org.disentangle()
            await org.ingest(say(number, BO if number % 2 else EVE, SQUARE))
            await org.disentangle()

    loud, still = [await told(stream, org) for stream, org in zip(streams, (app, quiet), strict=True)]

    assert [(one.kind, len(one.subjects)) for one in loud] == [(one.kind, len(one.subjects)) for one in still]
    assert len(still) >= 8


async def test_a_whisper_that_goes_from_a_conversation_of_everybody_is_told_to_nobody_in_that(
    app: App,
) -> None:
    await settled_village(app)
    answer = say(17, ANA, SQUARE, kind="whisper", audience=(BO,))
    await app.ingest(replace(answer, external_id="answer", reply_to="m16"))
    await app.disentangle()
    eve = await listen(app, "eve")

    await app.erasure.message("answer")

    assert await told(eve, app) == []


async def test_an_erased_whisper_is_told_to_nobody_and_nowhere(app: App) -> None:
    await village(app)
    streams = {who: await listen(app, who) for who in ("ana", "bo", "eve")}

    await app.erasure.message("m10")

    for number, stream in enumerate(streams.values()):
        assert [one for one in await told(stream, app, number=900 + number) if "erased" in one.kind] == []


async def test_a_memory_of_a_whisper_or_a_sensitive_one_is_told_to_those_alone_whose_it_is(app: App) -> None:
    await village(app)
    eve, bo = await listen(app, "eve"), await listen(app, "bo")

    whispered = await app.memories.remember("ana has a secret mill", sources=["m10"])
    sensitive = await app.memories.remember("the attic village is ill", sources=["m5"], sensitive=True)

    heard = {subject for one in await told(bo, app) for subject in one.subjects}
    overheard = {subject for one in await told(eve, app, number=998) for subject in one.subjects}
    assert heard >= {whispered.id, sensitive.id}
    assert overheard.isdisjoint({whispered.id, sensitive.id})


async def test_what_a_wish_keeps_from_somebody_is_not_told_to_them(app: App) -> None:
    await village(app)
    secret = await app.ingest(
        say(60, ANA, SQUARE, body="village word60: the mill burns. Don't tell Eve about this.")
    )
    [wish] = await app.privacy_requests.all(app.operator)
    await app.privacy_requests.apply(str(wish.id))
    before = (await outbox_of(app))[-1]

    for who, sees in (("bo", True), ("eve", False)):
        stream = await listen(app, who, after=str(uuid7_before(before)))
        assert (secret in {one for event in await told(stream, app) for one in event.subjects}) is sees


async def test_a_viewer_of_another_org_is_refused(app: App, open_app) -> None:
    other = await village(await open_app("other"))
    await village(app)

    assert await error_of(app.events(other.operator).start()) == (
        NotAllowed,
        "not allowed: this viewer is of another org",
    )


async def test_what_happens_in_another_org_is_not_told(app: App, open_app) -> None:
    other = await village(await open_app("other"))
    stream = await listen(await village(app))

    await other.ingest(say(50, BO, SQUARE))

    assert await told(stream, app) == []


# Nothing is passed by, nothing told twice


async def outbox_of(app: App) -> list[outbox.Change]:
    async with app.db.read_transaction(app.operator) as conn:
        return await outbox.read_after(conn, app.org_id, Cursor(), limit=1_000)


def uuid7_before(change: outbox.Change) -> UUID:
    """Return an id that is no event's, from about the same time."""
    return UUID(int=change.id.int ^ 1)


@asynccontextmanager
async def open_change(app: App) -> AsyncGenerator[None]:
    """Keep a transaction with an event open."""
    begun, go = asyncio.Event(), asyncio.Event()

    async def slowly(conn) -> None:
        first = (await app.messages(app.operator, "square"))[0]
        await outbox.append(conn, app.org_id, "message.revised", [first.id])
        begun.set()
        await go.wait()

    slow = asyncio.create_task(app.db.change(app.org_id, slowly))
    await begun.wait()
    yield
    go.set()
    await slow


async def test_a_change_is_not_told_before_a_slower_transaction_that_stands_before_it_is_over(
    app: App,
) -> None:
    await village(app)
    stream = await listen(app)
    async with open_change(app):
        quick = await app.ingest(say(20, BO, SQUARE))
        async with app.db.read_transaction(app.operator) as conn:
            # What is committed is there, and not settled.
            [found] = await outbox.read_after(conn, app.org_id, stream._cursor, limit=10)
            assert (list(found.subject_ids), found.is_settled) == ([quick], False)

    found = await next_of(stream, 2)
    assert kinds(found) == ["message.revised", "message.added"]


async def test_a_stream_that_begins_beside_a_slow_transaction_is_told_of_it_and_of_nothing_older(
    app: App,
) -> None:
    await village(app)
    async with open_change(app):
        await app.ingest(say(20, BO, SQUARE))
        stream = await listen(app)

    assert kinds(await told(stream, app)) == ["message.revised"]


async def test_going_on_by_time_waits_for_a_slower_transaction(app: App) -> None:
    await village(app)
    await app.db.change(app.org_id, lambda conn: outbox.drop_before(conn, app.org_id, UUID(int=2**128 - 1)))
    async with open_change(app):
        await app.ingest(say(20, BO, SQUARE))
        stream = await listen(app, "bo", after=str(uuid7()))

    assert kinds(await told(stream, app)) == ["message.revised", "message.added"]


async def test_what_is_more_than_one_change_holds_is_noted_as_several_and_each_once(
    app: App, monkeypatch
) -> None:
    monkeypatch.setattr(outbox, "MAX_CHANGES", 10)
    await app.ingest_batch([say(number, BO, SQUARE) for number in range(1, 36)])
    said = [one.id for one in await app.messages(app.operator, "square", limit=100)]
    stream = await listen(app)

    async def work(conn) -> None:
        for first in range(0, 35, 3):
            await outbox.append(conn, app.org_id, "message.revised", said[first : first + 5])

    await app.db.change(app.org_id, work)

    for kind in ("message.added", "message.revised"):
        sizes = [len(one.subject_ids) for one in await outbox_of(app) if one.kind == kind]
        named = [each for one in await outbox_of(app) if one.kind == kind for each in one.subject_ids]
        assert sorted(sizes) == [5, 10, 10, 10]
        assert sorted(named) == sorted(said)
    assert kinds(await told(stream, app)) == ["message.revised"] * 4


@pytest.mark.parametrize("whispers", [0, 1, 4, 9, 23])
async def test_how_what_is_noted_is_divided_tells_nothing_of_what_is_not_seen(
    app: App, monkeypatch, whispers: int
) -> None:
    monkeypatch.setattr(outbox, "MAX_CHANGES", 5)
    stream = await listen(await village(app), "eve")
    public = [say(100 + 2 * number, BO, SQUARE) for number in range(13)]
    hushed = [
        say(101 + 2 * number, BO, SQUARE, kind="whisper", audience=(ANA,)) for number in range(whispers)
    ]

    await app.ingest_batch(sorted(public + hushed, key=lambda one: one.sent_at))

    found = await told(stream, app)
    assert [len(one.subjects) for one in found] == [5, 5, 3]
    after = [await listen(app, "eve", after=str(one.id)) for one in found]
    [next_one] = await next_of(after[-1])
    assert next_one.subjects == [await app.ingest(say(999, BO, SQUARE))]
    # Where not all of what was noted together had come, all of it comes again.
    for again in after[:-1]:
        assert await next_of(again, 3) == found


async def test_a_stream_that_goes_on_in_another_room_passes_nothing_by(app: App) -> None:
    await village(app)
    said = {room: (await app.messages(app.operator, room))[0].id for room in ("square", "attic")}
    begun, go = asyncio.Event(), asyncio.Event()

    async def first_to_begin(conn) -> None:
        await conn.execute("select pg_current_xact_id()")
        begun.set()
        await go.wait()
        await outbox.append(conn, app.org_id, "message.revised", [said["square"]])

    async def first_to_note(conn) -> None:
        await outbox.append(conn, app.org_id, "message.revised", [said["attic"]])

    stream = await listen(app)
    slow = asyncio.create_task(app.db.change(app.org_id, first_to_begin))
    await begun.wait()
    await app.db.change(app.org_id, first_to_note)
    go.set()
    await slow

    later, earlier = await next_of(stream, 2)
    assert (later.subjects, earlier.subjects) == ([said["square"]], [said["attic"]])
    assert later.id > earlier.id
    again = await listen(app, room="attic", after=str(later.id))
    assert await next_of(again) == [earlier]


async def test_in_a_read_that_ends_early_no_transaction_is_cut(app: App, monkeypatch) -> None:
    monkeypatch.setattr(outbox, "MAX_CHANGES", 5)
    monkeypatch.setattr(module, "BATCH", 2)
    monkeypatch.setattr(module, "MOST_SUBJECTS", 3)
    stream = await listen(await village(app))
    for first in (100, 200, 300):
        await app.ingest_batch(
            [say(number, BO, room) for room in (SQUARE, CELLAR) for number in range(first, first + 8)]
        )

    found = await told(stream, app)

    assert [len(one.subjects) for one in found] == [5, 3] * 6
    assert len({one.id for one in found}) == 12


async def test_a_stream_goes_on_exactly_after_an_event(app: App) -> None:
    await village(app)
    stream = await listen(app, "bo")
    said = [await app.ingest(say(number, BO, SQUARE)) for number in range(20, 30)]
    whole = await next_of(stream, 10)

    for place in range(9):
        again = await listen(app, "bo", after=str(whole[place].id))
        assert await next_of(again, 9 - place) == whole[place + 1 :]
    assert [list(one.subjects) for one in whole] == [[one] for one in said]


async def test_an_event_that_is_not_seen_is_as_one_that_is_not_there(app: App) -> None:
    await village(app)
    async with open_change(app):
        before = await app.ingest(say(20, BO, SQUARE))
        whispered = await app.ingest(say(21, BO, SQUARE, kind="whisper", audience=(ANA,)))
        async with app.db.read_transaction(app.operator) as conn:
            hidden = (await outbox.read_after(conn, app.org_id, Cursor(), limit=1_000))[-1]
        assert list(hidden.subject_ids) == [whispered]
        later = await app.ingest(say(22, BO, SQUARE))
        words = (str(hidden.id), str(uuid7_before(hidden)))
        streams = [await listen(app, "eve", after=word) for word in words]

    found = [await told(stream, app, number=900 + number) for number, stream in enumerate(streams)]

    # Both go on from a while before it, and the same: all of the village, what was slower, what came before and after.
    assert found[1][: len(found[0])] == found[0]
    assert len(found[1]) == len(found[0]) + 1
    assert kinds(found[0]) == ["message.added", "message.revised", "message.added", "message.added"]
    assert [list(one.subjects) for one in found[0][2:]] == [[before], [later]]


async def test_an_event_whose_messages_are_erased_is_gone_on_from_by_its_time(app: App) -> None:
    await village(app)
    stream = await listen(app, "bo")
    await app.ingest(say(20, BO, SQUARE))
    [event] = await next_of(stream)
    said = await app.ingest(say(21, BO, SQUARE))
    await app.erasure.range("square", since=say(20, BO, SQUARE).sent_at, until=say(21, BO, SQUARE).sent_at)

    again = await listen(app, "bo", after=str(event.id))

    assert said in {one for found in await told(again, app) for one in found.subjects}


@pytest.mark.parametrize(
    "word",
    [
        "",
        "x",
        "last",
        "m1",
        "6f1d2c3e-5a4b-4c6d-8e9f-0a1b2c3d4e5f",
        "00000000-0000-0000-0000-000000000000",
        "0" * 99,
    ],
)
async def test_a_place_that_is_none_is_bad_input(app: App, word) -> None:
    await village(app)
    assert (await error_of(app.events(app.operator, after=word).start()))[0] is BadInput


async def test_a_place_in_the_future_is_now(app: App) -> None:
    await village(app)
    stream = await listen(app, after=str(UUID(int=uuid7().int | (0xFFFF << 112))))

    assert len(await next_of(stream)) == 1


@pytest.mark.slow
async def test_nothing_is_lost_or_doubled_while_many_write_and_the_listener_comes_and_goes(app: App) -> None:
    await village(app)
    said: list[UUID] = []

    async def write(lane: int) -> None:
        for number in range(15):
            one = await app.ingest(say(100 + lane * 100 + number, BO, SQUARE))
            said.append(one)

    stream, heard = await listen(app, "eve"), list[Event]()
    writing = asyncio.gather(*(write(lane) for lane in range(6)))
    while sum(len(one.subjects) for one in heard) < 90:
        heard += await next_of(stream)
        if len(heard) % 7 == 0:
            stream = await listen(app, "eve", after=str(heard[-1].id))
    await writing

    assert sorted(one for event in heard for one in event.subjects) == sorted(said)


async def test_what_nobody_rings_for_is_found_by_looking(app: App, monkeypatch) -> None:
    await village(app)
    monkeypatch.setattr(module.Notifier, "_notify", lambda *_: None)
    monkeypatch.setattr(module, "POLL_SECONDS", 0.05)

    stream = await listen(app)
    said = await app.ingest(say(20, BO, SQUARE))

    assert said in (await next_of(stream))[0].subjects


async def test_many_who_wait_hold_no_connection(app: App) -> None:
    await village(app)
    streams = [await listen(app, "bo") for _ in range(40)]
    waiting = asyncio.gather(*(next_of(stream) for stream in streams))

    said = await app.ingest(say(20, BO, SQUARE))

    assert all(said in event.subjects for [event] in await waiting)


# Rooms, keys, the log


async def test_a_stream_of_one_room_tells_of_that_room(app: App) -> None:
    await village(app)
    stream = await listen(app, "bo", room="square")

    await app.ingest(say(20, BO, ATTIC))

    assert await told(stream, app) == []


async def test_a_room_that_is_not_seen_is_not_there(app: App) -> None:
    await village(app)
    for room in ("attic", "nowhere"):
        assert await error_of(app.events(await app.viewer("eve"), room=room).start()) == (
            NotFound,
            f"no room {room!r}",
        )


async def test_a_key_that_is_revoked_ends_its_stream(app: App, monkeypatch) -> None:
    await village(app)
    monkeypatch.setattr(module, "POLL_SECONDS", 0.05)
    made = await app.keys.create("member", name="eve's", participant="eve")
    let_in = await app.sign_in(made.key)
    stream = let_in.events(let_in.access.principal)
    await stream.start()
    waiting = asyncio.create_task(next_of(stream))

    await app.keys.revoke(str(made.id))
    await app.ingest(say(20, BO, SQUARE))

    with pytest.raises(KeyRefused):
        await waiting


async def test_the_log_has_one_line_of_a_stream(app: App, admin: psycopg.AsyncConnection) -> None:
    await village(app)
    stream = await listen(app, "eve", room="square")
    await told(stream, app)
    await told(stream, app, number=998)

    eve = (await app.viewer("eve")).participant_id
    room = next(room.id for room in await app.rooms(app.operator) if room.name == "square")
    lines = [line for line in await log_lines(admin, app) if line[0] == "read events"]
    assert lines == [("read events", "done", eve, None, [room])]


# What changes beside what was asked for


async def of_kind(app: App, kind: str, stream: EventStream, *, number: int = 999) -> set[UUID]:
    found = await told(stream, app, number=number)
    return {subject for one in found if one.kind == kind for subject in one.subjects}


async def test_a_memory_that_a_conversation_makes_sensitive_is_told(app: App) -> None:
    await settled_village(app)
    kept = await app.memories.remember("the village has a mill", sources=["m1"])
    [one] = {
        one.id for one in await app.conversations.all(app.operator, "square") if one.message_count > 1
    } or {None}
    stream = await listen(app)

    await app.conversations.set_sensitivity(str(one), "sensitive")

    assert await of_kind(app, "memory.changed", stream) == {kept.id}


async def test_words_of_others_without_the_name_of_who_goes_are_told(app: App) -> None:
    await village(app)
    said = await app.ingest(say(20, BO, SQUARE, body="to <@cy> a village", mentions=("cy",)))
    stream = await listen(app, "eve")

    await app.erasure.person("cy")

    assert said in await of_kind(app, "message.revised", stream)


# Gone means gone


async def test_what_is_erased_is_named_in_no_change_but_as_a_hole(app: App) -> None:
    await village(app)
    hole = next(one.id for one in await app.messages(app.operator, "attic") if one.external_id == "m4")
    gone = {one.id for one in await app.messages(app.operator, "square")}
    held = await app.memories.remember("the village has a mill", sources=["m1"])

    await app.erasure.message("m4")
    await app.erasure.range("square")

    named = {one.kind: set(one.subject_ids) for one in await outbox_of(app)}
    assert all(one.subject_ids for one in await outbox_of(app))
    assert not any(ids & (gone | {held.id}) for ids in named.values())
    assert {kind for kind, ids in named.items() if hole in ids} == {"message.erased"}


async def test_a_dry_run_leaves_the_changes_as_they_are(app: App) -> None:
    await village(app)
    before = await outbox_of(app)

    await app.erasure.range("square", dry_run=True)

    assert await outbox_of(app) == before


async def test_changes_are_kept_for_a_while(app: App) -> None:
    await village(app)
    now = datetime.now(UTC)

    await expire_everywhere(app.db, now=now + timedelta(days=29), only_org=app.org_id)
    assert await outbox_of(app)
    await expire_everywhere(app.db, now=now + timedelta(days=31), only_org=app.org_id)
    assert await outbox_of(app) == []


async def test_no_viewer_reads_the_changes_themselves(app: App) -> None:
    await village(app)
    async with app.db.read_transaction(await app.viewer("bo")) as conn:
        assert await outbox.read_after(conn, app.org_id, Cursor(), limit=10) == []
