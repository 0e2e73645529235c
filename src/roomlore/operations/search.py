"""Search and answers for a viewer, filtered by arguments and by what the question itself says.

Some modules are needed only for answers or for indexes. They are imported late, so that a search starts quickly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from time import perf_counter
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

from msgspec import Meta

from roomlore.db import directory, embedding_versions
from roomlore.db.database import without_restrictions
from roomlore.db.directory import ParticipantKey
from roomlore.db.queries import Connection
from roomlore.db.search import SearchFilter
from roomlore.domain.errors import BadInput, ModelUnavailable, RoomloreError, TextRefused
from roomlore.domain.ids import MessageId
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.ports import Embedder, TextEmbeddings
from roomlore.domain.records import Viewer
from roomlore.operations.access import Access, AuditedRead
from roomlore.operations.destination import Destination, restrict_to_readers
from roomlore.operations.embedding_models import EmbeddingModels
from roomlore.operations.privacy import (
    hidden_message_ids,
    message_ids_of_hits,
    operator_restrictions,
    source_ids_of_answer,
)
from roomlore.operations.registry import NO_NUL
from roomlore.search import fallback_chain, lookup
from roomlore.search.message_search import (
    DENSE_CANDIDATES,
    MessageSearchResult,
    SearchQuery,
    list_recent,
    search_messages,
)
from roomlore.search.query_parser import (
    AppliedFilters,
    Filters,
    ParsedQuery,
    is_generic_person,
    parse_query,
)
from roomlore.search.quotes import message_line
from roomlore.search.records import Answer, Hit, SearchDegradation, SearchResult, StageName, StageTrace
from roomlore.search.time_phrases import TimeRange
from roomlore.settings import Settings
from roomlore.text.recognisers import is_question

if TYPE_CHECKING:
    from roomlore.operations.candidates import ProjectionClients

NO_MODEL: SearchDegradation = "no embedding model"
ONE_MODEL_UNAVAILABLE: SearchDegradation = "one of two embedding models is unavailable"
BEHIND: SearchDegradation = "not everything is embedded yet"


#: The maximum number of threads in an answer that lists the newest messages.
MAX_LISTED_MESSAGES = 10
#: The shortest time between two messages.
INSTANT = timedelta(microseconds=1)
#: The number of threads searched for questions.
MIN_CANDIDATES = 100
#: The maximum number of threads that one search returns, because each thread is read whole.
MOST_FOUND = 1_000
#: In characters; PostgreSQL cannot index much longer texts.
LONGEST_QUESTION = 10_000
SearchedText = Annotated[str, Meta(min_length=1, max_length=LONGEST_QUESTION, pattern=NO_NUL)]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedQuestions:
    """Texts with their vectors."""

    questions: dict[str, SearchQuery]
    degraded: Sequence[SearchDegradation]
    #: The model of the vectors; None if there are no vectors.
    embedder: Embedder | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionEmbedder:
    """Embeds the questions of an org's viewers."""

    access: Access
    models: EmbeddingModels

    async def embed(self, viewer: Viewer, texts: Sequence[str]) -> EmbeddedQuestions:
        """Embed texts with the current model and, during a switch, with the next one.

        Either model may be unavailable.
        """
        versions = await self.models.versions(self.access.org_id)
        current, coming = versions.get("current"), versions.get("next")
        first = await self._embed_with(self.models.default if current is None else current.provider, texts)
        second = None if coming is None else await self._embed_with(coming.provider, texts)
        degraded: list[SearchDegradation] = []
        if coming is not None and (first is None or second is None):
            degraded.append(ONE_MODEL_UNAVAILABLE)
        if first is None:
            first, second = second, None
        if first is None:
            plain = {text: SearchQuery(text=text, vector=None) for text in texts}
            return EmbeddedQuestions(questions=plain, degraded=(NO_MODEL,), embedder=None)
        if await self._has_backlog(viewer, first[0]):
            degraded.append(BEHIND)
        questions = _questions(texts, first, second)
        return EmbeddedQuestions(questions=questions, degraded=tuple(degraded), embedder=first[0])

    async def _embed_with(
        self, provider: str, texts: Sequence[str]
    ) -> tuple[Embedder, TextEmbeddings] | None:
        try:
            return await self.models.embed_query(provider, texts)
        except (BadInput, ModelUnavailable, TextRefused):
            return None

    async def _has_backlog(self, viewer: Viewer, embedder: Embedder) -> bool:
        # Only operators may learn that something they cannot read is waiting.
        if not viewer.is_operator:
            return False
        async with self.access.db.read_transaction(viewer) as conn:
            return await embedding_versions.is_behind(conn, self.access.org_id, embedder.model_id)


