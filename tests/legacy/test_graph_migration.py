"""Taking over a graph of agents: once, completely, and comparably."""

import random
from dataclasses import replace

import pytest

from ingest.stories import author, message
from legacy.graphs import NOW, agent_memory, pages_of, user
from roomlore.domain.errors import NotAllowed
from roomlore.operations import App
from roomlore.operations.graph_migration import GraphMigration, preview

ROWS = [
    agent_memory(place=1),
    agent_memory(
        place=2,
        id="k2",
        memory_type="interaction",
        importance=0.6,
        content="Talked about the ferry",
        tags=["discord"],
        involved=["Möngke"],
    ),
    agent_memory(place=3, id="m1", agent_name="Möngke", memory_type="learning", importance=0.75),
    agent_memory(place=4, id=None),
]
FACT = {
    "place": 1,
    "fields": {"predicate": "LIKES"},
    "entity": {"name": "tea"},
    "user": user("4711", "Ana"),
}


def migration(app: App, **more) -> GraphMigration:
    return GraphMigration(access=app.access, rng=random.Random(1), **more)


async def test_memories_arrive_with_all_that_the_graph_states_and_a_second_run_adds_nothing(app: App) -> None:
    pages = pages_of(agent_memories=ROWS, facts=[FACT])

    first = await migration(app).run(pages, now=NOW)
    second = await migration(app).run(pages, now=NOW)

    assert (first.added, first.existing, dict(first.skipped_by_reason)) == (4, 0, {"no id": 1})
    assert (second.added, second.existing) == (0, 4)
    assert first.is_equal
    assert second.is_equal
    assert (first.groups, first.compared) == (4, 4)
    kublai = await app.viewer("Kublai")
    assert kublai.role == "agent"
    found = {one.kind: one for one in await app.agents.memories(kublai, "Kublai")}
    assert found.keys() == {"insight", "interaction"}
    talk = found["interaction"]
    assert (talk.content, talk.importance, list(talk.tags)) == ("Talked about the ferry", 3.0, ["discord"])
    [of_both] = await app.agents.memories(app.operator, "Kublai", present=["Möngke"])
    assert of_both.id == talk.id
    assert [person.name for person in of_both.participants if person.role == "involved"] == ["Möngke"]
    ana = await app.graph.memories_about(app.operator, "Ana")
    assert [one.content for one in ana.items] == ["Ana likes tea"]


async def test_the_trust_of_a_relationship_becomes_stated_trust_and_replaces_none(app: App) -> None:
    def trusts(place: int, type_: str, other: dict, **fields) -> dict:
        kublai = user(None, "Kublai", labels=["Agent"])
        return {"place": place, "type": type_, "fields": fields, "user": kublai, "other": other}

    ana, ben = user("4711", "Ana"), user("4712", "Ben")
    old = trusts(1, "KNOWS", ana, trust=0.2, created_at="2026-01-01T00:00:00Z")
    new = trusts(2, "TRUSTS", ana, score=0.9, created_at="2026-02-01T00:00:00Z")
    first = await migration(app).run(pages_of(relationships=[old, new]), now=NOW)

    assert first.trusts == 1
    assert first.is_equal
    [found] = await app.agents.relationships(app.operator, "Kublai")
    assert (found.name, found.trust, found.last_met_at) == ("Ana", 0.9, None)
    assert found.stated is not None
    assert (found.stated.stated_at.isoformat(), found.stated.stated_by) == ("2026-02-01T00:00:00+00:00", None)

    await app.agents.set_trust("Kublai", "Ana", 0.3)
    later = trusts(3, "RELATIONSHIP", ana, trust=1.0)
    more = await migration(app).run(pages_of(relationships=[old, later, trusts(4, "TRUSTS", ben, trust=0.6)]))
    assert (more.added, more.trusts) == (2, 1)
    names = {one.name: one.trust for one in await app.agents.relationships(app.operator, "Kublai")}
    assert names == {"Ana": 0.3, "Ben": 0.6}


