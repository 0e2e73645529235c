"""The whole database of one org as text, so that two orgs can be compared row by row; and what must hold in any.

Ids become what the platform calls a thing, and what depends on the moment of arrival alone is left out: when
a message came and when it was found removed (but that it was removed is not), when work is due, and how
often its subject changed before a worker came to it.
"""

import json
import re
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import psycopg

#: Who read or changed what is different each time; an org's own row has nothing but its id and name.
#: What is told of a change is as many rows as it took transactions; a killed worker's last heartbeat stays for a day.
NOT_COMPARED = {"audit_log", "outbox", "heartbeats", "migrations", "orgs"}
MOMENTS = {
    "org_id",
    "received_at",
    "created_at",
    "due_at",
    "asked_at",
    "at",
    "version",
    "recorded_at",
    "drawn_at",
    "detected_at",
}
#: Only whether, not when or, for what is made of ids, of which org.
EVENTS = {
    "redacted_at",
    "erased_at",
    "checked_at",
    "digest",
    "dedup_scope",
    "extraction_state",
    "llm_extraction_state",
}
UNNAMED = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

TABLES = """
    select relname::text
    from pg_class
    where relnamespace = 'roomlore'::regnamespace and relkind in ('r', 'p') and not relispartition
    order by 1"""
NAMES = """
    select id, concat('room ', platform, ' ', external_id) from rooms where org_id = %(org_id)s
    union all
    select participant_id, concat('participant ', platform, ' ', account_id, ' ', persona)
    from platform_accounts
    where org_id = %(org_id)s
    union all
    select messages.id, concat('message ', platform, ' ', rooms.external_id, ' ', messages.external_id)
    from messages
    join rooms on rooms.org_id = messages.org_id and rooms.id = room_id
    where messages.org_id = %(org_id)s
    union all
    select conversation_id, concat('conversation of ', min(concat(platform, ' ', rooms.external_id, ' ', messages.external_id)))
    from conversation_messages
    join messages on messages.org_id = conversation_messages.org_id and messages.id = message_id
    join rooms on rooms.org_id = messages.org_id and rooms.id = room_id
    where conversation_messages.org_id = %(org_id)s
    group by conversation_id
    union all
    select id, concat('memory ', content) from memories where org_id = %(org_id)s
    union all
    select %(org_id)s, 'nobody'"""

#: Each finds rows that no crash may leave behind.
FAULTS: Mapping[str, str] = {
    "counts that a recount contradicts": """
        select room_id, participant_id, counted.number, room_activity.message_count
        from (
          select room_id, author_id as participant_id, count(*) as number, min(sent_at) as first, max(sent_at) as last
          from messages
          where org_id = %(org_id)s and erased_at is null
          group by room_id, author_id
        ) as counted
        full join (select * from room_activity where org_id = %(org_id)s) as room_activity using (room_id, participant_id)
        where (counted.number, counted.first, counted.last)
          is distinct from (room_activity.message_count, room_activity.first_at, room_activity.last_at)""",
    # Both may be there: who asks for what has no vector yet may meet who is just writing it.
    "messages to embed without work and without vector, and others with one": """
        select messages.id
        from messages
        where org_id = %(org_id)s
          and (
            exists (select 1 from work_queue where work_queue.org_id = messages.org_id and subject_id = messages.id)
            or exists (
              select 1 from message_embeddings as vectors
              where vectors.org_id = messages.org_id and vectors.message_id = messages.id
            )
          ) <> (kind in ('message', 'whisper') and body ~ '\\S')""",
    "memories to embed without work and without vector, and others with one": """
        select memories.id
        from memories
        where org_id = %(org_id)s
          and (
            exists (select 1 from work_queue where work_queue.org_id = memories.org_id and subject_id = memories.id)
            or exists (
              select 1 from memory_embeddings as vectors
              where vectors.org_id = memories.org_id and vectors.memory_id = memories.id
            )
          ) <> (status <> 'archived')""",
    "work on nothing": """
        select subject_id
        from work_queue
        where org_id = %(org_id)s
          and not exists (select 1 from messages where org_id = work_queue.org_id and id = subject_id)
          and not exists (select 1 from rooms where org_id = work_queue.org_id and id = subject_id)
          and not exists (select 1 from memories where org_id = work_queue.org_id and id = subject_id)""",
    "messages to disentangle without work and without place, and places of what has none": """
        select messages.id
        from messages
        left join conversation_messages on conversation_messages.org_id = messages.org_id and message_id = messages.id
        where messages.org_id = %(org_id)s
          and case
            when kind in ('message', 'whisper') and erased_at is null then
              conversation_id is null
              and not exists (
                select 1 from work_queue
                where work_queue.org_id = messages.org_id and queue = 'disentangle' and subject_id = room_id
                  and messages.sent_at between least(since, leased_since) and greatest(until, leased_until)
              )
            else conversation_id is not null
          end""",
    "conversations without messages, or with other times than theirs": """
        select conversations.id
        from conversations
        left join conversation_messages on conversation_messages.org_id = conversations.org_id and conversation_id = conversations.id
        left join messages on messages.org_id = conversation_messages.org_id and messages.id = message_id
        where conversations.org_id = %(org_id)s
        group by conversations.id, opened_at, last_at
        having (min(sent_at), max(sent_at)) is distinct from (opened_at, last_at)""",
    "work that was set aside": """
        select subject_id, error from work_queue where org_id = %(org_id)s and dead_lettered_at is not null""",
    "removed messages that are not empty": """
        select id
        from messages
        where org_id = %(org_id)s
          and redacted_at is not null
          and (
            body <> '' or edited_at is not null
            or coalesce(mentions, attachments, reactions, metadata, raw) is not null
            or exists (select 1 from message_revisions where org_id = messages.org_id and message_id = messages.id)
          )""",
    "earlier texts that are not earlier": """
        select messages.id
        from message_revisions
        join messages on messages.org_id = message_revisions.org_id and messages.id = message_id
        where messages.org_id = %(org_id)s and written_at >= coalesce(edited_at, sent_at)""",
    "edges that wait for a parent that has arrived, or lead to another room": """
        select replies.id
        from replies
        join messages as parent
          on parent.org_id = replies.org_id
          and (parent.id = parent_id or (
            parent_id is null and parent.room_id = replies.room_id and parent.external_id = parent_external_id
          ))
        where replies.org_id = %(org_id)s and (parent_id is null or parent.room_id <> replies.room_id)""",
    "authors who were never there": """
        select author_id
        from messages
        where org_id = %(org_id)s and kind = 'message' and erased_at is null
          and not exists (
            select 1 from memberships
            where org_id = messages.org_id and room_id = messages.room_id and participant_id = author_id
          )""",
}


