"""Questions as vectors: of the model that searches use, and of the next one while that is being filled."""

from collections.abc import Sequence
from dataclasses import dataclass

from roomlore.app.desk import Access
from roomlore.app.embedding import EmbeddingModels
from roomlore.domain.errors import BadInput, ModelUnavailable, TextRefused
from roomlore.domain.ports import Embedder, TextEmbeddings
from roomlore.domain.records import Viewer
from roomlore.retrieval.records import SearchDegradation
from roomlore.retrieval.search import SearchQuery
from roomlore.store import generations

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
        return EmbeddedQuestions(questions=_questions(texts, first, second), degraded=tuple(degraded), embedder=first[0])

    async def _embed_with(self, provider: str, texts: Sequence[str]) -> tuple[Embedder, TextEmbeddings] | None:
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
            return await generations.is_behind(conn, self.access.org_id, embedder.model_id)


def _questions(
    texts: Sequence[str], first: tuple[Embedder, TextEmbeddings], second: tuple[Embedder, TextEmbeddings] | None
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
