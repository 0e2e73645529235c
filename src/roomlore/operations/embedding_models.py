"""The configured embedding models. Each is loaded on first use, and each may be unavailable."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from roomlore.db import embedding_versions
from roomlore.db.database import Database
from roomlore.db.embedding_versions import EmbeddingVersion, VersionState
from roomlore.domain.errors import BadInput, ModelUnavailable
from roomlore.domain.ids import OrgId
from roomlore.domain.ports import Embedder, TextEmbeddings
from roomlore.domain.records import Viewer
from roomlore.models.local_embedding import LocalEmbedder, bundled_embedder
from roomlore.settings import DEFAULT_EMBEDDING, EmbeddingSettings, Settings

#: The timeout of one request with its retries: for the worker, and for somebody who waits.
BATCH_TIMEOUT_SECONDS, INTERACTIVE_TIMEOUT_SECONDS = 60.0, 5.0
#: The timeout of the first request to a server that loads its model on demand.
WARM_UP_SECONDS = 30.0
#: The time for which a server is not asked after a failed question.
BACKOFF_SECONDS = 30.0

#: The name of a vector space and the length of its vectors, if known.
VectorSpace = tuple[str | None, int | None]


@dataclass(slots=True)
class ModelCache:
    """Loads each embedding model once, for all callers of an App."""

    #: These models replace configured models.
    provided: Mapping[str, Embedder] = field(default_factory=dict[str, Embedder])
    clock: Callable[[], float] = time.monotonic
    _loaded: dict[tuple[str, bool], Embedder] = field(default_factory=dict[tuple[str, bool], Embedder])
    _locks: dict[tuple[str, bool], asyncio.Lock] = field(default_factory=dict[tuple[str, bool], asyncio.Lock])
    #: The last error of each model.
    _failed: dict[tuple[str, bool], ModelUnavailable] = field(
        default_factory=dict[tuple[str, bool], ModelUnavailable]
    )
    _backing_off: dict[str, tuple[float, ModelUnavailable]] = field(
        default_factory=dict[str, tuple[float, ModelUnavailable]]
    )

    async def embedder(
        self,
        settings: Settings,
        name: str = DEFAULT_EMBEDDING,
        *,
        is_interactive: bool = False,
        open_timeout_seconds: float = INTERACTIVE_TIMEOUT_SECONDS,
    ) -> Embedder:
        """Return the embedding model of a name. An interactive model has a short timeout.

        If several callers open a server at the same time, they wait for one attempt and share its error.

        Raises:
            BadInput: the package for remote models is not installed.
            ModelUnavailable: there is no such model, or it cannot be loaded.
        """
        if name in self.provided:
            return self.provided[name]
        key = (name, is_interactive and is_remote(settings, name))
        before = self._failed.get(key)
        async with self._locks.setdefault(key, asyncio.Lock()):
            if key in self._loaded:
                return self._loaded[key]
            failed = self._failed.get(key)
            if failed is not None and failed is not before:
                # Another caller's attempt failed while this one waited.
                raise ModelUnavailable(failed.why, cure=failed.cure)
            seconds = INTERACTIVE_TIMEOUT_SECONDS if is_interactive else BATCH_TIMEOUT_SECONDS
            try:
                self._loaded[key] = await load_embedder(
                    settings, name, seconds=seconds, open_timeout_seconds=open_timeout_seconds
                )
            except ModelUnavailable as error:
                self._failed[key] = error
                raise
            return self._loaded[key]

    def cached(self, name: str) -> Embedder | None:
        """Return an embedding model that is provided or already loaded."""
        return self.provided.get(name) or self._loaded.get((name, False)) or self._loaded.get((name, True))

    async def embed_query(
        self, settings: Settings, name: str, texts: Sequence[str]
    ) -> tuple[Embedder, TextEmbeddings]:
        """Return an embedding model and the embeddings of a question. A server that has just failed is not asked.

        Raises:
            BadInput: the package for remote models is not installed.
            ModelUnavailable: the model cannot be loaded, or fails.
            TextRefused: the model rejects the question.
        """
        until, error = self._backing_off.get(name, (0.0, None))
        if error is not None and self.clock() < until:
            raise ModelUnavailable(error.why, cure=error.cure)
        try:
            embedder = await self.embedder(settings, name, is_interactive=True)
            embeddings = await asyncio.to_thread(embedder.embed_with_tokens, texts)
        except ModelUnavailable as error:
            if is_remote(settings, name):
                self._backing_off[name] = (self.clock() + BACKOFF_SECONDS, error)
            raise
        self._backing_off.pop(name, None)
        return embedder, embeddings


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingModels:
    """The embedding models of a deployment, and which of them serve which org.

    The methods raise the errors of `ModelCache`.
    """

    db: Database
    settings: Settings
    cache: ModelCache
    #: Replaces the default model.
    provided: Embedder | None = None

    @property
    def default(self) -> str:
        """The name of the model that an org uses at first."""
        return DEFAULT_EMBEDDING

    @property
    def names(self) -> list[str]:
        """The names of all models."""
        return [DEFAULT_EMBEDDING, *sorted({*self.settings.embeddings, *self.cache.provided})]

    async def load(
        self,
        name: str,
        *,
        is_interactive: bool = False,
        open_timeout_seconds: float = INTERACTIVE_TIMEOUT_SECONDS,
    ) -> Embedder:
        """Return the embedding model of a name."""
        if name == DEFAULT_EMBEDDING and self.provided is not None:
            return self.provided
        return await self.cache.embedder(
            self.settings, name, is_interactive=is_interactive, open_timeout_seconds=open_timeout_seconds
        )

    async def warm_up(self, name: str) -> Embedder:
        """Return the embedding model of a name. Give its server time to load it."""
        return await self.load(name, open_timeout_seconds=WARM_UP_SECONDS)

    async def embed_query(self, name: str, texts: Sequence[str]) -> tuple[Embedder, TextEmbeddings]:
        """Return the embedding model of a name and the embeddings of a question."""
        if name == DEFAULT_EMBEDDING and self.provided is not None:
            return self.provided, await asyncio.to_thread(self.provided.embed_with_tokens, texts)
        return await self.cache.embed_query(self.settings, name, texts)

    async def versions(self, org_id: OrgId) -> dict[VersionState, EmbeddingVersion]:
        """Return the embedding versions of an org."""
        async with self.db.read_transaction(Viewer.operator(org_id)) as conn:
            return await embedding_versions.all_versions(conn, org_id)

    async def current(self, org_id: OrgId) -> Embedder:
        """Return the embedding model that an org uses."""
        version = (await self.versions(org_id)).get("current")
        return await self.load(DEFAULT_EMBEDDING if version is None else version.provider)

    async def vector_space(self, name: str) -> VectorSpace:
        """Return the vector space of a model. Load the model if possible."""
        try:
            embedder = await self.load(name, is_interactive=True)
        except (BadInput, ModelUnavailable):
            return self.known_space(name)
        return embedder.model_id, embedder.dimensions

    def known_space(self, name: str) -> VectorSpace:
        """Return the vector space of a model without loading it."""
        is_default = name == DEFAULT_EMBEDDING
        loaded = (self.provided if is_default else None) or self.cache.cached(name)
        if loaded is not None:
            return loaded.model_id, loaded.dimensions
        named = self.settings.embedding if is_default else self.settings.embeddings.get(name)
        if isinstance(named, EmbeddingSettings):
            from roomlore.models.http_models import vector_space_name  # noqa: PLC0415  needs the extra

            return vector_space_name(named.name, named.dimensions), named.dimensions
        return None, None


def is_remote(settings: Settings, name: str) -> bool:
    """Return whether a model runs on a server."""
    return isinstance(_model_settings(settings, name), EmbeddingSettings)


def _model_settings(settings: Settings, name: str) -> EmbeddingSettings | Path | None:
    if name == DEFAULT_EMBEDDING:
        return settings.embedding or settings.model
    if name not in settings.embeddings:
        raise ModelUnavailable(
            f"no embedding model is called {name!r} here", cure="name it in the file of ROOMLORE_EMBEDDINGS"
        )
    return settings.embeddings[name]


async def load_embedder(
    settings: Settings,
    name: str = DEFAULT_EMBEDDING,
    *,
    seconds: float = BATCH_TIMEOUT_SECONDS,
    open_timeout_seconds: float = INTERACTIVE_TIMEOUT_SECONDS,
) -> Embedder:
    """Load the embedding model of a name.

    Raises:
        BadInput: the package for remote models is not installed.
        ModelUnavailable: there is no such model, or it cannot be loaded.
    """
    named = _model_settings(settings, name)
    if not isinstance(named, EmbeddingSettings):
        return (
            await asyncio.to_thread(LocalEmbedder.load, named)
            if named
            else await asyncio.to_thread(bundled_embedder)
        )
    from roomlore.models.http_models import open_http_embedder  # noqa: PLC0415  needs the extra

    return await asyncio.to_thread(
        open_http_embedder,
        named.url,
        named.name,
        key=named.key,
        dimensions=named.dimensions,
        seconds=seconds,
        opening_seconds=open_timeout_seconds,
    )
