"""A statement becomes a memory: a new one, one more source of the same, or what takes the place of an older value."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Literal, Protocol

from roomlore.domain.ids import MemoryId, MessageId, OrgId, ParticipantId
from roomlore.domain.records import MemoryRole, Sensitivity
from roomlore.remembering.gist import digest_of
from roomlore.remembering.kinship import is_own, kinship
from roomlore.remembering.succession import successors
from roomlore.store import changes, erasing, keeping
from roomlore.store.keeping import Circled, Draft, Heard, Known, Place, Standing
from roomlore.store.queries import Connection

#: What an agent claims of others counts half.
AGENTS_WORD = 0.5
#: However often it is stated.
SUREST = 0.99

_ALL = "to all"

#: `added`; `same`: nothing changed; `united`: a memory that said the same has more sources now.
Outcome = Literal["added", "same", "united"]


class Nature(Protocol):
    """What decides of whom and for whom a statement or memory is."""

    @property
    def sensitivity(self) -> Sensitivity:
        """Whether it is only for those who were there."""
        ...

    @property
    def asserted_by(self) -> ParticipantId | None:
        """For whom it is where it rests on nothing."""
        ...

    def people(self, role: MemoryRole) -> set[ParticipantId]:
        """Return those whom it names in a role."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What decides of whom and for whom a memory is, without the memory."""

    sensitivity: Sensitivity
    asserted_by: ParticipantId | None
    roles: frozenset[tuple[MemoryRole, ParticipantId]]

    def people(self, role: MemoryRole) -> set[ParticipantId]:
        """Return those whom it names in a role."""
        return {who for named, who in self.roles if named == role}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What became of a statement."""

    memory_id: MemoryId
    outcome: Outcome


async def keep(conn: Connection, org_id: OrgId, draft: Draft) -> Kept | None:
    """Remember a statement once, and return as what; None where what it rests on or names is not there any more.

    The caller's transaction keeps erasures out and holds the rooms of the sources. What was drawn from the same words
    before is left as it is, whatever a person made of it since.

    Args:
        conn: Writes for the operator.
        org_id: Whose.
        draft: The statement; its first source is what states it.
    """
    await keeping.lock(conn, org_id)
    if not await keeping.is_grounded(conn, org_id, draft):
        return None
    message_ids = {source.message_id for source in draft.sources}
    if draft.sensitivity == "normal" and await keeping.is_hushed(conn, org_id, message_ids):
        draft = replace(draft, sensitivity="sensitive", is_hushed=True)
    known = await keeping.people(conn, org_id, {who for _, who in draft.roles})
    heard = await keeping.heard(conn, org_id, message_ids)
    place = Place(circle=circle(draft, heard, known), digest=digest_of(draft.content), draft=draft)
    same = await keeping.same(conn, org_id, place)
    if same is not None and await keeping.is_heard_alike(conn, org_id, same.id, draft):
        is_new = await _unite(conn, org_id, same, draft=draft, known=known)
        kept = Kept(memory_id=same.id, outcome="united" if is_new else "same")
    elif same is None and (before := await keeping.settled(conn, org_id, place)) is not None:
        return Kept(memory_id=before.id, outcome="same")
    else:
        related = await kinship(conn, org_id, place) if same is None else None
        draft = draft if related is None else replace(draft, slot=related.slot)
        await keeping.add(conn, org_id, replace(place, draft=draft), confidence=_sureness(draft, known))
        kept = Kept(memory_id=draft.id, outcome="added")
        if same is not None:
            await _follow(conn, org_id, same, draft)
        elif related is not None:
            await keeping.supersede(conn, org_id, related.old_id, by=related.new_id)
    if kept.outcome != "same":
        kind = "memory.kept" if kept.outcome == "added" else "memory.changed"
        await changes.note(conn, org_id, kind, [kept.memory_id])
    if draft.slot is not None and kept.outcome != "same":
        await settle(conn, org_id, circle=place.circle, slot=draft.slot)
    return kept


async def _follow(conn: Connection, org_id: OrgId, same: Standing, draft: Draft) -> None:
    """Let the later of two that say the same stand: others heard it, and together they would be for fewer than either."""
    old_id, new_id = (same.id, draft.id) if same.valid_from <= draft.valid_from else (draft.id, same.id)
    await keeping.supersede(conn, org_id, old_id, by=new_id)


async def settle(conn: Connection, org_id: OrgId, *, circle: str, slot: str) -> None:
    """Let the newest value of a slot stand, and each other be superseded by the next."""
    values = await keeping.values(conn, org_id, circle=circle, slot=slot)
    parted = await keeping.partings(conn, org_id, [value.id for value in values])
    standing = successors(values, parted)
    changed = {value.id: standing[value.id] for value in values if standing[value.id] != value.superseded_by}
    if changed:
        await keeping.succeed(conn, org_id, changed)


async def release(
    conn: Connection,
    org_id: OrgId,
    message_ids: Collection[MessageId],
    *,
    extractor: str,
    kept: Collection[tuple[MemoryId, MessageId]],
) -> int:
    """Let go of what was drawn from messages and is not drawn any more; return how many memories went.

    A memory that rests on other words besides stays.

    Args:
        conn: Writes for the operator, in the transaction in which `keep` was called.
        org_id: Whose.
        message_ids: All messages that were gone through.
        extractor: Only what this one had drawn.
        kept: What was drawn from them now: memories, and the messages that each rests on.
    """
    await keeping.lock(conn, org_id)
    baseless = await keeping.loosen(conn, org_id, message_ids, extractor=extractor, kept=kept)
    return (await erasing.drop_memories(conn, org_id, baseless)).get("memories", 0)


def circle(nature: Nature, heard: Iterable[Heard], known: Mapping[ParticipantId, Known]) -> str:
    """Return what tells apart of whom and for whom a statement is; hex digits."""
    told_to = audience(heard, is_sensitive=nature.sensitivity == "sensitive")
    parts = [
        nature.sensitivity,
        *sorted(told_to or [f"by {nature.asserted_by}"]),
        *(f"about {who}" for who in _persons(nature.people("subject"), known)),
        *(f"as {who}" for who in _persons(nature.people("perspective"), known)),
    ]
    return sha256("\n".join(parts).encode()).hexdigest()


def audience(heard: Iterable[Heard], *, is_sensitive: bool) -> set[str]:
    """Return what tells apart whom sources are for: rooms, of which all open ones are one, and those of whispers.

    What is sensitive is for those who were in the room, however open that is.
    """
    told_to = {_told_to(one, is_sensitive=is_sensitive) for one in heard}
    # Whoever hears the others hears what everybody does.
    return told_to - {_ALL} or told_to


async def recircle(conn: Connection, org_id: OrgId, accounts: Collection[ParticipantId]) -> None:
    """Compare memories about participants anew, once it has changed whose accounts they are.

    What says the same of one person then stands once, the newest value of a slot stands, and what was said of another
    takes no place any more.
    """
    await keeping.lock(conn, org_id)
    found = await keeping.naming(conn, org_id, accounts)
    circles = {one.id: await _circle_of(conn, org_id, one) for one in found}
    changed = {one.id: circles[one.id] for one in found if circles[one.id] != one.circle}
    await keeping.recircle(conn, org_id, changed)
    slots = {(one.slot, key) for one in found if one.slot for key in (one.circle, circles[one.id])}
    for slot, key in sorted(slots):
        await settle(conn, org_id, circle=key, slot=slot)
    await keeping.link_same(conn, org_id, set(changed.values()))
    await changes.note(conn, org_id, "memory.changed", changed)


async def _circle_of(conn: Connection, org_id: OrgId, one: Circled) -> str:
    roles = frozenset(await keeping.roles(conn, org_id, one.id))
    nature = Held(sensitivity=one.sensitivity, asserted_by=one.asserted_by, roles=roles)
    known = await keeping.people(conn, org_id, {who for _, who in roles})
    return circle(nature, await keeping.heard(conn, org_id, one.source_ids), known)


def _told_to(heard: Heard, *, is_sensitive: bool) -> str:
    if heard.hearers is not None:
        return f"to {' '.join(str(who) for who in heard.hearers)}"
    return _ALL if heard.is_open and not is_sensitive else f"in {heard.room_id}"


def _persons(ids: Iterable[ParticipantId], known: Mapping[ParticipantId, Known]) -> list[str]:
    return sorted({str(known[who].person_id) for who in ids})


async def _unite(
    conn: Connection, org_id: OrgId, same: Standing, *, draft: Draft, known: Mapping[ParticipantId, Known]
) -> bool:
    """Let a memory rest on a statement that says the same; return whether that changed it."""
    if not await keeping.add_sources(conn, org_id, same.id, draft):
        return False
    before = await keeping.roles(conn, org_id, same.id)
    authors = draft.people("author")
    told_by = {who for role, who in before if role in {"author", "involved"}}
    if is_own(authors, draft) and not is_own({who for role, who in before if role == "author"}, draft):
        await keeping.demote_authors(conn, org_id, same.id)
    else:
        authors = authors & {who for role, who in before if role == "author"}
    involved = draft.people("author") - authors
    retold: set[tuple[MemoryRole, ParticipantId]] = {("author", who) for who in authors}
    retold |= {one for one in draft.roles if one[0] != "author"}
    retold.update(("involved", who) for who in involved)
    await keeping.add_roles(conn, org_id, same.id, retold - before)
    is_confirmed = any(not known[who].is_agent for who in draft.people("author") - told_by)
    doubt = (1 - same.confidence) * (1 - draft.confidence if is_confirmed else 1)
    confidence = max(same.confidence, min(1 - doubt, SUREST))
    await keeping.strengthen(conn, org_id, same.id, draft, confidence=confidence)
    return True


def _sureness(draft: Draft, known: Mapping[ParticipantId, Known]) -> float:
    authors = draft.people("author")
    is_claimed = bool(authors) and all(known[who].is_agent for who in authors) and not is_own(authors, draft)
    return draft.confidence * AGENTS_WORD if is_claimed else draft.confidence
