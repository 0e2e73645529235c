"""Where an answer is posted is part of the read: nothing that not everybody there could read, unless asked for by name."""

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest

from conftest import TellOnce
from ingest.stories import author, message, room
from roomlore.context.render import to_text
from roomlore.db import conversations
from roomlore.domain.errors import BadInput
from roomlore.domain.incoming import IncomingMembership
from roomlore.domain.records import Viewer
from roomlore.operations import App

ANA, BOSS, CLEO, DAN = (author(name) for name in ("ana", "boss", "cleo", "dan"))
BOT = author("bot", kind="agent")
START = datetime.now(UTC) - timedelta(days=10)
SECRET = "Decided: close the Leipzig office in March"
ASKED = "what was decided about the Leipzig office?"


def members(*who) -> tuple[IncomingMembership, ...]:
    return tuple(
        one if isinstance(one, IncomingMembership) else IncomingMembership(author=one) for one in who
    )


def since(who, day: float, until: float | None = None) -> IncomingMembership:
    left_at = None if until is None else START + timedelta(days=until)
    return IncomingMembership(author=who, joined_at=START + timedelta(days=day), left_at=left_at)


PUB = room("pub", members=members(ANA, BOSS, CLEO, BOT))
BOARD = room("board", visibility="members", members=members(BOSS, CLEO, BOT))
#: Ana came on the fifth day, Dan left on the second. What was said long before is another conversation.
TEAM = room("team", visibility="members", members=members(BOSS, BOT, since(ANA, 5), since(DAN, -20, 2)))
DM = room("dm", kind="dm", visibility="members", members=members(BOSS, BOT))


def said(key: str, who, body: str, where=PUB, *, day: float = 0, **fields):
    return message(key, body, author=who, room=where, sent_at=START + timedelta(days=day), **fields)


async def told(app: App) -> None:
    lines = [
        said("b1", BOSS, SECRET, BOARD),
        said("b2", BOT, "noted", BOARD, day=0.1),
        said("d1", BOSS, "The Leipzig office costs 70,000 a year", DM, day=1),
        said("t1", BOSS, "The Leipzig keys hang in the hall", TEAM, day=-15),
        said("t2", BOSS, "The Leipzig lift is broken", TEAM, day=6),
        said("w1", BOSS, "Leipzig closes in March", day=2, kind="whisper", audience=(BOT,)),
        said("p1", BOT, "good morning", day=6.5),
        said("p2", ANA, f"bot, {ASKED}", day=7),
    ]
    assert (await app.ingest_batch(lines)).skipped == []
    await app.drain()
    await app.memories.remember(SECRET, sources=["b1"])
    await app.memories.remember("The Leipzig lift is broken", sources=["t2"])
    acting = app.impersonate(await app.viewer("bot"))
    await acting.memories.remember("Boss is sad about Leipzig", kind="observation", sources=["b1"])
    await acting.memories.remember("Leipzig is cold", kind="observation")


@pytest.fixture
async def office(app: App, tell_once: TellOnce) -> App:
    await tell_once(app, told)
    return app


#: Words that each are said in one closed circle alone.
OF_BOARD, OF_DM, OF_OLD_TEAM, OF_TEAM = "close the Leipzig", "70,000", "keys hang", "lift is broken"
HIDDEN = (OF_BOARD, OF_DM, OF_OLD_TEAM, OF_TEAM, "closes in March", "is sad", "is cold")


async def read(app: App, viewer: Viewer, where: str, *, private: bool = False) -> dict[str, str]:
    """Everything that is read for an answer in a room, as text."""
    context = await app.context(viewer, where, private=private)
    asked = await app.ask(viewer, ASKED, room=where, private=private)
    found = await app.search(viewer, "Leipzig", room=where, limit=50, private=private)
    alike = await app.similar(viewer, ASKED, room=where, private=private) if viewer.participant_id else None
    texts = {
        "context": to_text(context),
        "ask": repr(asked),
        "search": repr(found),
        "similar": repr(alike),
    }
    if context.memory_section is not None:
        texts["block"] = repr(
            await app.agents.memory_section(viewer, where, topic="Leipzig", private=private)
        )
    assert {context.postable, asked.postable, found.postable} == {"nowhere" if private else "room"}
    return texts


@pytest.mark.parametrize("by", ["bot", "operator"])
async def test_an_open_room_gets_nothing_out_of_a_closed_one(office, by):
    viewer = office.operator if by == "operator" else await office.viewer(by)
    shown = await read(office, viewer, "pub")
    assert {(how, words) for how, text in shown.items() for words in HIDDEN if words in text} == set()
    beyond = await read(office, viewer, "pub", private=True)
    assert OF_BOARD in beyond["ask"]
    assert "for your eyes only" in beyond["context"]


