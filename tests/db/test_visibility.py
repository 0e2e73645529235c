"""Nobody sees what they should not: rows, searches and every answer of the App, in made-up worlds."""

import dataclasses
import re
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings

from db.worlds import (
    ACCOUNTS,
    EVERYWHERE,
    MADE,
    PEOPLE,
    PLATFORM,
    TOPICS,
    Conversation,
    Memory,
    Note,
    Rows,
    Truth,
    World,
    at,
    derive,
    load,
    made_id,
    merge,
    rows_seen,
    seen_by,
    split,
    truth,
    worlds,
)
from roomlore.context.records import Context
from roomlore.context.render import to_text
from roomlore.domain.errors import NotAllowed, NotFound, RoomloreError
from roomlore.domain.ids import ParticipantId
from roomlore.domain.incoming import IncomingMembership, IncomingMessage, IncomingRoom
from roomlore.domain.records import AuditLine, Viewer
from roomlore.operations import App
from roomlore.search.query_parser import Filters

ANA, BEN, CLEO, PIP, ZED = PEOPLE
MANY = 1000
generated = settings(
    max_examples=2,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,  # each example makes an org of its own
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)


def viewers(told: Truth, other: App, outsider: UUID) -> list[Viewer]:
    """Everybody of the world, the author of holes, the operator, and those who should see nothing."""
    org = told.app.org_id
    return [
        *(Viewer(org_id=org, participant_id=key) for key in told.kinds),
        told.app.operator,
        Viewer(org_id=org, participant_id=org),
        Viewer(org_id=org, participant_id=uuid4()),
        Viewer(org_id=org, participant_id=outsider),
        *(Viewer(org_id=other.org_id, participant_id=key) for key in list(told.kinds)[:2]),
        other.operator,
    ]


#: What another org has of its own, under the same ids as those of the world that is attacked.
ELSEWHERE = World(
    rooms=(),
    said=(),
    conversations=[Conversation(number=0, room="square", said=["elsewhere"])],
    memories=[Memory(number=0, sources=["elsewhere"]), Memory(number=1, asserted_by="cleo")],
    merges={"cleo": 0, "ben": 0},
    interactions=[(0, "cleo", "ben")],
    keys=["cleo"],
    lines=[Note(number=0, account="cleo", said=["elsewhere"])],
    receipts=[Note(number=0, account="cleo", said=["elsewhere"])],
)


async def outsider_of(app: App) -> UUID:
    """A participant of another org, who has said something there."""
    await app.ingest(say("elsewhere", CLEO, "village elsewhere"))
    await app.ingest(say("answer", BEN, "village too"))
    await app.drain()
    await derive(app, ELSEWHERE)
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
  from {}(array_fill(1, array[384])::vector::halfvec, %s, null, %s)
"""
NEAREST_MEMORIES = """
  select memory_id from dense_memories(array_fill(1, array[384])::vector::halfvec, %s, %s)
