"""No session is spoilt by what somebody told the application's role, and none is given that the server ended."""

from collections.abc import Iterator

import psycopg
import pytest

from ingest.stories import message
from roomlore.db.cluster import Cluster
from roomlore.db.database import Database, Pool
from roomlore.domain.records import Viewer
from roomlore.operations import App

ATTACKS = (
    "set search_path = pg_temp, pg_catalog",
    "set default_transaction_read_only = on",
    "set row_security = off",
    "set statement_timeout = '1ms'",
    "set datestyle = 'SQL, DMY'",
    "set enable_indexscan = off",
    "in database roomlore set default_transaction_isolation = 'serializable'",
)


@pytest.fixture(autouse=True)
def _restored(cluster: Cluster) -> Iterator[None]:
    yield
    with psycopg.connect(cluster.admin_dsn, autocommit=True) as conn:
        conn.execute("alter role roomlore_app reset all")
        conn.execute("alter role roomlore_app in database roomlore reset all")


def spoil(cluster: Cluster) -> None:
    with psycopg.connect(cluster.app_dsn, autocommit=True) as conn:
        for attack in ATTACKS:
            conn.execute(f"alter role current_user {attack}")


async def test_nobody_gets_a_connection_that_the_server_ended(cluster: Cluster, admin):
    pool = Pool(cluster.app_dsn, size=1)
    await pool.open(wait=True)
    async with pool.connection() as conn:
        ended = conn.info.backend_pid
    await admin.execute("select pg_terminate_backend(%s, 10000)", [ended])
    async with pool.connection() as conn:
        assert conn.info.backend_pid != ended
        await conn.execute("select 1")
    await pool.close()


async def test_a_process_that_starts_takes_back_what_the_role_was_told(app: App, cluster: Cluster, admin):
    await app.ingest(message("1"))
    spoil(cluster)
    db = await Database.connect(cluster.app_dsn, size=2)
    try:
        async with db.system_connection() as conn:
            rows = await conn.execute(
                "select (select count(*) from messages), current_setting('enable_indexscan')"
            )
            # Nobody is stated, and so nothing is seen.
            assert await rows.fetchone() == (0, "on")
        async with db.read_transaction(Viewer.operator(app.org_id)) as conn:
            rows = await conn.execute("select (select count(*) from messages), current_setting('datestyle')")
            assert await rows.fetchone() == (1, "ISO, MDY")
    finally:
        await db.close()
    rows = await admin.execute("select count(*) from pg_db_role_setting where setrole <> 0")
    assert await rows.fetchone() == (0,)


@pytest.mark.slow
async def test_a_process_that_runs_gives_nobody_a_session_that_began_as_the_role_was_told(
    app: App, cluster: Cluster
):
    await app.ingest(message("1"))
    db = await Database.connect(cluster.app_dsn, size=3)
    try:
        spoil(cluster)
        # The first was there before; the pool makes another while it is held.
        async with db.system_connection(), db.system_connection() as conn:
            names = "enable_indexscan", "default_transaction_read_only", "row_security", "statement_timeout"
            asked = ", ".join(f"current_setting('{name}')" for name in names)
            rows = await conn.execute(f"select {asked}, (select count(*) from messages)")
            assert await rows.fetchone() == ("on", "off", "on", "0", 0)
    finally:
        await db.close()
