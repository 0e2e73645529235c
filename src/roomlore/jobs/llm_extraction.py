"""Extracts memories from finished conversations with a language model, in addition to the message model.

There is one call at a time per org, within daily limits per org and per room. Each call is stored before it is made.
Its answer and the validation of the answer are stored afterwards, so that operators can read them. The same prompt is
sent only once. An answer is used only while everything in its prompt still exists and is unrestricted. Privacy requests
that the rules did not find are stored before any memory. If a call fails, the memories that the message model finds are
stored anyway.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
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
from roomlore.jobs.llm_client import LanguageModelWorker, is_allowed_for_model
from roomlore.memories.llm_answer import ValidationResult
from roomlore.memories.llm_extractor import ANSWER_SCHEMA, INSTRUCTIONS, LlmExtractor, PromptChunk

Outcome = Literal["read", "passed", "changed", "failed", "stopped", "nothing"]

_NO_CALL = LlmFailure(reason="no call may be made now")
_STOPPED = LlmFailure(reason="told to stop")
_ERASED = LlmFailure(reason="what was shown is gone")
_UNANSWERED: Mapping[LlmFailure, Outcome] = {_STOPPED: "stopped", _NO_CALL: "nothing", _ERASED: "changed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionRun:
    """The result for one conversation."""

    outcome: Outcome
    result: WriteResult = field(default_factory=WriteResult)


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModelExtractionWorker(LanguageModelWorker):
    """Asks a language model for the claims in conversations."""

    purpose: Purpose = "statements"
    #: The maximum number of calls per room and day.
    calls_of_room: int

    async def next(self, org_id: OrgId, *, now: datetime, stop: asyncio.Event | None = None) -> Outcome:
        """Process the next conversation of an org, if a call is allowed. The conversation must be finished at `now`."""
        async with self.db.read_transaction(Viewer.operator(org_id)) as conn:
            if await llm_quota.is_blocked(conn, org_id, self.purpose, now=now, daily_limit=self.calls):
                return "nothing"
            found = await self.pick(
                partial(llm_calls.next_conversation, conn, org_id, now=now, most_of_room=self.calls_of_room)
            )
        return (
            "nothing" if found is None else (await self._extract(org_id, found, now=now, stop=stop)).outcome
        )

    async def extract(
        self, org_id: OrgId, ids: Sequence[ConversationId], *, now: datetime
    ) -> list[ExtractionRun]:
        """Process these conversations, finished or not; return a result for each processed conversation.

        The first conversation with a failed call is the last one that is processed.
        """
        async with self.db.read_transaction(Viewer.operator(org_id)) as conn:
            found = await llm_calls.requested(conn, org_id, ids)
        runs: list[ExtractionRun] = []
        for conversation in found:
            runs.append(await self._extract(org_id, conversation, now=now, stop=None))
            if runs[-1].outcome == "failed":
                break
        return runs

    async def _extract(
        self, org_id: OrgId, found: PendingConversation, *, now: datetime, stop: asyncio.Event | None
    ) -> ExtractionRun:
        async with self.db.read_transaction(Viewer.operator(org_id)) as conn:
            conversations = await extraction.load_conversations(conn, org_id, [found], is_for_model=True)
        if not conversations:
            return ExtractionRun(outcome="changed")
        session = _ExtractionSession(
            worker=self, org_id=org_id, conversation=conversations[0], now=now, stop=stop
        )
        claims = await session.extractor.extract(conversations[0].messages, conversations[0].people)
        if isinstance(claims, LlmFailure):
            outcome = _UNANSWERED.get(claims, "failed")
            if outcome == "failed":
                self.history.skipped.add(found.id)
            return ExtractionRun(outcome=outcome)
        self.history.skipped.discard(found.id)
        return await self.db.change(org_id, partial(session.write, claims=claims))


@dataclass(frozen=True, slots=True, kw_only=True)
class _StartedCall:
    """A chunk of a conversation with its stored call."""

    llm_call_id: UUID
    #: The stored answer. None if there is no answer yet; then a call is reserved.
    answer: str | None
    #: The number of failed calls before this one.
    failures: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _ExtractionSession:
    """One conversation in progress: its calls and their validation."""

    worker: LanguageModelExtractionWorker
    org_id: OrgId
    conversation: ConversationToExtract
    now: datetime
    stop: asyncio.Event | None
    #: The call of each chunk, in order.
    llm_call_ids: list[UUID] = field(default_factory=list[UUID])
    #: The validation of each call.
    validations: list[Sequence[ValidationResult]] = field(default_factory=list[Sequence[ValidationResult]])

    @property
    def extractor(self) -> LlmExtractor:
        """The extractor that calls `ask` for each chunk."""
        name = self.worker.language_model.name
        return LlmExtractor(
            name=name,
            call=self.ask,
            on_verdicts=self.record_validation,
            is_clean=_has_no_secrets,
            known_memories=self.conversation.known_memories,
        )

    async def ask(self, chunk: PromptChunk) -> str | LlmFailure:
        """Return the answer for a chunk. It is a stored answer to the same prompt, or a new answer."""
        worker, org_id = self.worker, self.org_id
        started = await worker.db.change(org_id, partial(self._start_call, chunk=chunk))
        if isinstance(started, LlmFailure):
            return started
        self.llm_call_ids.append(started.llm_call_id)
        if started.answer is not None:
            return started.answer
        answer = await worker.call(
            org_id,
            instructions=INSTRUCTIONS,
            prompt=chunk.text,
            shape=ANSWER_SCHEMA,
            now=self.now,
            failures=started.failures,
            stop=self.stop,
        )
        result = _STOPPED if answer is None else answer
        finish = partial(self._finish_call, call_id=started.llm_call_id, answer=result, chunk=chunk)
        return await worker.db.change(org_id, finish)

    def record_validation(self, chunk: PromptChunk, validated: Sequence[ValidationResult]) -> None:  # noqa: ARG002  in the order of calls
        """Collect the validation of an answer."""
        self.validations.append(validated)

    async def _start_call(self, conn: Connection, *, chunk: PromptChunk) -> _StartedCall | LlmFailure:
        """Return an earlier answer, a reserved call, or the reason why no call is allowed."""
        worker, org_id, now = self.worker, self.org_id, self.now
        if not await self._is_countable(conn, chunk) or not await self._is_unchanged(conn):
            return _ERASED
        llm_call = self._to_llm_call(chunk)
        known = await self._earlier_answer(conn, llm_call, chunk)
        if known is not None:
            return known
        until = now + worker.call_timeout
        reserved = await llm_quota.reserve(
            conn, org_id, worker.purpose, now=now, until=until, daily_limit=worker.calls
        )
        if reserved is None:
            return _NO_CALL
        # Look up the answer again, now that the call is reserved: another worker may have sent the same prompt.
        known = await self._earlier_answer(conn, llm_call, chunk)
        room_id, limit = self.conversation.snapshot.room_id, worker.calls_of_room
        if known is not None or not await llm_calls.count_room_call(
            conn, org_id, room_id, now=now, most=limit
        ):
            await llm_quota.release(conn, org_id, worker.purpose, now=now)
            return _NO_CALL if known is None else known
        await llm_calls.add(conn, org_id, llm_call, message_ids=chunk.source_ids)
        return _StartedCall(llm_call_id=llm_call.id, answer=None, failures=reserved)

    async def _earlier_answer(
        self, conn: Connection, llm_call: NewLlmCall, chunk: PromptChunk
    ) -> _StartedCall | None:
        """Return an earlier answer to the same prompt, if one is stored."""
        conversation_id = self.conversation.id
        earlier = await llm_calls.earlier_answer(
            conn,
            self.org_id,
            llm_call.digest,
            conversation_id=conversation_id,
            message_ids=chunk.source_ids,
        )
        if earlier is None:
            return None
        if earlier.conversation_id == conversation_id:
            return _StartedCall(llm_call_id=earlier.id, answer=earlier.answer)
        repeated = replace(llm_call, answer=earlier.answer, answered_at=llm_call.asked_at)
        await llm_calls.add(conn, self.org_id, repeated, message_ids=chunk.source_ids)
        return _StartedCall(llm_call_id=llm_call.id, answer=earlier.answer)

    async def _is_unchanged(self, conn: Connection) -> bool:
        [state] = (await extraction_state.lock(conn, self.org_id, [self.conversation.id])).values() or [None]
        return state is not None and state == self.conversation.snapshot.state

    def _to_llm_call(self, chunk: PromptChunk) -> NewLlmCall:
        name = self.worker.language_model.name
        # The digest covers everything in the prompt except known memories. So an answer to the same messages stays
        # valid when these memories change.
        prompt = json.dumps([name, INSTRUCTIONS, ANSWER_SCHEMA, chunk.messages_text])
        return NewLlmCall(
            id=uuid7(),
            room_id=self.conversation.snapshot.room_id,
            conversation_id=self.conversation.id,
            language_model=name,
            digest=sha256(prompt.encode()).hexdigest(),
            instructions=INSTRUCTIONS,
            prompt=chunk.text,
            asked_at=self.now,
        )

    async def _is_countable(self, conn: Connection, chunk: PromptChunk) -> bool:
        """Return whether the language model's answer for this chunk may be used.

        It may be used if everything in the chunk still exists and is unrestricted.
        """
        memory_ids = [memory.id for memory in chunk.labels.memories.values()]
        return await is_allowed_for_model(conn, self.org_id, chunk.source_ids) and await memories.all_exist(
            conn, self.org_id, memory_ids
        )

    async def _finish_call(
        self, conn: Connection, *, call_id: UUID, answer: str | LlmFailure, chunk: PromptChunk
    ) -> str | LlmFailure:
        """Store the answer and return it.

        If something in the prompt no longer exists or is restricted, store and return no answer.
        """
        is_allowed = await self._is_countable(conn, chunk)
        record = partial(llm_calls.record_answer, conn, self.org_id, call_id)
        if isinstance(answer, LlmFailure):
            await record(answered_at=None, error=answer.reason)
            return answer
        await llm_quota.record_answer(conn, self.org_id, self.worker.purpose, now=self.now, is_answered=True)
        if not is_allowed:
            earlier = [each for each in self.llm_call_ids if each != call_id]
            await llm_calls.drop_outdated(conn, self.org_id, self.conversation.id, kept=earlier)
            return _ERASED
        tokens = (answer.sent_tokens, answer.answer_tokens) if isinstance(answer, LlmAnswer) else (None, None)
        cleaned = remove_secrets(storable(answer))[0]
        is_stored = await record(answered_at=datetime.now(UTC), answer=cleaned, tokens=tokens)
        return cleaned if is_stored else _ERASED

    async def write(self, conn: Connection, *, claims: Sequence[Claim]) -> ExtractionRun:
        """Store the claims if the conversation is unchanged. Record the validation of each claim."""
        requests = dict(
            result.request
            for validated in self.validations
            for result in validated
            if result.request is not None
        )
        extracted = [
            ExtractedClaims(conversation=self.conversation, claims=claims, privacy_requests=requests)
        ]
        name = self.worker.language_model.name
        written = await extraction.write_claims(
            conn, self.org_id, extracted, extractor=name, now=self.now, is_for_model=True
        )
        result = written.result
        if not result.conversations:
            return ExtractionRun(outcome="changed")
        await extraction_state.record_read_by_llm(conn, self.org_id, written.states.items())
        await llm_calls.drop_outdated(conn, self.org_id, self.conversation.id, kept=self.llm_call_ids)
        validations = zip(self.llm_call_ids, self.validations, strict=True)
        await llm_calls.record_results(
            conn, self.org_id, [(key, _json(validated)) for key, validated in validations]
        )
        return ExtractionRun(outcome="read" if self.llm_call_ids else "passed", result=result)


def _json(validated: Sequence[ValidationResult]) -> str:
    return json.dumps(
        [
            {"stated": result.raw, "is_kept": result.is_accepted, "reason": result.reason}
            for result in validated
        ],
        ensure_ascii=False,
    )


def _has_no_secrets(text: str) -> bool:
    return remove_secrets(text) == (text, 0) and safe_text(storable(text)) == text
