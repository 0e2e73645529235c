"""What was asked for under a key of the caller's own, and what came of it: kept for a day, and never a word of it."""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import OrgId, uuid7

QUERIES = Queries("idempotency")

#: What was asked for is known for so long.
RESPONSE_TTL = timedelta(hours=24)
#: Whoever has not told what became of it by then has died.
CLAIM_TTL = timedelta(minutes=10)
#: So many of one caller's are known; of more the oldest go.
MAX_CLAIMS = 100_000
#: One claim in so many looks how many its caller has.
COUNT_INTERVAL = 256
#: So many that have expired go with each claim.
CLEANUP_INTERVAL = 10
#: A digest begins with so many bytes that all of one caller's have in common.
_CALLER_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim that was made."""

    claim: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResponse:
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
    return who[:_CALLER_DIGEST_BYTES] + hashlib.sha256(who + key.encode()).digest()[_CALLER_DIGEST_BYTES:]


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
    params |= {"kept_since": now - RESPONSE_TTL, "held_since": now - CLAIM_TTL, "may_repeat": may_repeat}
    made = await QUERIES.first(conn, "claim", Claim, params)
    if made is None:
        return None
    expired = {"org_id": org_id, "before": now - RESPONSE_TTL, "most": CLEANUP_INTERVAL}
    await QUERIES.run(conn, "drop_expired", expired)
    if made.claim.int % COUNT_INTERVAL == 0:
        first, last = (
            digest[:_CALLER_DIGEST_BYTES] + b"\x00" * _CALLER_DIGEST_BYTES,
            digest[:_CALLER_DIGEST_BYTES] + b"\xff" * _CALLER_DIGEST_BYTES,
        )
        await QUERIES.run(
            conn, "drop_more", {"org_id": org_id, "first": first, "last": last, "most": MAX_CLAIMS}
        )
    return made.claim


async def find(conn: Connection, org_id: OrgId, digest: bytes) -> StoredResponse | None:
    """Return what came of what was asked for under a digest; None where nothing was."""
    return await QUERIES.first(conn, "find", StoredResponse, {"org_id": org_id, "digest": digest})


async def store_response(
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
