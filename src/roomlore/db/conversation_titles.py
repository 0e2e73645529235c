"""Naming conversations with a language model: which are to be named, what is said in them, what they are called.

All of it runs for the operator.
"""

from collections.abc import Collection
from dataclasses import asdict, dataclass
from datetime import datetime

from roomlore.db import outbox
from roomlore.db.llm_quota import CallStatus, call_status
from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import ConversationId, MessageId, OrgId

QUERIES = Queries("conversation_titles")
#: With fewer messages that say something there is not much to be named.
MIN_MESSAGES = 3
#: Conversations passed by at once.
PASSED_BY = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationRef:
    """A conversation's id."""

    id: ConversationId


@dataclass(frozen=True, slots=True, kw_only=True)
class UntitledConversation:
    """A conversation to be named, and what it is made of."""

    id: ConversationId
    #: Another one once anything in it has changed.
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TitleMessage:
    """Something said in a conversation, or how it begins."""

    message_id: MessageId
    author_name: str
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NameRow:
    """What a participant is called."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingCount:
    """How many conversations wait to be named."""

    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TitleBacklog(CallStatus):
    """How many conversations wait to be named, and how the language model answered."""

    #: Quiet ones with enough said in them, that are not sensitive and were named by nobody.
    waiting: int


async def skip_short(conn: Connection, org_id: OrgId, *, now: datetime) -> int:
    """Leave quiet conversations alone in which little was said, until they change; return how many."""
    params = {"org_id": org_id, "now": now, "fewest": MIN_MESSAGES, "limit": PASSED_BY}
    short = await QUERIES.all(conn, "short", ConversationRef, params)
    params = {"org_id": org_id, "conversation_ids": [one.id for one in short]}
    return await QUERIES.run(conn, "pass_by", params) if short else 0


async def next_untitled(
    conn: Connection, org_id: OrgId, *, now: datetime, passed_over: Collection[ConversationId] = ()
) -> UntitledConversation | None:
    """Return the newest conversation that is to be named, none of those passed over; None where there is none."""
    params = {"org_id": org_id, "now": now, "passed_over": list(passed_over), "fewest": MIN_MESSAGES}
    return await QUERIES.first(conn, "unnamed", UntitledConversation, params)


async def first_messages(
    conn: Connection, org_id: OrgId, conversation_id: ConversationId, *, limit: int, longest: int
) -> list[TitleMessage]:
    """Return how a conversation begins: its first messages, cut after so many characters each."""
    params = {"org_id": org_id, "conversation_id": conversation_id, "limit": limit, "longest": longest}
    return await QUERIES.all(conn, "said", TitleMessage, params)


async def lock(conn: Connection, org_id: OrgId, conversation_id: ConversationId) -> None:
    """Keep a conversation as it is until the transaction ends: what changes it waits, or is seen from here on."""
    params = {"org_id": org_id, "conversation_id": conversation_id}
    await QUERIES.all(conn, "hold", ConversationRef, params)


async def participant_names(conn: Connection, org_id: OrgId, text: str) -> list[str]:
    """Return what participants of the org are called, as far as it occurs in a text, in any case."""
    return [
        row.name for row in await QUERIES.all(conn, "names_in", NameRow, {"org_id": org_id, "text": text})
    ]


async def set_title(conn: Connection, org_id: OrgId, asked: UntitledConversation, title: str | None) -> bool:
    """Call a conversation by its title, or leave it called as it is; return whether it is still as it was.

    One that is held and has changed, was named by a person or is sensitive now gets none.
    """
    params = {"org_id": org_id, "conversation_id": asked.id, "state": asked.state, "title": title}
    is_put = await QUERIES.run(conn, "put_title", params) > 0
    if is_put and title is not None:
        await outbox.append(conn, org_id, "conversation.changed", [asked.id])
    return is_put


async def backlog(conn: Connection, org_id: OrgId, *, now: datetime) -> TitleBacklog:
    """Return how many conversations of an org wait to be named, and how the language model answered."""
    params = {"org_id": org_id, "now": now, "fewest": MIN_MESSAGES}
    row = await QUERIES.first(conn, "waiting", WaitingCount, params)
    assert row is not None
    return TitleBacklog(waiting=row.waiting, **asdict(await call_status(conn, org_id, "titles", now=now)))
