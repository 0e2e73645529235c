"""A digest holds what a room learned since the viewer wrote there, by kind and by person, and nothing hidden."""

from datetime import timedelta

import pytest

from conftest import OpenApp
from ingest.stories import author, message, room
from roomlore.domain.errors import BadInput
from roomlore.domain.incoming import IncomingMembership
from roomlore.operations import App
from roomlore.operations.digest import Digest
from surfaces.web.conftest import visiting

ANA, BO, CY = author("ana"), author("bo"), author("cy")
SIDE = room("side", visibility="members", members=tuple(IncomingMembership(author=who) for who in (BO, CY)))


@pytest.fixture
async def app(open_app: OpenApp) -> App:
    """Open an org in which Ana wrote first, then Bo; and Bo and Cy in a room for members."""
    app = await open_app("digest")
    await app.ingest_batch(
        [
            message("1", "hello", author=ANA),
            message("2", "we take the ferry on Friday", author=BO),
            message("3", "I like window seats", author=BO),
            message("9", "the boat is sold", author=BO, room=SIDE),
            message("10", "oh", author=CY, room=SIDE),
        ]
    )
    await app.memories.remember("They take the ferry.", kind="process_decision", sources=["2"])
    await app.memories.remember("Bo likes window seats.", kind="preference", sources=["3"], about=["bo"])
    await app.memories.remember("The boat is sold.", kind="process_outcome", sources=["9"])
    return app


async def of(app: App, who: str, where: str = "general", **options) -> Digest:
    viewer = app.operator if who == "operator" else await app.viewer(who)
    return await app.memories.digest(viewer, where, **options)


def told(found: Digest) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    sections = {one.kind: [memory.content for memory in one.memories] for one in found.sections}
    return sections, {one.name: [memory.content for memory in one.memories] for one in found.people}


async def test_memories_are_listed_by_kind_and_by_person(app: App):
    found = await of(app, "ana")
    assert told(found) == (
        {"process_decision": ["They take the ferry."]},
        {"Bo": ["Bo likes window seats."]},
    )
    assert not found.is_truncated


async def test_a_digest_begins_where_the_viewer_wrote_last(app: App):
    assert told(await of(app, "bo")) == ({}, {"Bo": ["Bo likes window seats."]})
    first = (await of(app, "bo")).since
    assert told(await of(app, "bo", since=first - timedelta(days=1))) == told(await of(app, "ana"))


async def test_a_limit_leaves_out_the_oldest(app: App):
    found = await of(app, "ana", limit=1)
    assert (told(found), found.is_truncated) == (({}, {"Bo": ["Bo likes window seats."]}), True)


async def test_what_a_viewer_may_not_read_is_not_told(app: App):
    found = await of(app, "cy", "side", since=(await of(app, "ana")).since)
    assert told(found) == ({"process_outcome": ["The boat is sold."]}, {})
    await app.ingest_batch([message("11", "forget that", author=BO, room=SIDE, reply_to="9")])
    found = await of(app, "cy", "side", since=(await of(app, "ana")).since)
    assert told(found) == ({}, {})


async def test_questions_without_an_answer_are_open(app: App):
    await app.ingest_batch(
        [
            message("20", "who has the projector?", author=BO),
            message("21", "it is in my drawer", author=ANA, reply_to="20"),
            message("22", "when does the ferry leave?", author=BO),
            message("29", "who buys the next boat?", author=CY, room=SIDE),
        ]
    )
    await app.drain()
    start = (await of(app, "bo")).since - timedelta(days=1)
    found = await of(app, "ana", since=start)
    assert [one.external_id for one in found.open_questions] == ["22"]
    assert (await of(app, "ana", since=found.open_questions[0].sent_at + timedelta(1))).open_questions == []
    key = await app.keys.create("member", name="ana's", participant="ana")
    async with visiting(app, key.key) as visitor:
        page = await visitor.page(f"/r/{found.room_id}/digest?since={start:%Y-%m-%d}")
    assert "when does the ferry leave?" in page
    assert "who has the projector?" not in page


async def test_questions_that_a_viewer_may_not_read_are_not_open(app: App):
    await app.ingest_batch(
        [
            message("30", "who buys the next boat?", author=BO, room=SIDE),
            message("31", "where is the gift for Cy hidden?", author=BO, room=SIDE),
            message("32", "don't tell Cy", author=BO, room=SIDE, reply_to="31"),
            message("33", "who pays for it?", author=ANA, kind="whisper", audience=[BO]),
        ]
    )
    await app.drain()
    start = (await of(app, "bo")).since - timedelta(days=1)

    async def asked(who: str, where: str) -> list[str]:
        return [one.external_id for one in (await of(app, who, where, since=start)).open_questions]

    assert await asked("cy", "side") == ["30"]
    assert await asked("bo", "general") == await asked("ana", "general") == ["33"]
    assert await asked("cy", "general") == []


async def test_a_time_needs_a_zone(app: App):
    with pytest.raises(BadInput, match="time zone"):
        await of(app, "ana", since=(await of(app, "ana")).since.replace(tzinfo=None))


async def test_the_page_shows_the_same(app: App):
    key = await app.keys.create("member", name="ana's", participant="ana")
    async with visiting(app, key.key) as visitor:
        [room_id] = [one.id for one in await app.rooms(app.operator) if one.name == "general"]
        page = await visitor.page(f"/r/{room_id}/digest")
        assert "They take the ferry." in page
        assert "Bo likes window seats." in page
        twin = await visitor.twin(f"/r/{room_id}/digest.json?since=2999-01-01")
        assert (twin["sections"], twin["people"]) == ([], [])
