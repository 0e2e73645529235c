"""What was said through us and comes again from its platform: one message, which then has the platform's id.

A speaker states an id so that this is known, and whoever states one takes no id of the platform's. It becomes the
platform's when a record with that id names the same author, kind and audience. Any other record of that id is a message
of its own.
"""

from collections.abc import Mapping

from roomlore.domain.ids import MessageId, OrgId, RoomId
from roomlore.domain.incoming import IncomingMessage
from roomlore.ingest.resolve import ResolvedNames
from roomlore.ingest.versions import is_version
from roomlore.store import changes as noted
from roomlore.store import stated
from roomlore.store.queries import Connection


async def adopt_platform_ids(
    conn: Connection, org_id: OrgId, first: Mapping[tuple[RoomId, str], IncomingMessage], names: ResolvedNames
) -> None:
    """Give what was said the platform's ids, where these records are of it."""
    said = await stated.unmatched(conn, org_id, list(first))
    if not said:
        return
    told = {one.id: names.attributed(first[one.room_id, one.stated_id]) for one in said}
    who = {who for one in told.values() for who in (one.author_id, *one.audience)}
    who.update(*((one.author_id, *one.audience) for one in said))
    persons = await stated.persons_of_accounts(conn, org_id, who)
    same: dict[tuple[RoomId, str], MessageId] = {}
    for one in said:
        if is_version(one, told[one.id], persons):
            # Two accounts of one person may have stated one id: the platform has one message of it.
            same.setdefault((one.room_id, one.stated_id), one.id)
    if same:
        await stated.adopt_platform_ids(conn, org_id, list(same.values()))
        await noted.append(conn, org_id, "message.revised", list(same.values()))
