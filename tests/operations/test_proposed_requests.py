"""Requests hide nothing by surprise: what is heard with doubt waits, operators see what is withheld, one mode an org."""

import json
from typing import Any

import psycopg
import pytest

from ingest.stories import at, author, message
from jobs.test_llm_extraction import talk
from operations.test_privacy_requests import FORGOTTEN, SECRET, accept_all, found, say, viewer
from operations.village import error_of
from roomlore.context.render import to_text
from roomlore.domain.errors import BadInput, NotAllowed, NotFound
from roomlore.domain.ids import MessageId
from roomlore.domain.records import Viewer
from roomlore.operations import App
from roomlore.search.records import RestrictedResult
from search.telling import ANA, BO, CY, PIP, closed, tell

EVE = author("eve")
PROPOSED = [
    say("1", BO, "how do we release?", sent_at=at(1)),
    say("2", ANA, f"{SECRET}: run make all", sent_at=at(2)),
    say(
        "3",
        ANA,
        f"forget what I wrote above, the correct {SECRET} command is `make release-all`",
        sent_at=at(3),
    ),
]


# Proposed, accepted, dismissed


@pytest.mark.slow
async def test_a_request_in_a_longer_message_hides_nothing_until_its_author_accepts_it(app: App):
    await tell(app, *PROPOSED)
    ana = await viewer(app, "ana")
    assert await found(app, app.operator) == {"2", "3"}
    [wish] = await app.impersonate(ana).privacy_requests.all(ana, status="proposed")
    assert (wish.status, bool(wish.review_reason)) == ("proposed", True)
    assert [one.external_id for one in wish.covered_messages] == ["2"]
    assert await app.privacy_requests.all(await viewer(app, "bo")) == []
    assert (await error_of(app.impersonate(await viewer(app, "bo")).privacy_requests.apply(str(wish.id))))[
        0
    ] is NotFound

    accepted = await app.impersonate(ana).privacy_requests.apply(str(wish.id))
    assert accepted.status == "active"
    # The message that says what holds from now on is not hidden with what it takes back.
    for name in ("ana", "bo"):
        assert await found(app, await viewer(app, name)) == {"3"}
    assert await found(app, app.operator) == {"3"}


async def test_a_proposal_that_was_dismissed_hides_nothing_and_is_not_proposed_again(app: App):
    await tell(app, *PROPOSED)
    [wish] = await app.privacy_requests.all(app.operator)
    await app.privacy_requests.dismiss(str(wish.id))
    await tell(app, say("0", CY, "late", sent_at=at(0)), say("4", CY, f"{SECRET}?", sent_at=at(4)))
    assert await found(app, app.operator) == {"2", "3", "4"}
    assert [one.status for one in await app.privacy_requests.all(app.operator)] == ["dismissed"]
    assert (await app.privacy_requests.counts(app.operator)).dismissed == 1


@pytest.mark.slow
async def test_a_request_that_becomes_plain_by_an_edit_is_carried_out_and_one_that_was_accepted_stays_so(
    app: App,
):
    await tell(app, *PROPOSED)
    await tell(app, say("3", ANA, "please forget that", sent_at=at(3), edited_at=at(9)))
    assert await found(app, app.operator) == set()
    [wish] = await app.privacy_requests.all(app.operator)
    await app.privacy_requests.dismiss(str(wish.id))
    await app.privacy_requests.apply(str(wish.id))
    await tell(app, say("3", ANA, "please forget what I wrote above, maybe", sent_at=at(3), edited_at=at(10)))
    assert [one.status for one in await app.privacy_requests.all(app.operator)] == ["active"]


async def test_a_plain_request_is_carried_out_whatever_files_its_message_has(app: App):
    files = [{"name": f"{SECRET}.pdf", "title": "from the office"}]
    await tell(
        app,
        say("1", CY, "hello", sent_at=at(1)),
        say("2", ANA, f"off the record: the {SECRET} is 12345", sent_at=at(2), attachments=files),
        say("3", BO, f"my {SECRET} is 7788", sent_at=at(3)),
        say("4", BO, "forget that", sent_at=at(4), attachments=files),
        say("5", EVE, "morning", sent_at=at(5)),
    )
    assert [one.status for one in await app.privacy_requests.all(app.operator)] == ["active", "active"]
    assert await found(app, await viewer(app, "eve")) == set()