"""
WORDED_MEMORIES = "select memory_id from lexical_memories(%s, %s)"
WORDED = "select unnest(message_ids) from lexical_candidates(%s, null, {}, %s)"
#: Whoever asks names the messages, and may name what they cannot read.
AROUND = "select message_id from context_window(%s, array['whatever'], null, '', null, %s)"


@pytest.mark.timeout(900)
@given(world=worlds())
@generated
async def test_rows_and_searches_show_what_the_rule_allows(world: World, open_app, admin):
    await assert_rule(world, open_app, admin)


@pytest.mark.slow
@pytest.mark.timeout(900)
@given(world=worlds())
@settings(generated, max_examples=8)
async def test_rows_and_searches_show_what_the_rule_allows_in_many_worlds(world: World, open_app, admin):
    await assert_rule(world, open_app, admin)


async def assert_rule(world: World, open_app, admin) -> None:
    app, other = await open_app("world"), await open_app("other")
    await load(app, dataclasses.replace(world, merges={}))
    outsider = await outsider_of(other)
    apart = await truth(admin, app)
    before = {account: await seen(apart.viewer(account), app) for account in apart.accounts}
    await merge(app, world.merges)
    told, elsewhere = await truth(admin, app), await truth(admin, other)
    for viewer in viewers(told, other, outsider):
        async with app.db.read_transaction(viewer) as conn:
            rows = await rows_seen(conn)
            assert rows == {
                table: keys + elsewhere.seen(viewer)[table] for table, keys in told.seen(viewer).items()
            }
            answers = await ids(conn, "select child_id, parent_id, method from answers")
            assert answers == told.answers(viewer) | elsewhere.answers(viewer)
            if viewer != other.operator:
                await assert_searches(conn, told, {key for (key,) in rows["messages"]})
                await assert_memories_found(conn, told, {key for (key,) in rows["memories"]})
            if not viewer.is_operator:
                await assert_functions(conn, told if viewer.org_id == app.org_id else elsewhere, viewer, rows)
    await assert_places(told)
    for account in told.accounts:
        assert_union(told, account, before, await seen(told.viewer(account), app))
    await split(app)
    assert {account: await seen(told.viewer(account), app) for account in told.accounts} == before


async def assert_places(told: Truth) -> None:
    """Whoever reads for a place sees there what the rule allows: some places of each viewer, and one that is none."""
    whispers = [key for key, one in told.messages.items() if one.kind == "whisper"]
    places = [*told.rooms, *whispers, next(iter(told.messages)), uuid4()]
    readers = [Viewer(org_id=told.app.org_id, participant_id=key) for key in told.kinds]
    for number, reader in enumerate([told.app.operator, *readers]):
        for place in {places[(number * 2 + turn) % len(places)] for turn in range(3)}:
            viewer = reader.posting(place)
            async with told.app.db.read_transaction(viewer) as conn:
                rows = await rows_seen(conn)
                assert rows == told.seen(viewer)
                await assert_searches(conn, told, {key for (key,) in rows["messages"]})
                await assert_memories_found(conn, told, {key for (key,) in rows["memories"]})


async def seen(viewer: Viewer, app: App) -> Rows:
    async with app.db.read_transaction(viewer) as conn:
        return await rows_seen(conn)


async def assert_searches(conn, told: Truth, visible: set[UUID]) -> None:
    spoken = {key for key in visible if told.messages[key].kind in {"message", "whisper"}}
    for is_large in ("false", "true"):
        assert await ids(conn, WORDED.format(is_large), [EVERYWHERE, MANY]) == spoken - told.redacted
    for reach in (0, MANY):
        assert await ids(conn, AROUND, [list(told.messages), reach]) == spoken
    for function in ("dense_candidates_exact", "dense_candidates_indexed"):
        found = await ids(conn, NEAREST.format(function), [told.app._embedder.model_id, MANY])
        assert found == visible & told.embedded, function


async def assert_memories_found(conn, told: Truth, visible: set[UUID]) -> None:
    model = told.app._embedder.model_id
    assert await ids(conn, NEAREST_MEMORIES, [model, MANY]) == visible
    assert await ids(conn, WORDED_MEMORIES, [EVERYWHERE, MANY]) == visible
    assert await ids(conn, "select memory_id from memory_embeddings") == visible
    assert await ids(conn, NEAREST_MEMORIES, ["another model", MANY]) == set()


#: What policies ask row by row, which whoever has an id may ask as well.
QUESTIONS = " union all ".join(
    f"select '{name}', id from unnest(%(ids)s::uuid[]) as asked (id) where {name}(id)"
    for name in (
        *(
            "can_see_message",
            "was_member",
            "can_see_participant",
            "can_know_participant",
            "can_see_another_account",
        ),
        *("can_see_memory", "can_see_conversation"),
    )
)
#: Which messages are in which conversation, asked from either end.
SAID_IN = (
    "select said.id, asked.id from unnest(%(ids)s::uuid[]) as asked (id), messages_in(asked.id) as said (id)"
)
CONVERSATION_OF = (
    "select id, conversation_of(id) from unnest(%(ids)s::uuid[]) as asked (id)"
    " where conversation_of(id) is not null"
)
OWN = (
    "select own_ids(), viewer_is_agent(), array(select room_id from memberships_of_viewer),"
    " (select count(*) from memberships_of_viewer), array(select room_id from open_rooms_of_viewer),"
    " array(select message_id from addressed_to_viewer)"
)


async def assert_functions(conn, told: Truth, viewer: Viewer, rows: Rows) -> None:
    """A function that runs as the owner says no more about any id than the rows that the viewer sees."""
    facts = told.facts(viewer)
    asked = {key for keys in told.rows.values() for row in keys for key in row if isinstance(key, UUID)}
    params = {"ids": [*asked - {viewer.participant_id}, uuid4(), None]}
    cursor = await conn.execute(QUESTIONS, params)
    yes = defaultdict(set)
    for name, key in await cursor.fetchall():
        yes[name].add(key)

    def shown(table: str) -> set[UUID]:
        return {key for key, *_ in rows[table]} - {viewer.participant_id}

    def was_there(key: UUID) -> bool:
        one = told.messages[key]
        was_member = any(period.covers(one.sent_at) for period in facts.periods.get(one.room.id, ()))
        return was_member or facts.is_one_of(one.prior_speakers)

    assert yes["can_see_message"] == shown("messages")
    assert yes["was_member"] == {key for key in shown("messages") if was_there(key)}
    assert yes["can_see_participant"] == shown("participants") >= yes["can_know_participant"]
    assert yes["can_see_another_account"] == shown("participant_merges")
    assert yes["can_see_memory"] == shown("memories")
    assert yes["can_see_conversation"] == shown("conversations")
    placed = {
        (one, held) for one, held in told.rows["conversation_messages"] if held in yes["can_see_conversation"]
    }
    assert await ids(conn, SAID_IN, params) == await ids(conn, CONVERSATION_OF, params) == placed
    [(own, is_agent, own_rooms, stays, open_rooms, addressed)] = await (await conn.execute(OWN)).fetchall()
    assert set(own) == {viewer.participant_id, *facts.accounts} - {told.app.org_id}
    assert set(addressed) == {key for key, one in told.messages.items() if facts.is_one_of(one.audience)}
    assert (is_agent, set(own_rooms)) == (facts.is_agent, set(facts.periods))
    assert stays == sum(map(len, facts.periods.values()))
    assert set(open_rooms) == {
        key for key, room in told.rooms.items() if room.visibility == "open" and facts.is_participant
    }


def assert_union(told: Truth, account: str, before: Mapping[str, Rows], merged: Rows) -> None:
    """A person sees what any account of theirs saw; what was for agents, only if every account is one."""
    facts = told.facts(told.viewer(account))
    own = [name for name, key in told.accounts.items() if facts.is_own(key)]
    for table in ("messages", "rooms", "memberships", "participants", "platform_accounts"):
        union = set().union(*(before[name][table] for name in own))
        if table == "messages" and not facts.is_agent:
            union = {(key,) for (key,) in union if not for_agents(told, facts, key)}
        if table == "messages" or facts.is_agent == any(
            told.kinds[told.accounts[one]] == "agent" for one in own
        ):
            assert set(merged[table]) == union, table
    for table in ("memories", "conversations", "interactions", "receipts", "audit_log"):
        if facts.is_agent == any(told.kinds[told.accounts[one]] == "agent" for one in own):
            assert set(merged[table]) >= set().union(*(before[name][table] for name in own)), table


def for_agents(told: Truth, facts, key: UUID) -> bool:
    one = told.messages[key]
    own = facts.is_own(one.author_id) or facts.is_one_of(one.audience)
    return one.kind == "context_injection" and not own


# What the App answers


async def crawl(app: App, viewer: Viewer, world: World) -> dict[str, object]:
    """Everything that the App's reads answer to a viewer who has a key, errors included."""
    app, answers = app.impersonate(viewer), {}

    async def ask(key: str, call) -> None:
        try:
            answers[key] = await call
        except RoomloreError as error:
            answers[key] = f"{type(error).__name__}: {error}"

    await ask("rooms", app.rooms(viewer))
    await ask("participants", app.participants(viewer))
    await ask("keys", app.keys.all())
    await ask("receipts", app.erasure.receipts())
    await ask("conversations", app.conversations.all(viewer))
    for number, _ in enumerate(world.conversations):
        await ask(
            f"conversation {number}", app.conversations.read(viewer, str(made_id("conversation", number)))
        )
        inside = Filters(conversation=str(made_id("conversation", number)))
        await ask(f"inside {number}", app.search(viewer, EVERYWHERE, filters=inside, limit=50))
    await ask("memories", app.memories.all(viewer))
    for person in PEOPLE:
        await ask(f"about {person.name}", app.memories.all(viewer, about=person.account_id))
        answered = Filters(by=[person.account_id], answered=True)
        await ask(f"answered {person.name}", app.search(viewer, EVERYWHERE, filters=answered, limit=50))
        await ask(f"said by {person.name}", app.search(viewer, f"what did {person.name} say?", limit=50))
        await ask(
            f"asked of {person.name}", app.ask(viewer, f"what did {person.name} say about {TOPICS[0]}?")
        )
    for number, _ in enumerate(world.memories):
        await ask(f"recall {number}", app.ask(viewer, f"{EVERYWHERE} recollection{number}"))
        await ask(f"why {number}", app.memories.provenance(viewer, str(made_id("memory", number))))
    for room in (*(room.external_id for room in world.rooms), "census"):
        await ask(f"participants {room}", app.participants(viewer, room=room))
        await ask(f"messages {room}", app.messages(viewer, room))
        await ask(f"conversations {room}", app.conversations.all(viewer, room))
        await ask(f"timeline {room}", app.conversations.timeline(viewer, room))
        await ask(f"context {room}", app.context(viewer, room))
        await ask(f"search {room}", app.search(viewer, f"{EVERYWHERE} {TOPICS[0]}", room=room, limit=50))
        await ask(f"ask {room}", app.ask(viewer, f"{EVERYWHERE} {TOPICS[0]}", room=room))
    for one in world.said:
        room, key = one.room.external_id, one.external_id
        await ask(f"before {key}", app.messages(viewer, room, limit=3, before=key))
        await ask(f"conversation of {key}", app.conversations.read(viewer, f"message:{key}"))
        await ask(f"as of {key}", app.search(viewer, TOPICS[1], room=room, as_of=key, limit=3))
        await ask(f"context {key}", app.context(viewer, room, key, budget=300))
        secret = one.body.split()[1]
        await ask(f"search {key}", app.search(viewer, f"{secret} {one.author.name}", limit=50))
        await ask(f"ask {key}", app.ask(viewer, f"{secret} {' '.join(TOPICS)}"))
    unanswered = Filters(answered=False, since=at(3), kinds=["agent", "human"])
    await ask("unanswered", app.search(viewer, EVERYWHERE, filters=unanswered, limit=50))
    await ask("everything", app.search(viewer, "what was said since 2020?", limit=50))
    await ask("bots", app.search(viewer, "what did bots say?", limit=50))
    await ask("similar", app.similar(viewer, TOPICS[0], limit=50))
    await ask("as another", app.messages(app.operator, world.rooms[0].external_id))
    await ask("log", app.log(viewer, limit=MANY))
    # Lines of one millisecond come in any order.
    answers["log"].sort(key=lambda line: (line.at, line.action))
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
        case frozenset():
            made = sorted(plain(item, names) for item in value)
        case _:
            made = plain_record(value, names) if dataclasses.is_dataclass(value) else value
    return made