async def test_what_an_agent_remembers_is_for_itself_unless_the_whole_org_may_read_it(app: App) -> None:
    await migration(app).run(pages_of(agent_memories=ROWS), now=NOW)
    mongke = await app.viewer("Möngke")
    assert {one.kind for one in await app.memories.all(mongke)} == {"learning"}

    other = replace(migration(app), platform="other", audience="org")
    await other.run(pages_of(agent_memories=[agent_memory(id="z", content="for all")]), now=NOW)
    assert "for all" in {one.content for one in await app.memories.all(mongke)}


async def test_nobody_who_was_erased_comes_back(app: App) -> None:
    pages = pages_of(agent_memories=ROWS)
    await migration(app).run(pages, now=NOW)
    gone = await app.viewer("Möngke")
    await app.erasure.person(str(gone.participant_id))

    report = await migration(app).run(pages, now=NOW)

    assert report.added == 0
    assert report.skipped_by_reason["erased"] == 2
    assert report.is_equal
    people = await app.people.accounts(app.operator)
    assert "Möngke" not in {one.name for one in people}
    assert "Kublai" in {one.name for one in people}


async def test_a_difference_between_graph_and_database_is_reported_by_group_and_by_field(app: App) -> None:
    pages = pages_of(agent_memories=ROWS)
    await migration(app).run(pages, now=NOW)
    changed = [replace_fields(ROWS[0], memory_type="observation", content="another"), *ROWS[1:]]

    report = await migration(app).run(pages_of(agent_memories=changed), now=NOW)

    assert not report.is_equal
    assert {(one.kind, one.in_graph, one.in_database) for one in report.count_differences} == {
        ("observation", 1, 0),
        ("insight", 0, 1),
    }
    [different] = report.field_differences
    assert set(different.fields) == {"kind", "content", "other properties"}


def replace_fields(row: dict, **fields) -> dict:
    return {**row, "fields": {**row["fields"], **fields}}


async def test_an_agent_of_the_graph_may_be_one_that_writes_here(app: App) -> None:
    await app.ingest(message("1", author=author("4711", name="Kublai Khan", kind="agent")))
    await app.ingest(message("2", author=author("möngke", name="Möngke", kind="agent")))
    people = {"Kublai": "4711", "Möngke": "möngke"}

    report = await migration(app, people=people).run(pages_of(agent_memories=ROWS), now=NOW)

    assert report.is_equal
    kublai = await app.viewer("Kublai Khan")
    [talk] = await app.agents.memories(kublai, "4711", present=["möngke"])
    assert talk.content == "Talked about the ferry"
    assert len(await app.people.accounts(app.operator)) == 2


async def test_two_nodes_with_one_id_are_one_memory(app: App) -> None:
    twice = [agent_memory(place=1), agent_memory(place=2, content="the same id")]
    report = await migration(app).run(pages_of(agent_memories=twice), now=NOW)
    assert (report.added, dict(report.skipped_by_reason)) == (1, {"the id repeats": 1})
    assert report.is_equal


async def test_secrets_stay_out(app: App) -> None:
    row = agent_memory(content="the key is sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH")
    report = await migration(app).run(pages_of(agent_memories=[row]), now=NOW)
    [kept] = await app.memories.all(app.operator)
    assert "sk-ant" not in kept.content
    assert report.is_equal


async def test_a_preview_counts_and_needs_no_database() -> None:
    report = await preview(pages_of(agent_memories=ROWS, facts=[FACT]), now=NOW)
    assert dict(report.read) == {"agent_memories": 3, "facts": 1}
    assert (report.added, report.groups) == (0, None)


async def test_only_an_operator_takes_over_a_graph(app: App) -> None:
    await app.ingest(message("1", author=author("ana")))
    ana = app.impersonate(await app.viewer("ana"))
    with pytest.raises(NotAllowed):
        await migration(ana).run(pages_of(agent_memories=ROWS), now=NOW)
