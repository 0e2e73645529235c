"""Memories are drawn from conversations that are over, once for each state of one, and go with what they rest on."""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from ingest.stories import APART, at, author, message, room
from roomlore.db import disentanglement, extraction_state
from roomlore.domain.claims import Claim, NamedParticipant, Quote, SourceText
from roomlore.domain.errors import NotAllowed, NotFound
from roomlore.domain.incoming import IncomingMessage
from roomlore.jobs.extraction import ExtractionWorker, WriteResult
from roomlore.memories.model_extractor import ModelExtractor
from roomlore.memories.supersession import BundledRelations
from roomlore.operations import App

DAY = timedelta(days=1)
#: When what was said has long gone quiet.
LATER = at(0) + DAY
ANA, BO = author("ana"), author("bo")
HOME = "I live in Porto, on Rua das Flores 12, above the bakery."
EDITOR = "I prefer tabs over spaces, they are the same width for everybody."
ANA_HOME, BO_EDITOR = f"Ana: \u201c{HOME}\u201d", f"Bo: \u201c{EDITOR}\u201d"


@dataclass
class Scripted:
    """An extractor that finds every message that begins with "note:" stated, and remembers what it was given."""

    given: list[Sequence[SourceText]]
    people: list[Sequence[NamedParticipant]]
    meanwhile: Callable[[], object] | None = None
    name: str = "scripted"

    async def extract(self, said, people):
        self.given.append(said)
        self.people.append(people)
        if self.meanwhile is not None:
            once, self.meanwhile = self.meanwhile, None
            await once()
        if any(one.body == "poison" for one in said):
            raise RuntimeError(said[0].body)
        return [
            Claim(
                kind="fact",
                title="A note",
                content=f"{one.author_name} notes: {one.body.removeprefix('note: ')}.",
                quotes=[Quote(message_id=one.message_id, start=0, end=len(one.body))],
                author_id=one.author_id,
                subject_ids=frozenset({one.author_id}),
                confidence=0.5,
            )
            for one in said
            if one.body.startswith("note:")
        ]


def scripted(**fields) -> Scripted:
    return Scripted(given=[], people=[], **fields)


def worker(app: App, extractor=None, **fields) -> ExtractionWorker:
    """Return a worker with the message model, or with another extractor that compares nothing."""
    relations = None if extractor else BundledRelations()
    return ExtractionWorker(db=app.db, extractor=extractor or ModelExtractor(), relations=relations, **fields)


def says(external_id: str, body: str, who=ANA, *, minute: float = 0.0, **fields) -> IncomingMessage:
    return message(external_id, body, author=who, sent_at=at(minute), **fields)


def talk(body=HOME, where="general", *, start=0.0) -> list[IncomingMessage]:
    """Somebody says something, and somebody else answers."""
    return [
        says(f"{where}-1", body, minute=start, room=room(where)),
        says(f"{where}-2", "oh nice", BO, minute=start + 0.1, reply_to=f"{where}-1", room=room(where)),
    ]


async def hear(app: App, said: Sequence[IncomingMessage]) -> None:
    assert not (await app.ingest_batch(said)).skipped
    await app.disentangle()


async def draw(app: App, extractor=None, *, now=LATER, **fields) -> WriteResult:
    """Go through all that waits."""
    done = WriteResult()
    while (written := await worker(app, extractor, **fields).next(app.org_id, now=now)) is not None:
        done += written
    return done


async def known(admin, app: App, *, what="content") -> list[str]:
    rows = await admin.execute(
        f"select {what} from memories where org_id = %s and status = 'active' order by content", [app.org_id]
    )
    return [row[0] for row in await rows.fetchall()]


async def everything(admin, app: App) -> dict[str, list[tuple]]:
    """All that drawing leaves."""
    tables = ("memories", "memory_sources", "memory_participants", "memory_tags", "conversations")
    return {
        table: sorted(
            map(
                str,
                await (
                    await admin.execute(f"select * from {table} where org_id = %s", [app.org_id])
                ).fetchall(),
            )
        )
        for table in tables
    }