async def test_it_is_not_told_either_that_there_is_something(office, open_app):
    """The answer is that of an org in which nothing of it was ever said."""
    bare = await open_app("bare")
    await bare.ingest_batch(
        [said("p1", BOT, "good morning", day=6.5), said("p2", ANA, f"bot, {ASKED}", day=7)]
    )
    await bare.drain()
    mine = await office.ask(await office.viewer("bot"), ASKED, room="pub")
    theirs = await bare.ask(await bare.viewer("bot"), ASKED, room="pub")
    assert (mine.stage, mine.text, mine.trace) == (theirs.stage, theirs.text, theirs.trace)


async def test_a_closed_room_gets_what_all_who_are_in_it_now_heard(office):
    bot = await office.viewer("bot")
    board = await office.ask(bot, ASKED, room="board")
    assert OF_BOARD in board.text
    # Ana came later: what was said before her is not for the room any more; Dan, who left, does not count.
    team = repr(await office.search(bot, "Leipzig", room="team", limit=50))
    assert OF_TEAM in team
    assert OF_OLD_TEAM not in team
    assert OF_BOARD not in repr(await office.ask(bot, ASKED, room="team"))
    # Two are alone in a dm: what both heard elsewhere may be told there, what one heard alone may not.
    asked = ("when do we close the Leipzig office?", "where do the Leipzig keys hang?")
    dm = [repr(await office.ask(bot, one, room="dm")) for one in asked]
    assert OF_BOARD in dm[0]
    assert OF_OLD_TEAM in dm[1]


async def test_who_joins_narrows_and_who_leaves_widens_what_is_told(office):
    bot = await office.viewer("bot")

    async def tells_keys() -> bool:
        return OF_OLD_TEAM in repr(await office.search(bot, "Leipzig keys", room="team", limit=50))

    assert not await tells_keys()
    without = dataclasses.replace(TEAM, members=members(BOSS, BOT, since(ANA, 5, 8), since(DAN, -20, 2)))
    await office.ingest(said("t3", BOSS, "bye", without, day=8))
    assert await tells_keys()
    joined = dataclasses.replace(TEAM, members=members(BOSS, BOT, since(CLEO, 9)))
    await office.ingest(said("t4", BOSS, "hello", joined, day=9))
    assert not await tells_keys()


async def test_a_whisper_is_answered_to_those_who_hear_it(office):
    bot, boss = await office.viewer("bot"), await office.viewer("boss")
    context = await office.context(bot, "pub", "w1")
    assert context.postable == "whisper"
    assert "closes in March" in to_text(context)
    assert "only to those who hear it" in to_text(context)
    # Both were on the board, so it may be spoken of; what the bot noticed for itself stays with it.
    block = repr(await office.agents.memory_section(bot, "pub", "w1", topic="Leipzig"))
    assert "is sad" in block
    assert "is cold" not in block
    # Nobody is given a whisper who names the room alone.
    assert (await office.context(boss, "pub")).trigger_id == (await office.context(bot, "pub")).trigger_id


async def test_accounts_of_one_person_count_as_that_person(office):
    """Cleo's second account is in the team; what she heard as Cleo she may be told there."""
    cleo = author("cleo2")
    pair = room("pair", visibility="members", members=members(BOT, cleo))
    await office.ingest(said("x1", cleo, f"bot, {ASKED}", pair, day=8))
    bot = await office.viewer("bot")
    assert OF_BOARD not in repr(await office.ask(bot, ASKED, room="pair"))
    await office.people.merge("cleo", "cleo2")
    assert OF_BOARD in repr(await office.ask(bot, ASKED, room="pair"))


async def test_what_not_everybody_there_may_read_is_answered_privately_or_not_at_all(office):
    bot = await office.viewer("bot")
    with pytest.raises(BadInput, match="not everybody who would read the answer"):
        await office.context(bot, "team", "t1")
    assert OF_OLD_TEAM in to_text(await office.context(bot, "team", "t1", private=True))


async def test_a_room_that_somebody_left_is_no_place_for_their_answers(office):
    dan = await office.viewer("dan")
    for call in (office.context(dan, "team"), office.ask(dan, ASKED, room="team")):
        with pytest.raises(BadInput, match="nothing can be posted there"):
            await call
    assert OF_OLD_TEAM in to_text(await office.context(dan, "team", private=True))


