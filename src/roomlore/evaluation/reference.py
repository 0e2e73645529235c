"""Asks the reference methods what search is asked, about the same messages."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from roomlore.app import App
from roomlore.domain.errors import BadInput
from roomlore.domain.ports import Embedder
from roomlore.evaluation.baselines import Asked, Line, ReferenceRoom, Vector
from roomlore.evaluation.datasets import DatasetMessage, Question
from roomlore.evaluation.metrics import Ranking
from roomlore.evaluation.placing import Progress
from roomlore.store import measuring


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The rooms of a data set as reference methods see them."""

    app: App
    rooms: Mapping[str, ReferenceRoom]
    embedder: Embedder | None

    @classmethod
    async def read(
        cls, app: App, messages: Sequence[DatasetMessage], embedder: Embedder | None
    ) -> "Reference":
        """Return the rooms, with the stems of "name: text", and the vectors that are stored of the embedder.

        Args:
            app: Has the messages, and their vectors.
            messages: In the order of their rooms.
            embedder: None leaves out the methods that need vectors.
        """
        said = [(message.author_name, message.text) for message in messages]
        async with app.db.reading(app.operator) as conn:
            stems = await measuring.stems(conn, said)
            vectors: Mapping[str, Vector] = {}
            if embedder is not None:
                vectors = await measuring.message_vectors(conn, app.org_id, embedder.model_id)
        lines: dict[str, list[Line]] = defaultdict(list)
        for message, words in zip(messages, stems, strict=True):
            line = Line(message_id=message.id, stems=words, vector=vectors.get(message.id))
            lines[message.room].append(line)
        dimensions = embedder.dimensions if embedder is not None else 0
        rooms = {room: ReferenceRoom(said, dimensions=dimensions) for room, said in lines.items()}
        return cls(app=app, rooms=rooms, embedder=embedder)

    async def runs(self, questions: Sequence[Question], progress: Progress) -> dict[str, list[Ranking]]:
        """Return what each method finds for the questions, each in its room, at its time.

        Raises:
            BadInput: a question is about a room, or as of a message, that is not there.
        """
        runs: dict[str, list[Ranking]] = defaultdict(list)
        for question, asked in zip(questions, await self._asked(questions), strict=True):
            try:
                found = self.rooms[question.room].find(asked)
            except KeyError as error:
                raise BadInput(f"question {question.id}", f"nothing is {error} in its room") from error
            for name, one in found.items():
                runs[name].append(Ranking(question_id=question.id, ranked=one.ranked, score=one.certainty))
            progress(1)
        return dict(runs)

    async def _asked(self, questions: Sequence[Question]) -> list[Asked]:
        # Some are asked in two rooms.
        texts = list(dict.fromkeys(question.question for question in questions))
        async with self.app.db.reading(self.app.operator) as conn:
            stems = await measuring.stems(conn, [("", text) for text in texts])
        vectors: Sequence[Vector | None] = [None] * len(texts)
        if self.embedder is not None:
            vectors = list(await asyncio.to_thread(self.embedder.embed, texts))
        said = dict(zip(texts, zip(stems, vectors, strict=True), strict=True))
        return [
            Asked(
                stems=said[question.question][0],
                vector=said[question.question][1],
                last_message_id=question.as_of_message_id,
            )
            for question in questions
        ]
