"""Conversations and timelines behind a server, page by page."""

from dataclasses import dataclass

from roomlore.app.desk import check_limit
from roomlore.client import written
from roomlore.client.line import Line
from roomlore.client.paging import Page, whole
from roomlore.client.written import segment
from roomlore.domain.records import Conversation, Placed, Viewer


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read(Conversation):
    """A conversation with a page of its messages."""

    messages: list[Placed]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Timeline:
    """A page of a room."""

    messages: list[Placed]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationPages:
    """The calls of `app.conversations.Conversations` that read page by page."""

    line: Line

    async def read(
        self, viewer: Viewer, word: str, *, limit: int = 1_000, before: str | None = None
    ) -> tuple[Conversation, list[Placed]]:
        """Return a conversation and its newest messages, or those before a message, oldest first."""
        check_limit(limit)
        path = f"conversations/{segment('conversation', word)}"
        heads: list[_Read] = []

        async def fetch(page: Page) -> tuple[list[Placed], str | None]:
            found = await self.line.read(_Read, path, viewer=viewer, query=page.query())
            heads.append(found)
            return found.messages[::-1], found.next

        said = await whole(fetch, limit=limit, before=before)
        return written.part(Conversation, heads[0]), said[::-1]

    async def timeline(
        self, viewer: Viewer, room: str, *, limit: int = 50, before: str | None = None
    ) -> list[Placed]:
        """Return the newest messages of a room, or those before one of them, oldest first."""
        check_limit(limit)
        path = f"rooms/{segment('room', room)}/timeline"

        async def fetch(page: Page) -> tuple[list[Placed], str | None]:
            found = await self.line.read(_Timeline, path, viewer=viewer, query=page.query())
            return found.messages[::-1], found.next

        return (await whole(fetch, limit=limit, before=before))[::-1]
