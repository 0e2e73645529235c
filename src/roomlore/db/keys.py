"""Keys: who may come in, and with whose eyes they read. The keys themselves are not stored."""

from dataclasses import asdict, dataclass
from datetime import datetime

from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import KeyId, OrgId, ParticipantId, ids_matching
from roomlore.domain.records import ApiKey, Role

QUERIES = Queries("keys")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySession:
    """Whom a key lets in."""

    key_id: KeyId
    role: Role
    participant_id: ParticipantId | None


async def add(conn: Connection, org_id: OrgId, key: ApiKey, *, digest: bytes) -> None:
    """Add a key."""
    params = {
        "org_id": org_id,
        "id": key.id,
        "name": key.name,
        "role": key.role,
        "participant_id": key.participant_id,
        "digest": digest,
        "created_at": key.created_at,
        "expires_at": key.expires_at,
    }
    await QUERIES.run(conn, "add", params)


async def all_keys(conn: Connection, org_id: OrgId) -> list[ApiKey]:
    """Return every key of the org, newest first."""
    return await QUERIES.all(conn, "all_keys", ApiKey, {"org_id": org_id})


async def find_keys(conn: Connection, org_id: OrgId, word: str) -> list[ApiKey]:
    """Return the keys whose ids begin or end so."""
    if (ids := ids_matching(word)) is None:
        return []
    return await QUERIES.all(conn, "find_keys", ApiKey, {"org_id": org_id, **asdict(ids)})


async def valid_key(conn: Connection, org_id: OrgId, key_id: KeyId) -> ApiKey | None:
    """Return a key, or None if there is none, it has expired or was revoked."""
    return await QUERIES.first(conn, "valid_key", ApiKey, {"org_id": org_id, "id": key_id})


async def revoke(conn: Connection, org_id: OrgId, key_id: KeyId, *, revoked_at: datetime) -> None:
    """Make a key invalid; one that was revoked before keeps its time."""
    await QUERIES.run(conn, "revoke", {"org_id": org_id, "id": key_id, "revoked_at": revoked_at})


async def sign_in(conn: Connection, org_id: OrgId, *, digest: bytes) -> KeySession | None:
    """Return whom the key with this digest lets in, or None where it is unknown, expired or revoked."""
    return await QUERIES.first(conn, "sign_in", KeySession, {"org_id": org_id, "digest": digest})
