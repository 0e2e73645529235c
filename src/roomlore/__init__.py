"""Conversation memory for rooms full of people and agents.

>>> import roomlore
>>> async with roomlore.open(roomlore.Settings(data=Path(".roomlore"))) as app:
...     await app.import_path(Path("export.zip"))
...     await app.drain()
...     found = await app.search(app.operator, "when is the release?")
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roomlore.client import Client, Rooms, Server, fetcher, open  # noqa: A004  read as roomlore.open
    from roomlore.domain.errors import (
        BackendUnavailable,
        BadInput,
        Conflict,
        DatabaseError,
        DatabaseFull,
        DatabaseUnavailable,
        IndexUnavailable,
        KeyRefused,
        ModelUnavailable,
        NotAllowed,
        NotFound,
        QueryTimeout,
        RoomloreError,
        SchemaMismatch,
        ServerUnavailable,
        TextRefused,
        UnknownFormat,
    )
    from roomlore.domain.incoming import IncomingAuthor, IncomingMembership, IncomingMessage, IncomingRoom
    from roomlore.domain.records import Message, Participant, Reply, Room, Viewer
    from roomlore.operations import App
    from roomlore.settings import Settings
else:
    from roomlore.domain.lazy_loading import loads

    #: The same names for the interpreter. It loads each of them when it is first used.
    __getattr__ = loads(
        __name__,
        {
            "roomlore.operations.application": ["App"],
            "roomlore.client.application": ["Client"],
            "roomlore.client.connection": ["open"],
            "roomlore.client.protocols": ["Rooms", "fetcher"],
            "roomlore.client.server": ["Server"],
            "roomlore.settings": ["Settings"],
            "roomlore.domain.errors": [
                "BackendUnavailable",
                "BadInput",
                "Conflict",
                "IndexUnavailable",
                "DatabaseError",
                "DatabaseFull",
                "DatabaseUnavailable",
                "KeyRefused",
                "ModelUnavailable",
                "NotAllowed",
                "NotFound",
                "RoomloreError",
                "SchemaMismatch",
                "ServerUnavailable",
                "TextRefused",
                "QueryTimeout",
                "UnknownFormat",
            ],
            "roomlore.domain.incoming": [
                "IncomingAuthor",
                "IncomingMembership",
                "IncomingMessage",
                "IncomingRoom",
            ],
            "roomlore.domain.records": ["Message", "Participant", "Reply", "Room", "Viewer"],
        },
    )

__all__ = [
    "App",
    "BackendUnavailable",
    "BadInput",
    "Client",
    "Conflict",
    "DatabaseError",
    "DatabaseFull",
    "DatabaseUnavailable",
    "IncomingAuthor",
    "IncomingMembership",
    "IncomingMessage",
    "IncomingRoom",
    "IndexUnavailable",
    "KeyRefused",
    "Message",
    "ModelUnavailable",
    "NotAllowed",
    "NotFound",
    "Participant",
    "QueryTimeout",
    "Reply",
    "Room",
    "RoomloreError",
    "Rooms",
    "SchemaMismatch",
    "Server",
    "ServerUnavailable",
    "Settings",
    "TextRefused",
    "UnknownFormat",
    "Viewer",
    "fetcher",
    "open",
]


def __dir__() -> list[str]:
    return [*globals(), *__all__]
