"""Opens an App: connects to the database or starts it, finds the org, and signs in the caller."""

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
from roomlore.operations.application import App, Shared
from roomlore.settings import DEFAULT_ORG, Settings, from_environment

if TYPE_CHECKING:
    from roomlore.domain.ports import Embedder

#: The pause between two checks of the embedded server.
WATCH_SECONDS = 2.0
LOG = logging.getLogger(__name__)


@asynccontextmanager
async def open(  # noqa: A001  read as roomlore.open
    settings: Settings | None = None,
    *,
    embedder: "Embedder | None" = None,
    create_org: bool | OrgId = True,
    will_search: bool = False,
) -> AsyncGenerator["App"]:
    """Open an App on the configured database, or on the embedded database. The embedded database is started if needed.

    Args:
        settings: The settings. Default: the settings of the environment.
        embedder: Replaces the configured embedding model.
        create_org: Create the org if it is missing, with this id if it is one. The default org is always created.
        will_search: Load the embedding model while connecting, because a search follows.

    Raises:
        NotFound: there is no such org, and `create_org` is false.
        BadInput: the settings name another org than their key.
        KeyRefused: the key in the settings is not valid.
        DatabaseUnavailable: the database cannot be reached or started; the error says what to do.
        SchemaMismatch: the configured database needs `roomlore migrate`. The embedded one migrates by itself, unless it is
            older than the first release.
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
    """Load the local model if no other model is configured. Errors appear when the model is used."""
    if settings.embedding is not None or settings.embeddings:
        return
    # The import takes as long as the model and would block the loop.
    await asyncio.to_thread(import_module, "roomlore.operations.embedding_models")
    with suppress(ModelUnavailable):
        await shared.models.embedder(settings, is_interactive=True)


async def _org(db: Database, settings: Settings, *, create: bool | OrgId) -> OrgId:
    if settings.key is not None:
        from roomlore.operations.keys import org_of

        return org_of(settings.key)
    name = DEFAULT_ORG if settings.org is None else settings.org
    wanted = None if isinstance(create, bool) else create
    org_id = await db.ensure_org(name, wanted) if create else await db.find_org(name)
    if org_id is None:
        raise NotFound("org", name)
    return org_id


async def _sign_in_if_needed(app: App, key: str) -> App:
    # The key comes first, because only the holder of a key may learn which orgs exist.
    signed_in, named = await app.sign_in(key), app.settings.org
    if named is not None and await app.db.find_org(named) != app.org_id:
        raise BadInput("org", f"the key is not one of {named!r}; leave the org out, the key names its own")
    return signed_in


async def prepare(settings: Settings) -> list[str]:
    """Migrate the database to the schema of this version, and return the names of the migrations.

    Raises:
        DatabaseUnavailable: it cannot be reached, or the login may not create roles and extensions.
        SchemaMismatch: it is newer than this version, or older than the first release.
    """
    if settings.database is not None:
        return [migration.name for migration in await migrate(settings.database)]
    cluster = await start_cluster(settings.data, binaries=settings.binaries)
    try:
        return [migration.name for migration in await migrate(cluster.admin_dsn)]
    finally:
        await cluster.close()


async def _restart(settings: Settings) -> None:
    # This process holds another lease on the server, so closing this lease does not stop the server.
    cluster = await start_cluster(settings.data, binaries=settings.binaries)
    await cluster.close()


async def _connected(settings: Settings, stack: AsyncExitStack) -> Database:
    """Return the configured database, or the embedded database.

    The embedded database is migrated if needed, and watched while it is open.
    """
    if settings.database is not None:
        return await Database.connect(settings.database)
    cluster = await start_cluster(settings.data, binaries=settings.binaries)
    stack.push_async_callback(cluster.close)
    try:
        db = await Database.connect(cluster.app_dsn)
    except SchemaMismatch:
        # The schema is rarely old, so check it only now. A newer schema raises the error again.
        await migrate(cluster.admin_dsn)
        db = await Database.connect(cluster.app_dsn)
    stack.push_async_callback(_cancel, asyncio.create_task(_watch_server(settings)))
    return db


async def _watch_server(settings: Settings) -> None:
    """Restart the embedded server when it stops, for example after a full disk."""
    logged = ""
    while True:
        await asyncio.sleep(WATCH_SECONDS)
        try:
            if is_down(settings.data):
                await _restart(settings)
        except DatabaseUnavailable as error:
            if error.why != logged:
                LOG.warning("%s; trying again", error.why)
            logged = error.why
        else:
            logged = ""


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
