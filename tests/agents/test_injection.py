"""What agents are given unasked: relevant, for them alone, once until the room is compacted, and nobody's statement."""

import asyncio
import dataclasses
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from conftest import TellOnce
from ingest.stories import author, message, room
from roomlore.agents.injection import COOLDOWN, InjectionWorker
from roomlore.context.render import to_text
from roomlore.db import work_queue
from roomlore.domain.errors import BadInput, NotAllowed
from roomlore.domain.incoming import IncomingMembership, IncomingMessage
from roomlore.jobs import runner
from roomlore.operations import App

ANA, BO = author("ana"), author("bo")
PIP, POP = author("pip", kind="agent"), author("pop", kind="agent")
START = datetime.now(UTC) - timedelta(days=1)
GENERAL = room("general", members=tuple(IncomingMembership(author=who) for who in (ANA, BO, PIP, POP)))
DEN = room("den", visibility="members", members=tuple(IncomingMembership(author=who) for who in (ANA, PIP)))
KILN = "The kiln in the cellar leaks gas"
SECRET = "The cellar kiln key hangs behind the clock"


def old(number: int, who, body: str, where=GENERAL, **fields) -> IncomingMessage:
    sent_at = START + timedelta(minutes=number)
    return message(f"m{number}", body, author=who, room=where, sent_at=sent_at, **fields)


def now(key: str, who, body: str, where=GENERAL, **fields) -> IncomingMessage:
    return message(key, body, author=who, room=where, sent_at=datetime.now(UTC), **fields)


@dataclasses.dataclass
class Clock:
    time: datetime

    def __call__(self) -> datetime:
        return self.time

    def rest(self) -> None:
        self.time += COOLDOWN + timedelta(seconds=1)


@pytest.fixture
def clock() -> Clock:
    return Clock(datetime.now(UTC))


async def long_ago(app: App) -> None:
    said = [
        old(1, ANA, KILN),
        old(2, PIP, "noted"),
        old(3, POP, "noted too"),
        old(4, ANA, SECRET, DEN),
        old(5, BO, "hm"),
    ]
    assert (await app.ingest_batch(said)).skipped == []
    await app.memories.remember(KILN, sources=["m1"])


@pytest.fixture
async def told(app: App, tell_once: TellOnce) -> App:
    await tell_once(app, long_ago)
    return app


async def hears(app: App, clock: Clock, *said: IncomingMessage) -> int:
    """Let messages come in and the worker go through them."""
    assert (await app.ingest_batch(said)).skipped == []
    worker = InjectionWorker(db=app.db, now=clock)
    return (await runner.drain(worker, only_org=app.org_id)).done


async def given(app: App, name: str | None = None, where: str = "general") -> list[str]:
    """Return what was injected, as a viewer reads the room."""
    viewer = app.operator if name is None else await app.viewer(name)
    read = await app.messages(viewer, where, limit=100)
    return [one.body.partition(": ")[2] for one in read if one.kind == "context_injection"]


ASKED = "does the kiln in the cellar still leak?"


@pytest.mark.slow
async def test_a_relevant_memory_is_injected_before_the_message(told, clock):
    assert await hears(told, clock, now("n1", BO, ASKED)) == 1
    assert await given(told, "pip") == await given(told, "pop") == [KILN]
    read = await told.messages(await told.viewer("pip"), "general", limit=100)
    assert [one.external_id for one in read][-1] == "n1"
    assert (read[-2].kind, read[-2].author_name) == ("context_injection", "roomlore")


@pytest.mark.slow
async def test_an_injected_message_is_for_one_agent(told, clock):
    await hears(told, clock, now("n1", BO, ASKED))
    assert len(await given(told)) == 2
    assert await given(told, "ana") == await given(told, "bo") == []


