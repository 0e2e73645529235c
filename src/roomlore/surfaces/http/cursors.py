"""Where a listing goes on: opaque, and of no use to anybody but who was given it.

A cursor holds the id of the last message that its page showed, authenticated with a secret made from the key that was
shown with the request, for that viewer and that listing. So nothing is stored, every process knows it, and it ends with
its key. What it points at is looked up as the viewer again: a cursor can never show more than asking anew.
"""

import base64
import binascii
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Query, Request

from roomlore.domain.errors import BadInput
from roomlore.domain.ids import MessageId
from roomlore.surfaces.http.signin import Acting
from roomlore.surfaces.http.words import Limit, Word

_ID, _MAC = 16, 16
#: A cursor is shorter.
LONGEST = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursors:
    """The cursors of one listing for one viewer."""

    #: Made from the key.
    secret: bytes
    #: Which listing, of whom.
    about: bytes

    def seal(self, place: MessageId) -> str:
        """Return the cursor of a place."""
        return base64.urlsafe_b64encode(place.bytes + self._mac(place.bytes)).decode()

    def open(self, cursor: str) -> MessageId:
        """Return the place of a cursor.

        Raises:
            BadInput: it was not given to this viewer for this listing.
        """
        try:
            held = base64.b64decode(cursor, altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            held = b""
        place, mac = held[:_ID], held[_ID:]
        if len(held) != _ID + _MAC or not hmac.compare_digest(mac, self._mac(place)):
            raise BadInput("cursor", "is none of this listing; begin again without it")
        return MessageId(UUID(bytes=place))

    def _mac(self, place: bytes) -> bytes:
        return hmac.digest(self.secret, place + self.about, "sha256")[:_MAC]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Which part of a listing is wanted."""

    #: The message that it ends before; None where it is the newest.
    before: str | None
    limit: int
    cursors: Cursors

    def next(self, shown: Sequence[MessageId]) -> str | None:
        """Return the cursor of what comes after the last that is shown; None where there is no more."""
        return self.cursors.seal(shown[-1]) if len(shown) == self.limit else None


async def _page(
    app: Acting,
    request: Request,
    *,
    before: Word | None = None,
    cursor: Annotated[str | None, Query(max_length=LONGEST)] = None,
    limit: Limit = 50,
) -> Page:
    viewer = app.desk.caller
    about = f"{viewer.org_id} {viewer.participant_id} {request.scope['path']}".encode()
    secret = hmac.digest(request.state.key.encode(), b"roomlore cursor", "sha256")
    cursors = Cursors(secret=secret, about=about)
    if cursor is not None:
        if before is not None:
            raise BadInput("cursor", "goes without before")
        before = str(cursors.open(cursor))
    return Page(before=before, limit=limit, cursors=cursors)


Paged = Annotated[Page, Depends(_page)]
