"""Answers in words: what the tiers found is checked again, read further in raw logs, and told by a language model.

Each part holds a connection only while it reads: not while files are read, nor while a model is asked.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from time import monotonic

from roomlore.db import llm_quota, memories, messages
from roomlore.db import raw_logs as known
from roomlore.db.queries import Connection
from roomlore.db.search import SearchFilter
from roomlore.domain.audience import Period
from roomlore.domain.clock import utc_now
from roomlore.domain.errors import BadInput, ModelUnavailable, TextRefused
from roomlore.domain.ids import MemoryId
from roomlore.domain.paging import truncated
from roomlore.domain.ports import Embedder, LanguageModel, LlmFailure
from roomlore.domain.records import Memory, Message, Viewer
from roomlore.ingest.clean import storable
from roomlore.ingest.secrets import remove_secrets
from roomlore.jobs.llm_client import backoff_after
from roomlore.models.chat_model import open_language_model
from roomlore.operations.access import Access
from roomlore.search import log_exclusions, log_search, memory_search
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
from roomlore.settings import DEFAULT_ORG, LanguageModelSettings, Settings

#: Whoever asks waits for it; longer than any title takes.
MODEL_TIMEOUT_SECONDS = 30.0
#: Of an answer; four sentences with labels need some two hundred.
TOKENS = 600
RAW_LINES_NOT_SENT = "lines of raw logs are never sent to a language model"
SENSITIVE = "what is cited is or may be sensitive, which is never sent to a language model"
NO_CALL = "no call to the language model may be made now"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerWriter:
    """Answers of an org for those who may read what they rest on."""

    access: Access
    settings: Settings
    now: Callable[[], datetime] = utc_now

    async def pending_similarities(
        self, viewer: Viewer, question: SearchQuery | None, embedder: Embedder | None
    ) -> Mapping[MemoryId, float]:
        """Return how near those memories are to a question that may fit it and have no vector yet.

        Nothing without the question's own vector.

        Args:
            viewer: For whom.
            question: What is asked, if anything.
            embedder: Made the vector.

        Raises:
            KeyRefused, NotAllowed: the caller may not read as the viewer.
        """
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
            # It was there a moment ago. Memories are found by words then.
            return {}
        cosines: list[float] = (vectors @ question.vector[1]).tolist()
        return dict(zip((memory.id for memory in found), cosines, strict=True))

    async def finish(
        self, viewer: Viewer, settled: FallbackResult, *, scope: SearchFilter, quote: bool = False
    ) -> Answer:
        """Return the answer to a question, from raw logs if nothing else answers, in a language model's words if one may.

        Args:
            viewer: For whom.
            settled: What the tiers in the database found.
            scope: Where and when to look.
            quote: Keep to quotation.
        """
        logs = None if settled.is_known else await self._raw_logs()
        if logs is not None:
            settled = add_log_stage(settled, await self._search_raw_logs(viewer, settled, scope, logs=logs))
        if quote or not settled.is_known or self.settings.language_model is None:
            return settled.answer()
        try:
            model = _open(self.settings.language_model)
        except BadInput as error:
            return replace(settled.answer(), note=str(error))
        return await self._generate(viewer, settled, model)

    # Raw logs

    async def _raw_logs(self) -> LogFolders | None:
        """Return where the raw logs are; None where there are none, or they are another org's.

        They are those of the org that the settings name: a key may let in to another one.
        """
        settings, desk = self.settings, self.access
        if not settings.raw_logs or await desk.db.find_org(settings.org or DEFAULT_ORG) != desk.org_id:
            return None
        named = {pattern: room.partition("/") for pattern, room in settings.raw_log_rooms.items()}
        rooms = {pattern: (platform, external_id) for pattern, (platform, _, external_id) in named.items()}
        return LogFolders(folders=settings.raw_logs, rooms=rooms)

    async def _search_raw_logs(
        self, viewer: Viewer, settled: FallbackResult, scope: SearchFilter, *, logs: LogFolders
    ) -> LogFindings:
        if not log_search.is_applicable(scope):
            return LogFindings(note="not looked at: asked is what some said")
        async with self.access.db.read_transaction(viewer) as conn:
            access = await _access(conn, viewer, logs)
        found = await log_search.scan_logs(logs, settled.question, access, scope=scope, clock=monotonic)
        best = log_search.best_candidates(found)
        async with self.access.db.read_transaction(Viewer.operator(self.access.org_id)) as conn:
            fit, left_out = await log_exclusions.drop_excluded(conn, self.access.org_id, best, now=self.now())
        async with self.access.reading(viewer, "read raw logs") as reading:
            rooms = await known.rooms_named(
                reading.conn,
                self.access.org_id,
                {one.mapped_room for one in fit if one.mapped_room is not None},
            )
            reading.record_shown(room.id for room in rooms)
        return log_search.to_findings(
            found,
            settled.question,
            fit,
            clean=_storable_text,
            is_operator=viewer.is_operator,
            left_out=left_out,
        )

    # A language model

    async def _generate(self, viewer: Viewer, settled: FallbackResult, model: LanguageModel) -> Answer:
        """Return the answer as a language model tells it, or why it is quoted."""
        failures = await self._reserve_call(settled)
        if isinstance(failures, RejectedAnswer):
            return replace(settled.answer(), note=failures.reason)
        shown = build_prompt(settled)
        said = await model.answer(INSTRUCTIONS, shown.text, shape=ANSWER_SCHEMA)
        await self._record_call(said, failures)
        staying = await self._recheck_readable(viewer, settled)
        if staying is not settled:
            return replace(staying.answer(), note="what is cited was changed meanwhile")
        if isinstance(said, LlmFailure):
            return replace(settled.answer(), note=f"the language model did not answer: {said.reason}")
        told = _reject_secrets(validate_answer(said, shown, question=settled.question))
        if isinstance(told, RejectedAnswer):
            return replace(settled.answer(), note=f"the language model's answer was refused: {told.reason}")
        return replace(settled.answer(), text=told.text, written_by=model.name, citations=told.citations)

    async def _reserve_call(self, settled: FallbackResult) -> int | RejectedAnswer:
        """Return how many calls before this one were not answered, or why there may be none; it is counted then."""
        named = self.settings.language_model
        if settled.lines:
            return RejectedAnswer(reason=RAW_LINES_NOT_SENT)
        if await self._is_sensitive(settled):
            return RejectedAnswer(reason=SENSITIVE)
        org_id = self.access.org_id
        count = partial(
            llm_quota.count_answer_call,
            org_id=org_id,
            now=self.now(),
            daily_limit=named.calls if named else 0,
        )
        failures = await self.access.db.change(org_id, count)
        return RejectedAnswer(reason=NO_CALL) if failures is None else failures

    async def _is_sensitive(self, settled: FallbackResult) -> bool:
        remembered = _memories(settled)
        ids = {message.id for message in _messages(settled)}
        ids |= {key for memory in remembered for key in memory.source_ids}
        if any(memory.sensitivity != "normal" for memory in remembered):
            return True
        async with self.access.db.read_transaction(Viewer.operator(self.access.org_id)) as conn:
            return bool(await llm_quota.sensitive_messages(conn, self.access.org_id, ids))

    async def _record_call(self, said: str | LlmFailure, failures: int) -> None:
        org_id = self.access.org_id
        if not isinstance(said, LlmFailure):
            await self.access.db.change(org_id, partial(llm_quota.reset_answer_failures, org_id=org_id))
            return
        due_at = self.now() + backoff_after(failures + 1, said.retry_after)
        note = partial(llm_quota.record_answer_failure, org_id=org_id, error=said.reason, due_at=due_at)
        await self.access.db.change(org_id, note)

    async def _recheck_readable(self, viewer: Viewer, settled: FallbackResult) -> FallbackResult:
        """Return what of it the viewer may still read as it was: itself where that is all, unknown where nothing."""
        async with self.access.db.read_transaction(viewer, apply_restrictions=True) as conn:
            ids = [message.id for message in _messages(settled)]
            said = {one.id: one for one in await messages.messages_by_id(conn, self.access.org_id, ids)}
            stated = await memories.memories_by_id(
                conn, self.access.org_id, {one.id for one in _memories(settled)}
            )
        recalled = {memory.id: memory for memory in stated}
        quotes = [
            quote
            for quote in settled.quotes
            if all(_is_unchanged(said.get(one.id), one) for one in (quote.message, *quote.answers))
        ]
        remembered = [
            found
            for found in settled.memories
            if all(recalled.get(one.id) == one for one in (found.memory, *found.superseded))
        ]
        if (len(quotes), len(remembered)) == (len(settled.quotes), len(settled.memories)):
            return settled
        if quotes or remembered:
            return replace(settled, quotes=quotes, memories=remembered)
        return FallbackResult(question=settled.question, trace=settled.trace)


def _open(named: LanguageModelSettings) -> LanguageModel:
    return open_language_model(
        named.url, named.name, key=named.key, seconds=MODEL_TIMEOUT_SECONDS, tokens=TOKENS
    )


async def _access(conn: Connection, viewer: Viewer, logs: LogFolders) -> LogVisibility:
    """Return which lines a viewer may see: the operator all, others those of rooms as far as they may read them."""
    if viewer.is_operator:
        return LogVisibility(is_operator=True)
    rooms = await known.rooms_named(conn, viewer.org_id, set(logs.rooms.values()))
    # Raw log lines of a closed room are quoted in no other room, and not there once somebody new has joined.
    stays = [] if viewer.place else await known.membership_periods(conn, [room.id for room in rooms])
    periods = {
        room.id: [
            Period(joined_at=stay.joined_at, left_at=stay.left_at)
            for stay in stays
            if stay.room_id == room.id
        ]
        for room in rooms
    }
    return LogVisibility(
        is_operator=False,
        rooms={(room.platform, room.room): None if room.is_open else periods[room.id] for room in rooms},
    )


def _messages(settled: FallbackResult) -> list[Message]:
    return [message for one in settled.quotes for message in (one.message, *one.answers)]


def _is_unchanged(said: Message | None, told: Message) -> bool:
    """Return whether a message still says what was told of it, which may be its beginning."""
    return said is not None and (said == told or replace(said, body=truncated(said.body)) == told)


def _memories(settled: FallbackResult) -> list[Memory]:
    return [memory for one in settled.memories for memory in (one.memory, *one.superseded)]


def _storable_text(text: str) -> str:
    return remove_secrets(storable(text))[0]


def _reject_secrets(written: CitedAnswer | RejectedAnswer) -> CitedAnswer | RejectedAnswer:
    """Return what was written, unless there is a secret in it."""
    if isinstance(written, CitedAnswer) and _storable_text(written.text) != written.text:
        return RejectedAnswer(reason="there is a secret in it")
    return written
