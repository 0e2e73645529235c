"""Requests to a server on behalf of one caller. The server decides what the caller may do."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import quote

from roomlore.client import codec
from roomlore.client.errors import error_of
from roomlore.client.transport import ServerRequest, ServerResponse, Transport
from roomlore.domain.errors import BadInput, NotAllowed
from roomlore.domain.ids import OrgId
from roomlore.domain.records import Viewer
from roomlore.operations.access import check_limit
from roomlore.operations.registry import Method

Record = TypeVar("Record")
Item = TypeVar("Item")
#: The maximum number of records that one request may list.
PAGE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One org on a server, and one caller."""

    transport: Transport
    org_id: OrgId
    key: str = field(repr=False)
    key_holder: Viewer
    #: The viewer on whose behalf an operator makes requests; None if the key holder makes them for themselves.
    impersonated: Viewer | None = None

    @property
    def principal(self) -> Viewer:
        """The viewer on whose behalf requests are made."""
        return self.impersonated or self.key_holder

    def impersonate(self, viewer: Viewer) -> "Session":
        """Return the session on behalf of a viewer that the caller, an operator, names.

        Raises:
            NotAllowed: the caller is no operator, or the viewer is of another org.
        """
        if not self.principal.is_operator or viewer.org_id != self.org_id:
            raise NotAllowed("only an operator acts for another, in the same org")
        return replace(self, impersonated=replace(viewer, key_id=self.key_holder.key_id))

    async def read(
        self,
        kind: type[Record],
        path: str,
        *,
        viewer: Viewer | None = None,
        query: codec.Query | None = None,
        body: Any = None,
    ) -> Record:
        """Return the record at a path below `/v1` for a viewer. Default: for the caller.

        A request with a body is a POST.

        Raises:
            NotAllowed: the caller may not read as the viewer.
            RoomloreError: the server refuses.
        """
        request = ServerRequest(
            method="GET" if body is None else "POST",
            path=f"/v1/{path}",
            query=query or (),
            body=None if body is None else codec.encode(body),
            viewer=self.viewer_header(self.principal if viewer is None else viewer),
        )
        return codec.decode((await self.transport.request(request, key=self.key)).body, kind)

    async def change(self, kind: type[Record], method: Method, path: str, body: Any = None) -> Record:
        """Make a change on the caller's behalf and return its result."""
        return codec.decode((await self._change(method, path, body)).body, kind)

    async def command(self, method: Method, path: str, body: Any = None) -> None:
        """Make a change that returns nothing.

        Raises:
            ServerUnavailable: the response is not one of Roomlore's.
        """
        response = await self._change(method, path, body)
        if response.status != HTTPStatus.NO_CONTENT:
            raise error_of(response.status, response.content_type, response.body)

    async def _change(self, method: Method, path: str, body: Any) -> ServerResponse:
        request = ServerRequest(
            method=method,
            path=f"/v1/{path}",
            body=None if body is None else codec.encode(body),
            viewer=self.viewer_header(self.principal),
            is_change=True,
        )
        return await self.transport.request(request, key=self.key)

    def viewer_header(self, viewer: Viewer) -> str | None:
        """Return the header that names a viewer; None for the key holder.

        Raises:
            NotAllowed: the caller may not read as the viewer.
        """
        if viewer.org_id != self.org_id:
            raise NotAllowed("this viewer is of another org")
        if not (self.principal.is_operator or viewer.participant_id == self.principal.participant_id):
            raise NotAllowed("this key reads as its own participant only")
        if viewer.participant_id == self.key_holder.participant_id:
            return None
        return quote(str(viewer.participant_id), safe="")


def check_page(limit: int) -> None:
    """Raise BadInput if one request cannot list so many records."""
    if not 1 <= limit <= PAGE:
        raise BadInput("limit", f"must be at least 1, and over HTTP at most {PAGE:,}")


#: Returns the items of a page, newest first, and the cursor of the next page.
FetchPage = Callable[[codec.Query], Awaitable[tuple[list[Item], str | None]]]


async def fetch_all(fetch: FetchPage[Item], *, limit: int, before: str | None) -> list[Item]:
    """Return up to `limit` items, newest first.

    A page may have fewer items than requested, because its texts are large. No further page is fetched then.
    """
    check_limit(limit)
    size = min(limit, PAGE)
    items, cursor = await fetch(codec.query(limit=size, before=before))
    while cursor is not None and len(items) == size < limit:
        wanted = min(limit - size, PAGE)
        more, cursor = await fetch(codec.query(limit=wanted, cursor=cursor))
        items, size = items + more, size + wanted
    return items
