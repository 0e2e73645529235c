"""Rooms come out the same however they came in, and nothing that a person placed is moved."""

import asyncio
import itertools
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from ingest.stories import MISSING, at, author, message, room
from jobs.rooms import PEOPLE, busy_room, disentangled
from roomlore.conversations.window import WINDOW
from roomlore.db import disentanglement
from roomlore.domain.incoming import IncomingMembership, IncomingMessage
from roomlore.jobs import runner
from roomlore.jobs.disentanglement import DisentanglementWorker
from roomlore.operations import App

Batches = Iterable[Sequence[IncomingMessage]]


async def disentangle(app: App, *, portion: int = 1_000) -> runner.DrainResult:
    return await runner.drain(
        DisentanglementWorker(db=app.db, chunk_size=portion),
        only_org=app.org_id,
        policy=runner.DRAIN_POLICY,
    )


async def come_in(app: App, batches: Batches, *, portion: int = 1_000) -> None:
    for batch in batches:
        assert not (await app.ingest_batch(batch)).skipped
        drained = await disentangle(app, portion=portion)
        assert not drained.dead_lettered


#: Each goes through rooms of its own; make test takes the first two.
SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))]


def cut(
    chance: random.Random, said: Sequence[IncomingMessage], parts: int
) -> list[Sequence[IncomingMessage]]:
    places = sorted({0, len(said), *(chance.randrange(len(said)) for _ in range(parts))})
    return [said[start:end] for start, end in itertools.pairwise(places)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_room_comes_out_the_same_in_whatever_batches_it_came_in(open_app, admin, seed: int):
    chance = random.Random(seed)
    said = busy_room(seed, 60, people=5 if seed % 2 else 2)
    once, often = await open_app("once"), await open_app("often")
    await come_in(once, [said])
    await come_in(often, cut(chance, said, 6), portion=chance.choice([3, 11]))
    assert await disentangled(admin, often) == await disentangled(admin, once)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.slow
async def test_a_room_comes_out_the_same_in_whatever_order_it_came_in(open_app, admin, seed: int):
    chance = random.Random(100 + seed)
    said = busy_room(seed, 50)
    once, shuffled = await open_app("once"), await open_app("shuffled")
    await come_in(once, [said])
    mixed = chance.sample(said, len(said))
    await come_in(shuffled, cut(chance, mixed, 5), portion=7)
    assert await disentangled(admin, shuffled) == await disentangled(admin, once)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_room_comes_out_the_same_whenever_it_becomes_known_who_left(open_app, admin, seed: int):
    chance = random.Random(200 + seed)
    said = busy_room(60 + seed, 60)
    leaving = [
        IncomingMembership(author=author(f"guest{n}"), joined_at=at(0), left_at=chance.choice(said).sent_at)
        for n in range(3)
    ]
    staying = [IncomingMembership(author=author(name), joined_at=at(0)) for name in PEOPLE]
    known = room(visibility="members", members=(*staying, *leaving))
    unknown = room(visibility="members", members=())
    once, later = await open_app("once"), await open_app("later")
    await come_in(once, [[replace(one, room=known) for one in said]])
    parts = cut(chance, chance.sample(said, len(said)), 5)
    await come_in(later, [[replace(one, room=unknown) for one in part] for part in parts], portion=7)
    await come_in(later, [[replace(one, room=known) for one in said[:1]]], portion=7)
    assert await disentangled(admin, later) == await disentangled(admin, once)
    ends = [one.left_at for one in leaving]
    for first, last in await spans(admin, later):
        assert not any(first < end <= last for end in ends)


async def spans(admin, app: App) -> list[tuple[datetime, datetime]]:
    """Return the first and the last time of each conversation that everybody in the room hears."""
    rows = await admin.execute(
        "select min(sent_at), max(sent_at) from conversation_messages"
        " join messages on messages.org_id = conversation_messages.org_id and messages.id = message_id"
        " where conversation_messages.org_id = %s and kind = 'message' group by conversation_id",
        [app.org_id],
    )
    return await rows.fetchall()


@pytest.mark.slow
async def test_what_comes_late_changes_what_it_would_have_changed(open_app, admin):
    # What replies to a message of long ago moves with it; the messages around it are not decided again.
    said = [replace(one, reply_to=None, thread_root=None) for one in busy_room(7, 4 * WINDOW)]
    late = [one for number, one in enumerate(said) if number in {20, 21, 150}]
    once, later = await open_app("once"), await open_app("later")
    await come_in(once, [said])
    await come_in(later, [[one for one in said if one not in late], late], portion=90)
    assert await disentangled(admin, later) == await disentangled(admin, once)


@pytest.mark.slow
async def test_behind_a_late_message_the_room_is_not_gone_through_to_its_end(app: App):
    said = busy_room(8, 5 * WINDOW, whispers=False)
    late = said.pop(30)
    await come_in(app, [said])
    await app.ingest_batch([replace(late, body="", reply_to=None, thread_root=None)])
    assert (await disentangle(app)).done < len(said) - WINDOW


@pytest.mark.slow
async def test_a_changed_text_is_heard_anew(open_app, admin):
    said = [replace(one, attachments=()) for one in busy_room(9, 40, whispers=False)]
    changed = replace(said[12], body="Ana: the invoice needs another ledger", edited_at=at(10_000))
    gone = replace(said[25], body="", deleted=True)
    once, later = await open_app("once"), await open_app("later")
    await come_in(once, [[*said, changed, gone]])
    await come_in(later, [said, [changed], [gone]])
    assert await disentangled(admin, later) == await disentangled(admin, once)


async def test_an_answer_waits_for_what_it_answers(app: App, admin):
    answer = message("9", "that one", author=author("bo"), reply_to="1")
    await come_in(app, [[answer, message("5", "something else entirely", author=author("cy"))]])
    await come_in(app, [[message("1", "which printer is it?")]])
    state = await disentangled(admin, app)
    assert "('9', '1', 'explicit', 1.0)" in state["edges"]
    assert any("['1', '9'" in one or "'1', '5', '9'" in one for one in state["conversations"])


async def test_what_never_arrives_keeps_nothing_from_being_placed(app: App, admin):
    await come_in(
        app, [[message("1", "so I said", reply_to=MISSING), message("2", "yes", author=author("bo"))]]
    )
    assert len(await conversation_messages(admin, app)) == 2


async def test_who_whispers_is_in_no_conversation_with_those_who_do_not_hear_it(app: App, admin):
    said = busy_room(10, 60)
    await come_in(app, [said])
    heard = {
        one.external_id: frozenset({one.author.account_id, *(who.account_id for who in one.audience)})
        if one.kind == "whisper"
        else None
        for one in said
    }
    together: dict[object, set[object]] = {}
    for external_id, conversation_id in (await conversation_messages(admin, app)).items():
        together.setdefault(conversation_id, set()).add(heard[external_id])
    assert len(together) > 5
    assert all(len(recipients) == 1 for recipients in together.values())


async def test_a_whisper_changes_nothing_for_those_who_do_not_hear_it(open_app, admin):
    said = busy_room(11, 60)
    aloud = [one for one in said if one.kind == "message"]
    silent, whispering = await open_app("silent"), await open_app("whispering")
    await come_in(silent, [aloud])
    await come_in(whispering, [said])
    told = {one.external_id for one in aloud}

    async def seen(app: App) -> tuple[object, ...]:
        state = await disentangled(admin, app)
        edges = [edge for edge in state["edges"] if edge.split("'")[1] in told and "None" not in edge]
        talks = [one for one in state["conversations"] if one.split("'")[1] in told]
        return edges, talks

    ours, theirs = await seen(silent), await seen(whispering)
    # An answer to a whisper stays stated, and only those who hear both learn of it.
    whispered = {one.external_id for one in said} - told
    assert [edge for edge in theirs[0] if edge.split("'")[3] not in whispered] == ours[0]
    assert theirs[1] == ours[1]


async def test_system_lines_and_injections_are_in_no_conversation(app: App, admin):
    said = [
        message("1", "hello"),
        message("2", "bo joined", kind="system", author=author("", kind="system", name="notice")),
        message("3", "remember the toner", kind="context_injection", audience=(author("bo"),)),
    ]
    await come_in(app, [said])
    assert set(await conversation_messages(admin, app)) == {"1"}


async def test_two_people_start_a_new_conversation_after_a_long_silence(app: App, admin):
    dm = room("dm", kind="dm", visibility="members")
    lines = [
        (0, "ana", "hi bo, did the new printer arrive?"),
        (1, "bo", "yes, it is in the box next to the copier"),
        (2, "ana", "great, can you connect it to the network?"),
        (3, "bo", "the printer is connected now"),
        (1_500, "bo", "who brings the cake for the farewell party on friday?"),
        (1_501, "ana", "I can bake an apple cake for the party"),
    ]
    said = [
        message(f"{place}", text, author=author(who), sent_at=at(minutes), order=place, room=dm)
        for place, (minutes, who, text) in enumerate(lines)
    ]
    await come_in(app, [said])
    found = await conversation_messages(admin, app)
    assert len({found[f"{place}"] for place in range(4)}) == 1
    assert found["4"] == found["5"] != found["0"]
    boundaries = await admin.execute(
        "select split_reason from conversations where org_id = %s order by opened_at", [app.org_id]
    )
    assert [split_reason for (split_reason,) in await boundaries.fetchall()] == ["first", "idle"]


async def test_what_a_person_placed_stays_and_what_answers_it_comes_along(app: App, admin):
    said = busy_room(13, 40, whispers=False)
    await come_in(app, [said])
    made = await app.conversations.split(["m5"])
    at_once = await conversation_messages(admin, app)
    placed = {key for key, value in at_once.items() if value == made.id}
    assert len(placed) > 1
    await disentangle(app)
    answer = message("late", "to that", author=author("eli"), sent_at=at(9_000), order=99, reply_to="m5")
    await come_in(app, [[answer]])
    found = await conversation_messages(admin, app)
    assert {found[key] for key in (*placed, "late")} == {made.id}


async def test_work_that_a_dead_worker_had_taken_is_done_by_the_next(app: App, admin):
    said = busy_room(14, 30)
    await app.ingest_batch(said[:20])
    [(room_id,)] = await (
        await admin.execute("select id from rooms where org_id = %s", [app.org_id])
    ).fetchall()
    taken = await app.db.change(
        app.org_id, lambda conn: disentanglement.lease_range(conn, app.org_id, room_id)
    )
    assert taken is not None
    await app.ingest_batch(said[20:])
    await disentangle(app)
    assert len(await conversation_messages(admin, app)) == 30


async def test_what_changes_while_a_room_is_gone_through_is_not_overwritten(app: App, admin, open_app):
    said = busy_room(15, 40, whispers=False)
    early = replace(said[3], body="Eli: the kernel panic needs a reboot", edited_at=at(9_000))
    await app.ingest_batch(said)

    class Interrupted(DisentanglementWorker):
        async def do(self, org_id, tasks):
            read = disentanglement.messages_from

            async def reading(*args, **kwargs):
                heard = await read(*args, **kwargs)
                if not changed.is_set():
                    changed.set()
                    await app.ingest_batch([early])
                return heard

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(disentanglement, "messages_from", reading)
                return await super().do(org_id, tasks)

    changed = asyncio.Event()
    await runner.drain(Interrupted(db=app.db), only_org=app.org_id, policy=runner.DRAIN_POLICY)
    assert changed.is_set()
    once = await open_app("once")
    await come_in(once, [[*said, early]])
    assert await disentangled(admin, app) == await disentangled(admin, once)


@pytest.mark.slow
async def test_what_another_took_again_since_is_left_to_them(app: App, admin, open_app):
    """Two lanes hold one room: the second took it after a change, the first read before."""
    said = busy_room(15, 40, whispers=False)
    early = replace(said[3], body="Eli: the kernel panic needs a reboot", edited_at=at(9_000))
    await app.ingest_batch(said)
    [(room_id,)] = await (
        await admin.execute("select id from rooms where org_id = %s", [app.org_id])
    ).fetchall()
    read = disentanglement.messages_from
    changed = asyncio.Event()

    async def reading(*args, **kwargs):
        heard = await read(*args, **kwargs)
        if not changed.is_set():
            changed.set()
            await app.ingest_batch([early])
            await app.db.change(
                app.org_id, lambda conn: disentanglement.lease_range(conn, app.org_id, room_id)
            )
        return heard

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disentanglement, "messages_from", reading)
        soon = replace(runner.DRAIN_POLICY, lease=timedelta(seconds=1))
        await runner.drain(DisentanglementWorker(db=app.db), only_org=app.org_id, policy=soon)
    assert changed.is_set()
    once = await open_app("once")
    await come_in(once, [[*said, early]])
    assert await disentangled(admin, app) == await disentangled(admin, once)


