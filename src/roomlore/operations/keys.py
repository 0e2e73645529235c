"""Keys: what somebody shows to be let in, and with whose eyes they then read.

A key names its org and holds 256 random bits, of which only the SHA-256 is stored. It is shown once.
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

from roomlore.db import directory, erased, keys
from roomlore.db.database import Database
from roomlore.db.directory import ParticipantKey
from roomlore.db.queries import Connection
from roomlore.domain.errors import BadInput, KeyRefused, NotFound
from roomlore.domain.fields import field_values
from roomlore.domain.ids import KeyId, OrgId, uuid7
from roomlore.domain.records import RIGHTS, ApiKey, Role, Viewer
from roomlore.operations.access import Access
from roomlore.operations.registry import NO_NUL, operation
from roomlore.operations.viewers import viewer_of
from roomlore.search import lookup

PREFIX = "rlk_"
LONGEST_NAME, LONGEST_SPAN = 200, timedelta(days=365 * 100)
_ORG_BYTES, _SECRET_BYTES = 16, 32
KeyName = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME, pattern=NO_NUL)]
KeyLifetime = Annotated[timedelta, Meta(ge=1, le=int(LONGEST_SPAN.total_seconds()), description="Seconds.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey(ApiKey):
    """A key just made: what is stored of it, and the key itself, which is never shown again."""

    key: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The keys of an org, for its operator."""

    access: Access

    @operation("POST", "/keys", name="make_key", replay="once", status=201)
    async def make(
        self, role: Role, *, name: KeyName, participant: str | None = None, lasts: KeyLifetime | None = None
    ) -> NewKey:
        """Make a key and return it, this once.

        Args:
            role: What it lets its holder do.
            name: What it is for, to tell keys apart.
            participant: With whose eyes an agent or member reads; an operator names none.
            lasts: How long it is valid; without an end by default.

        Raises:
            BadInput: the role and the participant do not go together, or name or time make no sense.
            NotFound: nobody of that name.
            NotAllowed: the caller is no operator.
        """
        _check(role, name, participant)
        secret, now = secrets.token_bytes(_SECRET_BYTES), datetime.now(UTC)
        expires_at = None if lasts is None else now + _validity(lasts)

        async def work(conn: Connection) -> tuple[ApiKey, Sequence[UUID]]:
            await erased.lock_shared(conn, self.access.org_id)
            holder = await self._holder(conn, role, participant)
            kept = ApiKey(
                id=KeyId(uuid7()),
                name=name,
                role=role,
                participant_id=None if holder is None else holder.id,
                participant_name=None if holder is None else holder.name,
                created_at=now,
                expires_at=expires_at,
                revoked_at=None,
            )
            await keys.add(conn, self.access.org_id, kept, digest=_digest(secret))
            return kept, [kept.id]

        kept = await self.access.change("administer", "make key", work)
        return NewKey(
            **field_values(kept),
            key=_format_key(self.access.org_id, secret),
        )

    async def _holder(self, conn: Connection, role: Role, participant: str | None) -> ParticipantKey | None:
        if participant is None:
            return None
        found = await lookup.participant(conn, self.access.org_id, participant)
        accounts = await directory.accounts(conn, self.access.org_id, found)
        is_agent = all(account.kind == "agent" for account in accounts)
        if (role == "agent") != is_agent:
            raise BadInput("role", f"{participant} is {'an' if is_agent else 'no'} agent")
        return next(account for account in accounts if account.id == found)

    @operation("GET", "/keys", name="list_keys")
    async def all(self) -> list[ApiKey]:
        """Return every key of the org, newest first: never the key itself.

        Raises:
            NotAllowed: the caller is no operator.
        """
        await self.access.check("administer", "list keys")
        async with self.access.reading(self.access.principal, "list keys") as reading:
            found = await keys.all_keys(reading.conn, self.access.org_id)
            reading.record_shown(key.id for key in found)
        return found

    @operation("DELETE", "/keys/{key}", name="revoke_key", replay="whole", result_key="revoked")
    async def revoke(self, key: str) -> KeyId:
        """Make a key invalid from now on and return its id.

        Raises:
            NotFound: no key has that id.
            BadInput: several begin with it, or it is a key and not its id.
            NotAllowed: the caller is no operator.
        """
        if key.startswith(PREFIX):
            # What we refuse is repeated to whoever asked, and a key should be seen nowhere.
            raise BadInput("key", "is named by its id, never by itself")

        async def work(conn: Connection) -> tuple[KeyId, Sequence[UUID]]:
            found = await keys.find_keys(conn, self.access.org_id, key)
            if not found:
                raise NotFound("key", key)
            if len(found) > 1:
                raise BadInput(
                    f"key {key!r}", f"several are meant: {', '.join(str(one.id) for one in found)}"
                )
            await keys.revoke(conn, self.access.org_id, found[0].id, revoked_at=datetime.now(UTC))
            return found[0].id, [found[0].id]

        return await self.access.change("administer", "revoke key", work)


async def sign_in(db: Database, org_id: OrgId, key: str) -> Viewer:
    """Return the viewer whom a key of the org lets in.

    Raises:
        KeyRefused: there is no such key, or it has expired or was revoked.
    """
    named, secret = _parse_key(key)
    if named != org_id:
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
    """Return the org that a key names.

    Raises:
        KeyRefused: this is no key.
    """
    return _parse_key(key)[0]


def _parse_key(key: str) -> tuple[OrgId, bytes]:
    try:
        held = base64.b64decode(key.removeprefix(PREFIX), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        held = b""
    if len(held) != _ORG_BYTES + _SECRET_BYTES:
        raise KeyRefused
    named, secret = OrgId(UUID(bytes=held[:_ORG_BYTES])), held[_ORG_BYTES:]
    # Decoding takes several spellings of the same bytes; what counts by key must not take them for several keys.
    if key != _format_key(named, secret):
        raise KeyRefused
    return named, secret


def _format_key(org_id: OrgId, secret: bytes) -> str:
    return PREFIX + base64.urlsafe_b64encode(org_id.bytes + secret).decode()


def _digest(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()


def _check(role: Role, name: str, participant: str | None) -> None:
    if role not in RIGHTS:
        raise BadInput("role", f"must be one of {', '.join(RIGHTS)}")
    if not name.strip() or not name.isprintable() or len(name) > LONGEST_NAME:
        raise BadInput("name", f"must be printable, of 1 to {LONGEST_NAME} characters")
    if PREFIX in name:
        raise BadInput("name", "must not hold a key")
    if (role == "operator") != (participant is None):
        why = "an operator reads as anybody" if participant else f"whose eyes does the {role} read with?"
        raise BadInput("participant", why)


def _validity(lasts: timedelta) -> timedelta:
    if not timedelta(0) < lasts <= LONGEST_SPAN:
        raise BadInput("lasts", "must be longer than nothing and at most 100 years")
    return lasts
