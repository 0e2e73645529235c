"""Asks Roomlore the questions of a data set: with the usual search, and with some features left out."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TypeVar

from evaluation.benchmark import Progress
from evaluation.datasets import DatasetMessage, Question
from evaluation.loading import PLATFORM
from evaluation.metrics import Ranking
from roomlore.db.queries import Connection
from roomlore.db.search import SearchFilter
from roomlore.domain.ports import Embedder
from roomlore.domain.records import Viewer
from roomlore.operations import App
from roomlore.search import lookup
from roomlore.search.message_search import MessageSearchResult, search_messages
from roomlore.search.message_search import SearchQuery as Query
from roomlore.search.ranking import ScoringFeatures
from roomlore.search.records import Hit, SearchResult

#: Searches for a question, for a viewer.
Search = Callable[[App, Viewer, Question], Awaitable[SearchResult]]
Item = TypeVar("Item")
Result = TypeVar("Result")

#: Deep enough for the largest cut-off of the metrics.
EXCHANGES = 50
#: Questions under way at once: the database works on one while another is embedded.
CONCURRENCY = 4
#: Lexical search alone, of single messages.
LEXICAL = ScoringFeatures(neighbours=False, dense=0.0, late_interaction=0.0)
#: Why a question is asked for whom.
ASKER, NO_ASKER, UNKNOWN_ASKER = (
    "the asker",
    "the operator, since no asker is given",
    "the operator, since the asker never spoke in the room",
)
#: The shortest time between two messages.
_MOMENT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewers:
    """For whom each question is asked."""

    operator: Viewer
    #: By question, where its asker spoke in the room.
    by_question: Mapping[str, Viewer]
    #: How many questions are asked for whom.
    counts: Mapping[str, int]

    def of(self, question: Question) -> Viewer:
        """Return for whom a question is asked."""
        return self.by_question.get(question.id, self.operator)


async def viewers_of(app: App, questions: Sequence[Question], messages: Iterable[DatasetMessage]) -> Viewers:
    """Return for whom each question is asked: its asker, or the operator if they never spoke in the room."""
    spoke = {(message.room, message.author_id) for message in messages}
    wanted = {q.id: q.asker_id for q in questions if q.asker_id and (q.room, q.asker_id) in spoke}
    by_account = await _viewers_by_account(app, set(wanted.values())) if wanted else {}
    by_question = {key: by_account[asker] for key, asker in wanted.items() if asker in by_account}
    counts = Counter(
        ASKER if question.id in by_question else UNKNOWN_ASKER if question.asker_id else NO_ASKER
        for question in questions
    )
    return Viewers(operator=app.operator, by_question=by_question, counts=counts)


async def _viewers_by_account(app: App, account_ids: set[str]) -> dict[str, Viewer]:
    accounts = await app.people.accounts(app.operator)
    return {
        account.account_id: await app.viewer(str(account.participant_id))
        for account in accounts
        if account.platform == PLATFORM and account.account_id in account_ids
    }


async def concurrently(
    items: Iterable[Item], work: Callable[[Item], Awaitable[Result]], progress: Progress
) -> list[Result]:
    """Return the results of the work on each item, in their order; the first failure ends it."""
    gate = asyncio.Semaphore(CONCURRENCY)

    async def one(item: Item) -> Result:
        async with gate:
            result = await work(item)
        progress(1)
        return result

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(item)) for item in items]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]


async def search_room(
    app: App, viewer: Viewer, question: Question, *, limit: int = EXCHANGES
) -> SearchResult:
    """Return what a viewer finds for a question in its room, at its time."""
    return await app.search(
        viewer,
        question.question,
        room=question.room,
        limit=limit,
        as_of=question.as_of_message_id,
        private=True,
    )


async def rankings(
    app: App,
    questions: Sequence[Question],
    progress: Progress,
    *,
    search: Search = search_room,
    viewers: Viewers | None = None,
) -> list[Ranking]:
    """Return what search finds for each question, in its room, at its time; by default for the operator."""

    async def ranking(question: Question) -> Ranking:
        found = await search(app, viewers.of(question) if viewers else app.operator, question)
        return Ranking(question_id=question.id, ranked=ranked(found.hits), score=found.confidence or 0.0)

    return await concurrently(questions, ranking, progress)


async def lexical_rankings(
    app: App, questions: Sequence[Question], progress: Progress, *, viewers: Viewers
) -> list[Ranking]:
    """Return what lexical search alone finds for each question: single messages that have a word of it."""

    async def ranking(question: Question) -> Ranking:
        query = Query(text=question.question, vector=None)
        found = await _searched(app, viewers.of(question), question, query, features=LEXICAL)
        return Ranking(question_id=question.id, ranked=_with_terms(found.hits), score=found.confidence or 0.0)

    return await concurrently(questions, ranking, progress)


async def ablated_rankings(
    app: App,
    embedder: Embedder,
    questions: Sequence[Question],
    progress: Progress,
    *,
    viewers: Viewers,
    features: ScoringFeatures,
) -> list[Ranking]:
    """Return what search finds for each question with only some of its features; `embedder` is that of the App."""

    async def ranking(question: Question) -> Ranking:
        read = await asyncio.to_thread(embedder.embed_with_tokens, [question.question])
        query = Query(
            text=question.question,
            vector=(embedder.model_id, read.vectors[0]),
            tokens=read.tokens[0] if read.tokens else None,
        )
        found = await _searched(app, viewers.of(question), question, query, features=features)
        return Ranking(question_id=question.id, ranked=ranked(found.hits), score=found.confidence or 0.0)

    return await concurrently(questions, ranking, progress)


def ranked(hits: Iterable[Hit]) -> list[str]:
    """Return the external ids of what was found, best first, each once."""
    return list(dict.fromkeys(external_id for hit in hits for external_id in _in_order(hit)))


def _in_order(hit: Hit) -> Iterator[str]:
    """Yield the external ids of an exchange: the matches, best first, then the rest."""
    matched = sorted(
        (message for message in hit.messages if message.id in hit.why),
        key=lambda message: (-hit.why[message.id].score, message.position),
    )
    yield from (message.external_id for message in matched)
    yield from (message.external_id for message in hit.messages if message.id not in hit.why)


def _with_terms(hits: Sequence[Hit]) -> list[str]:
    """Return the messages that have a word of the question, best first; others only surround them."""
    scores = {
        message.external_id: (-hit.why[message.id].score, message.position)
        for hit in hits
        for message in hit.messages
        if message.id in hit.why and hit.why[message.id].terms
    }
    return sorted(scores, key=lambda external_id: scores[external_id])


async def _searched(
    app: App, viewer: Viewer, question: Question, query: Query, *, features: ScoringFeatures
) -> MessageSearchResult:
    async with app.db.read_transaction(viewer, generic_plan=True, apply_restrictions=True) as conn:
        scope = await _scope(conn, app, question)
        return await search_messages(
            conn, viewer, query, search_filter=scope, limit=EXCHANGES, features=features
        )


async def _scope(conn: Connection, app: App, question: Question) -> SearchFilter:
    room_id = await lookup.room(conn, app.org_id, question.room)
    scope = SearchFilter(room_ids=[room_id])
    if question.as_of_message_id is None:
        return scope
    last = await lookup.message(conn, app.org_id, question.as_of_message_id, room_id=room_id)
    return replace(scope, until=last.sent_at + _MOMENT, last=last.position)
