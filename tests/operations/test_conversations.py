"""Conversations: seen whole or not at all, and put right by those who see them."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from uuid import UUID, uuid4

import psycopg
import pytest

from ingest.stories import at, author, message, room
from operations.village import error_of, log_lines
from privacy.village import converse, ids_of, link, tangle
from roomlore.db import erasure_guard
from roomlore.domain.errors import BadInput, NotAllowed, NotFound
from roomlore.domain.incoming import IncomingMembership
from roomlore.domain.records import AssignedMessage, Viewer
from roomlore.jobs.disentanglement import disentangle_chunk
from roomlore.operations import App

ANA, BO, CY, DEE, EVE = map(author, ("ana", "bo", "cy", "dee", "eve"))
PIP = author("pip", kind="agent")
SQUARE = room("square")
#: Dee came later.
ATTIC = room(
    "attic",
    visibility="members",
    members=(
        *(IncomingMembership(author=one) for one in (ANA, BO, PIP)),
        IncomingMembership(author=DEE, joined_at=at(25)),
    ),
)
STORY = [
    message("1", "when does the ferry leave", author=ANA, room=SQUARE),
    message("2", "at nine", author=BO, room=SQUARE, reply_to="1"),
    message("3", "apples are cheap today", author=CY, room=SQUARE),
    message("4", "red ones", author=EVE, room=SQUARE, reply_to="3"),
    message("5", "then I take the ferry", author=ANA, room=SQUARE),
    message("6", "Eve joined", author=author("", kind="system", name="notice"), room=SQUARE, kind="system"),
    message("7", "injected", author=PIP, room=SQUARE, kind="context_injection"),
    message("8", "psst", author=BO, room=SQUARE, kind="whisper", audience=(ANA,)),
    message("9", "what", author=ANA, room=SQUARE, kind="whisper", audience=(BO,)),
    message("10", "and you", author=BO, room=SQUARE, kind="whisper", audience=(CY,)),
    message("20", "the salary list is lost", author=ANA, room=ATTIC),
    message("21", "I know", author=BO, room=ATTIC, reply_to="20"),
    message("30", "who brings chairs", author=ANA, room=ATTIC),
    message("31", "not me", author=BO, room=ATTIC),
]
Ids = dict[str, str]


@pytest.fixture
async def talks(app: App) -> Ids:
    """The ids of what was found in the story, by what it is about."""
    accepted = await app.ingest_batch(STORY)
    assert accepted.skipped == []
    await tangle(app)
    await link(app, "5", "2")
    return {
        label: str(await converse(app, label, marks))
        for label, marks in {
            "ferry": ["1", "2", "5"],
            "apples": ["3", "4"],
            "psst": ["8"],
            "what": ["9"],
            "to cy": ["10"],
            "salary": ["20", "21", "31"],
            "chairs": ["30"],
        }.items()
    }


async def acting(app: App, account: str) -> App:
    return app.impersonate(await app.viewer(account))


async def labels(app: App, account: str, where: str | None = None) -> list[str]:
    return [one.label for one in await app.conversations.all(await app.viewer(account), where)]


async def standing(admin: psycopg.AsyncConnection, app: App) -> dict[str, tuple[str, bool]]:
    """Where each message stands and whether by hand."""
    rows = await admin.execute(
        "select messages.external_id, conversation_id::text, is_manual from conversation_messages"
        " join messages on messages.org_id = conversation_messages.org_id and messages.id = message_id"
        " where conversation_messages.org_id = %s",
        [app.org_id],
    )
    return {key: (held, is_manual) for key, held, is_manual in await rows.fetchall()}


async def seen_by(app: App, account: str) -> set[str]:
    return {str(one.id) for one in await app.conversations.all(await app.viewer(account))}


def marks(said: Sequence[AssignedMessage]) -> list[str]:
    return [one.message.external_id for one in said]


# Reading


async def test_conversations_are_listed_newest_first_with_who_takes_part(app: App, talks: Ids):
    found = await app.conversations.all(app.operator)
    assert [one.label for one in found] == ["salary", "chairs", "to cy", "what", "psst", "ferry", "apples"]
    ferry = found[-2]
    assert (str(ferry.id), ferry.message_count, ferry.split_reason) == (talks["ferry"], 3, "first")
    assert (ferry.opened_at, ferry.last_at) == (at(1), at(5))
    assert [(one.name, one.kind, one.message_count) for one in ferry.participants] == [
        ("Ana", "human", 2),
        ("Bo", "human", 1),
    ]
    assert ferry.is_open_at(at(5) + timedelta(minutes=59))
    assert not ferry.is_open_at(at(5) + timedelta(minutes=60))
    assert [one.label for one in await app.conversations.all(app.operator, "attic")] == ["salary", "chairs"]
    assert [one.label for one in await app.conversations.all(app.operator, limit=1)] == ["salary"]
    with pytest.raises(BadInput):
        await app.conversations.all(app.operator, limit=0)


async def test_who_whispered_before_anybody_spoke_is_not_listed_first_for_that(app: App):
    where = room("pier")
    who = {name: author(name) for name in ("zoe", "kim")}
    hushed = {"kind": "whisper", "audience": (author("lou"),)}
    for number, (name, rest) in enumerate([("zoe", hushed), ("kim", {}), ("zoe", {})]):
        said = message(f"pier{number}", "the pier", author=who[name], room=where, sent_at=at(number), **rest)
        await app.ingest(said)
    await app.disentangle()
    [openly] = [one for one in await app.conversations.all(app.operator, "pier") if one.message_count == 2]
    assert [one.name for one in openly.participants] == ["Kim", "Zoe"]


async def test_a_conversation_is_meant_by_its_id_by_how_it_begins_and_by_a_message_in_it(
    app: App, talks: Ids
):
    [two] = await ids_of(app, ["2"])
    for word in (talks["ferry"], talks["ferry"].upper(), "message:2", f"message:{two}"):
        found, said = await app.conversations.read(app.operator, word)
        assert str(found.id) == talks["ferry"]
        assert marks(said) == ["1", "2", "5"]
    beginnings = {key[:13] for key in talks.values()}
    if len(beginnings) == len(talks):
        found, _ = await app.conversations.read(app.operator, talks["ferry"][:13])
        assert str(found.id) == talks["ferry"]
    with pytest.raises(BadInput, match="several"):
        await app.conversations.read(app.operator, talks["ferry"][:4])
    for word in (
        "",
        "f",
        "message:",
        "message:99",
        "message:6",
        "%",
        "\0",
        str(uuid4()),
        f"{talks['ferry']}0",
    ):
        with pytest.raises(NotFound):
            await app.conversations.read(app.operator, word)


async def test_what_is_read_tells_what_answers_what(app: App, talks: Ids):
    one, two, five = await ids_of(app, ["1", "2", "5"])
    _, said = await app.conversations.read(app.operator, talks["ferry"])
    edges = [
        (edge.child_id, edge.parent_id, edge.method) if (edge := placed.answers) else None for placed in said
    ]
    assert edges == [None, (two, one, "explicit"), (five, two, "inferred")]
    assert {str(placed.conversation_id) for placed in said} == {talks["ferry"]}
    _, newest = await app.conversations.read(app.operator, talks["ferry"], limit=2)
    assert marks(newest) == ["2", "5"]


async def test_a_timeline_has_every_message_with_its_conversation_as_far_as_it_is_seen(app: App, talks: Ids):
    dee, ana = await app.viewer("dee"), await app.viewer("ana")
    held = {one.message.external_id: one for one in await app.conversations.timeline(ana, "attic")}
    assert {mark: str(one.conversation_id) for mark, one in held.items()} == {
        **dict.fromkeys(("20", "21", "31"), talks["salary"]),
        "30": talks["chairs"],
    }
    # Dee reads the last message and not the conversation it is in.
    held = {one.message.external_id: one for one in await app.conversations.timeline(dee, "attic")}
    assert {mark: one.conversation_id for mark, one in held.items()} == {
        "30": UUID(talks["chairs"]),
        "31": None,
    }
    said = await app.conversations.timeline(ana, "square", limit=3, before="8")
    assert marks(said) == ["4", "5", "6"]
    assert [one.conversation_id and str(one.conversation_id) for one in said] == [
        *(talks["apples"], talks["ferry"], None),
    ]


@pytest.mark.usefixtures("talks")
async def test_a_conversation_is_listed_for_those_who_may_read_all_of_it(app: App):
    open_to_all = {"ferry", "apples"}
    expected = {
        "ana": open_to_all | {"psst", "what", "salary", "chairs"},
        "bo": open_to_all | {"psst", "what", "to cy", "salary", "chairs"},
        "cy": open_to_all | {"to cy"},
        "dee": open_to_all | {"chairs"},
        "eve": open_to_all,
        "pip": open_to_all | {"salary", "chairs"},
    }
    assert {account: set(await labels(app, account)) for account in expected} == expected
    assert await app.conversations.all(Viewer(org_id=app.org_id, participant_id=uuid4())) == []


# Changes


async def test_moving_a_message_takes_along_what_answers_it_but_not_what_a_person_placed(
    app: App, talks: Ids, admin
):
    await app.ingest_batch(
        [
            message("11", "and the late one", author=BO, room=SQUARE, reply_to="2"),
            message("12", "at ten", author=ANA, room=SQUARE, reply_to="11"),
        ]
    )
    more = str(await converse(app, "late", ["11", "12"]))
    await app.conversations.move("11", more)
    moved = await app.conversations.move("2", talks["apples"])
    assert (str(moved.id), moved.message_count) == (talks["apples"], 4)
    assert (moved.opened_at, moved.last_at) == (at(2), at(5))
    held = await standing(admin, app)
    assert held["2"] == (talks["apples"], True)
    assert held["5"] == (talks["apples"], True)
    assert held["1"] == (talks["ferry"], False)
    assert (held["11"], held["12"]) == ((more, True), (more, False))
    left, _ = await app.conversations.read(app.operator, talks["ferry"])
    assert (left.opened_at, left.last_at, left.message_count) == (at(1), at(1), 1)


@pytest.mark.slow
@pytest.mark.usefixtures("talks")
async def test_a_worker_leaves_what_a_person_did_as_it_is(app: App, admin):
    await app.disentangle()
    await app.conversations.move("2", "message:3")
    made = await app.conversations.split(["5"], "Our trip")
    await app.conversations.split(["30"])
    await app.conversations.merge("message:20", "message:30")
    before = {key: held for key, (held, is_manual) in (await standing(admin, app)).items() if is_manual}
    assert {"2", "5", "30"} <= before.keys()
    # What was said at the time is gone through once more, and then something new.
    await app.disentangle()
    await app.ingest(message("13", "two tickets then", author=BO, room=SQUARE, reply_to="5"))
    await app.disentangle()
    after = await standing(admin, app)
    assert {key: after[key] for key in before} == {key: (held, True) for key, held in before.items()}
    assert after["13"] == (str(made.id), False)
    found, _ = await app.conversations.read(app.operator, str(made.id))
    assert (found.label, found.is_named, found.split_reason) == ("Our trip", True, "person")


async def test_the_last_message_moved_out_of_a_conversation_ends_it(app: App, talks: Ids):
    await app.conversations.move("30", talks["salary"])
    with pytest.raises(NotFound):
        await app.conversations.read(app.operator, talks["chairs"])


async def test_a_split_makes_a_conversation_of_messages_of_several(app: App, talks: Ids, admin):
    made = await app.conversations.split(["2", "3"], "  Ferry\n and   apples ")
    assert (made.label, made.is_named, made.split_reason) == ("Ferry and apples", True, "person")
    assert (made.message_count, made.opened_at, made.last_at) == (4, at(2), at(5))
    assert {talker.name for talker in made.participants} == {"Ana", "Bo", "Cy", "Eve"}
    held = await standing(admin, app)
    assert {key: held[key] for key in "12345"} == {
        "1": (talks["ferry"], False),
        "2": (str(made.id), True),
        "3": (str(made.id), True),
        "4": (str(made.id), True),
        "5": (str(made.id), True),
    }
    with pytest.raises(NotFound):
        await app.conversations.read(app.operator, talks["apples"])
    unnamed = await app.conversations.split(["3", "3"])
    assert not unnamed.is_named
    assert "cheap" in unnamed.label


async def test_a_merge_puts_all_of_one_into_the_other(app: App, talks: Ids, admin):
    await app.conversations.rename(talks["ferry"], "Ferries")
    kept = await app.conversations.merge(talks["ferry"], talks["apples"])
    assert (kept.label, kept.message_count) == ("Ferries", 5)
    held = await standing(admin, app)
    # Whatever answers nothing in it holds the rest.
    assert {key: held[key] for key in "345"} == {
        "3": (talks["ferry"], True),
        "4": (talks["ferry"], True),
        "5": (talks["ferry"], True),
    }
    with pytest.raises(NotFound):
        await app.conversations.read(app.operator, talks["apples"])


async def test_whispers_stand_with_whispers_of_the_same_people_only(app: App, talks: Ids):
    assert (await app.conversations.merge(talks["psst"], talks["what"])).message_count == 2
    for change in (
        app.conversations.merge(talks["psst"], talks["to cy"]),
        app.conversations.merge(talks["ferry"], talks["psst"]),
        app.conversations.move("10", talks["psst"]),
        app.conversations.move("8", talks["ferry"]),
        app.conversations.move("1", talks["psst"]),
        app.conversations.split(["1", "8"]),
        app.conversations.split(["9", "10"]),
    ):
        with pytest.raises(BadInput, match="different people"):
            await change


@pytest.mark.slow
async def test_what_cannot_be_in_a_conversation_is_refused_with_the_reason(app: App, talks: Ids, admin):
    await app.ingest(message("14", "just now", author=ANA, room=SQUARE))
    await app.erasure.message("4")
    before = await standing(admin, app)
    for change, why in (
        (app.conversations.move("20", talks["ferry"]), "of one room"),
        (app.conversations.split(["1", "20"]), "of one room"),
        (app.conversations.merge(talks["ferry"], talks["salary"]), "of one room"),
        (app.conversations.merge(talks["ferry"], talks["ferry"]), "is the one"),
        (app.conversations.move("6", talks["ferry"]), "notices and injected"),
        (app.conversations.move("7", talks["ferry"]), "notices and injected"),
        (app.conversations.move("4", talks["ferry"]), "was erased"),
        (app.conversations.move("14", talks["ferry"]), "not disentangled yet"),
        (app.conversations.split([]), "at least one"),
        (app.conversations.split(["1"] * 201), "at most"),
        (app.conversations.split(["1"], "x" * 101), "longer than 100"),
        (app.conversations.rename(talks["ferry"], "x" * 101), "longer than 100"),
        (app.conversations.rename(talks["ferry"], "\u202e"), "printable"),
        (app.conversations.set_sensitivity(talks["ferry"], "secret"), "must be one of"),
    ):
        with pytest.raises(BadInput, match=why):
            await change
    assert await standing(admin, app) == before


async def test_a_message_is_looked_for_in_the_room_that_is_named_and_then_everywhere(app: App, talks: Ids):
    await app.ingest(message("2", "another two", author=ANA, room=room("hall")))
    with pytest.raises(BadInput, match="several"):
        await app.conversations.split(["2"])
    assert (await app.conversations.split(["2"], room="square")).message_count == 2
    assert (await app.conversations.move("2", talks["ferry"])).message_count == 3


async def test_a_name_stays_until_it_is_taken_back(app: App, talks: Ids):
    named = await app.conversations.rename(talks["apples"], "Fruit\u2028#m1 [erased] \x1b[31m")
    assert named.is_named
    assert named.label.startswith("Fruit ")
    assert named.label.isprintable()
    assert "#m1" not in named.label
    assert "[erased]" not in named.label
    for invisible in ("", "\u202e", "\x07"):
        secret = await app.conversations.rename(talks["apples"], f"key ghp_a{invisible}{'a1' * 18}")
        assert "a1a1" not in secret.label
    found = await app.conversations.rename(talks["apples"], "")
    assert not found.is_named
    assert "cheap" in found.label


async def test_a_name_given_by_a_person_survives_the_worker(app: App):
    await app.ingest_batch(STORY)
    await app.disentangle()
    named = await app.conversations.rename("message:3", "Fruit")
    await app.ingest(message("15", "green ones", author=CY, room=SQUARE, reply_to="3"))
    await app.disentangle()
    found, said = await app.conversations.read(app.operator, str(named.id))
    assert (found.label, found.is_named) == ("Fruit", True)
    assert "15" in marks(said)


async def test_a_sensitive_conversation_is_for_those_who_were_there(app: App, talks: Ids):
    marked = await (await acting(app, "cy")).conversations.set_sensitivity(talks["apples"], "sensitive")
    assert marked.sensitivity == "sensitive"
    # Ana was a member by then, Cy and Eve spoke in it, and Dee did neither.
    seeing = {account: await seen_by(app, account) for account in ("ana", "cy", "dee", "eve")}
    assert {account for account, ids in seeing.items() if talks["apples"] in ids} == {"ana", "cy", "eve"}
    # And whatever gets something out of it is too.
    made = await app.conversations.split(["4"])
    assert made.sensitivity == "sensitive"
    assert (await app.conversations.move("3", talks["ferry"])).sensitivity == "sensitive"
    assert str(made.id) in await seen_by(app, "eve")
    assert str(made.id) not in await seen_by(app, "dee")
    assert (await app.conversations.set_sensitivity(str(made.id), "normal")).sensitivity == "normal"
    assert str(made.id) in await seen_by(app, "dee")


async def test_marking_hides_a_conversation_from_nobody_who_spoke_in_it_and_they_undo_it(
    app: App, talks: Ids
):
    """Eve spoke in it last; she was no member of the room when it began, and so was shut out of her own words."""
    apples = talks["apples"]
    eve, cy = await acting(app, "eve"), await acting(app, "cy")
    assert apples in await seen_by(app, "dee")
    await cy.conversations.set_sensitivity(apples, "sensitive")
    assert apples not in await seen_by(app, "dee")
    assert apples in await seen_by(app, "eve")
    assert (await eve.conversations.set_sensitivity(apples, "normal")).sensitivity == "normal"
    assert apples in await seen_by(app, "dee")


async def test_who_has_not_spoken_in_a_conversation_does_not_say_how_sensitive_it_is(app: App, talks: Ids):
    dee, cy = await acting(app, "dee"), await acting(app, "cy")
    assert talks["apples"] in await seen_by(app, "dee")
    with pytest.raises(NotAllowed, match="spoke"):
        await dee.conversations.set_sensitivity(talks["apples"], "sensitive")
    # What an operator said stands, also against those who spoke.
    await app.conversations.set_sensitivity(talks["apples"], "sensitive")
    with pytest.raises(NotAllowed, match="operator"):
        await cy.conversations.set_sensitivity(talks["apples"], "normal")
    assert talks["apples"] not in await seen_by(app, "dee")
    # Another account of somebody who spoke is theirs.
    await app.conversations.set_sensitivity(talks["apples"], "normal")
    await app.people.merge("cy", "dee")
    assert talks["apples"] in await seen_by(app, "dee")


async def test_only_operators_take_messages_into_or_out_of_a_sensitive_conversation(app: App, talks: Ids):
    """Bo spoke in the ferry's alone: put into another one by Cy, it would be gone for him, and he could not undo that."""
    cy, ferry, apples = await acting(app, "cy"), talks["ferry"], talks["apples"]
    await cy.conversations.set_sensitivity(apples, "sensitive")
    for arrange in (
        partial(cy.conversations.merge, apples, ferry),
        partial(cy.conversations.merge, ferry, apples),
        partial(cy.conversations.move, "1", apples),
        partial(cy.conversations.move, "3", ferry),
        partial(cy.conversations.split, ["4"]),
    ):
        with pytest.raises(NotAllowed, match="only operators take messages into or out of a sensitive"):
            await arrange()
    assert {ferry, apples} <= await seen_by(app, "cy")
    assert ferry in await seen_by(app, "bo")
    # Of conversations that are not sensitive everybody arranges what they see.
    await cy.conversations.set_sensitivity(apples, "normal")
    assert str((await cy.conversations.merge(apples, ferry)).id) in await seen_by(app, "bo")


