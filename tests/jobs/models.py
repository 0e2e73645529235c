"""Embedding models that come and go, and orgs that are served by several."""

from collections.abc import Sequence
from typing import Any

import psycopg

from roomlore.domain.errors import ModelUnavailable
from roomlore.domain.ports import TextEmbeddings
from roomlore.domain.vectors import Vectors
from roomlore.models.fake import FakeEmbedder
from roomlore.operations import App
from roomlore.operations.embedding_models import ModelCache

#: What the second model of these tests is called, and how long its vectors are.
SMALL, SHORT = "small", 64


class Moody(FakeEmbedder):
    """A model that can be away, and refuse to embed some texts."""

    def __init__(self, dimensions: int = SHORT, *, poison: str | None = None) -> None:
        super().__init__(dimensions)
        self.is_away = False
        self.poison = poison
        self.seen: list[str] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        if self.is_away:
            raise ModelUnavailable("embedding model: the connection failed", cure="wait")
        if self.poison is not None and any(self.poison in text for text in texts):
            raise ValueError("cannot")
        self.seen.extend(texts)
        return super().embed(texts)

    def embed_with_tokens(self, texts: Sequence[str]) -> TextEmbeddings:
        if self.is_away:
            raise ModelUnavailable("embedding model: the connection failed", cure="wait")
        return super().embed_with_tokens(texts)


def served(app: App, default: FakeEmbedder, **others: FakeEmbedder) -> App:
    """Return the app where several models can be had."""
    return App(
        db=app.db,
        org_id=app.org_id,
        settings=app.settings,
        _embedder=default,
        _model_cache=ModelCache(provided=others),
    )


async def vectors(admin: psycopg.AsyncConnection[Any], app: App) -> dict[str, set[str]]:
    """Return which messages have a vector, by external id, of which model."""
    rows = await admin.execute(
        """select model, array_agg(external_id order by external_id) from message_embeddings as vectors
           join messages using (org_id, room_id) where messages.id = message_id and org_id = %s group by model""",
        [app.org_id],
    )
    return {model: set(ids) for model, ids in await rows.fetchall()}


async def states(admin: psycopg.AsyncConnection[Any], app: App) -> dict[str, str]:
    """Return which model is in which state."""
    rows = await admin.execute(
        "select state, provider from embedding_versions where org_id = %s", [app.org_id]
    )
    return dict(await rows.fetchall())


async def waiting(admin: psycopg.AsyncConnection[Any], app: App) -> dict[str, int]:
    """Return how much waits to be embedded, by stage."""
    rows = await admin.execute(
        "select queue, count(*) from work_queue where org_id = %s and queue in ('embed', 'reembed') group by queue",
        [app.org_id],
    )
    return dict(await rows.fetchall())
