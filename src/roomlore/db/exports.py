"""Writes the rows of an org, a room or a person as lines of JSON, and stores such lines again.

A line is one record: a row, with the rows that belong to it. Records refer only to records before them. Columns are
taken from the database, so a new column is exported and stored without a change here.
"""

import json
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, LiteralString
from uuid import UUID

import psycopg
from psycopg import sql

from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import MemoryId, MessageId, OrgId, ParticipantId, RoomId

QUERIES = Queries("exports")


class RecordRefused(Exception):
    """The database refuses a record."""

    def __init__(self, rule: str) -> None:
        super().__init__(rule)
        #: The constraint or column that is violated, without content of the record.
        self.rule = rule


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportScope:
    """What is exported. The fields are null if there is no restriction."""

    room_id: RoomId | None = None
    #: The accounts of the person whose data is exported.
    author_ids: Sequence[ParticipantId] | None = None
    participant_ids: Sequence[ParticipantId] | None = None
    memory_ids: Sequence[MemoryId] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """Rows that belong to a record, as a list under its key `name`."""

    name: str
    table: LiteralString
    #: The column that refers to the record.
    parent: LiteralString


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordKind:
    """A kind of record: the table of its row, and the rows that belong to it."""

    name: str
    table: LiteralString
    children: Sequence[Child] = ()
    #: The name of the statement that exports it.
    statement: str


RECORD_KINDS: Sequence[RecordKind] = (
    RecordKind(
        name="participant",
        table="participants",
        statement="export_participants",
        children=(
            Child(name="accounts", table="platform_accounts", parent="participant_id"),
            Child(name="merges", table="participant_merges", parent="participant_id"),
        ),
    ),
    RecordKind(name="stated_trust", table="stated_trust", statement="export_stated_trust"),
    RecordKind(
        name="room",
        table="rooms",
        statement="export_rooms",
        children=(
            Child(name="members", table="memberships", parent="room_id"),
            Child(name="activity", table="room_activity", parent="room_id"),
            Child(name="erased_ranges", table="erased_ranges", parent="room_id"),
        ),
    ),
    RecordKind(
        name="message",
        table="messages",
        statement="export_messages",
        children=(
            Child(name="audience", table="message_audience", parent="message_id"),
            Child(name="revisions", table="message_revisions", parent="message_id"),
        ),
    ),
    RecordKind(name="reply", table="replies", statement="export_replies"),
    RecordKind(
        name="conversation",
        table="conversations",
        statement="export_conversations",
        children=(
            Child(name="messages", table="conversation_messages", parent="conversation_id"),
            Child(name="interactions", table="interactions", parent="conversation_id"),
        ),
    ),
    RecordKind(
        name="memory",
        table="memories",
        statement="export_memories",
        children=(
            Child(name="sources", table="memory_sources", parent="memory_id"),
            Child(name="participants", table="memory_participants", parent="memory_id"),
            Child(name="tags", table="memory_tags", parent="memory_id"),
            Child(name="kept_beside", table="supersession_overrides", parent="memory_id"),
        ),
    ),
    RecordKind(name="injection", table="injections", statement="export_injections"),
    RecordKind(
        name="privacy_request",
        table="privacy_requests",
        statement="export_privacy_requests",
        children=(Child(name="restricted_messages", table="restricted_messages", parent="request_id"),),
    ),
    RecordKind(name="erased_account", table="erased_accounts", statement="export_erased_accounts"),
    RecordKind(name="erased_name", table="erased_names", statement="export_erased_names"),
    RecordKind(name="erased_room", table="erased_rooms", statement="export_erased_rooms"),
    RecordKind(name="receipt", table="receipts", statement="export_receipts"),
)
#: The columns of a message that have other names in its record, with the path to their value.
MESSAGE_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "external_id": ("id",),
    "author_name": ("author", "name"),
    "author_kind": ("author", "kind"),
    "kind": ("kind",),
    "body": ("text",),
    "sent_at": ("sent_at",),
    "edited_at": ("edited_at",),
    "mentions": ("mentions",),
    "attachments": ("attachments",),
    "reactions": ("reactions",),
    "metadata": ("metadata",),
}


async def scope_of_room(conn: Connection, org_id: OrgId, room_id: RoomId) -> ExportScope:
    """Return the scope of a room: its messages, and the memories that rest on them alone."""
    memory_ids = await memories_of_room(conn, org_id, room_id)
    people = await participants_of_room(conn, org_id, room_id)
    people |= await participants_of_memories(conn, org_id, memory_ids)
    return ExportScope(room_id=room_id, participant_ids=sorted(people), memory_ids=sorted(memory_ids))


async def scope_of_person(
    conn: Connection, org_id: OrgId, person_ids: Collection[ParticipantId]
) -> ExportScope:
    """Return the scope of a person: what they wrote, and what is remembered of them, as far as the viewer sees it."""
    memory_ids = await memories_of_persons(conn, org_id, person_ids)
    people = await participants_of_persons(conn, org_id, person_ids)
    people |= await participants_of_memories(conn, org_id, memory_ids)
    return ExportScope(
        author_ids=sorted(person_ids), participant_ids=sorted(people), memory_ids=sorted(memory_ids)
    )


async def lines(conn: Connection, org_id: OrgId, scope: ExportScope) -> AsyncGenerator[tuple[str, str]]:
    """Yield the kind and the text of each record, in the order in which they can be stored."""
    for kind in RECORD_KINDS:
        async for text in QUERIES.stream(conn, kind.statement, {"org_id": org_id, **asdict(scope)}):
            yield kind.name, text


