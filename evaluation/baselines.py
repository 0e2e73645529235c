"""Baselines that search is compared with: BM25, dense retrieval, and their fusions.

They use the stems and vectors that search itself uses, so that only the method differs. A question sees its room as
it was: later messages count in no statistic. Every message of the room is scored.

BM25: S. Robertson and H. Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond, Foundations and
Trends in Information Retrieval 3 (2009), with the idf of Lucene, which is never negative. Reciprocal rank fusion:
G. Cormack, C. Clarke and S. Büttcher, Reciprocal rank fusion outperforms Condorcet and individual rank learning
methods, SIGIR 2009.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import bm25s
import numpy as np
from numpy.typing import NDArray

from evaluation.benchmark import Progress
from evaluation.datasets import DatasetMessage, Question
from evaluation.metrics import Ranking
from roomlore.domain.errors import BadInput
from roomlore.domain.ports import Embedder
from roomlore.operations import App

Floats = NDArray[np.float64]
Vector = NDArray[np.float32]

K1 = 1.5
B = 0.75
#: Damps the first ranks in reciprocal rank fusion; the value of its authors.
RRF_K = 60
#: How many messages of a ranking are kept.
DEPTH = 100
#: Texts per statement.
BATCH = 2_000

METHODS = BM25, BM25_WINDOW, DENSE, RRF, FUSION, RRF_ALL = (
    "bm25",
    "bm25 x3",
    "dense",
    "rrf",
    "fusion",
    "rrf x3",
)

#: The stems of texts and how often each occurs, as search indexes them, in the order of the texts.
_STEMS = """
select
  coalesce(array_agg(word.lexeme) filter (where word.lexeme is not null), '{}'),
  coalesce(array_agg(cardinality(word.positions)) filter (where word.lexeme is not null), '{}')
from unnest(%(names)s::text[], %(texts)s::text[]) with ordinality as said (name, text, place)
left join lateral unnest(
  to_tsvector('english', said.name) || to_tsvector('english', left(said.text, 100000))
) as word on true
group by said.place
order by said.place
"""
#: The vectors of one model, of the messages that the viewer may read.
_VECTORS = """
select said.external_id, stored.embedding
from message_embeddings as stored
join messages as said on said.org_id = stored.org_id and said.id = stored.message_id
where stored.org_id = %(org_id)s and stored.model = %(model)s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One message as a baseline sees it."""

    message_id: str
    #: How often each stem occurs in "name: text".
    stems: Mapping[str, int]
    #: Normalised; None where the message has none.
    vector: Vector | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A question as a baseline sees it."""

    stems: Iterable[str]
    #: Normalised; None leaves out the methods that need it.
    vector: Vector | None
    #: The last message before the question; None for the last message of the room.
    last_message_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """The scores of one method for the messages of a room."""

    #: One for each message, in room order.
    values: Floats
    #: Confidence that the answer is among them, comparable across questions.
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The messages that one method finds for one question."""

    #: Message ids, best first.
    ranked: Sequence[str]
    confidence: float


class BaselineRoom:
    """The messages of one room, in its order, ready to be scored."""

    def __init__(self, documents: Sequence[Document], *, dimensions: int) -> None:
        self._ids = [document.message_id for document in documents]
        self._place = {message_id: place for place, message_id in enumerate(self._ids)}
        self._stems = [list(Counter(document.stems).elements()) for document in documents]
        self._vectors = np.zeros((len(documents), dimensions), np.float32)
        for place, document in enumerate(documents):
            if document.vector is not None:
                self._vectors[place] = document.vector
        # Most questions see the whole room; others see it at a time of their own.
        self._index = lru_cache(maxsize=4)(self._indexed)

    def find(self, query: Query) -> dict[str, Found]:
        """Return what each method finds in the room as it was when the question was asked.

        Raises:
            KeyError: The last message is not in the room.
        """
        count = len(self._ids)
        if query.last_message_id is not None:
            count = self._place[query.last_message_id] + 1
        lexical = self.bm25(query.stems, count=count)
        window = self.bm25(query.stems, count=count, around=1)
        scored = {BM25: lexical, BM25_WINDOW: window}
        if query.vector is not None:
            dense = self.dense(query.vector, count=count)
            scored |= {
                DENSE: dense,
                RRF: rank_fusion([lexical, dense]),
                FUSION: score_fusion(lexical, dense),
                RRF_ALL: rank_fusion([lexical, window, dense]),
            }
        return {name: self._ranked(one) for name, one in scored.items()}

    def bm25(self, stems: Iterable[str], *, count: int, around: int = 0) -> Scored:
        """Return the BM25 scores of the first messages.

        The confidence is the share of the highest score that any text could reach for the question.

        Args:
            stems: The question's; each counts once.
            count: How many messages there are yet.
            around: How many messages before and after count as part of each.
        """
        wanted = sorted(set(stems))
        index, frequencies = self._index(count, around)
        if index is None or not wanted:
            return Scored(values=np.zeros(count), confidence=0.0)
        values: Floats = index.get_scores(wanted)
        having = np.array([frequencies[stem] for stem in wanted])
        highest = np.log1p((count - having + 0.5) / (having + 0.5)).sum()
        return Scored(values=values, confidence=float(values.max() / highest))

    def _indexed(self, count: int, around: int) -> tuple[Any, Counter[str]]:
        """Return the BM25 index of the first messages, None where none has a word, and document frequencies."""
        windows = [
            [
                stem
                for stems in self._stems[max(place - around, 0) : min(place + around + 1, count)]
                for stem in stems
            ]
            for place in range(count)
        ]
        if not any(windows):
            return None, Counter()
        index: Any = bm25s.BM25(k1=K1, b=B, method="lucene", dtype="float64")
        index.index(windows, create_empty_token=False, show_progress=False)
        return index, Counter(stem for window in windows for stem in set(window))

    def dense(self, vector: Vector, *, count: int) -> Scored:
        """Return the cosine similarity of the first messages to the question; the confidence is the highest."""
        values = (self._vectors[:count] @ vector).astype(np.float64)
        return Scored(values=values, confidence=float(values.max(initial=-1.0)))

    def _ranked(self, scored: Scored) -> Found:
        order = np.argsort(-scored.values, kind="stable")[:DEPTH]
        # A message that scores zero is not found.
        places = order[scored.values[order] > 0]
        return Found(ranked=[self._ids[int(place)] for place in places], confidence=scored.confidence)


def rank_fusion(scored: Sequence[Scored]) -> Scored:
    """Return the reciprocal rank fusion of several methods; the confidence is the highest sum."""
    values = np.zeros(len(scored[0].values))
    for one in scored:
        order = np.argsort(-one.values, kind="stable")
        ranks = np.empty(len(order))
        ranks[order] = np.arange(1, len(order) + 1)
        values += np.where(one.values > 0, 1 / (RRF_K + ranks), 0.0)
    return Scored(values=values, confidence=float(values.max(initial=0.0)))


def score_fusion(one: Scored, other: Scored) -> Scored:
    """Return the mean of two methods' scores, each scaled to 0..1; the confidence is the mean of theirs."""
    return Scored(
        values=(_scaled(one.values) + _scaled(other.values)) / 2,
        confidence=(one.confidence + other.confidence) / 2,
    )


