"""Draws memories from conversations that are over with a language model, where one is configured, beside the rules.

One call at a time for each org, within what a day has for the org and for each room. What is sent is written down
before it is, and what came back and became of it after, for operators; the same is asked once. An answer counts only
as long as all that was shown is still there, and no wish covers it. Wishes that rules missed are heard before anything
is remembered. Whatever goes wrong costs what the rules did not find, and nothing else.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from typing import Literal
from uuid import UUID

from roomlore.domain.ids import ConversationId, OrgId, uuid7
from roomlore.domain.ports import Unanswered, Worded
from roomlore.domain.records import Viewer
from roomlore.domain.speech import safe_text
from roomlore.domain.statements import Statement
from roomlore.extraction.languagemodel import INSTRUCTIONS, SHAPE, LanguageModelExtractor, Portion
from roomlore.extraction.languagemodelanswer import Verdict
from roomlore.ingest.clean import storable
from roomlore.ingest.secrets import strip
from roomlore.store import asking, extracting, kinship, readings
from roomlore.store.asking import Purpose
from roomlore.store.extracting import Undrawn
from roomlore.store.queries import Connection
from roomlore.store.readings import NewReading
from roomlore.workers import drawing
from roomlore.workers.asking import Caller, Question
from roomlore.workers.drawing import Conversation, Drawing, Written
from roomlore.workers.showing import may_be_shown

PURPOSE: Purpose = "statements"
#: What became of a look at an org.
Outcome = Literal["read", "passed", "changed", "failed", "stopped", "nothing"]

_NO_CALL = Unanswered(reason="no call may be made now")
_STOPPED = Unanswered(reason="told to stop")
_GONE = Unanswered(reason="what was shown is gone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What came of going through a conversation."""

    outcome: Outcome
    written: Written = field(default_factory=Written)


