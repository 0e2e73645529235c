"""What doctor finds of servers that hold copies and of models that embed: whether they answer, and nothing secret."""

from collections.abc import Generator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from ingest.stories import message
from jobs.copying import Shelf
from models.embeddingserver import EmbeddingServer, embedding_server, embeddings
from roomlore import doctor
from roomlore.db.cluster import Cluster
from roomlore.doctor import CheckResult
from roomlore.models.fake import FakeEmbedder
from roomlore.operations import App
from roomlore.operations import projection_service as composition
from roomlore.settings import EmbeddingSettings, Neo4jSettings, QdrantSettings, Settings

KEY = "sesame-opens-nothing"
#: Nobody listens there.
NOWHERE = "127.0.0.1:9"


@pytest.fixture(autouse=True)
def _nobody_else(cluster: Cluster) -> None:
    """Doctor looks at every org: what other tests left behind is not counted here."""
    with psycopg.connect(cluster.admin_dsn, autocommit=True) as conn:
        conn.execute("truncate roomlore.orgs, roomlore.work_queue cascade")


@pytest.fixture(name="shelf")
def _shelf(monkeypatch: pytest.MonkeyPatch) -> Shelf:
    held = Shelf()
    monkeypatch.setattr(composition, "open_projection", lambda _settings, _target, **_: held)
    return held


@pytest.fixture(name="server")
def _server() -> Generator[EmbeddingServer]:
    with embedding_server() as found:
        yield found


async def examined(cluster: Cluster, **settings: Any) -> Sequence[CheckResult]:
    parts = urlencode(conninfo_to_dict(cluster.app_dsn), quote_via=quote)
    return await doctor.run_checks(Settings(database=f"postgresql://?{parts}", **settings))


def of(findings: Sequence[CheckResult], name: str) -> CheckResult:
    [found] = [one for one in findings if one.name == name]
    return found


QDRANT = QdrantSettings(url=f"http://{NOWHERE}", key=KEY)


@pytest.mark.usefixtures("app")
async def test_servers_that_are_not_named_are_not_spoken_of(cluster: Cluster):
    names = [one.name for one in await examined(cluster)]
    assert not {"qdrant", "neo4j"} & set(names)


async def test_copies_without_a_server_are_spoken_of(app: App, cluster: Cluster, admin):
    await admin.execute(
        "insert into projections (org_id, target, index_name) values (%s, 'neo4j', 'a')", [app.org_id]
    )
    found = of(await examined(cluster), "neo4j")
    assert (found.is_well, found.detail) == (
        False,
        "no server is named, and 1 org want copies: what changes waits",
    )
    assert "roomlore index drop neo4j" in found.cure


@pytest.mark.slow
@pytest.mark.usefixtures("app")
async def test_servers_that_do_not_answer_are_told_of_without_address_or_key(cluster: Cluster):
    graph = Neo4jSettings(url=f"bolt://{NOWHERE}", password=KEY)
    remote = EmbeddingSettings(url=f"http://{NOWHERE}/v1", name="tiny", key=KEY)
    findings = await examined(
        cluster, qdrant=QDRANT, neo4j=graph, embedding=remote, embeddings={"other": remote}
    )
    for name in ("qdrant", "neo4j", "embedding model", "embedding model other"):
        found = of(findings, name)
        assert not found.is_well
        assert found.cure
    assert of(findings, "qdrant").detail == "Qdrant cannot be reached"
    assert of(findings, "neo4j").detail == "Neo4j cannot be reached"
    assert NOWHERE not in repr(findings)
    assert KEY not in repr(findings)


@pytest.mark.usefixtures("shelf")
async def test_without_a_database_servers_are_asked_all_the_same():
    findings = await doctor.run_checks(
        Settings(database=f"postgresql://nobody@{NOWHERE}/none", qdrant=QDRANT)
    )
    assert not of(findings, "database").is_well
    assert of(findings, "qdrant") == CheckResult(name="qdrant", is_well=True, detail="answers")


