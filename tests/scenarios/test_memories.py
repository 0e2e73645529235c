"""Stories for B5 to B9: what an org remembers, what it leads back to, how it is asked for and given.

B1 and B2 are told in `test_story.py` and `tests/db`, B3 and B4 in `tests/jobs`, B11 and B10 are not there yet. Of
B7 the call is told here and the command in `tests/surfaces/test_memories.py`; route, tool and page are to come.
"""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from roomlore.agents.injection import InjectionWorker
from roomlore.domain.errors import BadInput, NotFound
from roomlore.jobs import runner
from roomlore.search.fallback_chain import UNKNOWN_ANSWER
from scenarios.kilnhouse import (
    HOME,
    INES,
    MARA,
    NOON,
    OFFICE,
    TEO,
    acting,
    contents,
    known,
    names,
    remember,
    said,
    tell,
)

BURN = (
    "To open the kiln, first wait until it is below 200 degrees, then open the vent and only then the door."
)
MOVED = "I moved to Braga this week, I don't live in Porto any more."
WAS, IS = f"Teo: \u201c{HOME}\u201d", f"Teo: \u201c{MOVED}\u201d"
DEFAULTS = {
    "decision": 4,
    "announcement": 3,
    "answer": 3,
    "promise": 3,
    "resource": 3,
    "technical_decision": 4,
    "process_decision": 4,
    "preference": 3,
    "fact": 3,
    "lesson": 4,
    "pattern": 3.5,
    "anti_pattern": 3.5,
    "correction": 3.5,
    "process_outcome": 3,
    "context": 2,
}


async def test_b5_each_kind_has_its_importance(house):
    for number, (kind, importance) in enumerate(DEFAULTS.items()):
        memory = await remember(house, None, f"Statement {number}", kind=kind, sources=["glaze"])
        assert (memory.kind, memory.importance) == (kind, importance)
    for importance in (1, 5):
        kept = await remember(house, None, f"Weighs {importance}", importance=importance)
        assert kept.importance == importance
    for wrong in ({"importance": 0}, {"importance": 5.5}, {"confidence": 1.5}, {"kind": "opinion"}):
        with pytest.raises(BadInput):
            await remember(house, None, "Never kept", **wrong)
    assert "Never kept" not in await contents(house)


async def test_b5_a_memory_says_what_it_is_where_it_is_from_and_since_when_it_holds(house):
    burnt = said("burnt", INES, BURN, sent_at=NOON + timedelta(hours=6))
    await tell(house, burnt, said("burnt-ok", TEO, "thanks", sent_at=burnt.sent_at + timedelta(minutes=1)))
    [burn] = await known(house, kinds=["lesson"])
    assert burn.content == f"Ines: \u201c{BURN}\u201d"
    assert burn.title == "To open the kiln, first wait until it is below 200 degrees, \u2026"
    assert (burn.status, burn.sensitivity, burn.superseded_by) == ("active", "normal", None)
    assert 1 <= burn.importance <= 5
    assert 0 < burn.confidence < 1
    assert burn.valid_from == burnt.sent_at < burn.recorded_at
    why = await house.memories.provenance(house.operator, str(burn.id))
    [conversation] = {source.conversation_id for source in why.sources}
    assert conversation in {one.id for one in await house.conversations.all(house.operator, "studio")}
    assert {source.room_name for source in why.sources} == {"studio"}


async def test_b5_a_sensitive_one_is_for_those_who_were_there(house):
    hidden = await remember(house, None, "The safe is old", sources=["safe"], sensitive=True)
    assert hidden.sensitivity == "sensitive"
    assert hidden in await known(house, "teo")
    assert hidden not in await known(house, "ines")


async def test_b5_the_same_is_kept_once_among_those_that_stand(house):
    first = await remember(house, None, "The wheel squeaks", sources=["glaze"])
    again = await remember(house, None, "The wheel  squeaks", sources=["clay"])
    assert again.id == first.id
    assert len(again.sources) == 2
    other = await remember(
        house, None, "The wheel was oiled", sources=["glaze", "clay"], supersedes=str(first.id)
    )
    assert other.id != first.id
    [old] = [one for one in await known(house, statuses=["deprecated"]) if one.id == first.id]
    assert old.superseded_by == other.id


