"""Whatever the order, the batches and the repetitions: the same records leave the same state, once."""

import asyncio
import random
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings

from ingest.stories import Story, at, author, difference, message, room, state, stories
from roomlore.db.cluster import Cluster
from roomlore.db.database import Database
from roomlore.db.messages import Revision, add_revisions
from roomlore.domain.errors import BadInput
from roomlore.domain.incoming import IncomingMessage
from roomlore.ingest.accept import accept
from roomlore.ingest.clean import MAX_ID
from roomlore.models.fake import FakeEmbedder
from roomlore.operations import App
from roomlore.settings import Settings

OpenApp = Callable[[str], Awaitable[App]]


class Orgs:
    """Orgs on a pool that outlives single tests, for properties that need two orgs per example."""

    def __init__(self, cluster: Cluster) -> None:
        self.loop = asyncio.new_event_loop()
        self.db = self.loop.run_until_complete(Database.connect(cluster.app_dsn, size=4))
        self.admin = self.loop.run_until_complete(
            psycopg.AsyncConnection.connect(
                cluster.admin_dsn, autocommit=True, options="-c search_path=roomlore,public -c timezone=UTC"
            )
        )

    async def app(self) -> App:
        org = str(uuid4())
        return App(
            db=self.db,
            org_id=await self.db.ensure_org(org),
            settings=Settings(org=org),
            _embedder=FakeEmbedder(),
        )

    def close(self) -> None:
        self.loop.run_until_complete(self.admin.execute("delete from roomlore.work_queue"))
        self.loop.run_until_complete(self.admin.close())
        self.loop.run_until_complete(self.db.close())
        self.loop.close()


@pytest.fixture(scope="module")
def orgs(cluster: Cluster):
    orgs = Orgs(cluster)
    yield orgs
    orgs.close()


some_stories = settings(
    max_examples=8, deadline=None, report_multiple_bugs=False, suppress_health_check=[HealthCheck.too_slow]
)


@some_stories
@given(story=stories())
def test_any_order_any_batches_any_repetition_leave_the_same_state(story: Story, orgs: Orgs):
    assert_same_state(story, orgs)


@pytest.mark.slow
@settings(some_stories, max_examples=20)
@given(story=stories())
def test_many_stories_leave_the_same_state_in_any_order(story: Story, orgs: Orgs):
    assert_same_state(story, orgs)


def assert_same_state(story: Story, orgs: Orgs) -> None:
    async def compare() -> None:
        in_order, as_it_comes = await orgs.app(), await orgs.app()
        for record in story.written:
            await in_order.ingest_batch([record])
        for batch in story.batches:
            await as_it_comes.ingest_batch(batch)
        wanted = await state(orgs.admin, in_order)
        assert difference(await state(orgs.admin, as_it_comes), wanted) == {}
        await as_it_comes.ingest_batch(story.written)
        assert difference(await state(orgs.admin, as_it_comes), wanted) == {}

    orgs.loop.run_until_complete(compare())


async def rows(admin: psycopg.AsyncConnection, query: str, app: App) -> list[tuple]:
    return await (await admin.execute(query, [app.org_id])).fetchall()


def crowd(count: int = 100) -> list[IncomingMessage]:
    """Return messages of ten authors in three rooms, each answering an earlier or a later one."""
    return [
        message(
            str(number),
            f"text {number}",
            room=room(f"room-{number % 3}"),
            author=author(f"author-{number % 10}"),
            reply_to=str((number + 99) % (count - count % 3)),
        )
        for number in range(count - count % 3)
    ]


