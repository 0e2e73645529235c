"""What was said that fits a question, for a viewer: narrowed by what they name, and by what the question itself says.

What only an answer needs, or a copy, is imported for it: a search does not wait for it.
"""

from __future__ import annotations

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
from roomlore.domain.ids import MemoryId, MessageId
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
from roomlore.search.message_search import DENSE_CANDIDATES, MessageSearchResult, SearchQuery, search_messages
from roomlore.search.query_parser import (
    AppliedFilters,
    Filters,
    ParsedQuery,
    is_generic_person,
    is_question,
    parse_query,
)
from roomlore.search.quotes import message_line
from roomlore.search.recent import list_recent
from roomlore.search.records import Answer, Hit, SearchDegradation, SearchResult, StageName, StageTrace
from roomlore.search.time_phrases import TimeRange
from roomlore.settings import Settings

NO_MODEL: SearchDegradation = "no embedding model"
ONE_MODEL_UNAVAILABLE: SearchDegradation = "one of two embedding models is unavailable"
BEHIND: SearchDegradation = "not everything is embedded yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedQuestions:
    """Texts as retrieval takes them."""

    questions: dict[str, SearchQuery]
    #: What it has to do without.
    degraded: Sequence[SearchDegradation]
    #: Made the vectors that are compared; None: there are none.
    embedder: Embedder | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionEmbedder:
    """Vectors of questions to an org."""

    access: Access
    models: EmbeddingModels

    async def embed(self, viewer: Viewer, texts: Sequence[str]) -> EmbeddedQuestions:
        """Return texts as retrieval takes them: with what the current model makes of them, and the next one, if any.

        Either serves alone while the other is away.
        """
        held = await self.models.versions(self.access.org_id)
        current, coming = held.get("current"), held.get("next")
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
        return EmbeddedQuestions(
            questions=_questions(texts, first, second), degraded=tuple(degraded), embedder=first[0]
        )

    async def _embed_with(
        self, provider: str, texts: Sequence[str]
    ) -> tuple[Embedder, TextEmbeddings] | None:
        try:
            return await self.models.embed_query(provider, texts)
        except (BadInput, ModelUnavailable, TextRefused):
            # What it needs may not be installed here.
            return None

    async def _has_backlog(self, viewer: Viewer, embedder: Embedder) -> bool:
        if not viewer.is_operator:
            # Nobody else may learn that something unread is waiting.
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
    also = [None] * len(texts)
    if second is not None and second[0].model_id != embedder.model_id:
        also = [(second[0].model_id, vector) for vector in second[1].vectors]
    return {
        text: SearchQuery(text=text, vector=(embedder.model_id, vector), tokens=rows, second_vector=other)
        for text, vector, rows, other in zip(texts, made.vectors, tokens, also, strict=True)
    }


#: So many of the newest exchanges answer.
MAX_LISTED_MESSAGES = 10


async def newest_in_scope(conn: Connection, viewer: Viewer, question: str, scope: SearchFilter) -> Answer:
    """Return the newest that was said in a scope: it is all that was asked for, so nothing has to fit better."""
    tiers: list[tuple[StageName, SearchFilter]] = [("history", replace(scope, room_ids=None))]
    if scope.room_ids is not None:
        tiers.insert(0, ("room", scope))
    trace: list[StageTrace] = []
    for tier, where in tiers:
        hits = await list_recent(conn, viewer, scope=where, limit=MAX_LISTED_MESSAGES)
        best, outcome = (1.0, "answered") if hits else (None, "empty")
        trace.append(StageTrace(tier=tier, candidates=len(hits), best=best, bar=0.0, outcome=outcome))
        if hits:
            lines = (
                message_line(message, hit)
                for hit in hits
                for message in hit.messages
                if message.id in hit.why
            )
            return Answer(question=question, tier=tier, text="\n".join(lines), hits=hits, trace=trace)
    text = f"{fallback_chain.UNKNOWN_ANSWER} Nobody said anything then that you may read."
    return Answer(question=question, tier="none", text=text, hits=(), trace=trace)