@pytest.mark.slow
@pytest.mark.parametrize("whom", ["ana", "bo"])
async def test_after_a_person_is_erased_a_room_is_as_if_it_had_been_gone_through_only_then(
    open_app, admin, whom: str
):
    said = [
        message("1", "the printer is broken", author=author("cy"), kind="whisper", audience=(author("bo"),)),
        message(
            "2",
            "toner, the printer says",
            author=author("cy"),
            kind="whisper",
            audience=(author("bo"), author("ana")),
        ),
        *(replace(one, external_id=f"later {one.external_id}") for one in busy_room(17, 40)),
    ]
    before, after = await open_app("before"), await open_app("after")
    await come_in(before, [said])
    await before.erasure.person(whom)
    await disentangle(before)
    await after.ingest_batch(said)
    await after.erasure.person(whom)
    await disentangle(after)
    assert await disentangled(admin, before) == await disentangled(admin, after)


@pytest.mark.slow
async def test_who_is_erased_had_not_left(open_app, admin):
    guest = IncomingMembership(author=author("guest"), joined_at=at(0), left_at=at(2.5))
    staying = [IncomingMembership(author=author(name), joined_at=at(0)) for name in PEOPLE]
    where = room(visibility="members", members=(*staying, guest))
    said = [
        message("0", "hi, did the new printer arrive?", room=where),
        message("2", "yes, it is in the box next to the copier", author=author("bo"), room=where),
        message("3", "great, is it already connected to the network?", room=where, reply_to="2"),
        message("5", "not yet, IT comes this afternoon", author=author("bo"), room=where),
    ]
    before, after = await open_app("before"), await open_app("after")
    await come_in(before, [said])
    assert len(set((await conversation_messages(admin, before)).values())) == 2
    await after.ingest_batch(said)
    for app in (before, after):
        await app.erasure.person("guest")
        await disentangle(app)
    assert await disentangled(admin, before) == await disentangled(admin, after)
    assert len(set((await conversation_messages(admin, before)).values())) == 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
