"""What was asked for under a key of the caller's own, and what came of it: kept for a day, and never a word of it."""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from roomlore.domain.ids import OrgId, uuid7
from roomlore.store.queries import Connection, Queries

QUERIES = Queries("idempotency")

#: What was asked for is known for so long.
KEPT = timedelta(hours=24)
#: Whoever has not told what became of it by then has died.
HELD = timedelta(minutes=10)
#: So many of one caller's are known; of more the oldest go.
MOST = 100_000
#: One claim in so many looks how many its caller has.
COUNTED_EVERY = 256
#: So many that have expired go with each claim.
TIDIED = 10
#: A digest begins with so many bytes that all of one caller's have in common.
_OF_CALLER = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A claim that was made."""

    claim: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What came of what was asked for."""

    #: Digest of what was asked for.
    request: bytes
    claimed_at: datetime
    #: None while it is under way, or where nobody knows.
    status: int | None
    body: bytes | None
    place: str | None


def digest_of(caller: str, key: str) -> bytes:
    """Return the digest of a caller and of a key of theirs."""
    who = hashlib.sha256(caller.encode()).digest()
    return who[:_OF_CALLER] + hashlib.sha256(who + key.encode()).digest()[_OF_CALLER:]


async def claim(
    conn: Connection, org_id: OrgId, digest: bytes, *, request: bytes, now: datetime, may_repeat: bool
) -> UUID | None:
    """Claim a digest and return by what the claim is known; None where somebody else has claimed it.

    Args:
        conn: Writes for the operator, in a transaction of its own.
        org_id: Whose.
        digest: Of who asks, and of their key.
        request: Digest of what is asked for.
        now: When.
        may_repeat: Whether an expired claim is made again, since what is asked for may be done twice.
    """
    params = {"org_id": org_id, "digest": digest, "request": request, "claim": uuid7(), "now": now}
    params |= {"kept_since": now - KEPT, "held_since": now - HELD, "may_repeat": may_repeat}
    made = await QUERIES.first(conn, "claim", Claimed, params)
    if made is None:
        return None
    expired = {"org_id": org_id, "before": now - KEPT, "most": TIDIED}
    await QUERIES.run(conn, "drop_expired", expired)
    if made.claim.int % COUNTED_EVERY == 0:
        first, last = digest[:_OF_CALLER] + b"\x00" * _OF_CALLER, digest[:_OF_CALLER] + b"\xff" * _OF_CALLER
        await QUERIES.run(conn, "drop_more", {"org_id": org_id, "first": first, "last": last, "most": MOST})
    return made.claim


async def find(conn: Connection, org_id: OrgId, digest: bytes) -> Answered | None:
    """Return what came of what was asked for under a digest; None where nothing was."""
    return await QUERIES.first(conn, "find", Answered, {"org_id": org_id, "digest": digest})


async def settle(
    conn: Connection,
    org_id: OrgId,
    digest: bytes,
    *,
    claimed: UUID,
    status: int,
    body: bytes | None,
    place: str | None,
) -> None:
    """Keep what came of it: its status, and either a body without words or where it is read again, or neither."""
    params = {"org_id": org_id, "digest": digest, "claim": claimed}
    await QUERIES.run(conn, "settle", {**params, "status": status, "body": body, "place": place})


async def release(conn: Connection, org_id: OrgId, digest: bytes, *, claimed: UUID) -> None:
    """Let it be asked for again."""
    await QUERIES.run(conn, "release", {"org_id": org_id, "digest": digest, "claim": claimed})


async def drop_before(conn: Connection, org_id: OrgId, before: datetime) -> int:
    """Drop what was asked for before a time, and return how much that was."""
    return await QUERIES.run(conn, "drop_before", {"org_id": org_id, "before": before})
