"""Where a listing goes on: opaque, and of no use to anybody but who was given it.

A cursor holds time and id of the last message that its page showed, and nothing that the page did not, authenticated with a secret made from
the key that was shown with the request, for that viewer and that listing. So nothing is stored, every process knows it,
it ends with its key, and it outlives the message. What stands before the place is read as the viewer: a cursor can never
show more than asking anew.
"""

import base64
import binascii
import hmac
import struct
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Query, Request

from roomlore.db.positions import UNKNOWN
from roomlore.domain.errors import BadInput
from roomlore.domain.ids import MessageId
from roomlore.http.authentication import AuthenticatedApp
from roomlore.http.field_types import Limit, ShortText
from roomlore.search.lookup import PositionLike

#: Microseconds, id.
_POSITION_FORMAT = struct.Struct(">q16s")
_MAC = 16
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: A cursor is shorter.
MAX_CURSOR_LENGTH = 100
Position = tuple[datetime, int, MessageId]


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorCodec:
    """The cursors of one listing for one viewer."""

    #: Made from the key.
    secret: bytes
    #: Which listing, of whom.
    about: bytes

    def encode(self, place: Position) -> str:
        """Return the cursor of a place."""
        # Not the order among messages of one time: it may count what is hidden.
        sent_at, _, message_id = place
        held = _POSITION_FORMAT.pack((sent_at - _EPOCH) // timedelta(microseconds=1), message_id.bytes)
        return base64.urlsafe_b64encode(held + self._mac(held)).decode()

    def decode(self, cursor: str) -> Position:
        """Return the place of a cursor.

        Raises:
            BadInput: it was not given to this viewer for this listing.
        """
        try:
            held = base64.b64decode(cursor, altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            held = b""
        place, mac = held[: _POSITION_FORMAT.size], held[_POSITION_FORMAT.size :]
        # Of one spelling, as keys are.
        is_ours = (
            len(held) == _POSITION_FORMAT.size + _MAC and base64.urlsafe_b64encode(held).decode() == cursor
        )
        if not is_ours or not hmac.compare_digest(mac, self._mac(place)):
            raise BadInput("cursor", "is none of this listing; begin again without it")
        microseconds, message_id = _POSITION_FORMAT.unpack(place)
        return _EPOCH + timedelta(microseconds=microseconds), UNKNOWN, MessageId(UUID(bytes=message_id))

    def _mac(self, place: bytes) -> bytes:
        return hmac.digest(self.secret, place + self.about, "sha256")[:_MAC]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Which part of a listing is wanted."""

    #: Where it ends; None where it is the newest.
    before: PositionLike
    limit: int
    cursors: CursorCodec

    def next(self, shown: Sequence[Position], *, is_cut: bool) -> str | None:
        """Return the cursor of what comes after the last that is shown; None where there is no more.

        Args:
            shown: Places, at most `limit`.
            is_cut: Whether the page ends before its limit because texts are large.
        """
        return self.cursors.encode(shown[-1]) if is_cut or len(shown) == self.limit else None


def _page_dependency(usual: int) -> Callable[..., Awaitable[Page]]:
    """Return what reads which part is wanted, by default so many records."""

    async def page(
        app: AuthenticatedApp,
        request: Request,
        *,
        before: ShortText | None = None,
        cursor: Annotated[str | None, Query(max_length=MAX_CURSOR_LENGTH)] = None,
        limit: Limit = usual,
    ) -> Page:
        viewer = app.access.principal
        about = f"{viewer.org_id} {viewer.participant_id} {request.scope['path']}".encode()
        secret = hmac.digest(request.state.key.encode(), b"roomlore cursor", "sha256")
        cursors = CursorCodec(secret=secret, about=about)
        if cursor is not None and before is not None:
            raise BadInput("cursor", "goes without before")
        return Page(before=before if cursor is None else cursors.decode(cursor), limit=limit, cursors=cursors)

    return page


PageParameter = Annotated[Page, Depends(_page_dependency(50))]
#: Of a conversation most is wanted whole.
LongPageParameter = Annotated[Page, Depends(_page_dependency(1_000))]
