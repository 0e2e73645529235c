"""Participants as those for whom is read."""

from roomlore.db import directory
from roomlore.db.database import Database
from roomlore.domain.ids import OrgId, ParticipantId
from roomlore.domain.records import Viewer


async def viewer_of(db: Database, org_id: OrgId, participant_id: ParticipantId) -> Viewer:
    """Return a participant as a viewer, with the other accounts of the same person."""
    async with db.read_transaction(Viewer.operator(org_id)) as conn:
        accounts = await directory.accounts(conn, org_id, participant_id)
    is_agent = bool(accounts) and all(account.kind == "agent" for account in accounts)
    return Viewer(
        org_id=org_id,
        participant_id=participant_id,
        accounts=frozenset(account.id for account in accounts) - {participant_id},
        role="agent" if is_agent else "member",
    )