@pytest.mark.slow
async def test_a_copy_is_told_to_be_there_to_lag_or_to_be_gone(
    app: App, cluster: Cluster, admin, shelf: Shelf
):
    await app.ingest_batch([message("1", "who has the lantern?"), message("2", "under the stairs")])
    await app.drain()
    assert of(await examined(cluster, qdrant=QDRANT), "qdrant").detail == "answers"
    await app.projections.rebuild("qdrant")
    found = of(await examined(cluster, qdrant=QDRANT), "qdrant")
    assert (found.is_well, found.detail) == (True, "answers; copies of 1 org; nothing to be written")
    await app.ingest(message("3", "thanks"))
    found = of(await examined(cluster, qdrant=QDRANT), "qdrant")
    assert (found.is_well, found.detail) == (True, "answers; copies of 1 org; 1 to be written")
    late = (
        "update work_queue set asked_at = now() - interval '1 minute' where org_id = %s and queue = 'qdrant'"
    )
    await admin.execute(late, [app.org_id])
    found = of(await examined(cluster, qdrant=QDRANT), "qdrant")
    assert (found.is_well, found.cure) == (False, "run: roomlore worker --drain")
    assert found.detail == "answers; copies of 1 org; 1 lag; 1 to be written"
    await admin.execute("update work_queue set dead_lettered_at = now() where org_id = %s", [app.org_id])
    found = of(await examined(cluster, qdrant=QDRANT), "qdrant")
    assert (found.is_well, found.cure) == (False, "run: roomlore worker --drain --retry")
    shelf.held_copies.clear()
    found = of(await examined(cluster, qdrant=QDRANT), "qdrant")
    assert (found.is_well, found.cure) == (False, "run: roomlore index rebuild qdrant")
    assert "1 gone" in found.detail
    shelf.is_down = True
    found = of(await examined(cluster, qdrant=QDRANT), "qdrant")
    assert not found.is_well
    assert found.detail.startswith("the shelf fell down; copies of 1 org")
    assert "gone" not in found.detail


@pytest.mark.slow
async def test_models_answer_with_vectors_as_long_as_those_there_are(
    app: App, cluster: Cluster, server: EmbeddingServer
):
    remote = EmbeddingSettings(url=server.url, name="tiny", key=KEY)
    with_tiny = App(db=app.db, org_id=app.org_id, settings=Settings(embedding=remote))
    await with_tiny.ingest(message("1", "who has the lantern?"))
    await with_tiny.drain()
    findings = await examined(cluster, embedding=remote)
    found = of(findings, "embedding model")
    assert (found.is_well, found.detail) == (True, "http/tiny, 384 dimensions")
    assert of(findings, "vectors").is_well

    def longer(asked: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        return embeddings(FakeEmbedder(32).embed(asked["input"]).tolist())

    server.says = longer
    findings = await examined(cluster, embedding=remote)
    assert of(findings, "embedding model").detail == "http/tiny, 32 dimensions"
    unlike = of(findings, "vectors")
    assert not unlike.is_well
    assert unlike.detail == "http/tiny gives 32 dimensions, stored are 384, in 1 org"
    assert KEY not in repr(findings)
    assert server.url not in repr(findings)


@pytest.mark.slow
async def test_an_org_whose_model_is_named_no_more_is_told_of(
    app: App, cluster: Cluster, admin, tmp_path: Path
):
    await admin.execute(
        "insert into embedding_versions (org_id, state, provider, model, dimensions)"
        " values (%s, 'current', 'lost', 'http/lost', 32)",
        [app.org_id],
    )
    found = of(await examined(cluster), "vectors")
    assert (found.is_well, found.detail) == (False, "1 org served by 'lost', which is not named here")
    found = of(await examined(cluster, embeddings={"lost": tmp_path}), "vectors")
    assert found.is_well


@pytest.mark.slow
async def test_a_clock_that_disagrees_with_what_was_said_is_told_of(app: App, cluster: Cluster):
    await app.ingest(message("1", sent_at=datetime.now(UTC)))
    assert of(await examined(cluster), "clock").is_well
    await app.ingest(message("2", sent_at=datetime.now(UTC) + timedelta(days=3, minutes=1)))
    found = of(await examined(cluster), "clock")
    assert not found.is_well
    assert "dated 3 days from now" in found.detail
    assert "clock" in found.cure
