"""Reads agent memories, facts and relationships from a Neo4j graph of another system.

Two shapes of graphs are known. In the first one, `(:AgentMemory)` nodes are `TAGGED` with `(:Tag)` and involve
`(:Agent)` nodes. In the second one, `(:User)` nodes have `FACT` edges to `(:Entity)` nodes, and have `(:Memory)` nodes.
A graph may have both shapes. This module turns rows of a graph into records, and says why a row cannot become one. It
stores nothing.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, cast

from roomlore.domain.incoming import ParticipantKind, SkippedRecord
from roomlore.domain.records import MemoryKind, MemoryRole

Section = Literal["agent_memories", "user_memories", "facts", "relationships"]
SECTIONS: tuple[Section, ...] = ("agent_memories", "user_memories", "facts", "relationships")
Row = Mapping[str, Any]

#: The kinds of memories that both systems know.
_KINDS: Mapping[str, MemoryKind] = {
    "observation": "observation",
    "interaction": "interaction",
    "learning": "learning",
    "insight": "insight",
}
#: Names of properties, the usual one first.
_TIMES = ("created_at", "timestamp", "created", "updated_at", "last_interaction", "last")
_TEXTS = ("content", "text", "summary")
_TRUSTS = ("trust", "trust_score", "trust_level")
#: What else states the trust, if the relationship itself is trust.
_SCORES = ("score", "level", "value", "weight")
#: The scale of importance in the graph is 0..1. Roomlore's scale is 1..5.
_SCALE = 5.0
LONGEST_CONTENT, LONGEST_NAME, MOST_NAMED = 10_000, 200, 100
#: Larger Unix times are in milliseconds.
_MILLISECONDS_FROM = 10**11


#: Labels of agents whose memories name them, so the name is the id.
_NAMED = frozenset({"Agent", "Character"})


class BrokenRow(Exception):
    """A row that cannot become a record. The message is a short fixed phrase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphAccount:
    """A user or an agent of the graph."""

    id: str
    name: str
    kind: ParticipantKind


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphMemory:
    """A memory, a fact or a relationship of the graph."""

    section: Section
    #: The identity in the graph. It stays the same from one run to the next.
    key: str
    #: The type as the graph states it.
    type: str
    kind: MemoryKind
    content: str
    #: None if the graph states none, or none on its scale.
    importance: float | None
    confidence: float | None
    #: None if the graph does not state when a fact was learned.
    created_at: datetime | None
    roles: Sequence[tuple[MemoryRole, GraphAccount]]
    tags: frozenset[str] = frozenset()
    task_id: str | None = None
    #: How far the agent of a relationship trusts the other, 0..1; None if the graph does not state it.
    trust: float | None = None
    #: The other properties.
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    #: Properties that were left out, each with the reason.
    faults: Sequence[str] = ()

    @property
    def holder(self) -> GraphAccount:
        """The account under which reports count this record: its author, or else whose it is."""
        return self.roles[0][1]


def records_of(
    section: Section, rows: Sequence[Row], *, now: datetime
) -> Iterator[GraphMemory | SkippedRecord]:
    """Yield what rows hold, and a skipped record for each row or property that cannot be read."""
    for row in rows:
        where = f"{section} {_label(row)}"
        try:
            record = _READERS[section](row, now)
        except BrokenRow as error:
            yield SkippedRecord(where=where, reason=str(error))
            continue
        for fault in record.faults:
            yield SkippedRecord(where=where, reason=fault)
        yield record


def _label(row: Row) -> str:
    key = row["fields"].get("id")
    return str(key)[:60] if isinstance(key, str | int) else f"at node {row['place']}"


# The four sections


def _agent_memory(row: Row, now: datetime) -> GraphMemory:
    fields = row["fields"]
    agent = _agent(_agent_name(fields, row["owners"]))
    named = [*row["involved"], *_strings(fields.get("related_agents"))]
    others = sorted({name for name in _names(named) if name != agent.name})
    type_, kind, faults = _kind(fields)
    importance, more = _share(fields, "importance")
    return GraphMemory(
        section="agent_memories",
        key=_key(fields),
        type=type_,
        kind=kind,
        content=_content(fields),
        importance=None if importance is None else min(max(importance * _SCALE, 1.0), 5.0),
        confidence=_share(fields, "confidence")[0],
        created_at=_time(fields, now),
        roles=[("author", agent), ("perspective", agent), *(("involved", _agent(name)) for name in others)],
        tags=frozenset(_names([*row["tags"], *_strings(fields.get("tags"))])),
        task_id=_optional_text(fields, "task_id"),
        fields=_rest(fields),
        faults=[*faults, *more],
    )


