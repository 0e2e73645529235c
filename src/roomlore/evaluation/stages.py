"""Search with some of its stages left out, for seeing what each of them adds.

Its lexical half by itself, single messages by their own words alone, should find what a reference BM25 finds.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from roomlore.app import App
from roomlore.domain.ports import Embedder
from roomlore.domain.records import Viewer
from roomlore.evaluation.askers import Askers
from roomlore.evaluation.asking import EXCHANGES, Progress, each, ranked
from roomlore.evaluation.datasets import Question
from roomlore.evaluation.metrics import Ranking
from roomlore.retrieval import meant
from roomlore.retrieval.records import Hit
from roomlore.retrieval.scoring import Stages
from roomlore.retrieval.search import Question as Asked
from roomlore.retrieval.search import Searched, search
from roomlore.store.queries import Connection
from roomlore.store.search import Scope

#: Words alone, each message for itself.
PLAIN = Stages(neighbours=False, dense=0.0, comparison=0.0)
#: What is left where one stage is left out.
WITHOUT = {
    "no neighbours": Stages(neighbours=False),
    "no nearness": Stages(dense=0.0),
    "no tokens": Stages(comparison=0.0),
}
#: The shortest time between two messages.
_MOMENT = timedelta(microseconds=1)


async def lexical_rankings(
    app: App, questions: Sequence[Question], progress: Progress, *, askers: Askers
) -> list[Ranking]:
    """Return what is found for each question by words alone, in its room, at its time, best message first.

    Args:
        app: Holds the messages.
        questions: What is asked.
        progress: Told of each question that was asked.
        askers: For whom each is asked.
    """

    async def ranking(question: Question) -> Ranking:
        asked = Asked(text=question.question, vector=None)
        found = await _searched(app, askers.viewer(question), question, asked, stages=PLAIN)
        return Ranking(question_id=question.id, ranked=_worded(found.hits), score=found.certainty or 0.0)

    return await each(questions, ranking, progress)


async def rankings_without(
    app: App,
    embedder: Embedder,
    questions: Sequence[Question],
    progress: Progress,
    *,
    askers: Askers,
    stages: Stages,
) -> list[Ranking]:
    """Return what search finds for each question by some of its stages, in its room, at its time.

    Args:
        app: Holds the messages.
        embedder: Its embedding model.
        questions: What is asked.
        progress: Told of each question that was asked.
        askers: For whom each is asked.
        stages: What counts.
    """

    async def ranking(question: Question) -> Ranking:
        made = await asyncio.to_thread(embedder.read, [question.question])
        asked = Asked(
            text=question.question,
            vector=(embedder.model_id, made.vectors[0]),
            tokens=made.tokens[0] if made.tokens else None,
        )
        found = await _searched(app, askers.viewer(question), question, asked, stages=stages)
        return Ranking(question_id=question.id, ranked=ranked(found.hits), score=found.certainty or 0.0)

    return await each(questions, ranking, progress)


async def _searched(
    app: App, viewer: Viewer, question: Question, asked: Asked, *, stages: Stages
) -> Searched:
    async with app.db.reading(viewer, keeps_plans=True, recalls=True) as conn:
        scope = await _scope(conn, app, question)
        return await search(conn, viewer, asked, scope=scope, limit=EXCHANGES, stages=stages)


def _worded(hits: Sequence[Hit]) -> list[str]:
    """Return what has a word of the question, best first: what has none only stood beside what has."""
    scores = {
        message.external_id: (-hit.why[message.id].score, message.position)
        for hit in hits
        for message in hit.messages
        if message.id in hit.why and hit.why[message.id].terms
    }
    return sorted(scores, key=lambda external_id: scores[external_id])


async def _scope(conn: Connection, app: App, question: Question) -> Scope:
    room_id = await meant.room(conn, app.org_id, question.room)
    scope = Scope(room_ids=[room_id])
    if question.as_of_message_id is None:
        return scope
    last = await meant.message(conn, app.org_id, question.as_of_message_id, room_id=room_id)
    return replace(scope, until=last.sent_at + _MOMENT, last=last.position)
