"""Settings in, one App out: the database is found or started, the org found or made, the caller let in."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial

from roomlore.app.application import App
from roomlore.app.keys import org_of
from roomlore.app.proposing import Servers
from roomlore.config import DEFAULT_ORG, Settings, from_environment
from roomlore.domain.errors import BadInput, DatabaseUnavailable, NotFound
from roomlore.domain.ids import OrgId
from roomlore.domain.ports import Embedder
from roomlore.store.cluster import is_down, start_cluster
from roomlore.store.db import Database
from roomlore.store.migrate import migrate

#: Seconds after which the embedded server is looked after again.
LOOKED_AFTER = 2.0
LOG = logging.getLogger(__name__)


@asynccontextmanager
async def open(  # noqa: A001  read as roomlore.open
    settings: Settings | None = None, *, embedder: Embedder | None = None, create_org: bool = True
) -> AsyncGenerator["App"]:
    """Give an App on the database that the settings name, or on the embedded one, started if need be.

    Args:
        settings: Where the data lies and whose it is; the environment's settings by default.
        embedder: Another embedding model than the one the settings name.
        create_org: Make the org where there is none; the default org is always made.

    Raises:
        NotFound: there is no such org, and it was not to be made.
        BadInput: the settings name another org than their key.
        KeyRefused: the settings hold a key that is not valid.
        DatabaseUnavailable: the database cannot be reached or started; says what to do.
        SchemaMismatch: a named database needs `roomlore migrate`; the embedded one migrates by itself, unless it is from
            before the first release.
    """
    settings = settings or from_environment()
    async with AsyncExitStack() as stack:
        db = await Database.connect(await _dsn(settings, stack))
        stack.push_async_callback(db.close)
        org_id = await _org(db, settings, create=create_org or settings.org in {None, DEFAULT_ORG})
        restart = None if settings.database else partial(_restart, settings)
        servers = Servers()
        stack.push_async_callback(servers.close)
        app = App(
            db=db,
            org_id=org_id,
            settings=settings,
            _embedder=embedder,
            _restart=restart,
            _servers=servers,
        )
        yield app if settings.key is None else await _let_in(app, settings.key)


async def _org(db: Database, settings: Settings, *, create: bool) -> OrgId:
    if settings.key is not None:
        return org_of(settings.key)
    name = DEFAULT_ORG if settings.org is None else settings.org
    org_id = await db.org(name) if create else await db.find_org(name)
    if org_id is None:
        raise NotFound("org", name)
    return org_id


async def _let_in(app: App, key: str) -> App:
    # First the key: whoever has none learns nothing of which orgs there are.
    let_in, named = await app.sign_in(key), app.settings.org
    if named is not None and await app.db.find_org(named) != app.org_id:
        raise BadInput("org", f"the key is not one of {named!r}; leave the org out, the key names its own")
    return let_in


async def prepare(settings: Settings) -> list[str]:
    """Bring the database to the schema of this code and return the names of the steps that this took.

    Raises:
        DatabaseUnavailable: it cannot be reached, or the login may not create roles and extensions.
        SchemaMismatch: it is newer than this code, or from before the first release.
    """
    if settings.database is not None:
        return [migration.name for migration in await migrate(settings.database)]
    cluster = await start_cluster(settings.data, binaries=settings.binaries)
    try:
        return [migration.name for migration in await migrate(cluster.admin_dsn)]
    finally:
        await cluster.close()


async def _restart(settings: Settings) -> None:
    # Our own claim on the server outlives it, so that giving up this one does not stop it again.
    cluster = await start_cluster(settings.data, binaries=settings.binaries)
    await cluster.close()


async def _dsn(settings: Settings, stack: AsyncExitStack) -> str:
    if settings.database is not None:
        return settings.database
    cluster = await start_cluster(settings.data, binaries=settings.binaries)
    stack.push_async_callback(cluster.close)
    await migrate(cluster.admin_dsn)
    looking_after = asyncio.create_task(_look_after(settings))
    stack.push_async_callback(_end, looking_after)
    return cluster.app_dsn


async def _look_after(settings: Settings) -> None:
    """Start the embedded server again whenever it is gone, such as after a full disk."""
    said = ""
    while True:
        await asyncio.sleep(LOOKED_AFTER)
        try:
            if is_down(settings.data):
                await _restart(settings)
        except DatabaseUnavailable as error:
            if error.why != said:
                LOG.warning("%s; trying again", error.why)
            said = error.why
        else:
            said = ""


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
