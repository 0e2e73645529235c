"""Conversations and timelines behind a server, page by page."""

from dataclasses import dataclass

from roomlore.client import codec
from roomlore.client.codec import segment
from roomlore.client.session import PageRequest, Session, fetch_all
from roomlore.domain.records import AssignedMessage, Conversation, Viewer
from roomlore.operations.access import check_limit


@dataclass(frozen=True, slots=True, kw_only=True)
class _ConversationPage(Conversation):
    """A conversation with a page of its messages."""

    messages: list[AssignedMessage]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _TimelinePage:
    """A page of a room."""

    messages: list[AssignedMessage]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationPages:
    """The calls of `app.conversations.Conversations` that read page by page."""

    line: Session

    async def read(
        self, viewer: Viewer, word: str, *, limit: int = 1_000, before: str | None = None
    ) -> tuple[Conversation, list[AssignedMessage]]:
        """Return a conversation and its newest messages, or those before a message, oldest first."""
        check_limit(limit)
        path = f"conversations/{segment('conversation', word)}"
        heads: list[_ConversationPage] = []

        async def fetch(page: PageRequest) -> tuple[list[AssignedMessage], str | None]:
            found = await self.line.read(_ConversationPage, path, viewer=viewer, query=page.query())
            heads.append(found)
            return found.messages[::-1], found.next

        said = await fetch_all(fetch, limit=limit, before=before)
        return codec.convert(Conversation, heads[0]), said[::-1]

    async def timeline(
        self, viewer: Viewer, room: str, *, limit: int = 50, before: str | None = None
    ) -> list[AssignedMessage]:
        """Return the newest messages of a room, or those before one of them, oldest first."""
        check_limit(limit)
        path = f"rooms/{segment('room', room)}/timeline"

        async def fetch(page: PageRequest) -> tuple[list[AssignedMessage], str | None]:
            found = await self.line.read(_TimelinePage, path, viewer=viewer, query=page.query())
            return found.messages[::-1], found.next

        return (await fetch_all(fetch, limit=limit, before=before))[::-1]
