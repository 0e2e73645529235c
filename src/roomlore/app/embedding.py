"""The embedding model that settings name, loaded when it is first needed."""

import asyncio
from dataclasses import dataclass, field

from roomlore.backends.embedding import LocalEmbedder
from roomlore.backends.httpembedding import open_http_embedder
from roomlore.config import Settings
from roomlore.domain.ports import Embedder


@dataclass(slots=True)
class Loading:
    """Loads the embedding model once, for all on whose behalf an App acts."""

    _loaded: Embedder | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def embedder(self, settings: Settings) -> Embedder:
        """Return the embedding model that the settings name.

        Raises:
            ModelUnavailable: it cannot be loaded; says what to do.
        """
        async with self._lock:
            if self._loaded is None:
                self._loaded = await load_embedder(settings)
            return self._loaded


async def load_embedder(settings: Settings) -> Embedder:
    """Return the embedding model that the settings name, for texts that are nobody's messages.

    Raises:
        BadInput: it is behind an address, and the extra is not installed.
        ModelUnavailable: it cannot be loaded; says what to do.
    """
    named = settings.embedding
    if named is None:
        return await asyncio.to_thread(LocalEmbedder.load, settings.model)
    return await asyncio.to_thread(
        open_http_embedder, named.url, named.name, key=named.key, dimensions=named.dimensions
    )
