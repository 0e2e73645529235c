"""Whether messages may be shown to a language model, and whether what it said of them may count."""

from collections.abc import Collection

from roomlore.domain.ids import MessageId, OrgId
from roomlore.store import erased, wishes
from roomlore.store.queries import Connection


async def is_allowed_for_model(conn: Connection, org_id: OrgId, message_ids: Collection[MessageId]) -> bool:
    """Return whether no wish keeps one of these from anybody; until the transaction ends nobody is erased.

    A wish may be spoken anywhere in a room, and what it covers is as it was. So this is asked in the transaction that
    ends just before a call and in the one that takes its answer: what is spoken between them costs the answer.
    """
    await erased.lock_shared(conn, org_id)
    return not await wishes.is_any_restricted(conn, org_id, message_ids)
