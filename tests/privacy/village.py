"""A small org in which everything hangs on everything, and what its tables hold, as a superuser sees them."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg

from ingest.stories import at, author, message, room
from roomlore.domain.ids import uuid7
from roomlore.domain.incoming import IncomingMembership, IncomingMessage
from roomlore.operations import App

ANA, BO, CY = author("ana"), author("bo"), author("cy")
PIP = author("pip", kind="agent")
GENERAL = room()
CLOSED = room(
    "closed", visibility="members", members=tuple(IncomingMembership(author=one) for one in (ANA, BO, PIP))
)
PAIR = room("pair", name="Ana", kind="dm", visibility="members", members=CLOSED.members[:2])

#: Every table with rows of an org, and what tells its rows apart.
TABLES = {
    "participants": "id",
    "platform_accounts": "platform, account_id, persona",
    "rooms": "id",
    "memberships": "room_id, participant_id, joined_at",
    "messages": "id",
    "message_audience": "message_id, participant_id",
    "message_revisions": "message_id, written_at",
    "replies": "id",
    "room_activity": "room_id, participant_id",
    "message_embeddings": "message_id, model",
    "work_queue": "queue, subject_id",
    "participant_merges": "participant_id",
    "conversations": "id",
    "conversation_messages": "message_id",
    "memories": "id",
    "memory_embeddings": "memory_id, model",
    "memory_sources": "memory_id, message_id",
    "memory_participants": "memory_id, participant_id, role",
    "memory_tags": "memory_id, tag",
    "supersession_overrides": "memory_id, digest",
    "interactions": "conversation_id, agent_id, participant_id",
    "stated_trust": "agent_id, participant_id",
    "injections": "message_id",
    "privacy_requests": "id",
    "restricted_messages": "message_id, request_id",
    "llm_calls": "id",
    "llm_call_messages": "message_id, call_id",
    "erased_accounts": "digest",
    "erased_names": "digest",
    "erased_rooms": "digest",
    "erased_ranges": "room_id, since, until",
    "api_keys": "id",
}
#: Changed by every call.
BESIDE = {
    "orgs", "receipts", "audit_log", "migrations", "llm_quota", "llm_room_quota", "outbox", "idempotency",
    "heartbeats", "projections", "embedding_versions",
}  # fmt: skip

Rows = dict[str, dict[str, dict[str, Any]]]


async def dump(admin: psycopg.AsyncConnection, app: App) -> Rows:
    """Every row of the org, by table and key."""
    held: Rows = {}
    for table, key in TABLES.items():
        rows = await admin.execute(
            f"select jsonb_build_array({key})::text, to_jsonb({table}) from {table} where org_id = %s",
            [app.org_id],
        )
        held[table] = dict(await rows.fetchall())
    return held


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """How one table differs from before."""

    went: list[dict[str, Any]]
    came: list[dict[str, Any]]
    #: The row as it was, and the columns that differ.
    differ: list[tuple[dict[str, Any], set[str]]]


def changes(before: Rows, after: Rows) -> dict[str, Change]:
    """Return how tables differ, without those that do not."""
    found = {}
    for table in TABLES:
        old, new = before[table], after[table]
        if old != new:
            found[table] = Change(
                went=[old[key] for key in old.keys() - new.keys()],
                came=[new[key] for key in new.keys() - old.keys()],
                differ=[
                    (old[key], {column for column in old[key] if old[key][column] != new[key][column]})
                    for key in old.keys() & new.keys()
                    if old[key] != new[key]
                ],
            )
    return found


def rooms_again(went: dict[str, Change]) -> set[str]:
    """Take out of the changes which rooms are to be gone through again, and return them."""
    work = went.pop("work_queue", Change(went=[], came=[], differ=[]))
    rooms = [row for row in work.came if row["queue"] == "disentangle"]
    touched = [(row, columns) for row, columns in work.differ if row["queue"] == "disentangle"]
    for _, columns in touched:
        assert columns <= {"version", "since", "until", "due_at"}, columns
    left = Change(
        went=work.went,
        came=[row for row in work.came if row not in rooms],
        differ=[one for one in work.differ if one not in touched],
    )
    if left.went or left.came or left.differ:
        went["work_queue"] = left
    return {row["subject_id"] for row in (*rooms, *(row for row, _ in touched))}


def told() -> list[IncomingMessage]:
    """What was said: mentions, reactions, marks, whispers, edits, replies, notices, foreign records."""
    in_closed = {"room": CLOSED}
    return [
        message("1", "the ferry leaves at nine", author=ANA, raw={"text": "the ferry", "user": "ana"}),
        message(
            "2",
            "thanks @Ana and <@ana>, says Ana's friend",
            author=BO,
            reply_to="1",
            mentions=("ana", "cy"),
            reactions=({"emoji": "+1", "count": 2, "by": ["ana", "cy"]},),
            attachments=({"name": "map.png", "url": "http://x/map.png", "by": "Ana"},),
            metadata={"seen_by": ["ana", "bo"], "count": 2},
            raw={"text": "thanks <@ana>", "mentions": [{"id": "ana", "nick": "Annie"}, {"id": "cy"}]},
        ),
        message("3", "plainly, Ana was late", author=CY),
        message("4", "Ana joined the room", author=author("", kind="system", name="notice"), kind="system"),
        message("5", "only for you", author=BO, kind="whisper", audience=(ANA, CY)),
        message("6", "a secret of mine", author=ANA, kind="whisper", audience=(BO,)),
        message("7", "first words", author=ANA),
        message("7", "second words", author=ANA, edited_at=at(60)),
        message("8", "yes @Ana", author=CY, reply_to="7", mentions=("ana",)),
        message("8", "yes indeed @Ana", author=CY, edited_at=at(61), mentions=("ana",)),
        message("9", "behind the door", author=ANA, **in_closed),
        message("10", "I heard", author=PIP, reply_to="9", **in_closed),
        message("11", "just us", author=BO, room=PAIR),
        message("12", "the weather is fine", author=CY, reply_to="3"),
    ]


async def ids_of(village: App, marks: Sequence[str]) -> list[UUID]:
    """Return ids of messages by their external ids."""
    async with village.db.read_transaction(village.operator) as conn:
        rows = await conn.execute(
            "select external_id, id from messages where external_id = any (%s)", [marks]
        )
        ids = dict(await rows.fetchall())
    return [ids[mark] for mark in marks]


async def participant(village: App, account_id: str) -> UUID:
    async with village.db.read_transaction(village.operator) as conn:
        row = await (
            await conn.execute(
                "select participant_id from platform_accounts where account_id = %s", [account_id]
            )
        ).fetchone()
    assert row is not None
    return row[0]


async def remember(
    village: App,
    content: str,
    *,
    sources: Iterable[str] = (),
    roles: Iterable[tuple[str, str]] = (),
    asserted_by: str | None = None,
) -> UUID:
    """Add a memory that rests on messages and is of participants in these roles."""
    memory_id, org = uuid7(), village.org_id
    ids = await ids_of(village, list(sources))
    people = [(await participant(village, account), role) for account, role in roles]
    by = await participant(village, asserted_by) if asserted_by else None

    async def add(conn) -> None:
        await conn.execute(
            "insert into memories values (%s, %s, 'fact', %s, 'normal', %s, now())",
            [org, memory_id, content, by],
        )
        await conn.execute(
            "insert into memory_embeddings values"
            " (%s, %s, 'fake-hash-384', array_fill(1, array[384])::vector::halfvec)",
            [org, memory_id],
        )
        for source in ids:
            await conn.execute("insert into memory_sources values (%s, %s, %s)", [org, memory_id, source])
        for who, role in people:
            await conn.execute(
                "insert into memory_participants values (%s, %s, %s, %s)", [org, memory_id, who, role]
            )

    await village.db.change(org, add)
    return memory_id


async def tangle(village: App) -> None:
    """Forget what was found out about who answers whom and which messages belong together."""

    async def drop(conn) -> None:
        await conn.execute("delete from conversation_messages")
        await conn.execute("delete from conversations")
        await conn.execute("delete from replies where method in ('mention', 'inferred')")

    await village.db.change(village.org_id, drop)


async def link(village: App, child: str, parent: str, method: str = "inferred") -> None:
    """Let a message answer another, as found."""
    [one, other] = await ids_of(village, [child, parent])

    async def add(conn) -> None:
        await conn.execute(
            "insert into replies (org_id, room_id, child_id, parent_id, method, confidence)"
            " select org_id, room_id, id, %s, %s, 0.5 from messages where id = %s",
            [other, method, one],
        )

    await village.db.change(village.org_id, add)


async def converse(village: App, label: str, marks: Sequence[str], *, is_named: bool = False) -> UUID:
    """Put messages of one room into a conversation."""
    conversation_id, org = uuid7(), village.org_id
    ids = await ids_of(village, marks)

    async def add(conn) -> None:
        await conn.execute(
            "insert into conversations"
            " (org_id, id, room_id, label, is_named, split_reason, opened_at, last_at, idle_timeout)"
            " select org_id, %s, room_id, %s, %s, 'first', min(sent_at), max(sent_at), '1 hour'"
            " from messages where id = any (%s) group by org_id, room_id",
            [conversation_id, label, is_named, ids],
        )
        await conn.execute(
            "insert into conversation_messages (org_id, message_id, conversation_id) select org_id, id, %s"
            " from messages where id = any (%s)",
            [conversation_id, ids],
        )

    await village.db.change(org, add)
    return conversation_id


async def relate(village: App, agent: str, other: str, *, conversation_id: UUID) -> None:
    one, two = await participant(village, agent), await participant(village, other)

    async def add(conn) -> None:
        await conn.execute(
            "insert into interactions values (%s, %s, %s, %s, 1, 0, 0, 0, 0, now())",
            [village.org_id, conversation_id, one, two],
        )

    await village.db.change(village.org_id, add)


async def settle(village: App) -> dict[str, UUID]:
    """Tell everything, embed most of it, and derive what can be derived; return what was derived."""
    await village.ingest_batch(told())
    await village.drain()
    await tangle(village)
    await link(village, "3", "1")
    await link(village, "7", "3", "mention")
    # Something is always still waiting.
    await village.ingest(message("13", "not embedded yet", author=ANA, mentions=("cy",)))
    await village.keys.create("member", name="for Ana", participant="ana")
    await village.keys.create("member", name="for Bo", participant="bo")
    ending = await converse(village, "nothing much", ["12"])
    await relate(village, "pip", "ana", conversation_id=ending)
    await relate(village, "pip", "bo", conversation_id=ending)
    await village.agents.set_trust("pip", "ana", 0.9)
    await village.agents.set_trust("pip", "bo", 0.2)
    return {
        "rests on 1": await remember(village, "The ferry leaves at nine", sources=["1", "3"]),
        "rests on 3": await remember(village, "Somebody was late", sources=["3"]),
        "about ana": await remember(village, "Likes tea", sources=["12"], roles=[("ana", "subject")]),
        "by ana": await remember(village, "Hates tea", asserted_by="ana"),
        "names ana": await remember(
            village, "Bo met Ana", sources=["2"], roles=[("bo", "subject"), ("ana", "involved")]
        ),
        "involves ana": await remember(
            village, "Bo met many", sources=["2"], roles=[("bo", "subject"), ("ana", "involved")]
        ),
        "of cy": await remember(village, "Cy is quick", sources=["12"], roles=[("cy", "subject")]),
        "root": await converse(village, "ferry times", ["1", "2", "3"]),
        "ending": ending,
        "alone": await converse(village, "words, words", ["7"]),
    }


def as_text(rows: Rows) -> str:
    return json.dumps(rows, ensure_ascii=False, default=str)