@dataclass(slots=True, kw_only=True)
class ReadWorker:
    """Asks a language model what is stated in conversations."""

    caller: Caller
    #: For each org and day, in UTC.
    calls: int
    #: For each room and day.
    calls_of_room: int
    #: Conversations whose call was not answered: others come first, they might be the reason.
    passed_over: set[ConversationId] = field(default_factory=set[ConversationId])

    async def next(self, org_id: OrgId, *, now: datetime, stop: asyncio.Event | None = None) -> Outcome:
        """Go through one conversation of an org, if one waits and a call may be made; return what became of it.

        Args:
            org_id: Whose.
            now: Tells which are over, and the day.
            stop: Ends a call that is under way.
        """
        async with self.caller.db.reading(Viewer.operator(org_id)) as conn:
            if await asking.rests(conn, org_id, PURPOSE, now=now, most=self.calls):
                return "nothing"
            found = await self._next(conn, org_id, now)
        return "nothing" if found is None else (await self._read(org_id, found, now=now, stop=stop)).outcome

    async def draw(
        self,
        org_id: OrgId,
        ids: Sequence[ConversationId],
        *,
        now: datetime,
        stop: asyncio.Event | None = None,
    ) -> list[Read]:
        """Go through these conversations, over or not, as far as calls may be made; return what became of each."""
        async with self.caller.db.reading(Viewer.operator(org_id)) as conn:
            found = await readings.asked_for(conn, org_id, ids)
        became: list[Read] = []
        for one in found:
            became.append(await self._read(org_id, one, now=now, stop=stop))
            if became[-1].outcome in {"failed", "stopped"}:
                break
        return became

    async def _next(self, conn: Connection, org_id: OrgId, now: datetime) -> Undrawn | None:
        find = partial(readings.unread, conn, org_id, now=now, most_of_room=self.calls_of_room)
        found = await find(passed_over=self.passed_over)
        if found is None and self.passed_over:
            self.passed_over.clear()
            found = await find()
        return found

    async def _read(
        self, org_id: OrgId, found: Undrawn, *, now: datetime, stop: asyncio.Event | None
    ) -> Read:
        async with self.caller.db.reading(Viewer.operator(org_id)) as conn:
            conversations = await drawing.read(conn, org_id, [found], shown=True)
        if not conversations:
            return Read(outcome="changed")
        session = _Session(worker=self, org_id=org_id, conversation=conversations[0], now=now, stop=stop)
        stated = await session.extractor.extract(conversations[0].said, conversations[0].people)
        if isinstance(stated, Unanswered):
            return Read(outcome=self._unanswered(stated, found.id))
        self.passed_over.discard(found.id)
        return await self.caller.db.change(org_id, partial(session.write, stated=stated))

    def _unanswered(self, why: Unanswered, conversation_id: ConversationId) -> Outcome:
        if why is _STOPPED:
            return "stopped"
        if why is _NO_CALL:
            return "nothing"
        if why is _GONE:
            return "changed"
        self.passed_over.add(conversation_id)
        return "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    """A portion that was asked about before, or is to be."""

    reading_id: UUID
    #: None where there is none yet: a call was counted.
    answer: str | None
    #: How many calls before it were not answered.
    failures: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Session:
    """One conversation gone through: what was asked about it, and what was answered."""

    worker: ReadWorker
    org_id: OrgId
    conversation: Conversation
    now: datetime
    stop: asyncio.Event | None
    #: What each portion was read as, in order.
    reading_ids: list[UUID] = field(default_factory=list[UUID])
    #: Of each of these.
    verdicts: list[Sequence[Verdict]] = field(default_factory=list[Sequence[Verdict]])

    @property
    def extractor(self) -> LanguageModelExtractor:
        """Return what goes through the conversation."""
        name = self.worker.caller.language_model.name
        return LanguageModelExtractor(
            name=name,
            ask=self.ask,
            tell=self.tell,
            is_clean=_is_clean,
            remembered=self.conversation.remembered,
        )

    async def ask(self, portion: Portion) -> str | Unanswered:
        """Return the answer to a portion: an earlier one to the very same, or what the language model says now."""
        db, org_id, caller = self.worker.caller.db, self.org_id, self.worker.caller
        began = await db.change(org_id, partial(self._begin, portion=portion))
        if isinstance(began, Unanswered):
            return began
        self.reading_ids.append(began.reading_id)
        if began.answer is not None:
            return began.answer
        question = Question(instructions=INSTRUCTIONS, material=portion.text, shape=SHAPE)
        answer = await caller.call(org_id, question, now=self.now, failures=began.failures, stop=self.stop)
        told = _STOPPED if answer is None else answer
        end = partial(self._end, reading_id=began.reading_id, answer=told, portion=portion)
        return await db.change(org_id, end)

    def tell(self, portion: Portion, judged: Sequence[Verdict]) -> None:  # noqa: ARG002  one after the other
        """Note what became of what was stated in the answer to a portion."""
        self.verdicts.append(judged)

    async def _begin(self, conn: Connection, *, portion: Portion) -> _Begun | Unanswered:
        """Return what was answered before, or for what a call was counted, or why none may be made."""
        worker, org_id, now = self.worker, self.org_id, self.now
        if not await self._may_count(conn, portion) or not await self._is_as_it_was(conn):
            return _GONE
        reading = self._reading(portion)
        known = await self._known(conn, reading, portion)
        if known is not None:
            return known
        until = now + worker.caller.patience
        reserved = await asking.reserve(conn, org_id, PURPOSE, now=now, until=until, most=worker.calls)
        if reserved is None:
            return _NO_CALL
        # Now that nobody else can be asking: what nobody had asked before may have been answered meanwhile.
        known = await self._known(conn, reading, portion)
        room_id, most = self.conversation.as_it_was.room_id, worker.calls_of_room
        if known is not None or not await readings.count_of_room(conn, org_id, room_id, now=now, most=most):
            await asking.give_back(conn, org_id, PURPOSE, now=now)
            return _NO_CALL if known is None else known
        await readings.add(conn, org_id, reading, message_ids=portion.source_ids)
        return _Begun(reading_id=reading.id, answer=None, failures=reserved.failures)

    async def _known(self, conn: Connection, reading: NewReading, portion: Portion) -> _Begun | None:
        """Return what was answered to the very same before; None where nothing was."""
        conversation_id = self.conversation.id
        before = await readings.earlier(conn, self.org_id, reading.digest, conversation_id=conversation_id)
        if before is None:
            return None
        if before.conversation_id == conversation_id:
            return _Begun(reading_id=before.id, answer=before.answer)
        repeated = replace(reading, answer=before.answer, answered_at=reading.asked_at)
        await readings.add(conn, self.org_id, repeated, message_ids=portion.source_ids)
        return _Begun(reading_id=reading.id, answer=before.answer)

    async def _is_as_it_was(self, conn: Connection) -> bool:
        [state] = (await extracting.hold(conn, self.org_id, [self.conversation.id])).values() or [None]
        return state is not None and state == self.conversation.as_it_was.state

    def _reading(self, portion: Portion) -> NewReading:
        name = self.worker.caller.language_model.name
        # Not what is remembered by now: an answer to the same words counts as long as they are the same.
        sent = json.dumps([name, INSTRUCTIONS, SHAPE, portion.said])
        return NewReading(
            id=uuid7(),
            room_id=self.conversation.as_it_was.room_id,
            conversation_id=self.conversation.id,
            language_model=name,
            digest=sha256(sent.encode()).hexdigest(),
            instructions=INSTRUCTIONS,
            material=portion.text,
            asked_at=self.now,
        )

    async def _may_count(self, conn: Connection, portion: Portion) -> bool:
        """Return whether all that a portion shows is there, and nothing of it is kept from anybody."""
        remembered = [one.id for one in portion.shown.remembered.values()]
        return await may_be_shown(conn, self.org_id, portion.source_ids) and await kinship.are_there(
            conn, self.org_id, remembered
        )

    async def _end(
        self, conn: Connection, *, reading_id: UUID, answer: str | Unanswered, portion: Portion
    ) -> str | Unanswered:
        """Keep what came back, unless what was shown is gone or a wish covers it: then nothing of it is kept."""
        is_fit = await self._may_count(conn, portion)
        note = partial(readings.note_answer, conn, self.org_id, reading_id)
        if isinstance(answer, Unanswered):
            await note(answered_at=None, error=answer.reason)
            return answer
        await asking.note_answer(conn, self.org_id, PURPOSE, now=self.now, is_answered=True)
        if not is_fit:
            earlier = [one for one in self.reading_ids if one != reading_id]
            await readings.drop_outdated(conn, self.org_id, self.conversation.id, kept=earlier)
            return _GONE
        tokens = (answer.sent_tokens, answer.answer_tokens) if isinstance(answer, Worded) else (None, None)
        kept = strip(storable(answer))[0]
        is_there = await note(answered_at=datetime.now(UTC), answer=kept, tokens=tokens)
        return kept if is_there else _GONE

    async def write(self, conn: Connection, *, stated: Sequence[Statement]) -> Read:
        """Remember what was stated, if the conversation is as it was, and note what became of each statement."""
        wishes = dict(one.wish for judged in self.verdicts for one in judged if one.wish is not None)
        drawings = [Drawing(conversation=self.conversation, statements=stated, wishes=wishes)]
        name = self.worker.caller.language_model.name
        written, states = await drawing.write(
            conn, self.org_id, drawings, extractor=name, now=self.now, shown=True
        )
        if not written.conversations:
            return Read(outcome="changed")
        await extracting.note_read(conn, self.org_id, states)
        await readings.drop_outdated(conn, self.org_id, self.conversation.id, kept=self.reading_ids)
        told = zip(self.reading_ids, self.verdicts, strict=True)
        await readings.note_verdicts(conn, self.org_id, {key: _json(judged) for key, judged in told})
        return Read(outcome="read" if self.reading_ids else "passed", written=written)


def _json(judged: Sequence[Verdict]) -> str:
    return json.dumps(
        [{"stated": one.stated, "is_kept": one.is_kept, "reason": one.reason} for one in judged],
        ensure_ascii=False,
    )


def _is_clean(text: str) -> bool:
    return strip(text) == (text, 0) and safe_text(storable(text)) == text