def _scaled(values: Floats) -> Floats:
    if not values.size or values.max() == values.min():
        return np.zeros(len(values))
    return (values - values.min()) / (values.max() - values.min())


@dataclass(frozen=True, slots=True, kw_only=True)
class Baselines:
    """The baselines on the rooms of a data set."""

    app: App
    rooms: Mapping[str, BaselineRoom]
    embedder: Embedder | None

    @classmethod
    async def read(
        cls, app: App, messages: Sequence[DatasetMessage], embedder: Embedder | None
    ) -> "Baselines":
        """Return the baselines on the stems of "name: text" and the stored vectors of the embedder.

        The messages are in the order of their rooms. Without an embedder the methods that need vectors are left out.
        """
        stems = await stems_of(app, [(message.author_name, message.text) for message in messages])
        vectors = {} if embedder is None else await message_vectors(app, embedder.model_id)
        documents: dict[str, list[Document]] = defaultdict(list)
        for message, words in zip(messages, stems, strict=True):
            document = Document(message_id=message.id, stems=words, vector=vectors.get(message.id))
            documents[message.room].append(document)
        dimensions = 0 if embedder is None else embedder.dimensions
        rooms = {room: BaselineRoom(said, dimensions=dimensions) for room, said in documents.items()}
        return cls(app=app, rooms=rooms, embedder=embedder)

    async def rankings(self, questions: Sequence[Question], progress: Progress) -> dict[str, list[Ranking]]:
        """Return by method what it finds for each question, in its room, at its time.

        Raises:
            BadInput: A question names a room or a message that does not exist.
        """
        rankings: dict[str, list[Ranking]] = defaultdict(list)
        for question, query in zip(questions, await self._queries(questions), strict=True):
            try:
                found = self.rooms[question.room].find(query)
            except KeyError as error:
                raise BadInput(f"question {question.id}", f"nothing is {error} in its room") from error
            for name, one in found.items():
                ranking = Ranking(question_id=question.id, ranked=one.ranked, score=one.confidence)
                rankings[name].append(ranking)
            progress(1)
        return dict(rankings)

    async def _queries(self, questions: Sequence[Question]) -> list[Query]:
        # Negatives repeat a question.
        texts = list(dict.fromkeys(question.question for question in questions))
        stems = dict(zip(texts, await stems_of(self.app, [("", text) for text in texts]), strict=True))
        vectors: dict[str, Vector] = {}
        if self.embedder is not None:
            vectors = dict(zip(texts, await asyncio.to_thread(self.embedder.embed, texts), strict=True))
        return [
            Query(
                stems=stems[question.question],
                vector=vectors.get(question.question),
                last_message_id=question.as_of_message_id,
            )
            for question in questions
        ]


async def stems_of(app: App, said: Sequence[tuple[str, str]]) -> list[dict[str, int]]:
    """Return how often each stem occurs in each pair of name and text, without stop words, as search indexes it."""
    found: list[dict[str, int]] = []
    async with app.db.read_transaction(app.operator) as conn:
        for start in range(0, len(said), BATCH):
            names, texts = zip(*said[start : start + BATCH], strict=True)
            params = {"names": list(map(_storable, names)), "texts": list(map(_storable, texts))}
            rows = await (await conn.execute(_STEMS, params)).fetchall()
            found += [dict(zip(stems, counts, strict=True)) for stems, counts in rows]
    return found


async def message_vectors(app: App, model: str) -> dict[str, Vector]:
    """Return the stored vectors of one model by the external ids of their messages."""
    async with app.db.read_transaction(app.operator) as conn:
        rows = await (await conn.execute(_VECTORS, {"org_id": app.org_id, "model": model})).fetchall()
    return {external_id: embedding.to_numpy().astype(np.float32) for external_id, embedding in rows}


def _storable(text: str) -> str:
    # PostgreSQL takes neither NUL nor half a surrogate pair.
    return text.encode("utf-8", "replace").decode().replace("\0", " ")