async def message_id(app: App, external_id: str, where="general") -> str:
    [found] = [one for one in await app.messages(app.operator, where) if one.external_id == external_id]
    return str(found.id)


# Which, and what of them


async def test_what_somebody_says_of_themselves_is_remembered_with_the_words_it_rests_on(app: App, admin):
    await hear(app, talk())
    written = await draw(app)
    assert (written.conversations, written.messages, written.added) == (1, 2, 1)
    assert await known(admin, app) == [ANA_HOME]
    rows = await admin.execute(
        "select external_id, substr(body, quote_start + 1, quote_end - quote_start), extracted_by, memories.kind"
        " from memory_sources join memories on memories.id = memory_id join messages on messages.id = message_id"
        " where memories.org_id = %s",
        [app.org_id],
    )
    assert await rows.fetchall() == [("general-1", HOME, "message model", "fact")]
    roles = await admin.execute(
        "select role, name from memory_participants join participants on participants.id = participant_id"
        " where memory_participants.org_id = %s order by role",
        [app.org_id],
    )
    assert await roles.fetchall() == [("author", "Ana"), ("subject", "Ana")]


async def test_one_that_still_goes_on_waits(app: App, admin):
    await hear(app, talk())
    [found] = await app.conversations.all(app.operator)
    quiet_at = at(0.1) + found.idle_timeout
    assert await worker(app).next(app.org_id, now=quiet_at - timedelta(seconds=1)) is None
    assert await worker(app).next(app.org_id, now=quiet_at) is not None
    assert await known(admin, app) == [ANA_HOME]


@pytest.mark.slow
async def test_one_of_a_room_that_is_still_to_be_gone_through_waits(app: App):
    await hear(app, talk())
    await app.ingest_batch([says("3", "by the way", minute=0.2)])
    assert await worker(app).next(app.org_id, now=LATER) is None
    await app.disentangle()
    assert await worker(app).next(app.org_id, now=LATER) is not None


@pytest.mark.slow
async def test_one_is_gone_through_once_for_each_state(app: App, admin):
    await hear(app, talk())
    extractor = scripted()
    await draw(app, extractor)
    before = await everything(admin, app)
    assert await draw(app, extractor) == WriteResult()
    [found] = await app.conversations.all(app.operator)
    again = partial(
        disentanglement.mark_dirty, org_id=app.org_id, room_id=found.room_id, since=at(-1), until=at(1)
    )
    await app.db.change(app.org_id, again)
    await app.disentangle()
    assert await draw(app, extractor) == WriteResult()
    assert await everything(admin, app) == before
    assert len(extractor.given) == 1


@pytest.mark.slow
async def test_going_through_all_of_it_again_changes_nothing(app: App, admin):
    await hear(app, [*talk(), *talk(EDITOR, "other", start=300), *talk(HOME, "third", start=600)])
    await draw(app)
    before = await everything(admin, app)
    assert len(await known(admin, app)) == 2
    extracted = await app.extraction.extract()
    assert (extracted.conversations, extracted.added, extracted.released) == (3, 0, 0)
    assert await everything(admin, app) == before


async def test_whoever_is_named_may_be_spoken_of_and_nobody_else(app: App):
    await hear(
        app,
        [
            *talk("note: Cleo knows"),
            says("3", "hi", author("cleo"), minute=900),
            says("4", "hi", author("dee"), minute=1900),
            says("5", "hi", author("eli"), minute=900, room=room("elsewhere")),
        ],
    )
    extractor = scripted()
    await draw(app, extractor)
    [people] = [
        people for said, people in zip(extractor.given, extractor.people, strict=True) if len(said) == 2
    ]
    assert sorted(one.name for one in people) == ["Ana", "Bo", "Cleo"]


