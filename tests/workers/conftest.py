"""A server that only workers use: they look into every org, and these tests end its connections."""

import asyncio
from collections.abc import AsyncGenerator, Generator

import psycopg
import pytest
from psycopg import sql

from conftest import ending_tasks
from copies import COLUMNS
from roomlore.store.cluster import Cluster, start_cluster, stop_cluster
from roomlore.store.db import Database
from roomlore.store.migrate import migrate

FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Generator[Cluster]:
    data = tmp_path_factory.mktemp("workers")

    async def start() -> Cluster:
        server = await start_cluster(data, settings=FAST)
        await migrate(server.admin_dsn)
        return server

    async def stop() -> None:
        await server.close()
        await stop_cluster(data, force=True)

    server = asyncio.run(start())
    yield server
    asyncio.run(stop())


@pytest.fixture(scope="session")
def caretaker(cluster: Cluster) -> Generator[psycopg.Connection]:
    """A superuser of this server."""
    with psycopg.connect(cluster.admin_dsn, autocommit=True) as conn:
        yield conn


@pytest.fixture
async def db(cluster: Cluster) -> AsyncGenerator[Database]:
    """Connections of the test's own, for they are counted and ended."""
    database = await Database.connect(cluster.app_dsn, size=12)
    async with ending_tasks():
        yield database
    await database.close()


@pytest.fixture(autouse=True)
def _empty(caretaker: psycopg.Connection) -> Generator[None]:
    """Leave no messages to the next test, whose worker would embed them."""
    yield
    # Row by row: there are few, and to truncate is to make every table and index anew.
    with caretaker.transaction():
        caretaker.execute("set local session_replication_role = replica")
        for name, _ in caretaker.execute(COLUMNS).fetchall():
            caretaker.execute(sql.SQL("delete from roomlore.{}").format(sql.Identifier(name)))
        caretaker.execute("delete from roomlore.orgs")
