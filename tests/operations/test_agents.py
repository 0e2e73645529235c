"""What agents remember and make of others, who may see it, and that no block outlives what it shows."""

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest

from conftest import TellOnce
from ingest.stories import author, message, room
from roomlore.context.memory_section import section_text
from roomlore.context.render import to_openai, to_text
from roomlore.db import agents
from roomlore.domain.errors import BadInput, NotAllowed, NotFound
from roomlore.domain.incoming import IncomingMembership
from roomlore.operations import App
from roomlore.settings import from_environment

ANA, BO, CY = author("ana"), author("bo"), author("cy")
PIP, POP = author("pip", kind="agent"), author("pop", kind="agent")
#: The day before yesterday: what is told is past, and nothing has lost weight.
NOON = (datetime.now(UTC) - timedelta(days=2)).replace(hour=12, minute=0, second=0, microsecond=0)
GENERAL = room("general")
DEN = room(
    "den", visibility="members", members=tuple(IncomingMembership(author=who) for who in (ANA, PIP, POP))
)


def said(number: int, who, body: str, where=GENERAL, **fields):
    return message(
        f"m{number}", body, author=who, room=where, sent_at=NOON + timedelta(minutes=number), **fields
    )


TALK = [
    said(1, ANA, "which printer driver do I need for the attic?"),
    said(2, PIP, "the one called toner-blue, it is on the shelf", reply_to="m1"),
    said(3, ANA, "thanks, that works", reply_to="m2"),
    said(4, BO, "no, that's wrong: the printer is in the cellar", reply_to="m1"),
    said(5, CY, "agreed, the cellar", reply_to="m4"),
    said(6, POP, "exactly", reply_to="m1"),
]


async def talk(app: App) -> None:
    accepted = await app.ingest_batch(TALK)
    assert accepted.skipped == []
    await app.drain()


@pytest.fixture
async def told(app: App, tell_once: TellOnce) -> App:
    await tell_once(app, talk)
    return app


async def acting(app: App, name: str) -> App:
    return app.impersonate(await app.viewer(name))


async def remember(app: App, name: str, content: str, **details):
    return await (await acting(app, name)).memories.remember(content, **details)


async def met(app: App, agent: str = "pip", *, by: str | None = None) -> dict:
    viewer = app.operator if by is None else await app.viewer(by)
    return {one.name: one for one in await app.agents.relationships(viewer, agent)}


async def counts(admin, app: App) -> list:
    query = "select * from interactions where org_id = %s order by agent_id, participant_id"
    return await (await admin.execute(query, [app.org_id])).fetchall()


async def shown(app: App, *, by: str = "pip", where: str = "general", **more) -> list[str]:
    block = await app.agents.memory_section(await app.viewer(by), where, **more)
    return [line.text for line in block.lines]


# Whom an agent met


async def test_everybody_who_takes_part_in_a_conversation_is_met(told):
    found = await met(told)
    assert found.keys() == {"Ana", "Bo", "Cy", "Pop"}
    ana = found["Ana"]
    assert (ana.conversations, ana.messages, ana.answered, ana.answers) == (1, 2, 1, 1)


async def test_what_people_made_of_somebodys_words_counts_and_what_agents_did_does_not(told):
    found = await met(told)
    # Bo set Ana right, Cy agreed with Bo; Pop's agreement with Ana is an agent's.
    assert (found["Ana"].confirmed, found["Ana"].corrected) == (0, 1)
    assert (found["Bo"].confirmed, found["Bo"].corrected) == (1, 0)
    assert found["Bo"].trust > found["Cy"].trust > found["Ana"].trust
    assert found["Ana"].reasons


async def test_going_through_a_room_again_counts_nothing_twice(told, admin):
    before = await counts(admin, told)
    accepted = await told.ingest_batch(
        [*TALK, dataclasses.replace(TALK[0], body="which driver?", edited_at=NOON + timedelta(days=1))]
    )
    assert accepted.revised == 1
    await told.drain()
    assert await counts(admin, told) == before != []