def _user_memory(row: Row, now: datetime) -> GraphMemory:
    fields = row["fields"]
    owners, authors = ([_account(each) for each in row[name]] for name in ("owners", "authors"))
    # The graph has an edge to the author only if somebody else has the memory.
    wrote = authors or owners
    if len(wrote) != 1:
        raise BrokenRow("no author" if not wrote else "several authors")
    [author] = wrote
    roles: list[tuple[MemoryRole, GraphAccount]] = [("author", author)]
    if author.kind == "agent":
        roles.append(("perspective", author))
    roles.extend(("involved", owner) for owner in owners if owner != author)
    type_, kind, faults = _kind(fields)
    importance, more = _share(fields, "importance")
    return GraphMemory(
        section="user_memories",
        key=_key(fields),
        type=type_,
        # The four kinds of agents' experiences are for agents alone.
        kind=kind if author.kind == "agent" else "context",
        content=_content(fields),
        importance=None if importance is None else min(max(importance * _SCALE, 1.0), 5.0),
        confidence=_share(fields, "confidence")[0],
        created_at=_time(fields, now),
        roles=roles,
        tags=frozenset(_names([*row["tags"], *_strings(fields.get("tags"))])),
        fields=_rest(fields),
        faults=[*(faults if author.kind == "agent" and type_ else ()), *more],
    )


def _fact(row: Row, now: datetime) -> GraphMemory:
    fields, user = row["fields"], _account(row["user"])
    entity = _text(row["entity"], "no name of the entity", "name", "id")
    predicate = _optional_text(fields, "predicate") or _optional_text(fields, "type") or "fact"
    confidence, faults = _share(fields, "confidence")
    return GraphMemory(
        section="facts",
        key=f"{user.id}\0{predicate}\0{entity}",
        type="fact",
        kind="fact",
        content=_checked(f"{user.name} {_words(predicate)} {entity}"),
        importance=None,
        confidence=confidence,
        created_at=_time(fields, now) if any(fields.get(name) is not None for name in _TIMES) else None,
        roles=[("subject", user)],
        fields={**_rest(fields), "predicate": predicate, "entity": entity},
        faults=faults,
    )


def _relationship(row: Row, now: datetime) -> GraphMemory:
    fields, user, other = row["fields"], _account(row["user"]), _account(row["other"])
    if user == other:
        raise BrokenRow("a relationship with oneself")
    rest = _rest(fields)
    state = ", ".join(f"{_words(name)} {value}" for name, value in sorted(rest.items()))
    content = f"{user.name} {_words(row['type'])} {other.name}{f': {state}' if state else ''}"
    # The graph does not say who stated it.
    side: MemoryRole = "perspective" if user.kind == "agent" else "involved"
    trust, faults = _trust(row["type"], fields) if user.kind == "agent" else (None, ())
    return GraphMemory(
        section="relationships",
        key=f"{user.id}\0{row['type']}\0{other.id}",
        type=row["type"],
        kind="context",
        content=_checked(content),
        importance=None,
        confidence=None,
        created_at=_time(fields, now) if any(fields.get(name) is not None for name in _TIMES) else None,
        roles=[(side, user), ("subject", other)],
        tags=frozenset({"relationship"}),
        trust=trust,
        fields={**rest, "relationship": row["type"]},
        faults=faults,
    )


_READERS: Mapping[Section, Callable[[Row, datetime], GraphMemory]] = {
    "agent_memories": _agent_memory,
    "user_memories": _user_memory,
    "facts": _fact,
    "relationships": _relationship,
}


# Properties


def _agent_name(fields: Row, owners: Sequence[Any]) -> str:
    stated = fields.get("agent_name")
    if stated is None:
        named = sorted(set(_names(owners)))
        if len(named) != 1:
            raise BrokenRow("no agent")
        return named[0]
    if not isinstance(stated, str) or not stated.strip() or len(stated) > LONGEST_NAME:
        raise BrokenRow("the name of the agent is not a name")
    return stated.strip()


def _agent(name: str) -> GraphAccount:
    return GraphAccount(id=name, name=name, kind="agent")