async def test_after_single_messages_are_erased_a_room_is_as_if_it_had_been_gone_through_only_then(
    open_app, admin, seed: int
):
    said = busy_room(40 + seed, 40)
    doomed = [one.external_id for one in random.Random(seed).sample(said[20:], 6)]
    before, after = await open_app("before"), await open_app("after")
    await come_in(before, [said])
    await after.ingest_batch(said)
    for external_id in doomed:
        await before.erasure.message(external_id)
        await after.erasure.message(external_id)
        await disentangle(before)
    await disentangle(after)
    assert await disentangled(admin, before) == await disentangled(admin, after)


async def test_a_conversation_whose_last_message_is_erased_gets_its_label_from_what_is_left(open_app, admin):
    said = [
        message("1", "the printer is out of toner"),
        message("2", "toner for the printer is in the cupboard", author=author("bo")),
        message("3", "thank you"),
    ]
    app = await open_app("before")
    await come_in(app, [said])
    await app.erasure.message("3")
    await disentangle(app)
    [(label,)] = await (
        await admin.execute("select label from conversations where org_id = %s", [app.org_id])
    ).fetchall()
    assert "toner" in label


async def test_a_reply_that_only_an_earlier_version_states_is_gone_through_again(open_app, admin):
    said = busy_room(18, 40, whispers=False)
    edited = replace(
        said[9], body="Cy, the printer again", edited_at=at(9_000), reply_to=None, thread_root=None
    )
    first = replace(said[9], reply_to=said[2].external_id)
    rest = [one for one in said if one is not said[9]]
    once, late = await open_app("once"), await open_app("late")
    await come_in(once, [[*rest, edited, first]])
    await come_in(late, [[*rest, edited], [first]])
    assert await disentangled(admin, late) == await disentangled(admin, once)