async def test_what_passed_long_ago_weighs_less(told, monkeypatch):
    before = (await met(told))["Bo"].trust

    class Later(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(days=900)

    monkeypatch.setattr("roomlore.operations.agents.datetime", Later)
    assert 0.5 < (await met(told))["Bo"].trust < before


async def test_what_is_gone_does_not_count(told):
    await told.erasure.message("m5")
    await told.drain()
    found = await met(told)
    assert "Cy" not in found
    assert found["Bo"].confirmed == 0
    await told.erasure.person("bo")
    await told.drain()
    assert (await met(told)).keys() == {"Ana", "Pop"}


async def test_a_redaction_takes_what_was_counted_with_it(told, admin):
    await told.ingest(dataclasses.replace(TALK[4], deleted=True))
    assert await counts(admin, told) == []
    await told.drain()
    assert (await met(told))["Bo"].confirmed == 0


@pytest.mark.parametrize(
    ("edge", "times"),
    [(("explicit", 1.0), 1), (("mention", 0.95), 1), (("mention", 0.6), 0), (("inferred", 0.99), 0)],
)
async def test_what_people_made_of_it_counts_only_where_it_is_sure_whom_they_answered(
    told, admin, edge, times
):
    await admin.execute(
        "update replies set method = %s, confidence = %s where org_id = %s and child_id in"
        " (select id from messages where external_id in ('m4', 'm5'))",
        [*edge, told.org_id],
    )
    rows = await admin.execute("select id from conversations where org_id = %s", [told.org_id])
    ids = [row[0] for row in await rows.fetchall()]
    await told.db.change(told.org_id, lambda conn: agents.refresh_interactions(conn, told.org_id, ids))
    found = await met(told)
    assert (found["Ana"].corrected, found["Bo"].confirmed) == (times, times)
    # That they were answered counts all the same.
    assert found["Ana"].answered == 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("body", "times"),
    [
        ("actually, scratch that, I live in Porto", 0),
        ("Actually I live in Porto", 0),
        ("no, actually I'm in Porto", 0),
        ("actually, the attic... never mind, my mistake", 0),
        ("correction: my flat is in Porto", 0),
        ("actually, it is in the cellar", 1),
        ("Actually I think it is in the cellar", 1),
        ("correction: the cellar", 1),
    ],
)
async def test_who_mends_their_own_words_sets_nobody_else_right(app, body, times):
    await app.ingest_batch(
        [
            said(1, ANA, "the attic in Lisbon has a printer, as I said"),
            said(2, PIP, "so the attic it is", reply_to="m1"),
            said(3, CY, "Lisbon has nice attics", reply_to="m1"),
            said(4, ANA, body, reply_to="m3"),
        ]
    )
    await app.drain()
    assert (await met(app))["Cy"].corrected == times


async def test_what_an_agent_makes_of_others_is_its_own(told):
    assert (await met(told, by="pip")).keys() == {"Ana", "Bo", "Cy", "Pop"}
    for other in ("ana", "pop"):
        with pytest.raises(NotAllowed):
            await met(told, by=other)
    with pytest.raises(NotAllowed):
        await (await acting(told, "ana")).agents.relationships(await told.viewer("pip"), "pip")


async def test_a_conversation_that_an_agent_may_not_follow_counts_for_nothing(app):
    late = room(
        "late",
        visibility="members",
        members=(
            IncomingMembership(author=ANA),
            IncomingMembership(author=PIP, joined_at=NOON + timedelta(minutes=2)),
        ),
    )
    await app.ingest_batch(
        [
            said(1, ANA, "the kernel module panics", late),
            said(3, PIP, "which kernel module panics?", late, reply_to="m1"),
        ]
    )
    await app.drain()
    assert (await met(app)).keys() == {"Ana"}
    assert await met(app, by="pip") == {}


# Trust that was stated


async def test_the_computed_trust_starts_from_what_was_stated(told):
    before = await met(told)
    await told.agents.set_trust("pip", "ana", 0.9)
    after = await met(told)
    assert after["Ana"].trust > before["Ana"].trust
    assert (after["Ana"].stated.trust, after["Ana"].stated.stated_by) == (0.9, None)
    assert after["Ana"].reasons[0].what == "0.90 was stated by an operator"
    assert after["Bo"].trust == pytest.approx(before["Bo"].trust)
    assert after["Bo"].stated is None
    await told.agents.withdraw_trust("pip", "ana")
    assert (await met(told))["Ana"].stated is None


