"""What was erased and stays out, and who waits for whom while something is erased.

Writers share a lock that an erasure has alone: what is being written is there when the erasure looks, or is
written after it, when it is known what stays out.
"""

import hashlib
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

import psycopg

from roomlore.db.queries import Connection, Queries
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
    """What kinds of things are to be kept out of an org."""

    accounts: bool
    ranges: bool
    holes: bool
    keeping: bool
    rooms: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRunSettings:
    """Whether somebody looks alone what would go, and how long it waits and takes at most."""

    is_alone: bool
    looks: str
    waits: str
    takes: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedAccount:
    """An erased account, known by its digest only."""

    digest: bytes
    erased_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedRange:
    """An erased stretch of a room; `since` is None where it has no beginning."""

    platform: str
    room: str
    since: datetime | None
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TombstoneName:
    """A message's place as its platform names it."""

    platform: str
    room: str
    external_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomWithRetention:
    """A room that keeps what was said for a time only."""

    room_id: RoomId
    platform: str
    room: str
    kept_since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRow:
    """How long a room keeps what was said, what it keeps until then, and what time it is."""

    keep_for: timedelta | None
    before: timedelta | None
    starts_at: datetime | None
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OldMessages:
    """How much was said before a time, and of which times it is."""

    messages: int
    oldest_at: datetime | None
    newest_at: datetime | None


async def lock_shared(conn: Connection, org_id: OrgId) -> None:
    """Wait for an erasure that is under way, and let the next one wait until the transaction ends.

    For whoever writes what an erasure would remove. First thing in a transaction, so that what the erasure
    did is seen.
    """
    await QUERIES.run(conn, "keep_erasures_out", {"org_id": org_id})


async def lock_exclusive(conn: Connection, org_id: OrgId) -> None:
    """Wait for those who are writing, and let others wait until the transaction ends."""
    await QUERIES.run(conn, "keep_writers_out", {"org_id": org_id})


@asynccontextmanager
async def dry_run(conn: Connection, org_id: OrgId) -> AsyncGenerator[None]:
    """Look, inside the block, what would go: nobody waits for that long, nor does it for anybody.

    Raises:
        Conflict: somebody else looks just now, or it takes too long.
    """
    look = await QUERIES.first(conn, "begin_look", DryRunSettings, {"org_id": org_id})
    if look is None or not look.is_alone:
        raise Conflict("look", "somebody else looks what would go just now; try again in a while")
    try:
        yield
    except (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled):
        raise Conflict("look", "too much is under way to tell what would go; try again in a while") from None


def account_digest(org_id: OrgId, name: AccountName) -> bytes:
    """Return what an erased account is recognised by.

    SHA-256 over four parts: the 16 bytes of the org's id, then platform, account and persona in UTF-8. Each
    part is preceded by its length in bytes, as four bytes, the highest first.
    """
    return digest_of(org_id, name)


def digest_of(org_id: OrgId, name: Sequence[str]) -> bytes:
    """Return the digest of the parts of a name, each preceded by its length, in an org."""
    parts = [org_id.bytes, *(part.encode("utf-8") for part in name)]
    return hashlib.sha256(b"".join(len(part).to_bytes(4, "big") + part for part in parts)).digest()


async def add_accounts(
    conn: Connection, org_id: OrgId, names: Iterable[AccountName], *, at: datetime
) -> None:
    """Keep out what these accounts have said so far."""
    params = {"org_id": org_id, "digest": [account_digest(org_id, name) for name in names], "at": at}
    await QUERIES.run(conn, "forget_accounts", params)
    await QUERIES.run(conn, "remember_accounts", params)


async def add_range(
    conn: Connection,
    org_id: OrgId,
    room_id: RoomId,
    *,
    since: datetime | None,
    until: datetime,
    at: datetime,
) -> None:
    """Keep a stretch of a room out from now on."""
    params = {"org_id": org_id, "room_id": room_id, "since": since, "until": until, "at": at}
    await QUERIES.run(conn, "remember_range", params)


async def erased_kinds(conn: Connection, org_id: OrgId) -> ErasedKinds:
    """Return whether anything at all is to be kept out."""
    row = await QUERIES.first(conn, "removals", ErasedKinds, {"org_id": org_id})
    assert row is not None
    return row


async def erased_accounts(
    conn: Connection, org_id: OrgId, names: Iterable[AccountName]
) -> dict[AccountName, datetime]:
    """Return when those of these accounts that are erased were."""
    digests = {account_digest(org_id, name): name for name in names}
    params = {"org_id": org_id, "digest": list(digests)}
    rows = await QUERIES.all(conn, "erased_accounts", ErasedAccount, params)
    return {digests[row.digest]: row.erased_at for row in rows}


async def erased_ranges(conn: Connection, org_id: OrgId, rooms: Sequence[RoomName]) -> list[ErasedRange]:
    """Return the stretches of these rooms that are kept out."""
    params = {"org_id": org_id, "platform": [name[0] for name in rooms], "room": [name[1] for name in rooms]}
    return await QUERIES.all(conn, "erased_ranges", ErasedRange, params)


async def tombstones(conn: Connection, org_id: OrgId, places: Sequence[MessageName]) -> set[MessageName]:
    """Return those of these places that are holes."""
    params = {
        "org_id": org_id,
        "platform": [place[0] for place in places],
        "room": [place[1] for place in places],
        "external_id": [place[2] for place in places],
    }
    rows = await QUERIES.all(conn, "holes", TombstoneName, params)
    return {(row.platform, row.room, row.external_id) for row in rows}


async def rooms_with_retention(
    conn: Connection, org_id: OrgId, room_id: RoomId | None = None, *, now: datetime
) -> list[RoomWithRetention]:
    """Return the rooms that keep what was said for a time only, or the one asked for if it does."""
    params = {"org_id": org_id, "room_id": room_id, "now": now}
    return await QUERIES.all(conn, "keeping_rooms", RoomWithRetention, params)