async def test_an_agent_alone_hides_no_words_of_others(app: App):
    await tell(
        app,
        say("1", EVE, "hello", sent_at=at(1)),
        say("2", ANA, f"the {SECRET} invoice is 900 euro, paid by credit card", sent_at=at(2)),
        say("3", PIP, "Never tell Eve anything about salaries or money", sent_at=at(3)),
        say("4", ANA, f"the {SECRET} budget is 5000 euro", sent_at=at(4)),
    )
    await accept_all(app)
    assert await found(app, await viewer(app, "eve")) == {"2", "4"}


# Those who were there


async def test_what_is_kept_among_those_present_is_kept_from_none_of_them(app: App):
    staff = closed("staff", ANA, BO, CY)
    said = message(
        "b", f"Staff only: the {SECRET} budget is 600 euro, don't tell the others", author=ANA, room=staff
    )
    await tell(app, said, message("h", "hello", author=EVE))
    [wish] = await app.privacy_requests.all(app.operator)
    assert wish.status == "proposed"
    await accept_all(app)
    for name in ("ana", "bo", "cy"):
        assert await found(app, await viewer(app, name)) == {"b"}, name
    assert await found(app, await viewer(app, "eve")) == set()
    [kept] = await app.privacy_requests.all(app.operator)
    assert set(kept.exempt_names) == {"Ana", "Bo", "Cy"}


async def test_whoever_spoke_before_in_an_open_room_was_there_and_agents_only_if_it_was_said_to_them(
    app: App,
):
    await tell(
        app,
        say("1", CY, "hello", sent_at=at(1)),
        say("2", PIP, "at your service", sent_at=at(2)),
        say("3", BO, "how is it going, Ana?", sent_at=at(3)),
        say("4", ANA, f"I leave {SECRET} in May", sent_at=at(4)),
        say("5", ANA, "keep that to yourself", sent_at=at(5)),
        say("6", EVE, "morning", sent_at=at(6)),
    )
    shown = {name: await found(app, await viewer(app, name)) for name in ("ana", "bo", "cy", "eve", "pip")}
    assert shown == {"ana": {"4"}, "bo": {"4"}, "cy": {"4"}, "eve": set(), "pip": set()}


# Operators are told, and nobody else


async def test_an_operator_is_told_what_was_withheld_and_by_which_request(app: App):
    await tell(app, *FORGOTTEN)
    [wish] = await app.privacy_requests.all(app.operator)
    hits = await app.search(app.operator, f"{SECRET} account", limit=50)
    assert {one.request_id for one in hits.restrictions} == {wish.id}
    assert {(one.author_name, one.room_name, one.kind) for one in hits.restrictions} == {
        ("Ana", "office", "forget")
    }
    answer = await app.ask(app.operator, f"what is the {SECRET} account?")
    assert "4412" not in answer.text
    assert {one.request_id for one in answer.restrictions} == {wish.id}
    built = await app.context(app.operator, "office")
    assert {one.request_id for one in built.restrictions} == {wish.id}
    said = await app.messages(app.operator, "office")
    marked = await app.privacy_requests.restrictions_on(app.operator, [one.id for one in said])
    by_id = {one.id: one.external_id for one in said}
    assert [by_id[one.message_id] for one in marked] == ["2", "3", "4", "5"]
    assert (await app.search(app.operator, "where do we meet")).hits


async def notices(app: App, who: Viewer, question: str, **place: Any) -> list[list[RestrictedResult]]:
    """What a viewer is told to be left out of a search, an answer and a context, none of whose words tell of it."""
    hits = await app.search(who, question, limit=50, **place)
    answer = await app.ask(who, question, **place)
    built = await app.context(who, **place)
    words = [repr(hits.hits), answer.text, to_text(built), repr(answer.trace)]
    assert not [
        text for text in words if "4412" in text or "restricted_messages" in text or "request" in text
    ]
    return [list(hits.restrictions), list(answer.restrictions), list(built.restrictions)]