async def test_an_agent_states_whom_it_trusts_and_nobody_else_does_it_for_it(told):
    pip = await acting(told, "pip")
    await pip.agents.set_trust("pip", "bo", 0.1)
    await pip.agents.set_trust("pip", "bo", 0.2)
    stated = (await met(told, by="pip"))["Bo"].stated
    assert (stated.trust, stated.stated_by) == (0.2, pip.principal.participant_id)
    for other in ("pop", "ana"):
        for call in (
            (await acting(told, other)).agents.set_trust("pip", "bo", 1.0),
            (await acting(told, other)).agents.withdraw_trust("pip", "bo"),
        ):
            with pytest.raises(NotAllowed):
                await call
    assert (await met(told))["Bo"].stated == stated


async def test_somebody_whom_an_agent_has_not_met_is_listed_if_trust_was_stated(told):
    await told.ingest(said(7, author("dora"), "hello from the den", DEN))
    await told.agents.set_trust("pip", "dora", 0.8)
    dora = (await met(told))["Dora"]
    assert (dora.trust, dora.conversations, dora.last_met_at) == (0.8, 0, None)
    assert (await met(told, by="pip"))["Dora"] == dora
    [named] = await told.agents.relationships(told.operator, "pip", present=["dora"])
    assert named == dora


async def test_a_statement_holds_for_every_account_of_a_person(told):
    await told.ingest(said(7, author("annie"), "I am Ana"))
    await told.people.merge("ana", "annie")
    await told.agents.set_trust("pip", "annie", 0.9)
    await told.agents.set_trust("pip", "ana", 0.1)
    found = await met(told)
    assert found["Ana"].stated.trust == 0.1
    assert "Annie" not in found
    await told.agents.withdraw_trust("pip", "annie")
    assert (await met(told))["Ana"].stated is None


async def test_the_newest_statement_holds_after_two_accounts_turn_out_to_be_one_person(told):
    await told.ingest(said(7, author("annie"), "hello"))
    await told.agents.set_trust("pip", "annie", 0.9)
    await told.agents.set_trust("pip", "ana", 0.1)
    await told.people.merge("ana", "annie")
    found = await met(told)
    assert found["Ana"].stated.trust == 0.1
    assert "Annie" not in found


@pytest.mark.parametrize(
    ("who", "whom", "value"),
    [("pip", "pip", 0.5), ("ana", "bo", 0.5), ("pip", "bo", 1.1), ("pip", "bo", -0.1)],
)
async def test_a_statement_that_means_nothing_is_refused(told, who, whom, value):
    with pytest.raises(BadInput):
        await told.agents.set_trust(who, whom, value)


async def test_trust_in_nobody_is_refused(told):
    with pytest.raises(NotFound):
        await told.agents.set_trust("pip", "nobody", 0.5)


async def test_a_deleted_room_takes_no_stated_trust_with_it(told):
    await told.agents.set_trust("pip", "bo", 0.9)
    await told.erasure.room("general")
    assert (await met(told))["Bo"].stated.trust == 0.9


# What an agent remembers


async def lived_through(told: App) -> None:
    await talk(told)
    await remember(told, "pip", "Printers fail on Mondays", kind="insight", tags=["printer"], sources=["m1"])
    await remember(told, "pip", "Toner goes on the shelf", kind="learning", task="T-1", sources=["m2"])
    await remember(
        told, "pip", "Ana asked for a driver", kind="interaction", involving=["ana"], sources=["m1"]
    )
    await remember(told, "pip", "Bo was curt", kind="interaction", involving=["bo"], sources=["m4"])
    await remember(told, "pip", "The attic is cold", kind="observation", tags=["attic"])
    await remember(told, "pop", "The cellar is damp", kind="observation", sources=["m4"])


@pytest.fixture
async def learnt(app: App, tell_once: TellOnce) -> App:
    await tell_once(app, lived_through)
    return app


async def contents(app: App, agent: str, *, by: str | None = None, **looked) -> list[str]:
    viewer = app.operator if by is None else await app.viewer(by)
    return [one.content for one in await app.agents.memories(viewer, agent, **looked)]


