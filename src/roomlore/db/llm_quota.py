"""How often an org may call a language model, and when it may call again after a failure.

Each purpose has its own quota. All of it runs for the operator.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import MessageId, OrgId

QUERIES = Queries("llm_quota")

#: Titles of conversations, or extraction of memories. Answers count as titles.
Purpose = Literal["titles", "statements"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStatus:
    """How many calls of a language model were made today, and how many failed since the last answer."""

    #: In UTC.
    calls_today: int
    #: Failed calls since the last answer.
    failures: int
    #: None if nothing failed.
    next_try_at: datetime | None
    #: Why the last call failed.
    error: str | None


@QUERIES.query
async def is_blocked(
    conn: Connection, org_id: OrgId, purpose: Purpose, *, now: datetime, daily_limit: int
) -> bool:
    """Return whether no call is allowed now: a call is running, the last call failed, or the daily limit is reached."""
    ...


@QUERIES.query
async def reserve(
    conn: Connection, org_id: OrgId, purpose: Purpose, *, now: datetime, until: datetime, daily_limit: int
) -> int | None:
    """Count a call and block other calls; return how many calls failed before it, or None if no call is allowed now.

    Commit the transaction before you make the call. The block ends at `until`, even if the caller never reports back.
    """
    ...


@QUERIES.query
async def release(conn: Connection, org_id: OrgId, purpose: Purpose, *, now: datetime) -> None:
    """Undo the count of a call that was not made, and allow the next call."""
    ...


@QUERIES.query
async def record_answer(
    conn: Connection, org_id: OrgId, purpose: Purpose, *, now: datetime, is_answered: bool
) -> None:
    """Allow the next call. A cancelled call does not change the count of failures."""
    ...


@QUERIES.query
async def record_failure(
    conn: Connection, org_id: OrgId, purpose: Purpose, *, error: str, due_at: datetime
) -> None:
    """Store why a call failed, and when the next call is allowed."""
    ...


@QUERIES.query
async def call_status(conn: Connection, org_id: OrgId, purpose: Purpose, *, now: datetime) -> CallStatus:
    """Return how many calls of a language model were made today, and how many failed since the last answer."""
    ...


@QUERIES.query
async def sensitive_messages(conn: Connection, org_id: OrgId, ids: Collection[MessageId]) -> set[MessageId]:
    """Return the given messages that are in a sensitive conversation or may still become part of one."""
    ...


@QUERIES.query
async def count_answer_call(
    conn: Connection, org_id: OrgId, *, now: datetime, daily_limit: int
) -> int | None:
    """Count a call for an answer; return how many calls failed before it, or None if no call is allowed now.

    Commit the transaction before you make the call.
    """
    ...


@QUERIES.query
async def reset_answer_failures(conn: Connection, org_id: OrgId) -> None:
    """Reset the count of failed calls."""
    ...


@QUERIES.query
async def record_answer_failure(conn: Connection, org_id: OrgId, *, error: str, due_at: datetime) -> None:
    """Store why a call failed, and when the next call is allowed."""
    ...
