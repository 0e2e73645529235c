"""A graph of agents in a real Neo4j is taken over once and completely, and its own questions have the same answers."""

import asyncio
import json
import random
from collections.abc import AsyncGenerator

import pytest
from click.testing import CliRunner

from legacy.graphs import (
    AGENTS,
    CREATE_MEMORIES,
    CREATE_REST,
    CREATE_USERS,
    NOW,
    TAGS,
    THEIR_INTERACTIONS,
    THEIR_TAGGED,
    many_memories,
)
from projections.neo4j.stories import Raw
from roomlore.cli.main import cli
from roomlore.operations import App
from roomlore.operations.graph_migration import GraphMigration, open_graph

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

MEMORIES, USERS = 3_000, 300


@pytest.fixture(name="filled")
async def _filled(raw: Raw) -> AsyncGenerator[Raw]:
    """A server with the graph of another system."""
    rows = many_memories(MEMORIES)
    for start in range(0, MEMORIES, 500):
        await raw.ask(CREATE_MEMORIES, rows=rows[start : start + 500])
    await raw.ask(CREATE_USERS)
    await raw.ask(CREATE_REST)
    yield raw
    labels = "AgentMemory|Tag|Agent|User|Entity|Memory"
    await raw.ask(f"MATCH (n:{labels}) WHERE n.uuid IS NULL OR n.uuid = 'ours' DETACH DELETE n")


async def test_a_graph_of_some_thousand_nodes_is_taken_over_once_and_compares_equal(
    app: App, server: tuple[str, str, str], filled: Raw
) -> None:
    url, user, password = server
    migration = GraphMigration(access=app.access, rng=random.Random(3))

    async with open_graph(url, user=user, password=password) as pages:
        first = await migration.run(pages, now=NOW)
        second = await migration.run(pages, now=NOW)

    stored = MEMORIES + 1 + USERS + 1 + USERS + 2
    assert dict(first.skipped_by_reason) == {
        "no id": 1,
        "no agent": 1,
        "no content": 1,
        "the time is not a time": 1,
        "another type of memory, kept as an observation": 1,
        "no author": 1,
    }
    assert (first.added, first.existing, second.added, second.existing) == (stored, 0, 0, stored)
    assert (first.count_differences, first.field_differences, first.compared) == ([], [], 200)
    assert second.is_equal
    assert (first.groups or 0) > 500
    await same_answers(app, filled)
    assert "of an index" not in {one.content for one in await app.memories.all(app.operator, limit=1000)}


async def same_answers(app: App, raw: Raw) -> None:
    """The questions that the agents asked of their graph find the same memories here."""
    asked = 0
    for agent in AGENTS:
        for other in AGENTS:
            if agent == other:
                continue
            theirs = await raw.ask(THEIR_INTERACTIONS, agent_name=agent, interacting_with=[other])
            ours = await app.agents.memories(
                app.operator, agent, kinds=["interaction"], present=[other], limit=1000
            )
            assert {(row["content"], row["created_at"]) for row in theirs} == {
                (one.content, one.valid_from.replace(tzinfo=None).isoformat()) for one in ours
            }
            asked += len(ours)
        for tag in TAGS:
            theirs = await raw.ask(THEIR_TAGGED, agent_name=agent, keywords=[tag])
            ours = await app.agents.memories(app.operator, agent, tags=[tag], limit=1000)
            assert {row["content"] for row in theirs} == {one.content for one in ours}
            asked += len(ours)
    assert asked > 1000


async def test_the_command_only_reports_in_a_dry_run(server: tuple[str, str, str], filled: Raw) -> None:
    del filled
    url, user, password = server
    command = ["--json", "migrate", "graph", url, "--user", user, "--dry-run"]

    done = await asyncio.to_thread(
        CliRunner().invoke, cli, command, env={"ROOMLORE_MIGRATE_PASSWORD": password}
    )

    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["read"]["agent_memories"] == MEMORIES + 1
    assert (report["added"], report["groups"]) == (0, None)
