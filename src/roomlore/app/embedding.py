"""The embedding model that settings name, for whoever needs vectors of texts that are nobody's messages."""

import asyncio

from roomlore.backends.embedding import LocalEmbedder
from roomlore.config import Settings
from roomlore.domain.ports import Embedder


async def load_embedder(settings: Settings) -> Embedder:
    """Return the embedding model that the settings name.

    Raises:
        ModelUnavailable: it cannot be loaded; says what to do.
    """
    return await asyncio.to_thread(LocalEmbedder.load, settings.model)
