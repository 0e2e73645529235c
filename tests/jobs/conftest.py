"""A server that only workers use: they look into every org, and these tests end its connections.

It plans as any server does: a plan for any org locks the vectors of all, and tests tell who waits for whom.
"""

from collections.abc import AsyncGenerator, Generator

import pytest

from conftest import Superuser, fast_cluster, opened_pool
from roomlore.db.cluster import Cluster
from roomlore.db.database import Database, Pool


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Generator[Cluster]:
    with fast_cluster(tmp_path_factory.mktemp("workers")) as server:
        yield server


@pytest.fixture(scope="session")
async def pool(cluster: Cluster) -> AsyncGenerator[Pool]:
    async with opened_pool(cluster) as connections:
        yield connections


@pytest.fixture(scope="session")
async def superuser(cluster: Cluster) -> AsyncGenerator[Superuser]:
    user = Superuser(cluster.admin_dsn)
    yield user
    await user.close()


@pytest.fixture
async def db(db: Database, superuser: Superuser) -> AsyncGenerator[Database]:
    """Leave no messages to the next test, whose worker would embed them."""
    yield db
    await (await superuser.connection()).execute("truncate roomlore.orgs, roomlore.work_queue cascade")