async def test_an_operator_merges_a_conversation_into_a_sensitive_one(app: App, talks: Ids):
    await app.conversations.set_sensitivity(talks["apples"], "sensitive")
    assert (await app.conversations.merge(talks["apples"], talks["ferry"])).sensitivity == "sensitive"


async def test_nobody_comes_into_a_sensitive_conversation_by_speaking_in_it(app: App, talks: Ids):
    await (await acting(app, "cy")).conversations.set_sensitivity(talks["apples"], "sensitive")
    kept = await app.memories.remember("Apples are cheap.", sources=["3"])
    await app.ingest(message("51", "cheap, are they?", author=DEE, room=SQUARE, reply_to="3", sent_at=at(60)))
    [said] = await ids_of(app, ["51"])

    async def answer(conn) -> None:
        await conn.execute(
            "insert into conversation_messages (org_id, message_id, conversation_id) values (%s, %s, %s)",
            [app.org_id, said, talks["apples"]],
        )

    await app.db.change(app.org_id, answer)
    assert str(kept.id) not in {str(one.id) for one in await app.memories.all(await app.viewer("dee"))}
    for account, sees in (("dee", False), ("cy", True)):
        assert (talks["apples"] in await seen_by(app, account)) == sees
        viewer = await app.viewer(account)
        assert bool([one for one in await app.memories.all(viewer) if one.id == kept.id]) == sees
    with pytest.raises(NotFound):
        await (await acting(app, "dee")).conversations.set_sensitivity(talks["apples"], "normal")