async def test_injected_context_and_notices_are_not_given_to_an_extractor(app: App):
    pip = author("pip", kind="agent")
    await hear(
        app,
        [
            *talk("note: one"),
            says("3", "note: injected", pip, minute=0.2, kind="context_injection", audience=(pip,)),
            says("4", "note: joined", minute=0.2, kind="system"),
        ],
    )
    extractor = scripted()
    await draw(app, extractor)
    assert {one.body for said in extractor.given for one in said} == {"note: one", "oh nice"}


@pytest.mark.slow
async def test_what_is_whispered_is_drawn_from_by_itself_and_remembered_for_its_hearers(app: App):
    whisper = says("w", "note: hush", ANA, minute=0.2, kind="whisper", audience=(ANA, BO))
    await hear(app, [*talk("note: aloud"), whisper, says("9", "hello", author("cy"), minute=0.3)])
    await draw(app, scripted())

    async def read(who: str) -> list[str]:
        return sorted(one.content for one in await app.memories.all(await app.viewer(who)))

    assert await read("bo") == ["Ana notes: aloud.", "Ana notes: hush."]
    assert await read("cy") == ["Ana notes: aloud."]


@pytest.mark.slow
async def test_what_is_drawn_from_a_sensitive_conversation_is_sensitive(app: App, admin):
    await hear(app, [*talk("note: one"), says("3", "keep this between us", minute=0.2, reply_to="general-1")])
    await draw(app, scripted())
    assert await known(admin, app, what="sensitivity") == ["sensitive"]


# When something changes


@pytest.mark.slow
async def test_what_is_said_later_is_drawn_when_it_is_quiet_again(app: App, admin):
    await hear(app, talk("note: one"))
    await draw(app, scripted())
    await hear(app, [says("3", "note: two", minute=0.2, reply_to="general-1")])
    assert (await draw(app, scripted())).added == 1
    assert await known(admin, app) == ["Ana notes: one.", "Ana notes: two."]


@pytest.mark.slow
async def test_an_edit_lets_go_of_what_is_not_said_any_more(app: App, admin):
    await hear(app, talk("note: one"))
    await draw(app, scripted())
    await hear(app, [replace(talk()[0], body="note: two", edited_at=at(2))])
    written = await draw(app, scripted())
    assert (written.added, written.released) == (1, 1)
    assert await known(admin, app) == ["Ana notes: two."]


@pytest.mark.slow
async def test_an_edit_that_leaves_no_words_lets_go_of_what_they_said(app: App, admin):
    await hear(app, talk("note: one"))
    await draw(app, scripted())
    await hear(app, [replace(talk()[0], body="", edited_at=at(2))])
    assert (await draw(app, scripted())).released == 1
    assert await known(admin, app) == []


@pytest.mark.slow
@pytest.mark.parametrize("how", ["redact", "erase"])
async def test_what_rests_on_a_removed_message_goes_at_once_and_is_not_drawn_again(app: App, admin, how):
    await hear(app, [*talk("note: one"), says("3", "note: two", minute=0.2, reply_to="general-1")])
    await draw(app, scripted())
    gone = await message_id(app, "general-1")
    await (app.erasure.redact(gone) if how == "redact" else app.erasure.message(gone))
    assert await known(admin, app) == ["Ana notes: two."]
    # Nor is a digest left, from which the words could be guessed.
    kept = await admin.execute("select extraction_state from conversations where org_id = %s", [app.org_id])
    assert await kept.fetchall() == [(None,)]
    await app.disentangle()
    await draw(app, scripted())
    assert await known(admin, app) == ["Ana notes: two."]


@pytest.mark.slow
async def test_what_others_said_as_well_is_drawn_again_when_one_source_goes(app: App, admin):
    await hear(app, [*talk("note: one"), *talk("note: one", "other", start=300)])
    await draw(app, scripted())
    assert await known(admin, app) == ["Ana notes: one."]
    await app.erasure.message(await message_id(app, "general-1"))
    assert await known(admin, app) == []
    await app.disentangle()
    await draw(app, scripted())
    assert await known(admin, app) == ["Ana notes: one."]
    rows = await admin.execute(
        "select external_id from memory_sources join messages on messages.id = message_id where messages.org_id = %s",
        [app.org_id],
    )
    assert await rows.fetchall() == [("other-1",)]