def plain_record(value, names: Mapping[UUID, str]) -> dict:
    if isinstance(value, AuditLine):
        value = dataclasses.replace(value, id=None)  # made anew for every answer
    made = {field.name: plain(getattr(value, field.name), names) for field in dataclasses.fields(value)}
    if isinstance(value, AuditLine):
        made["subject_ids"].sort()  # in the order of hits, for which see below
    if isinstance(value, Context):
        made |= {"text": to_text(value), "explained": plain(value.explain(), names)}
    # Rounding errors may swap hits that are equally good.
    if "hits" in made:
        made["hits"].sort(key=lambda hit: (-max(why["score"] for why in hit["why"].values()), repr(hit)))
    return made


def names_of(told: Truth, viewer: Viewer) -> dict[UUID, str]:
    return {
        told.app.org_id: "org",
        **{key: account for account, key in told.accounts.items()},
        **told.external_ids,
        **{made_id(thing, number): f"{thing} {number}" for thing in MADE for number in range(20)},
        **{
            one.room.id: told.external_ids[key].removeprefix("scribe-")
            for key, one in told.messages.items()
            if told.external_ids[key].startswith("scribe-")
        },
        viewer.participant_id: "viewer",
    }


@pytest.mark.timeout(900)
@given(world=worlds(), account=ACCOUNTS)
@settings(generated, max_examples=2)
async def test_every_answer_is_the_same_as_if_the_invisible_had_never_been_stored(
    world: World, account: str, open_app, admin
):
    await assert_no_difference(world, account, open_app, admin)