async def test_what_was_asserted_meanwhile_is_as_sensitive_as_its_conversation_is_now(app: App, talks: Ids):
    async def held() -> dict[str, str]:
        return {one.content: one.sensitivity for one in await app.memories.all(app.operator)}

    await app.memories.remember("Before.", sources=["3"])
    await app.memories.remember("For who was there.", sources=["3"], sensitive=True)
    await app.conversations.set_sensitivity(talks["apples"], "sensitive")
    await app.memories.remember("Meanwhile.", sources=["3"])
    assert set((await held()).values()) == {"sensitive"}
    await app.conversations.set_sensitivity(talks["apples"], "normal")
    assert await held() == {"Before.": "normal", "For who was there.": "sensitive", "Meanwhile.": "normal"}


async def test_a_label_tells_nothing_of_what_is_not_there_any_more(app: App, talks: Ids):
    """Dee may see a conversation once what she cannot read was taken out of it: not what it was called."""
    await app.conversations.rename(talks["salary"], "The salary list")
    assert await labels(app, "dee", "attic") == ["chairs"]
    made = await app.conversations.split(["20"], "Secret")
    assert made.message_count == 2
    seen = await app.conversations.all(await app.viewer("dee"), "attic")
    assert {str(one.id) for one in seen} == {talks["salary"], talks["chairs"]}
    assert not any("salary" in one.label.lower() or one.is_named for one in seen)


