"""The embedding models that settings name, each loaded when it is first needed: all may be away, and nothing stops."""

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
from roomlore.models.local_embedding import LocalEmbedder
from roomlore.settings import DEFAULT_EMBEDDING, EmbeddingSettings, Settings

#: For one request of the worker with all its repetitions, and for one of somebody who waits for an answer.
BATCH_TIMEOUT_SECONDS, INTERACTIVE_TIMEOUT_SECONDS = 60.0, 5.0
#: For the first answer of a server that loads its model when it is asked, and drops it when nobody waits any more.
WARM_UP_SECONDS = 30.0
#: A server that failed a question is not asked another for so long: each would wait as long for nothing.
BACKOFF_SECONDS = 30.0


#: The name of a model's vector space and the length of its vectors, as far as they are known.
VectorSpace = tuple[str | None, int | None]


@dataclass(slots=True)
class ModelCache:
    """Loads each embedding model once, for all on whose behalf an App acts."""

    #: In place of what the settings name.
    provided: Mapping[str, Embedder] = field(default_factory=dict[str, Embedder])
    #: Seconds that never run backwards.
    clock: Callable[[], float] = time.monotonic
    _loaded: dict[tuple[str, bool], Embedder] = field(default_factory=dict[tuple[str, bool], Embedder])
    _locks: dict[tuple[str, bool], asyncio.Lock] = field(default_factory=dict[tuple[str, bool], asyncio.Lock])
    #: How each failed last.
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
        """Return the embedding model of a name; a brisk one gives up soon.

        Whoever is away costs nobody more than `opening_seconds`: others wait behind who finds out.

        Raises:
            BadInput: it is behind an address, and the extra is not installed.
            ModelUnavailable: there is none of that name, or it cannot be loaded; says what to do.
        """
        if name in self.provided:
            return self.provided[name]
        place = (name, is_interactive and is_remote(settings, name))
        before = self._failed.get(place)
        async with self._locks.setdefault(place, asyncio.Lock()):
            if place in self._loaded:
                return self._loaded[place]
            failed = self._failed.get(place)
            if failed is not None and failed is not before:
                # Somebody asked while this one waited: it is not asked again for each of those who did.
                raise ModelUnavailable(failed.why, cure=failed.cure)
            seconds = INTERACTIVE_TIMEOUT_SECONDS if is_interactive else BATCH_TIMEOUT_SECONDS
            try:
                self._loaded[place] = await load_embedder(
                    settings, name, seconds=seconds, open_timeout_seconds=open_timeout_seconds
                )
            except ModelUnavailable as error:
                self._failed[place] = error
                raise
            return self._loaded[place]

    def cached(self, name: str) -> Embedder | None:
        """Return the embedding model of a name where it is given or was loaded."""
        return self.provided.get(name) or self._loaded.get((name, False)) or self._loaded.get((name, True))

    async def embed_query(
        self, settings: Settings, name: str, texts: Sequence[str]
    ) -> tuple[Embedder, TextEmbeddings]:
        """Return an embedding model and what it makes of a question.

        Raises:
            BadInput: it is behind an address, and the extra is not installed.
            ModelUnavailable: it cannot be loaded or gives no vectors, or did not a moment ago.
            TextRefused: it takes nothing like the question.
        """
        until, why = self._backing_off.get(name, (0.0, None))
        if why is not None and self.clock() < until:
            raise ModelUnavailable(why.why, cure=why.cure)
        try:
            embedder = await self.embedder(settings, name, is_interactive=True)
            made = await asyncio.to_thread(embedder.embed_with_tokens, texts)
        except ModelUnavailable as error:
            if is_remote(settings, name):
                self._backing_off[name] = (self.clock() + BACKOFF_SECONDS, error)
            raise
        self._backing_off.pop(name, None)
        return embedder, made


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingModels:
    """The embedding models of a deployment, and which of them serve which org."""

    db: Database
    settings: Settings
    cache: ModelCache
    #: In place of the default one.
    provided: Embedder | None = None

    @property
    def default(self) -> str:
        """What the model is called that serves an org for which nothing else was chosen."""
        return DEFAULT_EMBEDDING

    @property
    def names(self) -> list[str]:
        """What the models are called that there are."""
        return [DEFAULT_EMBEDDING, *sorted({*self.settings.embeddings, *self.cache.provided})]

    async def load(
        self,
        name: str,
        *,
        is_interactive: bool = False,
        open_timeout_seconds: float = INTERACTIVE_TIMEOUT_SECONDS,
    ) -> Embedder:
        """Return the embedding model of a name; a brisk one gives up soon. See `Loading.embedder`.

        Raises:
            BadInput: it is behind an address, and the extra is not installed.
            ModelUnavailable: there is none of that name, or it cannot be loaded.
        """
        if name == DEFAULT_EMBEDDING and self.provided is not None:
            return self.provided
        return await self.cache.embedder(
            self.settings, name, is_interactive=is_interactive, open_timeout_seconds=open_timeout_seconds
        )

    async def warm_up(self, name: str) -> Embedder:
        """Return the embedding model of a name; one that has first to be loaded where it is has time to.

        Raises:
            BadInput: it is behind an address, and the extra is not installed.
            ModelUnavailable: there is none of that name, or it cannot be loaded.
        """
        return await self.load(name, open_timeout_seconds=WARM_UP_SECONDS)

    async def embed_query(self, name: str, texts: Sequence[str]) -> tuple[Embedder, TextEmbeddings]:
        """Return the embedding model of a name and what it makes of a question; see `Loading.asked`."""
        if name == DEFAULT_EMBEDDING and self.provided is not None:
            return self.provided, await asyncio.to_thread(self.provided.embed_with_tokens, texts)
        return await self.cache.embed_query(self.settings, name, texts)

    async def versions(self, org_id: OrgId) -> dict[VersionState, EmbeddingVersion]:
        """Return the generations of an org, as the database has them."""
        async with self.db.read_transaction(Viewer.operator(org_id)) as conn:
            return await embedding_versions.all_versions(conn, org_id)

    async def current(self, org_id: OrgId) -> Embedder:
        """Return the embedding model that serves an org.

        Raises:
            BadInput: it is behind an address, and the extra is not installed.
            ModelUnavailable: it cannot be loaded.
        """
        held = (await self.versions(org_id)).get("current")
        return await self.load(DEFAULT_EMBEDDING if held is None else held.provider)

    async def vector_space(self, name: str) -> VectorSpace:
        """Return the name of a model's vector space and the length of its vectors, as far as these can be known now."""
        try:
            embedder = await self.load(name, is_interactive=True)
        except (BadInput, ModelUnavailable):
            return self.known_space(name)
        return embedder.model_id, embedder.dimensions

    def known_space(self, name: str) -> VectorSpace:
        """Return the same as far as it is known already: nothing is loaded, and nobody asked."""
        loaded = (
            self.provided
            if name == DEFAULT_EMBEDDING and self.provided is not None
            else self.cache.cached(name)
        )
        if loaded is not None:
            return loaded.model_id, loaded.dimensions
        named = self.settings.embedding if name == DEFAULT_EMBEDDING else self.settings.embeddings.get(name)
        if isinstance(named, EmbeddingSettings):
            from roomlore.models.http_embedding import vector_space_name  # noqa: PLC0415  most models are here

            return vector_space_name(named.name, named.dimensions), named.dimensions
        return None, None


def is_remote(settings: Settings, name: str) -> bool:
    """Return whether the model of a name is behind an address."""
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
    """Return the embedding model of a name, for texts that are nobody's messages.

    Raises:
        BadInput: it is behind an address, and the extra is not installed.
        ModelUnavailable: there is none of that name, or it cannot be loaded; says what to do.
    """
    named = _model_settings(settings, name)
    if not isinstance(named, EmbeddingSettings):
        return await asyncio.to_thread(LocalEmbedder.load, named)
    from roomlore.models.http_embedding import open_http_embedder  # noqa: PLC0415  most models are here

    return await asyncio.to_thread(
        open_http_embedder,
        named.url,
        named.name,
        key=named.key,
        dimensions=named.dimensions,
        seconds=seconds,
        opening_seconds=open_timeout_seconds,
    )