if TYPE_CHECKING:
    from roomlore.operations.candidates import ProjectionClients
    from roomlore.operations.graph import GraphCandidates, GraphProximity
    from roomlore.search import fallback_chain

#: The shortest time between two messages.
INSTANT = timedelta(microseconds=1)
#: Among so many exchanges the questions are looked for.
MIN_CANDIDATES = 100
#: The most exchanges that one search finds: each is read whole.
MOST_FOUND = 1_000
#: In characters; what is longer is a document, and PostgreSQL refuses its words beyond a megabyte.
LONGEST_QUESTION = 10_000
SearchedText = Annotated[str, Meta(min_length=1, max_length=LONGEST_QUESTION, pattern=NO_NUL)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _PreparedQuestion:
    """A question, before anything of it is looked up."""

    parsed: ParsedQuery
    filters: Filters
    #: Each of its wordings, as retrieval takes it.
    questions: Mapping[str, SearchQuery]
    degraded: Sequence[SearchDegradation]
    #: Made the vectors of the wordings; None: they have none.
    embedder: Embedder | None
    started_at: float
    #: What a copy of the graph proposes as near the viewer, where that is to count; None where it is not.
    graph_candidates: GraphCandidates | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _AuthorFilter:
    """Whose words a question asks for."""

    accounts: Sequence[ParticipantKey] = ()
    kinds: Sequence[ParticipantKind] = ()
    #: Whom it names, where nobody is called so whom the viewer may know of.
    unknown: Sequence[str] = ()

    @property
    def is_usable(self) -> bool:
        """Whether these are some whose words can be looked through."""
        return bool(self.accounts or self.kinds)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SearchPlan:
    """What is looked for, and where."""

    #: None is everything there.
    question: SearchQuery | None
    #: Bound to the room where it is asked, unless it is private.
    viewer: Viewer
    #: Whether only what asks something is wanted, where anything does.
    only_questions: bool
    scope: SearchFilter
    interpretation: AppliedFilters | None
    #: Rooms, participants and conversations that whoever asked named.
    named_ids: Sequence[UUID]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchService:
    """Searching and asking, as far as viewers may read; `App` describes the calls."""

    access: Access
    models: EmbeddingModels
    now: Callable[[], datetime]
    #: Say what answers are told with, and where else they are looked for.
    settings: Settings
    #: Hold copies that are asked, too, where there are any.
    servers: Callable[[], ProjectionClients]

    async def search(
        self,
        viewer: Viewer,
        question: str,
        *,
        place: Destination,
        filters: Filters,
        limit: int,
    ) -> SearchResult:
        """Return up to `limit` exchanges the viewer may see, best first, or newest first where all are wanted."""
        _check_result_limit(limit)
        asking = await self._prepare(viewer, question, filters)
        asking = await self._with_candidates(viewer, asking, place, limit=limit)
        async with self._restricted_read(viewer, place.audit_action("search"), asking) as reading:
            wanted = await self._plan(reading.conn, viewer, asking, place)
            reach = max(limit, MIN_CANDIDATES) if wanted.only_questions else limit
            found = await _find_threads(reading.conn, wanted, limit=reach)
            hits = ((wanted.only_questions and _question_hits(found.hits)) or found.hits)[:limit]
            reading.record_shown([*wanted.named_ids, *message_ids_of_hits(hits)])

            async def look() -> list[MessageId]:
                return message_ids_of_hits((await _find_threads(reading.conn, wanted, limit=limit)).hits)

            hidden = await hidden_message_ids(reading.conn, viewer, look, shown=message_ids_of_hits(hits))
        withheld = await operator_restrictions(self.access, viewer, hidden, place=wanted.viewer.place)
        return SearchResult(
            hits=hits,
            certainty=found.confidence,
            degraded=asking.degraded,
            read=wanted.interpretation,
            withheld=withheld,
            postable=place.postable,
        )

    async def ask(
        self,
        viewer: Viewer,
        question: str,
        *,
        place: Destination,
        filters: Filters,
        quote: bool,
    ) -> Answer:
        """Return what the viewer's messages say about a question, or that they do not."""
        from roomlore.operations.answers import AnswerWriter

        asking = await self._prepare(viewer, question, filters)
        asking = await self._with_candidates(viewer, asking, place, limit=DENSE_CANDIDATES, beyond_room=True)
        answering = AnswerWriter(access=self.access, settings=self.settings, now=self.now)
        near = await answering.pending_similarities(viewer, asking.questions.get(question), asking.embedder)
        async with self._restricted_read(viewer, place.audit_action("ask"), asking) as reading:
            conn = reading.conn
            wanted = await self._plan(conn, viewer, asking, place)
            settled = await _answer_stage(conn, wanted, near)
            answer = (
                settled.answer()
                if settled
                else await newest_in_scope(conn, wanted.viewer, question, wanted.scope)
            )
            recalled = [one.memory.id for one in answer.memories]
            reading.record_shown([*wanted.named_ids, *message_ids_of_hits(answer.hits), *recalled])

            async def look() -> list[MessageId]:
                again = await _answer_stage(conn, wanted, near)
                found = (
                    again.answer()
                    if again
                    else await newest_in_scope(conn, wanted.viewer, question, wanted.scope)
                )
                return source_ids_of_answer(found)

            hidden = await hidden_message_ids(conn, viewer, look, shown=source_ids_of_answer(answer))
        if settled is not None:
            answer = await answering.finish(wanted.viewer, settled, scope=wanted.scope, quote=quote)
        answer = _with_remark(answer, wanted.interpretation)
        withheld = await operator_restrictions(self.access, viewer, hidden, place=wanted.viewer.place)
        return replace(
            answer,
            question=question,
            degraded=asking.degraded,
            read=wanted.interpretation,
            postable=place.postable,
            withheld=withheld,
        )

    async def similar(self, viewer: Viewer, question: str, *, place: Destination, limit: int) -> SearchResult:
        """Return up to `limit` exchanges in which the viewer asked something like a question, most alike first."""
        _check_result_limit(limit)
        asking = await self._prepare(viewer, question, Filters(by=[lookup.SELF], literal=True))
        async with self._restricted_read(viewer, place.audit_action("search"), asking) as reading:
            wanted = await self._plan(reading.conn, viewer, asking, place)
            found = await _find_threads(reading.conn, wanted, limit=max(limit, MIN_CANDIDATES))
            hits = _question_hits(found.hits)[:limit]
            reading.record_shown([*wanted.named_ids, *message_ids_of_hits(hits)])
        return SearchResult(hits=hits, degraded=asking.degraded, postable=place.postable)

    def _restricted_read(
        self, viewer: Viewer, action: str, prepared: _PreparedQuestion
    ) -> AbstractAsyncContextManager[AuditedRead]:
        return self.access.reading(
            viewer, action, generic_plan=True, apply_restrictions=True, started_at=prepared.started_at
        )

    # Before the database is asked: no connection is held while the embedding model works

    async def _prepare(self, viewer: Viewer, text: str, filters: Filters) -> _PreparedQuestion:
        check_question(text)
        filters.check()
        began = perf_counter()
        asked = ParsedQuery(text=text) if filters.literal else parse_query(text)
        meaning = QuestionEmbedder(access=self.access, models=self.models)
        worded = await meaning.embed(viewer, sorted(asked.search_texts() - {""}))
        near = await self._graph_proximity.candidates(viewer) if filters.near else None
        return _PreparedQuestion(
            parsed=asked,
            filters=filters,
            questions=worded.questions,
            degraded=(*worded.degraded, *(near.degraded if near else ())),
            graph_candidates=near,
            embedder=worded.embedder,
            started_at=began,
        )

    async def _with_candidates(
        self,
        viewer: Viewer,
        prepared: _PreparedQuestion,
        place: Destination,
        *,
        limit: int,
        beyond_room: bool = False,
    ) -> _PreparedQuestion:
        """Return a question with what a copy proposes for it, where one is read; no connection is held meanwhile."""
        if self.settings.qdrant is None:
            return prepared
        from roomlore.operations.candidates import CandidateSource

        proposing = CandidateSource(
            access=self.access, settings=self.settings, projection_clients=self.servers()
        )
        copied, degraded = await proposing.readable_index()
        if copied is None:
            return replace(prepared, degraded=(*prepared.degraded, *degraded))
        await self.access.check_viewer(viewer, "ask" if beyond_room else "search")
        try:
            async with self.access.db.read_transaction(viewer, apply_restrictions=True) as conn:
                wanted = await self._plan(conn, viewer, prepared, place)
                if wanted.question is None:
                    return prepared
                seen = await proposing.build_query(conn, wanted.question, copied)
        except RoomloreError:
            # Whoever asks is told when the question is looked up, and the log has a line.
            return prepared
        scopes = [wanted.scope]
        if beyond_room and wanted.scope.room_ids is not None:
            scopes.append(replace(wanted.scope, room_ids=None))
        reach = max(limit, MIN_CANDIDATES) if wanted.only_questions else limit
        question, degraded = await proposing.add_candidates(
            wanted.question, copied, query=seen, scopes=scopes, limit=reach
        )
        worded = {**prepared.questions, question.text: question}
        return replace(prepared, questions=worded, degraded=(*prepared.degraded, *degraded))

    # Through the eyes of the viewer: what may not be seen is not there

    async def _plan(
        self, conn: Connection, viewer: Viewer, prepared: _PreparedQuestion, place: Destination
    ) -> _SearchPlan:
        """Return what a question looks for, and where; bind the rest of the read to a room that is named."""
        asked, filters = prepared.parsed, prepared.filters
        viewer, scope, now = await self._scope_at(conn, viewer, place)
        conversation_ids = (
            None
            if filters.conversation is None
            else [await lookup.conversation(conn, self.access.org_id, filters.conversation)]
        )
        # What somebody names goes before what the question says.
        read_who = (
            _AuthorFilter() if filters.by or filters.kinds else await self._author_filter(conn, viewer, asked)
        )
        who = read_who if read_who.is_usable else await _named_authors(conn, viewer, filters)
        told = None if filters.since or filters.until else asked.time_range(now)
        stretch = told or filters.time_range(now)
        ends = [end for end in (stretch.until, scope.until) if end is not None]
        narrowed = replace(
            scope,
            author_ids=[key.id for key in who.accounts] or None,
            author_kinds=who.kinds or None,
            conversation_ids=conversation_ids,
            answered=filters.answered,
            since=stretch.since,
            until=min(ends, default=None),
        )
        words = asked.search_text(author=read_who.is_usable, time=told is not None)
        question = prepared.questions.get(words)
        if question is not None and prepared.graph_candidates is not None:
            nearness = await self._graph_proximity.proximity(conn, viewer, prepared.graph_candidates)
            question = replace(question, proximity=nearness)
        return _SearchPlan(
            question=question,
            viewer=viewer,
            only_questions=read_who.is_usable and asked.wants_questions,
            scope=narrowed,
            interpretation=_interpretation(read_who, told, words),
            named_ids=[*(scope.room_ids or ()), *(narrowed.author_ids or ()), *(conversation_ids or ())],
        )

    @property
    def _graph_proximity(self) -> GraphProximity:
        from roomlore.operations.graph import GraphProximity

        return GraphProximity(access=self.access, settings=self.settings, projection_clients=self.servers())

    async def _scope_at(
        self, conn: Connection, viewer: Viewer, place: Destination
    ) -> tuple[Viewer, SearchFilter, datetime]:
        """Return for whom it is asked, where, and when that is."""
        org_id = self.access.org_id
        room_id = None if place.room is None else await lookup.room(conn, org_id, place.room)
        scope, now = SearchFilter(room_ids=None if room_id is None else [room_id]), self.now()
        if place.as_of is not None:
            async with without_restrictions(conn):
                last = await lookup.message(conn, org_id, place.as_of, room_id=room_id)
            scope, now = replace(scope, until=last.sent_at + INSTANT, last=last.position), last.sent_at
        if place.room is not None and room_id is not None and not place.private:
            viewer = await restrict_to_readers(conn, viewer, room_id, word=place.room)
        return viewer, scope, now

    async def _author_filter(self, conn: Connection, viewer: Viewer, asked: ParsedQuery) -> _AuthorFilter:
        """Return whose words a question asks for; nobody's where one of them is nobody whom the viewer may know of."""
        if asked.is_own and viewer.participant_id is None:
            return _AuthorFilter()
        named = await lookup.accounts_named(conn, self.access.org_id, asked.names) if asked.names else []
        if asked.names and not named:
            return _AuthorFilter(unknown=await _unknown(conn, viewer, asked.names))
        mine = (
            await directory.accounts(conn, self.access.org_id, viewer.participant_id) if asked.is_own else []
        )
        return _AuthorFilter(accounts=[*mine, *named], kinds=asked.kinds)


def check_question(text: str) -> None:
    """Do nothing if a text may be asked or searched for.

    Raises:
        BadInput: it is empty, or longer than any question.
    """
    if not text.strip():
        raise BadInput("question", "must not be empty")
    if len(text) > LONGEST_QUESTION:
        raise BadInput("question", f"must have at most {LONGEST_QUESTION:,} characters; ask for less of it")


def _check_result_limit(limit: int) -> None:
    if not 1 <= limit <= MOST_FOUND:
        raise BadInput("limit", f"must be at least 1 and at most {MOST_FOUND:,} exchanges")


async def _named_authors(conn: Connection, viewer: Viewer, filters: Filters) -> _AuthorFilter:
    """Return whose words somebody wants who names them."""
    accounts = [key for word in filters.by for key in await lookup.accounts_of_person(conn, viewer, word)]
    return _AuthorFilter(accounts=list(dict.fromkeys(accounts)), kinds=filters.kinds)


async def _unknown(conn: Connection, viewer: Viewer, names: Sequence[str]) -> list[str]:
    """Return the names that nobody has whom the viewer may know of."""
    named = [name for name in names if not is_generic_person(name)]
    return [name for name in named if not await lookup.accounts_named(conn, viewer.org_id, [name])]


def _with_remark(answer: Answer, read: AppliedFilters | None) -> Answer:
    """Return an answer that says so where the question names somebody unknown: these are others' words."""
    remark = read.unknown_names_note() if read else ""
    if not remark:
        return answer
    parts = (remark, answer.text) if answer.is_known else (answer.text, remark)
    return replace(answer, text=("\n" if answer.is_known else " ").join(parts))


async def _answer_stage(
    conn: Connection, wanted: _SearchPlan, similarities: Mapping[MemoryId, float]
) -> fallback_chain.FallbackResult | None:
    """Return what answers; None where everything is wanted, which is recited."""
    if wanted.question is None:
        return None
    from roomlore.search import fallback_chain

    return await fallback_chain.run_fallbacks(
        conn, wanted.viewer, wanted.question, scope=wanted.scope, similarities=similarities
    )


async def _find_threads(conn: Connection, wanted: _SearchPlan, *, limit: int) -> MessageSearchResult:
    viewer = wanted.viewer
    if wanted.question is None:
        from roomlore.search.recent import list_recent

        hits = await list_recent(conn, viewer, scope=wanted.scope, limit=limit)
        return MessageSearchResult(hits=hits, confidence=None, threshold=0.0)
    return await search_messages(conn, viewer, wanted.question, scope=wanted.scope, limit=limit)


def _interpretation(authors: _AuthorFilter, told: TimeRange | None, words: str) -> AppliedFilters | None:
    if not (authors.is_usable or authors.unknown or told):
        return None
    return AppliedFilters(
        by=list(dict.fromkeys(key.name for key in authors.accounts)),
        kinds=authors.kinds,
        since=told.since if told else None,
        until=told.until if told else None,
        words=words,
        unknown=authors.unknown,
    )


def _question_hits(hits: Iterable[Hit]) -> list[Hit]:
    """Return the finds that ask something, each with those of its messages alone as reasons that do."""
    found: list[Hit] = []
    for hit in hits:
        asking = {message.id for message in hit.messages if is_question(message.body)}
        why = {key: hit.why[key] for key in hit.why if key in asking}
        found += [replace(hit, why=why)] if why else []
    return found