async def test_in_an_open_room_a_name_survives_what_is_taken_out(app: App, talks: Ids):
    await app.conversations.rename(talks["ferry"], "Ferries")
    await app.conversations.split(["2"])
    assert (await app.conversations.read(app.operator, talks["ferry"]))[0].label == "Ferries"


# Who may


def attacks(app: App, conversation: str, message: str) -> dict[str, object]:
    """Every read and every change that names a conversation or a message, as calls still to be made."""
    own, viewer = app.conversations, app.access.principal
    return {
        "read": lambda: own.read(viewer, conversation),
        "beginning": lambda: own.read(viewer, conversation[:-1]),
        "by message": lambda: own.read(viewer, f"message:{message}"),
        "move into": lambda: own.move("1", conversation),
        "move": lambda: own.move(message, "message:1"),
        "split": lambda: own.split([message]),
        "split with another": lambda: own.split(["1", message]),
        "merge": lambda: own.merge("message:1", conversation),
        "merge into": lambda: own.merge(conversation, "message:1"),
        "merge by message": lambda: own.merge("message:1", f"message:{message}"),
        "rename": lambda: own.rename(conversation, "mine now"),
        "mark": lambda: own.set_sensitivity(conversation, "normal"),
    }


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "hidden_from",
    [
        ("dee", "salary", "20"),  # was not there yet
        ("eve", "chairs", "30"),  # is not let in
        ("cy", "psst", "8"),  # was not whispered to
        ("ana", "to cy", "10"),
    ],
)
async def test_what_is_not_to_be_seen_is_answered_like_what_is_not_there(
    app: App, talks: Ids, admin, hidden_from: tuple[str, str, str]
):
    account, about, mark = hidden_from
    before, labelled = await standing(admin, app), await labels(app, "bo")
    caller = await acting(app, account)
    [message_id] = map(str, await ids_of(app, [mark]))
    nothing, no_message = str(uuid4()), str(uuid4())
    hidden = attacks(caller, talks[about], message_id)
    for name, absent in attacks(caller, nothing, no_message).items():
        kind, text = await error_of(hidden[name]())
        text = text.replace(talks[about][:-1], "…").replace(message_id, "?")
        expected = (await error_of(absent()))[1].replace(nothing[:-1], "…").replace(no_message, "?")
        endings = (talks[about][-1], nothing[-1])
        assert kind is NotFound, name
        assert text.replace(f"…{endings[0]}", "…") == expected.replace(f"…{endings[1]}", "…"), name
    assert await standing(admin, app) == before
    assert await labels(app, "bo") == labelled
    assert talks[about] not in await seen_by(app, account)


