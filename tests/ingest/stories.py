"""Made-up rooms as sets of records, and the state they leave in the database, free of ids and arrival times."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import psycopg
from hypothesis import strategies as st

from roomlore.conversations.conversation_model import LONGEST_PAUSE
from roomlore.domain.incoming import IncomingAuthor, IncomingMembership, IncomingMessage, IncomingRoom
from roomlore.operations import App

START = datetime(2024, 3, 1, 12, tzinfo=UTC)
#: Minutes after which no message continues an earlier conversation.
APART = LONGEST_PAUSE / 60 + 1
MISSING = "never arrives"
#: Rooms that may be closed.
CLOSED = ("red",)


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def room(external_id: str = "general", **fields: Any) -> IncomingRoom:
    return replace(IncomingRoom(external_id=external_id, name=external_id), **fields)


def author(account_id: str = "ana", **fields: Any) -> IncomingAuthor:
    return replace(IncomingAuthor(account_id=account_id, name=account_id.title()), **fields)


def message(external_id: str = "1", body: str = "hello", **fields: Any) -> IncomingMessage:
    """Return a message; its time follows from its id where that is a number."""
    minutes = int(external_id) if external_id.isdecimal() else 0
    plain = IncomingMessage(
        platform="test", room=room(), external_id=external_id, author=author(), body=body, sent_at=at(minutes)
    )
    return replace(plain, **fields)


ACCOUNTS = [
    author("ana"),
    author("bo"),
    author("hook", kind="agent", persona="Weather"),
    author("hook", kind="agent", persona="News"),
    author("cy"),
    author("", kind="system", name="notice"),
]


@st.composite
def named(draw: st.DrawFn, who: IncomingAuthor) -> IncomingAuthor:
    """Draw an author as called at some time, and perhaps marked as an agent by this record only."""
    kind = draw(st.sampled_from([who.kind, who.kind, "agent"])) if who.account_id else who.kind
    return replace(who, name=who.name + draw(st.sampled_from(["", "", "!", " B."])), kind=kind)


@st.composite
def rooms_as_described(draw: st.DrawFn, name: str) -> IncomingRoom:
    """Draw a room as one record describes it: renamed, closed, with members who came and left."""
    members = draw(
        st.lists(
            st.builds(
                lambda who, joined, stay: IncomingMembership(
                    author=who,
                    joined_at=None if joined is None else at(joined),
                    left_at=None if stay is None else at((joined or 0) + stay),
                ),
                st.sampled_from(ACCOUNTS).flatmap(named),
                st.sampled_from([None, 0, 5]),
                st.sampled_from([None, None, 0, 3]),
            ),
            max_size=2,
        )
    )
    # The list of a closed room is complete, and which of three lists is in between needs their order.
    visibility = draw(st.sampled_from(["open", "open", "open", "members"])) if name in CLOSED else "open"
    return room(
        name,
        # A name that is only the id is none: whether an older one is known depends on what came before.
        name=name + draw(st.sampled_from(["-named", "-renamed"])),
        topic=draw(st.sampled_from(["", "tea"])),
        visibility=visibility,
        members=() if name in CLOSED else tuple(members),
    )


def called(described: IncomingRoom, like: IncomingRoom) -> IncomingRoom:
    return replace(described, name=like.name, topic=like.topic)


@st.composite
def versions(draw: st.DrawFn, number: int, count: int) -> list[IncomingMessage]:
    """Draw the records of one message: as it was said, edited, removed."""
    kind = draw(st.sampled_from(["message", "message", "message", "whisper", "system", "context_injection"]))
    others = [str(other) for other in range(count)] + [MISSING]
    who, where = draw(st.sampled_from(ACCOUNTS)), draw(st.sampled_from(["red", "blue"]))
    first = IncomingMessage(
        platform="test",
        room=draw(rooms_as_described(where)),
        # The room is part of what names a message, so that two rooms may use the same id.
        external_id=str(number),
        author=draw(named(who)),
        body=f"text {number}",
        sent_at=at(draw(st.integers(0, 6))),
        order=number,
        kind=kind,
        reply_to=draw(st.none() | st.sampled_from(others)),
        thread_root=draw(st.none() | st.none() | st.sampled_from(others)),
        audience=tuple(draw(st.lists(st.sampled_from(ACCOUNTS), max_size=2))) if kind == "whisper" else (),
        reactions=draw(st.sampled_from([(), ({"emoji": "+1", "count": 1},)])),
    )
    records = [first]
    removed = draw(st.integers(0, 5)) == 0
    records += [
        replace(
            first,
            body=draw(st.sampled_from(["", f"text {number}", f"edit {edit} of {number}"])),
            edited_at=first.sent_at + timedelta(minutes=edit),
            # A removed message does not tell which of its versions named its author.
            author=first.author if removed else draw(named(who)),
            room=called(draw(rooms_as_described(where)), first.room),
            reply_to=draw(st.sampled_from([None, first.reply_to])),
            metadata={"edit": edit},
            reactions=(),
        )
        for edit in range(draw(st.integers(0, 2)))
    ]
    if removed:
        described = called(draw(rooms_as_described(where)), first.room)
        records.append(replace(first, deleted=True, reply_to=None, room=described))
    # An export may hold only the last version.
    return records[draw(st.integers(0, len(records) - 1)) :] if draw(st.booleans()) else records


class Story:
    """Records in the order in which they were written, and one way in which they may arrive."""

    def __init__(
        self, written: Sequence[IncomingMessage], batches: Sequence[Sequence[IncomingMessage]]
    ) -> None:
        self.written = written
        self.batches = batches

    def __repr__(self) -> str:
        return "\n".join(
            [
                "written",
                *map(short, self.written),
                *("batch\n" + "\n".join(map(short, b)) for b in self.batches),
            ]
        )


def short(record: IncomingMessage) -> str:
    """Return what tells records apart, and leave out what is as usual."""
    plain = message(record.external_id)
    shown = {
        name: getattr(record, name)
        for name in record.__slots__
        if getattr(record, name) != getattr(plain, name)
    }
    return f"  {record.external_id} {shown}"


@st.composite
def stories(draw: st.DrawFn) -> Story:
    count = draw(st.integers(1, 8))
    written = [record for number in range(count) for record in draw(versions(number, count))]
    again = draw(st.lists(st.sampled_from(written), max_size=4))
    arriving = draw(st.permutations([*written, *again]))
    cuts = sorted(draw(st.sets(st.integers(0, len(arriving)), max_size=5)) | {0, len(arriving)})
    batches = [arriving[start:end] for start, end in pairwise(cuts)]
    return Story(written=written, batches=batches)


STATE = {
    "messages": """
        select rooms.external_id, messages.external_id, messages.kind, platform_accounts.account_id,
          platform_accounts.persona, author_name, author_kind, body, sent_at, sequence, edited_at,
          redacted_at is not null, reactions, metadata, raw
        from messages
        join rooms on rooms.org_id = messages.org_id and rooms.id = room_id
        join platform_accounts on platform_accounts.org_id = messages.org_id and participant_id = author_id
        where messages.org_id = %s""",
    "message_revisions": """
        select rooms.external_id, messages.external_id, written_at, message_revisions.body
        from message_revisions
        join messages on messages.org_id = message_revisions.org_id and messages.id = message_id
        join rooms on rooms.org_id = messages.org_id and rooms.id = room_id
        where message_revisions.org_id = %s""",
    "replies": """
        select rooms.external_id, child.external_id, parent.external_id, parent_external_id, method, confidence
        from replies
        join messages as child on child.org_id = replies.org_id and child.id = child_id
        left join messages as parent on parent.org_id = replies.org_id and parent.id = parent_id
          and parent.room_id = child.room_id
        join rooms on rooms.org_id = child.org_id and rooms.id = child.room_id
        where replies.org_id = %s""",
    "audience": """
        select rooms.external_id, messages.external_id, account_id, persona
        from message_audience
        join messages on messages.org_id = message_audience.org_id and messages.id = message_id
        join rooms on rooms.org_id = messages.org_id and rooms.id = room_id
        join platform_accounts on platform_accounts.org_id = message_audience.org_id
          and platform_accounts.participant_id = message_audience.participant_id
        where message_audience.org_id = %s""",
    "memberships": """
        select rooms.external_id, account_id, persona, joined_at::text, left_at, implied
        from memberships
        join rooms on rooms.org_id = memberships.org_id and rooms.id = room_id
        join platform_accounts on platform_accounts.org_id = memberships.org_id
          and platform_accounts.participant_id = memberships.participant_id
        where memberships.org_id = %s""",
    "room_activity": """
        select rooms.external_id, account_id, persona, message_count, first_at, last_at
        from room_activity
        join rooms on rooms.org_id = room_activity.org_id and rooms.id = room_id
        join platform_accounts on platform_accounts.org_id = room_activity.org_id
          and platform_accounts.participant_id = room_activity.participant_id
        where room_activity.org_id = %s""",
    "rooms": "select external_id, name, kind, topic, visibility from rooms where org_id = %s",
    "participants": """
        select account_id, persona, name, kind
        from participants
        join platform_accounts on platform_accounts.org_id = participants.org_id and participant_id = participants.id
        where participants.org_id = %s""",
    "work_queue": """
        select rooms.external_id, messages.external_id, queue
        from work_queue
        join messages on messages.org_id = work_queue.org_id and messages.id = subject_id
        join rooms on rooms.org_id = messages.org_id and rooms.id = room_id
        where work_queue.org_id = %s""",
}


async def state(admin: psycopg.AsyncConnection, app: App) -> dict[str, list[str]]:
    """Return everything that ingest left behind in an org, without our ids and the times of arrival."""
    found: dict[str, list[str]] = {}
    for name, query in STATE.items():
        rows = await (await admin.execute(query, [app.org_id])).fetchall()
        found[name] = sorted(repr(row) for row in rows)
    return found


def difference(found: dict[str, list[str]], wanted: dict[str, list[str]]) -> dict[str, object]:
    """Return which rows are there and should not be, and the other way round."""
    return {
        name: {
            "only found": [row for row in found[name] if row not in wanted[name]],
            "only wanted": [row for row in wanted[name] if row not in found[name]],
        }
        for name in STATE
        if found[name] != wanted[name]
    }
