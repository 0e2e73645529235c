"""A statement becomes a memory: a new one, one more source of the same, or what takes the place of an older value."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Literal, Protocol

from roomlore.db import erasure, memory_writes, outbox
from roomlore.db import memories as store
from roomlore.db.memories import LinkTarget
from roomlore.db.memory_writes import (
    AttributeValue,
    DedupKey,
    MatchingMemory,
    MemoryDraft,
    ParticipantRef,
    ScopedMemory,
    SourceAudience,
)
from roomlore.db.queries import Connection
from roomlore.domain.ids import MemoryId, MessageId, OrgId, ParticipantId
from roomlore.domain.records import AssertionAudience, MemoryRole, Sensitivity
from roomlore.memories.normalisation import digest_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Supersession:
    """Which of a statement and a memory takes the other's place."""

    old_id: MemoryId
    new_id: MemoryId
    #: Of what the statement is the one value then.
    slot: str | None


async def find_supersession(conn: Connection, org_id: OrgId, place: DedupKey) -> Supersession | None:
    """Return what a new statement is to the memory that it is said to repeat or replace; None where it is nothing.

    That has to stand still, be of the same people for the same people and, to be replaced, have been said before. An
    older one takes no place from a newer one that others hear besides. What a person let stand beside the statement stays.
    """
    draft = place.draft
    named = draft.repeats or draft.replaces
    kin = None if named is None else await store.find_link_target(conn, org_id, named, circle=place.circle)
    if kin is None or (kin.id, place.digest) in await memory_writes.supersession_overrides(
        conn, org_id, [kin.id]
    ):
        return None
    if kin.slot is not None and draft.slot not in {None, kin.slot}:
        return None
    is_later = kin.said_at < draft.valid_from
    if draft.repeats is None:
        return _supersede_by(kin, draft) if is_later else None
    authors = {who for role, who in await memory_writes.roles(conn, org_id, kin.id) if role == "author"}
    # Of two who say the same, whoever is meant themselves knows better.
    knows_as_well = is_about_author(draft.people("author"), draft) or not is_about_author(authors, draft)
    if is_later and knows_as_well:
        return _supersede_by(kin, draft)
    # Whoever came since hears the new one alone, and would be left with neither.
    is_for_all = await memory_writes.has_same_audience(conn, org_id, kin.id, draft)
    return Supersession(old_id=draft.id, new_id=kin.id, slot=None) if is_for_all else None


def is_about_author(authors: Collection[ParticipantId], draft: MemoryDraft) -> bool:
    """Return whether those who state something are those whom it is about."""
    return bool(draft.people("subject") & set(authors))


def _supersede_by(kin: LinkTarget, draft: MemoryDraft) -> Supersession:
    return Supersession(old_id=kin.id, new_id=draft.id, slot=draft.slot or kin.slot)


def supersessions(
    values: Sequence[AttributeValue], overrides: Collection[tuple[MemoryId, str]]
) -> Mapping[MemoryId, MemoryId | None]:
    """Return for each value what took its place: the next that was said later by somebody who knows as well.

    What somebody says of themselves outranks what others say of them, and that what an agent claims. Successors are
    later, so that no circle comes about, and the same values have the same ones in whatever order they came in.

    Args:
        values: The values that one slot of one circle was said to have.
        overrides: Memories that stand beside what has these digests, because a person said so.
    """
    ordered = sorted(values, key=lambda value: value.position)
    return {
        value.id: next(
            (
                later.id
                for later in ordered[place + 1 :]
                if later.standing >= value.standing and (value.id, later.digest) not in overrides
            ),
            None,
        )
        for place, value in enumerate(ordered)
    }


#: What an agent claims of others counts half.
AGENT_WEIGHT = 0.5
#: However often it is stated.
MAX_CONFIDENCE = 0.99

#: For everybody in the org.
EVERYBODY = "to all"

#: `added`; `same`: nothing changed; `united`: a memory that said the same has more sources now.
UpsertOutcome = Literal["added", "same", "united"]