def _questions(
    texts: Sequence[str],
    first: tuple[Embedder, TextEmbeddings],
    second: tuple[Embedder, TextEmbeddings] | None,
) -> dict[str, SearchQuery]:
    embedder, made = first
    tokens = made.tokens or [None] * len(texts)
    pieces = made.pieces or [()] * len(texts)
    second_vectors = [None] * len(texts)
    if second is not None and second[0].model_id != embedder.model_id:
        second_vectors = [(second[0].model_id, vector) for vector in second[1].vectors]
    return {
        text: SearchQuery(
            text=text, vector=(embedder.model_id, vector), tokens=rows, pieces=words, second_vector=other
        )
        for text, vector, rows, words, other in zip(
            texts, made.vectors, tokens, pieces, second_vectors, strict=True
        )
    }


async def newest_matching(
    conn: Connection, viewer: Viewer, question: str, search_filter: SearchFilter
) -> Answer:
    """Answer with the newest messages that a filter matches.

    This is for questions that ask for everything that the filter matches.
    """
    stages: list[tuple[StageName, SearchFilter]] = [("history", replace(search_filter, room_ids=None))]
    if search_filter.room_ids is not None:
        stages.insert(0, ("room", search_filter))
    trace: list[StageTrace] = []
    for stage, where in stages:
        hits = await list_recent(conn, viewer, search_filter=where, limit=MAX_LISTED_MESSAGES)
        best, outcome = (1.0, "answered") if hits else (None, "empty")
        trace.append(StageTrace(stage=stage, candidates=len(hits), best=best, threshold=0.0, outcome=outcome))
        if hits:
            lines = (
                message_line(message, hit)
                for hit in hits
                for message in hit.messages
                if message.id in hit.why
            )
            return Answer(question=question, stage=stage, text="\n".join(lines), hits=hits, trace=trace)
    text = f"{fallback_chain.UNKNOWN_ANSWER} Nobody said anything then that you may read."
    return Answer(question=question, stage="none", text=text, hits=(), trace=trace)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PreparedQuestion:
    """A parsed and embedded question."""

    parsed: ParsedQuery
    filters: Filters
    #: The embedded question, with and without the words that became filters.
    questions: Mapping[str, SearchQuery]
    degraded: Sequence[SearchDegradation]
    #: The model of the vectors; None if there are no vectors.
    embedder: Embedder | None
    started_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _AuthorFilter:
    """The authors that a question asks for."""

    accounts: Sequence[ParticipantKey] = ()
    kinds: Sequence[ParticipantKind] = ()
    #: Names that match nobody whom the viewer knows.
    unknown: Sequence[str] = ()

    @property
    def is_usable(self) -> bool:
        """Whether it can filter messages."""
        return bool(self.accounts or self.kinds)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SearchPlan:
    """A question with its resolved filter."""

    #: None if the question asks for everything that the filter matches.
    question: SearchQuery | None
    #: Bound to the destination, unless the question is private.
    viewer: Viewer
    #: Prefer messages that ask something.
    only_questions: bool
    search_filter: SearchFilter
    interpretation: AppliedFilters | None
    #: The rooms, participants and conversations in the arguments.
    named_ids: Sequence[UUID]

    def candidate_limit(self, limit: int) -> int:
        """Return how many threads to search to find `limit` results."""
        return max(limit, MIN_CANDIDATES) if self.only_questions else limit


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchService:
    """Implements the searches of `App`, whose docstrings describe them."""

    access: Access
    models: EmbeddingModels
    now: Callable[[], datetime]
    settings: Settings
    servers: Callable[[], ProjectionClients]

    async def search(
        self,
        viewer: Viewer,
        question: str,
        *,
        destination: Destination,
        filters: Filters,
        limit: int,
    ) -> SearchResult:
        """Return up to `limit` threads, best first. If the question asks for everything, return them newest first."""
        _check_result_limit(limit)
        prepared = await self._prepare(viewer, question, filters)
        prepared = await self._with_candidates(viewer, prepared, destination, limit=limit)
        async with self._restricted_read(viewer, destination.audit_action("search"), prepared) as reading:
            conn, plan = reading.conn, await self._plan(reading.conn, viewer, prepared, destination)
            found = await _find_threads(conn, plan, limit=plan.candidate_limit(limit))
            hits = ((plan.only_questions and _question_hits(found.hits)) or found.hits)[:limit]
            shown = message_ids_of_hits(hits)
            reading.record_shown([*plan.named_ids, *shown])

            async def search_again() -> list[MessageId]:
                return message_ids_of_hits((await _find_threads(conn, plan, limit=limit)).hits)

            hidden = await hidden_message_ids(conn, viewer, search_again, shown=shown)
        if plan.question is not None and not plan.only_questions:
            from roomlore.search.repeated_questions import rank_repetitions_last

            hits = await asyncio.to_thread(rank_repetitions_last, plan.question.text, hits)
        restrictions = await operator_restrictions(
            self.access, viewer, hidden, destination=plan.viewer.destination
        )
        return SearchResult(
            hits=hits,
            confidence=found.confidence,
            degraded=prepared.degraded,
            applied_filters=plan.interpretation,
            restrictions=restrictions,
            postable=destination.postable,
        )

    async def ask(
        self,
        viewer: Viewer,
        question: str,
        *,
        destination: Destination,
        filters: Filters,
        quote: bool,
    ) -> Answer:
        """Return the answer to a question, or that there is no answer."""
        from roomlore.operations.answers import AnswerWriter

        prepared = await self._prepare(viewer, question, filters)
        prepared = await self._with_candidates(
            viewer, prepared, destination, limit=DENSE_CANDIDATES, beyond_room=True
        )
        writer = AnswerWriter(access=self.access, settings=self.settings, now=self.now)
        similarities = await writer.pending_similarities(
            viewer, prepared.questions.get(question), prepared.embedder
        )
        async with self._restricted_read(viewer, destination.audit_action("ask"), prepared) as reading:
            conn, plan = reading.conn, await self._plan(reading.conn, viewer, prepared, destination)

            async def find() -> tuple[fallback_chain.FallbackResult | None, Answer]:
                if plan.question is None:
                    return None, await newest_matching(conn, plan.viewer, question, plan.search_filter)
                result = await fallback_chain.run_fallbacks(
                    conn,
                    plan.viewer,
                    plan.question,
                    search_filter=plan.search_filter,
                    similarities=similarities,
                )
                return result, result.answer()

            async def search_again() -> list[MessageId]:
                return source_ids_of_answer((await find())[1])

            result, answer = await find()
            memory_ids = [match.memory.id for match in answer.memories]
            reading.record_shown([*plan.named_ids, *message_ids_of_hits(answer.hits), *memory_ids])
            hidden = await hidden_message_ids(conn, viewer, search_again, shown=source_ids_of_answer(answer))
        if result is not None:
            result = await _without_repetitions(result)
            answer = await writer.finish(plan.viewer, result, search_filter=plan.search_filter, quote=quote)
        answer = _with_remark(answer, plan.interpretation)
        restrictions = await operator_restrictions(
            self.access, viewer, hidden, destination=plan.viewer.destination
        )
        return replace(
            answer,
            question=question,
            degraded=prepared.degraded,
            applied_filters=plan.interpretation,
            postable=destination.postable,
            restrictions=restrictions,
        )

    async def similar(
        self, viewer: Viewer, question: str, *, destination: Destination, limit: int
    ) -> SearchResult:
        """Return up to `limit` threads in which the viewer asked a similar question, most similar first."""
        _check_result_limit(limit)
        prepared = await self._prepare(viewer, question, Filters(by=[lookup.SELF], literal=True))
        async with self._restricted_read(viewer, destination.audit_action("search"), prepared) as reading:
            plan = await self._plan(reading.conn, viewer, prepared, destination)
            found = await _find_threads(reading.conn, plan, limit=max(limit, MIN_CANDIDATES))
            hits = _question_hits(found.hits)[:limit]
            reading.record_shown([*plan.named_ids, *message_ids_of_hits(hits)])
        return SearchResult(hits=hits, degraded=prepared.degraded, postable=destination.postable)

    def _restricted_read(
        self, viewer: Viewer, action: str, prepared: _PreparedQuestion
    ) -> AbstractAsyncContextManager[AuditedRead]:
        return self.access.reading(
            viewer, action, generic_plan=True, apply_restrictions=True, started_at=prepared.started_at
        )

    async def _prepare(self, viewer: Viewer, text: str, filters: Filters) -> _PreparedQuestion:
        """Parse and embed a question. No connection is held while the model works."""
        check_question(text)
        filters.check()
        started_at = perf_counter()
        parsed = ParsedQuery(text=text) if filters.literal else parse_query(text)
        embedder = QuestionEmbedder(access=self.access, models=self.models)
        embedded = await embedder.embed(viewer, sorted(parsed.search_texts() - {""}))
        return _PreparedQuestion(
            parsed=parsed,
            filters=filters,
            questions=embedded.questions,
            degraded=embedded.degraded,
            embedder=embedded.embedder,
            started_at=started_at,
        )

    async def _with_candidates(
        self,
        viewer: Viewer,
        prepared: _PreparedQuestion,
        destination: Destination,
        *,
        limit: int,
        beyond_room: bool = False,
    ) -> _PreparedQuestion:
        """Add the candidates of an index to a question. No connection is held while waiting for the index."""
        if self.settings.qdrant is None:
            return prepared
        from roomlore.operations.candidates import CandidateSource

        source = CandidateSource(
            access=self.access, settings=self.settings, projection_clients=self.servers()
        )
        index, degraded = await source.readable_index()
        if index is None:
            return replace(prepared, degraded=(*prepared.degraded, *degraded))
        await self.access.check_viewer(viewer, "ask" if beyond_room else "search")
        try:
            async with self.access.db.read_transaction(viewer, apply_restrictions=True) as conn:
                plan = await self._plan(conn, viewer, prepared, destination)
                if plan.question is None:
                    return prepared
                query = await source.build_query(conn, plan.question, index)
        except RoomloreError:
            # The search in PostgreSQL raises the same error and audits it.
            return prepared
        search_filters = [plan.search_filter]
        if beyond_room and plan.search_filter.room_ids is not None:
            search_filters.append(replace(plan.search_filter, room_ids=None))
        question, degraded = await source.add_candidates(
            plan.question,
            index,
            query=query,
            search_filters=search_filters,
            limit=plan.candidate_limit(limit),
        )
        questions = {**prepared.questions, question.text: question}
        return replace(prepared, questions=questions, degraded=(*prepared.degraded, *degraded))

    async def _plan(
        self, conn: Connection, viewer: Viewer, prepared: _PreparedQuestion, destination: Destination
    ) -> _SearchPlan:
        """Resolve the names of a question, and limit the rest of the read to the destination."""
        parsed, filters = prepared.parsed, prepared.filters
        viewer, search_filter, now = await self._filter_at(conn, viewer, destination)
        conversation_ids = (
            None
            if filters.conversation is None
            else [await lookup.conversation(conn, self.access.org_id, filters.conversation)]
        )
        # Arguments override filters from the question.
        has_authors = bool(filters.by or filters.kinds)
        said = _AuthorFilter() if has_authors else await self._author_filter(conn, viewer, parsed)
        authors = said if said.is_usable else await _named_authors(conn, viewer, filters)
        said_time = None if filters.since or filters.until else parsed.time_range(now)
        times = said_time or filters.time_range(now)
        search_filter = replace(
            search_filter,
            author_ids=[key.id for key in authors.accounts] or None,
            author_kinds=authors.kinds or None,
            conversation_ids=conversation_ids,
            answered=filters.answered,
            since=times.since,
            until=min((end for end in (times.until, search_filter.until) if end is not None), default=None),
        )
        words = parsed.search_text(author=said.is_usable, time=said_time is not None)
        return _SearchPlan(
            question=prepared.questions.get(words),
            viewer=viewer,
            only_questions=said.is_usable and parsed.wants_questions,
            search_filter=search_filter,
            interpretation=_interpretation(said, said_time, words),
            named_ids=[
                *(search_filter.room_ids or ()),
                *(search_filter.author_ids or ()),
                *(conversation_ids or ()),
            ],
        )

    async def _filter_at(
        self, conn: Connection, viewer: Viewer, destination: Destination
    ) -> tuple[Viewer, SearchFilter, datetime]:
        """Return the viewer, the filter and the time at a destination."""
        org_id = self.access.org_id
        room_id = None if destination.room is None else await lookup.room(conn, org_id, destination.room)
        search_filter, now = SearchFilter(room_ids=None if room_id is None else [room_id]), self.now()
        if destination.as_of is not None:
            async with without_restrictions(conn):
                last = await lookup.message(conn, org_id, destination.as_of, room_id=room_id)
            search_filter, now = (
                replace(search_filter, until=last.sent_at + INSTANT, last=last.position),
                last.sent_at,
            )
        if destination.room is not None and room_id is not None and not destination.private:
            viewer = await restrict_to_readers(conn, viewer, room_id, word=destination.room)
        return viewer, search_filter, now

    async def _author_filter(self, conn: Connection, viewer: Viewer, parsed: ParsedQuery) -> _AuthorFilter:
        """Return the authors that a question asks for.

        If the viewer does not know one of the named people, the result contains no authors.
        """
        if parsed.is_own and viewer.participant_id is None:
            return _AuthorFilter()
        org_id, names = self.access.org_id, parsed.names
        named = await lookup.accounts_named(conn, org_id, names) if names else []
        if names and not named:
            unknown = [
                name
                for name in names
                if not is_generic_person(name) and not await lookup.accounts_named(conn, org_id, [name])
            ]
            return _AuthorFilter(unknown=unknown)
        own = await directory.accounts(conn, org_id, viewer.participant_id) if parsed.is_own else []
        return _AuthorFilter(accounts=[*own, *named], kinds=parsed.kinds)


