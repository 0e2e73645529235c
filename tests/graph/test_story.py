"""One story told by hand: what each of its people is answered."""

from datetime import UTC, datetime
from uuid import UUID

import psycopg
import pytest

from conftest import TellOnce
from db.worlds import PEOPLE, PLATFORM, Conversation, Memory, World, at, made_id
from graph.comparing import compare
from graph.telling import Facts, Mark, Story, facts, tell
from roomlore.domain.errors import BadInput, NotAllowed, NotFound
from roomlore.domain.incoming import IncomingMembership, IncomingMessage, IncomingRoom
from roomlore.domain.records import Viewer
from roomlore.operations import App

ANA, BEN, CLEO, PIP, ZED = PEOPLE
SQUARE = IncomingRoom(external_id="garden", name="Garden")
ATTIC = IncomingRoom(
    external_id="attic",
    name="Attic",
    visibility="members",
    members=[
        IncomingMembership(author=ANA),
        IncomingMembership(author=BEN, joined_at=at(0), left_at=at(8)),
        IncomingMembership(author=PIP, joined_at=at(6)),
    ],
)


def said(number: int, who, room: IncomingRoom = SQUARE, *, to: int | None = None, **more) -> IncomingMessage:
    return IncomingMessage(
        platform=PLATFORM,
        room=IncomingRoom(external_id=room.external_id, name=room.name, visibility=room.visibility),
        external_id=f"m{number}",
        author=who,
        body=f"village words{number}",
        sent_at=at(number),
        order=number,
        reply_to=None if to is None else f"m{to}",
        **more,
    )


#: What rests on notices alone is there, too. Ana and Ben in the open, in the attic, and in a whisper; the bot Pip comes to the attic late, when Ben goes. Zed is
#: another account of Cleo's.
STORY = Story(
    world=World(
        rooms=[SQUARE, ATTIC],
        said=[
            said(0, ANA),
            said(1, BEN, to=0),
            said(2, PIP, to=1),
            said(3, ANA, ATTIC),
            said(4, BEN, ATTIC, to=3),
            said(5, ANA, ATTIC, to=4),
            said(7, PIP, ATTIC, to=5),
            said(9, ANA, ATTIC, to=7),
            said(10, BEN, to=0, kind="whisper", audience=(ANA,)),
            said(11, CLEO, to=2),
            said(12, BEN, kind="system", to=0),
            said(13, ANA, ATTIC, kind="system"),
        ],
        others=["zed"],
        merges={"cleo": 0, "zed": 0},
        conversations=[
            Conversation(number=0, room="garden", said=["m0", "m1", "m2", "m11", "m12"]),
            Conversation(number=1, room="attic", said=["m3", "m4", "m5", "m7", "m9"]),
        ],
        memories=[
            Memory(number=0, sources=["m0"], people=[("ana", "subject"), ("ben", "involved")]),
            Memory(number=1, sources=["m3", "m4"], people=[("ana", "subject"), ("pip", "perspective")]),
            Memory(number=2, sources=["m1"], people=[("ben", "author"), ("ana", "involved")]),
            Memory(number=3, sources=["m10"], people=[("ana", "subject"), ("ben", "author")]),
            Memory(number=4, asserted_by="pip", people=[("pip", "author"), ("zed", "subject")]),
            Memory(number=5, sources=["m2"], people=[("pip", "author"), ("zed", "subject")]),
            Memory(number=6, sources=["m12"], people=[("pip", "subject")]),
            Memory(number=7, sources=["m13"], people=[("pip", "subject"), ("ben", "involved")]),
        ],
    ),
    marks=[
        Mark(kind="fact", tags=["tea"], is_archived=False, superseded_by=None),
        Mark(kind="lesson", tags=["tea", "rain"], is_archived=False, superseded_by=None),
        Mark(kind="fact", tags=["boats"], is_archived=False, superseded_by=5),
        Mark(kind="preference", tags=["rain"], is_archived=False, superseded_by=None),
        Mark(kind="fact", tags=[], is_archived=False, superseded_by=None),
        Mark(kind="preference", tags=["tea"], is_archived=False, superseded_by=None),
        Mark(kind="observation", tags=["boats"], is_archived=False, superseded_by=None),
        Mark(kind="observation", tags=["rain"], is_archived=False, superseded_by=None),
    ],
)


async def story(app: App) -> None:
    await tell(app, STORY)


@pytest.fixture(name="told")
async def _told(app: App, admin: psycopg.AsyncConnection, tell_once: TellOnce) -> Facts:
    await tell_once(app, story)
    return await facts(admin, app)


@pytest.mark.slow
async def test_everybody_is_answered_what_they_may_see(app: App, told: Facts):
    assert await compare(app, told) > 100