class HasMemoryScope(Protocol):
    """What decides of whom and for whom a statement or memory is."""

    @property
    def sensitivity(self) -> Sensitivity:
        """Whether it is only for those who were there."""
        ...

    @property
    def audience(self) -> AssertionAudience:
        """Whether it is for the whole org where it rests on nothing, or for whoever asserted it."""
        ...

    @property
    def asserted_by(self) -> ParticipantId | None:
        """For whom it is where it rests on nothing."""
        ...

    def people(self, role: MemoryRole) -> set[ParticipantId]:
        """Return those whom it names in a role."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryScope:
    """What decides of whom and for whom a memory is, without the memory."""

    sensitivity: Sensitivity
    audience: AssertionAudience = "self"
    asserted_by: ParticipantId | None
    roles: frozenset[tuple[MemoryRole, ParticipantId]]

    def people(self, role: MemoryRole) -> set[ParticipantId]:
        """Return those whom it names in a role."""
        return {who for named, who in self.roles if named == role}


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertResult:
    """What became of a statement."""

    memory_id: MemoryId
    outcome: UpsertOutcome


async def upsert(conn: Connection, org_id: OrgId, draft: MemoryDraft) -> UpsertResult | None:
    """Remember a statement once, and return as what; None where what it rests on or names is not there any more.

    The caller's transaction keeps erasures out and holds the rooms of the sources. What was drawn from the same words
    before is left as it is, whatever a person made of it since.

    Args:
        conn: Writes for the operator.
        org_id: Whose.
        draft: The statement; its first source is what states it.
    """
    await memory_writes.lock(conn, org_id)
    if not await memory_writes.has_valid_sources(conn, org_id, draft):
        return None
    message_ids = {source.message_id for source in draft.sources}
    if draft.sensitivity == "normal" and await memory_writes.is_sensitive(conn, org_id, message_ids):
        draft = replace(draft, sensitivity="sensitive", is_hushed=True)
    known = await memory_writes.participants_by_id(conn, org_id, {who for _, who in draft.roles})
    heard = await memory_writes.source_audiences(conn, org_id, message_ids)
    place = DedupKey(circle=dedup_scope(draft, heard, known), digest=digest_of(draft.content), draft=draft)
    same = await memory_writes.find_active_match(conn, org_id, place)
    if same is not None and await memory_writes.has_same_audience(conn, org_id, same.id, draft):
        is_new = await _merge_into(conn, org_id, same, draft=draft, known=known)
        kept = UpsertResult(memory_id=same.id, outcome="united" if is_new else "same")
    elif (
        same is None and (before := await memory_writes.find_inactive_match(conn, org_id, place)) is not None
    ):
        return UpsertResult(memory_id=before.id, outcome="same")
    else:
        related = await find_supersession(conn, org_id, place) if same is None else None
        draft = draft if related is None else replace(draft, slot=related.slot)
        await memory_writes.add(
            conn, org_id, replace(place, draft=draft), confidence=_initial_confidence(draft, known)
        )
        kept = UpsertResult(memory_id=draft.id, outcome="added")
        if same is not None:
            await _keep_newer(conn, org_id, same, draft)
        elif related is not None:
            await memory_writes.supersede(conn, org_id, related.old_id, by=related.new_id)
    if kept.outcome != "same":
        kind = "memory.kept" if kept.outcome == "added" else "memory.changed"
        await outbox.append(conn, org_id, kind, [kept.memory_id])
    if draft.slot is not None and kept.outcome != "same":
        await supersede_values(conn, org_id, circle=place.circle, slot=draft.slot)
    return kept


async def _keep_newer(conn: Connection, org_id: OrgId, same: MatchingMemory, draft: MemoryDraft) -> None:
    """Let the later of two that say the same stand: others heard it, and together they would be for fewer than either."""
    old_id, new_id = (same.id, draft.id) if same.valid_from <= draft.valid_from else (draft.id, same.id)
    await memory_writes.supersede(conn, org_id, old_id, by=new_id)


async def supersede_values(conn: Connection, org_id: OrgId, *, circle: str, slot: str) -> None:
    """Let the newest value of a slot stand, and each other be superseded by the next."""
    values = await memory_writes.attribute_values(conn, org_id, circle=circle, slot=slot)
    parted = await memory_writes.supersession_overrides(conn, org_id, [value.id for value in values])
    standing = supersessions(values, parted)
    changed = {value.id: standing[value.id] for value in values if standing[value.id] != value.superseded_by}
    if changed:
        await memory_writes.set_successors(conn, org_id, changed)


async def detach_messages(
    conn: Connection,
    org_id: OrgId,
    message_ids: Collection[MessageId],
    *,
    extractor: str,
    still_extracted: Collection[tuple[MemoryId, MessageId]],
) -> int:
    """Let go of what was drawn from messages and is not drawn any more; return how many memories went.

    A memory that rests on other words besides stays.

    Args:
        conn: Writes for the operator, in the transaction in which `keep` was called.
        org_id: Whose.
        message_ids: All messages that were gone through.
        extractor: Only what this one had drawn.
        still_extracted: What was drawn from them now: memories, and the messages that each rests on.
    """
    await memory_writes.lock(conn, org_id)
    baseless = await memory_writes.detach_sources(
        conn, org_id, message_ids, extractor=extractor, kept=still_extracted
    )
    return (await erasure.drop_memories(conn, org_id, baseless)).get("memories", 0)


def dedup_scope(
    memory: HasMemoryScope, heard: Iterable[SourceAudience], known: Mapping[ParticipantId, ParticipantRef]
) -> str:
    """Return what tells apart of whom and for whom a statement is; hex digits."""
    told_to = audiences_of(heard, is_sensitive=memory.sensitivity == "sensitive")
    parts = [
        memory.sensitivity,
        *sorted(told_to or ["to the org" if memory.audience == "org" else f"by {memory.asserted_by}"]),
        *(f"about {who}" for who in _person_ids(memory.people("subject"), known)),
        *(f"as {who}" for who in _person_ids(memory.people("perspective"), known)),
    ]
    return sha256("\n".join(parts).encode()).hexdigest()


def audiences_of(heard: Iterable[SourceAudience], *, is_sensitive: bool) -> set[str]:
    """Return what tells apart whom sources are for: rooms, of which all open ones are one, and those of whispers.

    What is sensitive is for those who were in the room, however open that is.
    """
    told_to = {_audience_of(one, is_sensitive=is_sensitive) for one in heard}
    # Whoever hears the others hears what everybody does.
    return told_to - {EVERYBODY} or told_to


async def rescope(conn: Connection, org_id: OrgId, accounts: Collection[ParticipantId]) -> None:
    """Compare memories about participants anew, once it has changed whose accounts they are.

    What says the same of one person then stands once, the newest value of a slot stands, and what was said of another
    takes no place any more.
    """
    await memory_writes.lock(conn, org_id)
    found = await memory_writes.memories_naming(conn, org_id, accounts)
    circles = {one.id: await _dedup_scope_of(conn, org_id, one) for one in found}
    changed = {one.id: circles[one.id] for one in found if circles[one.id] != one.circle}
    await memory_writes.update_dedup_scopes(conn, org_id, changed)
    slots = {(one.slot, key) for one in found if one.slot for key in (one.circle, circles[one.id])}
    for slot, key in sorted(slots):
        await supersede_values(conn, org_id, circle=key, slot=slot)
    await memory_writes.link_duplicates(conn, org_id, set(changed.values()))
    await outbox.append(conn, org_id, "memory.changed", changed)


async def _dedup_scope_of(conn: Connection, org_id: OrgId, one: ScopedMemory) -> str:
    roles = frozenset(await memory_writes.roles(conn, org_id, one.id))
    nature = MemoryScope(
        sensitivity=one.sensitivity, audience=one.audience, asserted_by=one.asserted_by, roles=roles
    )
    known = await memory_writes.participants_by_id(conn, org_id, {who for _, who in roles})
    return dedup_scope(nature, await memory_writes.source_audiences(conn, org_id, one.source_ids), known)


def _audience_of(heard: SourceAudience, *, is_sensitive: bool) -> str:
    if heard.hearers is not None:
        return f"to {' '.join(str(who) for who in heard.hearers)}"
    return EVERYBODY if heard.is_open and not is_sensitive else f"in {heard.room_id}"


def _person_ids(ids: Iterable[ParticipantId], known: Mapping[ParticipantId, ParticipantRef]) -> list[str]:
    return sorted({str(known[who].person_id) for who in ids})


async def _merge_into(
    conn: Connection,
    org_id: OrgId,
    same: MatchingMemory,
    *,
    draft: MemoryDraft,
    known: Mapping[ParticipantId, ParticipantRef],
) -> bool:
    """Let a memory rest on a statement that says the same; return whether that changed it."""
    is_richer = await memory_writes.add_metadata(conn, org_id, same.id, draft.metadata)
    before = await memory_writes.roles(conn, org_id, same.id)
    is_restated = not draft.sources and not draft.roles <= before
    if not (await memory_writes.add_sources(conn, org_id, same.id, draft) or is_restated):
        return is_richer
    authors = draft.people("author")
    told_by = {who for role, who in before if role in {"author", "involved"}}
    if is_about_author(authors, draft) and not is_about_author(
        {who for role, who in before if role == "author"}, draft
    ):
        await memory_writes.demote_authors(conn, org_id, same.id)
    else:
        authors = authors & {who for role, who in before if role == "author"}
    involved = draft.people("author") - authors
    retold: set[tuple[MemoryRole, ParticipantId]] = {("author", who) for who in authors}
    retold |= {one for one in draft.roles if one[0] != "author"}
    retold.update(("involved", who) for who in involved)
    await memory_writes.add_roles(conn, org_id, same.id, retold - before)
    is_confirmed = any(not known[who].is_agent for who in draft.people("author") - told_by)
    doubt = (1 - same.confidence) * (1 - draft.confidence if is_confirmed else 1)
    confidence = max(same.confidence, min(1 - doubt, MAX_CONFIDENCE))
    await memory_writes.reinforce(conn, org_id, same.id, draft, confidence=confidence)
    return True


def _initial_confidence(draft: MemoryDraft, known: Mapping[ParticipantId, ParticipantRef]) -> float:
    authors = draft.people("author")
    is_claimed = (
        bool(authors) and all(known[who].is_agent for who in authors) and not is_about_author(authors, draft)
    )
    return draft.confidence * AGENT_WEIGHT if is_claimed else draft.confidence
