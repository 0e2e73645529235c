"""What may be told to a language model that answers a question, and how often it is asked."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from roomlore.domain.ids import MessageId, OrgId
from roomlore.store.queries import Connection, Queries

QUERIES = Queries("telling")


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
    rows = await QUERIES.all(conn, "kept_back", SensitiveMessage, {"org_id": org_id, "message_ids": list(ids)})
    return {row.id for row in rows}


async def count_answer_call(conn: Connection, org_id: OrgId, *, now: datetime, daily_limit: int) -> int | None:
    """Count a call and return how many before it were not answered; None where none may be made now.

    Args:
        conn: In a transaction that is committed before the call.
        org_id: For whom.
        now: Tells the day, in UTC.
        most: How many calls a day has.
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
