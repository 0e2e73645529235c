"""Answers become memories after they were given, where that is worth it, once."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from conftest import TellOnce
from ingest.stories import author, message, room
from roomlore.agents.interactions import InteractionWorker
from roomlore.domain.errors import BadInput, NotAllowed, NotFound
from roomlore.domain.incoming import IncomingMembership
from roomlore.jobs import runner
from roomlore.operations import App

ANA, BO = author("ana"), author("bo")
PIP, POP = author("pip", kind="agent"), author("pop", kind="agent")
NOON = datetime.now(UTC) - timedelta(days=2)
DEN = room("den", visibility="members", members=tuple(IncomingMembership(author=who) for who in (ANA, PIP)))


def said(number: int, who, body: str, **fields):
    return message(f"m{number}", body, author=who, sent_at=NOON + timedelta(minutes=number), **fields)


QUESTION = said(1, ANA, "Which driver does the attic printer need?", mentions=("pip",))
ANSWER = said(2, PIP, "It needs toner-blue 4.2; the installer is on the shelf drive.")
GREETING = said(3, BO, "hi pip")
GREETED = said(4, PIP, "Hello!")


async def asked_and_answered(app: App) -> None:
    assert (await app.ingest_batch([QUESTION, ANSWER, GREETING, GREETED])).skipped == []


@pytest.fixture
async def told(app: App, tell_once: TellOnce) -> App:
    await tell_once(app, asked_and_answered)
    return app


async def noting(app: App, trigger: str, reply: str, *, by: str = "pip", where: str = "general") -> None:
    acting = app.impersonate(await app.viewer(by))
    await acting.agents.record_reply(where, trigger=trigger, reply=reply)


async def work_off(app: App) -> int:
    return (await runner.drain(InteractionWorker(db=app.db), only_org=app.org_id)).done


async def remembered(app: App, **looked) -> list:
    return await app.agents.memories(app.operator, "pip", kinds=["interaction"], **looked)


async def test_a_recorded_reply_becomes_a_memory(told):
    await noting(told, "m1", "m2")
    assert await remembered(told) == []
    assert await work_off(told) == 1
    [memory] = await remembered(told)
    assert memory.content == (
        "Ana: “Which driver does the attic printer need?”"
        " Pip: “It needs toner-blue 4.2; the installer is on the shelf drive.”"
    )
    assert 2.5 <= memory.importance <= 3
    assert {(person.role, person.name) for person in memory.participants} == {
        ("perspective", "Pip"),
        ("author", "Pip"),
        ("involved", "Ana"),
    }
    why = await told.memories.provenance(told.operator, str(memory.id))
    assert [source.message.external_id for source in why.sources] == ["m1", "m2"]


async def test_small_talk_becomes_no_memory(told):
    await noting(told, "m3", "m4")
    assert await work_off(told) == 1
    assert await remembered(told) == []


async def test_recording_again_changes_nothing(told):
    await asyncio.gather(*(noting(told, "m1", "m2") for _ in range(4)))
    await work_off(told)
    await noting(told, "m1", "m2")
    await work_off(told)
    assert len(await remembered(told)) == 1


async def test_an_archived_interaction_stays_archived(told):
    await noting(told, "m1", "m2")
    await work_off(told)
    [memory] = await remembered(told)
    await told.memories.archive(str(memory.id))
    await noting(told, "m1", "m2")
    await work_off(told)
    assert await remembered(told) == []


async def test_a_crashed_worker_loses_no_reply(told, monkeypatch):
    await noting(told, "m1", "m2")

    async def die(*_: object) -> None:
        raise asyncio.CancelledError

    with monkeypatch.context() as patch:
        patch.setattr("roomlore.agents.interactions.upsert", die)
        with pytest.raises(asyncio.CancelledError):
            await work_off(told)
    assert (await told.waiting("interactions")).waiting == 1
    assert await work_off(told) == 1
    assert len(await remembered(told)) == 1


@pytest.mark.parametrize("gone", ["m1", "m2"])
async def test_an_erased_reply_becomes_no_memory(told, gone):
    await noting(told, "m1", "m2")
    await told.erasure.message(gone)
    assert (await told.waiting("interactions")).waiting == 0
    await work_off(told)
    assert await remembered(told) == []


@pytest.mark.parametrize("gone", ["m1", "m2"])
async def test_an_interaction_is_erased_with_either_message(told, gone):
    await noting(told, "m1", "m2")
    await work_off(told)
    await told.erasure.message(gone)
    assert await remembered(told) == []


async def test_an_interaction_is_visible_to_readers_of_both_messages(app):
    question, answer = (
        message(one.external_id, one.body, author=one.author, sent_at=one.sent_at, room=DEN)
        for one in (QUESTION, ANSWER)
    )
    await app.ingest_batch([question, answer, GREETING])
    await noting(app, "m1", "m2", where="den")
    await work_off(app)
    for name, count in (("pip", 1), ("ana", 1), ("bo", 0)):
        assert len(await app.memories.all(await app.viewer(name))) == count


async def test_only_an_agent_records_its_own_reply(told):
    with pytest.raises(NotAllowed):
        await noting(told, "m1", "m2", by="ana")
    with pytest.raises(NotAllowed):
        await told.agents.record_reply("general", trigger="m1", reply="m2")
    with pytest.raises(BadInput, match="reply"):
        await noting(told, "m1", "m3")
    with pytest.raises(BadInput, match="trigger"):
        await noting(told, "m2", "m4")
    with pytest.raises(NotFound):
        await noting(told, "m1", "m99")
    await told.ingest(message("den-1", "secret", author=ANA, room=room("attic", visibility="members")))
    with pytest.raises(NotFound):
        await noting(told, "den-1", "m2", where="attic")


async def test_an_injected_message_is_no_trigger(told):
    await told.ingest(said(5, BO, "Ana likes tea", kind="context_injection"))
    with pytest.raises(BadInput, match="not a message or a whisper"):
        await noting(told, "m5", "m2")
