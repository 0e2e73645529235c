"""Whether an agent should answer, in rooms as they are: what it may not see changes nothing."""

from datetime import UTC, datetime, timedelta

import pytest

from conftest import TellOnce
from ingest.stories import author, message, room
from roomlore.agents.reply_policy import Decision
from roomlore.domain.errors import BadInput, NotAllowed, NotFound
from roomlore.domain.incoming import IncomingMembership
from roomlore.operations import App

ANA, BO = author("ana"), author("bo")
PIP, POP = author("pip", kind="agent"), author("pop", kind="agent")
NOON = datetime.now(UTC).replace(microsecond=0) - timedelta(days=1)
GENERAL = room("general", members=tuple(IncomingMembership(author=who) for who in (ANA, BO, PIP, POP)))
DEN = room("den", visibility="members", members=tuple(IncomingMembership(author=who) for who in (ANA, POP)))
KEY = "The key of the cellar kiln hangs behind the clock"
QUESTION = "where is the key of the cellar kiln?"


def said(key: str, who, body: str, *, minute: float, where=GENERAL, **fields):
    return message(key, body, author=who, room=where, sent_at=NOON + timedelta(minutes=minute), **fields)


async def long_ago(app: App) -> None:
    lines = [
        said("m1", BO, KEY, minute=-300),
        said("m2", PIP, "noted", minute=-299),
        said("m3", POP, "noted", minute=-298),
    ]
    assert (await app.ingest_batch(lines)).skipped == []


@pytest.fixture
async def told(app: App, tell_once: TellOnce) -> App:
    await tell_once(app, long_ago)
    return app


async def decided(app: App, *lines, by: str = "pip", where: str = "general", at: str = "last") -> Decision:
    accepted = await app.ingest_batch(lines)
    assert accepted.skipped == []
    return await app.agents.should_answer(await app.viewer(by), where, at)


async def test_an_unanswered_question_with_relevant_memories_is_answered(told):
    question = said("q", ANA, QUESTION, minute=0)
    before = await decided(told, question)
    assert (before.answer, before.score) == (False, 0)
    memory = await told.memories.remember(KEY, sources=["m1"])
    after = await decided(told)
    assert after.answer
    assert after.score >= 0.4
    assert after.reason.memory_ids == [memory.id]
    answered = await decided(
        told, said("a", BO, "behind the clock", minute=1, reply_to="q"), by="pip", at="q"
    )
    assert answered.reason.what == "somebody answered it"


async def test_own_assertions_are_no_reason_to_answer(told):
    pip = told.impersonate(await told.viewer("pip"))
    await pip.memories.remember(KEY, kind="learning")
    question = said("q", ANA, QUESTION, minute=0)
    assert not (await decided(told, question)).answer
    assert not (await decided(told, by="pop")).answer


async def test_names_mentions_replies_and_whispers_address_the_agent_or_others(told):
    await told.memories.remember(KEY, sources=["m1"])
    to_pip = [
        {"body": "pip, are you there?"},
        {"mentions": ("pip",)},
        {"reply_to": "m2"},
        {"kind": "whisper", "audience": (PIP,)},
    ]
    to_others = [{"body": f"bo, {QUESTION}"}, {"mentions": ("pop",)}, {"reply_to": "m1"}]
    for why, cases in (("it is said to the agent", to_pip), ("it is said to somebody else", to_others)):
        for number, fields in enumerate(cases):
            line = said(f"{why}{number}", ANA, minute=number, **({"body": QUESTION} | fields))
            assert (await decided(told, line, at=line.external_id)).reason.what == why, fields


async def test_small_talk_with_a_name_is_small_talk(told):
    for number, body in enumerate(["thank you, Pip!", "ok pip", "@pip thanks"]):
        agents = await decided(told, said(f"q{number}", POP, body, minute=2 * number))
        assert agents.reason.what == "it is small talk of an agent"
        assert (await decided(told, said(f"r{number}", ANA, body, minute=2 * number + 1))).answer


async def test_a_dm_addresses_the_agent(told):
    dm = room("dm", kind="dm", visibility="members", members=tuple(map(_member, (ANA, PIP))))
    decision = await decided(told, said("d1", ANA, "the kiln is hot", minute=0, where=dm), where="dm")
    assert decision.reason.what == "it is said to the agent"