async def whole(admin: psycopg.AsyncConnection, org_id: UUID) -> dict[str, list[str]]:
    """Return every row of an org, table by table, without our ids and without moments of arrival."""
    names = {str(id_): name for id_, name in await _rows(admin, NAMES, org_id)}
    found = {}
    for (table,) in await _rows(admin, TABLES, org_id):
        if table not in NOT_COMPARED:
            rows = await _rows(
                admin, f"select to_jsonb(t) from {table} as t where org_id = %(org_id)s", org_id
            )
            found[table] = sorted(
                json.dumps(_named(_without_shares(table, row), names), sort_keys=True) for (row,) in rows
            )
    return found


def _without_shares(table: str, row: dict[str, Any]) -> dict[str, Any]:
    """Return a row without what the message model computes of a memory: it depends on what stood before the words then."""
    left_out = {"confidence", "importance"} if table == "memories" else set[str]()
    return {key: value for key, value in row.items() if key not in left_out}


def unlike(found: Mapping[str, list[str]], wanted: Mapping[str, list[str]]) -> dict[str, Any]:
    """Return which rows are there and should not be, and the other way round; a few of each."""
    assert found.keys() == wanted.keys()
    return {
        table: {
            "only found": sorted(set(found[table]) - set(wanted[table]))[:4],
            "only wanted": sorted(set(wanted[table]) - set(found[table]))[:4],
            "rows": (len(found[table]), len(wanted[table])),
        }
        for table in found
        if found[table] != wanted[table]
    }


async def faults(admin: psycopg.AsyncConnection, org_id: UUID) -> dict[str, list[Any]]:
    """Return what is in an org and may not be in any."""
    found = {name: await _rows(admin, query, org_id) for name, query in FAULTS.items()}
    return {name: rows for name, rows in found.items() if rows}


async def _rows(admin: psycopg.AsyncConnection, query: str, org_id: UUID) -> list[Any]:
    return await (await admin.execute(query.encode(), {"org_id": org_id})).fetchall()


def _named(value: Any, names: Mapping[str, str]) -> Any:
    match value:
        case dict():
            return {
                key: inner is not None if key in EVENTS else _named(inner, names)
                for key, inner in value.items()
                if key not in MOMENTS
            }
        case list():
            found = [_named(inner, names) for inner in value]
            # The order of ids is that of their making.
            return sorted(found) if found != value and all(isinstance(one, str) for one in found) else found
        case str() if UNNAMED.fullmatch(value):
            return names.get(value, "unnamed")
        case _:
            return value


async def everything(admin: psycopg.AsyncConnection, org_id: UUID) -> str:
    """Return every row of an org as the database writes it, whatever its table, in lower case."""
    found = []
    for (table,) in await _rows(admin, TABLES, org_id):
        if table != "migrations":
            rows = await _rows(admin, f"select t::text from {table} as t where org_id = %(org_id)s", org_id)
            found += [f"{table}: {row}" for (row,) in rows]
    return "\n".join(found).lower()