async def test_whoever_reads_a_message_and_not_its_conversation_learns_nothing_of_that(
    app: App, talks: Ids, admin
):
    """Dee reads the last words of a conversation that began before she came."""
    before = await standing(admin, app)
    await app.ingest(message("32", "just now", author=BO, room=ATTIC))
    dee = (await acting(app, "dee")).conversations
    viewer = await app.viewer("dee")
    for read in (dee.read(viewer, "message:31"), dee.read(viewer, "message:32")):
        with pytest.raises(NotFound):
            await read
    # Not yet disentangled, or not for her: it is one answer.
    for change in (dee.move, lambda word, _: dee.split([word])):
        told = [
            (await error_of(change(word, talks["chairs"])))[1].replace(word, "…") for word in ("31", "32")
        ]
        assert told[0] == told[1]
    for change in (dee.move("30", talks["salary"]), dee.merge("message:30", "message:31")):
        with pytest.raises(NotFound):
            await change
    assert await standing(admin, app) == before


async def test_another_orgs_conversation_is_nothing(app: App, talks: Ids, open_app):
    other = await open_app("other")
    await other.ingest_batch(STORY[:3])
    await other.disentangle()
    [message_id] = map(str, await ids_of(app, ["3"]))
    for attack in attacks(other, talks["apples"], message_id).values():
        assert (await error_of(attack()))[0] is NotFound
    foreign = Viewer(org_id=other.org_id, participant_id=(await app.viewer("ana")).participant_id)
    with pytest.raises(NotAllowed):
        await app.conversations.all(foreign)
    assert await other.conversations.all(foreign) == []