@pytest.mark.slow
@pytest.mark.timeout(2400)
@given(world=worlds(), account=ACCOUNTS)
@settings(generated, max_examples=8)
async def test_every_answer_is_the_same_in_many_worlds(world: World, account: str, open_app, admin):
    await assert_no_difference(world, account, open_app, admin)


async def assert_no_difference(world: World, account: str, open_app, admin) -> None:
    app, bare = await open_app("full"), await open_app("bare")
    await load(app, world)
    told = await truth(admin, app)
    if account not in told.accounts:
        return
    bare_world = seen_by(world, told, told.viewer(account))
    await load(bare, bare_world)
    bare_told = await truth(admin, bare)
    viewer, bare_viewer = await app.viewer(account), await reader(bare_told, account)
    answers = plain(await crawl(app, viewer, world), names_of(told, viewer))
    assert answers == plain(await crawl(bare, bare_viewer, world), names_of(bare_told, bare_viewer))
    assert_nothing_hidden_is_shown(world, bare_world, repr(answers))


async def reader(told: Truth, account: str) -> Viewer:
    if account in told.accounts:
        return await told.app.viewer(account)
    return Viewer(org_id=told.app.org_id, participant_id=uuid4())


def assert_nothing_hidden_is_shown(world: World, bare: World, shown: str) -> None:
    bodies, words = {one.external_id: one.body for one in bare.said}, []
    for one in world.said:
        if one.external_id not in bodies and one.author.name.startswith("Alias"):
            assert f"'{one.author.name}'" not in shown.replace(f"participant {one.author.name!r}", "")
        if bodies.get(one.external_id) != one.body:
            words.append(one.body.split()[1])
    told = {one.number for one in bare.memories}
    words += [f"recollection{one.number}" for one in world.memories if one.number not in told]
    told = {one.number for one in bare.conversations}
    words += [f"label{one.number}" for one in world.conversations if one.number not in told]
    answered = re.sub(r"'question': '[^']*'", "", shown)
    assert set(words) & set(re.findall(r"\w+", answered)) == set()


