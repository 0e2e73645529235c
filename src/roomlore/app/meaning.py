"""Questions as vectors: of the model that searches use, and of the next one while that is being filled."""

from collections.abc import Sequence
from dataclasses import dataclass

from roomlore.app.desk import Desk
from roomlore.app.embedding import Models
from roomlore.domain.errors import BadInput, ModelUnavailable, TextRefused
from roomlore.domain.ports import Embedder, Readings
from roomlore.domain.records import Viewer
from roomlore.retrieval.records import Degradation
from roomlore.retrieval.search import Question
from roomlore.store import generations

NO_MODEL: Degradation = "no embedding model"
ONE_AWAY: Degradation = "one of two embedding models is unavailable"
BEHIND: Degradation = "not everything is embedded yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Worded:
    """Texts as retrieval takes them."""

    questions: dict[str, Question]
    #: What it has to do without.
    degraded: Sequence[Degradation]
    #: Made the vectors that are compared; None: there are none.
    embedder: Embedder | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """Vectors of questions to an org."""

    desk: Desk
    models: Models

    async def worded(self, viewer: Viewer, texts: Sequence[str]) -> Worded:
        """Return texts as retrieval takes them: with what the current model makes of them, and the next one, if any.

        Either serves alone while the other is away.
        """
        held = await self.models.generations(self.desk.org_id)
        current, coming = held.get("current"), held.get("next")
        first = await self._asked(self.models.default if current is None else current.provider, texts)
        second = None if coming is None else await self._asked(coming.provider, texts)
        degraded: list[Degradation] = []
        if coming is not None and (first is None or second is None):
            degraded.append(ONE_AWAY)
        if first is None:
            first, second = second, None
        if first is None:
            plain = {text: Question(text=text, vector=None) for text in texts}
            return Worded(questions=plain, degraded=(NO_MODEL,), embedder=None)
        if await self._is_behind(viewer, first[0]):
            degraded.append(BEHIND)
        return Worded(questions=_questions(texts, first, second), degraded=tuple(degraded), embedder=first[0])

    async def _asked(self, provider: str, texts: Sequence[str]) -> tuple[Embedder, Readings] | None:
        try:
            return await self.models.asked(provider, texts)
        except (BadInput, ModelUnavailable, TextRefused):
            # What it needs may not be installed here.
            return None

    async def _is_behind(self, viewer: Viewer, embedder: Embedder) -> bool:
        if not viewer.is_operator:
            # Nobody else may learn that something unread is waiting.
            return False
        async with self.desk.db.reading(viewer) as conn:
            return await generations.is_behind(conn, self.desk.org_id, embedder.model_id)


def _questions(
    texts: Sequence[str], first: tuple[Embedder, Readings], second: tuple[Embedder, Readings] | None
) -> dict[str, Question]:
    embedder, made = first
    tokens = made.tokens or [None] * len(texts)
    also = [None] * len(texts)
    if second is not None and second[0].model_id != embedder.model_id:
        also = [(second[0].model_id, vector) for vector in second[1].vectors]
    return {
        text: Question(text=text, vector=(embedder.model_id, vector), tokens=rows, also=other)
        for text, vector, rows, other in zip(texts, made.vectors, tokens, also, strict=True)
    }