async def test_members_arrange_what_they_see_and_agents_do_not(app: App, talks: Ids):
    bo, pip = await acting(app, "bo"), await acting(app, "pip")
    assert (await bo.conversations.rename(talks["salary"], "The list")).is_named
    assert (await bo.conversations.move("31", talks["chairs"])).message_count == 2
    assert (await bo.conversations.split(["2"])).message_count == 2
    assert (await bo.conversations.merge("message:2", "message:1")).message_count == 3
    for change in (
        pip.conversations.move("31", talks["chairs"]),
        pip.conversations.split(["30"]),
        pip.conversations.merge(talks["chairs"], talks["salary"]),
        pip.conversations.rename(talks["chairs"], "mine"),
        pip.conversations.set_sensitivity(talks["chairs"], "sensitive"),
        pip.conversations.rename(str(uuid4()), "mine"),
    ):
        with pytest.raises(NotAllowed):
            await change
    with pytest.raises(NotAllowed):
        await bo.conversations.all(app.operator)


async def test_every_call_leaves_one_line_with_ids_only(app: App, talks: Ids, admin):
    bo = await acting(app, "bo")
    viewer = await app.viewer("bo")
    before = len(await log_lines(admin, app))
    await bo.conversations.all(viewer, "square")
    await bo.conversations.read(viewer, talks["ferry"])
    await bo.conversations.timeline(viewer, "attic")
    await bo.conversations.move("2", talks["apples"])
    await bo.conversations.rename(talks["apples"], "Secret words")
    with pytest.raises(NotFound):
        await bo.conversations.rename(talks["what"][:-1] + "x", "Secret words")
    lines = (await log_lines(admin, app))[before:]
    assert [line[:2] for line in lines] == [
        ("list conversations", "done"),
        ("read conversation", "done"),
        ("read room", "done"),
        ("move message", "done"),
        ("rename conversation", "done"),
        ("rename conversation", "refused"),
    ]
    assert {line[2] for line in lines} == {viewer.participant_id}
    [moved] = await ids_of(app, ["2"])
    assert {str(one) for one in lines[3][4]} == {talks["apples"], talks["ferry"], str(moved)}
    assert lines[5][4] == []


