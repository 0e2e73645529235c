"""Reads rows of a project store: the chat of projects, and what its agents remember.

The memories are in three tables: files of agents, structured entries of agents, and entries that agents share. In
Roomlore they are memories of the org, and the agent is a person involved.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

from roomlore.domain.incoming import IncomingAuthor, IncomingMessage, IncomingRoom
from roomlore.domain.records import AssertionAudience, MemoryKind
from roomlore.importers.reading.fields import (
    MalformedRecord,
    as_list,
    as_object,
    checked_id,
    parse_iso_time,
    parse_optional_time,
    platform_metadata,
)
from roomlore.legacy.source import Column, Row, Table

#: The platform of the rooms and accounts.
PLATFORM = "projects"
#: Longer contents become several memories.
MAX_CONTENT = 10_000
#: Authors of lines that the store writes itself.
_NOTICES = ("__otter_session__", "project_chat_session_reset:")
Status = Literal["active", "archived", "superseded"]

_KINDS: Mapping[str, MemoryKind] = {
    "action_item": "promise",
    "context": "context",
    "correction": "correction",
    "decision": "decision",
    "fact": "fact",
    "feedback": "correction",
    "lesson": "lesson",
    "pattern": "pattern",
    "preference": "preference",
    "summary": "context",
}
_FILE_TITLES = {"daily": "Daily notes", "long_term": "Long-term notes", "note": "Note"}


def _columns(required: str, optional: str, times: str) -> tuple[Column, ...]:
    return (
        *(Column(name=name, is_required=True) for name in required.split()),
        *(Column(name=name) for name in optional.split()),
        *(Column(name=name, is_time=True) for name in times.split()),
    )


PROJECTS = Table(name="projects", columns=_columns("id", "name", ""), is_optional=True)
AGENTS = Table(name="agents", columns=_columns("id", "slug name display_name", ""), is_optional=True)
CHAT = Table(
    name="project_chat_messages",
    columns=_columns("id org_id project_id author body", "attachments", "created_at"),
)
FILES = Table(
    name="agent_memories",
    columns=_columns("id org_id agent_id kind content", "date", "created_at"),
    is_optional=True,
)
ENTRIES = Table(
    name="memory_entries",
    columns=_columns(
        "id org_id agent_id kind content status",
        "title metadata importance confidence sensitivity source_session source_project source_issue",
        "occurred_at created_at expires_at",
    ),
    is_optional=True,
)
SHARED = Table(
    name="shared_knowledge",
    columns=_columns(
        "id org_id source_agent_id kind content status",
        "title metadata scope scope_teams quality_score confirmations contradictions source_memory_id superseded_by",
        "occurred_at created_at expires_at",
    ),
    is_optional=True,
)
MEMORY_TABLES = (SHARED, ENTRIES, FILES)
TABLES = (PROJECTS, AGENTS, CHAT, *MEMORY_TABLES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectMemory:
    """A memory of the store, or a part of a long one."""

    #: The table and the id; for a later part also its number.
    key: str
    kind: MemoryKind
    title: str
    content: str
    #: The account and the name of the agent.
    agent: str
    agent_name: str
    status: Status
    occurred_at: datetime
    importance: float = 3.0
    confidence: float = 0.5
    audience: AssertionAudience = "org"
    task: str | None = None
    #: The key of the memory that replaced it.
    successor: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(slots=True, kw_only=True)
class ProjectReader:
    """Turns rows into messages and memories."""

    #: The names of the projects.
    projects: Mapping[str, str]
    #: The accounts of agents, by each of their names that is theirs alone.
    agents: Mapping[str, str]
    #: The name of each agent.
    agent_names: Mapping[str, str]
    now: datetime
    _rooms: dict[str, IncomingRoom] = field(default_factory=dict[str, IncomingRoom])

    def message(self, row: Row, place: int) -> IncomingMessage:
        """Return the message of a row. Raises MalformedRecord."""
        if not row["body"]:
            raise MalformedRecord("no text")
        author = (row["author"] or "").strip()
        if not author:
            raise MalformedRecord("no author")
        if not row["project_id"]:
            raise MalformedRecord("no room")
        is_notice = author.startswith(_NOTICES)
        return IncomingMessage(
            platform=PLATFORM,
            room=self._room(row["project_id"]),
            external_id=checked_id(row["id"], "id"),
            author=IncomingAuthor(account_id="", name="", kind="system")
            if is_notice
            else self._author(author),
            body=row["body"],
            sent_at=_time(row, "created_at"),
            kind="system" if is_notice else "message",
            precision="us",
            order=place,
            attachments=[one for one in map(as_object, as_list(_parsed(row.get("attachments")))) if one],
            metadata=platform_metadata(legacy_id=row["id"]),
            raw={key: value for key, value in row.items() if value is not None},
            where=f"{CHAT.name} id {row['id']}",
        )

    def _author(self, name: str) -> IncomingAuthor:
        account = self.agents.get(name)
        if account is not None:
            return IncomingAuthor(account_id=account, name=name, kind="agent")
        return IncomingAuthor(account_id=checked_id(name, "the author"), name=name)

    def _room(self, project: str) -> IncomingRoom:
        if project not in self._rooms:
            # The store does not state who may read a project.
            self._rooms[project] = IncomingRoom(
                external_id=checked_id(project, "the room's id"),
                name=self.projects.get(project) or project,
                kind="project",
                visibility="members",
            )
        return self._rooms[project]

    def memories(self, table: Table, row: Row) -> Iterator[ProjectMemory]:
        """Yield the memory of a row, in parts if it is long. Raises MalformedRecord."""
        content = (row["content"] or "").strip()
        if not content:
            raise MalformedRecord("no text")
        agent = row["source_agent_id" if table is SHARED else "agent_id"]
        if not agent:
            raise MalformedRecord("no author")
        key = f"{table.name} {row['id']}"
        whole = ProjectMemory(
            key=key,
            kind=_KINDS.get(row["kind"] or "", "context"),
            title=row.get("title") or _FILE_TITLES.get(row["kind"] or "", ""),
            content=content,
            agent=checked_id(agent, "the agent"),
            agent_name=self.agent_names.get(agent, agent),
            status=self._status(row),
            occurred_at=self._occurred(row),
            audience=_audience(row),
            importance=_number(row, "importance", default=3.0, low=1.0, high=5.0),
            confidence=_number(row, "quality_score" if table is SHARED else "confidence", default=0.5),
            task=row.get("source_issue"),
            successor=f"{table.name} {row['superseded_by']}" if row.get("superseded_by") else None,
            metadata=_facts(row),
        )
        yield from _in_parts(whole)

    def _status(self, row: Row) -> Status:
        if row.get("superseded_by"):
            return "superseded"
        expires_at = parse_optional_time(row.get("expires_at"), zone=UTC)
        if expires_at is not None and expires_at <= self.now:
            return "archived"
        return "active" if row.get("status") in {None, "active"} else "archived"

    def _occurred(self, row: Row) -> datetime:
        day = row.get("date")
        if day:
            return parse_iso_time(f"{day}T00:00", zone=UTC)
        return _time(row, "occurred_at" if row.get("occurred_at") else "created_at")


def agents_by_name(rows: Sequence[Row]) -> dict[str, str]:
    """Return the accounts of agents by their names. A name of several agents names none."""
    named: dict[str, set[str]] = {}
    for row in rows:
        for name in {row[column] for column in ("id", "slug", "name", "display_name")} - {None}:
            named.setdefault(name, set()).add(row["id"])
    return {name: min(ids) for name, ids in named.items() if len(ids) == 1}


def _time(row: Row, column: str) -> datetime:
    if not row.get(column):
        raise MalformedRecord("no time")
    return parse_iso_time(row[column], zone=UTC)


def _audience(row: Row) -> AssertionAudience:
    """Return who may read a memory. Roomlore has no teams, so a memory of a team stays with its agent."""
    is_narrow = row.get("sensitivity") == "restricted" or row.get("scope", "org") not in {None, "org"}
    return "self" if is_narrow else "org"


def _number(row: Row, column: str, *, default: float, low: float = 0.0, high: float = 1.0) -> float:
    try:
        return min(max(float(row.get(column) or default), low), high)
    except ValueError:
        return default


def _parsed(value: str | None) -> Any:
    try:
        return json.loads(value) if value else None
    except (ValueError, RecursionError):
        return value


_KEPT = (
    "kind status sensitivity source_session source_project source_memory_id scope scope_teams confirmations"
    " contradictions quality_score date"
).split()


def _facts(row: Row) -> dict[str, Any]:
    facts = {name: row[name] for name in _KEPT if row.get(name) is not None}
    metadata = _parsed(row.get("metadata"))
    return facts | ({"metadata": metadata} if metadata else {})


def _in_parts(whole: ProjectMemory) -> Iterator[ProjectMemory]:
    for number, content in enumerate(split_text(whole.content), 1):
        if number == 1:
            yield replace(whole, content=content)
        else:
            title = f"{whole.title} ({number})" if whole.title else ""
            yield replace(whole, key=f"{whole.key} part {number}", title=title, content=content)


def split_text(text: str) -> Iterator[str]:
    """Yield a text in parts of at most `MAX_CONTENT` characters, cut between paragraphs, lines or words if possible."""
    while len(text) > MAX_CONTENT:
        cuts = (text.rfind(mark, 1, MAX_CONTENT) for mark in ("\n\n", "\n", " "))
        cut = next((place for place in cuts if place > 0), MAX_CONTENT)
        yield text[:cut].strip()
        text = text[cut:].strip()
    if text:
        yield text
