"""Stores claims: as new memories, as further sources of equal memories, or as successors of other memories.

Two memories can be equal or supersede each other only if they have the same *dedup scope*. A scope consists of the
subjects, the observer and the audience.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Literal

from roomlore.db import erasure, extraction_state, memory_writes, outbox
from roomlore.db import memories as store
from roomlore.db.memory_writes import (
    DedupKey,
    MatchingMemory,
    MemoryDraft,
    ParticipantRef,
    ScopedMemory,
    SourceAudience,
)
from roomlore.db.queries import Connection
from roomlore.domain.claims import ExistingMemory
from roomlore.domain.ids import MemoryId, MessageId, OrgId, ParticipantId
from roomlore.domain.records import AssertionAudience, MemoryRole, Sensitivity
from roomlore.memories.normalisation import digest_of

#: The factor by which the confidence of an agent's claims about others is reduced.
AGENT_WEIGHT = 0.5
#: The highest confidence, however many sources confirm a memory.
MAX_CONFIDENCE = 0.99
#: The name of the audience of open rooms.
EVERYBODY = "to all"
#: Limits of the existing memories in a prompt: their number, and how many characters of the conversation are used to
#: search for them.
MAX_CANDIDATES, _MAX_QUERY = 20, 20_000

#: `added`: a new memory. `merged`: an equal memory got more sources. `same`: nothing changed.
UpsertOutcome = Literal["added", "same", "merged"]
Participants = Mapping[ParticipantId, ParticipantRef]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertResult:
    """The memory in which a draft was stored, and what was done with it."""

    memory_id: MemoryId
    outcome: UpsertOutcome


# Supersession


@dataclass(frozen=True, slots=True, kw_only=True)
class Supersession:
    """A draft and a memory, of which one supersedes the other."""

    old_id: MemoryId
    new_id: MemoryId


async def find_supersession(conn: Connection, org_id: OrgId, place: DedupKey) -> Supersession | None:
    """Return the supersession between a draft and the memory in its `repeats` or `replaces`; None if it is invalid.

    The linked memory must be active and in the same scope, and no person's override may exclude the supersession. A
    draft supersedes a memory only if the draft is newer. If a repeated memory is newer or is by the person concerned,
    it supersedes the draft instead, provided that it has the same audience.
    """
    draft = place.draft
    named = draft.repeats or draft.replaces
    linked = (
        None
        if named is None
        else await store.find_link_target(conn, org_id, named, dedup_scope=place.dedup_scope)
    )
    if linked is None or (linked.id, place.digest) in await memory_writes.supersession_overrides(
        conn, org_id, [linked.id]
    ):
        return None
    is_later = linked.said_at < draft.valid_from
    if draft.repeats is None:
        return Supersession(old_id=linked.id, new_id=draft.id) if is_later else None
    authors = {who for role, who in await memory_writes.roles(conn, org_id, linked.id) if role == "author"}
    # If two people state the same, the statement of the person concerned is preferred.
    knows_as_well = _is_about(draft.people("author"), draft) or not _is_about(authors, draft)
    if is_later and knows_as_well:
        return Supersession(old_id=linked.id, new_id=draft.id)
    # The linked memory must have the same audience. Otherwise readers of the draft would see neither of the two
    # memories.
    is_for_all = await memory_writes.has_same_audience(
        conn, org_id, linked.id, draft.source_ids, sensitivity=draft.sensitivity
    )
    return Supersession(old_id=draft.id, new_id=linked.id) if is_for_all else None


def _is_about(authors: Collection[ParticipantId], draft: MemoryDraft) -> bool:
    return bool(draft.people("subject") & set(authors))


# Upsert


async def upsert(conn: Connection, org_id: OrgId, draft: MemoryDraft) -> UpsertResult | None:
    """Store a draft once, and return the result; None if its sources or people no longer exist.

    The caller's transaction must hold the shared erasure lock and locks on the rooms of the sources. If an equal memory
    is no longer active, for example because a person archived it, nothing is stored.
    """
    await memory_writes.lock(conn, org_id)
    if not await memory_writes.has_valid_sources(
        conn, org_id, draft.source_ids, participant_ids={person for _, person in draft.roles}
    ):
        return None
    message_ids = {source.message_id for source in draft.sources}
    if draft.sensitivity == "normal" and await memory_writes.is_sensitive(conn, org_id, message_ids):
        draft = replace(draft, sensitivity="sensitive", is_conversation_sensitive=True)
    known = await memory_writes.participants_by_id(conn, org_id, {who for _, who in draft.roles})
    scope = dedup_scope(
        await memory_writes.source_audiences(conn, org_id, message_ids),
        known,
        roles=draft.roles,
        sensitivity=draft.sensitivity,
        audience=draft.audience,
        asserted_by=draft.asserted_by,
    )
    place = DedupKey(dedup_scope=scope, digest=digest_of(draft.content), draft=draft)
    same = await memory_writes.find_active_match(conn, org_id, place)
    if same is not None and await memory_writes.has_same_audience(
        conn, org_id, same.id, draft.source_ids, sensitivity=draft.sensitivity
    ):
        is_changed = await _merge_into(conn, org_id, same, draft=draft, known=known)
        result = UpsertResult(memory_id=same.id, outcome="merged" if is_changed else "same")
    elif (
        same is None and (before := await memory_writes.find_inactive_match(conn, org_id, place)) is not None
    ):
        result = UpsertResult(memory_id=before.id, outcome="same")
    else:
        draft = await _add(conn, org_id, place, same=same, known=known)
        result = UpsertResult(memory_id=draft.id, outcome="added")
    if result.outcome != "same":
        kind = "memory.added" if result.outcome == "added" else "memory.changed"
        await outbox.append(conn, org_id, kind, [result.memory_id])
    return result


async def add_separately(conn: Connection, org_id: OrgId, drafts: Sequence[MemoryDraft]) -> None:
    """Store drafts without sources, each as a memory of its own, even if it says the same as another one.

    The caller's transaction must hold the shared erasure lock, and all people of the drafts must exist.
    """
    await memory_writes.lock(conn, org_id)
    known = await memory_writes.participants_by_id(
        conn, org_id, {who for draft in drafts for _, who in draft.roles}
    )
    places: list[DedupKey] = []
    for draft in drafts:
        scope = dedup_scope(
            (),
            known,
            roles=draft.roles,
            sensitivity=draft.sensitivity,
            audience=draft.audience,
            asserted_by=draft.asserted_by,
        )
        places.append(DedupKey(dedup_scope=scope, digest=digest_of(draft.content), draft=draft))
    confidences = {draft.id: _initial_confidence(draft, known) for draft in drafts}
    await memory_writes.add_many(conn, org_id, places, confidences=confidences)
    await outbox.append(conn, org_id, "memory.added", [draft.id for draft in drafts])


async def _add(
    conn: Connection, org_id: OrgId, place: DedupKey, *, same: MatchingMemory | None, known: Participants
) -> MemoryDraft:
    """Add a memory, and return the stored draft.

    If an equal memory has another audience, the later of the two memories supersedes the other one. Otherwise, the
    supersession between the draft and its linked memory is stored, if there is one.
    """
    draft = place.draft
    related = await find_supersession(conn, org_id, place) if same is None else None
    await memory_writes.add(conn, org_id, place, confidence=_initial_confidence(draft, known))
    if same is not None:
        # The later memory stays active. Fewer people could read a merged memory than either of the two memories.
        old_id, new_id = (same.id, draft.id) if same.valid_from <= draft.valid_from else (draft.id, same.id)
        await memory_writes.supersede(conn, org_id, old_id, by=new_id)
    elif related is not None:
        await memory_writes.supersede(conn, org_id, related.old_id, by=related.new_id)
    return draft


async def _merge_into(
    conn: Connection, org_id: OrgId, same: MatchingMemory, *, draft: MemoryDraft, known: Participants
) -> bool:
    """Add the sources and people of a draft to an equal memory; return whether the memory changed."""
    is_richer = bool(await memory_writes.add_metadata(conn, org_id, same.id, draft.metadata))
    before = await memory_writes.roles(conn, org_id, same.id)
    is_restated = not draft.sources and not draft.roles <= before
    added = await memory_writes.add_sources(conn, org_id, same.id, draft.sources, extractor=draft.extractor)
    if not (added or is_restated):
        return is_richer
    authors = draft.people("author")
    authors_before = {who for role, who in before if role == "author"}
    stated_by = {who for role, who in before if role in {"author", "involved"}}
    if _is_about(authors, draft) and not _is_about(authors_before, draft):
        await memory_writes.demote_authors(conn, org_id, same.id)
    else:
        authors &= authors_before
    roles: set[tuple[MemoryRole, ParticipantId]] = {one for one in draft.roles if one[0] != "author"}
    roles.update(("author" if who in authors else "involved", who) for who in draft.people("author"))
    await memory_writes.add_roles(conn, org_id, same.id, roles - before)
    is_confirmed = any(not known[who].is_agent for who in draft.people("author") - stated_by)
    doubt = (1 - same.confidence) * (1 - draft.confidence if is_confirmed else 1)
    confidence = max(same.confidence, min(1 - doubt, MAX_CONFIDENCE))
    await memory_writes.reinforce(conn, org_id, same.id, draft, confidence=confidence)
    return True


def _initial_confidence(draft: MemoryDraft, known: Participants) -> float:
    authors = draft.people("author")
    is_claim = bool(authors) and all(known[who].is_agent for who in authors) and not _is_about(authors, draft)
    return draft.confidence * AGENT_WEIGHT if is_claim else draft.confidence


async def detach_messages(
    conn: Connection,
    org_id: OrgId,
    message_ids: Collection[MessageId],
    *,
    extractor: str,
    still_extracted: Collection[tuple[MemoryId, MessageId]],
) -> int:
    """Detach messages from the memories that an extractor no longer extracts from them.

    A memory that loses its last source is dropped. Return how many memories were dropped. `still_extracted` lists the
    memories that are still extracted, each with its source message.
    """
    await memory_writes.lock(conn, org_id)
    orphaned = await memory_writes.detach_sources(
        conn, org_id, message_ids, extractor=extractor, kept=still_extracted
    )
    return (await erasure.drop_memories(conn, org_id, orphaned)).get("memories", 0)


# Scopes


def dedup_scope(
    sources: Iterable[SourceAudience],
    known: Participants,
    *,
    roles: Collection[tuple[MemoryRole, ParticipantId]],
    sensitivity: Sensitivity = "normal",
    audience: AssertionAudience = "self",
    asserted_by: ParticipantId | None = None,
) -> str:
    """Return the dedup scope of a memory, in hex digits.

    `audience` and `asserted_by` are used only if there are no sources.
    """

    def people(role: MemoryRole) -> list[str]:
        return sorted({str(known[who].person_id) for named, who in roles if named == role})

    shared_with = audiences_of(sources, is_sensitive=sensitivity == "sensitive")
    parts = [
        sensitivity,
        *sorted(shared_with or ["to the org" if audience == "org" else f"by {asserted_by}"]),
        *(f"about {who}" for who in people("subject")),
        *(f"as {who}" for who in people("perspective")),
    ]
    return sha256("\n".join(parts).encode()).hexdigest()


def audiences_of(sources: Iterable[SourceAudience], *, is_sensitive: bool) -> set[str]:
    """Return the distinct audiences of sources: each private room, each group of whisper recipients, all open rooms.

    All open rooms together are one audience. If a source is sensitive, its audience is the members of its room, even if
    the room is open.
    """
    found = {_audience_of(one, is_sensitive=is_sensitive) for one in sources}
    # Open rooms add no restriction, because readers of any other source can read them, too.
    return found - {EVERYBODY} or found


def _audience_of(source: SourceAudience, *, is_sensitive: bool) -> str:
    if source.recipients is not None:
        return f"to {' '.join(str(who) for who in source.recipients)}"
    return EVERYBODY if source.is_open and not is_sensitive else f"in {source.room_id}"


async def rescope(conn: Connection, org_id: OrgId, accounts: Collection[ParticipantId]) -> None:
    """Compute scopes again after accounts were linked to a person or unlinked from a person."""
    await memory_writes.lock(conn, org_id)
    found = await memory_writes.memories_naming(conn, org_id, accounts)
    scopes = {one.id: await _scope_of(conn, org_id, one) for one in found}
    changed = {one.id: scopes[one.id] for one in found if scopes[one.id] != one.dedup_scope}
    await memory_writes.update_dedup_scopes(conn, org_id, changed)
    # Memories that have come together may supersede each other.
    await extraction_state.reextract_sources(conn, org_id, changed)
    await memory_writes.link_duplicates(conn, org_id, set(changed.values()))
    await outbox.append(conn, org_id, "memory.changed", changed)


async def _scope_of(conn: Connection, org_id: OrgId, one: ScopedMemory) -> str:
    roles = await memory_writes.roles(conn, org_id, one.id)
    return dedup_scope(
        await memory_writes.source_audiences(conn, org_id, one.source_ids),
        await memory_writes.participants_by_id(conn, org_id, {who for _, who in roles}),
        roles=roles,
        sensitivity=one.sensitivity,
        audience=one.audience,
        asserted_by=one.asserted_by,
    )


# Candidates for prompts


async def prompt_candidates(
    conn: Connection,
    org_id: OrgId,
    message_ids: Sequence[MessageId],
    *,
    people: Collection[ParticipantId],
    text: str,
) -> list[ExistingMemory]:
    """Return active memories that a conversation may repeat.

    Each memory is about one of the people or about nobody, and has the audience of the conversation. Three kinds are
    left out: memories with a source among the messages, memories under a privacy request, and memories that a person
    asserted.
    """
    sources = await memory_writes.source_audiences(conn, org_id, message_ids)
    audiences = _separate_audiences(sources)
    if len(audiences) != 1:
        return []
    known = await memory_writes.participants_by_id(conn, org_id, people)
    about_nobody = dedup_scope(sources, known, roles=())
    subjects: dict[str, ParticipantId | None] = {
        dedup_scope(sources, known, roles=[("subject", who)]): who for who in known
    }
    subjects[about_nobody] = None
    found = await store.prompt_candidates(
        conn,
        org_id,
        subjects.keys(),
        of_nobody=about_nobody,
        besides=message_ids,
        text=text[:_MAX_QUERY],
        limit=MAX_CANDIDATES,
    )
    return [
        ExistingMemory(
            id=one.id,
            kind=one.kind,
            content=one.content,
            subject_id=subjects[one.dedup_scope],
            source_ids=one.source_ids,
        )
        for one in found
        # A source's room may have been opened or closed since the extraction.
        if _separate_audiences(await memory_writes.source_audiences(conn, org_id, one.source_ids))
        == audiences
    ]


def _separate_audiences(sources: Iterable[SourceAudience]) -> set[frozenset[str]]:
    return {frozenset(audiences_of([one], is_sensitive=False)) for one in sources}
