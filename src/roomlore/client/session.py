"""A line to a server: on whose behalf it is asked, and what is sent of that.

The server decides who may what. What is refused here is only what could not be asked at all.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import quote

from roomlore.client import codec
from roomlore.client.errors import error_of
from roomlore.client.transport import Method, ServerRequest, Transport
from roomlore.client.transport import ServerResponse as Answered
from roomlore.domain.errors import BadInput, NotAllowed
from roomlore.domain.ids import OrgId
from roomlore.domain.records import Viewer

Told = TypeVar("Told")
Query = list[tuple[str, str]]
#: The most of anything that one request lists.
PAGE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One org behind a server, asked on behalf of one caller."""

    transport: Transport
    org_id: OrgId
    key: str = field(repr=False)
    #: Whom the key names.
    key_holder: Viewer
    #: Whom the key's holder, an operator, acts for; None: for themselves.
    impersonated: Viewer | None = None

    @property
    def principal(self) -> Viewer:
        """On whose behalf is asked."""
        return self.impersonated or self.key_holder

    def impersonate(self, viewer: Viewer) -> "Session":
        """Return the line on behalf of a viewer whom the caller, an operator, names.

        Raises:
            NotAllowed: the caller is no operator, or the viewer is of another org.
        """
        if not self.principal.is_operator or viewer.org_id != self.org_id:
            raise NotAllowed("only an operator acts for another, in the same org")
        return replace(self, impersonated=replace(viewer, key_id=self.key_holder.key_id))

    async def read(
        self,
        kind: type[Told],
        path: str,
        *,
        viewer: Viewer | None = None,
        query: Query | None = None,
        body: Any = None,
    ) -> Told:
        """Return what a path shows a viewer, or the caller.

        Args:
            kind: What it is.
            path: Below `/v1`.
            viewer: For whom.
            query: What the address asks for.
            body: What is asked besides.

        Raises:
            NotAllowed: the caller may not read as the viewer.
            RoomloreError: what the server refuses.
        """
        asked = ServerRequest(
            method="GET" if body is None else "POST",
            path=f"/v1/{path}",
            query=query or (),
            body=None if body is None else codec.encode(body),
            viewer=self.viewer_header(self.principal if viewer is None else viewer),
        )
        return codec.decode((await self.transport.request(asked, key=self.key)).body, kind)

    async def change(self, kind: type[Told], method: Method, path: str, body: Any = None) -> Told:
        """Return what comes of a change on the caller's behalf.

        Raises:
            RoomloreError: what the server refuses.
        """
        return codec.decode((await self._change(method, path, body)).body, kind)

    async def command(self, method: Method, path: str, body: Any = None) -> None:
        """Have something changed that returns nothing.

        Raises:
            RoomloreError: what the server refuses.
            ServerUnavailable: what answers is none of ours.
        """
        told = await self._change(method, path, body)
        if told.status != HTTPStatus.NO_CONTENT:
            # There is nothing in it to know a server of ours by, but this.
            raise error_of(told.status, told.content_type, told.body)

    async def _change(self, method: Method, path: str, body: Any) -> Answered:
        asked = ServerRequest(
            method=method,
            path=f"/v1/{path}",
            body=None if body is None else codec.encode(body),
            viewer=self.viewer_header(self.principal),
            is_change=True,
        )
        return await self.transport.request(asked, key=self.key)

    def viewer_header(self, viewer: Viewer) -> str | None:
        """Return how a viewer is named to the server; None is whom the key names.

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
    """Do nothing if a server lists so many of what has no pages.

    Raises:
        BadInput: it is less than one, or more than one request lists.
    """
    if not 1 <= limit <= PAGE:
        raise BadInput("limit", f"must be at least 1, and over HTTP at most {PAGE:,}")


Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """Which part of a listing is asked for."""

    limit: int
    #: What it ends before, by somebody's word, or by what the page before said.
    before: str | None = None
    cursor: str | None = None

    def query(self) -> Query:
        """Return how an address asks for it."""
        return codec.query(limit=self.limit, before=self.before, cursor=self.cursor)


#: Returns the items of a page, the newest first, and where the next begins.
FetchPage = Callable[[PageRequest], Awaitable[tuple[list[Item], str | None]]]


async def fetch_all(fetch: FetchPage[Item], *, limit: int, before: str | None) -> list[Item]:
    """Return up to `limit` items, the newest first, page by page; a page that is cut because texts are large is the last."""
    page = PageRequest(limit=min(limit, PAGE), before=before)
    found, following = await fetch(page)
    reached = page.limit
    while following is not None and reached == len(found) < limit:
        page = PageRequest(limit=min(limit - len(found), PAGE), cursor=following)
        more, following = await fetch(page)
        found += more
        reached += page.limit
    return found
