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

from roomlore.db import extraction_state, llm_calls, llm_quota, memories
from roomlore.db.extraction_state import PendingConversation
from roomlore.db.llm_calls import NewLlmCall
from roomlore.db.llm_quota import Purpose
from roomlore.db.queries import Connection
from roomlore.domain.claims import Claim
from roomlore.domain.ids import ConversationId, OrgId, uuid7
from roomlore.domain.ports import LlmAnswer, LlmFailure
from roomlore.domain.records import Viewer
from roomlore.domain.rendering import safe_text
from roomlore.ingest.clean import storable
from roomlore.ingest.secrets import remove_secrets
from roomlore.jobs import extraction
from roomlore.jobs.extraction import ConversationToExtract, ExtractedClaims, WriteResult
from roomlore.jobs.llm_client import LanguageModelCaller, LanguageModelRequest, is_allowed_for_model
from roomlore.memories.llm_answer import ValidationResult
from roomlore.memories.llm_extractor import ANSWER_SCHEMA, INSTRUCTIONS, LlmExtractor, PromptChunk

PURPOSE: Purpose = "statements"
#: What became of a look at an org.
Outcome = Literal["read", "passed", "changed", "failed", "stopped", "nothing"]

_NO_CALL = LlmFailure(reason="no call may be made now")
_STOPPED = LlmFailure(reason="told to stop")
_ERASED = LlmFailure(reason="what was shown is gone")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionRun:
    """What came of going through a conversation."""

    outcome: Outcome
    result: WriteResult = field(default_factory=WriteResult)


