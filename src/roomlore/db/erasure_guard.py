"""Keeps erased data out when it is imported or derived again, with locks between writers and erasures.

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
from roomlore.domain.errors import Conflict
from roomlore.domain.ids import OrgId, RoomId

QUERIES = Queries("erasure_guard")

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
    tombstones: bool
    retention: bool
    rooms: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedRange:
    """An erased time range of a room; `since` is None if it has no beginning."""

    platform: str
    room: str
    since: datetime | None
    until: datetime


@QUERIES.query
async def lock_shared(conn: Connection, org_id: OrgId) -> None:
    """Wait for a running erasure, and block the next erasure until the transaction ends.

    Writers of data that an erasure would remove call this as the first statement of their transaction, so that the
    transaction sees the result of the erasure.
    """
    ...


@QUERIES.query
async def lock_exclusive(conn: Connection, org_id: OrgId) -> None:
    """Wait for running writers, and block other writers until the transaction ends."""
    ...


@asynccontextmanager
async def dry_run(conn: Connection, org_id: OrgId) -> AsyncGenerator[None]:
    """Run the block as a dry run of an erasure.

    It neither waits long for other transactions nor delays them for long.

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

    Before each part comes its length in bytes, as four bytes, the highest byte first.
    """
    parts = [org_id.bytes, *(part.encode("utf-8") for part in name)]
    return hashlib.sha256(b"".join(len(part).to_bytes(4, "big") + part for part in parts)).digest()


async def add_accounts(
    conn: Connection, org_id: OrgId, names: Iterable[AccountName], *, at: datetime
) -> None:
    """Record that messages that these accounts sent until now are rejected."""
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
    """Return the given accounts that were erased, and when."""
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
async def tombstones(conn: Connection, org_id: OrgId, names: Collection[MessageName]) -> set[MessageName]:
    """Return the given messages that are tombstones."""
    ...


# The names of erased persons.


def name_digest(org_id: OrgId, word: str) -> bytes:
    """Return the digest that identifies a word of a name: SHA-256 over the org's id and the word."""
    return hashlib.sha256(org_id.bytes + word.casefold().encode("utf-8", "surrogatepass")).digest()


async def add_names(conn: Connection, org_id: OrgId, words: Iterable[str], *, at: datetime) -> int:
    """Keep these words out of derived texts from now on; return how many words are new."""
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
    """Return the words that may be erased names: a word counts if one of its forms is a word of an erased name.

    Args:
        conn: Reads for the operator.
        org_id: The org.
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