@pytest.mark.slow
async def test_what_is_withheld_from_somebody_there_is_withheld_from_the_room(office):
    lines = [
        said("s1", BOSS, "The Leipzig party is on Friday", day=7.1),
        said("s2", BOSS, "don't tell Ana about the Leipzig party", day=7.2),
    ]
    await office.ingest_batch(lines)
    await office.drain()
    bot = await office.viewer("bot")
    question = "when is the Leipzig party?"
    assert "Friday" not in repr(await office.search(bot, question, room="pub"))
    assert "Friday" in repr(await office.search(bot, question, room="pub", private=True))


async def test_what_is_confided_to_one_who_reads_there_is_withheld_from_the_room(office):
    pair = room("pair", visibility="members", members=members(CLEO, DAN))
    lines = [
        said("c1", BOSS, "Cleo, the Leipzig roof leaks", day=7.1),
        said("c2", BOSS, "Cleo, that stays just between us", day=7.2),
        said("c3", DAN, "hello", pair, day=7.3),
    ]
    await office.ingest_batch(lines)
    await office.drain()
    cleo = await office.viewer("cleo")
    question = "Leipzig roof leaks"
    assert "roof leaks" not in repr((await office.ask(cleo, question, room="pair")).hits)
    assert "roof leaks" in repr((await office.ask(cleo, question, room="pair", private=True)).hits)


SEVERANCE, VAULT, LUNCH, SAD = "41,500", "heron seven", "soup on Friday", "Ana worries"


async def unlisted(app: App, **of_staff) -> None:
    """Two rooms that are closed by their names: who wrote in them is known, who else reads them is not."""
    staff, leads = room("staff", **of_staff), room("leadership")
    lines = [
        said("l1", BOT, "hello", leads),
        said("l2", ANA, f"The severance for Kranich is {SEVERANCE} euro", leads, day=1),
        said(
            "w1",
            ANA,
            f"The passphrase of the vault is {VAULT}",
            leads,
            day=2,
            kind="whisper",
            audience=(BOT,),
        ),
        said("s1", ANA, f"The canteen has {LUNCH}", staff),
        said("s2", BOT, "hello", staff, day=0.1),
        said("s3", ANA, f"The canteen has {LUNCH}, as always", staff, day=3),
    ]
    assert (await app.ingest_batch(lines)).skipped == []
    await app.drain()
    acting = app.impersonate(await app.viewer("bot"))
    await acting.memories.remember(f"{SAD} about the severance", kind="observation", sources=["l2"])


async def told_in_staff(told: App) -> str:
    """Everything that the bot is given for an answer in that room, as text, by a process that keeps no block from before."""
    app = App(db=told.db, org_id=told.org_id, settings=told.settings, _embedder=told._embedder)
    bot = await app.viewer("bot")
    questions = (
        "what is the severance for Kranich?",
        "what is the passphrase of the vault?",
        "what has the canteen?",
    )
    parts = [repr(await app.ask(bot, one, room="staff")) for one in questions]
    parts += [repr(await app.search(bot, one, room="staff", limit=50)) for one in questions]
    parts.append(to_text(await app.context(bot, "staff")))
    parts.append(repr(await app.agents.memory_section(bot, "staff", topic="severance")))
    return "\n".join(parts)


def found_in(text: str) -> set[str]:
    return {words for words in (SEVERANCE, VAULT, LUNCH, SAD) if words in text}


@pytest.mark.slow
async def test_a_room_whose_members_nobody_listed_is_told_only_what_was_said_there_and_in_open_rooms(
    app: App,
):
    await unlisted(app)
    assert found_in(await told_in_staff(app)) == {LUNCH}
    bot = await app.viewer("bot")
    assert VAULT in repr(
        await app.ask(bot, "what is the passphrase of the vault?", room="staff", private=True)
    )


async def test_what_is_withheld_from_anybody_is_withheld_from_a_room_whose_members_nobody_listed(app: App):
    await unlisted(app)
    lines = [
        said("g1", CLEO, "hello"),
        said("g2", BOSS, "The Leipzig party is on Sunday", day=4),
        said("g3", BOSS, "don't tell Cleo about the Leipzig party", day=4.1),
    ]
    await app.ingest_batch(lines)
    await app.drain()
    bot = await app.viewer("bot")
    assert "Sunday" not in repr(await app.ask(bot, "when is the party?", room="staff"))
    assert "Sunday" in repr(await app.ask(bot, "when is the party?", room="staff", private=True))