async def test_b5_it_is_the_orgs_and_no_agent_that_goes_takes_one_along(house):
    await remember(house, "pip", "Celadon crawls when it is thick", kind="learning", sources=["ask"])
    await remember(house, "pip", "Mara asks before she fires", kind="insight", sources=["ask"])
    before = await contents(house) - await quoting(house, "Pip")
    receipt = await house.erasure.person("pip")
    assert receipt.is_clean
    after = await contents(house)
    assert {"Celadon crawls when it is thick", "Mara asks before she fires"} <= before
    assert after == before
    # Its own words go with it.
    assert not await quoting(house, "Pip")
    assert all("Pip" not in names(one, "perspective") for one in await known(house))


async def quoting(app, name: str) -> set[str]:
    return {content for content in await contents(app) if f"{name}: \u201c" in content}


@pytest.fixture
async def moved(house):
    """Teo has moved since."""
    await tell(house, *later(("moved", TEO, MOVED, None), ("moved-ok", INES, "since when?", "moved")))
    return house


def later(*lines):
    start = NOON + timedelta(hours=6)
    return [
        said(key, who, body, reply_to=reply_to, sent_at=start + timedelta(minutes=number))
        for number, (key, who, body, reply_to) in enumerate(lines)
    ]


async def test_b6_what_was_superseded_stays_as_history_and_comes_with_its_successor(moved):
    [old] = await known(moved, about="teo", statuses=["deprecated"])
    [new] = await known(moved, about="teo")
    assert (old.content, new.content) == (WAS, IS)
    told = await moved.memories.provenance(moved.operator, str(old.id))
    assert [one.content for one in told.successors] == [IS]
    told = await moved.memories.provenance(moved.operator, str(new.id))
    assert [one.content for one in told.predecessors] == [WAS]
    # Whoever asks in the words of the old one gets the new one, with what it took the place of.
    answer = await moved.ask(moved.operator, "does Teo live in Porto?")
    assert answer.memories[0].memory.id == new.id
    assert [one.id for one in answer.memories[0].superseded] == [old.id]
    for recalled in answer.memories:
        assert recalled.memory.status == "active"


async def test_b6_what_was_superseded_is_never_put_before_an_agent_as_if_it_stood(moved):
    asked = "is it so that Teo lives in Porto these days?"
    await tell(moved, said("now", MARA, asked))
    for name in ("pip", "quill"):
        read = await moved.messages(await moved.viewer(name), "studio", limit=100)
        injected = [one.body for one in read if one.kind == "context_injection"]
        assert HOME not in str(injected)
    pip = await acting(moved, "pip")
    told = await remember(moved, "pip", "The kiln is slow", kind="insight", sources=["ask"])
    await remember(moved, "pip", "The kiln is fast", kind="insight", sources=["ask"], supersedes=str(told.id))
    block = await pip.agents.memory_section(await moved.viewer("pip"), "studio", topic="kiln")
    assert [line.text for line in block.lines] == ["The kiln is fast"]


async def test_b7_a_memory_leads_back_to_messages_conversation_room_and_people_and_they_to_it(house):
    [home] = await known(house, about="teo")
    why = await house.memories.provenance(house.operator, str(home.id))
    [source] = why.sources
    assert (source.message.external_id, source.message.author_name, source.room_name) == (
        "home",
        "Teo",
        "studio",
    )
    assert source.quote == HOME
    assert source.conversation_id is not None
    conversation, placed = await house.conversations.read(house.operator, str(source.conversation_id))
    assert source.message.id in {one.message.id for one in placed}
    assert "Teo" in {talker.name for talker in conversation.participants}
    resting = await house.memories.derived_from(house.operator, "home", room="studio")
    assert [one.id for one in resting] == [home.id]