@pytest.mark.slow
async def test_nothing_is_drawn_of_an_erased_person(app: App, admin):
    await hear(app, [*talk("note: one"), says("3", "note: two", BO, minute=0.2, reply_to="general-1")])
    await draw(app, scripted())
    await app.erasure.person("ana")
    await app.disentangle()
    await draw(app, scripted())
    assert await known(admin, app) == ["Bo notes: two."]


@pytest.mark.slow
async def test_a_message_that_is_moved_takes_along_what_rests_on_it(app: App, admin):
    await hear(app, [*talk("note: one"), *talk("note: two", start=APART)[:1]])
    await hear(app, [says("later", "note: three", minute=APART)])
    await draw(app, scripted())
    before = await known(admin, app)
    await app.conversations.split([await message_id(app, "general-2")], "Apart")
    await app.disentangle()
    extractor = scripted()
    assert (await draw(app, extractor)).conversations == 2
    assert await known(admin, app) == before


@pytest.mark.slow
async def test_marking_a_conversation_hides_what_was_drawn_from_it_at_once(app: App, admin):
    closed = room("general", visibility="open")
    await hear(app, [replace(one, room=closed) for one in talk("note: one")])
    await app.ingest(says("9", "hello", author("cy"), room=room("hall")))
    await draw(app, scripted())
    cy = await app.viewer("cy")
    assert [one.content for one in await app.memories.all(cy)] == ["Ana notes: one."]
    [found] = await app.conversations.all(app.operator, room="general")
    await app.conversations.set_sensitivity(str(found.id), "sensitive")
    assert await app.memories.all(cy) == []
    await app.disentangle()
    await draw(app, scripted())
    assert await app.memories.all(cy) == []
    assert await known(admin, app, what="sensitivity") == ["sensitive"]
    await app.conversations.set_sensitivity(str(found.id), "normal")
    await app.disentangle()
    await draw(app, scripted())
    assert [one.content for one in await app.memories.all(cy)] == ["Ana notes: one."]


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("what", ["said more", "edited", "redacted", "erased", "marked", "person"])
async def test_what_changes_meanwhile_is_left_for_the_next_time(app: App, admin, what):
    await hear(app, talk("note: one"))
    [found] = await app.conversations.all(app.operator)

    async def change() -> None:
        match what:
            case "said more":
                await hear(app, [says("3", "note: two", minute=0.2, reply_to="general-1")])
            case "edited":
                await hear(app, [replace(talk()[0], body="note: two", edited_at=at(2))])
            case "redacted":
                await app.erasure.redact(await message_id(app, "general-1"))
            case "erased":
                await app.erasure.message(await message_id(app, "general-1"))
            case "marked":
                await app.conversations.set_sensitivity(str(found.id), "sensitive")
            case _:
                await app.erasure.person("ana")

    written = await worker(app, scripted(meanwhile=change)).next(app.org_id, now=LATER)
    assert written == WriteResult()
    assert await known(admin, app) == []
    await app.disentangle()
    await draw(app, scripted())
    assert ("Ana notes: one." in await known(admin, app)) == (what in {"said more", "marked"})


# What breaks


@pytest.mark.slow
async def test_one_that_breaks_the_extractor_is_set_aside_and_the_rest_goes_on(app: App, admin, caplog):
    await hear(app, [*talk("note: one"), *talk("poison", "other", start=300)])
    assert (await draw(app, scripted())).added == 1
    counts = (await app.monitoring.statistics()).counts.extracted
    assert (counts.done, counts.waiting, counts.dead_lettered) == (2, 0, 1)
    assert "RuntimeError" in caplog.text
    assert "poison" not in caplog.text
    errors = await admin.execute(
        "select extraction_error from conversations where org_id = %s and extraction_error is not null",
        [app.org_id],
    )
    assert await errors.fetchall() == [("RuntimeError",)]
    assert await app.retry() == 1
    assert (await app.monitoring.statistics()).counts.extracted.waiting == 1
    await hear(app, [replace(talk("x", "other", start=300)[0], body="note: cured", edited_at=at(400))])
    await draw(app, scripted())
    assert await known(admin, app) == ["Ana notes: cured.", "Ana notes: one."]


