"""A client for the HTTP API. `Client` has the same methods as `App`."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roomlore.client.application import Client
    from roomlore.client.connection import open  # noqa: A004  read as roomlore.open
    from roomlore.client.protocols import Rooms, fetcher
    from roomlore.client.server import Server
else:
    from roomlore.domain.lazy_loading import loads

    __getattr__ = loads(
        __name__,
        {
            "roomlore.client.application": ["Client"],
            "roomlore.client.connection": ["open"],
            "roomlore.client.protocols": ["Rooms", "fetcher"],
            "roomlore.client.server": ["Server"],
        },
    )

__all__ = ["Client", "Rooms", "Server", "fetcher", "open"]
