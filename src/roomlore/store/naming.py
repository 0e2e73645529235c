"""Naming conversations with a language model: which are to be named, what is said in them, what they are called.

All of it runs for the operator.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from roomlore.domain.ids import ConversationId, OrgId
from roomlore.store.queries import Connection, Queries

QUERIES = Queries("naming")
#: With fewer messages that say something there is not much to be named.
FEWEST = 3
#: Conversations passed by at once.
PASSED_BY = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationKey:
    """A conversation's id."""

    id: ConversationId


@dataclass(frozen=True, slots=True, kw_only=True)
class Rests:
    """Whether no call may be made."""

    rests: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Unnamed:
    """A conversation to be named, and what it is made of."""

    id: ConversationId
    #: Another one once anything in it has changed.
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Something said in a conversation, or how it begins."""

    author_name: str
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """A call that may be made."""

    #: How many before it were not answered.
    failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """What a participant is called."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """How many conversations wait to be named, and how the language model answered."""

    #: Quiet ones with enough said in them, that are not sensitive and were named by nobody.
    waiting: int
    calls_today: int
    #: Calls that were not answered since the last that was.
    failures: int
    #: None where nothing has failed.
    next_try_at: datetime | None
    #: Why the last call was not answered.
    error: str | None


async def rests(conn: Connection, org_id: OrgId, *, now: datetime, most: int) -> bool:
    """Return whether no call may be made now: one is under way, the last failed, or the day has had its calls."""
    params = {"org_id": org_id, "now": now, "day": _day(now), "most": most}
    row = await QUERIES.first(conn, "rests", Rests, params)
    assert row is not None
    return row.rests


async def pass_by_short(conn: Connection, org_id: OrgId, *, now: datetime) -> int:
    """Leave quiet conversations alone in which little was said, until they change; return how many."""
    params = {"org_id": org_id, "now": now, "fewest": FEWEST, "limit": PASSED_BY}
    short = await QUERIES.all(conn, "short", ConversationKey, params)
    params = {"org_id": org_id, "conversation_ids": [one.id for one in short]}
    return await QUERIES.run(conn, "pass_by", params) if short else 0


async def next_unnamed(
    conn: Connection, org_id: OrgId, *, now: datetime, passed_over: Collection[ConversationId] = ()
) -> Unnamed | None:
    """Return the newest conversation that is to be named, none of those passed over; None where there is none."""
    params = {"org_id": org_id, "now": now, "passed_over": list(passed_over), "fewest": FEWEST}
    return await QUERIES.first(conn, "unnamed", Unnamed, params)


async def said(
    conn: Connection, org_id: OrgId, conversation_id: ConversationId, *, limit: int, longest: int
) -> list[Said]:
    """Return how a conversation begins: its first messages, cut after so many characters each."""
    params = {"org_id": org_id, "conversation_id": conversation_id, "limit": limit, "longest": longest}
    return await QUERIES.all(conn, "said", Said, params)


async def reserve(
    conn: Connection, org_id: OrgId, *, now: datetime, until: datetime, most: int
) -> Reserved | None:
    """Count a call and keep others from making one; None where none may be made now.

    Args:
        conn: In a transaction that is committed before the call.
        org_id: For whom.
        now: Tells the day, in UTC.
        until: When others may, should nothing be heard of this call.
        most: How many calls a day has.
    """
    params = {"org_id": org_id, "day": _day(now), "now": now, "until": until, "most": most}
    return await QUERIES.first(conn, "reserve", Reserved, params) if most else None


async def give_back(conn: Connection, org_id: OrgId, *, now: datetime) -> None:
    """Take back that a call was counted, and let the next be made."""
    await QUERIES.run(conn, "give_back", {"org_id": org_id, "now": now})


async def note_answer(conn: Connection, org_id: OrgId, *, now: datetime, is_answered: bool) -> None:
    """Let the next call be made; one that was given up says nothing about how well calls are answered."""
    await QUERIES.run(conn, "note_answer", {"org_id": org_id, "now": now, "is_answered": is_answered})


async def note_failure(conn: Connection, org_id: OrgId, *, error: str, due_at: datetime) -> None:
    """Say why a call was not answered, and when the next may be made."""
    await QUERIES.run(conn, "note_failure", {"org_id": org_id, "error": error, "due_at": due_at})


async def hold(conn: Connection, org_id: OrgId, conversation_id: ConversationId) -> None:
    """Keep a conversation as it is until the transaction ends: what changes it waits, or is seen from here on."""
    params = {"org_id": org_id, "conversation_id": conversation_id}
    await QUERIES.all(conn, "hold", ConversationKey, params)


async def names_in(conn: Connection, org_id: OrgId, text: str) -> list[str]:
    """Return what participants of the org are called, as far as it occurs in a text, in any case."""
    return [row.name for row in await QUERIES.all(conn, "names_in", Name, {"org_id": org_id, "text": text})]


async def put_title(conn: Connection, org_id: OrgId, asked: Unnamed, title: str | None) -> bool:
    """Call a conversation by its title, or leave it called as it is; return whether it is still as it was.

    One that is held and has changed, was named by a person or is sensitive now gets none.
    """
    params = {"org_id": org_id, "conversation_id": asked.id, "state": asked.state, "title": title}
    return await QUERIES.run(conn, "put_title", params) > 0


async def backlog(conn: Connection, org_id: OrgId, *, now: datetime) -> Backlog:
    """Return how many conversations of an org wait to be named, and how the language model answered."""
    params = {"org_id": org_id, "now": now, "day": _day(now), "fewest": FEWEST}
    row = await QUERIES.first(conn, "backlog", Backlog, params)
    assert row is not None
    return row


def _day(now: datetime) -> str:
    return now.astimezone(UTC).date().isoformat()
