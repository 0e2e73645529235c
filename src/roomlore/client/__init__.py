"""The rooms of an org behind a server, as if they were here: what an `App` does, a `Client` has done over HTTP."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roomlore.client.application import Client
    from roomlore.client.connection import open  # noqa: A004  read as roomlore.open
    from roomlore.client.context_fetcher import fetcher
    from roomlore.client.protocols import Rooms
    from roomlore.client.server import Server
else:
    from roomlore.domain.lazy_loading import loads

    __getattr__ = loads(
        __name__,
        {
            "roomlore.client.application": ["Client"],
            "roomlore.client.context_fetcher": ["fetcher"],
            "roomlore.client.connection": ["open"],
            "roomlore.client.protocols": ["Rooms"],
            "roomlore.client.server": ["Server"],
        },
    )

__all__ = ["Client", "Rooms", "Server", "fetcher", "open"]
