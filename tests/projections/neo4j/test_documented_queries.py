"""The queries that the documentation prints answer, in a real Neo4j, what they are printed for."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ingest.stories import at, author, message
from memories.drafts import kept
from projections.neo4j.comparing import assert_alike
from projections.neo4j.stories import Raw
from roomlore.operations import App
from roomlore.operations import projection_service as copying
from roomlore.projections.neo4j import Neo4jProjection
from roomlore.settings import Neo4jSettings

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

DOCUMENT = Path(__file__).parents[3] / "docs" / "howto-projections.md"
BOTS_SAID, BOTS_KNOW, AGENT_WROTE = re.findall(r"```cypher\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)


async def told(app: App, server: tuple[str, str, str], texts: str) -> App:
    url, user, password = server
    settings = Neo4jSettings(url=url, user=user, password=password, texts=texts)
    app = replace(app, settings=replace(app.settings, neo4j=settings))
    pip, rex = author("4711", name="Pip", kind="agent"), author("4712", name="Rex", kind="agent")
    await app.ingest_batch(
        [
            message("1", "when does the ferry leave", author=author("ana"), sent_at=at(0)),
            message("2", "the ferry leaves at nine", author=pip, reply_to="1", sent_at=at(1)),
            message("3", "and it is full", author=rex, reply_to="2", sent_at=at(2)),
        ]
    )
    await app.drain()
    await kept(app, "Ana asked for the ferry", "2", by="Pip", about=("ana",), tags=frozenset({"travel"}))
    await kept(app, "Ana is up early", "1", by="ana", about=("ana",))
    return app


async def test_each_of_the_three_questions_is_one_query(
    app: App, server: tuple[str, str, str], raw: Raw
) -> None:
    app = await told(app, server, "all")
    await app.projections.rebuild("neo4j")
    copy = await named(app)

    said = await raw.ask(BOTS_SAID, copy=copy)
    known = await raw.ask(BOTS_KNOW, copy=copy)
    wrote = await raw.ask(AGENT_WROTE, copy=copy, account="4711")

    assert [(row["bot"], row["message"], row["content"]) for row in said] == [
        ("4712", "3", "and it is full"),
        ("4711", "2", "the ferry leaves at nine"),
    ]
    assert [(row["name"], row["content"], row["about"]) for row in known] == [
        ("Pip", "Ana asked for the ferry", ["ana"])
    ]
    assert [(row["name"], row["message"], row["content"]) for row in wrote] == [
        ("Pip", "2", "the ferry leaves at nine")
    ]
    facts = await raw.ask(
        "MATCH (:User {copy: $copy, id: 'ana'})-[:FACT]->(e:Entity) RETURN e.content AS content ORDER BY content",
        copy=copy,
    )
    assert [row["content"] for row in facts] == ["Ana asked for the ferry", "Ana is up early"]
    assert (await app.projections.diff("neo4j")).count == 0
    await app.projections.drop("neo4j")


async def test_the_queries_find_the_same_in_a_graph_without_texts_and_nothing_of_what_was_erased(
    app: App, server: tuple[str, str, str], raw: Raw
) -> None:
    app = await told(app, server, "none")
    await app.projections.rebuild("neo4j")
    copy = await assert_alike(app, raw)

    said = await raw.ask(BOTS_SAID, copy=copy)
    assert [(row["bot"], row["message"], row["content"]) for row in said] == [
        ("4712", "3", None),
        ("4711", "2", None),
    ]
    held = await raw.ask("MATCH (n {copy: $copy}) RETURN properties(n) AS n", copy=copy)
    assert "ferry" not in repr(held)
    assert "travel" not in repr(held)

    await app.erasure.person("4711")
    assert await copying.write_pending(app.db, app.settings, app.org_id) == []

    assert [row["bot"] for row in await raw.ask(BOTS_SAID, copy=copy)] == ["4712"]
    assert await raw.ask(BOTS_KNOW, copy=copy) == []
    assert await raw.ask(AGENT_WROTE, copy=copy, account="4711") == []
    held = await raw.ask("MATCH (n {copy: $copy}) RETURN properties(n) AS n", copy=copy)
    assert "Pip" not in repr(held)
    assert "4711" not in repr(held)
    await app.projections.drop("neo4j")


async def test_an_index_of_an_older_version_is_replaced(graph: Neo4jProjection, raw: Raw) -> None:
    await raw.ask("CREATE (:Copy {name: 'older'}), (:Subject:User {copy: 'older', id: '1', version: 1})")

    assert "older" not in await graph.index_names()
    await graph.prepare("newer", dimensions=0)

    assert await raw.ask("MATCH (n {copy: 'older'}) RETURN n") == []
    assert await raw.ask("MATCH (c:Copy {name: 'older'}) RETURN c") == []
    await graph.remove("newer")


async def named(app: App) -> str:
    """Return the name of the index that is read."""
    [status] = await app.projections.status()
    assert status.index_name is not None
    return status.index_name
