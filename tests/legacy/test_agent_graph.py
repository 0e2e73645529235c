"""What a graph of agents states becomes a record; what it does not state stays empty, and broken rows say why."""

from datetime import UTC, datetime

import pytest

from legacy.graphs import NOW, agent_memory, user
from roomlore.domain.incoming import SkippedRecord
from roomlore.legacy.agent_graph import GraphAccount, GraphMemory, records_of


def one(section, row) -> GraphMemory:
    [record] = records_of(section, [row], now=NOW)
    assert isinstance(record, GraphMemory), record
    return record


def test_an_agents_memory_keeps_its_kind_importance_tags_others_and_time():
    row = agent_memory(
        memory_type="interaction",
        importance=0.6,
        tags=["discord", "conversation"],
        involved=["Möngke"],
        related_agents=["Möngke", "Jochi"],
        task_id="T-123",
        mood="calm",
    )

    record = one("agent_memories", row)

    assert (record.kind, record.importance, record.task_id) == ("interaction", 3.0, "T-123")
    assert record.created_at == datetime(2026, 1, 15, 10, 0, 0, 123456, tzinfo=UTC)
    assert record.tags == {"discord", "conversation"}
    assert [(role, account.name, account.kind) for role, account in record.roles] == [
        ("author", "Kublai", "agent"),
        ("perspective", "Kublai", "agent"),
        ("involved", "Jochi", "agent"),
        ("involved", "Möngke", "agent"),
    ]
    assert record.fields == {"mood": "calm"}


@pytest.mark.parametrize(("stated", "kept"), [(0.9, 4.5), (0.5, 2.5), (0.1, 1.0), (1, 5.0), (0, 1.0)])
def test_importance_goes_from_one_scale_to_the_other(stated, kept):
    assert one("agent_memories", agent_memory(importance=stated)).importance == kept


@pytest.mark.parametrize("stated", [7, -0.1, "high", True, float("nan")])
def test_an_importance_outside_its_scale_is_left_out_and_reported(stated):
    fault, record = records_of("agent_memories", [agent_memory(importance=stated)], now=NOW)
    assert isinstance(fault, SkippedRecord)
    assert fault.reason == "importance is not between 0 and 1"
    assert record.importance is None


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"id": None}, "no id"),
        ({"id": True}, "no id"),
        ({"agent_name": None}, "no agent"),
        ({"agent_name": None, "owners": ["Kublai", "Jochi"]}, "no agent"),
        ({"agent_name": 5}, "the name of the agent is not a name"),
        ({"content": None}, "no content"),
        ({"content": "  "}, "no content"),
        ({"content": ["a"]}, "no content"),
        ({"content": "x" * 10_001}, "the content is too long"),
        ({"created_at": None}, "no time"),
        ({"created_at": "soon"}, "the time is not a time"),
        ({"created_at": 1e300}, "the time is not a time"),
        ({"created_at": "2026-06-01T00:00:01Z"}, "the time is in the future"),
    ],
)
def test_a_broken_memory_is_skipped_with_its_reason_and_the_next_one_is_read(fields, reason):
    broken, record = records_of("agent_memories", [agent_memory(**fields), agent_memory()], now=NOW)
    assert isinstance(broken, SkippedRecord)
    assert broken.reason == reason
    assert isinstance(record, GraphMemory)


@pytest.mark.parametrize(
    "stated",
    ["2026-01-15T10:00:00", "2026-01-15T11:00:00+01:00", "2026-01-15T10:00:00Z", 1768471200, 1768471200000],
)
def test_times_are_read_in_every_spelling(stated):
    assert one("agent_memories", agent_memory(created_at=stated)).created_at == datetime(
        2026, 1, 15, 10, tzinfo=UTC
    )


def test_an_agent_without_a_name_on_the_memory_is_the_only_one_that_has_it():
    assert one("agent_memories", agent_memory(agent_name=None, owners=["Jochi"])).holder.name == "Jochi"


def test_another_type_of_memory_is_kept_as_an_observation_and_reported():
    fault, record = records_of("agent_memories", [agent_memory(memory_type="dream")], now=NOW)
    assert isinstance(fault, SkippedRecord)
    assert (record.kind, record.type) == ("observation", "dream")


def test_a_fact_is_about_its_user_and_nobody_is_made_its_author():
    row = {
        "place": 1,
        "fields": {"predicate": "HAS_PET", "confidence": 0.8},
        "entity": {"name": "a cat"},
        "user": user("4711", "Ana"),
    }
    record = one("facts", row)
    assert (record.kind, record.content, record.confidence) == ("fact", "Ana has pet a cat", 0.8)
    assert record.roles == [("subject", GraphAccount(id="4711", name="Ana", kind="human"))]
    assert record.created_at is None


def test_who_wrote_a_memory_of_somebody_else_is_its_author():
    bot, ana = user("9", "Pip", is_bot=True), user("4711", "Ana")
    row = {
        "place": 1,
        "fields": {"id": "v1", "content": "hello", "timestamp": 1768471200000},
        "owners": [ana],
        "authors": [bot],
        "tags": [],
    }
    record = one("user_memories", row)
    assert [(role, account.name) for role, account in record.roles] == [
        ("author", "Pip"),
        ("perspective", "Pip"),
        ("involved", "Ana"),
    ]
    mine = one("user_memories", {**row, "authors": []})
    assert [(role, account.name) for role, account in mine.roles] == [("author", "Ana")]
    assert mine.kind == "context"


def test_how_far_an_agent_trusts_somebody_is_kept_with_its_number():
    row = {
        "place": 1,
        "type": "TRUSTS",
        "fields": {"score": 0.7},
        "user": user(None, "Kublai", labels=["Agent"]),
        "other": user("4711", "Ana"),
    }
    record = one("relationships", row)
    assert record.content == "Kublai trusts Ana: score 0.7"
    assert [(role, account.name) for role, account in record.roles] == [
        ("perspective", "Kublai"),
        ("subject", "Ana"),
    ]
    assert record.fields == {"score": 0.7, "relationship": "TRUSTS"}
    assert record.trust == 0.7


@pytest.mark.parametrize(
    ("type_", "fields", "trust"),
    [
        ("KNOWS", {"trust": 0.4}, 0.4),
        ("KNOWS", {"trust_score": 1}, 1.0),
        ("TRUSTS", {"trust": 0.2, "score": 0.9}, 0.2),
        ("KNOWS", {"score": 0.9}, None),
        ("TALKED_TO", {"count": 12}, None),
    ],
)
def test_only_what_is_called_trust_is_trust(type_: str, fields: dict[str, float], trust: float | None):
    agent, ana = user(None, "Kublai", labels=["Agent"]), user("4711", "Ana")
    row = {"place": 1, "type": type_, "fields": fields, "user": agent, "other": ana}
    assert one("relationships", row).trust == trust
    assert one("relationships", {**row, "user": ana, "other": agent}).trust is None


def test_trust_on_another_scale_is_reported_and_kept_as_a_memory_only():
    row = {
        "place": 1,
        "type": "TRUSTS",
        "fields": {"trust": 85},
        "user": user(None, "Kublai", labels=["Agent"]),
        "other": user("4711", "Ana"),
    }
    skipped, record = records_of("relationships", [row], now=NOW)
    assert skipped.reason == "trust is not between 0 and 1"
    assert record.trust is None
    assert record.fields["trust"] == 85