@pytest.mark.slow
async def test_what_cannot_be_written_is_set_aside_alone(app: App, admin):
    class Crooked(Scripted):
        async def extract(self, said, people):
            found = await super().extract(said, people)
            return [replace(one, confidence=2.0) if "bad" in one.content else one for one in found]

    await hear(app, [*talk("note: one"), *talk("note: bad", "other", start=300)])
    await draw(app, Crooked(given=[], people=[]))
    assert await known(admin, app) == ["Ana notes: one."]
    assert (await app.monitoring.statistics()).counts.extracted.dead_lettered == 1


@pytest.mark.slow
async def test_workers_side_by_side_remember_everything_once(app: App, admin):
    await hear(app, [one for n in range(12) for one in talk(f"note: {n % 4}", f"room{n}", start=n * 90)])
    await asyncio.gather(*(draw(app, scripted(), batch=3) for _ in range(4)))
    assert await known(admin, app) == [f"Ana notes: {n}." for n in range(4)]
    rows = await admin.execute("select count(*) from memory_sources where org_id = %s", [app.org_id])
    assert await rows.fetchone() == (12,)


async def test_a_worker_that_dies_before_it_wrote_has_done_nothing(app: App, admin):
    await hear(app, talk("note: one"))
    started = asyncio.Event()

    async def hang() -> None:
        started.set()
        await asyncio.Event().wait()

    dying = asyncio.create_task(draw(app, scripted(meanwhile=hang)))
    await started.wait()
    dying.cancel()
    await asyncio.gather(dying, return_exceptions=True)
    assert await known(admin, app) == []
    assert (await draw(app, scripted())).added == 1


@pytest.mark.slow
async def test_no_connection_is_held_while_statements_are_looked_for(app: App, admin):
    await hear(app, talk("note: one"))
    seen: list[tuple] = []

    async def look() -> None:
        rows = await admin.execute(
            "select count(*) from pg_stat_activity"
            " where usename = 'roomlore_app' and (state <> 'idle' or xact_start is not null)"
        )
        seen.extend(await rows.fetchall())

    await draw(app, scripted(meanwhile=look))
    assert seen == [(0,)]


# Running, and on demand


async def test_a_running_worker_draws_what_ends(app: App, admin):
    await hear(app, talk("note: one"))
    stop = asyncio.Event()
    running = asyncio.create_task(worker(app, scripted(), interval=0.01).run(stop))
    try:
        async with asyncio.timeout(60):
            # The database tells of no such event.
            while not await known(admin, app):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    finally:
        stop.set()
        await running


@pytest.mark.slow
async def test_a_drain_draws_in_every_org_and_tells_how_much(open_app, admin):
    one, other = await open_app("one"), await open_app("other")
    for app in (one, other):
        await app.ingest_batch(talk())
    assert (await one.drain(every_org=True)).remembered == 2
    assert await known(admin, other) == [ANA_HOME]
    assert (await one.drain(every_org=True)).remembered == 0


@pytest.mark.slow
async def test_on_demand_it_does_not_wait_until_nobody_speaks_any_more(app: App, admin):
    now = datetime.now(UTC)
    fresh = [replace(one, sent_at=now + timedelta(seconds=n)) for n, one in enumerate(talk())]
    other = [replace(one, sent_at=now + timedelta(seconds=n)) for n, one in enumerate(talk(EDITOR, "other"))]
    await app.ingest_batch([*fresh, *other])
    assert await worker(app).next(app.org_id, now=now) is None
    extracted = await app.extraction.extract("general")
    assert (extracted.conversations, extracted.messages, extracted.added) == (1, 2, 1)
    assert await known(admin, app) == [ANA_HOME]
    [found] = await app.conversations.all(app.operator, room="other")
    assert (await app.extraction.extract(str(found.id))).added == 1
    assert (await app.extraction.extract("message:other-1")).added == 0


