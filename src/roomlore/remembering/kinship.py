"""What a language model says a statement is to a memory: the same in other words, or what is so instead.

Neither unites anything. One of the two takes the other's place, as with values of a slot, so that each keeps its words
and what it rests on, either goes with its own messages, and a person can take it back.
"""

from collections.abc import Collection
from dataclasses import dataclass

from roomlore.domain.ids import MemoryId, OrgId, ParticipantId
from roomlore.store import keeping
from roomlore.store import kinship as store
from roomlore.store.keeping import MemoryDraft, DedupKey
from roomlore.store.kinship import LinkTarget
from roomlore.store.queries import Connection


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
    if kin is None or (kin.id, place.digest) in await keeping.supersession_overrides(conn, org_id, [kin.id]):
        return None
    if kin.slot is not None and draft.slot not in {None, kin.slot}:
        return None
    is_later = kin.said_at < draft.valid_from
    if draft.repeats is None:
        return _supersede_by(kin, draft) if is_later else None
    authors = {who for role, who in await keeping.roles(conn, org_id, kin.id) if role == "author"}
    # Of two who say the same, whoever is meant themselves knows better.
    knows_as_well = is_about_author(draft.people("author"), draft) or not is_about_author(authors, draft)
    if is_later and knows_as_well:
        return _supersede_by(kin, draft)
    # Whoever came since hears the new one alone, and would be left with neither.
    is_for_all = await keeping.has_same_audience(conn, org_id, kin.id, draft)
    return Supersession(old_id=draft.id, new_id=kin.id, slot=None) if is_for_all else None


def is_about_author(authors: Collection[ParticipantId], draft: MemoryDraft) -> bool:
    """Return whether those who state something are those whom it is about."""
    return bool(draft.people("subject") & set(authors))


def _supersede_by(kin: LinkTarget, draft: MemoryDraft) -> Supersession:
    return Supersession(old_id=kin.id, new_id=draft.id, slot=draft.slot or kin.slot)
