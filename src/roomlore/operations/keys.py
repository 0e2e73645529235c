"""Keys: the secrets with which callers sign in. A key names its org and the participant that its holder reads as.

A key holds 256 random bits. Only their SHA-256 is stored, so the key is shown only once.
"""

import base64
import binascii
import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated
from uuid import UUID

from msgspec import Meta

from roomlore.db import directory, erasure_guard, keys
from roomlore.db.database import Database
from roomlore.db.directory import ParticipantKey
from roomlore.db.queries import Connection
from roomlore.domain.errors import BadInput, KeyRefused
from roomlore.domain.ids import KeyId, OrgId, uuid7
from roomlore.domain.records import RIGHTS, ApiKey, Role, Viewer, field_values
from roomlore.operations.access import Access, viewer_of
from roomlore.operations.registry import NO_NUL, operation
from roomlore.search import lookup

PREFIX = "rlk_"
LONGEST_NAME, LONGEST_SPAN = 200, timedelta(days=365 * 100)
_ORG_BYTES, _SECRET_BYTES = 16, 32
KeyName = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME, pattern=NO_NUL)]
KeyLifetime = Annotated[timedelta, Meta(ge=1, le=int(LONGEST_SPAN.total_seconds()), description="Seconds.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey(ApiKey):
    """A new key with its secret, which is never shown again."""

    key: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The keys of an org. Every method raises NotAllowed unless the caller is an operator."""

    access: Access

    @operation("POST", "/keys", name="create_key", replay="once", status=201)
    async def create(
        self,
        role: Role,
        *,
        name: KeyName,
        participant: str | None = None,
        valid_for: KeyLifetime | None = None,
    ) -> NewKey:
        """Make a key and return it with its secret, which is shown only once.

        Args:
            role: The rights of its holder.
            name: A name that tells keys apart.
            participant: The participant that an agent or a member reads as. An operator has none.
            valid_for: How long the key is valid. Default: forever.

        Raises:
            NotFound: there is no such participant.
            BadInput: the role does not fit the participant, or an argument is invalid.
        """
        _check(role, name, participant, valid_for)
        secret, now = secrets.token_bytes(_SECRET_BYTES), datetime.now(UTC)

        async def work(conn: Connection) -> tuple[ApiKey, Sequence[UUID]]:
            await erasure_guard.lock_shared(conn, self.access.org_id)
            holder = None if participant is None else await self._holder(conn, role, participant)
            key = ApiKey(
                id=KeyId(uuid7()),
                name=name,
                role=role,
                participant_id=None if holder is None else holder.id,
                participant_name=None if holder is None else holder.name,
                created_at=now,
                expires_at=None if valid_for is None else now + valid_for,
                revoked_at=None,
            )
            await keys.add(conn, self.access.org_id, key, digest=_digest(secret))
            return key, [key.id]

        key = await self.access.change("administer", "make key", work)
        return NewKey(**field_values(key), key=_format_key(self.access.org_id, secret))

    async def _holder(self, conn: Connection, role: Role, participant: str) -> ParticipantKey:
        holder_id = await lookup.participant(conn, self.access.org_id, participant)
        accounts = await directory.accounts(conn, self.access.org_id, holder_id)
        is_agent = all(account.kind == "agent" for account in accounts)
        if (role == "agent") != is_agent:
            raise BadInput("role", f"{participant} is {'an' if is_agent else 'no'} agent")
        return next(account for account in accounts if account.id == holder_id)

    @operation("GET", "/keys", name="list_keys")
    async def all(self) -> list[ApiKey]:
        """Return every key of the org without its secret, newest first."""
        await self.access.check("administer", "list keys")
        async with self.access.reading(self.access.principal, "list keys") as reading:
            found = await keys.all_keys(reading.conn, self.access.org_id)
            reading.record_shown(key.id for key in found)
        return found

    @operation("DELETE", "/keys/{key}", name="revoke_key", replay="whole", result_key="revoked")
    async def revoke(self, key: str) -> KeyId:
        """Revoke a key at once and return its id.

        Raises:
            NotFound: no key has that id.
            BadInput: several ids begin like this, or it is a secret and not an id.
        """
        if key.startswith(PREFIX):
            # Errors repeat their input, and a secret must not appear there.
            raise BadInput("key", "is named by its id, never by itself")

        async def work(conn: Connection) -> tuple[KeyId, Sequence[UUID]]:
            found = lookup.single("key", key, await keys.find_keys(conn, self.access.org_id, key))
            await keys.revoke(conn, self.access.org_id, found.id, revoked_at=datetime.now(UTC))
            return found.id, [found.id]

        return await self.access.change("administer", "revoke key", work)


async def sign_in(db: Database, org_id: OrgId, key: str) -> Viewer:
    """Return the viewer that a key lets in.

    Raises:
        KeyRefused: the key is not one of the org, has expired or was revoked.
    """
    key_org_id, secret = _parse_key(key)
    if key_org_id != org_id:
        raise KeyRefused
    async with db.system_connection() as conn:
        found = await keys.sign_in(conn, org_id, digest=_digest(secret))
    if found is None:
        raise KeyRefused
    if found.participant_id is None:
        return Viewer.operator(org_id, key_id=found.key_id)
    viewer = await viewer_of(db, org_id, found.participant_id)
    return replace(viewer, role=found.role, key_id=found.key_id)


def org_of(key: str) -> OrgId:
    """Return the org that a key names; raise KeyRefused if it is not a key."""
    return _parse_key(key)[0]


def _parse_key(key: str) -> tuple[OrgId, bytes]:
    try:
        content = base64.b64decode(key.removeprefix(PREFIX), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        content = b""
    if len(content) != _ORG_BYTES + _SECRET_BYTES:
        raise KeyRefused
    org_id, secret = OrgId(UUID(bytes=content[:_ORG_BYTES])), content[_ORG_BYTES:]
    # Base64 has several spellings of the same bytes. Accept one, so that limits per key cannot be evaded.
    if key != _format_key(org_id, secret):
        raise KeyRefused
    return org_id, secret


def _format_key(org_id: OrgId, secret: bytes) -> str:
    return PREFIX + base64.urlsafe_b64encode(org_id.bytes + secret).decode()


def _digest(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()


def _check(role: Role, name: str, participant: str | None, lasts: timedelta | None) -> None:
    if role not in RIGHTS:
        raise BadInput("role", f"must be one of {', '.join(RIGHTS)}")
    if not name.strip() or not name.isprintable() or len(name) > LONGEST_NAME:
        raise BadInput("name", f"must be printable, of 1 to {LONGEST_NAME} characters")
    if PREFIX in name:
        raise BadInput("name", "must not hold a key")
    if (role == "operator") != (participant is None):
        why = "an operator has none" if participant else f"name the participant that the {role} reads as"
        raise BadInput("participant", why)
    if lasts is not None and not timedelta(0) < lasts <= LONGEST_SPAN:
        raise BadInput("lasts", "must be longer than nothing and at most 100 years")
