"""Conversation titles from a language model: conversations that need one, the messages shown for it, the result.

All of it runs for the operator.
"""

from collections.abc import Collection
from dataclasses import asdict, dataclass
from datetime import datetime

from roomlore.db import outbox
from roomlore.db.llm_quota import CallStatus, call_status
from roomlore.db.queries import Connection, Queries, RowCount
from roomlore.domain.ids import ConversationId, MessageId, OrgId

QUERIES = Queries("conversation_titles")
#: A conversation with fewer messages that have text gets no title.
MIN_MESSAGES = 3
#: The maximum number of conversations that are skipped at once.
SKIPPED_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class UntitledConversation:
    """A conversation without a title, and a digest of its messages."""

    id: ConversationId
    #: Changes when anything in the conversation does.
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TitleMessage:
    """A message of a conversation; a long text is truncated."""

    message_id: MessageId
    author_name: str
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TitleBacklog(CallStatus):
    """How many conversations wait for a title, and how many calls of the language model were made and failed."""

    #: Conversations that are over, are long enough, are not sensitive and were not named by a person.
    waiting: int


async def skip_short(conn: Connection, org_id: OrgId, *, now: datetime) -> int:
    """Skip conversations that are over but too short, until they change; return how many."""
    short = await _lock_short(conn, org_id, now=now)
    return await _skip(conn, org_id, short) if short else 0


@QUERIES.query
async def _lock_short(
    conn: Connection,
    org_id: OrgId,
    *,
    now: datetime,
    min_messages: int = MIN_MESSAGES,
    limit: int = SKIPPED_AT_ONCE,
) -> list[ConversationId]: ...


@QUERIES.query
async def _skip(
    conn: Connection, org_id: OrgId, conversation_ids: Collection[ConversationId]
) -> RowCount: ...


@QUERIES.query
async def next_untitled(
    conn: Connection,
    org_id: OrgId,
    *,
    now: datetime,
    passed_over: Collection[ConversationId] = (),
    min_messages: int = MIN_MESSAGES,
) -> UntitledConversation | None:
    """Return the newest conversation that needs a title and is not skipped."""
    ...


@QUERIES.query
async def first_messages(
    conn: Connection, org_id: OrgId, conversation_id: ConversationId, *, limit: int, longest: int
) -> list[TitleMessage]:
    """Return the first messages of a conversation, each cut after `longest` characters."""
    ...


@QUERIES.query
async def lock(conn: Connection, org_id: OrgId, conversation_id: ConversationId) -> None:
    """Keep a conversation from changing until the transaction ends. Earlier changes are visible after this call."""
    ...


@QUERIES.query
async def participant_names(conn: Connection, org_id: OrgId, text: str) -> list[str]:
    """Return the names of the org's participants that occur in a text, in any case."""
    ...


async def set_title(
    conn: Connection, org_id: OrgId, untitled: UntitledConversation, title: str | None
) -> bool:
    """Set the title of a conversation, or keep its label; return whether the conversation is still as it was.

    A conversation that changed, was named by a person or is sensitive now gets no title.
    """
    is_set = await _set_title(conn, org_id, untitled, title=title) > 0
    if is_set and title is not None:
        await outbox.append(conn, org_id, "conversation.changed", [untitled.id])
    return is_set


@QUERIES.query
async def _set_title(
    conn: Connection, org_id: OrgId, untitled: UntitledConversation, *, title: str | None
) -> RowCount: ...


async def backlog(conn: Connection, org_id: OrgId, *, now: datetime) -> TitleBacklog:
    """Return how many conversations of an org wait for a title, and the calls and failures of the language model."""
    status = await call_status(conn, org_id, "titles", now=now)
    return TitleBacklog(waiting=await _count_untitled(conn, org_id, now=now), **asdict(status))


@QUERIES.query
async def _count_untitled(
    conn: Connection, org_id: OrgId, *, now: datetime, min_messages: int = MIN_MESSAGES
) -> int: ...
