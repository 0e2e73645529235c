"""How often a language model is asked for an org, and when it may be asked again: for each purpose by itself.

All of it runs for the operator.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import MessageId, OrgId

QUERIES = Queries("llm_quota")

#: For what it is asked: what conversations are called, or what is stated in them. Answers count with the titles.
Purpose = Literal["titles", "statements"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallBlock:
    """Whether no call may be made."""

    rests: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CallReservation:
    """A call that may be made."""

    #: How many before it were not answered.
    failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStatus:
    """How a language model answered."""

    calls_today: int
    #: Calls that were not answered since the last that was.
    failures: int
    #: None where nothing has failed.
    next_try_at: datetime | None
    #: Why the last call was not answered.
    error: str | None


async def is_blocked(
    conn: Connection, org_id: OrgId, purpose: Purpose, *, now: datetime, daily_limit: int
) -> bool:
    """Return whether no call may be made now: one is under way, the last failed, or the day has had its calls."""
    params = {"org_id": org_id, "purpose": purpose, "now": now, "day": quota_day(now), "most": daily_limit}
    row = await QUERIES.first(conn, "rests", CallBlock, params)
    assert row is not None
    return row.rests


async def reserve(
    conn: Connection, org_id: OrgId, purpose: Purpose, *, now: datetime, until: datetime, daily_limit: int
) -> CallReservation | None:
    """Count a call and keep others from making one; None where none may be made now.

    Args:
        conn: In a transaction that is committed before the call.
        org_id: For whom.
        purpose: What for.
        now: Tells the day, in UTC.
        until: When others may, should nothing be heard of this call.
        daily_limit: How many calls a day has.
    """
    params = {
        "org_id": org_id,
        "purpose": purpose,
        "day": quota_day(now),
        "now": now,
        "until": until,
        "most": daily_limit,
    }
    return await QUERIES.first(conn, "reserve", CallReservation, params) if daily_limit else None


async def release(conn: Connection, org_id: OrgId, purpose: Purpose, *, now: datetime) -> None:
    """Take back that a call was counted, and let the next be made."""
    await QUERIES.run(conn, "give_back", {"org_id": org_id, "purpose": purpose, "now": now})


async def record_answer(
    conn: Connection, org_id: OrgId, purpose: Purpose, *, now: datetime, is_answered: bool
) -> None:
    """Let the next call be made; one that was given up says nothing about how well calls are answered."""
    params = {"org_id": org_id, "purpose": purpose, "now": now, "is_answered": is_answered}
    await QUERIES.run(conn, "note_answer", params)


async def record_failure(
    conn: Connection, org_id: OrgId, purpose: Purpose, *, error: str, due_at: datetime
) -> None:
    """Say why a call was not answered, and when the next may be made."""
    params = {"org_id": org_id, "purpose": purpose, "error": error, "due_at": due_at}
    await QUERIES.run(conn, "note_failure", params)


async def call_status(conn: Connection, org_id: OrgId, purpose: Purpose, *, now: datetime) -> CallStatus:
    """Return how a language model answered so far."""
    row = await QUERIES.first(
        conn, "asked", CallStatus, {"org_id": org_id, "purpose": purpose, "day": quota_day(now)}
    )
    assert row is not None
    return row


def quota_day(now: datetime) -> str:
    """Return the day for which calls are counted, in UTC."""
    return now.astimezone(UTC).date().isoformat()


@dataclass(frozen=True, slots=True, kw_only=True)
class SensitiveMessage:
    """The id of a message that is not to be told."""

    id: MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCount:
    """A call that may be made."""

    #: How many before it were not answered.
    failures: int


async def sensitive_messages(conn: Connection, org_id: OrgId, ids: Collection[MessageId]) -> set[MessageId]:
    """Return those of these messages that are in a sensitive conversation or may yet be; read for the operator."""
    rows = await QUERIES.all(
        conn, "kept_back", SensitiveMessage, {"org_id": org_id, "message_ids": list(ids)}
    )
    return {row.id for row in rows}


async def count_answer_call(
    conn: Connection, org_id: OrgId, *, now: datetime, daily_limit: int
) -> int | None:
    """Count a call and return how many before it were not answered; None where none may be made now.

    Args:
        conn: In a transaction that is committed before the call.
        org_id: For whom.
        now: Tells the day, in UTC.
        daily_limit: How many calls a day has.
    """
    day = now.astimezone(UTC).date().isoformat()
    params = {"org_id": org_id, "now": now, "day": day, "most": daily_limit}
    row = await QUERIES.first(conn, "count_call", CallCount, params) if daily_limit else None
    return None if row is None else row.failures


async def reset_answer_failures(conn: Connection, org_id: OrgId) -> None:
    """Forget the calls before this one that were not answered."""
    await QUERIES.run(conn, "note_answered", {"org_id": org_id})


async def record_answer_failure(conn: Connection, org_id: OrgId, *, error: str, due_at: datetime) -> None:
    """Say why a call was not answered, and when the next may be made."""
    await QUERIES.run(conn, "note_unanswered", {"org_id": org_id, "error": error, "due_at": due_at})