@pytest.mark.slow
@pytest.mark.timeout(900)
@given(world=worlds())
@settings(generated, max_examples=2)
async def test_strangers_get_the_answers_of_an_empty_org(world: World, open_app):
    app, other, empty = await open_app("full"), await open_app("other"), await open_app("empty")
    await load(app, world)
    outsider = await outsider_of(other)
    nobody = Viewer(org_id=empty.org_id, participant_id=uuid4())
    nothing = plain(await crawl(empty, nobody, world), {nobody.participant_id: "viewer"})
    for participant_id in (uuid4(), outsider):
        stranger = Viewer(org_id=app.org_id, participant_id=participant_id)
        assert plain(await crawl(app, stranger, world), {participant_id: "viewer"}) == nothing


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


async def test_whoever_wrote_nothing_that_the_viewer_reads_is_called_as_at_first(app: App):
    square = IncomingRoom(external_id="square", name="square", members=(IncomingMembership(author=ANA),))
    await app.ingest(say("m1", BEN, room=square))
    nickname = dataclasses.replace(ANA, name="Shadow Queen")
    await app.ingest(say("m2", nickname, room=closed("cabin", CLEO), minute=5))
    names: dict[str, set[str]] = {}
    for account in ("ben", "cleo"):
        async with app.db.read_transaction(await app.viewer(account)) as conn:
            names[account] = set(await ids(conn, "select name from known_participants"))
    assert names["ben"] == {"Ana", "Ben"}
    assert "Shadow Queen" in names["cleo"]


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
    async with app.db.read_transaction(await app.viewer("ben")) as conn:
        assert len(await ids(conn, "select id from messages where external_id = 'm1'")) == 1
    async with app.db.read_transaction(await app.viewer("zed")) as conn:
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


async def test_whoever_has_left_sees_those_who_were_there_with_them_and_nobody_who_came_later(app: App):
    stays = [
        IncomingMembership(author=BEN, joined_at=at(2), left_at=at(4)),
        IncomingMembership(author=CLEO, joined_at=at(0), left_at=at(2)),
        IncomingMembership(author=PIP, joined_at=at(3), left_at=at(9)),
        IncomingMembership(author=ZED, joined_at=at(4)),
    ]
    await app.ingest(say("m1", ANA, room=closed("cabin", ANA, *stays)))
    known = {one.account_id: one.participant_id for one in await app.people.accounts(app.operator)}
    async with app.db.read_transaction(await app.viewer("ben")) as conn:
        there = await ids(conn, "select participant_id from memberships")
    assert {name for name, key in known.items() if key in there} == {
        one.account_id for one in (ANA, BEN, PIP)
    }


