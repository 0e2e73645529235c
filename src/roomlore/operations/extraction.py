"""Memories drawn from conversations when somebody wants it, and what a language model was shown and said for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from roomlore.db import conversations, extraction_state, llm_calls
from roomlore.db.llm_calls import LlmCall
from roomlore.db.queries import Connection
from roomlore.domain.errors import BadInput, NotFound
from roomlore.domain.ids import ConversationId
from roomlore.jobs import runner
from roomlore.jobs.disentanglement import DisentanglementWorker
from roomlore.jobs.extraction import ExtractionWorker, RuleExtractor
from roomlore.jobs.llm_extraction import ExtractionRun
from roomlore.operations.access import Access, check_limit
from roomlore.operations.conversations import MESSAGE_PREFIX
from roomlore.operations.jobs import claim_worker
from roomlore.search import lookup
from roomlore.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionResult:
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
class Extraction:
    """Drawing memories from what was said, at once; the operator's."""

    access: Access
    settings: Settings

    async def extract(self, where: str | None = None) -> ExtractionResult:
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
        await self.access.audit_work("extract")
        db, org_id, now = self.access.db, self.access.org_id, datetime.now(UTC)
        await runner.drain(db, DisentanglementWorker(db=db), only_org=org_id)
        async with self.access.resolving("extract") as conn:
            ids = await self._resolve(conn, where)
        written = await ExtractionWorker(db=db, extractor=RuleExtractor()).extract(org_id, ids, now=now)
        became: Sequence[ExtractionRun] = ()
        if self.settings.language_model is not None:
            became = await claim_worker(db, self.settings.language_model).extract(org_id, ids, now=now)
        read = sum(one.outcome in {"read", "passed"} for one in became)
        return ExtractionResult(
            conversations=written.conversations,
            messages=written.messages,
            added=written.added + sum(one.result.added for one in became),
            released=written.released + sum(one.result.released for one in became),
            wishes=sum(one.result.wishes for one in became),
            read=read,
            unread=len(became) - read,
        )

    async def readings(self, where: str | None = None, *, limit: int = 20) -> list[LlmCall]:
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
        await self.access.check("administer", "read readings")
        async with self.access.reading(self.access.principal, "read readings") as reading:
            conn, org_id = reading.conn, self.access.org_id
            if where is None:
                found = await llm_calls.newest(conn, org_id, limit=limit)
            else:
                found = await llm_calls.of_conversation(conn, org_id, await self._conversation(conn, where))
            reading.record_shown({one.conversation_id for one in found})
        return found

    async def _resolve(self, conn: Connection, where: str | None) -> Sequence[ConversationId]:
        org_id = self.access.org_id
        if where is None:
            return await extraction_state.conversations_in(conn, org_id, None)
        try:
            return await extraction_state.conversations_in(
                conn, org_id, await lookup.room(conn, org_id, where)
            )
        except NotFound:
            return [await self._conversation(conn, where, what="room or conversation")]

    async def _conversation(
        self, conn: Connection, word: str, *, what: str = "conversation"
    ) -> ConversationId:
        org_id = self.access.org_id
        if word.startswith(MESSAGE_PREFIX):
            said = await lookup.message(conn, org_id, word.removeprefix(MESSAGE_PREFIX), room_id=None)
            found = list((await conversations.assignments_of(conn, org_id, [said.id])).values())
        else:
            found = await conversations.find(conn, org_id, word)
        if len(found) > 1:
            choices = ", ".join(map(str, found))
            raise BadInput(f"conversation {word!r}", f"several are meant, name one by id: {choices}")
        if not found:
            raise NotFound(what, word)
        return found[0]
