"""A bot's own call stores its messages in Roomlore, with the author that the call states or means."""

from datetime import timedelta

import pytest

from legacy.conftest import Legacy
from legacy.test_chat_history import (
    ANA,
    BEN,
    ELENA,
    HARBOUR,
    IDS,
    MARCUS,
    NOON,
    authors,
    message_id,
    migrated,
    row,
    said,
)
from roomlore.domain.errors import BadInput, NotAllowed
from roomlore.legacy.compatibility import MemoryManager
from roomlore.operations import App


async def test_the_role_tells_the_author_if_the_call_does_not(app: App):
    memory = MemoryManager(rooms=app, characters=IDS)
    await memory.add_message(ANA, "elena", "human", "hello", "Ana", HARBOUR, message_id(1))
    await memory.add_message(
        ANA, "elena", "ai", "good day", "Ana", HARBOUR, message_id(2), reply_to_msg_id=message_id(1)
    )
    await memory.add_message(ANA, "dotty", "ai", "me too", channel_id=HARBOUR)
    assert await authors(app, HARBOUR) == {
        "hello": (ANA, "human"),
        "good day": (ELENA, "agent"),
        "me too": ("dotty", "agent"),
    }
    found = await said(app, HARBOUR)
    threads = await app.threads(app.operator, HARBOUR)
    edges = [(edge.child_id, edge.parent_id) for thread in threads for edge in thread.replies]
    assert (found["good day"].id, found["hello"].id) in edges


async def test_a_stated_author_is_not_the_person_that_the_bot_talks_with(app: App):
    memory = MemoryManager(rooms=app)
    await memory.add_message(
        MARCUS, "elena", "human", "hi", channel_id=HARBOUR, author_id=MARCUS, author_is_bot=True
    )
    await memory.add_message(ANA, "elena", "human", "look", channel_id=HARBOUR, author_id=BEN)
    await memory.add_message(
        f"channel_{HARBOUR}", "elena", "ai", "good morning", author_id=ELENA, author_is_bot=True
    )
    assert await authors(app, HARBOUR) == {
        "hi": (MARCUS, "agent"),
        "look": (BEN, "human"),
        "good morning": (ELENA, "agent"),
    }


async def test_the_same_message_is_stored_once_and_is_that_of_the_table(app: App, legacy: Legacy):
    memory = MemoryManager(rooms=app, characters=IDS)
    told = (ANA, "elena", "human", "message 1", "Ana", HARBOUR, message_id(1), {"mood": "calm"})
    first = await memory.add_message(*told)
    assert await memory.add_message(*told) == first
    legacy.tell(row(1), row(2, channel_id=None, message_id=None))
    await memory.add_message(ANA, "elena", "human", "message 2", timestamp=NOON + timedelta(minutes=2))
    report = await migrated(app, legacy)
    assert report.stored == {"added": 0, "unchanged": 2, "revised": 0, "redacted": 0}


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ((ANA, "elena", "narrator", "once"), "unknown role"),
        ((ANA, "elena", "human", ""), "no text"),
        ((f"channel_{HARBOUR}", "elena", "human", "hi"), "no author"),
    ],
)
async def test_a_call_that_names_no_author_or_text_is_refused(app: App, told, why):
    with pytest.raises(BadInput, match=why):
        await MemoryManager(rooms=app).add_message(*told)
    assert await app.rooms(app.operator) == []


# Conversations


async def test_a_conversation_is_two_messages_with_their_own_authors_and_a_reply(app: App):
    memory = MemoryManager(rooms=app, characters=IDS, character="elena")
    first, second = await memory.store_conversation(
        ANA, "thanks!", "You are welcome!", HARBOUR, {"mood": "glad"}, {"source": "chat"}, user_name="Ana"
    )
    assert await authors(app, HARBOUR) == {"thanks!": (ANA, "human"), "You are welcome!": (ELENA, "agent")}
    found = await said(app, HARBOUR)
    asked, answer = found["thanks!"], found["You are welcome!"]
    assert (asked.id, answer.id, answer.reply_to) == (first, second, first)
    assert asked.metadata["platform"]["legacy"] == {"emotion_data": {"mood": "glad"}, "source": "chat"}
    assert "legacy" not in answer.metadata["platform"]


async def test_a_conversation_is_stored_as_a_whole_or_not_at_all(app: App):
    memory = MemoryManager(rooms=app, characters=IDS, character="elena")
    with pytest.raises(BadInput, match="no text"):
        await memory.store_conversation(ANA, "hello", "")
    assert await app.rooms(app.operator) == []


