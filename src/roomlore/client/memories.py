"""Memories behind a server."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Unpack

from roomlore.app.asserting import Details
from roomlore.app.memories import Wanted
from roomlore.client import written
from roomlore.client.line import Line, check_page
from roomlore.client.written import segment
from roomlore.domain.keywords import refuse_unknown
from roomlore.domain.records import Memory, Provenance, Viewer
from roomlore.retrieval.records import Recalled

#: Nothing is newer.
END = datetime.max.replace(microsecond=0, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientMemories:
    """What is durably known; the calls are those of `app.memories.Memories`."""

    line: Line

    async def remember(self, content: str, **details: Unpack[Details]) -> Memory:
        """Keep a statement of the caller's and return it; one that says the same of the same is returned instead."""
        refuse_unknown("memories.remember", details, Details)
        written.moment("occurred at", details.get("occurred_at"), otherwise="must have a time zone")
        return await self.line.change(Memory, "POST", "memories", {"content": content, **details})

    async def correct(self, memory: str, content: str) -> Memory:
        """Put what is right in the place of a memory and return it; the old one stays as history."""
        return await self._change(memory, "correct", {"content": content})

    async def forget(self, memory: str) -> Memory:
        """Put a memory aside: nobody recalls it; return it."""
        return await self._change(memory, "forget")

    async def restore(self, memory: str) -> Memory:
        """Let a memory stand again that was put aside, or whose place another took; return it."""
        return await self._change(memory, "restore")

    async def all(self, viewer: Viewer, *, limit: int = 50, **wanted: Unpack[Wanted]) -> list[Memory]:
        """Return the newest memories that the viewer may see, newest first; only those that stand by default."""
        refuse_unknown("memories.all", wanted, Wanted)
        check_page(limit)
        for name in ("since", "as_of"):
            written.moment(name.replace("_", " "), wanted.get(name), otherwise="must have a time zone")
        lists: list[Sequence[str] | None] = [wanted.get("kinds"), wanted.get("statuses"), wanted.get("tags")]
        if any(one is not None and not one for one in lists):
            # An empty list means nothing, and cannot be said in an address. The server is asked all the same: it is the
            # one that says who may, and keeps the log.
            wanted["since"] = END
        asked = written.query(limit=limit, **wanted)
        return await self.line.read(list[Memory], "memories", viewer=viewer, query=asked)

    async def search(self, viewer: Viewer, question: str, *, limit: int = 10) -> list[Recalled]:
        """Return the memories that fit a question by their words, each as it stands now, best first."""
        asked = {"question": question, "limit": limit}
        return await self.line.read(list[Recalled], "memories/search", viewer=viewer, body=asked)

    async def resting_on(
        self, viewer: Viewer, message: str, *, room: str | None = None, limit: int = 50
    ) -> list[Memory]:
        """Return the newest memories that rest on a message, whatever became of them, newest first."""
        check_page(limit)
        path = f"messages/{segment('message', message)}/memories"
        asked = written.query(room=room, limit=limit)
        return await self.line.read(list[Memory], path, viewer=viewer, query=asked)

    async def why(self, viewer: Viewer, memory: str) -> Provenance:
        """Return a memory with the messages it rests on: their words that count, conversations and rooms."""
        return await self.line.read(Provenance, f"memories/{segment('memory', memory)}", viewer=viewer)

    async def _change(self, memory: str, what: str, body: dict[str, str] | None = None) -> Memory:
        return await self.line.change(Memory, "POST", f"memories/{segment('memory', memory)}/{what}", body)
