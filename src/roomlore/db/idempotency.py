"""Idempotency keys: the requests that callers made with a key, and the responses without text, kept for a day."""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from roomlore.db.queries import Connection, Queries, RowCount
from roomlore.domain.ids import OrgId, uuid7

QUERIES = Queries("idempotency")

#: How long a response is kept.
RESPONSE_TTL = timedelta(hours=24)
#: If a claim has no response after this time, the process that made the claim died.
CLAIM_TTL = timedelta(minutes=10)
#: The maximum number of claims of one caller; the oldest are dropped.
MAX_CLAIMS = 100_000
#: On average, one claim in this many counts the claims of its caller. These claims are chosen at random.
COUNT_INTERVAL = 256
#: The number of expired claims that each new claim drops.
CLEANUP_INTERVAL = 10
#: The number of bytes at the start of a digest that are the same for all claims of one caller.
_CALLER_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResponse:
    """A request and its response."""

    #: Digest of the request.
    request: bytes
    claimed_at: datetime
    #: None while the request is in progress, or if its outcome is unknown.
    status: int | None
    body: bytes | None
    place: str | None


def digest_of(caller: str, key: str) -> bytes:
    """Return the digest of a caller and one of its keys."""
    who = hashlib.sha256(caller.encode()).digest()
    return who[:_CALLER_DIGEST_BYTES] + hashlib.sha256(who + key.encode()).digest()[_CALLER_DIGEST_BYTES:]


async def claim(
    conn: Connection, org_id: OrgId, digest: bytes, *, request: bytes, now: datetime, may_repeat: bool
) -> UUID | None:
    """Claim a digest and return the id of the claim; None if it is already claimed.

    Args:
        conn: Writes for the operator, in a transaction of its own.
        org_id: The org.
        digest: Digest of the caller and its key.
        request: Digest of the request.
        now: The current time.
        may_repeat: Whether an expired claim may be taken over, because the request may run twice.
    """
    expired = now - RESPONSE_TTL
    made = await _claim(
        conn,
        org_id,
        digest,
        request=request,
        claimed=uuid7(),
        now=now,
        kept_since=expired,
        held_since=now - CLAIM_TTL,
        may_repeat=may_repeat,
    )
    if made is None:
        return None
    await _drop_expired(conn, org_id, expired, limit=CLEANUP_INTERVAL)
    if made.int % COUNT_INTERVAL == 0:
        caller = digest[:_CALLER_DIGEST_BYTES]
        first, last = (caller + end * _CALLER_DIGEST_BYTES for end in (b"\x00", b"\xff"))
        await _drop_oldest(conn, org_id, first, last, kept=MAX_CLAIMS)
    return made


@QUERIES.query
async def _claim(
    conn: Connection,
    org_id: OrgId,
    digest: bytes,
    *,
    request: bytes,
    claimed: UUID,
    now: datetime,
    kept_since: datetime,
    held_since: datetime,
    may_repeat: bool,
) -> UUID | None: ...


@QUERIES.query
async def _drop_expired(conn: Connection, org_id: OrgId, before: datetime, *, limit: int) -> None: ...


@QUERIES.query
async def _drop_oldest(conn: Connection, org_id: OrgId, first: bytes, last: bytes, *, kept: int) -> None: ...


@QUERIES.query
async def find(conn: Connection, org_id: OrgId, digest: bytes) -> StoredResponse | None:
    """Return the request and response of a digest."""
    ...


@QUERIES.query
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
    """Store the status of a response. Also store a body without text, the place to read the body again, or neither."""
    ...


@QUERIES.query
async def release(conn: Connection, org_id: OrgId, digest: bytes, *, claimed: UUID) -> None:
    """Release a claim, so that the request can be made again."""
    ...


@QUERIES.query
async def drop_before(conn: Connection, org_id: OrgId, before: datetime) -> RowCount:
    """Drop the claims made before a time."""
    ...