@pytest.mark.slow
async def test_only_memories_visible_to_all_readers_are_injected(told, clock):
    """What an agent is given it may quote: into an open room nothing comes out of a closed one."""
    await told.memories.remember(SECRET, sources=["m4"])
    asked = "who has the cellar kiln key, is it behind the clock?"
    await hears(told, clock, now("n1", BO, asked))
    assert SECRET not in [*await given(told, "pip"), *await given(told, "pop")]
    await hears(told, clock, now("n2", ANA, asked, DEN))
    assert SECRET in await given(told, "pip", "den")
    clock.rest()
    whispers = [now(f"w{to.name}", ANA, asked, kind="whisper", audience=(to,)) for to in (POP, PIP)]
    await hears(told, clock, *whispers)
    assert SECRET in await given(told, "pip")
    assert SECRET not in await given(told, "pop")
    with_secret = await told.context(await told.viewer("pop"), "general")
    assert "clock" not in to_text(with_secret).replace("behind the clock?", "")


@pytest.mark.slow
async def test_an_injected_memory_is_not_repeated_in_the_section(told, clock):
    pip = await told.viewer("pip")
    leaks = "A kiln leaks in the cellar when it is cold"
    await told.impersonate(pip).memories.remember(leaks, kind="learning", sources=["m1"])
    assert leaks in to_text(await told.context(pip, "general"))
    await hears(told, clock, now("n1", BO, ASKED))
    assert leaks in await given(told, "pip")
    context = await told.context(pip, "general", "n1")
    assert to_text(context).count(leaks) == 1
    assert [one.reason for one in context.memory_section.explain()] == ["is among the messages already"]
    assert context.memory_section.tokens + sum(line.tokens for line in context.lines) == context.tokens
    # The block alone has it still.
    block = await told.agents.memory_section(pip, "general", "n1")
    assert [line.text for line in block.lines] == [leaks]


@pytest.mark.slow
async def test_an_injected_message_names_its_memory(told, clock, admin):
    await hears(told, clock, now("n1", BO, ASKED))
    rows = await (
        await admin.execute(
            "select metadata, memory_id from messages join injections on message_id = id where messages.org_id = %s",
            [told.org_id],
        )
    ).fetchall()
    assert len(rows) == 2
    assert all(UUID(metadata["memory_id"]) == memory_id for metadata, memory_id in rows)


@pytest.mark.slow
async def test_a_memory_is_injected_once_until_compaction(told, clock):
    await hears(told, clock, now("n1", BO, ASKED))
    clock.rest()
    await hears(told, clock, now("n2", ANA, ASKED))
    assert await given(told, "pip") == [KILN]
    await told.agents.reset_context("general")
    clock.time = datetime.now(UTC) + 2 * COOLDOWN
    clock.rest()
    await hears(told, clock, now("n3", ANA, ASKED))
    assert await given(told, "pip") == [KILN, KILN]


@pytest.mark.slow
async def test_deliveries_have_a_cooldown(told, clock):
    await told.memories.remember("Bread rises slowly in winter", sources=["m1"])
    await hears(told, clock, now("n1", BO, ASKED))
    await hears(told, clock, now("n2", BO, "bread rises slowly in winter, or not?"))
    assert await given(told, "pip") == [KILN]
    clock.rest()
    await hears(told, clock, now("n3", BO, "bread rises slowly in winter, I said"))
    assert await given(told, "pip") == [KILN, "Bread rises slowly in winter"]


@pytest.mark.slow
async def test_a_delivery_is_limited(told, clock):
    for number in range(5):
        await told.memories.remember(f"The kiln in the cellar has leak {number}", sources=["m1"])
    await hears(told, clock, now("n1", BO, ASKED))
    assert len(await given(told, "pip")) == 3


@pytest.mark.slow
async def test_a_redelivered_message_injects_nothing(told, clock):
    one = now("n1", BO, ASKED)
    await hears(told, clock, one)
    clock.rest()
    await told.agents.reset_context("general")
    assert await hears(told, clock, one) == 0
    assert await given(told, "pip") == [KILN]


@pytest.mark.slow
async def test_a_crashed_worker_injects_nothing_twice(told, clock, monkeypatch):
    await told.ingest(now("n1", BO, ASKED))
    worker = InjectionWorker(db=told.db, now=clock)
    tasks = await waiting(told)
    assert len(tasks) == 1
    with monkeypatch.context() as patch:
        patch.setattr("roomlore.agents.injection.work_queue.finish", None)
        with pytest.raises(TypeError):
            await worker.do(told.org_id, tasks)
    clock.rest()
    await runner.drain(worker, only_org=told.org_id)
    assert await given(told, "pip") == await given(told, "pop") == [KILN]


