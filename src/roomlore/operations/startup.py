"""Settings in, one App out: the database is found or started, the org found or made, the caller let in."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from roomlore.db.cluster import is_down, start_cluster
from roomlore.db.database import Database
from roomlore.db.schema import migrate
from roomlore.domain.errors import BadInput, DatabaseUnavailable, ModelUnavailable, NotFound, SchemaMismatch
from roomlore.domain.ids import OrgId
from roomlore.operations.application import App
from roomlore.operations.shared import Shared
from roomlore.settings import DEFAULT_ORG, Settings, from_environment

if TYPE_CHECKING:
    from roomlore.domain.ports import Embedder

#: Seconds after which the embedded server is looked after again.
WATCH_SECONDS = 2.0
LOG = logging.getLogger(__name__)


@asynccontextmanager
async def open(  # noqa: A001  read as roomlore.open
    settings: Settings | None = None,
    *,
    embedder: "Embedder | None" = None,
    create_org: bool = True,
    will_search: bool = False,
) -> AsyncGenerator["App"]:
    """Give an App on the database that the settings name, or on the embedded one, started if need be.

    Args:
        settings: Where the data lies and whose it is; the environment's settings by default.
        embedder: Another embedding model than the one the settings name.
        create_org: Make the org where there is none; the default org is always made.
        will_search: Load the embedding model while the database is being reached: a question is asked at once.

    Raises:
        NotFound: there is no such org, and it was not to be made.
        BadInput: the settings name another org than their key.
        KeyRefused: the settings hold a key that is not valid.
        DatabaseUnavailable: the database cannot be reached or started; says what to do.
        SchemaMismatch: a named database needs `roomlore migrate`; the embedded one migrates by itself, unless it is from
            before the first release.
    """
    settings = settings or from_environment()
    shared = Shared()
    async with AsyncExitStack() as stack:
        if will_search and embedder is None:
            stack.push_async_callback(_cancel, asyncio.create_task(_load_model(shared, settings)))
        db = await _connected(settings, stack)
        stack.push_async_callback(db.close)
        org_id = await _org(db, settings, create=create_org or settings.org in {None, DEFAULT_ORG})
        restart = None if settings.database else partial(_restart, settings)
        stack.push_async_callback(shared.close)
        app = App(
            db=db,
            org_id=org_id,
            settings=settings,
            _embedder=embedder,
            _reconnect=restart,
            _shared=shared,
        )
        yield app if settings.key is None else await _sign_in_if_needed(app, settings.key)


async def _load_model(shared: Shared, settings: Settings) -> None:
    """Load the model that ships along or lies in a folder, where no other can serve the org; why it fails is asked later."""
    if settings.embedding is not None or settings.embeddings:
        return
    # The import takes as long as the model, and would keep the loop.
    await asyncio.to_thread(import_module, "roomlore.operations.embedding_models")
    with suppress(ModelUnavailable):
        await shared.loading.embedder(settings, is_interactive=True)


async def _org(db: Database, settings: Settings, *, create: bool) -> OrgId:
    if settings.key is not None:
        from roomlore.operations.keys import org_of

        return org_of(settings.key)
    name = DEFAULT_ORG if settings.org is None else settings.org
    org_id = await db.ensure_org(name) if create else await db.find_org(name)
    if org_id is None:
        raise NotFound("org", name)
    return org_id


async def _sign_in_if_needed(app: App, key: str) -> App:
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


async def _connected(settings: Settings, stack: AsyncExitStack) -> Database:
    """Return the database that is named, or the embedded one at the schema of this code, looked after while it is open."""
    if settings.database is not None:
        return await Database.connect(settings.database)
    cluster = await start_cluster(settings.data, binaries=settings.binaries)
    stack.push_async_callback(cluster.close)
    try:
        db = await Database.connect(cluster.app_dsn)
    except SchemaMismatch:
        # Looked for only here: nearly always the schema is the one it was last time. A newer one is refused again.
        await migrate(cluster.admin_dsn)
        db = await Database.connect(cluster.app_dsn)
    stack.push_async_callback(_cancel, asyncio.create_task(_watch_server(settings)))
    return db


async def _watch_server(settings: Settings) -> None:
    """Start the embedded server again whenever it is gone, such as after a full disk."""
    said = ""
    while True:
        await asyncio.sleep(WATCH_SECONDS)
        try:
            if is_down(settings.data):
                await _restart(settings)
        except DatabaseUnavailable as error:
            if error.why != said:
                LOG.warning("%s; trying again", error.why)
            said = error.why
        else:
            said = ""


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