async def test_eight_writers_of_the_same_records_double_nothing_and_lose_nothing(
    app: App, open_app: OpenApp, cluster: Cluster, admin
):
    said = crowd()
    expected = await open_app("expected")
    await expected.ingest_batch(said)
    databases = [await Database.connect(cluster.app_dsn, size=1) for _ in range(8)]

    async def deliver(number: int) -> None:
        random_ = random.Random(number)
        mine = random_.sample(said, len(said) if number % 2 else 2 * len(said) // 3)
        writer = App(db=databases[number], org_id=app.org_id, settings=app.settings)
        while mine:
            size = random_.choice([1, 7, 40])
            await writer.ingest_batch(mine[:size])
            mine = mine[size:]

    await asyncio.gather(*(deliver(number) for number in range(8)))
    for database in databases:
        await database.close()
    assert difference(await state(admin, app), await state(admin, expected)) == {}
    waiting = "select count(*) from replies where parent_id is null and org_id = %s"
    assert await rows(admin, waiting, app) == [(0,)]
    assert sum(one.message_count for one in await app.participants(app.operator)) == len(said)


async def test_writers_in_different_rooms_that_name_the_same_people_do_not_block_for_good(app: App, admin):
    def batch(number: int) -> list[IncomingMessage]:
        people = [author(f"author-{one}") for one in range(30)]
        random.Random(number).shuffle(people)
        return [
            message(str(place), room=room(f"room-{number}"), author=who, sent_at=at(number))
            for place, who in enumerate(people)
        ]

    for round_ in range(3):
        await asyncio.gather(*(app.ingest_batch(batch(number + 10 * round_)) for number in range(8)))
    assert await rows(admin, "select sum(message_count) from room_activity where org_id = %s", app) == [
        (720,)
    ]


WRITER = """
import asyncio, sys
sys.path.insert(0, sys.argv[3])
from ingest.stories import message
from roomlore.operations import App
from roomlore.settings import Settings
from roomlore.db.database import Database

async def main():
    db = await Database.connect(sys.argv[1], size=1)
    app = App(db=db, org_id=await db.ensure_org(sys.argv[2]), settings=Settings())
    for batch in range(10_000):
        await app.ingest_batch([message(f"{batch}-{n}", "x" * 200) for n in range(100)])
        print(batch, flush=True)

asyncio.run(main())
"""


@pytest.mark.slow
async def test_a_killed_writer_leaves_whole_batches_and_all_that_it_acknowledged(
    app: App, cluster: Cluster, admin
):
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", WRITER, cluster.app_dsn, app.settings.org, str(Path(__file__).parents[1])),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    for _ in range(3):
        assert await process.stdout.readline()
    # The next batch has begun by now.
    process.send_signal(signal.SIGKILL)
    rest, _ = await process.communicate()
    acknowledged = 2 + len(rest.splitlines())
    await admin.execute(
        "select pg_advisory_xact_lock(hashtextextended('room ' || id::text, 0)) from rooms where org_id = %s",
        [app.org_id],
    )  # waits until the server has noticed that the writer is gone
    batches = await rows(
        admin,
        "select split_part(external_id, '-', 1), count(*) from messages where org_id = %s group by 1",
        app,
    )
    assert {count for _, count in batches} == {100}
    assert len(batches) >= acknowledged
    assert await rows(
        admin, "select count(*) from work_queue where org_id = %s and queue = 'embed'", app
    ) == [(100 * len(batches),)]
    assert await rows(admin, "select sum(message_count) from room_activity where org_id = %s", app) == [
        (100 * len(batches),)
    ]


async def test_a_webhook_with_several_personas_is_several_participants(app: App):
    hook = author("hook", kind="agent")
    await app.ingest_batch(
        [
            message("1", author=replace(hook, persona="Weather", name="Weather")),
            message("2", author=replace(hook, persona="News", name="News")),
            message("3", author=replace(hook, persona="Weather", name="Weather")),
            message("4", author=hook),
        ]
    )
    people = await app.participants(app.operator)
    assert {(one.name, one.message_count, one.is_bot) for one in people} == {
        ("Weather", 2, True),
        ("News", 1, True),
        ("Hook", 1, True),
    }


async def test_the_same_display_name_never_makes_two_people_one(app: App):
    await app.ingest_batch(
        [
            message("1", author=author("u1", name="Alex")),
            message("2", author=author("u2", name="Alex")),
            message("3", author=author("u1", name="Alex"), platform="elsewhere"),
        ]
    )
    assert [one.name for one in await app.participants(app.operator)] == ["Alex"] * 3


async def test_counts_and_first_and_last_seen_follow_what_was_said(app: App):
    await app.ingest(message("5"))
    await app.ingest_batch([message("9"), message("2"), message("9")])
    await app.ingest(message("7", room=room("other")))
    (ana,) = await app.participants(app.operator)
    assert (ana.message_count, ana.first_seen_at, ana.last_seen_at) == (4, at(2), at(9))
    (here,) = await app.participants(app.operator, room="general")
    assert (here.message_count, here.last_seen_at) == (3, at(9))
    assert [(one.name, one.message_count) for one in await app.rooms(app.operator)] == [
        ("general", 3),
        ("other", 1),
    ]


async def test_a_room_that_one_record_closes_is_closed(app: App):
    await app.ingest(message("1", room=room(visibility="members")))
    await app.ingest(message("2"))
    assert (await app.rooms(app.operator))[0].visibility == "members"
    await app.ingest(message("1", room=room("open")))
    await app.ingest(message("1", room=room("open", visibility="members")))
    assert {one.visibility for one in await app.rooms(app.operator)} == {"members"}


async def test_a_reply_waits_for_what_it_answers_in_its_own_room(app: App):
    here, there = room("here"), room("there")
    await app.ingest(message("2", "yes", room=here, reply_to="1"))
    await app.ingest(message("1", "said elsewhere", room=there))
    assert [one.reply_to for one in await app.messages(app.operator, "here")] == [None]
    await app.ingest(message("1", "shall we?", room=here))
    answered, answer = sorted(await app.messages(app.operator, "here"), key=lambda one: one.external_id)
    assert answer.reply_to == answered.id


async def test_the_first_record_that_says_what_a_message_answers_is_believed(app: App):
    await app.ingest_batch([message("1"), message("2"), message("3", reply_to="1")])
    await app.ingest(message("3", reply_to="2"))
    said = {one.external_id: one for one in await app.messages(app.operator, "general")}
    assert said["3"].reply_to == said["1"].id


async def test_a_later_record_never_widens_a_whisper(app: App, admin):
    await app.ingest(message("1", kind="whisper", audience=(author("bo"),)))
    wider = message("1", "more", kind="whisper", audience=(author("bo"), author("cy")), edited_at=at(5))
    with pytest.raises(BadInput, match="same id, other author, kind or audience"):
        await app.ingest(wider)
    assert await rows(admin, "select count(*) from message_audience where org_id = %s", app) == [(1,)]
    assert await rows(admin, "select body from messages where org_id = %s", app) == [("hello",)]


async def test_a_record_of_another_author_is_left_out_and_leaves_no_trace(app: App, admin):
    """Neither text, name nor edge of it comes to the message of its id; the rest of the batch goes in."""
    await app.ingest_batch([message("1", edited_at=at(5)), message("2")])
    bo = author("bo")
    batch = [
        message("1", "Bo's words", author=bo, edited_at=at(9), reply_to="2"),
        message("1", "Bo's words", author=bo),
        message("3", author=bo),
    ]
    accepted = await app.ingest_batch(batch)
    assert [one.reason for one in accepted.skipped] == ["same id, other author, kind or audience"] * 2
    assert (len(accepted.message_ids), len(accepted.added), accepted.revised) == (1, 1, 0)
    assert await rows(
        admin, "select author_name, body from messages where org_id = %s and external_id = '1'", app
    ) == [("Ana", "hello")]
    assert await rows(admin, "select count(*) from message_revisions where org_id = %s", app) == [(0,)]
    assert await rows(admin, "select count(*) from replies where org_id = %s", app) == [(0,)]


async def test_a_removal_waits_for_an_edit_that_is_arriving_and_leaves_nothing_of_it(
    app: App, admin: psycopg.AsyncConnection
):
    await app.ingest(message("1", "a secret word"))
    waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
    removal: asyncio.Task[object] | None = None

    async def edit(conn) -> None:
        nonlocal removal
        await accept(conn, app.org_id, [message("2", "takes the room's lock")], received_at=at(9))
        removal = asyncio.create_task(app.erasure.redact("1"))
        async with asyncio.timeout(120):
            while not removal.done() and await (await admin.execute(waiting)).fetchone() == (0,):
                pass  # each question gives way to the removal
        assert not removal.done()
        await accept(conn, app.org_id, [message("1", "better", edited_at=at(5))], received_at=at(9))

    await app.db.change(app.org_id, edit)
    assert removal is not None
    await removal
    assert [one.body for one in await app.messages(app.operator, "general")] == ["", "takes the room's lock"]
    assert await rows(admin, "select body from message_revisions where org_id = %s", app) == []


async def test_a_removed_message_keeps_no_earlier_text(app: App, admin: psycopg.AsyncConnection):
    message_id = await app.ingest(message("1", "a secret word"))
    await app.erasure.redact("1")
    late = Revision(message_id=message_id, written_at=at(1), body="a secret word")
    kept = await app.db.change(app.org_id, lambda conn: add_revisions(conn, app.org_id, [late]))
    assert kept == 0
    assert await rows(admin, "select body from message_revisions where org_id = %s", app) == []


async def test_who_turns_out_to_be_an_agent_was_one_all_along(app: App, admin):
    await app.ingest_batch([message("1"), message("2")])
    await app.ingest(message("2", author=author(kind="agent")))
    await app.ingest(message("3"))
    (ana,) = await app.participants(app.operator)
    assert ana.is_bot
    kinds = await rows(admin, "select distinct author_kind from messages where org_id = %s", app)
    assert kinds == [("agent",)]


async def test_the_widest_ids_that_are_let_in_can_be_stored(app: App):
    random_ = random.Random(1)
    wide = "".join(chr(random_.randrange(0x10000, 0x10FFFF)) for _ in range(MAX_ID))
    who = author(wide, persona=wide[::-1])
    await app.ingest(
        message(wide, platform="p" * 100, room=room(wide), author=who, reply_to=wide[::-1], body=wide)
    )
    assert (await app.rooms(app.operator))[0].message_count == 1


@pytest.mark.slow
async def test_ten_thousand_messages_at_once_take_seconds(app: App):
    said = [
        message(str(number % 5000 + 5000 * (number // 5000)), f"text {number}") for number in range(10_000)
    ]
    began = time.perf_counter()
    accepted = await app.ingest_batch(said)
    took = time.perf_counter() - began
    assert len(accepted.added) == 10_000
    assert took < 100


async def test_an_empty_batch_changes_nothing(app: App):
    assert (await app.ingest_batch([])).message_ids == []
