"""Says who was in a room all along, where an export lists no members.

Only a one-to-one room tells it by its nature. In any other room somebody may have joined late, so nobody is
stated there: whoever writes is then a member from their first message on, and never before.
"""

from collections.abc import Iterable

from roomlore.domain.incoming import IncomingAuthor, IncomingMembership, RoomKind

_SIDES = 2


def direct_members(kind: RoomKind | None, authors: Iterable[IncomingAuthor]) -> tuple[IncomingMembership, ...]:
    """Return the two sides of a one-to-one room as its members since ever; nobody for any other room."""
    known = {(author.account_id, author.persona): author for author in authors}
    # With a third account in it the room is not what it is called, and its past not everybody's.
    if kind != "dm" or len({account for account, _ in known}) > _SIDES:
        return ()
    return tuple(IncomingMembership(author=author) for author in known.values())
