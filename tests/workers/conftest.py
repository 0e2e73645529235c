"""A server that only workers use: they look into every org, and these tests end its connections."""

import asyncio
from collections.abc import Generator

import psycopg
import pytest

from roomlore.store.cluster import Cluster, start_cluster, stop_cluster
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


@pytest.fixture(autouse=True)
def _empty(cluster: Cluster) -> Generator[None]:
    """Leave no messages to the next test, whose worker would embed them."""
    yield
    with psycopg.connect(cluster.admin_dsn, autocommit=True) as conn:
        conn.execute("truncate roomlore.orgs, roomlore.work cascade")