# Persons, memories, conversations


async def numbers(app: App, account: str) -> set[int]:
    """Which made memories somebody may see."""
    viewer = await app.viewer(account)
    return {int(one.id) & 0xFF for one in await app.memories.all(viewer)}


async def test_two_accounts_read_with_one_pair_of_eyes_and_a_split_gives_back_what_was(app: App, admin):
    world = World(
        rooms=[closed("garden", ANA, BEN), closed("attic", CLEO)],
        said=[
            say("m0", ANA, "village secret0", room=closed("garden")),
            say("m1", CLEO, "village secret1", room=closed("attic"), minute=1),
            say("m2", PIP, "village secret2", room=closed("attic"), kind="whisper", audience=[ANA]),
        ],
        memories=[Memory(number=0, sources=["m0", "m1"]), Memory(number=1, asserted_by="cleo")],
    )
    await load(app, world)
    before = {account: await answers_to(app, account, world, admin) for account in ("ana", "cleo")}
    await app.people.merge("ana", "cleo")
    for account in ("ana", "cleo"):
        async with app.db.read_transaction(await app.viewer(account)) as conn:
            said = await ids(conn, "select external_id from messages where kind <> 'system'")
            assert {key for key in said if key.startswith("m")} == {"m0", "m1", "m2"}
        assert await numbers(app, account) == {0, 1}
    await app.people.split("cleo")
    for account in ("ana", "cleo"):
        assert await answers_to(app, account, world, admin) == before[account]


async def answers_to(app: App, account: str, world: World, admin) -> dict[str, object]:
    viewer = await app.viewer(account)
    answers = await crawl(app, viewer, world)
    answers.pop("log")  # it has grown by what was read before
    return plain(answers, names_of(await truth(admin, app), viewer))


async def test_a_participant_makes_nobody_an_account_of_theirs(app: App):
    await app.ingest(say("m1", ANA))
    await app.ingest(say("m2", BEN))
    ben = app.impersonate(await app.viewer("ben"))
    for attempt in (ben.people.merge("ben", "ana"), ben.people.split("ana"), ben.viewer("ana")):
        with pytest.raises(NotAllowed):
            await attempt
    with pytest.raises(NotAllowed):
        await ben.messages(await app.viewer("ana"), "square")
    pretended = dataclasses.replace(
        ben.access.principal, accounts=frozenset([(await app.viewer("ana")).participant_id])
    )
    async with app.db.read_transaction(pretended) as conn:
        [own] = await ids(conn, "select own_ids()::text")
        assert own == f"{{{pretended.participant_id}}}"


async def test_a_memory_is_for_those_who_may_read_all_it_rests_on(app: App):
    world = World(
        rooms=[closed("garden", ANA, BEN), closed("attic", ANA, CLEO)],
        said=[
            say("m0", ANA),
            say("m1", ANA, room=closed("garden")),
            say("m2", ANA, room=closed("attic"), minute=1),
            say("m3", ANA, minute=2, kind="whisper", audience=[CLEO]),
            say("m4", ZED, minute=3),
        ],
        memories=[
            Memory(number=0, sources=["m0"]),
            Memory(number=1, sources=["m1"]),
            Memory(number=2, sources=["m0", "m1", "m2"]),
            Memory(number=3, sources=["m0", "m3"], asserted_by="ben"),
            Memory(number=4, asserted_by="ben"),
            Memory(number=5),
            Memory(number=6, sources=["m4"], sensitivity="sensitive"),
            Memory(number=7, sources=["m1", "m3"], sensitivity="sensitive"),
            Memory(number=8, audience="org", sensitivity="sensitive"),
            Memory(number=9, audience="org", asserted_by="ben", sources=["m3"]),
        ],
    )
    await load(app, world)
    seen = {account: await numbers(app, account) for account in ("ana", "ben", "cleo", "zed")}
    # Whoever has written in an open room is there from then on; Ben and Cleo never were.
    assert seen == {
        "ana": {0, 1, 2, 3, 6, 7, 8, 9},
        "ben": {0, 1, 4, 8},
        "cleo": {0, 3, 8, 9},
        "zed": {0, 6, 8},
    }
    assert {int(one.id) & 0xFF for one in await app.memories.all(app.operator)} == set(range(10))
    stranger = Viewer(org_id=app.org_id, participant_id=ParticipantId(uuid4()))
    async with app.db.read_transaction(stranger) as conn:
        assert await ids(conn, "select id from memories") == set()