async def test_a_running_worker_places_what_is_said_within_seconds(app: App, admin):
    stop = asyncio.Event()
    running = asyncio.create_task(
        runner.run(DisentanglementWorker(db=app.db), stop=stop, policy=runner.DEFAULT_POLICY)
    )
    try:
        await app.ingest_batch(busy_room(16, 20))
        async with asyncio.timeout(120):
            while len(await conversation_messages(admin, app)) < 20:  # noqa: ASYNC110  the database tells nobody
                await asyncio.sleep(0.02)
    finally:
        stop.set()
        await running


async def test_a_conversation_is_open_until_nobody_spoke_for_long(app: App, admin):
    said = [message(f"{n}", "the printer and its toner", author=author(who)) for n, who in enumerate("abc")]
    await come_in(app, [said])
    row = await admin.execute(
        "select last_at, idle_timeout from conversations where org_id = %s order by last_at desc",
        [app.org_id],
    )
    last_at, idle_timeout = (await row.fetchall())[0]
    assert last_at == at(2)
    assert idle_timeout == timedelta(minutes=30)


async def conversation_messages(admin, app: App) -> dict[str, object]:
    rows = await admin.execute(
        "select external_id, conversation_id from conversation_messages join messages on messages.id = message_id"
        " where conversation_messages.org_id = %s",
        [app.org_id],
    )
    return dict(await rows.fetchall())