async def test_a_stored_conversation_is_stored_once(app: App):
    memory = MemoryManager(rooms=app, characters=IDS)
    told = (ANA, "hello", "good day")
    first = await memory.store_conversation(*told, character_name="elena", timestamp=NOON)
    assert await memory.store_conversation(*told, character_name="elena", timestamp=NOON) == first
    assert await memory.store_conversation(*told, character_name="marcus", timestamp=NOON) != first


async def test_the_history_is_that_of_the_person_and_the_bot(app: App):
    memory = MemoryManager(rooms=app, characters=IDS, character="elena")
    await memory.store_conversation(ANA, "hello", "good day", user_name="Ana", timestamp=NOON)
    await memory.store_conversation(BEN, "secret", "of course", timestamp=NOON)
    await memory.store_conversation(ANA, "to marcus", "yes", character_name="marcus", timestamp=NOON)
    history = await memory.get_conversation_history(ANA)
    assert [(one["role"], one["content"], one["author_name"]) for one in history] == [
        ("user", "hello", "Ana"),
        ("bot", "good day", "elena"),
    ]
    assert history[0]["timestamp"] == NOON.isoformat()
    assert await memory.get_conversation_history(MARCUS) == []
    assert await memory.get_conversation_history(ANA, character_name="dotty") == []


async def test_another_bot_of_a_channel_is_no_bot_of_the_history_but_is_marked_as_one(app: App):
    memory = MemoryManager(rooms=app, characters=IDS, character="elena")
    await memory.add_message(f"channel_{HARBOUR}", "elena", "ai", "good morning", timestamp=NOON)
    await memory.store_conversation(ANA, "hello", "good day", HARBOUR, timestamp=NOON + timedelta(minutes=1))
    await memory.add_message(ANA, "marcus", "ai", "me too", channel_id=HARBOUR)
    history = await memory.get_conversation_history(ANA, channel_id=HARBOUR)
    assert [(one["content"], one["role"], one["author_is_bot"]) for one in history] == [
        ("good morning", "bot", True),
        ("hello", "user", False),
        ("good day", "bot", True),
        ("me too", "user", True),
    ]


async def test_no_answer_comes_without_its_question(app: App):
    memory = MemoryManager(rooms=app, characters=IDS, character="elena")
    for number in range(3):
        moment = NOON + timedelta(minutes=number)
        await memory.store_conversation(ANA, f"q{number}", f"a{number}", timestamp=moment)

    async def texts(limit: int) -> list[str]:
        return [one["content"] for one in await memory.get_conversation_history(ANA, limit)]

    assert await texts(2) == ["q2", "a2"]
    assert await texts(3) == ["q1", "a1", "q2", "a2"]
    assert await texts(50) == ["q0", "a0", "q1", "a1", "q2", "a2"]


# Facts and trust


async def test_facts_are_about_who_said_them_and_are_remembered_by_the_bot(app: App):
    memory = MemoryManager(rooms=app, characters=IDS)
    await memory.store_conversation(ANA, "I like tea", "Noted", character_name="elena", user_name="Ana")
    facts = ["Ana has a boat", {"subject": "Ana", "predicate": "LIKES", "object": "tea", "confidence": 0.5}]
    ids = await memory.save_facts(ANA, facts, "elena")
    assert await memory.save_facts(ANA, facts, "elena") == ids
    elena = await app.viewer(ELENA)
    found = {one.id: one for one in await app.memories.all(elena)}
    assert found.keys() == set(ids)
    boat, tea = (found[key] for key in ids)
    assert (boat.content, boat.kind, tea.content, tea.confidence) == (
        "Ana has a boat",
        "fact",
        "Ana likes tea",
        0.25,
    )
    assert {person.name for person in boat.participants if person.role == "subject"} == {"Ana"}
    assert boat.asserted_by == elena.participant_id
    assert await app.memories.all(await app.viewer(ANA)) == []


async def test_a_fact_that_a_message_states_is_its_authors_and_may_be_read_where_the_message_may(app: App):
    memory = MemoryManager(rooms=app, characters=IDS)
    await memory.add_message(
        ANA, "elena", "ai", "good day", channel_id=HARBOUR, message_id=message_id(1), author_id=ELENA
    )
    await memory.add_message(
        ANA, "elena", "human", "I like tea", channel_id=HARBOUR, message_id=message_id(2), author_id=BEN
    )
    await memory.save_facts(BEN, ["I like tea"], "elena", channel_id=HARBOUR, message_id=message_id(2))
    ben = await app.viewer(BEN)
    [fact] = await app.memories.all(ben)
    assert {(person.role, person.id) for person in fact.participants} >= {
        ("author", ben.participant_id),
        ("subject", ben.participant_id),
    }