@dataclass(slots=True, kw_only=True)
class LanguageModelExtractionWorker:
    """Asks a language model what is stated in conversations."""

    caller: LanguageModelCaller
    #: For each org and day, in UTC.
    calls: int
    #: For each room and day.
    calls_of_room: int
    #: Conversations whose call was not answered: others come first, they might be the reason.
    skipped: set[ConversationId] = field(default_factory=set[ConversationId])

    async def next(self, org_id: OrgId, *, now: datetime, stop: asyncio.Event | None = None) -> Outcome:
        """Go through one conversation of an org, if one waits and a call may be made; return what became of it.

        Args:
            org_id: Whose.
            now: Tells which are over, and the day.
            stop: Ends a call that is under way.
        """
        async with self.caller.db.read_transaction(Viewer.operator(org_id)) as conn:
            if await llm_quota.is_blocked(conn, org_id, PURPOSE, now=now, daily_limit=self.calls):
                return "nothing"
            found = await self._next(conn, org_id, now)
        return (
            "nothing" if found is None else (await self._extract(org_id, found, now=now, stop=stop)).outcome
        )

    async def extract(
        self,
        org_id: OrgId,
        ids: Sequence[ConversationId],
        *,
        now: datetime,
        stop: asyncio.Event | None = None,
    ) -> list[ExtractionRun]:
        """Go through these conversations, over or not, as far as calls may be made; return what became of each."""
        async with self.caller.db.read_transaction(Viewer.operator(org_id)) as conn:
            found = await llm_calls.requested(conn, org_id, ids)
        became: list[ExtractionRun] = []
        for one in found:
            became.append(await self._extract(org_id, one, now=now, stop=stop))
            if became[-1].outcome in {"failed", "stopped"}:
                break
        return became

    async def _next(self, conn: Connection, org_id: OrgId, now: datetime) -> PendingConversation | None:
        find = partial(llm_calls.next_conversation, conn, org_id, now=now, most_of_room=self.calls_of_room)
        found = await find(passed_over=self.skipped)
        if found is None and self.skipped:
            self.skipped.clear()
            found = await find()
        return found

    async def _extract(
        self, org_id: OrgId, found: PendingConversation, *, now: datetime, stop: asyncio.Event | None
    ) -> ExtractionRun:
        async with self.caller.db.read_transaction(Viewer.operator(org_id)) as conn:
            conversations = await extraction.load_conversations(conn, org_id, [found], is_for_model=True)
        if not conversations:
            return ExtractionRun(outcome="changed")
        session = _ExtractionSession(
            worker=self, org_id=org_id, conversation=conversations[0], now=now, stop=stop
        )
        stated = await session.extractor.extract(conversations[0].messages, conversations[0].people)
        if isinstance(stated, LlmFailure):
            return ExtractionRun(outcome=self._record_unanswered(stated, found.id))
        self.skipped.discard(found.id)
        return await self.caller.db.change(org_id, partial(session.write, stated=stated))

    def _record_unanswered(self, why: LlmFailure, conversation_id: ConversationId) -> Outcome:
        if why is _STOPPED:
            return "stopped"
        if why is _NO_CALL:
            return "nothing"
        if why is _ERASED:
            return "changed"
        self.skipped.add(conversation_id)
        return "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class _StartedCall:
    """A portion that was asked about before, or is to be."""

    llm_call_id: UUID
    #: None where there is none yet: a call was counted.
    answer: str | None
    #: How many calls before it were not answered.
    failures: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _ExtractionSession:
    """One conversation gone through: what was asked about it, and what was answered."""

    worker: LanguageModelExtractionWorker
    org_id: OrgId
    conversation: ConversationToExtract
    now: datetime
    stop: asyncio.Event | None
    #: What each portion was read as, in order.
    llm_call_ids: list[UUID] = field(default_factory=list[UUID])
    #: Of each of these.
    validations: list[Sequence[ValidationResult]] = field(default_factory=list[Sequence[ValidationResult]])

    @property
    def extractor(self) -> LlmExtractor:
        """Return what goes through the conversation."""
        name = self.worker.caller.language_model.name
        return LlmExtractor(
            name=name,
            call=self.ask,
            on_verdicts=self.record_validation,
            is_clean=_has_no_secrets,
            known_memories=self.conversation.known_memories,
        )

    async def ask(self, chunk: PromptChunk) -> str | LlmFailure:
        """Return the answer to a portion: an earlier one to the very same, or what the language model says now."""
        db, org_id, caller = self.worker.caller.db, self.org_id, self.worker.caller
        began = await db.change(org_id, partial(self._start_call, portion=chunk))
        if isinstance(began, LlmFailure):
            return began
        self.llm_call_ids.append(began.llm_call_id)
        if began.answer is not None:
            return began.answer
        question = LanguageModelRequest(instructions=INSTRUCTIONS, material=chunk.text, shape=ANSWER_SCHEMA)
        answer = await caller.call(org_id, question, now=self.now, failures=began.failures, stop=self.stop)
        told = _STOPPED if answer is None else answer
        end = partial(self._finish_call, reading_id=began.llm_call_id, answer=told, portion=chunk)
        return await db.change(org_id, end)

    def record_validation(self, chunk: PromptChunk, judged: Sequence[ValidationResult]) -> None:  # noqa: ARG002  one after the other
        """Note what became of what was stated in the answer to a portion."""
        self.validations.append(judged)

    async def _start_call(self, conn: Connection, *, portion: PromptChunk) -> _StartedCall | LlmFailure:
        """Return what was answered before, or for what a call was counted, or why none may be made."""
        worker, org_id, now = self.worker, self.org_id, self.now
        if not await self._is_countable(conn, portion) or not await self._is_unchanged(conn):
            return _ERASED
        reading = self._to_llm_call(portion)
        known = await self._earlier_answer(conn, reading, portion)
        if known is not None:
            return known
        until = now + worker.caller.call_timeout
        reserved = await llm_quota.reserve(
            conn, org_id, PURPOSE, now=now, until=until, daily_limit=worker.calls
        )
        if reserved is None:
            return _NO_CALL
        # Now that nobody else can be asking: what nobody had asked before may have been answered meanwhile.
        known = await self._earlier_answer(conn, reading, portion)
        room_id, most = self.conversation.snapshot.room_id, worker.calls_of_room
        if known is not None or not await llm_calls.count_room_call(
            conn, org_id, room_id, now=now, most=most
        ):
            await llm_quota.release(conn, org_id, PURPOSE, now=now)
            return _NO_CALL if known is None else known
        await llm_calls.add(conn, org_id, reading, message_ids=portion.source_ids)
        return _StartedCall(llm_call_id=reading.id, answer=None, failures=reserved.failures)

    async def _earlier_answer(
        self, conn: Connection, llm_call: NewLlmCall, portion: PromptChunk
    ) -> _StartedCall | None:
        """Return what was answered to the very same before; None where nothing was."""
        conversation_id = self.conversation.id
        before = await llm_calls.earlier_answer(
            conn,
            self.org_id,
            llm_call.digest,
            conversation_id=conversation_id,
            message_ids=portion.source_ids,
        )
        if before is None:
            return None
        if before.conversation_id == conversation_id:
            return _StartedCall(llm_call_id=before.id, answer=before.answer)
        repeated = replace(llm_call, answer=before.answer, answered_at=llm_call.asked_at)
        await llm_calls.add(conn, self.org_id, repeated, message_ids=portion.source_ids)
        return _StartedCall(llm_call_id=llm_call.id, answer=before.answer)

    async def _is_unchanged(self, conn: Connection) -> bool:
        [state] = (await extraction_state.lock(conn, self.org_id, [self.conversation.id])).values() or [None]
        return state is not None and state == self.conversation.snapshot.state

    def _to_llm_call(self, portion: PromptChunk) -> NewLlmCall:
        name = self.worker.caller.language_model.name
        # Not what is remembered by now: an answer to the same words counts as long as they are the same, and all else
        # that it knew of is shown here too.
        sent = json.dumps([name, INSTRUCTIONS, ANSWER_SCHEMA, portion.messages_text])
        return NewLlmCall(
            id=uuid7(),
            room_id=self.conversation.snapshot.room_id,
            conversation_id=self.conversation.id,
            language_model=name,
            digest=sha256(sent.encode()).hexdigest(),
            instructions=INSTRUCTIONS,
            material=portion.text,
            asked_at=self.now,
        )

    async def _is_countable(self, conn: Connection, portion: PromptChunk) -> bool:
        """Return whether all that a portion shows is there, and nothing of it is kept from anybody."""
        remembered = [one.id for one in portion.labels.memories.values()]
        return await is_allowed_for_model(conn, self.org_id, portion.source_ids) and await memories.all_exist(
            conn, self.org_id, remembered
        )

    async def _finish_call(
        self, conn: Connection, *, reading_id: UUID, answer: str | LlmFailure, portion: PromptChunk
    ) -> str | LlmFailure:
        """Keep what came back, unless what was shown is gone or a wish covers it: then nothing of it is kept."""
        is_fit = await self._is_countable(conn, portion)
        note = partial(llm_calls.record_answer, conn, self.org_id, reading_id)
        if isinstance(answer, LlmFailure):
            await note(answered_at=None, error=answer.reason)
            return answer
        await llm_quota.record_answer(conn, self.org_id, PURPOSE, now=self.now, is_answered=True)
        if not is_fit:
            earlier = [one for one in self.llm_call_ids if one != reading_id]
            await llm_calls.drop_outdated(conn, self.org_id, self.conversation.id, kept=earlier)
            return _ERASED
        tokens = (answer.sent_tokens, answer.answer_tokens) if isinstance(answer, LlmAnswer) else (None, None)
        kept = remove_secrets(storable(answer))[0]
        is_there = await note(answered_at=datetime.now(UTC), answer=kept, tokens=tokens)
        return kept if is_there else _ERASED

    async def write(self, conn: Connection, *, stated: Sequence[Claim]) -> ExtractionRun:
        """Remember what was stated, if the conversation is as it was, and note what became of each statement."""
        wishes = dict(one.request for judged in self.validations for one in judged if one.request is not None)
        drawings = [ExtractedClaims(conversation=self.conversation, claims=stated, wishes=wishes)]
        name = self.worker.caller.language_model.name
        written, states = await extraction.write_claims(
            conn, self.org_id, drawings, extractor=name, now=self.now, is_for_model=True
        )
        if not written.conversations:
            return ExtractionRun(outcome="changed")
        await extraction_state.record_read_by_llm(conn, self.org_id, states)
        await llm_calls.drop_outdated(conn, self.org_id, self.conversation.id, kept=self.llm_call_ids)
        told = zip(self.llm_call_ids, self.validations, strict=True)
        await llm_calls.record_results(conn, self.org_id, {key: _json(judged) for key, judged in told})
        return ExtractionRun(outcome="read" if self.llm_call_ids else "passed", result=written)


def _json(judged: Sequence[ValidationResult]) -> str:
    return json.dumps(
        [{"stated": one.raw, "is_kept": one.is_accepted, "reason": one.reason} for one in judged],
        ensure_ascii=False,
    )


def _has_no_secrets(text: str) -> bool:
    return remove_secrets(text) == (text, 0) and safe_text(storable(text)) == text
