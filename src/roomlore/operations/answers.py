"""Answers in words: search results are completed from log files and put into words by a language model.

A connection is held only while PostgreSQL reads, not while files are read or a model is asked.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from time import monotonic

from roomlore.db import llm_quota, memories, messages, projections
from roomlore.db import raw_logs as rooms_of_logs
from roomlore.db.queries import Connection
from roomlore.db.search import SearchFilter
from roomlore.domain.clock import utc_now
from roomlore.domain.errors import BadInput, ModelUnavailable, TextRefused
from roomlore.domain.ids import MemoryId
from roomlore.domain.paging import truncated
from roomlore.domain.ports import Embedder, LanguageModel, LlmFailure
from roomlore.domain.records import Memory, Message, Viewer
from roomlore.ingest.clean import storable
from roomlore.ingest.secrets import remove_secrets
from roomlore.jobs.llm_client import backoff_after
from roomlore.models.http_models import open_language_model
from roomlore.operations.access import Access
from roomlore.search import log_search, memory_search
from roomlore.search.fallback_chain import FallbackResult, add_log_stage
from roomlore.search.llm_answers import (
    ANSWER_SCHEMA,
    INSTRUCTIONS,
    CitedAnswer,
    RejectedAnswer,
    build_prompt,
    validate_answer,
)
from roomlore.search.log_search import LogFindings, LogFolders, LogVisibility
from roomlore.search.message_search import SearchQuery
from roomlore.search.records import Answer
from roomlore.settings import DEFAULT_ORG, Settings

#: The timeout of an answer. The user waits for it, but it is longer than the timeout of a title.
MODEL_TIMEOUT_SECONDS = 30.0
#: The maximum number of tokens of an answer; four sentences with labels need about two hundred.
TOKENS = 600
RAW_LINES_NOT_SENT = "lines of raw logs are never sent to a language model"
SENSITIVE = "what is cited is or may be sensitive, which is never sent to a language model"
NO_CALL = "no call to the language model may be made now"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerWriter:
    """Writes the answers of one org."""

    access: Access
    settings: Settings
    now: Callable[[], datetime] = utc_now

    async def pending_similarities(
        self, viewer: Viewer, question: SearchQuery | None, embedder: Embedder | None
    ) -> Mapping[MemoryId, float]:
        """Return the similarity to a question of the matching memories that have no vector yet."""
        if question is None or question.vector is None or embedder is None:
            return {}
        await self.access.check_viewer(viewer, "ask")
        async with self.access.db.read_transaction(viewer, apply_restrictions=True) as conn:
            found = await memory_search.without_vectors(conn, self.access.org_id, question)
        if not found:
            return {}
        try:
            vectors = await asyncio.to_thread(embedder.embed, [memory.content for memory in found])
        except (BadInput, ModelUnavailable, TextRefused):
            # The model has just failed. So memories are found by words.
            return {}
        similarities: list[float] = (vectors @ question.vector[1]).tolist()
        return dict(zip((memory.id for memory in found), similarities, strict=True))

    async def finish(
        self, viewer: Viewer, result: FallbackResult, *, search_filter: SearchFilter, quote: bool = False
    ) -> Answer:
        """Return the answer to a question. Log files are read if nothing else gives an answer.

        If a language model is configured, it writes the answer, unless `quote` asks for quotes.
        """
        logs = None if result.is_answered else await self._raw_logs()
        if logs is not None:
            result = add_log_stage(
                result, await self._search_raw_logs(viewer, result, search_filter, logs=logs)
            )
        named = self.settings.language_model
        if quote or not result.is_answered or named is None:
            return result.answer()
        try:
            model = open_language_model(
                named.url, named.name, key=named.key, seconds=MODEL_TIMEOUT_SECONDS, tokens=TOKENS
            )
        except BadInput as error:
            return replace(result.answer(), note=str(error))
        return await self._generate(viewer, result, model)

    async def _raw_logs(self) -> LogFolders | None:
        """Return the configured log folders; None unless the settings name this org."""
        settings, access = self.settings, self.access
        if not settings.raw_logs or await access.db.find_org(settings.org or DEFAULT_ORG) != access.org_id:
            return None
        parts = {pattern: room.partition("/") for pattern, room in settings.raw_log_rooms.items()}
        rooms = {pattern: (platform, external_id) for pattern, (platform, _, external_id) in parts.items()}
        return LogFolders(folders=settings.raw_logs, rooms=rooms)

    async def _search_raw_logs(
        self, viewer: Viewer, result: FallbackResult, search_filter: SearchFilter, *, logs: LogFolders
    ) -> LogFindings:
        if not log_search.is_applicable(search_filter):
            return LogFindings(note="not searched: the question is about an author or a conversation")
        org_id = self.access.org_id
        async with self.access.db.read_transaction(viewer) as conn:
            visibility = await _log_visibility(conn, viewer, logs)
        found = await log_search.scan_logs(
            logs, result.question, visibility, search_filter=search_filter, clock=monotonic
        )
        best = log_search.best_candidates(found)
        async with self.access.db.read_transaction(Viewer.operator(org_id)) as conn:
            lines, left_out = await log_search.drop_excluded(conn, org_id, best, now=self.now())
        async with self.access.reading(viewer, "read raw logs") as reading:
            names = {line.mapped_room for line in lines if line.mapped_room is not None}
            rooms = await rooms_of_logs.rooms_named(reading.conn, org_id, names)
            reading.record_shown(room.id for room in rooms)
        return log_search.to_findings(
            found,
            result.question,
            lines,
            clean=_storable_text,
            is_operator=viewer.is_operator,
            left_out=left_out,
        )

    async def _generate(self, viewer: Viewer, result: FallbackResult, model: LanguageModel) -> Answer:
        """Return the answer of the language model, or quotes with a note that says why."""
        failures = await self._reserve_call(result)
        if isinstance(failures, RejectedAnswer):
            return replace(result.answer(), note=failures.reason)
        prompt = build_prompt(result)
        response = await model.answer(INSTRUCTIONS, prompt.text, shape=ANSWER_SCHEMA)
        await self._record_call(response, failures)
        readable = await self._recheck_readable(viewer, result)
        if readable is not result:
            return replace(readable.answer(), note="what is cited was changed meanwhile")
        if isinstance(response, LlmFailure):
            return replace(result.answer(), note=f"the language model did not answer: {response.reason}")
        answer = validate_answer(response, prompt, question=result.question)
        if isinstance(answer, CitedAnswer) and _storable_text(answer.text) != answer.text:
            answer = RejectedAnswer(reason="there is a secret in it")
        if isinstance(answer, RejectedAnswer):
            return replace(result.answer(), note=f"the language model's answer was refused: {answer.reason}")
        return replace(result.answer(), text=answer.text, written_by=model.name, citations=answer.citations)

    async def _reserve_call(self, result: FallbackResult) -> int | RejectedAnswer:
        """Count a call and return the number of failures before it. If no call is allowed, return the reason."""
        named, org_id = self.settings.language_model, self.access.org_id
        if result.lines:
            return RejectedAnswer(reason=RAW_LINES_NOT_SENT)
        if await self._is_sensitive(result):
            return RejectedAnswer(reason=SENSITIVE)
        count = partial(
            llm_quota.count_answer_call,
            org_id=org_id,
            now=self.now(),
            daily_limit=named.calls if named else 0,
        )
        failures = await self.access.db.change(org_id, count)
        return RejectedAnswer(reason=NO_CALL) if failures is None else failures

    async def _is_sensitive(self, result: FallbackResult) -> bool:
        found = _memories(result)
        if any(memory.sensitivity != "normal" for memory in found):
            return True
        ids = {message.id for message in _messages(result)}
        ids |= {key for memory in found for key in memory.source_ids}
        async with self.access.db.read_transaction(Viewer.operator(self.access.org_id)) as conn:
            return bool(await llm_quota.sensitive_messages(conn, self.access.org_id, ids))

    async def _record_call(self, response: str | LlmFailure, failures: int) -> None:
        org_id = self.access.org_id
        if not isinstance(response, LlmFailure):
            await self.access.db.change(org_id, partial(llm_quota.reset_answer_failures, org_id=org_id))
            return
        due_at = self.now() + backoff_after(failures + 1, response.retry_after)
        record = partial(llm_quota.record_answer_failure, org_id=org_id, error=response.reason, due_at=due_at)
        await self.access.db.change(org_id, record)

    async def _recheck_readable(self, viewer: Viewer, result: FallbackResult) -> FallbackResult:
        """Return the part of a result that is unchanged and that the viewer may still read.

        If all quotes and memories qualify, return the result itself.
        """
        org_id = self.access.org_id
        async with self.access.db.read_transaction(viewer, apply_restrictions=True) as conn:
            message_ids = [message.id for message in _messages(result)]
            said = {row.id: row for row in await messages.messages_by_id(conn, org_id, message_ids)}
            memory_ids = {memory.id for memory in _memories(result)}
            recalled = {row.id: row for row in await memories.memories_by_id(conn, org_id, memory_ids)}
        quotes = [
            quote
            for quote in result.quotes
            if all(_is_unchanged(said.get(row.id), row) for row in (quote.message, *quote.answers))
        ]
        found = [
            match
            for match in result.memories
            if all(recalled.get(row.id) == row for row in (match.memory, *match.superseded))
        ]
        if (len(quotes), len(found)) == (len(result.quotes), len(result.memories)):
            return result
        if quotes or found:
            return replace(result, quotes=quotes, memories=found)
        return FallbackResult(question=result.question, trace=result.trace)


async def _log_visibility(conn: Connection, viewer: Viewer, logs: LogFolders) -> LogVisibility:
    """Return which lines a viewer may see.

    Operators see all lines. Other viewers see the lines of rooms from the times when they may read the rooms.
    """
    if viewer.is_operator:
        return LogVisibility(is_operator=True)
    rooms = await rooms_of_logs.rooms_named(conn, viewer.org_id, set(logs.rooms.values()))
    # An answer that is posted to a room quotes no closed room, because later members of the room could read the answer.
    periods = [] if viewer.destination else await projections.viewer_memberships(conn)
    return LogVisibility(
        is_operator=False,
        rooms={
            (room.platform, room.room): None
            if room.is_open
            else [period for period in periods if period.room_id == room.id]
            for room in rooms
        },
    )


def _messages(result: FallbackResult) -> list[Message]:
    return [message for quote in result.quotes for message in (quote.message, *quote.answers)]


def _memories(result: FallbackResult) -> list[Memory]:
    return [memory for match in result.memories for memory in (match.memory, *match.superseded)]


def _is_unchanged(current: Message | None, shown: Message) -> bool:
    """Return whether a message still has the text that was shown. The shown text may be cut."""
    return current is not None and (
        current == shown or replace(current, body=truncated(current.body)) == shown
    )


def _storable_text(text: str) -> str:
    return remove_secrets(storable(text))[0]