async def retention_now(conn: Connection, org_id: OrgId, room_id: RoomId) -> tuple[RetentionPolicy, datetime]:
    """Return how long a room keeps what was said, for who changes it, and the time by the clock of the database."""
    return await _retention(conn, org_id, room_id, "kept_by")


async def retention_of(conn: Connection, org_id: OrgId, room_id: RoomId) -> RetentionPolicy:
    """Return how long a room keeps what was said."""
    keeping, _ = await _retention(conn, org_id, room_id, "keeping_of")
    return keeping


async def _retention(
    conn: Connection, org_id: OrgId, room_id: RoomId, query: str
) -> tuple[RetentionPolicy, datetime]:
    row = await QUERIES.first(conn, query, RetentionRow, {"org_id": org_id, "room_id": room_id})
    if row is None:
        raise NotFound("room", str(room_id))
    return RetentionPolicy(keep_for=row.keep_for, before=row.before, starts_at=row.starts_at), row.now


async def set_retention(conn: Connection, org_id: OrgId, room_id: RoomId, policy: RetentionPolicy) -> None:
    """Say how long a room keeps what was said, and from when on."""
    params = {
        "org_id": org_id,
        "room_id": room_id,
        "keep_for": policy.keep_for,
        "before": policy.before,
        "starts_at": policy.starts_at,
    }
    await QUERIES.run(conn, "keep", params)


async def messages_before(conn: Connection, org_id: OrgId, room_id: RoomId, before: datetime) -> OldMessages:
    """Return how much was said in a room before a time."""
    params = {"org_id": org_id, "room_id": room_id, "before": before}
    row = await QUERIES.first(conn, "said_before", OldMessages, params)
    assert row is not None
    return row


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyNames:
    """Whether there are any."""

    is_any: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NameDigest:
    """A word of a name, known by its digest only."""

    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DistinctiveWord:
    """A word that is no small one."""

    word: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TagRow:
    """A tag of a memory."""

    id: MemoryId
    tag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomText:
    """What a room is called and what it is for."""

    id: RoomId
    kind: RoomKind
    name: str
    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyName:
    """What a key is called."""

    name: str


def name_digest(org_id: OrgId, word: str) -> bytes:
    """Return what a word of a name is recognised by: SHA-256 over the org's id and the word."""
    return hashlib.sha256(org_id.bytes + word.casefold().encode("utf-8", "surrogatepass")).digest()


async def add_names(conn: Connection, org_id: OrgId, words: Iterable[str], *, at: datetime) -> int:
    """Let nothing derived say these words any more; return how many are new."""
    params = {"org_id": org_id, "digest": [name_digest(org_id, word) for word in {*words}], "at": at}
    return await QUERIES.run(conn, "remember", params)


async def has_names(conn: Connection, org_id: OrgId) -> bool:
    """Return whether an org has erased anybody by name."""
    row = await QUERIES.first(conn, "are_any", AnyNames, {"org_id": org_id})
    return row is not None and row.is_any


async def erased_words(conn: Connection, org_id: OrgId, forms: Mapping[str, Collection[str]]) -> set[str]:
    """Return those of the words of which a form is a word of an erased name.

    Args:
        conn: Reads for the operator.
        org_id: Whose.
        forms: Each word, with the forms in which it may be a name: with and without an ending.
    """
    digests = {name_digest(org_id, form): form for some in forms.values() for form in some}
    params = {"org_id": org_id, "digest": list(digests)}
    found = {digests[bytes(row.digest)] for row in await QUERIES.all(conn, "among", NameDigest, params)}
    return {word for word, some in forms.items() if found & set(some)}


async def distinctive_words(conn: Connection, words: Iterable[str]) -> set[str]:
    """Return those of some words that are no small ones, such as "will": these stand in every text."""
    return {row.word for row in await QUERIES.all(conn, "telling", DistinctiveWord, {"words": list(words)})}


async def tags_containing(conn: Connection, org_id: OrgId, strings: Iterable[str]) -> list[TagRow]:
    """Return the tags of memories in which one of these strings occurs."""
    return await QUERIES.all(conn, "tags_saying", TagRow, {"org_id": org_id, "strings": list(strings)})


async def drop_tags(conn: Connection, org_id: OrgId, tags: Sequence[TagRow]) -> int:
    """Take tags off memories; return how many."""
    params = {"org_id": org_id, "memory_id": [one.id for one in tags], "tag": [one.tag for one in tags]}
    return await QUERIES.run(conn, "drop_tags", params)


async def rooms_containing(
    conn: Connection, org_id: OrgId, platform: str, strings: Iterable[str]
) -> list[RoomText]:
    """Return the rooms of a platform with one of these strings in their name or topic."""
    params = {"org_id": org_id, "platform": platform, "strings": list(strings)}
    return await QUERIES.all(conn, "rooms_saying", RoomText, params)


async def rename_rooms(conn: Connection, org_id: OrgId, rooms: Sequence[RoomText]) -> int:
    """Say anew what rooms are called and what they are for; return how many."""
    params = {
        "org_id": org_id,
        "id": [one.id for one in rooms],
        "name": [one.name for one in rooms],
        "topic": [one.topic for one in rooms],
    }
    return await QUERIES.run(conn, "rename_rooms", params)


async def keys_containing(conn: Connection, org_id: OrgId, strings: Iterable[str]) -> list[str]:
    """Return the names of keys in which one of these strings occurs."""
    params = {"org_id": org_id, "strings": list(strings)}
    return [row.name for row in await QUERIES.all(conn, "keys_called", KeyName, params)]
