"""Erased data that must stay out, how long rooms keep messages, and the locks between writers and erasures.

Writers share a lock that an erasure holds alone. So a write either ends before the erasure reads, or starts after the
erasure and knows what to reject.
"""

import hashlib
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

import psycopg

from roomlore.db.queries import Connection, Queries, RowCount
from roomlore.domain.errors import Conflict, NotFound
from roomlore.domain.ids import MemoryId, OrgId, RoomId
from roomlore.domain.incoming import RoomKind
from roomlore.domain.retention import RetentionPolicy

QUERIES = Queries("erased")

#: Platform, account and persona.
AccountName = tuple[str, str, str]
#: Platform and external id of a room.
RoomName = tuple[str, str]
#: Platform, external id of a room, external id of a message.
MessageName = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedKinds:
    """The kinds of data that must stay out of an org."""

    accounts: bool
    ranges: bool
    holes: bool
    keeping: bool
    rooms: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedRange:
    """An erased time range of a room; `since` is None if it has no beginning."""

    platform: str
    room: str
    since: datetime | None
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomWithRetention:
    """A room with a retention period."""

    room_id: RoomId
    platform: str
    room: str
    kept_since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OldMessages:
    """The number of messages before a time, with the times of the first and last."""

    messages: int
    oldest_at: datetime | None
    newest_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTag:
    """A tag of a memory."""

    id: MemoryId
    tag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomText:
    """The name and topic of a room."""

    id: RoomId
    kind: RoomKind
    name: str
    topic: str


@QUERIES.query
async def lock_shared(conn: Connection, org_id: OrgId) -> None:
    """Wait for an erasure in progress and block the next one until the transaction ends.

    For writers of data that an erasure would remove; the first statement of a transaction, so that it sees the result.
    """
    ...


@QUERIES.query
async def lock_exclusive(conn: Connection, org_id: OrgId) -> None:
    """Wait for writers in progress and block others until the transaction ends."""
    ...


@asynccontextmanager
async def dry_run(conn: Connection, org_id: OrgId) -> AsyncGenerator[None]:
    """Run the block as a dry run of an erasure; it neither waits long for other transactions nor delays them for long.

    Raises:
        Conflict: another dry run is in progress, or this one takes too long.
    """
    is_alone, *_ = await _begin_dry_run(conn, org_id)
    if not is_alone:
        raise Conflict("dry run", "another one is in progress; try again in a while")
    try:
        yield
    except (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled):
        raise Conflict(
            "dry run", "the database is too busy to tell what would go; try again in a while"
        ) from None


@QUERIES.query
async def _begin_dry_run(conn: Connection, org_id: OrgId) -> tuple[bool, str, str, str]: ...


def account_digest(org_id: OrgId, name: AccountName) -> bytes:
    """Return the digest that identifies an erased account."""
    return digest_of(org_id, name)


def digest_of(org_id: OrgId, name: Sequence[str]) -> bytes:
    """Return SHA-256 over the 16 bytes of the org's id and the parts of a name in UTF-8.

    Each of them is preceded by its length in bytes, as four bytes, the highest first.
    """
    parts = [org_id.bytes, *(part.encode("utf-8") for part in name)]
    return hashlib.sha256(b"".join(len(part).to_bytes(4, "big") + part for part in parts)).digest()


async def add_accounts(
    conn: Connection, org_id: OrgId, names: Iterable[AccountName], *, at: datetime
) -> None:
    """Record that messages sent by these accounts until now are rejected."""
    digests = [account_digest(org_id, name) for name in names]
    await _drop_digests(conn, org_id, digests)
    await _add_digests(conn, org_id, digests, at=at)


@QUERIES.query
async def _drop_digests(conn: Connection, org_id: OrgId, digests: Collection[bytes]) -> None: ...


@QUERIES.query
async def _add_digests(
    conn: Connection, org_id: OrgId, digests: Collection[bytes], *, at: datetime
) -> None: ...


@QUERIES.query
async def add_range(
    conn: Connection,
    org_id: OrgId,
    room_id: RoomId,
    *,
    since: datetime | None,
    until: datetime,
    at: datetime,
) -> None:
    """Record that messages of a time range in a room are rejected from now on."""
    ...


@QUERIES.query
async def erased_kinds(conn: Connection, org_id: OrgId) -> ErasedKinds:
    """Return the kinds of data that must stay out."""
    ...


async def erased_accounts(
    conn: Connection, org_id: OrgId, names: Iterable[AccountName]
) -> dict[AccountName, datetime]:
    """Return those of these accounts that were erased, and when."""
    digests = {account_digest(org_id, name): name for name in names}
    return {digests[key]: at for key, at in (await _erased_digests(conn, org_id, digests)).items()}


@QUERIES.query
async def _erased_digests(
    conn: Connection, org_id: OrgId, digests: Collection[bytes]
) -> dict[bytes, datetime]: ...