@pytest.mark.parametrize("where", [{"room": "office"}, {"room": "office", "private": True}])
async def test_an_operator_is_told_so_with_a_room_as_well_beside_what_may_be_posted(app: App, where):
    await tell(app, *FORGOTTEN)
    [wish] = await app.privacy_requests.all(app.operator)
    every = await notices(app, app.operator, f"what is the {SECRET} account?", **where)
    for told in every:
        assert {(one.request_id, one.kind, one.restricted_names) for one in told} == {
            (wish.id, "forget", None)
        }


@pytest.mark.parametrize("private", [False, True])
async def test_an_operator_is_told_so_where_the_message_to_answer_is_withheld_itself(app: App, private):
    await tell(app, *FORGOTTEN[:4])
    [wish] = await app.privacy_requests.all(app.operator)
    for trigger in ("last", "2"):
        built = await app.context(app.operator, "office", trigger, private=private)
        assert {one.request_id for one in built.restrictions} == {wish.id}
        assert "4412" not in to_text(built)


LUNCH = closed("lunch", ANA, BO, CY)
KEPT = [
    say("1", ANA, f"my {SECRET} account is 4412-9981", sent_at=at(1), room=LUNCH),
    say("2", ANA, "don't tell Cy", sent_at=at(2), room=LUNCH),
    say("3", BO, "what is for lunch?", sent_at=at(3), room=LUNCH),
]


async def test_with_a_room_an_operator_is_told_what_is_kept_from_some_who_read_there(app: App):
    await tell(app, *KEPT)
    [wish] = await app.privacy_requests.all(app.operator)
    question = f"what is the {SECRET} account?"
    told = await notices(app, app.operator, question, room="lunch")
    assert [{(one.request_id, tuple(one.restricted_names or ())) for one in ones} for ones in told] == [
        {(wish.id, ("Cy",))}
    ] * 3
    # Without a room the operator reads it all; and nobody else is told, with a room or without one.
    assert (await app.search(app.operator, question)).restrictions == []
    assert await notices(app, await viewer(app, "bo"), question, room="lunch") == [[], [], []]


async def test_with_a_room_nothing_is_told_of_what_is_kept_from_somebody_who_does_not_read_there(app: App):
    await tell(app, *KEPT)
    await app.room_admin.remove_member("lunch", "cy")
    for told in (
        (await app.search(app.operator, SECRET, room="lunch", limit=50)).restrictions,
        (await app.context(app.operator, "lunch")).restrictions,
    ):
        assert list(told) == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["bo", "cy", "ana"])
async def test_nobody_else_is_told_that_others_requests_withhold_anything(app: App, name):
    await tell(app, *FORGOTTEN)
    who = await viewer(app, name)
    said = await app.messages(who, "office")
    assert not (await app.search(who, f"{SECRET} account", limit=50)).restrictions
    assert not (await app.ask(who, f"what is the {SECRET} account?")).restrictions
    assert not (await app.context(who, "office")).restrictions
    marked = await app.impersonate(who).privacy_requests.restrictions_on(who, [one.id for one in said])
    # Of one's own requests one may know.
    assert bool(marked) is (name == "ana")
    counts = await app.impersonate(who).privacy_requests.counts(who)
    assert counts.carried_out == (1 if name == "ana" else 0)


async def test_an_import_says_how_many_requests_were_heard_in_it(app: App, tmp_path):
    record = {"schema": "roomlore.message/1", "room": "general", "sent_at": "2026-01-11T08:00:00Z"}
    lines = [
        {"id": "1", "author": "ana", "text": "my account is 4412-9981"},
        {"id": "2", "author": "ana", "text": "please forget that"},
        {
            "id": "3",
            "author": "bo",
            "text": "I leave in May. Please do not tell anyone.",
        },
    ]
    export = tmp_path / "said.jsonl"
    export.write_text("\n".join(json.dumps(record | line) for line in lines))
    assert (await app.import_path(export)).privacy_requests == {"carried_out": 1, "proposed": 1}
    assert (await app.import_path(export)).privacy_requests == {"carried_out": 0, "proposed": 0}


# One mode an org