async def test_b7_only_as_far_as_the_viewer_may_see(house):
    memory = await remember(house, None, "The safe opens with twelve", sources=["safe"])
    assert (await house.memories.provenance(await house.viewer("teo"), str(memory.id))).sources
    for name in ("ines", "quill"):
        with pytest.raises(NotFound):
            await house.memories.provenance(await house.viewer(name), str(memory.id))


async def test_b8_five_tiers_answer_one_after_the_other_and_each_says_which_it_was(house, tmp_path):
    line = {
        "platform": "test",
        "id": "old",
        "room": "studio",
        "author": {"id": "mara", "name": "Mara"},
        "text": "the bellows hang behind the extruder",
        "sent_at": NOON.isoformat(),
    }
    (tmp_path / "old.jsonl").write_text(json.dumps(line) + "\n", "utf-8")
    app = replace(house, settings=replace(house.settings, raw_logs=[tmp_path]))
    await remember(house, None, "Sawdust makes good saggar smoke", kind="lesson", sources=["glaze"])
    asked = {
        "room": ("which cone was the blue celadon fired at?", "studio"),
        "memories": ("does sawdust make good saggar smoke?", None),
        "history": ("what is the combination of the safe?", None),
        "logs": ("where do the bellows hang behind the extruder?", None),
        "none": ("who won the regatta at quarrywick?", None),
    }
    for tier, (question, where) in asked.items():
        answer = await app.ask(app.operator, question, room=where)
        assert answer.stage == tier, answer.trace
        assert answer.trace[-1].outcome == ("answered" if answer.is_answered else "empty") or tier == "none"
        assert answer.is_answered == (not answer.text.startswith(UNKNOWN_ANSWER))
    # Whoever may not hear it gets no further than "I do not know".
    assert (await app.ask(await app.viewer("ines"), asked["history"][0])).stage == "none"


async def given(app, name: str, room: str = "studio") -> list[str]:
    """Return what was put before somebody unasked."""
    read = await app.messages(await app.viewer(name), room, limit=100)
    return [one.body.partition(": ")[2] for one in read if one.kind == "context_injection"]


async def inject(app, line, *, hours: int) -> None:
    """Let something be said, and the worker go through it so long after."""
    await app.ingest(line)
    clock = datetime.now(UTC) + timedelta(hours=hours)
    await runner.drain(InjectionWorker(db=app.db, now=lambda: clock), only_org=app.org_id)


@pytest.mark.slow
async def test_b9_relevant_memories_are_whispered_to_agents_as_messages_arrive_and_not_again(house):
    breaker = "The bisque kiln trips the left breaker"
    await remember(house, None, breaker, sources=["glaze"])
    await tell(house, said("n1", INES, "why does the bisque kiln trip the breaker?"))
    assert await given(house, "pip") == await given(house, "quill") == [breaker]
    assert await given(house, "mara") == await given(house, "ines") == []
    # The ledger remembers it, long after the agent had its rest.
    await inject(house, said("n2", MARA, "so the bisque kiln does trip the breaker"), hours=1)
    assert await given(house, "pip") == [breaker]
    await house.agents.reset_context("studio")
    await inject(house, said("n3", MARA, "again the bisque kiln trips the breaker"), hours=2)
    assert await given(house, "pip") == await given(house, "quill") == [breaker] * 2


@pytest.mark.slow
async def test_b9_only_what_is_relevant_and_what_the_agent_may_see(house):
    await remember(house, None, "The combination of the safe is twelve.", sources=["safe"])
    # Not in the studio, where not everybody may know it.
    await tell(house, said("n0", INES, "what is the combination of the safe?"))
    assert await given(house, "pip") == []
    await tell(house, said("n1", MARA, "what is the combination of the safe?", where=OFFICE))
    assert await given(house, "pip", "office") == ["The combination of the safe is twelve."]
    assert await given(house, "quill") == []
    await inject(house, said("n2", TEO, "shall we sweep the yard and then go home?", where=OFFICE), hours=1)
    assert len(await given(house, "pip", "office")) == 1
