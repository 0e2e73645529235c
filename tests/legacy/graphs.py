"""Rows of a graph of agents, as its queries return them, and a graph of some thousand nodes."""

import random
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from roomlore.legacy.agent_graph import Section

NOW = datetime(2026, 6, 1, tzinfo=UTC)
AGENTS = ("Kublai", "Möngke", "Chagatai", "Temüjin", "Jochi", "Ögedei")
TAGS = ("discord", "conversation", "research", "security", "operations", "code")
#: The types with the importance that each usually has.
TYPES = {"observation": 0.5, "learning": 0.75, "insight": 0.9, "interaction": 0.6}


def agent_memory(**fields: Any) -> dict[str, Any]:
    """Return a row of an agent's memory."""
    place = fields.pop("place", 1)
    edges = {name: fields.pop(name, []) for name in ("tags", "involved", "owners")}
    plain = {
        "id": "kublai-discord-1",
        "agent_name": "Kublai",
        "memory_type": "insight",
        "content": "The queue is slow under load",
        "importance": 0.9,
        "created_at": "2026-01-15T10:00:00.123456",
    }
    stated = {name: value for name, value in {**plain, **fields}.items() if value is not None}
    return {"place": place, "fields": stated, **edges}


def user(key: str | None, name: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "id": key,
        "name": name,
        "is_bot": more.pop("is_bot", None),
        "labels": more.pop("labels", ["User"]),
    }


def pages_of(**sections: Sequence[Mapping[str, Any]]):
    """Return what yields these rows, two per page."""

    async def pages(section: Section) -> AsyncIterator[Sequence[Mapping[str, Any]]]:
        rows = sections.get(section, [])
        for start in range(0, len(rows), 2):
            yield rows[start : start + 2]

    return pages


def many_memories(count: int, seed: int = 7) -> list[dict[str, Any]]:
    """Return the properties of memories, with tags and related agents, as parameters of CREATE_MEMORIES."""
    rng = random.Random(seed)
    rows: list[dict[str, Any]] = []
    for number in range(count):
        agent, type_ = rng.choice(AGENTS), rng.choice(list(TYPES))
        moment = NOW - timedelta(minutes=rng.randrange(400_000))
        others = [name for name in AGENTS if name != agent]
        rows.append(
            {
                "id": f"{agent.lower()}-discord-{moment:%Y%m%d%H%M%S}-{number}",
                "agent_name": agent,
                "memory_type": type_,
                "content": f"Discord conversation {number}: 'what about {rng.choice(TAGS)}?' -> Response: 'noted 🐎'",
                "importance": round(min(1.0, TYPES[type_] + rng.choice([0, 0.05, 0.1])), 2),
                "created_at": moment.replace(tzinfo=None).isoformat(),
                "tags": rng.sample(TAGS, rng.randrange(4)),
                "involved": rng.sample(others, rng.randrange(3)) if type_ == "interaction" else [],
            }
        )
    return rows


CREATE_MEMORIES = """
UNWIND $rows AS row
CREATE (m:AgentMemory {
  id: row.id, agent_name: row.agent_name, memory_type: row.memory_type, content: row.content,
  importance: row.importance, created_at: row.created_at
})
WITH m, row
CALL (m, row) { UNWIND row.tags AS tag MERGE (t:Tag {name: tag}) MERGE (m)-[:TAGGED]->(t) }
CALL (m, row) { UNWIND row.involved AS name MERGE (a:Agent {name: name}) MERGE (m)-[:INVOLVES]->(a) }
"""
CREATE_USERS = """
UNWIND range(1, 300) AS number
MERGE (u:User {id: toString(4710 + number)})
ON CREATE SET u.is_bot = number % 10 = 0, u.name = 'User ' + number
MERGE (e:Entity {name: 'topic ' + number % 40})
CREATE (u)-[:FACT {predicate: 'LIKES', confidence: 0.8}]->(e)
CREATE (u)-[:HAS_MEMORY]->(:Memory {
  id: 'vec-' + number, content: 'we spoke of topic ' + number % 40, timestamp: 1767225600000 + number * 60000
})
"""
CREATE_REST = """
MATCH (a:User {id: '4711'}), (b:User {id: '4720'})
CREATE (b)-[:TALKED_TO {count: 12}]->(a)
CREATE (b)-[:TRUSTS {score: 0.7, updated_at: datetime('2026-02-01T10:00:00Z')}]->(a)
CREATE (b)-[:AUTHORED]->(m:Memory {id: 'vec-both', content: 'the bot said so', timestamp: datetime('2026-02-02T10:00:00Z')})
CREATE (a)-[:HAS_MEMORY]->(m)
CREATE (:AgentMemory {agent_name: 'Kublai', memory_type: 'insight', content: 'no id', created_at: '2026-01-01'})
CREATE (:AgentMemory {id: 'x1', memory_type: 'insight', content: 'no agent', created_at: '2026-01-01'})
CREATE (:AgentMemory {id: 'x2', agent_name: 'Kublai', memory_type: 'insight', created_at: '2026-01-01'})
CREATE (:AgentMemory {id: 'x3', agent_name: 'Kublai', memory_type: 'insight', content: 'when', created_at: 'soon'})
CREATE (:AgentMemory {id: 'x4', agent_name: 'Kublai', memory_type: 'dream', content: 'a dream', created_at: '2026-01-01'})
CREATE (:Memory {id: 'lost', content: 'of nobody', timestamp: 1767225600000})
CREATE (:Subject:Memory {id: 'ours', uuid: 'ours', copy: 'an index', content: 'of an index'})
"""
#: The query by which the agents of that graph found what they had talked about with others.
THEIR_INTERACTIONS = """
MATCH (m:AgentMemory)-[:INVOLVES]->(a:Agent)
WHERE m.agent_name = $agent_name
AND a.name IN $interacting_with
AND m.memory_type = 'interaction'
RETURN DISTINCT m.content as content, m.created_at as created_at
"""
#: The query by which they found memories by tag.
THEIR_TAGGED = """
MATCH (m:AgentMemory)-[:TAGGED]->(t:Tag)
WHERE m.agent_name = $agent_name
AND (t.name IN $keywords OR m.importance >= 0.7)
AND t.name IN $keywords
RETURN DISTINCT m.content as content
"""