async def table_columns(conn: Connection) -> dict[str, list[str]]:
    """Return the columns with which the rows of exported tables are stored."""
    tables = [
        table for kind in RECORD_KINDS for table in (kind.table, *(child.table for child in kind.children))
    ]
    found: dict[str, list[str]] = {table: [] for table in tables}
    for table, column in await columns_of(conn, tables):
        found[table].append(column)
    return found


async def store(
    conn: Connection,
    org_id: OrgId,
    kind: RecordKind,
    records: Sequence[Mapping[str, Any]],
    *,
    columns: Mapping[str, Sequence[str]],
) -> list[UUID]:
    """Store records of one kind, all or none; return the ids of those that are new.

    A row that is already stored stays as it is, and so do the rows that belong to it.

    Raises:
        RecordRefused: the database refuses one of the records.
    """
    try:
        async with conn.transaction():
            return await _store(conn, org_id, kind, records, columns=columns)
    except psycopg.OperationalError:
        raise
    except psycopg.Error as error:
        rule = error.diag.constraint_name or error.diag.column_name or type(error).__name__
        raise RecordRefused(rule) from error
    except (ValueError, KeyError, TypeError) as error:
        raise RecordRefused(type(error).__name__) from error


async def _store(
    conn: Connection,
    org_id: OrgId,
    kind: RecordKind,
    records: Sequence[Mapping[str, Any]],
    *,
    columns: Mapping[str, Sequence[str]],
) -> list[UUID]:
    rows = [_row(kind, record) for record in records]
    added = await _insert(conn, org_id, rows, table=kind.table, columns=columns[kind.table])
    new = set(map(str, added))
    for child in kind.children:
        children = [
            {**item, child.parent: row["id"]}
            for record, row in zip(records, rows, strict=True)
            if row["id"] in new
            for item in record[child.name]
        ]
        await _insert(conn, org_id, children, table=child.table, columns=columns[child.table])
    return added


def _row(kind: RecordKind, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a record's own row."""
    if kind.name != "message":
        held = {"record", *(child.name for child in kind.children)}
        # A memory may be superseded by a later one: `set_successors` follows.
        return {key: value for key, value in record.items() if key not in held} | (
            {"superseded_by": None} if kind.name == "memory" else {}
        )
    row = dict(record["row"])
    for column, path in MESSAGE_COLUMNS.items():
        value: Any = record
        for key in path:
            value = value[key]
        row[column] = value
    return row


async def _insert(
    conn: Connection,
    org_id: OrgId,
    rows: Sequence[Mapping[str, Any]],
    *,
    table: LiteralString,
    columns: Sequence[str],
) -> list[UUID]:
    """Insert rows that are not there yet; return their ids, or the org's id for each in a table without ids."""
    if not rows:
        return []
    statement = sql.SQL(
        "insert into {table} ({names}) select {names} from jsonb_populate_recordset(null::{table}, %s::jsonb)"
        " on conflict do nothing returning {key}"
    ).format(
        table=sql.Identifier(table),
        names=sql.SQL(", ").join(map(sql.Identifier, columns)),
        key=sql.Identifier("id" if "id" in columns else "org_id"),
    )
    text = json.dumps([{**row, "org_id": str(org_id)} for row in rows], ensure_ascii=False)
    return [key for (key,) in await (await conn.execute(statement, [text])).fetchall()]


@QUERIES.query
async def memories_of_room(conn: Connection, org_id: OrgId, room_id: RoomId) -> set[MemoryId]:
    """Return the memories that rest on the messages of a room alone, or were entered there."""
    ...


@QUERIES.query
async def memories_of_persons(
    conn: Connection, org_id: OrgId, person_ids: Collection[ParticipantId]
) -> set[MemoryId]:
    """Return the memories that participants stated or observed, or that are about them."""
    ...


@QUERIES.query
async def participants_of_room(conn: Connection, org_id: OrgId, room_id: RoomId) -> set[ParticipantId]:
    """Return everybody whom the rows of a room name."""
    ...


@QUERIES.query
async def participants_of_memories(
    conn: Connection, org_id: OrgId, memory_ids: Collection[MemoryId]
) -> set[ParticipantId]:
    """Return everybody whom memories name."""
    ...


@QUERIES.query
async def participants_of_persons(
    conn: Connection, org_id: OrgId, person_ids: Collection[ParticipantId]
) -> set[ParticipantId]:
    """Return participants, whom they whispered to, and who decided on their privacy requests."""
    ...


@QUERIES.query
async def columns_of(conn: Connection, tables: Sequence[str]) -> list[tuple[str, str]]:
    """Return the tables and columns with which rows are stored."""
    ...


@QUERIES.query
async def rooms_with_other_ids(
    conn: Connection, org_id: OrgId, wanted: Sequence[tuple[str, str, UUID]]
) -> set[tuple[str, str]]:
    """Return the rooms (platform, external id) that exist under another id than the wanted one."""
    ...


@QUERIES.query
async def participants_with_other_ids(
    conn: Connection, org_id: OrgId, wanted: Sequence[tuple[str, str, str, UUID]]
) -> dict[UUID, UUID]:
    """Return the ids of participants that have a wanted account (platform, account, persona), by the wanted ids."""
    ...


@QUERIES.query
async def set_successors(
    conn: Connection, org_id: OrgId, successors: Sequence[tuple[MemoryId, MemoryId]]
) -> None:
    """Set which memories are superseded, and by which."""
    ...


@QUERIES.query
async def needing_vectors(conn: Connection, org_id: OrgId, ids: Collection[UUID]) -> set[MessageId]:
    """Return the given messages and memories that need a vector."""
    ...