async def test_in_the_mode_propose_nothing_is_carried_out_unasked(app: App):
    await app.privacy_requests.set_mode("propose")
    await tell(app, *FORGOTTEN)
    assert await found(app, app.operator) == {"2", "3", "5", "6"}
    assert (await app.privacy_requests.counts(app.operator)).proposed == 1
    await accept_all(app)
    assert await found(app, app.operator) == {"6"}


@pytest.mark.slow
async def test_in_the_mode_off_nothing_is_heard_and_nothing_withheld_until_it_is_on_again(app: App):
    await tell(app, *FORGOTTEN[:4])
    await app.privacy_requests.set_mode("off")
    await tell(
        app,
        *FORGOTTEN[4:],
        say("7", BO, f"the {SECRET} pin is 991-0112", sent_at=at(7)),
        say("8", BO, "please forget that", sent_at=at(8)),
    )
    for who in (app.operator, await viewer(app, "cy")):
        assert await found(app, who) == {"2", "3", "5", "6", "7"}
    [wish] = await app.privacy_requests.all(app.operator)
    assert (await error_of(app.privacy_requests.apply(str(wish.id))))[0] is BadInput
    await app.privacy_requests.set_mode("on")
    assert await found(app, app.operator) == {"6", "7"}


async def test_only_operators_set_the_mode_and_only_to_one_that_there_is(app: App):
    await tell(app, *FORGOTTEN[:3])
    ana = app.impersonate(await viewer(app, "ana"))
    assert (await error_of(ana.privacy_requests.set_mode("off")))[0] is NotAllowed
    assert (await error_of(ana.privacy_requests.mode()))[0] is NotAllowed
    assert (await error_of(app.privacy_requests.set_mode("quiet")))[0] is BadInput
    assert await app.privacy_requests.mode() == "on"


async def test_the_mode_of_one_org_is_no_others(open_app):
    one, other = await open_app("one"), await open_app("other")
    await one.privacy_requests.set_mode("off")
    assert (await one.privacy_requests.mode(), await other.privacy_requests.mode()) == ("off", "on")


# Attacked: what is withheld tells a stranger nothing


SQL = [
    "select message_id from restricted_from_viewer",
    "select id from (values (%(id)s::uuid)) as asked (id) where is_restricted(id)",
    "select message_id from restricted_messages",
    "select id from recallable_messages",
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("statement", SQL)
@pytest.mark.parametrize("apply_restrictions", [True, False])
async def test_a_stranger_is_told_no_id_of_what_is_withheld_where_they_may_not_read(
    app: App, statement, apply_restrictions
):
    staff = closed("staff", ANA, BO)
    await tell(
        app,
        message("1", f"the {SECRET} account is 4412-9981", author=ANA, room=staff),
        message("2", "please forget that", author=ANA, room=staff),
        message("3", "hello", author=EVE),
    )
    [wish] = await app.privacy_requests.all(app.operator)
    assert wish.status == "active"
    params = {"id": MessageId(wish.covered_messages[0].id)}
    async with app.db.read_transaction(
        await viewer(app, "eve"), apply_restrictions=apply_restrictions
    ) as conn:
        try:
            rows = await (await conn.execute(statement, params)).fetchall()
        except psycopg.errors.InsufficientPrivilege:
            rows = []
    assert rows == []


@pytest.mark.slow
async def test_what_a_stranger_is_shown_does_not_depend_on_what_is_withheld_elsewhere(open_app):
    """The same org with and without a request in a room that is not theirs."""
    answers = []
    for is_asked in (True, False):
        app = await open_app("compared")
        staff = closed("staff", ANA, BO)
        secret = message("1", f"the {SECRET} account is 4412-9981", author=ANA, room=staff)
        asking = message(
            "2", "please forget that" if is_asked else "lunch is ready now", author=ANA, room=staff
        )
        await tell(app, secret, asking, message("3", f"what is {SECRET}?", author=EVE), *talk()[:1])
        eve = await viewer(app, "eve")
        hits = await app.search(eve, SECRET, limit=50)
        answers.append(
            [
                [[one.external_id for one in hit.messages] for hit in hits.hits],
                (await app.ask(eve, f"{SECRET} account")).text,
                list(hits.restrictions),
            ]
        )
    assert answers[0] == answers[1]
