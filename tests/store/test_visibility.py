"""Nobody sees what they should not: rows, searches and every answer of the App, in made-up worlds."""

import dataclasses
from collections.abc import Mapping
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roomlore.app import App
from roomlore.context.records import Context
from roomlore.context.render import to_text
from roomlore.domain.audience import can_see_participant, can_see_presence, can_see_reply, can_see_room
from roomlore.domain.errors import RoomloreError
from roomlore.domain.incoming import IncomingMembership, IncomingMessage, IncomingRoom
from roomlore.domain.records import Viewer
from store.worlds import EVERYWHERE, PEOPLE, PLATFORM, TOPICS, Truth, World, at, load, seen_by, truth, worlds

ANA, BEN, CLEO, PIP, ZED = PEOPLE
MANY = 1000
generated = settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,  # each example makes an org of its own
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)


def viewers(told: Truth, other: App, outsider: UUID) -> list[Viewer]:
    """Everybody of the world, the operator, and those who should see nothing."""
    org = told.app.org_id
    return [
        *(Viewer(org_id=org, participant_id=key) for key in told.kinds),
        told.app.operator,
        Viewer(org_id=org, participant_id=uuid4()),
        Viewer(org_id=org, participant_id=outsider),
        *(Viewer(org_id=other.org_id, participant_id=key) for key in list(told.kinds)[:2]),
        other.operator,
    ]


async def outsider_of(app: App) -> UUID:
    """A participant of another org, who has said something there."""
    await app.ingest(say("elsewhere", CLEO, "village elsewhere"))
    return (await app.viewer("cleo")).participant_id


def say(external_id: str, author, body: str = EVERYWHERE, *, room=None, minute: int = 0, **more):
    return IncomingMessage(
        platform=PLATFORM,
        room=room or IncomingRoom(external_id="square", name="Square"),
        external_id=external_id,
        author=author,
        body=body,
        sent_at=at(minute),
        **more,
    )


def closed(name: str, *members, **more) -> IncomingRoom:
    stated = [
        one if isinstance(one, IncomingMembership) else IncomingMembership(author=one) for one in members
    ]
    return IncomingRoom(external_id=name, name=name.title(), visibility="members", members=stated, **more)


async def ids(conn, query: str, params=()) -> set:
    return {row if len(row) > 1 else row[0] for row in await (await conn.execute(query, params)).fetchall()}


NEAREST = """
  select message_id
  from {}(array_fill(1, array[384])::vector::halfvec, %s, null, null, null, null, null, %s)
"""
WORDED = "select message_id from best_worded(%s, null, null, null, null, null, %s)"


@given(world=worlds())
@generated
async def test_rows_and_searches_show_what_the_rule_allows(world: World, open_app, admin):
    await assert_rule(world, open_app, admin)


@pytest.mark.slow
@pytest.mark.timeout(900)
@given(world=worlds())
@settings(generated, max_examples=150)
async def test_rows_and_searches_show_what_the_rule_allows_in_many_worlds(world: World, open_app, admin):
    await assert_rule(world, open_app, admin)


async def assert_rule(world: World, open_app, admin) -> None:
    app, other = await open_app("world"), await open_app("other")
    await load(app, world)
    outsider = await outsider_of(other)
    await other.drain()
    told = await truth(admin, app)
    for viewer in viewers(told, other, outsider):
        expected, facts = told.visible(viewer), told.facts(viewer)
        spoken = {key for key in expected if told.messages[key].kind in {"message", "whisper"}}
        async with app.db.reading(viewer) as conn:
            held = "select id from messages"
            if viewer == other.operator:
                expected |= await ids(admin, "select id from messages where org_id = %s", [other.org_id])
                assert await ids(conn, held) == expected
                continue
            assert await ids(conn, held) == expected
            assert await ids(conn, "select id from timeline") == expected
            assert await ids(conn, WORDED, [EVERYWHERE, MANY]) == spoken - told.redacted
            assert await ids(conn, "select message_id from message_embeddings") == expected & told.embedded
            for function in ("nearest_exact", "nearest_indexed"):
                found = await ids(conn, NEAREST.format(function), [app._embedder.model_id, MANY])
                assert found == expected & told.embedded, function
            await assert_rows_around_messages(conn, told, facts, expected)


