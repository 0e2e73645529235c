"""Cursors of listings. A cursor is opaque, and valid only for one key, one viewer and one listing.

A cursor contains time and id of the last message of its page, with a MAC made from the caller's key. So nothing is
stored, and every process accepts the cursor. It becomes invalid when its key does, but remains valid if the message
is removed. The next page is read with the viewer's current rights, so a cursor never shows more than a new request.
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

from roomlore.db.messages import UNKNOWN
from roomlore.domain.errors import BadInput
from roomlore.domain.ids import MessageId
from roomlore.http.authentication import AuthenticatedApp
from roomlore.http.field_types import Limit, ShortText
from roomlore.search.lookup import PositionLike

#: The encoded position: time in microseconds, and id.
_POSITION_FORMAT = struct.Struct(">q16s")
_MAC = 16
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: The maximum number of characters. No valid cursor is longer.
MAX_CURSOR_LENGTH = 100
Position = tuple[datetime, int, MessageId]


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorCodec:
    """The cursors of one listing for one viewer."""

    #: The secret of the MAC, made from the caller's key.
    secret: bytes
    #: Identifies the listing and its viewer.
    about: bytes

    def encode(self, position: Position) -> str:
        """Return the cursor of a position."""
        # The sequence number among messages of the same time is left out, because it may count hidden messages.
        sent_at, _, message_id = position
        place = _POSITION_FORMAT.pack((sent_at - _EPOCH) // timedelta(microseconds=1), message_id.bytes)
        return base64.urlsafe_b64encode(place + self._mac(place)).decode()

    def decode(self, cursor: str) -> Position:
        """Return the position of a cursor.

        Raises:
            BadInput: the cursor is not one of this listing and viewer.
        """
        try:
            decoded = base64.b64decode(cursor, altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            decoded = b""
        place, mac = decoded[: _POSITION_FORMAT.size], decoded[_POSITION_FORMAT.size :]
        # The same bytes have several encodings. Only the encoding that `encode` returns is accepted.
        is_canonical = base64.urlsafe_b64encode(decoded).decode() == cursor
        is_ours = is_canonical and len(decoded) == _POSITION_FORMAT.size + _MAC
        if not is_ours or not hmac.compare_digest(mac, self._mac(place)):
            raise BadInput("cursor", "is not one of this listing; start again without it")
        microseconds, message_id = _POSITION_FORMAT.unpack(place)
        return _EPOCH + timedelta(microseconds=microseconds), UNKNOWN, MessageId(UUID(bytes=message_id))

    def _mac(self, place: bytes) -> bytes:
        return hmac.digest(self.secret, place + self.about, "sha256")[:_MAC]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The requested page of a listing."""

    #: The message before which the page ends; None if the page ends with the newest message.
    before: PositionLike
    limit: int
    cursors: CursorCodec

    def next(self, shown: Sequence[Position], *, is_cut: bool) -> str | None:
        """Return the cursor of the next page; None if this page is the last one.

        Args:
            shown: The positions on this page.
            is_cut: Whether the page ends before its limit because texts are large.
        """
        return self.cursors.encode(shown[-1]) if is_cut or len(shown) == self.limit else None


def _page_dependency(default_limit: int) -> Callable[..., Awaitable[Page]]:
    async def page(
        app: AuthenticatedApp,
        request: Request,
        *,
        before: ShortText | None = None,
        cursor: Annotated[str | None, Query(max_length=MAX_CURSOR_LENGTH)] = None,
        limit: Limit = default_limit,
    ) -> Page:
        viewer = app.access.principal
        about = f"{viewer.org_id} {viewer.participant_id} {request.scope['path']}".encode()
        secret = hmac.digest(request.state.key.encode(), b"roomlore cursor", "sha256")
        cursors = CursorCodec(secret=secret, about=about)
        if cursor is not None and before is not None:
            raise BadInput("cursor", "cannot be combined with before")
        return Page(before=before if cursor is None else cursors.decode(cursor), limit=limit, cursors=cursors)

    return page


PageParameter = Annotated[Page, Depends(_page_dependency(50))]
#: The limit is higher for conversations, because they are usually read as a whole.
LongPageParameter = Annotated[Page, Depends(_page_dependency(1_000))]
