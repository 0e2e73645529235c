"""API keys: who may sign in, and as which participant they read. Only digests of keys are stored."""

from dataclasses import dataclass
from datetime import datetime

from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import IdRanges, KeyId, OrgId, ParticipantId, ids_matching
from roomlore.domain.records import ApiKey, Role

QUERIES = Queries("keys")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySession:
    """The key of a request, its role, and the participant it signs in."""

    key_id: KeyId
    role: Role
    participant_id: ParticipantId | None


@QUERIES.query
async def add(conn: Connection, org_id: OrgId, key: ApiKey, *, digest: bytes) -> None:
    """Add a key."""
    ...


@QUERIES.query
async def all_keys(conn: Connection, org_id: OrgId) -> list[ApiKey]:
    """Return every key of the org, newest first."""
    ...


async def find_keys(conn: Connection, org_id: OrgId, word: str) -> list[ApiKey]:
    """Return the keys whose ids begin or end with a word."""
    ids = ids_matching(word)
    return await keys_in_ranges(conn, org_id, ids) if ids else []


@QUERIES.query
async def keys_in_ranges(conn: Connection, org_id: OrgId, ids: IdRanges) -> list[ApiKey]:
    """Return the keys whose ids are in these ranges."""
    ...


@QUERIES.query
async def valid_key(conn: Connection, org_id: OrgId, key_id: KeyId) -> ApiKey | None:
    """Return a key, or None if it is unknown, expired or revoked."""
    ...


@QUERIES.query
async def revoke(conn: Connection, org_id: OrgId, key_id: KeyId, *, revoked_at: datetime) -> None:
    """Revoke a key. If it is already revoked, its time of revocation stays the same."""
    ...


@QUERIES.query
async def sign_in(conn: Connection, org_id: OrgId, *, digest: bytes) -> KeySession | None:
    """Return whom the key with this digest signs in; None if the key is unknown, expired or revoked."""
    ...