@pytest.mark.slow
async def test_what_a_wish_keeps_is_part_of_no_answer(app: App, told: Facts, admin):
    [(wished, room)] = await rows(admin, app, "id, room_id from messages where external_id = 'm1'")
    wish = made_id("line", 1)
    await admin.execute(
        "insert into privacy_requests (org_id, id, room_id, message_id, author_id, kind, detected_by, detected_at)"
        " values (%s, %s, %s, %s, %s, 'forget', 'rules', now())",
        [app.org_id, wish, room, wished, told.truth.accounts["ben"]],
    )
    await admin.execute(
        "insert into restricted_messages (org_id, message_id, request_id) values (%s, %s, %s)",
        [app.org_id, wished, wish],
    )

    assert await compare(app, told, restrictions=[wished]) > 100


async def rows(admin: psycopg.AsyncConnection, app: App, columns: str) -> list[tuple]:
    return await (await admin.execute(f"select {columns} and org_id = %s", [app.org_id])).fetchall()


async def talks(app: App, viewer: Viewer, who: str) -> list[tuple[str, int, datetime]]:
    return [
        (one.name, one.count, one.last) for one in (await app.graph.conversation_partners(viewer, who)).items
    ]


async def test_talks_count_only_replies_both_ends_of_which_are_seen(app: App, told: Facts):
    assert await talks(app, app.operator, "ana") == [("Ben", 4, at(10)), ("Pip", 2, at(9))]
    assert await talks(app, told.truth.viewer("ben"), "ana") == [("Ben", 4, at(10)), ("Pip", 1, at(7))]
    assert await talks(app, told.truth.viewer("cleo"), "ana") == [("Ben", 1, at(1))]
    assert await talks(app, told.truth.viewer("pip"), "ana") == [("Pip", 1, at(9)), ("Ben", 1, at(1))]


@pytest.mark.slow
async def test_accounts_of_one_person_are_asked_about_together(app: App, told: Facts):
    about = await app.graph.memories_about(app.operator, "cleo")
    assert [one.id for one in about.items] == [made_id("memory", 5), made_id("memory", 4)]
    # Ana has never met Zed: neither by name nor by what is remembered is she told of that account.
    ana = told.truth.viewer("ana")
    assert (await app.graph.memories_about(ana, "cleo")).items == []
    with pytest.raises(NotFound):
        await app.graph.memories_about(ana, "zed")


async def test_what_is_near_has_the_words_that_the_viewer_may_read(app: App, told: Facts):
    near = await app.graph.near(told.truth.viewer("cleo"), "ana")
    assert [(one.label, one.text, one.score) for one in near.items] == [
        ("Memory", "village recollection0", 1.0),
        ("Tag", "tea", 1.0),
        ("User", "Ben", 1.0),
    ]


async def test_memories_for_a_conversation_come_by_kind(app: App, told: Facts):
    conversation = str(made_id("conversation", 0))
    told_of = await app.graph.memories_for(told.truth.viewer("ana"), conversation)
    assert [(one.kind, [memory.id for memory in one.memories]) for one in told_of.items] == [
        ("fact", [made_id("memory", 0)]),
        ("observation", [made_id("memory", 6), made_id("memory", 7)]),
        ("preference", [made_id("memory", 5), made_id("memory", 3)]),
        ("lesson", [made_id("memory", 1)]),
    ]


async def test_what_rests_on_a_notice_alone_is_for_those_who_may_read_that(app: App, told: Facts):
    for account, numbers in (("ana", [7, 6]), ("pip", [7, 6]), ("ben", [6]), ("cleo", [6])):
        about = await app.graph.memories_about(told.truth.viewer(account), "pip")
        assert [one.id for one in about.items] == [made_id("memory", number) for number in numbers], account
    for who in ("ana", "ben"):
        said = [one.id for one in (await app.graph.said_by(app.operator, who)).items]
        assert not {told.truth.messages[key].kind for key in said} & {"system"}


async def test_whoever_may_not_see_all_of_a_conversation_learns_nothing_of_it(app: App, told: Facts):
    attic = str(made_id("conversation", 1))
    for account in ("ben", "cleo", "pip"):
        for call in (app.graph.participants_of, app.graph.memories_for):
            with pytest.raises(NotFound):
                await call(told.truth.viewer(account), attic)
    present = await app.graph.participants_of(told.truth.viewer("ana"), attic)
    assert [(one.name, one.count) for one in present.items] == [("Ana", 3), ("Pip", 1), ("Ben", 1)]


async def test_nobody_reads_as_another_and_no_limit_is_none(app: App, told: Facts):
    ben = app.impersonate(told.truth.viewer("ben"))
    with pytest.raises(NotAllowed):
        await ben.graph.said_by(told.truth.viewer("ana"), "ana")
    for call in (ben.graph.said_by, ben.graph.conversation_partners, ben.graph.near):
        with pytest.raises(BadInput, match="limit"):
            await call(told.truth.viewer("ben"), "ana", limit=0)


async def test_the_log_says_what_was_shown(app: App, told: Facts):
    ben = told.truth.viewer("ben")
    found = (await app.graph.said_by(ben, "pip")).items
    [line] = [one for one in await app.log(ben) if one.action == "ask graph"]
    assert set(line.subject_ids) == {told.truth.accounts["pip"], *(one.id for one in found)}
    assert isinstance(line.id, UUID)
    assert line.at <= datetime.now(UTC)
