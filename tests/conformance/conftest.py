"""Orgs with one story and the same ids: a call that changes something gets an org of its own on each surface."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from datetime import UTC, datetime
from urllib.parse import urlencode

import httpx2
import pytest
from psycopg.conninfo import conninfo_to_dict

from client.conftest import address
from conformance.story import everything
from conformance.ways import Elsewhere, Org
from conftest import OpenApp
from copies import Copies
from roomlore.db.cluster import Cluster
from surfaces.http.calling import Described
from surfaces.http.conftest import described

__all__ = ["address", "described"]

MakeOrg = Callable[[Collection[str]], Awaitable[Org]]
#: Rooms, participants and conversations.
WITHOUT_TIME = """
select id::text from rooms where org_id = %(org)s
union all select id::text from participants where org_id = %(org)s
union all select id::text from conversations where org_id = %(org)s
"""


@pytest.fixture
async def make_org(open_app: OpenApp, copies: Copies, admin, address: str) -> MakeOrg:
    """Make an org with keys of some people, and of the operator."""

    async def make(names: Collection[str]) -> Org:
        if everything not in copies:
            first = await open_app("first")
            copies.keep(everything, first.org_id, await everything(first))
        app = await open_app("told")
        named = copies.put(everything, app.org_id)
        ids = await (await admin.execute(WITHOUT_TIME, {"org": app.org_id})).fetchall()
        # Ids have the time in milliseconds.
        now = datetime.now(UTC)
        since = now.replace(microsecond=now.microsecond // 1000 * 1000)
        operator = await app.keys.create("operator", name="operator")
        keys = {"operator": operator.key}
        for name in set(names) - {"operator"}:
            role = "agent" if name == "pip" else "member"
            keys[name] = (await app.keys.create(role, name=name, participant=name)).key
        return Org(
            app=app,
            address=address,
            keys=keys,
            named={**named, "key": str(operator.id)},
            ids_without_time=frozenset(one for (one,) in ids),
            since=since,
        )

    return make


@pytest.fixture(scope="session")
async def http() -> AsyncGenerator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient() as client:
        yield client


@pytest.fixture
def elsewhere(
    cluster: Cluster, http: httpx2.AsyncClient, described: Described, monkeypatch: pytest.MonkeyPatch
) -> Elsewhere:
    # The command lines run in threads, which take no signals.
    monkeypatch.setattr(asyncio.SelectorEventLoop, "add_signal_handler", lambda *_: None)
    database = f"postgresql:///?{urlencode(conninfo_to_dict(cluster.app_dsn))}"
    return Elsewhere(http=http, described=described, database=["--database", database])
