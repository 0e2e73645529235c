"""The lexical half of search by itself: single messages by their own words alone, as the database finds them.

It should find what a reference BM25 finds. What rooms add is left out: neighbours, meaning, whole exchanges.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from roomlore.app import App
from roomlore.domain.records import Viewer
from roomlore.evaluation.askers import Askers
from roomlore.evaluation.asking import EXCHANGES, Progress, each
from roomlore.evaluation.datasets import Question
from roomlore.evaluation.metrics import Ranking
from roomlore.retrieval import meant
from roomlore.retrieval.scoring import Stages
from roomlore.retrieval.search import Question as Asked
from roomlore.retrieval.search import search
from roomlore.store.queries import Connection
from roomlore.store.search import Scope

#: Words alone, each message for itself.
PLAIN = Stages(neighbours=False, dense=0.0)
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
        return await _ranking(app, askers.viewer(question), question)

    return await each(questions, ranking, progress)


async def _ranking(app: App, viewer: Viewer, question: Question) -> Ranking:
    asked = Asked(text=question.question, vector=None)
    async with app.db.reading(viewer, keeps_plans=True) as conn:
        scope = await _scope(conn, app, question)
        searched = await search(conn, viewer, asked, scope=scope, limit=EXCHANGES, stages=PLAIN)
    scores = {
        message.external_id: (-hit.why[message.id].score, message.position)
        for hit in searched.hits
        for message in hit.messages
        # What has none of the words only stood beside what has.
        if message.id in hit.why and hit.why[message.id].terms
    }
    ranked = sorted(scores, key=lambda external_id: scores[external_id])
    return Ranking(question_id=question.id, ranked=ranked, score=searched.certainty or 0.0)


async def _scope(conn: Connection, app: App, question: Question) -> Scope:
    room_id = await meant.room(conn, app.org_id, question.room)
    scope = Scope(room_ids=[room_id])
    if question.as_of_message_id is None:
        return scope
    last = await meant.message(conn, app.org_id, question.as_of_message_id, room_id=room_id)
    return replace(scope, until=last.sent_at + _MOMENT, last=last.position)