async def assert_rows_around_messages(conn, told: Truth, facts, visible: set) -> None:
    org = told.app.org_id
    assert await ids(conn, "select id from rooms") == {
        key for key, room in told.rooms.items() if can_see_room(room, facts)
    }
    assert await ids(conn, "select message_id, participant_id from message_audience") == {
        pair for pair in told.audiences if pair[0] in visible
    }
    assert await ids(conn, "select distinct message_id from revisions") <= visible
    assert await ids(conn, "select id from replies") == {
        key
        for key, (child, parent) in told.replies.items()
        if can_see_reply(told.messages[child], told.messages.get(parent), facts)
    }
    seen = "select room_id, participant_id, nullif(joined_at, '-infinity'), left_at from memberships"
    assert await ids(conn, seen) == {
        (one.room.id, one.participant_id, one.period.joined_at, one.period.left_at)
        for one in told.presences
        if can_see_presence(one, facts)
    }
    known = {
        key
        for key in told.kinds
        if can_see_participant(
            key,
            facts,
            org_id=org,
            presences=[one for one in told.presences if one.participant_id == key],
            said=[one for one in told.messages.values() if one.author_id == key],
        )
    }
    assert await ids(conn, "select id from participants") == known
    assert await ids(conn, "select participant_id from identities") == known
    if not facts.viewer.is_operator:
        assert await ids(conn, "select room_id from activity") == set()
        assert await ids(conn, "select subject_id from work") == set()


# What the App answers


async def crawl(app: App, viewer: Viewer, world: World) -> dict[str, object]:
    """Everything that the App's reads answer to a viewer, errors included."""
    answers: dict[str, object] = {}

    async def ask(key: str, call) -> None:
        try:
            answers[key] = await call
        except RoomloreError as error:
            answers[key] = f"{type(error).__name__}: {error}"

    await ask("rooms", app.rooms(viewer))
    await ask("participants", app.participants(viewer))
    for room in (*(room.external_id for room in world.rooms), "census"):
        await ask(f"participants {room}", app.participants(viewer, room=room))
        await ask(f"messages {room}", app.messages(viewer, room))
        await ask(f"context {room}", app.context(viewer, room))
        await ask(f"search {room}", app.search(viewer, f"{EVERYWHERE} {TOPICS[0]}", room=room, limit=50))
        await ask(f"ask {room}", app.ask(viewer, f"{EVERYWHERE} {TOPICS[0]}", room=room))
    for one in world.said:
        room, key = one.room.external_id, one.external_id
        await ask(f"before {key}", app.messages(viewer, room, limit=3, before=key))
        await ask(f"context {key}", app.context(viewer, room, key, budget=300))
        secret = one.body.split()[1]
        await ask(f"search {key}", app.search(viewer, f"{secret} {one.author.name}", limit=50))
        await ask(f"ask {key}", app.ask(viewer, f"{secret} {' '.join(TOPICS)}"))
    return answers


def plain(value, names: Mapping[UUID, str]):
    """The value with our ids replaced by the platform's, for comparing orgs."""
    match value:
        case UUID():
            made = names[value]
        case float():
            made = round(value, 9)
        case datetime() if value > at(24 * 60):
            made = "today"  # when it was stored or removed, not when it was said
        case Mapping():
            made = {plain(key, names): plain(item, names) for key, item in value.items()}
        case list() | tuple():
            made = [plain(item, names) for item in value]
        case _:
            made = plain_record(value, names) if dataclasses.is_dataclass(value) else value
    return made


def plain_record(value, names: Mapping[UUID, str]) -> dict:
    made = {field.name: plain(getattr(value, field.name), names) for field in dataclasses.fields(value)}
    if isinstance(value, Context):
        made |= {"text": to_text(value), "explained": plain(value.explain(), names)}
    # Rounding errors may swap hits that are equally good.
    if "hits" in made:
        made["hits"].sort(key=lambda hit: (-max(why["score"] for why in hit["why"].values()), repr(hit)))
    return made