async def waiting(app: App) -> list:
    async with app.db.system_connection() as conn:
        return await work_queue.take(conn, "inject", app.org_id, per_org=9, total=9, lease=timedelta(0))


@pytest.mark.slow
async def test_concurrent_workers_inject_once(told, clock):
    await told.ingest_batch([now(f"n{number}", BO, ASKED) for number in range(6)])
    await asyncio.gather(
        *(runner.drain(InjectionWorker(db=told.db, now=clock), only_org=told.org_id) for _ in range(4))
    )
    assert await given(told, "pip") == await given(told, "pop") == [KILN]


@pytest.mark.slow
async def test_irrelevant_memories_are_not_injected(told, clock):
    for number, body in enumerate(
        ["bread and butter", "kiln", "we had a long talk about tides, sails, ropes and a kiln", "?!"]
    ):
        await hears(told, clock, now(f"n{number}", BO, body))
    assert await given(told) == []


@pytest.mark.slow
async def test_recent_messages_of_the_room_are_not_injected(told, clock):
    await told.ingest(now("n1", ANA, "the boiler in the attic drips oil"))
    await told.memories.remember("The boiler in the attic drips oil", sources=["n1"])
    await hears(told, clock, now("n2", BO, "does the boiler in the attic drip oil?"))
    assert await given(told) == []


@pytest.mark.slow
async def test_a_new_message_is_a_trigger_in_any_room_with_agents(told, clock):
    quiet = room("quiet", members=(IncomingMembership(author=ANA),))
    attic = room("attic", members=tuple(IncomingMembership(author=who) for who in (BO, PIP)))
    assert await hears(told, clock, old(30, BO, ASKED), now("n1", BO, ASKED, quiet)) == 0
    assert await hears(told, clock, now("a1", BO, ASKED, attic)) == 1
    assert await given(told, "pip", "attic") == [KILN]


@pytest.mark.slow
async def test_injection_can_be_switched_off(told, clock):
    await told.agents.set_injection("general", on=False)
    assert await hears(told, clock, now("n1", BO, ASKED)) == 0
    await told.agents.set_injection("general", on=True)
    assert await hears(told, clock, now("n2", BO, ASKED)) == 1
    with pytest.raises(NotAllowed):
        await told.impersonate(await told.viewer("pip")).agents.set_injection("general", on=False)


@pytest.mark.slow
async def test_a_whisper_triggers_only_its_recipients(told, clock):
    await hears(told, clock, now("n1", BO, ASKED, kind="whisper", audience=(PIP,)))
    assert (await given(told, "pip"), await given(told, "pop")) == ([KILN], [])


async def test_only_agents_and_operators_compact(told):
    assert await told.impersonate(await told.viewer("pip")).agents.reset_context("general")
    with pytest.raises(NotAllowed):
        await told.impersonate(await told.viewer("ana")).agents.reset_context("general")


# It goes with its memory


async def held(admin, app: App) -> tuple:
    query = (
        "select (select count(*) from injections where org_id = %(org)s),"
        " (select count(*) from messages where org_id = %(org)s and is_directed and body <> '')"
    )
    return await (await admin.execute(query, {"org": app.org_id})).fetchone()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "way", ["source", "person", "superseded", "put aside", "trigger", "redacted trigger"]
)
async def test_an_injected_message_is_removed_with_its_memory(told, clock, admin, way):
    [memory] = await told.memories.all(told.operator)
    asked = now("n1", BO, ASKED)
    await hears(told, clock, asked)
    assert await held(admin, told) == (2, 2)
    match way:
        case "source":
            await told.erasure.message("m1")
        case "person":
            await told.erasure.person("ana")
        case "superseded":
            await told.memories.remember("The kiln was mended", sources=["m1"], supersedes=str(memory.id))
        case "put aside":
            await told.memories.archive(str(memory.id))
        case "trigger":
            await told.erasure.message("n1")
        case "redacted trigger":
            await told.ingest(dataclasses.replace(asked, deleted=True))
    assert await given(told, "pip") == await given(told, "pop") == []
    await InjectionWorker(db=told.db, now=clock).begin(told.org_id)
    assert await held(admin, told) == (0, 0)


