"""Opens rooms: an App on a database, or a Client of a server."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, overload

from roomlore import operations
from roomlore.client.server import Server
from roomlore.domain.errors import BadInput
from roomlore.settings import Settings, from_environment

if TYPE_CHECKING:
    from roomlore.client.application import Client
    from roomlore.client.protocols import Rooms
    from roomlore.domain.ports import Embedder
    from roomlore.operations import App

    #: Lets the type checker verify that both classes implement `Rooms`.
    KINDS: tuple[type[Rooms], type[Rooms]] = (App, Client)


@overload
def open(  # noqa: A001  read as roomlore.open
    where: Settings | None = None, *, embedder: "Embedder | None" = None, create_org: bool = True
) -> "AbstractAsyncContextManager[App]": ...


@overload
def open(  # noqa: A001
    where: Server | str, *, key: str | None = None
) -> "AbstractAsyncContextManager[Client]": ...


def open(  # noqa: A001
    where: Settings | Server | str | None = None,
    *,
    key: str | None = None,
    embedder: "Embedder | None" = None,
    create_org: bool = True,
) -> "AbstractAsyncContextManager[App] | AbstractAsyncContextManager[Client]":
    """Give an App on a database, or a Client of a server.

    Args:
        where: Settings of a database, or a server, or the address of a server. Default: the settings of the
            environment.
        key: For a server: the caller's key. Default: the key of the environment. Settings have their own key.
        embedder: For a database: an embedding model other than that of the settings.
        create_org: For a database: create the org if it does not exist.

    Raises:
        BadInput: the settings or the address cannot work, or there is no key for a server.
        KeyRefused: the key does not exist, has expired or was revoked.
        ServerUnavailable: the server cannot be reached.
        NotFound, DatabaseUnavailable, SchemaMismatch: see `operations.open`.
    """
    if where is None or isinstance(where, Settings):
        if key is not None:
            raise BadInput("key", "of a database is in its settings: Settings(key=…)")
        return operations.open(where, embedder=embedder, create_org=create_org)
    if embedder is not None or not create_org:
        raise BadInput("embedder and create_org", "are the server's own")
    return connect(_server(where, key))


@asynccontextmanager
async def connect(server: Server) -> "AsyncGenerator[Client]":
    """Give a Client of a server. The key is checked first.

    Raises:
        BadInput: the extra `client` is not installed.
        KeyRefused: the key does not exist, has expired or was revoked.
        ServerUnavailable: the server cannot be reached.
    """
    # An App on a database does not need these packages.
    from roomlore.client.application import sign_in  # noqa: PLC0415
    from roomlore.client.transport import Transport, http_client  # noqa: PLC0415

    async with http_client(server) as http:
        yield await sign_in(Transport(server, http), server.key)


def _server(where: Server | str, key: str | None) -> Server:
    if isinstance(where, Server):
        if key is not None:
            raise BadInput("key", "of a server is in it: Server(key=…)")
        return where
    key = from_environment().key if key is None else key
    if key is None:
        raise BadInput("key", "a server needs one; pass key=…, or set ROOMLORE_KEY")
    return Server(address=where, key=key)