def names_of(told: Truth) -> dict[UUID, str]:
    return {
        told.app.org_id: "org",
        **{key: account for account, key in told.accounts.items()},
        **told.external_ids,
        **{
            one.room.id: told.external_ids[key].removeprefix("scribe-")
            for key, one in told.messages.items()
            if told.external_ids[key].startswith("scribe-")
        },
    }


ACCOUNTS = st.sampled_from([person.account_id for person in PEOPLE])


@given(world=worlds(), account=ACCOUNTS)
@generated
async def test_every_answer_is_the_same_as_if_the_invisible_had_never_been_stored(
    world: World, account: str, open_app, admin
):
    await assert_no_difference(world, account, open_app, admin)


@pytest.mark.slow
@pytest.mark.timeout(900)
@given(world=worlds(), account=ACCOUNTS)
@settings(generated, max_examples=150)
async def test_every_answer_is_the_same_in_many_worlds(world: World, account: str, open_app, admin):
    await assert_no_difference(world, account, open_app, admin)


async def assert_no_difference(world: World, account: str, open_app, admin) -> None:
    app, bare = await open_app("full"), await open_app("bare")
    await load(app, world)
    told = await truth(admin, app)
    if account not in told.accounts:
        return
    viewer = told.viewer(account)
    bare_world = seen_by(world, told, viewer)
    await load(bare, bare_world)
    bare_told = await truth(admin, bare)
    answers = plain(await crawl(app, viewer, world), names_of(told))
    if account not in bare_told.accounts:
        stranger = Viewer(org_id=bare.org_id, participant_id=uuid4())
        assert answers == plain(await crawl(bare, stranger, world), names_of(bare_told))
        return
    assert answers == plain(await crawl(bare, bare_told.viewer(account), world), names_of(bare_told))
    shown = repr(answers)
    hidden = {one.external_id for one in world.said} - {one.external_id for one in bare_world.said}
    for one in world.said:
        if one.external_id in hidden and one.author.name.startswith("Alias"):
            assert f"'{one.author.name}'" not in shown.replace(f"participant {one.author.name!r}", "")


@given(world=worlds())
@settings(generated, max_examples=5)
async def test_strangers_get_the_answers_of_an_empty_org(world: World, open_app):
    app, other, empty = await open_app("full"), await open_app("other"), await open_app("empty")
    await load(app, world)
    outsider = await outsider_of(other)
    nobody = Viewer(org_id=empty.org_id, participant_id=uuid4())
    nothing = plain(await crawl(empty, nobody, world), {})
    for participant_id in (uuid4(), outsider):
        stranger = Viewer(org_id=app.org_id, participant_id=participant_id)
        assert plain(await crawl(app, stranger, world), {}) == nothing


# Single stories, where the rule could have been another


async def test_a_whisper_reaches_its_audience_outside_the_room_and_nobody_else(app: App):
    room = closed("cabin", ANA, CLEO)
    await app.ingest(say("m1", ANA, "village surprise", room=room, kind="whisper", audience=[BEN]))
    await app.drain()
    ben, cleo = await app.viewer("ben"), await app.viewer("cleo")
    [hit] = (await app.search(ben, "surprise")).hits
    assert [message.external_id for message in hit.messages] == ["m1"]
    assert (hit.room_name, hit.platform) == ("", "")
    assert await app.rooms(ben) == []
    assert (await app.search(cleo, "surprise")).hits == []
    assert [room.message_count for room in await app.rooms(cleo)] == [0]


async def test_a_whisper_without_audience_is_its_authors_alone(app: App):
    await app.ingest(say("m1", ANA, "village surprise", kind="whisper"))
    await app.ingest(say("m2", BEN))
    await app.drain()
    found = {
        account: {
            message.external_id
            for hit in (await app.search(await app.viewer(account), "surprise")).hits
            for message in hit.messages
        }
        for account in ("ana", "ben")
    }
    assert found == {"ana": {"m1", "m2"}, "ben": {"m2"}}


