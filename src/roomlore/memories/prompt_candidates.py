"""Which memories a language model is told of while it goes through a conversation: what its statements may repeat.

Of the same people for the same people only: nothing crosses from one audience to another, not even on its way.
"""

from collections.abc import Collection, Sequence

from roomlore.db import memories, memory_writes
from roomlore.db.queries import Connection
from roomlore.domain.claims import ExistingMemory
from roomlore.domain.ids import MessageId, OrgId, ParticipantId
from roomlore.domain.records import MemoryRole
from roomlore.memories.consolidation import MemoryScope, audiences_of, dedup_scope

#: So many at most.
MAX_CANDIDATES = 20
#: Of what is said in a conversation, so many characters tell which.
_LONGEST = 20_000


async def load(
    conn: Connection,
    org_id: OrgId,
    message_ids: Sequence[MessageId],
    *,
    people: Collection[ParticipantId],
    text: str,
) -> list[ExistingMemory]:
    """Return what stands already about one of these people or nobody, for exactly those whom the messages are for.

    None of it rests on the messages themselves, on what a wish covers, or on a person's assertion.

    Args:
        conn: Reads for the operator.
        org_id: Whose.
        message_ids: A conversation.
        people: Who may be spoken of in it.
        text: What is said in it.
    """
    heard = await memory_writes.source_audiences(conn, org_id, message_ids)
    told_to = {frozenset(audiences_of([one], is_sensitive=False)) for one in heard}
    if len(told_to) != 1:
        return []
    known = await memory_writes.participants_by_id(conn, org_id, people)
    of_nobody = dedup_scope(_scope_about(None), heard, known)
    subjects: dict[str, ParticipantId | None] = {
        dedup_scope(_scope_about(who), heard, known): who for who in known
    }
    subjects[of_nobody] = None
    found = await memories.prompt_candidates(
        conn,
        org_id,
        subjects.keys(),
        of_nobody=of_nobody,
        besides=message_ids,
        text=text[:_LONGEST],
        limit=MAX_CANDIDATES,
    )
    return [
        ExistingMemory(
            id=one.id,
            kind=one.kind,
            content=one.content,
            slot=one.slot,
            subject_id=subjects[one.circle],
            source_ids=one.source_ids,
        )
        for one in found
        # A room may have been closed, or opened, since it was drawn.
        if {
            frozenset(
                audiences_of(
                    await memory_writes.source_audiences(conn, org_id, one.source_ids), is_sensitive=False
                )
            )
        }
        == told_to
    ]


def _scope_about(who: ParticipantId | None) -> MemoryScope:
    roles: frozenset[tuple[MemoryRole, ParticipantId]] = frozenset(() if who is None else {("subject", who)})
    return MemoryScope(sensitivity="normal", asserted_by=None, roles=roles)
