"""Memories drawn from conversations when somebody wants it, and what a language model was shown and said for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from roomlore.app.conversations import OF_MESSAGE
from roomlore.app.desk import Desk, check_limit
from roomlore.app.naming import reader
from roomlore.config import Settings
from roomlore.domain.errors import BadInput, NotFound
from roomlore.domain.ids import ConversationId
from roomlore.retrieval import meant
from roomlore.store import conversations, extracting, readings
from roomlore.store.queries import Connection
from roomlore.store.readings import Reading
from roomlore.workers import loop
from roomlore.workers.extract import ExtractWorker, Rules
from roomlore.workers.read import Read
from roomlore.workers.untangle import UntangleWorker


@dataclass(frozen=True, slots=True, kw_only=True)
class Extracted:
    """What came of going through conversations."""

    #: That rules went through.
    conversations: int
    messages: int
    #: Memories that came, by rules and by a language model.
    added: int
    #: Memories that went, because what they rest on does not say so any more.
    released: int
    #: Wishes that a language model heard and rules had not.
    wishes: int
    #: Conversations that a language model went through.
    read: int
    #: Conversations that it is still to go through: no call may be made now, or none was answered.
    unread: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Extracting:
    """Drawing memories from what was said, at once; the operator's."""

    desk: Desk
    settings: Settings

    async def extract(self, where: str | None = None) -> Extracted:
        """Draw memories from conversations, also from such as still go on, and return what came of it.

        Going through what has not changed changes nothing. First messages are put into conversations.

        Args:
            where: A room's name or id; a conversation's id or its beginning, or `message:` and a message in it;
                everything by default.

        Raises:
            BadInput: several are meant.
            NotFound: there is no such room or conversation.
            NotAllowed: the caller is no operator.
        """
        await self.desk.work("extract")
        db, org_id, now = self.desk.db, self.desk.org_id, datetime.now(UTC)
        await loop.drain(db, UntangleWorker(db=db), only_org=org_id)
        async with self.desk.looking("extract") as conn:
            ids = await self._meant(conn, where)
        written = await ExtractWorker(db=db, extractor=Rules()).draw(org_id, ids, now=now)
        became: Sequence[Read] = ()
        if self.settings.language_model is not None:
            became = await reader(db, self.settings.language_model).draw(org_id, ids, now=now)
        read = sum(one.outcome in {"read", "passed"} for one in became)
        return Extracted(
            conversations=written.conversations,
            messages=written.messages,
            added=written.added + sum(one.written.added for one in became),
            released=written.released + sum(one.written.released for one in became),
            wishes=sum(one.written.wishes for one in became),
            read=read,
            unread=len(became) - read,
        )

    async def readings(self, where: str | None = None, *, limit: int = 20) -> list[Reading]:
        """Return what a language model was shown of a conversation, in order, or the newest of all, newest first.

        Args:
            where: A conversation's id or its beginning, or `message:` and a message in it.
            limit: How many, where no conversation is named.

        Raises:
            BadInput: several are meant, or nothing is wanted.
            NotFound: there is no such conversation.
            NotAllowed: the caller is no operator.
        """
        check_limit(limit)
        await self.desk.check("administer", "read readings")
        async with self.desk.reading(self.desk.caller, "read readings") as reading:
            conn, org_id = reading.conn, self.desk.org_id
            if where is None:
                found = await readings.newest(conn, org_id, limit=limit)
            else:
                found = await readings.of_conversation(conn, org_id, await self._conversation(conn, where))
            reading.shows({one.conversation_id for one in found})
        return found

    async def _meant(self, conn: Connection, where: str | None) -> Sequence[ConversationId]:
        org_id = self.desk.org_id
        if where is None:
            return await extracting.conversations_in(conn, org_id, None)
        try:
            return await extracting.conversations_in(conn, org_id, await meant.room(conn, org_id, where))
        except NotFound:
            return [await self._conversation(conn, where)]

    async def _conversation(self, conn: Connection, word: str) -> ConversationId:
        org_id = self.desk.org_id
        if word.startswith(OF_MESSAGE):
            said = await meant.message(conn, org_id, word.removeprefix(OF_MESSAGE), room_id=None)
            found = list((await conversations.conversations_of(conn, org_id, [said.id])).values())
        else:
            found = await conversations.find(conn, org_id, word)
        if len(found) > 1:
            choices = ", ".join(map(str, found))
            raise BadInput(f"conversation {word!r}", f"several are meant, name one by id: {choices}")
        if not found:
            raise NotFound("room or conversation", word)
        return found[0]