async def test_a_whisper_makes_its_author_known_to_its_audience_but_not_the_audience_to_each_other(app: App):
    room = closed("cabin")
    await app.ingest(say("m1", ANA, room=room, kind="whisper", audience=[BEN, CLEO]))
    for account, known in {"ana": {"Ana"}, "ben": {"Ana", "Ben"}, "cleo": {"Ana", "Cleo"}}.items():
        viewer = await app.viewer(account)
        assert {person.name for person in await app.participants(viewer)} == known


async def test_being_addressed_by_an_ordinary_message_opens_nothing(app: App):
    await app.ingest(say("m1", ANA, "village surprise", room=closed("cabin", ANA), audience=[BEN]))
    ben = await app.viewer("ben")
    assert (await app.search(ben, "surprise")).hits == []
    assert [person.name for person in await app.participants(ben)] == ["Ben"]


async def test_a_name_used_only_where_the_viewer_cannot_read_is_not_shown(app: App):
    await app.ingest(say("m1", ANA))
    await app.ingest(say("m2", BEN))
    nickname = dataclasses.replace(ANA, name="Shadow Queen")
    await app.ingest(say("m3", nickname, room=closed("cabin", CLEO), minute=5))
    names = {
        account: {person.name for person in await app.participants(await app.viewer(account))}
        for account in ("ana", "ben", "cleo")
    }
    assert names["ben"] == {"Ana", "Ben"}
    assert "Shadow Queen" in names["ana"]
    assert "Shadow Queen" in names["cleo"]
    assert "Shadow Queen" in {person.name for person in await app.participants(app.operator)}


async def test_a_member_reads_from_joining_until_just_before_leaving(app: App):
    room = closed("cabin", IncomingMembership(author=BEN, joined_at=at(1), left_at=at(5)))
    for minute in (0, 1, 4, 5, 6):
        await app.ingest(say(f"m{minute}", ANA, room=room, minute=minute))
    seen = [message.external_id for message in await app.messages(await app.viewer("ben"), "cabin")]
    assert seen == ["m1", "m4"]


async def test_an_unknown_join_time_means_always_and_an_empty_stay_means_never(app: App):
    joined_at = at(0) + timedelta(seconds=30)
    blink = IncomingMembership(author=CLEO, joined_at=joined_at, left_at=joined_at)
    await app.ingest(say("m1", ANA, room=closed("cabin", IncomingMembership(author=BEN), blink)))
    assert len(await app.messages(await app.viewer("ben"), "cabin")) == 1
    assert await app.messages(await app.viewer("cleo"), "cabin") == []


async def test_injected_context_is_for_agents_who_were_there_and_for_the_addressed(app: App):
    room = closed("cabin", ANA, PIP)
    await app.ingest(say("m1", CLEO, "injected", room=room, kind="context_injection", audience=[BEN]))
    await app.ingest(say("m2", ZED))
    reads = {
        account: [message.external_id for message in await app.messages(await app.viewer(account), "cabin")]
        for account in ("ana", "pip")
    }
    assert reads == {"ana": [], "pip": ["m1"]}
    async with app.db.reading(await app.viewer("ben")) as conn:
        assert len(await ids(conn, "select id from messages where external_id = 'm1'")) == 1
    async with app.db.reading(await app.viewer("zed")) as conn:
        assert len(await ids(conn, "select id from messages where external_id = 'm1'")) == 0


async def test_whoever_has_left_still_reads_their_time_and_a_second_stay_adds_to_it(app: App):
    stays = [
        IncomingMembership(author=BEN, joined_at=at(0), left_at=at(2)),
        IncomingMembership(author=BEN, joined_at=at(6), left_at=at(8)),
    ]
    room = closed("cabin", ANA, *stays)
    for minute in range(10):
        await app.ingest(say(f"m{minute}", ANA, room=room, minute=minute))
    seen = [message.external_id for message in await app.messages(await app.viewer("ben"), "cabin")]
    assert seen == ["m0", "m1", "m6", "m7"]