@QUERIES.query
async def erased_ranges(conn: Connection, org_id: OrgId, rooms: Collection[RoomName]) -> list[ErasedRange]:
    """Return the erased time ranges of these rooms."""
    ...


@QUERIES.query
async def tombstones(conn: Connection, org_id: OrgId, places: Collection[MessageName]) -> set[MessageName]:
    """Return those of these messages that are tombstones."""
    ...


@QUERIES.query
async def rooms_with_retention(
    conn: Connection, org_id: OrgId, room_id: RoomId | None = None, *, now: datetime
) -> list[RoomWithRetention]:
    """Return the rooms with a retention period, or one room if it has one.

    A shorter period counts only after its grace time, by the clock of the database.
    """
    ...


async def retention_now(conn: Connection, org_id: OrgId, room_id: RoomId) -> tuple[RetentionPolicy, datetime]:
    """Return the retention of a room, locked for a change, and the time by the clock of the database."""
    now = await _lock_retention(conn, org_id, room_id)
    policy = await retention_of(conn, org_id, room_id)
    assert now is not None
    return policy, now


@QUERIES.query
async def _lock_retention(conn: Connection, org_id: OrgId, room_id: RoomId) -> datetime | None: ...


async def retention_of(conn: Connection, org_id: OrgId, room_id: RoomId) -> RetentionPolicy:
    """Return the retention of a room."""
    policy = await _find_retention(conn, org_id, room_id)
    if policy is None:
        raise NotFound("room", str(room_id))
    return policy


@QUERIES.query
async def _find_retention(conn: Connection, org_id: OrgId, room_id: RoomId) -> RetentionPolicy | None: ...


@QUERIES.query
async def set_retention(conn: Connection, org_id: OrgId, room_id: RoomId, policy: RetentionPolicy) -> None:
    """Set the retention of a room."""
    ...


@QUERIES.query
async def messages_before(conn: Connection, org_id: OrgId, room_id: RoomId, before: datetime) -> OldMessages:
    """Return the number of messages in a room before a time; tombstones do not count."""
    ...


# The names of erased persons, and the derived texts that may contain them.


def name_digest(org_id: OrgId, word: str) -> bytes:
    """Return the digest that identifies a word of a name: SHA-256 over the org's id and the word."""
    return hashlib.sha256(org_id.bytes + word.casefold().encode("utf-8", "surrogatepass")).digest()


async def add_names(conn: Connection, org_id: OrgId, words: Iterable[str], *, at: datetime) -> int:
    """Keep these words out of derived texts from now on; return how many are new."""
    return await _add_name_digests(conn, org_id, {name_digest(org_id, word) for word in words}, at=at)


@QUERIES.query
async def _add_name_digests(
    conn: Connection, org_id: OrgId, digests: Collection[bytes], *, at: datetime
) -> RowCount: ...


@QUERIES.query
async def has_names(conn: Connection, org_id: OrgId) -> bool:
    """Return whether an org has erased anybody by name."""
    ...


async def erased_words(conn: Connection, org_id: OrgId, forms: Mapping[str, Collection[str]]) -> set[str]:
    """Return the words that may be erased names: one of their forms is a word of an erased name.

    Args:
        conn: Reads for the operator.
        org_id: Whose.
        forms: Each word, with the forms in which it may be a name: with and without an ending.
    """
    digests = {name_digest(org_id, form): form for some in forms.values() for form in some}
    found = {digests[key] for key in await _erased_name_digests(conn, org_id, digests)}
    return {word for word, some in forms.items() if found & set(some)}


@QUERIES.query
async def _erased_name_digests(conn: Connection, org_id: OrgId, digests: Collection[bytes]) -> set[bytes]: ...


@QUERIES.query
async def distinctive_words(conn: Connection, words: Collection[str]) -> set[str]:
    """Return these words without stop words such as "will", which occur in every text."""
    ...


@QUERIES.query
async def tags_containing(conn: Connection, org_id: OrgId, strings: Collection[str]) -> list[MemoryTag]:
    """Return the tags of memories that contain one of these strings, in any case."""
    ...


@QUERIES.query
async def drop_tags(conn: Connection, org_id: OrgId, tags: Sequence[MemoryTag]) -> RowCount:
    """Remove tags from memories."""
    ...


@QUERIES.query
async def rooms_containing(
    conn: Connection, org_id: OrgId, platform: str, strings: Collection[str]
) -> list[RoomText]:
    """Return the rooms of a platform whose name or topic contains one of these strings, in any case."""
    ...


@QUERIES.query
async def rename_rooms(conn: Connection, org_id: OrgId, rooms: Sequence[RoomText]) -> RowCount:
    """Change the names and topics of rooms."""
    ...


@QUERIES.query
async def keys_containing(conn: Connection, org_id: OrgId, strings: Collection[str]) -> list[str]:
    """Return the names of API keys that contain one of these strings, in any case."""
    ...