@pytest.fixture
def elsewhere(app: App, admin, monkeypatch):
    """Let a message be moved by somebody else once the next change has looked and before it begins."""
    keep_out = "roomlore.operations.conversations.erasure_guard.lock_shared"
    really = erasure_guard.lock_shared

    async def once(mark: str, conversation: str):
        async def meanwhile(conn, org_id) -> None:
            monkeypatch.setattr(keep_out, really)
            await admin.execute(
                "update conversation_messages set conversation_id = %s from messages"
                " where messages.org_id = conversation_messages.org_id and messages.id = message_id"
                " and conversation_messages.org_id = %s and external_id = %s",
                [conversation, app.org_id, mark],
            )
            await really(conn, org_id)

        monkeypatch.setattr(keep_out, meanwhile)
        return partial(standing, admin, app)

    return once


@pytest.mark.parametrize("change", ["move", "merge", "rename"])
async def test_what_changes_between_looking_and_changing_is_looked_at_again(
    app: App, talks: Ids, elsewhere, change: str
):
    """Somebody else puts there, just then, what the caller must not see: nothing is changed and nothing shown."""
    dee = (await acting(app, "dee")).conversations
    await app.ingest(message("33", "and a table", author=DEE, room=ATTIC))
    table = str(await converse(app, "table", ["33"]))
    held = await elsewhere("20", talks["chairs"])
    calls = {
        "move": lambda: dee.move("33", talks["chairs"]),
        "merge": lambda: dee.merge(table, talks["chairs"]),
        "rename": lambda: dee.rename(talks["chairs"], "mine"),
    }
    with pytest.raises(BadInput, match="meanwhile"):
        await calls[change]()
    assert await held() == {**await held(), "33": (table, False), "20": (talks["chairs"], False)}
    assert not any(is_manual for _, is_manual in (await held()).values())
    assert "mine" not in await labels(app, "ana")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("change", ["move", "split", "merge"])