async def test_memories_of_an_agent_are_found_by_kind_task_tag_topic_and_who_is_present(learnt):
    assert await contents(learnt, "pip", kinds=["insight", "observation"]) == [
        "Printers fail on Mondays",
        "The attic is cold",
    ]
    assert await contents(learnt, "pip", task="T-1") == ["Toner goes on the shelf"]
    assert await contents(learnt, "pip", tags=["attic", "nothing"]) == ["The attic is cold"]
    assert await contents(learnt, "pip", kinds=["interaction"], present=["bo"]) == ["Bo was curt"]
    assert await contents(learnt, "pip", topic="a cold morning", kinds=["observation", "interaction"]) == [
        "The attic is cold"
    ]
    assert await contents(learnt, "pip", newest=True, limit=1) == ["The attic is cold"]
    assert await contents(learnt, "pop") == ["The cellar is damp"]


async def test_for_a_conversation_they_come_by_kind(learnt):
    found = await learnt.agents.experiences(
        await learnt.viewer("pip"), "pip", topic="printer toner", present=["ana"]
    )
    assert {kind: [one.content for one in held] for kind, held in found.items()} == {
        "insight": ["Printers fail on Mondays"],
        "learning": ["Toner goes on the shelf"],
        "interaction": ["Ana asked for a driver"],
        "observation": [],
    }


async def test_what_is_about_the_topic_comes_first_and_of_the_rest_only_what_is_weighty(told):
    await remember(told, "pip", "The cellar floods", kind="insight", sources=["m1"])
    for number in range(3):
        await remember(told, "pip", f"Old insight {number}", kind="insight", importance=5, sources=["m1"])
    await remember(told, "pip", "Pumps stand in the cellar", kind="learning", sources=["m1"])
    await remember(told, "pip", "Toner goes on the shelf", kind="learning", sources=["m1"])
    await remember(told, "pip", "Never mix acids", kind="learning", importance=4.5, sources=["m1"])
    await remember(told, "pip", "Bread rises slowly", kind="learning", tags=["cellar"], sources=["m1"])
    pip = await told.viewer("pip")
    found = await told.agents.experiences(pip, "pip", topic="the cellar")
    assert [one.content for one in found["insight"]][:1] == ["The cellar floods"]
    assert len(found["insight"]) == 4
    assert [one.content for one in found["learning"]] == [
        "Bread rises slowly",
        "Pumps stand in the cellar",
        "Never mix acids",
    ]
    block = await told.agents.memory_section(pip, "general", topic="the cellar", present=[])
    assert "The cellar floods" in [line.text for line in block.lines]
    reasons = {one.label: one.reason for one in block.explain() if one.included}
    [acids] = [line.label for line in block.lines if line.text == "Never mix acids"]
    assert reasons[acids] == "weighty, on any topic"
    # Without a topic nothing is left out.
    assert len((await told.agents.experiences(pip, "pip"))["learning"]) == 4


async def test_only_observations_of_the_last_thirty_days_are_recent(told, admin):
    for number, days in enumerate((29, 31)):
        memory = await remember(told, "pip", f"Noise {number}", kind="observation", sources=["m1"])
        await admin.execute(
            "update memories set valid_from = now() - make_interval(days => %s) where id = %s",
            [days, memory.id],
        )
    assert await shown(told, topic="", present=[]) == ["Noise 0"]
    found = await told.agents.experiences(await told.viewer("pip"), "pip")
    assert [one.content for one in found["observation"]] == ["Noise 0"]
    assert await contents(told, "pip", newest=True) == ["Noise 0", "Noise 1"]


async def test_what_rests_on_nothing_is_the_agents_alone(learnt):
    assert "The attic is cold" in await contents(learnt, "pip", by="pip")
    assert "The attic is cold" not in await contents(learnt, "pip", by="ana")
    assert "Printers fail on Mondays" in await contents(learnt, "pip", by="ana")


async def test_importance_comes_first_then_recency_and_after_thirty_days_less_counts(told, admin):
    for number, days in enumerate((1, 29, 45, 400)):
        memory = await remember(told, "pip", f"Idea {number}", kind="insight", importance=2)
        await admin.execute(
            "update memories set valid_from = now() - make_interval(days => %s) where id = %s",
            [days, memory.id],
        )
    heavy = await remember(told, "pip", "Old but grave", kind="insight", importance=5)
    await admin.execute(
        "update memories set valid_from = now() - interval '5 years' where id = %s", [heavy.id]
    )
    assert await contents(told, "pip") == ["Idea 0", "Idea 1", "Idea 2", "Old but grave", "Idea 3"]


# The block