def check_question(text: str) -> None:
    """Raise BadInput if a question is empty or too long."""
    if not text.strip():
        raise BadInput("question", "must not be empty")
    if len(text) > LONGEST_QUESTION:
        raise BadInput("question", f"must have at most {LONGEST_QUESTION:,} characters; ask for less of it")


def _check_result_limit(limit: int) -> None:
    if not 1 <= limit <= MOST_FOUND:
        raise BadInput("limit", f"must be at least 1 and at most {MOST_FOUND:,} threads")


async def _named_authors(conn: Connection, viewer: Viewer, filters: Filters) -> _AuthorFilter:
    accounts = [key for word in filters.by for key in await lookup.accounts_of_person(conn, viewer, word)]
    return _AuthorFilter(accounts=list(dict.fromkeys(accounts)), kinds=filters.kinds)


def _with_remark(answer: Answer, applied: AppliedFilters | None) -> Answer:
    """Add a remark if the question names somebody unknown.

    The remark says that other people wrote the messages that were found.
    """
    remark = applied.unknown_names_note() if applied else ""
    if not remark:
        return answer
    parts = (remark, answer.text) if answer.is_answered else (answer.text, remark)
    return replace(answer, text=("\n" if answer.is_answered else " ").join(parts))


async def _find_threads(conn: Connection, plan: _SearchPlan, *, limit: int) -> MessageSearchResult:
    if plan.question is None:
        hits = await list_recent(conn, plan.viewer, search_filter=plan.search_filter, limit=limit)
        return MessageSearchResult(hits=hits, confidence=None, threshold=0.0)
    return await search_messages(
        conn, plan.viewer, plan.question, search_filter=plan.search_filter, limit=limit
    )


def _interpretation(authors: _AuthorFilter, times: TimeRange | None, words: str) -> AppliedFilters | None:
    if not (authors.is_usable or authors.unknown or times):
        return None
    return AppliedFilters(
        by=list(dict.fromkeys(key.name for key in authors.accounts)),
        kinds=authors.kinds,
        since=times.since if times else None,
        until=times.until if times else None,
        words=words,
        unknown=authors.unknown,
    )


def _question_hits(hits: Iterable[Hit]) -> list[Hit]:
    """Return the hits that ask something. Only their questions count as reasons."""
    found: list[Hit] = []
    for hit in hits:
        questions = {message.id for message in hit.messages if is_question(message.body)}
        why = {key: reason for key, reason in hit.why.items() if key in questions}
        found += [replace(hit, why=why)] if why else []
    return found


async def _without_repetitions(result: fallback_chain.FallbackResult) -> fallback_chain.FallbackResult:
    """Return a result without the quotes that only repeat the question.

    If no quotes are left, the memories of the result become the answer. If there are no memories either, there is no
    answer.
    """
    if not result.quotes:
        return result
    from roomlore.search.repeated_questions import without_repetitions

    return result.with_quotes(await asyncio.to_thread(without_repetitions, result.question, result.quotes))