async def test_what_a_person_does_while_a_worker_thinks_is_not_undone_by_what_it_then_writes(
    app: App, admin, monkeypatch, change: str
):
    await app.ingest_batch(STORY)
    await app.disentangle()
    first = str((await app.conversations.split(["3"], "Apples")).id)
    other = str((await app.conversations.split(["1"])).id)
    await app.ingest(message("16", "and pears", author=CY, room=SQUARE, reply_to="4"))
    calls = {
        "move": lambda: app.conversations.move("2", first),
        "split": lambda: app.conversations.split(["2"]),
        "merge": lambda: app.conversations.merge(first, other),
    }
    running, made = asyncio.get_running_loop(), []

    def thinking(*args, **more):
        if not made:
            made.append(asyncio.run_coroutine_threadsafe(calls[change](), running).result(30))
        return disentangle_chunk(*args, **more)

    monkeypatch.setattr("roomlore.jobs.disentanglement.disentangle_chunk", thinking)
    await app.disentangle()
    held = await standing(admin, app)
    assert held["1" if change == "merge" else "2"] == (str(made[0].id), True)
    assert {held[key][0] for key in ("3", "4", "16")} == {first}
    assert (await app.waiting("disentangle")).waiting == 0


async def test_who_came_later_learns_nothing_of_the_pace_before(app: App, talks: Ids):
    def seen(found):
        return {str(one.id): (one.split_reason, one.idle_timeout) for one in found}

    late, early = await app.viewer("dee"), await app.viewer("ana")
    told = seen(await app.conversations.all(late, "attic"))
    assert talks["chairs"] in told
    assert set(told.values()) == {(None, None)}
    known = seen(await app.conversations.all(early, "attic"))
    assert all(split_reason and idle_timeout for split_reason, idle_timeout in known.values())
    assert all(split_reason for split_reason, _ in seen(await app.conversations.all(late, "square")).values())