async def test_a_bot_learns_about_a_bot_by_its_name(app: App):
    memory = MemoryManager(rooms=app, characters=IDS)
    await memory.store_conversation(ANA, "hello", "good day", HARBOUR, character_name="elena")
    await memory.save_facts("elena", ["Elena likes the sea"], "elena", is_bot=True)
    [fact] = await app.memories.all(await app.viewer(ELENA))
    assert {person.name for person in fact.participants if person.role == "subject"} == {"elena"}


async def test_trust_is_that_of_the_bot_in_the_author(app: App):
    memory = MemoryManager(rooms=app, characters=IDS)
    await memory.store_conversation(ANA, "hello", "good day", HARBOUR, character_name="elena")
    await memory.add_message(BEN, "elena", "human", "hi", channel_id=HARBOUR)
    await memory.add_message(ANA, "marcus", "ai", "hi all", channel_id=HARBOUR)
    assert await memory.update_trust(BEN, "elena", 0.9) == 0.9
    assert await memory.update_trust("marcus", "elena", 0.2, is_bot=True) == 0.2
    stated = {
        one.name: one.stated.trust
        for one in await app.agents.relationships(app.operator, ELENA)
        if one.stated is not None
    }
    assert stated == {BEN: 0.9, "marcus": 0.2}


@pytest.mark.parametrize("user", [f"channel_{HARBOUR}", ELENA])
async def test_trust_in_a_channel_or_in_oneself_is_refused(app: App, user: str):
    memory = MemoryManager(rooms=app, characters=IDS)
    await memory.store_conversation(ANA, "hello", "good day", HARBOUR, character_name="elena")
    with pytest.raises(BadInput):
        await memory.update_trust(user, "elena", 0.9)


@pytest.mark.parametrize("fact", [{}, {"subject": "Ana", "predicate": "LIKES"}, "", {"content": " "}])
async def test_a_fact_without_words_is_refused(app: App, fact):
    memory = MemoryManager(rooms=app, characters=IDS)
    await memory.store_conversation(ANA, "hello", "good day", HARBOUR, character_name="elena")
    with pytest.raises(BadInput):
        await memory.save_facts(ANA, [fact], "elena")


async def test_a_call_must_name_its_bot(app: App):
    with pytest.raises(BadInput, match="must be named"):
        await MemoryManager(rooms=app).store_conversation(ANA, "hello", "good day")


# Tasks


async def of_tasks(app: App) -> MemoryManager:
    memory = MemoryManager(rooms=app, characters=IDS)
    await memory.store_conversation(ANA, "how are the exports?", "slow", HARBOUR, character_name="elena")
    elena = app.impersonate(await app.viewer(ELENA))
    await elena.memories.remember("Retry with a pause", kind="learning", tags=["retries"], task="T-1")
    await elena.memories.remember("Exports hang on Mondays", kind="insight", importance=2)
    await elena.memories.remember("The lamp is broken", kind="observation", importance=1, task="T-2")
    return memory


async def test_memories_with_a_tag_of_the_task_come_before_those_with_its_words(app: App):
    memory = await of_tasks(app)
    found = await memory.get_relevant_memories_for_task("elena", "make exports faster", ["retries"])
    assert [one.content for one in found] == ["Retry with a pause", "Exports hang on Mondays"]
    [first] = await memory.get_relevant_memories_for_task(
        "elena", "make exports faster", ["retries"], limit=1
    )
    assert first.content == "Retry with a pause"
    [only] = await memory.get_relevant_memories_for_task("elena", "replace the lamp", limit=1)
    assert only.content == "The lamp is broken"


async def test_the_context_of_a_task_has_its_memories_and_the_agents_insights_and_learnings(app: App):
    memory = await of_tasks(app)
    found = await memory.get_agent_context_for_task("elena", "T-2")
    assert [one.content for one in found.memories] == ["The lamp is broken"]
    assert [one.content for one in found.insights] == ["Exports hang on Mondays"]
    assert [one.content for one in found.learnings] == ["Retry with a pause"]
    assert found.section is None
    answering = await memory.get_agent_context_for_task("elena", "T-2", channel_id=HARBOUR)
    assert answering.section is not None
    assert answering.section.agent_id == (await app.viewer(ELENA)).participant_id


async def test_with_the_key_of_a_bot_the_calls_act_as_this_bot(app: App):
    operator = await of_tasks(app)
    elena = MemoryManager(rooms=app.impersonate(await app.viewer(ELENA)), characters=IDS)
    assert (await elena.get_conversation_history(ANA, 1, "elena", HARBOUR))[-1]["content"] == "slow"
    await elena.update_trust(ANA, "elena", 0.8)
    await operator.add_message(BEN, "marcus", "ai", "hi", channel_id=HARBOUR)
    with pytest.raises(NotAllowed):
        await elena.update_trust(ANA, "marcus", 0.8)
    with pytest.raises(NotAllowed):
        await elena.add_message(ANA, "elena", "human", "hello")
