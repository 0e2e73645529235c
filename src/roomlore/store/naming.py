"""Naming conversations with a language model: which are to be named, what is said in them, what they are called.

All of it runs for the operator.
"""

from collections.abc import Collection
from dataclasses import asdict, dataclass
from datetime import datetime

from roomlore.domain.ids import ConversationId, MessageId, OrgId
from roomlore.store import changes
from roomlore.store.asking import Asked, asked
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
class Unnamed:
    """A conversation to be named, and what it is made of."""

    id: ConversationId
    #: Another one once anything in it has changed.
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Something said in a conversation, or how it begins."""

    message_id: MessageId
    author_name: str
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """What a participant is called."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """How many conversations wait to be named."""

    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog(Asked):
    """How many conversations wait to be named, and how the language model answered."""

    #: Quiet ones with enough said in them, that are not sensitive and were named by nobody.
    waiting: int


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
    is_put = await QUERIES.run(conn, "put_title", params) > 0
    if is_put and title is not None:
        await changes.note(conn, org_id, "conversation.changed", [asked.id])
    return is_put


async def backlog(conn: Connection, org_id: OrgId, *, now: datetime) -> Backlog:
    """Return how many conversations of an org wait to be named, and how the language model answered."""
    params = {"org_id": org_id, "now": now, "fewest": FEWEST}
    row = await QUERIES.first(conn, "waiting", Waiting, params)
    assert row is not None
    return Backlog(waiting=row.waiting, **asdict(await asked(conn, org_id, "titles", now=now)))
