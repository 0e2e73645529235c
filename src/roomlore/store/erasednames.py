"""The words by which erased persons were called, as digests: nothing that is derived says them again.

And where names of those who go stand besides in what was said: in tags, in what rooms are called, and keys.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from roomlore.domain.ids import MemoryId, OrgId, RoomId
from roomlore.domain.incoming import RoomKind
from roomlore.store.queries import Connection, Queries

QUERIES = Queries("erasednames")


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