async def test_agents_stop_answering_each_other(told):
    speakers = {"pip": PIP, "pop": POP}
    silent: list[str] = []
    await told.ingest(said("l0", POP, "pip, what do you make of the kiln?", minute=0))
    turn = "pip"
    for number in range(1, 20):
        decision = await decided(told, by=turn)
        if not decision.answer:
            silent.append(decision.reason.what)
            break
        other = "pop" if turn == "pip" else "pip"
        line = f"{other}, I make this of it: it leaks, part {number}. And you?"
        await told.ingest(said(f"l{number}", speakers[turn], line, minute=number))
        turn = other
    assert silent == ["the agent and others went to and fro 3 times"]
    # A human sets them going again.
    assert (await decided(told, said("h", ANA, "pip, go on please", minute=50))).answer


@pytest.mark.sampled(1)
@pytest.mark.parametrize("between", ["notices", "removed", "injected"])
async def test_notices_and_removed_messages_do_not_reset_the_loop_guard(told, admin, between):
    """Who answers twice with a screenful between has answered twice."""
    notice = author("", kind="system", name="notice")
    who = {"notices": notice, "removed": BO, "injected": BO}[between]
    lines, before = [], None
    for turn in range(12):
        speaker = (PIP, POP)[turn % 2]
        lines.append(said(f"l{turn}", speaker, f"what of part {turn} of it?", minute=turn, reply_to=before))
        before = f"l{turn}"
        lines += [said(f"n{turn}-{n}", who, "done", minute=turn + (n + 1) / 50) for n in range(41)]
    assert (await told.ingest_batch(lines)).skipped == []
    if between != "notices":
        change = {"removed": "redacted_at = now(), body = ''", "injected": "kind = 'context_injection'"}[
            between
        ]
        await admin.execute(
            f"update messages set {change} where org_id = %s and external_id like 'n%%-%%'", [told.org_id]
        )
    silent = await decided(told, at="l11")
    assert (silent.answer, silent.reason.what) == (False, "the last 14 messages by agents alone")


# What it may not see


@pytest.mark.parametrize("by", ["pip", "pop"], ids=["as one who may not see it", "as one who may"])
async def test_invisible_messages_do_not_change_a_decision(told, by):
    """Every way in which something unseen might turn a decision; where everybody sees it, it does."""
    question = said("q", ANA, QUESTION, minute=0)
    first = await decided(told, question, by=by)
    assert not first.answer
    # A memory that rests on a closed room.
    await told.ingest(said("d1", ANA, KEY, minute=-200, where=DEN))
    memory = await told.memories.remember(KEY, sources=["d1"])
    assert await decided(told, by=by) == first
    # A whispered answer.
    await told.ingest(
        said("w", BO, "ana, behind the clock", minute=1, kind="whisper", audience=(ANA, POP), reply_to="q")
    )
    assert await told.agents.should_answer(await told.viewer(by), "general", "q") == first
    if by == "pop":
        inside = await decided(told, said("d2", ANA, QUESTION, minute=2, where=DEN), by=by, where="den")
        assert (inside.answer, inside.reason.memory_ids) == (True, [memory.id])


async def test_invisible_whispers_do_not_reset_the_loop_guard(told):
    lines = [
        said(f"l{number}", (POP, PIP)[number % 2], f"{('pip', 'pop')[number % 2]}: and?", minute=number)
        for number in range(7)
    ]
    silent = await decided(told, *lines)
    assert not silent.answer
    whisper = said("w", ANA, "stop that, all of you", minute=5.5, kind="whisper", audience=(BO,))
    assert await decided(told, whisper) == silent
    heard = said("h", ANA, "what a talk", minute=5.6)
    assert (await decided(told, heard)).answer


async def test_restricted_memories_do_not_count(told):
    await told.memories.remember(KEY, sources=["m1"])
    assert (await decided(told, said("q", ANA, QUESTION, minute=0))).answer
    await told.ingest(said("f", BO, "forget what I said about the key of the cellar kiln", minute=1))
    assert not (await decided(told, at="q")).answer


async def test_a_message_of_another_room_is_not_found(told):
    with pytest.raises(NotFound):
        await decided(told, said("d1", ANA, "pip, look", minute=0, where=DEN), where="den")


async def test_only_an_agent_asks_for_itself(told):
    with pytest.raises(BadInput, match="Ana: is no agent"):
        await decided(told, said("q", ANA, QUESTION, minute=0), by="ana")
    with pytest.raises(BadInput, match="an operator: is no agent"):
        await told.agents.should_answer(told.operator, "general")
    pop = told.impersonate(await told.viewer("pop"))
    with pytest.raises(NotAllowed):
        await pop.agents.should_answer(await told.viewer("pip"), "general")


async def test_a_removed_message_is_left_alone(told):
    await told.ingest(said("q", ANA, "pip: look", minute=0))
    await told.erasure.redact("q", room="general")
    assert (await decided(told, at="q")).reason.what == "there is nothing that the agent may read"


def _member(who) -> IncomingMembership:
    return IncomingMembership(author=who)
