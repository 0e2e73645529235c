"""Keeps the names of erased persons out of labels and memories. Messages of other people may still contain the names.

For memories, names that are common English words are not checked.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from roomlore.conversations.message_text import tokens
from roomlore.db import erasure_guard
from roomlore.db.disentanglement import ConversationText
from roomlore.db.memory_writes import MemoryDraft
from roomlore.db.queries import Connection
from roomlore.domain.ids import OrgId
from roomlore.domain.words import name_forms


async def erased_name_words(conn: Connection, org_id: OrgId, texts: Iterable[str]) -> set[str]:
    """Return the words in these texts that are names of erased persons."""
    if not await erasure_guard.has_names(conn, org_id):
        return set()
    words = {word for text in texts for word in tokens(text)}
    return await erasure_guard.erased_words(conn, org_id, {word: name_forms(word) for word in words})


async def without_erased_names(
    conn: Connection, org_id: OrgId, found: Sequence[ConversationText]
) -> Sequence[ConversationText]:
    """Return the texts with the names of erased persons added to the names that labels leave out."""
    erased = await erased_name_words(conn, org_id, (body for one in found for body in one.told or ()))
    return [replace(one, names=[*one.names, *sorted(erased)]) for one in found] if erased else found


async def reject_erased_names(
    conn: Connection, org_id: OrgId, drafts: Sequence[MemoryDraft]
) -> Sequence[MemoryDraft]:
    """Return the drafts that contain no name of an erased person."""
    told = [" ".join((one.title, one.content, *one.tags)) for one in drafts]
    found = await erased_name_words(conn, org_id, told)
    if not found:
        return drafts
    names = await erasure_guard.distinctive_words(conn, found)
    return [one for one, text in zip(drafts, told, strict=True) if names.isdisjoint(tokens(text))]