@pytest.mark.slow
async def test_injected_messages_are_removed_with_the_agent(told, clock, admin):
    await hears(told, clock, now("n1", BO, ASKED))
    await told.erasure.person("pip")
    assert await held(admin, told) == (1, 1)


@pytest.mark.slow
async def test_an_injected_message_can_be_erased(told, clock, admin):
    await hears(told, clock, now("n1", BO, ASKED))
    [[key]] = await (
        await admin.execute(
            "select id from messages where org_id = %s and is_directed limit 1", [told.org_id]
        )
    ).fetchall()
    receipt = await told.erasure.message(str(key))
    assert all(check.found == 0 for check in receipt.checks)
    assert await held(admin, told) == (1, 1)


@pytest.mark.slow
async def test_an_agent_that_lost_access_no_longer_sees_the_injection(told, clock):
    await told.memories.remember(SECRET, sources=["m4"])
    asked = "the cellar kiln key hangs behind the clock?"
    await hears(told, clock, now("n1", ANA, asked, kind="whisper", audience=(PIP,)))
    assert SECRET in await given(told, "pip")

    async def leave(conn) -> None:
        await conn.execute(
            "update memberships set joined_at = now() where participant_id ="
            " (select participant_id from platform_accounts where account_id = 'pip')"
            " and room_id = (select id from rooms where external_id = 'den')"
        )

    await told.db.change(told.org_id, leave)
    assert SECRET not in await given(told, "pip")


# It is nobody's statement


@pytest.fixture
async def injected(told, clock) -> App:
    await hears(told, clock, now("n1", BO, "the kiln in the cellar leaks?"))
    assert len(await given(told)) == 2
    await told.drain()
    return told


async def test_injected_messages_are_not_embedded_grouped_or_counted(injected, admin):
    directed = "select id from messages where org_id = %(org)s and is_directed"
    for table in ("message_embeddings", "conversation_messages", "message_revisions", "memory_sources"):
        query = f"select count(*) from {table} where message_id in ({directed})"
        assert await (await admin.execute(query, {"org": injected.org_id})).fetchone() == (0,), table
    query = (
        "select (select count(*) from embeddable_messages where id in (" + directed + ")),"
        " (select count(*) from room_activity where participant_id in (select author_id from messages where is_directed"
        " and org_id = %(org)s)), (select count(*) from work_queue where subject_id in (" + directed + "))"
    )
    assert await (await admin.execute(query, {"org": injected.org_id})).fetchone() == (0, 0, 0)


@pytest.mark.slow
async def test_injected_messages_are_not_searched(injected):
    for name in ("pip", "pop"):
        viewer = await injected.viewer(name)
        found = await injected.search(viewer, "known since kiln cellar gas", limit=50)
        assert {said.kind for hit in found.hits for said in hit.messages} <= {"message", "whisper"}
        answer = await injected.ask(viewer, "what did roomlore say about the kiln?")
        assert "Known since" not in str(answer)


async def test_injected_messages_are_no_source(injected, admin):
    [[key]] = await (
        await admin.execute(
            "select id from messages where org_id = %s and is_directed limit 1", [injected.org_id]
        )
    ).fetchall()
    with pytest.raises(BadInput):
        await injected.memories.remember("The kiln leaks, I was told", sources=[str(key)])
    kinds = await (
        await admin.execute(
            "select distinct messages.kind from memory_sources join messages on messages.id = memory_sources.message_id"
            " where memory_sources.org_id = %s",
            [injected.org_id],
        )
    ).fetchall()
    assert kinds == [("message",)]


async def test_an_injected_message_is_not_the_last_message(injected):
    context = await injected.context(await injected.viewer("pip"), "general")
    assert context.lines[-1].message.external_id == "n1"
    assert "(context) [roomlore]: Known since" in to_text(context)