def _account(node: Row) -> GraphAccount:
    labels = set(node["labels"])
    key = node.get("id")
    if isinstance(key, int) and not isinstance(key, bool):
        key = str(key)
    if key is None or (labels & _NAMED and node.get("name") is not None):
        key = node.get("name")
    if not isinstance(key, str) or not key.strip() or len(key) > LONGEST_NAME:
        raise BrokenRow("a user without an id")
    name = node.get("name")
    name = name.strip() if isinstance(name, str) and 0 < len(name.strip()) <= LONGEST_NAME else key
    is_bot = node.get("is_bot") is True or bool(labels & {"Bot", *_NAMED})
    return GraphAccount(id=key.strip(), name=name, kind="agent" if is_bot else "human")


def _key(fields: Row) -> str:
    key = fields.get("id")
    if isinstance(key, bool) or not isinstance(key, str | int) or not str(key).strip():
        raise BrokenRow("no id")
    return str(key)


def _kind(fields: Row) -> tuple[str, MemoryKind, Sequence[str]]:
    stated = fields.get("memory_type", fields.get("type"))
    type_ = stated if isinstance(stated, str) and stated.strip() else ""
    kind = _KINDS.get(type_.strip().casefold())
    if kind is not None:
        return type_, kind, ()
    return type_, "observation", ["another type of memory, kept as an observation"]


def _content(fields: Row) -> str:
    return _checked(_text(fields, "no content", *_TEXTS))


def _checked(content: str) -> str:
    if len(content) > LONGEST_CONTENT:
        raise BrokenRow("the content is too long")
    return content


def _text(fields: Row, fault: str, *names: str) -> str:
    for name in names:
        value = fields.get(name)
        if isinstance(value, str) and value.strip():
            return value.strip()
    raise BrokenRow(fault)


def _optional_text(fields: Row, name: str) -> str | None:
    value = fields.get(name)
    is_text = isinstance(value, str) and 0 < len(value.strip()) <= LONGEST_NAME
    return cast("str", value).strip() if is_text else None


def _share(fields: Row, name: str) -> tuple[float | None, Sequence[str]]:
    value = fields.get(name)
    if value is None:
        return None, ()
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not 0 <= value <= 1:
        return None, [f"{name} is not between 0 and 1"]
    return float(value), ()


def _trust(type_: str, fields: Row) -> tuple[float | None, Sequence[str]]:
    names = (*_TRUSTS, *_SCORES) if type_ == "TRUSTS" else _TRUSTS
    stated = next((name for name in names if fields.get(name) is not None), None)
    return (None, ()) if stated is None else _share(fields, stated)


def _time(fields: Row, now: datetime) -> datetime:
    stated = next((fields[name] for name in _TIMES if fields.get(name) is not None), None)
    if stated is None:
        raise BrokenRow("no time")
    moment = _parse_time(stated)
    if moment is None:
        raise BrokenRow("the time is not a time")
    if moment > now:
        raise BrokenRow("the time is in the future")
    return moment


def _parse_time(value: Any) -> datetime | None:
    if hasattr(value, "to_native"):
        # A date-time of the driver.
        value = value.to_native()
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value.strip())
        elif isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1000 if abs(value) >= _MILLISECONDS_FROM else value
            value = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    if not isinstance(value, datetime):
        return None
    # These systems write UTC without a zone.
    return (value if value.tzinfo is not None else value.replace(tzinfo=UTC)).astimezone(UTC)


def _strings(value: Any) -> list[str]:
    return (
        [one for one in cast("list[Any]", value) if isinstance(one, str)] if isinstance(value, list) else []
    )


def _names(values: Sequence[Any]) -> list[str]:
    """Return the distinct usable names."""
    found = [one.strip() for one in values if isinstance(one, str) and 0 < len(one.strip()) <= LONGEST_NAME]
    return list(dict.fromkeys(found))[:MOST_NAMED]


def _words(name: str) -> str:
    return name.replace("_", " ").strip().lower()


_KNOWN = frozenset(
    {
        "id",
        "agent_name",
        "memory_type",
        "related_agents",
        "tags",
        "importance",
        "confidence",
        "task_id",
        *_TIMES,
        *_TEXTS,
    }
)


def _rest(fields: Row) -> dict[str, Any]:
    """Return the properties without a place of their own, except vectors."""
    return {
        name: value if isinstance(value, str | int | float | bool) else str(value)
        for name, value in fields.items()
        if name not in _KNOWN and value is not None and not isinstance(value, list)
    }
