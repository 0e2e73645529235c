"""The worker writes to a real server what the database has, and erasure leaves nothing there."""

from dataclasses import replace

import pytest

from ingest.stories import at, author, message
from jobs.copying import expected_nodes
from jobs.rooms import busy_room
from memories.drafts import kept
from projections.neo4j.comparing import assert_alike
from projections.neo4j.stories import Raw
from roomlore.operations import App
from roomlore.operations import projection_service as copying
from roomlore.settings import Neo4jSettings

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


async def told(app: App, server: tuple[str, str, str]) -> App:
    """Return an org with messages and memories, which is to have its copy in the server."""
    url, user, password = server
    settings = replace(app.settings, neo4j=Neo4jSettings(url=url, user=user, password=password))
    copied = replace(app, settings=settings)
    await copied.ingest_batch(busy_room(5, 60))
    await copied.drain()
    for who in ("ana", "bo"):
        await kept(copied, f"{who} likes tea", "m1", "m2", by=who, about=(who,), tags=frozenset({"tea"}))
    return copied


async def test_a_real_server_holds_what_the_database_knows_and_no_trace_of_what_was_erased(
    app: App, server: tuple[str, str, str], raw: Raw
) -> None:
    app = await told(app, server)

    built = await app.projections.rebuild("neo4j")

    assert (built.is_ready, built.waiting, built.dead_lettered) == (True, 0, 0)
    copy = await assert_alike(app, raw)
    [there] = await raw.ask(
        "MATCH (c:Copy) WHERE c.name STARTS WITH $org RETURN c.name AS name", org=app.org_id.hex
    )
    assert there["name"] == copy

    await app.ingest_batch(
        [message("later", "one more", author=author("cy"), sent_at=at(9000), reply_to="m3")]
    )
    assert (await app.drain()).failing == []
    await assert_alike(app, raw)

    wanted = await expected_nodes(app)
    viewer = await app.viewer("ana")
    gone = {str(viewer.participant_id)}
    gone |= {str(key) for key, node in wanted.items() if node.properties.get("author_uuid") in gone}
    assert len(gone) > 1
    await app.erasure.person(str(viewer.participant_id))
    assert await copying.write_pending(app.db, app.settings, app.org_id) == []

    copy = await assert_alike(app, raw)
    everything = await raw.ask(
        "MATCH (n:Subject {copy: $copy}) OPTIONAL MATCH (n)-[r]-() RETURN properties(n) AS n, properties(r) AS r",
        copy=copy,
    )
    assert everything
    assert not [one for one in gone if one in repr(everything)]

    await app.projections.drop("neo4j")
    assert await raw.ask("MATCH (n:Subject {copy: $copy}) RETURN n.uuid AS id", copy=copy) == []


async def test_a_repaired_copy_has_every_edge_again_that_went_with_a_node(
    app: App, server: tuple[str, str, str], raw: Raw
) -> None:
    app = await told(app, server)
    await app.projections.rebuild("neo4j")
    copy = await assert_alike(app, raw)
    ana, bo = [str((await app.viewer(who)).participant_id) for who in ("ana", "bo")]
    # As after an older backup of both: somebody talked less, under a number that is still to come.
    [talks] = await raw.ask(
        """MATCH (u:User {copy: $copy, uuid: $id})-[r:TALKED_TO]->() SET r.count = r.count + 1, r.version = 1000000
        WITH u, count(r) AS count SET u.digest = 'older', u.version = 1000000 RETURN count""",
        copy=copy,
        id=ana,
    )
    assert talks["count"]
    [message_id] = await raw.ask(
        """MATCH (m:Message {copy: $copy})<-[:REPLIED_TO]-() WHERE m.author_uuid <> $id
        WITH m ORDER BY m.uuid LIMIT 1 RETURN m.uuid AS id""",
        copy=copy,
        id=bo,
    )
    lost = [bo, message_id["id"]]
    await raw.ask("MATCH (n:Subject {copy: $copy}) WHERE n.uuid IN $ids DETACH DELETE n", copy=copy, ids=lost)
    before = await raw.seen(copy)

    found = await app.projections.diff("neo4j", repair=True)

    assert [str(one) for one in found.missing] == sorted(lost)
    assert {ana} < {str(one) for one in found.different}
    after = await raw.seen(copy)
    assert (after[0].keys(), *after[1:]) == (before[0].keys(), *before[1:])
    assert await copying.write_pending(app.db, app.settings, app.org_id) == []
    assert await assert_alike(app, raw) == copy
    await app.projections.drop("neo4j")