@pytest.mark.slow
async def test_how_far_it_has_come_is_told_for_each_room(app: App):
    await hear(app, [*talk(), *talk(EDITOR, "other", start=300)])
    await draw(app, batch=1, now=at(1))
    await worker(app, batch=1).next(app.org_id, now=LATER)
    numbers = await app.monitoring.statistics()
    by_room = {one.external_id: one.counts.extracted for one in numbers.rooms}
    assert (by_room["other"].done, by_room["other"].waiting) == (2, 0)
    assert (by_room["general"].done, by_room["general"].waiting) == (0, 1)
    assert by_room["general"].oldest_at is not None
    assert (numbers.counts.extracted.done, numbers.counts.extracted.waiting) == (2, 1)


@pytest.mark.slow
async def test_what_waits_is_found_through_an_index_among_very_many(app: App, admin):
    await hear(app, talk())
    await admin.execute(
        "insert into conversations (org_id, id, room_id, split_reason, opened_at, last_at, idle_timeout, extraction_state)"
        " select org_id, gen_random_uuid(), id, 'first', now(), now() - n * interval '1 second', interval '1 second', 'x'"
        " from rooms, generate_series(1, 20000) n where org_id = %s",
        [app.org_id],
    )
    await admin.execute("analyze conversations")
    async with app.db.read_transaction(app.operator) as conn:
        text = extraction_state.QUERIES.by_name["pending"].as_string(conn)
        params = {"org_id": app.org_id, "now": LATER, "limit": 100}
        plan = await (await conn.execute(f"explain (analyze, costs off) {text}", params)).fetchall()
    told = "\n".join(row[0] for row in plan)
    assert "conversations_undrawn" in told
    assert not any("Seq Scan on conversations" in line for line in itertools.chain(told.splitlines()))


@pytest.mark.slow
async def test_one_that_is_closed_is_drawn_at_once_and_opened_by_what_is_said_later(app: App, admin):
    await hear(app, talk("note: one"))
    [found] = await app.conversations.all(app.operator)
    closed = await app.conversations.close(str(found.id))
    assert not closed.is_open_at(closed.last_at)
    await app.disentangle()
    soon = closed.last_at + timedelta(seconds=1)
    assert (await draw(app, scripted(), now=soon)).added == 1
    await hear(app, [says("3", "note: two", minute=0.2, reply_to="general-1")])
    [found] = await app.conversations.all(app.operator)
    assert found.is_open_at(found.last_at)
    assert await draw(app, scripted(), now=found.last_at + timedelta(seconds=1)) == WriteResult()
    assert await known(admin, app) == ["Ana notes: one."]


@pytest.mark.slow
async def test_only_those_who_may_arrange_conversations_close_them(app: App):
    await hear(app, [*talk(), says("9", "beep", author("pip", kind="agent"), minute=0.2)])
    [found] = [one for one in await app.conversations.all(app.operator) if one.message_count > 1]
    with pytest.raises(NotAllowed):
        await app.impersonate(replace(await app.viewer("pip"), role="agent")).conversations.close(
            str(found.id)
        )
    with pytest.raises(NotFound):
        await app.conversations.close("0000-no-such")


async def test_only_an_operator_has_memories_drawn_or_reads_what_was_asked(app: App):
    await hear(app, talk())
    ana = app.impersonate(await app.viewer("ana"))
    with pytest.raises(NotAllowed):
        await ana.extraction.extract()
    with pytest.raises(NotAllowed):
        await ana.extraction.llm_calls()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("where", ["nowhere", "00000000", "message:nothing"])
async def test_a_place_that_is_not_there_is_said_so(app: App, where):
    await hear(app, talk())
    with pytest.raises(NotFound):
        await app.extraction.extract(where)