async def test_what_a_conversation_is_called_is_for_those_who_may_read_all_of_it(app: App):
    room = closed("garden", ANA, IncomingMembership(author=BEN, joined_at=at(5)))
    world = World(
        rooms=[room],
        said=[say(f"m{minute}", ANA, room=closed("garden"), minute=minute) for minute in (0, 6, 7)],
        conversations=[
            Conversation(number=0, room="garden", said=["m0", "m6"]),
            Conversation(number=1, room="garden", said=["m7"]),
            Conversation(number=2, room="garden", said=[]),
        ],
    )
    await load(app, world)
    labels = {}
    for account in ("ana", "ben"):
        async with app.db.read_transaction(await app.viewer(account)) as conn:
            labels[account] = await ids(conn, "select label from conversations")
    assert labels == {"ana": {"label0", "label1"}, "ben": {"label1"}}


@pytest.mark.parametrize("how", ["message", "redact"])
async def test_what_rested_on_a_removed_message_does_not_become_visible_to_more(app: App, how: str):
    world = World(
        rooms=[],
        said=[say("m0", ANA), say("m1", BEN, minute=1, kind="whisper", audience=[ANA])],
        memories=[
            Memory(number=0, sources=["m0", "m1"], asserted_by="ana"),
            Memory(number=1, sources=["m1"], asserted_by="ana"),
            Memory(number=2, sources=["m0"]),
        ],
    )
    await app.ingest(say("m9", CLEO))
    await load(app, world)
    assert (await numbers(app, "ana"), await numbers(app, "cleo")) == ({0, 1, 2}, {2})
    await getattr(app.erasure, how)("m1")
    assert (await numbers(app, "ana"), await numbers(app, "cleo")) == ({2}, {2})
    assert len(await app.memories.all(app.operator)) == 1


async def test_erasing_what_is_not_there_and_what_is_not_to_be_seen_is_answered_alike(app: App):
    await app.ingest(say("m1", ANA, room=closed("cabin", ANA)))
    await app.ingest(say("m2", BEN))
    ben, told = app.impersonate(await app.viewer("ben")), []
    ana_id, message_id = (
        (await app.viewer("ana")).participant_id,
        (await app.messages(app.operator, "cabin"))[0].id,
    )
    for call, taken, free in (
        (ben.erasure.message, "m1", "m7"),
        (ben.erasure.message, str(message_id), str(uuid4())),
        (ben.erasure.redact, "m1", "m7"),
        (ben.erasure.person, "ana", "someone"),
        (ben.erasure.person, str(ana_id), str(uuid4())),
        (ben.erasure.receipt, str(made_id("receipt", 0)), str(uuid4())),
    ):
        for word in (taken, free):
            with pytest.raises(NotFound) as caught:
                await call(word)
            told.append(str(caught.value).replace(word, "…"))
    assert told[::2] == told[1::2]


@pytest.mark.parametrize(("what", "word"), [("message", "m0"), ("person", "ben")])
async def test_a_receipt_tells_a_member_nothing_of_what_they_cannot_see(open_app, what: str, word: str):
    """What a dry run counts is an answer too: it can be asked for again and again."""
    hidden = [
        say("m1", ANA, "Ben said so", room=closed("attic"), minute=1),
        say("m2", ANA, "Ben, Ben", minute=2, kind="whisper", audience=[CLEO], reply_to="m0"),
    ]
    memory = Memory(number=0, sources=["m0", "m1"], people=[("ana", "author"), ("ben", "subject")])
    told = []
    for secrets, memories in (([], []), (hidden, [memory])):
        app = await open_app("org")
        said = [say("m0", BEN, "village secret0"), *secrets]
        await load(app, World(rooms=[closed("attic", ANA)], said=said, memories=memories))
        ben = app.impersonate(await app.viewer("ben"))
        receipt = await getattr(ben.erasure, what)(word, dry_run=True)
        told.append({one.what: one.count for one in (*receipt.removed, *receipt.kept)})
    assert told[0] == told[1]