async def test_a_block_shows_what_the_agent_knows_of_the_occasion(learnt):
    pip = await learnt.viewer("pip")
    block = await learnt.agents.memory_section(pip, "general", topic="printer toner", present=["ana"])
    assert [(line.section, line.text) for line in block.lines] == [
        ("insights", "Printers fail on Mondays"),
        ("learnings", "Toner goes on the shelf"),
        ("interactions", "Ana asked for a driver"),
    ]
    assert block.focus.text == "task T-1"
    assert section_text(block).startswith("[What Pip remembers]\nInsights:\n- #k1 ")
    assert set(block.citations.values()) == {line.memory_id for line in block.lines}


async def test_by_default_a_block_is_about_the_conversation_and_those_who_take_part(learnt):
    assert {"Ana asked for a driver", "Bo was curt"} <= set(await shown(learnt))


async def test_only_an_agent_has_a_block_and_reads_its_own(learnt):
    with pytest.raises(BadInput, match="Ana: is no agent"):
        await learnt.agents.memory_section(await learnt.viewer("ana"), "general")
    with pytest.raises(BadInput, match="an operator: is no agent"):
        await learnt.agents.memory_section(learnt.operator, "general")
    with pytest.raises(NotAllowed):
        await (await acting(learnt, "pop")).agents.memory_section(await learnt.viewer("pip"), "general")
    with pytest.raises(BadInput, match="budget"):
        await learnt.agents.memory_section(await learnt.viewer("pip"), "general", budget=0)


async def test_operators_read_as_any_agent_and_an_agent_as_itself_only(learnt):
    pip = await learnt.viewer("pip")
    assert await learnt.agents.reader("pip") == await learnt.impersonate(pip).agents.reader("Pip") == pip
    for name in ("ana", "pop"):
        with pytest.raises(NotAllowed):
            await (await acting(learnt, name)).agents.reader("pip")
    with pytest.raises(NotFound):
        await learnt.agents.reader("nobody")


async def test_a_context_shows_an_agent_its_block_within_the_budget_and_nobody_else_anything(learnt):
    context = await learnt.context(await learnt.viewer("pip"), "general", budget=600)
    assert to_text(context).startswith("[What Pip remembers]\n")
    assert to_openai(context)[0]["content"].startswith("[What Pip remembers]\n")
    assert context.memory_section.tokens <= 150
    assert (
        context.memory_section.tokens + sum(line.tokens for line in context.lines)
        == context.tokens
        <= context.budget
        == 600
    )
    for viewer in (learnt.operator, await learnt.viewer("ana")):
        plain = await learnt.context(viewer, "general", budget=600)
        assert plain.memory_section is None
        assert plain.tokens <= plain.budget == 600
        assert "remembers" not in to_text(plain)


async def test_what_was_superseded_is_never_shown(learnt):
    old = (await learnt.agents.memories(learnt.operator, "pip", kinds=["insight"]))[0]
    assert "Printers fail on Mondays" in await shown(learnt)
    await remember(
        learnt, "pip", "Printers fail every day", kind="insight", supersedes=str(old.id), sources=["m1"]
    )
    assert "Printers fail on Mondays" not in await shown(learnt)
    assert "Printers fail every day" in await shown(learnt)


# The cache


def asked(app: App) -> tuple[int, int]:
    hits = app._shared.sections.hits(app.org_id)
    return hits.asked, hits.hits


