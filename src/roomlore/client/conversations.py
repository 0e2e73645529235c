"""Conversations behind a server."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from roomlore.app.desk import check_limit
from roomlore.client import written
from roomlore.client.line import Line, check_page
from roomlore.client.paging import Page, whole
from roomlore.client.written import segment
from roomlore.domain.records import Conversation, Placed, Sensitivity, Viewer


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read(Conversation):
    """A conversation with a page of what was said in it."""

    messages: list[Placed]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Timeline:
    """A page of a room."""

    messages: list[Placed]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConversations:
    """What was said by topic; the calls are those of `app.conversations.Conversations`."""

    line: Line

    async def all(self, viewer: Viewer, room: str | None = None, *, limit: int = 50) -> list[Conversation]:
        """Return the conversations the viewer may see, in one room or everywhere, newest first."""
        check_page(limit)
        asked = written.query(room=room, limit=limit)
        return await self.line.read(list[Conversation], "conversations", viewer=viewer, query=asked)

    async def read(
        self, viewer: Viewer, word: str, *, limit: int = 1_000, before: str | None = None
    ) -> tuple[Conversation, list[Placed]]:
        """Return a conversation and the newest of what was said in it, or what was before a message, oldest first."""
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

    async def move(self, message: str, to: str) -> Conversation:
        """Put a message, and with it what answers it, into another conversation of its room; return that."""
        return await self._change("move", {"message": message, "to": to})

    async def split(self, words: Sequence[str], label: str = "", *, room: str | None = None) -> Conversation:
        """Make a conversation of messages of one room, each with what answers it, and return it."""
        return await self._change("split", {"messages": list(words), "label": label, "room": room})

    async def merge(self, one: str, other: str) -> Conversation:
        """Put everything of the other conversation into the one, and return that; the other is gone."""
        return await self._change(f"{segment('conversation', one)}/merge", {"other": other})

    async def rename(self, conversation: str, label: str) -> Conversation:
        """Say what a conversation is called and return it; with an empty label it is called as found again."""
        path = f"conversations/{segment('conversation', conversation)}/label"
        return await self.line.change(Conversation, "PUT", path, {"label": label})

    async def mark(self, conversation: str, sensitivity: Sensitivity) -> Conversation:
        """Say how sensitive a conversation is and return it, also where the caller may see it no more."""
        path = f"conversations/{segment('conversation', conversation)}/sensitivity"
        return await self.line.change(Conversation, "PUT", path, {"sensitivity": sensitivity})

    async def close(self, conversation: str) -> Conversation:
        """Say that a conversation is over and return it; what is said in it later opens it again."""
        return await self._change(f"{segment('conversation', conversation)}/close")

    async def _change(self, path: str, body: dict[str, Any] | None = None) -> Conversation:
        return await self.line.change(Conversation, "POST", f"conversations/{path}", body)