async def test_an_operators_word_for_each_who_is_in_a_room_says_who_reads_along(app: App):
    await unlisted(app)
    manage = app.room_admin
    await manage.add_member("staff", "ana", always=True)
    assert found_in(await told_in_staff(app)) == {LUNCH}
    await manage.add_member("staff", "bot", always=True)
    assert found_in(await told_in_staff(app)) == {LUNCH, SEVERANCE, VAULT, SAD}
    # Somebody else writes there, so others may read along as well: what that one was not there for is told no more.
    await app.ingest(said("s6", CLEO, "me too", room("staff"), day=5))
    assert found_in(await told_in_staff(app)) == set()
    await app.ingest(said("s7", ANA, f"The canteen has {LUNCH} again", room("staff"), day=6))
    assert found_in(await told_in_staff(app)) == {LUNCH}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "is_whole"), [("dm", True), ("group_dm", False)])
async def test_of_direct_rooms_without_a_list_those_of_two_are_known_to_have_no_more(
    app: App, kind, *, is_whole
):
    await unlisted(app, kind=kind)
    beyond = {SEVERANCE, VAULT, SAD} if is_whole else set()
    assert found_in(await told_in_staff(app)) == {LUNCH} | beyond


async def test_of_a_direct_room_of_which_one_is_known_somebody_else_reads_along(app: App):
    staff, leads = room("staff", kind="dm"), room("leadership")
    lines = [
        said("l1", BOT, "hello", leads),
        said("l2", ANA, f"The severance for Kranich is {SEVERANCE} euro", leads, day=1),
        said("s1", BOT, "hello", staff, day=2),
    ]
    assert (await app.ingest_batch(lines)).skipped == []
    await app.drain()
    assert found_in(await told_in_staff(app)) == set()


async def test_a_place_that_is_none_shows_nothing(office, admin):
    """A message, an unknown id, another org's room: whatever the viewer could see, nothing is seen for such a place."""
    [[spoken]] = await (
        await admin.execute(
            "select id from messages where org_id = %s and external_id = 'p2'", [office.org_id]
        )
    ).fetchall()
    for viewer in (office.operator, await office.viewer("bot")):
        for place in (spoken, office.org_id):
            async with office.db.read_transaction(viewer.posting(place)) as conn:
                counted = await (
                    await conn.execute(
                        "select (select count(*) from messages) + (select count(*) from memories)"
                        " + (select count(*) from rooms) + (select count(*) from memberships)"
                    )
                ).fetchone()
            assert counted == (0,)


async def told_of(app: App, viewer: Viewer, where: str) -> set[tuple[bool, bool]]:
    """Whether it is told why the conversations of a room were opened, and how long a silence is long there."""
    room_id = {one.external_id: one.id for one in await app.rooms(app.operator)}[where]
    async with app.db.read_transaction(viewer) as conn:
        found = await conversations.newest(conn, app.org_id, room_id, limit=50)
    return {(one.split_reason is not None, one.idle_timeout is not None) for one in found}


@pytest.mark.parametrize("by", ["boss", "operator"])
async def test_what_rests_on_the_beginning_of_a_room_is_told_where_all_heard_that(office, by):
    viewer = office.operator if by == "operator" else await office.viewer(by)
    rooms = {one.external_id: one.id for one in await office.rooms(office.operator)}
    assert await told_of(office, viewer, "team") == {(True, True)}
    # Ana, who reads there now, came later than what was said first.
    assert await told_of(office, viewer.posting(rooms["team"]), "team") == {(False, False)}
    assert await told_of(office, viewer.posting(rooms["board"]), "board") == {(True, True)}
    assert await told_of(office, viewer.posting(rooms["pub"]), "pub") == {(True, True)}
    assert await told_of(office, viewer.posting(rooms["pub"]), "board") == set()


async def stays_of(app: App, viewer: Viewer, who: str) -> int:
    """How many stays of somebody are known."""
    participant_id = (await app.viewer(who)).participant_id
    async with app.db.read_transaction(viewer) as conn:
        counted = await conn.execute(
            "select count(*) from memberships where participant_id = %s", [participant_id]
        )
        [[count]] = await counted.fetchall()
    return count


@pytest.mark.parametrize("by", ["boss", "operator"])
async def test_who_left_before_somebody_came_is_not_known_where_both_read(office, by):
    viewer = office.operator if by == "operator" else await office.viewer(by)
    rooms = {one.external_id: one.id for one in await office.rooms(office.operator)}
    assert await stays_of(office, viewer, "dan") == 1
    # Ana, who reads there now, came after Dan had left.
    assert await stays_of(office, viewer.posting(rooms["team"]), "dan") == 0
    assert await stays_of(office, viewer.posting(rooms["team"]), "ana") > 0