async def test_a_block_is_kept_for_five_minutes(learnt, monkeypatch):
    first = await shown(learnt)
    assert await shown(learnt) == first
    assert asked(learnt) == (2, 1)

    class Later(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(minutes=5)

    monkeypatch.setattr("roomlore.operations.agents.datetime", Later)
    assert await shown(learnt) == first
    assert asked(learnt) == (3, 1)
    assert (await learnt.monitoring.statistics()).blocks.rate == 1 / 3


async def test_a_block_is_not_held_when_its_time_is_over(learnt, monkeypatch):
    await shown(learnt, topic="printer")
    await shown(learnt, topic="toner")

    class Later(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(minutes=5)

    monkeypatch.setattr("roomlore.operations.agents.datetime", Later)
    await shown(learnt, topic="tea")
    assert [occasion.topic for occasion, _ in learnt._shared.sections._entries] == ["tea"]


async def test_two_topics_of_a_room_each_keep_their_block(learnt):
    for topic in ("printer", "toner", "printer", "toner"):
        await shown(learnt, topic=topic)
    assert asked(learnt) == (4, 2)


async def test_so_many_blocks_are_kept_and_no_more(learnt, monkeypatch):
    monkeypatch.setattr("roomlore.agents.section_cache.MAX_CACHED", 2)
    for topic in ("printer", "toner", "tea", "printer"):
        await shown(learnt, topic=topic)
    assert asked(learnt) == (4, 0)
    assert len(learnt._shared.sections._entries) == 2


async def test_another_topic_room_agent_or_company_is_another_block(learnt):
    await learnt.ingest(message("d1", "quiet here", author=ANA, room=DEN))
    for more in ({}, {"topic": "tea"}, {"topic": "tea", "present": ["bo"]}, {"where": "den"}, {"by": "pop"}):
        await shown(learnt, **more)
    assert asked(learnt) == (5, 0)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "change", ["new", "superseded", "put aside", "wished", "redacted", "erased", "person", "edited"]
)
async def test_no_block_outlives_what_it_shows(learnt, change):
    held = {one.content: one for one in await learnt.agents.memories(learnt.operator, "pip")}
    gone = "Printers fail on Mondays"
    assert gone in await shown(learnt)
    match change:
        case "new":
            await remember(learnt, "pip", "Printer paper is short", kind="learning", sources=["m2"])
        case "superseded":
            await remember(
                learnt, "pip", "It was ink", kind="insight", supersedes=str(held[gone].id), sources=["m1"]
            )
        case "put aside":
            await learnt.memories.archive(str(held[gone].id))
        case "wished":
            await learnt.ingest(said(7, ANA, "please delete what I said about the printer driver"))
        case "redacted":
            await learnt.ingest(dataclasses.replace(TALK[0], deleted=True))
        case "erased":
            await learnt.erasure.message("m1")
        case "person":
            await learnt.erasure.person("ana")
        case "edited":
            await learnt.ingest(
                dataclasses.replace(
                    TALK[0], body="nothing", edited_at=datetime.now(UTC) + timedelta(seconds=1)
                )
            )
    now = await shown(learnt)
    assert ("Printer paper is short" in now) == (change == "new")
    assert (gone in now) == (change == "new")
    assert asked(learnt) == (2, 0)


async def test_no_block_outlives_a_membership(app):
    await app.ingest_batch([said(1, ANA, "the den is secret", DEN), said(2, PIP, "I see", DEN)])
    await remember(app, "pip", "The den holds gold", kind="insight", sources=["m1"])
    assert await shown(app, where="den") == ["The den holds gold"]
    left = dataclasses.replace(
        DEN,
        members=(
            IncomingMembership(author=ANA),
            IncomingMembership(author=PIP, joined_at=NOON + timedelta(minutes=2)),
        ),
    )

    async def narrow(conn):
        await conn.execute(
            "update memberships set joined_at = %s where participant_id = (select participant_id from platform_accounts where account_id = 'pip')",
            [NOON + timedelta(minutes=2)],
        )

    await app.db.change(app.org_id, narrow)
    assert await shown(app, where="den", trigger="m2") == []
    assert left.members


async def test_two_processes_agree(learnt):
    other = App(db=learnt.db, org_id=learnt.org_id, settings=learnt.settings)
    assert await shown(learnt) == await shown(other)
    assert asked(other) == (1, 0)
    await remember(other, "pip", "Printer paper is short", kind="learning", sources=["m2"])
    assert "Printer paper is short" in await shown(learnt)


async def test_nobody_unknown_is_told_apart(learnt):
    with pytest.raises(NotFound):
        await learnt.agents.memories(learnt.operator, "nobody")


def test_shadow_is_switched_on_by_the_environment():
    assert from_environment({"ROOMLORE_SHADOW_MEMORY_SECTIONS": "on"}).shadow_memory_sections
    for off in ({}, {"ROOMLORE_SHADOW_MEMORY_SECTIONS": ""}, {"ROOMLORE_SHADOW_MEMORY_SECTIONS": "off"}):
        assert not from_environment(off).shadow_memory_sections
    with pytest.raises(BadInput, match="ROOMLORE_SHADOW_MEMORY_SECTIONS: must be on or off"):
        from_environment({"ROOMLORE_SHADOW_MEMORY_SECTIONS": "yes"})
