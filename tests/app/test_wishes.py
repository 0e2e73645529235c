"""What is wished in a room takes effect on what recall shows, at once, and can be reviewed and undone."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.village import error_of
from ingest.stories import at, author, message, room
from retrieval.telling import ANA, BO, CY, tell
from roomlore.app import App
from roomlore.context.render import to_text
from roomlore.domain.errors import BadInput, NotFound
from roomlore.domain.records import Viewer
from roomlore.extraction import languagemodel
from roomlore.store import wishes as kept
from roomlore.wishes import hearing
from workers.test_read import LATER, SAID, Scripted, reader, stating, talk

OFFICE = room("office")
LINDA = author("linda", name="Linda Moss (mother)")
ELLA = author("ella", name="Ella Moss")
DESK = author("desk", name="Rob (front desk)")
DOC = author("doc", name="Dr. Fell")
SECRET = "wolfram"


def say(key: str, who, body: str, **fields):
    return message(key, body, author=who, room=OFFICE, **fields)


async def viewer(app: App, name: str) -> Viewer:
    return await app.viewer(name)


async def found(app: App, who: Viewer, question: str = SECRET) -> set[str]:
    """What search shows of what speaks of the secret, however it came to be shown."""
    hits = (await app.search(who, question, limit=50)).hits
    return {said.external_id for hit in hits for said in hit.messages if SECRET in said.body}


# To be forgotten


FORGOTTEN = [
    say("1", BO, "where do we meet?"),
    say("2", ANA, f"my {SECRET} account is 4412-9981"),
    say("3", BO, f"got it, {SECRET} 4412 9981"),
    say("4", ANA, "please forget that"),
    say("5", CY, f"was it {SECRET} 4412-9981?"),
    say("6", CY, f"{SECRET} is a metal"),
]


@pytest.mark.parametrize("reader", ["operator", "ana", "bo", "cy"])
async def test_what_somebody_wants_forgotten_is_recalled_for_nobody_wherever_it_is_repeated(app: App, reader):
    await tell(app, *FORGOTTEN)
    who = app.operator if reader == "operator" else await viewer(app, reader)
    assert await found(app, who) == {"6"}
    hits = (await app.search(who, "please forget that", limit=50)).hits
    assert {said.external_id for hit in hits for said in hit.messages} <= {"1", "6"}
    answer = await app.ask(who, f"what is the {SECRET} account?")
    assert "4412" not in answer.text
    built = await app.context(who, "office")
    assert {line.message.external_id for line in built.lines} <= {"1", "6"}


async def test_the_timeline_shows_what_was_said_as_it_was_said(app: App):
    await tell(app, *FORGOTTEN)
    shown = await app.conversations.timeline(await viewer(app, "cy"), "office")
    assert [one.message.body for one in shown] == [one.body for one in FORGOTTEN]


async def test_a_wish_counts_before_any_worker_has_been_at_it(app: App):
    await app.ingest_batch(FORGOTTEN[:3])
    assert await found(app, app.operator) == {"2", "3"}
    await app.ingest_batch(FORGOTTEN[3:4])
    assert await found(app, app.operator) == set()


async def test_nobody_has_the_words_of_others_forgotten(app: App):
    await tell(
        app,
        say("1", BO, f"Cy owes me 500 euros, see {SECRET} 7731-0042"),
        say("2", CY, f"forget the {SECRET} number 7731-0042 from memory"),
        say("3", CY, "delete what Bo said about me"),
    )
    assert "1" in await found(app, app.operator)


async def test_repeating_a_value_does_not_make_it_ones_own(app: App):
    await tell(
        app,
        say("1", BO, f"the {SECRET} debt is 7731-0042"),
        say("2", CY, f"{SECRET} 7731-0042, sure"),
        say("3", CY, "please forget that"),
    )
    assert await found(app, app.operator) == {"1"}


async def test_a_leaked_key_may_be_forgotten_by_anybody(app: App):
    await tell(
        app,
        say("1", BO, f"{SECRET} token is tk_live_9Q4M-L7PT-2C8R"),
        say("2", CY, "remove the token tk_live_9Q4M-L7PT-2C8R from memory please"),
    )
    assert await found(app, app.operator) == set()


@pytest.mark.parametrize(
    "value", ["the number 7731-0042", "project Falcon", "the token tk_live_9Q4M-L7PT-2C8R"]
)
@pytest.mark.parametrize("times", [1, 2])
async def test_nobody_has_forgotten_what_others_are_only_going_to_say(app: App, value, times):
    wished = [say(str(n), CY, f"please delete {value} from memory") for n in range(times)]
    await tell(
        app,
        *wished,
        say("5", ANA, f"{SECRET}: {value} is green"),
        say("6", CY, f"{SECRET}: so {value} is green"),
    )
    assert "5" in await found(app, app.operator)


async def test_what_is_asked_and_then_forgotten_keeps_nobodys_answer_back(app: App):
    await tell(
        app,
        say("1", CY, f"{SECRET}: what was decided?"),
        say("2", ANA, f"{SECRET}: we ship on Monday", reply_to="1"),
        say("3", CY, "please forget that", reply_to="1"),
        say("4", BO, f"{SECRET}: Monday it is", reply_to="1"),
    )
    assert await found(app, app.operator) == {"2", "4"}


async def test_what_somebody_said_about_a_topic_is_forgotten_and_nothing_else_of_theirs(app: App):
    await tell(
        app,
        say("1", ANA, f"{SECRET}: my divorce lawyer is slow"),
        say("2", ANA, f"{SECRET}: the ferry leaves at noon"),
        say("3", ANA, "please delete what I said about my divorce"),
    )
    assert await found(app, app.operator) == {"2"}


# Between some


async def test_what_is_off_the_record_is_recalled_for_those_it_was_said_to_only(app: App):
    await tell(
        app,
        say("1", BO, "how is it going?"),
        say("2", ANA, f"off the record: I am leaving {SECRET} in May"),
        say("3", CY, "morning"),
    )
    assert await found(app, await viewer(app, "ana")) == {"2"}
    assert await found(app, await viewer(app, "bo")) == {"2"}
    assert await found(app, await viewer(app, "cy")) == set()
    assert await found(app, app.operator) == set()


async def test_what_is_asked_and_then_kept_between_some_keeps_nobodys_answer_back(app: App):
    await tell(
        app,
        say("1", CY, f"{SECRET}: what was decided, Bo?"),
        say("2", ANA, f"{SECRET}: we ship on Monday", reply_to="1"),
        say("3", CY, "just between us", reply_to="1"),
    )
    assert await found(app, app.operator) == {"2"}


CONFIDED = [
    say("0", BO, "how is it going?"),
    say("1", ANA, f"I am leaving {SECRET} in May"),
    say("2", ANA, "just between us"),
    say("3", CY, f"so you leave {SECRET}?", reply_to="1"),
    say("4", LINDA, "hello"),
]


async def test_whoever_answers_what_is_off_the_record_is_shown_their_own_words_and_outsiders_are_not(
    app: App,
):
    await tell(app, *CONFIDED)
    shown = {name: await found(app, await viewer(app, name)) for name in ("ana", "bo", "cy", "linda")}
    assert shown == {"ana": {"1", "3"}, "bo": {"1", "3"}, "cy": {"3"}, "linda": set()}


# From some


async def test_what_somebody_is_not_to_be_told_is_kept_from_them_only(app: App):
    await tell(
        app,
        say("1", CY, "hello"),
        say("2", ANA, f"I resign from {SECRET}"),
        say("3", ANA, "don't tell Cy"),
    )
    assert await found(app, await viewer(app, "cy")) == set()
    assert await found(app, app.operator) == {"2"}


CLINIC = [
    say("1", LINDA, f"I drive her to {SECRET} today"),
    say("2", ELLA, "She may have ride times only, no results"),
    say("3", DESK, "Noted: Linda may receive ride times only, no results."),
    say("4", DOC, f"{SECRET} result: the biopsy shows a benign tumor"),
    say("5", DESK, f"{SECRET} ride is Friday at 9:30 AM"),
]


async def test_what_somebody_asked_or_was_answered_is_not_kept_from_them_by_a_later_wish(app: App):
    await tell(
        app,
        say("1", BO, f"how tall is the {SECRET} mast?", sent_at=at(1)),
        say("2", ANA, f"the {SECRET} mast is two metres tall", sent_at=at(2), reply_to="1"),
        say("3", ANA, f"I broke the {SECRET} mast", sent_at=at(3)),
        say("4", ANA, f"don't tell Bo about the {SECRET} mast", sent_at=at(4)),
        say("5", CY, "hello", sent_at=at(5)),
    )

    assert await found(app, await viewer(app, "bo")) == {"1", "2"}
    assert await found(app, await viewer(app, "cy")) >= {"1", "2", "3"}


async def test_a_restriction_lets_through_what_it_permits_and_keeps_the_rest_from_whom_it_names(app: App):
    await tell(app, *CLINIC)
    assert await found(app, await viewer(app, "linda")) == {"1", "5"}
    assert await found(app, await viewer(app, "ella")) >= {"1", "4", "5"}
    assert await found(app, app.operator) >= {"1", "4", "5"}


async def test_a_restriction_that_nobody_seconds_covers_its_authors_words_only(app: App):
    await tell(
        app,
        say("1", LINDA, "hello"),
        say("2", CY, "Linda may receive ride times only"),
        say("3", BO, f"the {SECRET} result is in"),
        say("4", CY, f"the {SECRET} result is mine"),
    )
    assert await found(app, await viewer(app, "linda")) == {"3"}


@pytest.mark.parametrize(
    "seconding", ["Vera may receive scheduling only.", "She may receive scheduling only."]
)
async def test_what_is_said_of_somebody_else_seconds_no_restriction(app: App, seconding):
    vera = author("vera", name="Vera (vendor)")
    await tell(
        app,
        say("1", LINDA, "hello"),
        say("2", vera, "hello"),
        say("3", ANA, seconding),
        say("4", CY, "Linda may receive scheduling only."),
        say("5", BO, f"the {SECRET} report is in the drawer"),
    )
    assert await found(app, await viewer(app, "linda")) == {"5"}


async def test_somebody_who_joins_later_is_restricted_by_what_was_said_before(app: App):
    await tell(app, *CLINIC[1:])
    await tell(app, CLINIC[0])
    assert await found(app, await viewer(app, "linda")) == {"1", "5"}


# Reviewed


async def test_a_wish_is_reviewed_and_undone_by_its_author(app: App):
    await tell(app, *FORGOTTEN)
    ana = app.acting(await viewer(app, "ana"))
    (wish,) = await ana.wishes.all(await viewer(app, "ana"))
    assert (wish.kind, wish.status, wish.author_name, wish.room_name) == ("forget", "active", "Ana", "office")
    assert [one.external_id for one in wish.covers] == ["2", "3", "4", "5"]
    undone = await ana.wishes.undo(str(wish.id))
    assert undone.status == "undone"
    assert undone.covers == []
    assert await found(app, app.operator) == {"2", "3", "5", "6"}
    assert (await error_of(ana.wishes.undo(str(wish.id))))[0] is BadInput
    await ana.wishes.keep(str(wish.id)[:-2])
    assert await found(app, app.operator) == {"6"}


async def test_a_wish_that_was_undone_stays_so_when_more_is_said(app: App):
    await tell(app, *FORGOTTEN)
    (wish,) = await app.wishes.all(app.operator)
    await app.wishes.undo(str(wish.id))
    await tell(app, say("0", CY, "before all that"), say("7", CY, f"{SECRET} 4412-9981 again"))
    assert await found(app, app.operator) == {"2", "3", "5", "6", "7"}


async def test_nobody_else_sees_or_undoes_a_wish(app: App):
    await tell(app, *FORGOTTEN)
    (wish,) = await app.wishes.all(app.operator)
    cy = app.acting(await viewer(app, "cy"))
    assert await cy.wishes.all(await viewer(app, "cy")) == []
    assert (await error_of(cy.wishes.undo(str(wish.id))))[0] is NotFound


async def while_held(admin, monkeypatch, where, *, first, then):
    """Do one thing, stop it after a step, and do another till that is done or waits; then let the first go on."""
    module, step = where
    real, inside, go = getattr(module, step), asyncio.Event(), asyncio.Event()
    waiting = """select count(*) from pg_locks left join pg_database on pg_database.oid = pg_locks.database
                 where not granted and coalesce(datname, current_database()) = current_database()"""

    async def stopped(*args, **kwargs):
        monkeypatch.setattr(module, step, real)
        result = await real(*args, **kwargs)
        inside.set()
        await go.wait()
        return result

    monkeypatch.setattr(module, step, stopped)
    async with asyncio.timeout(60):
        one = asyncio.create_task(first)
        await inside.wait()
        other = asyncio.create_task(then)
        while not other.done() and await (await admin.execute(waiting)).fetchone() == (0,):
            pass  # each question gives way to who is to wait
        go.set()
        return await asyncio.gather(one, other)


async def test_what_is_said_while_a_wish_is_undone_is_recalled(app: App, admin, monkeypatch):
    await tell(app, *FORGOTTEN[:4])
    [wish] = await app.wishes.all(app.operator)
    said, undone = app.ingest_batch([FORGOTTEN[4]]), app.wishes.undo(str(wish.id))
    await while_held(admin, monkeypatch, (hearing, "hear"), first=said, then=undone)
    assert await found(app, app.operator) == {"2", "3", "5"}


async def test_what_is_said_while_a_wish_is_kept_is_covered(app: App, admin, monkeypatch):
    await tell(app, *FORGOTTEN[:4])
    [wish] = await app.wishes.all(app.operator)
    await app.wishes.undo(str(wish.id))
    said, again = app.ingest_batch([FORGOTTEN[4]]), app.wishes.keep(str(wish.id))
    await while_held(admin, monkeypatch, (hearing, "hear"), first=said, then=again)
    assert await found(app, app.operator) == set()


async def test_a_wish_that_is_erased_while_another_is_kept_stays_gone(app: App, admin, monkeypatch):
    await tell(
        app,
        *FORGOTTEN[:4],
        say("7", BO, f"my {SECRET} pin is 9910-1123"),
        say("8", BO, "please forget that"),
    )
    theirs, _ = sorted(await app.wishes.all(app.operator), key=lambda wish: wish.author_name)
    await app.wishes.undo(str(theirs.id))
    await app.drain()
    again, erased = app.wishes.keep(str(theirs.id)), app.erasure.message("8", room="office")
    _, receipt = await while_held(admin, monkeypatch, (kept, "said_before"), first=again, then=erased)
    assert receipt.is_clean
    assert [wish.id for wish in await app.wishes.all(app.operator)] == [theirs.id]


async def test_a_wish_that_went_meanwhile_is_not_there(app: App, admin, monkeypatch):
    await tell(app, *FORGOTTEN[:4])
    [wish] = await app.wishes.all(app.operator)
    edited = app.ingest_batch([replace(FORGOTTEN[3], body="never mind", edited_at=at(50))])
    undone = error_of(app.wishes.undo(str(wish.id)))
    _, (error, _) = await while_held(admin, monkeypatch, (hearing, "hear"), first=edited, then=undone)
    assert error is NotFound


# Before an answer


ASIDE = [
    say("0", LINDA, "hello"),
    say("1", BO, "how is it?"),
    say("2", ANA, f"Off the record, Bo: the {SECRET} account is 4412-9981"),
]


async def test_the_last_to_answer_is_the_last_that_is_not_kept_from_the_viewer(app: App):
    await tell(app, *ASIDE)
    for name, last in (("linda", "1"), ("bo", "2"), ("ana", "2")):
        built = await app.context(await viewer(app, name), "office")
        assert built.lines[-1].message.external_id == last
        assert ("4412" in to_text(built)) == (last == "2")
    await tell(app, replace(ASIDE[0], room=room("aside"), body="off the record: hello", author=ANA))
    assert (await error_of(app.context(await viewer(app, "linda"), "aside")))[0] is NotFound


async def test_what_is_to_be_answered_by_name_has_no_words_for_those_it_is_kept_from(app: App):
    await tell(app, *ASIDE)
    for name, text in (("linda", "[no text]"), ("bo", ASIDE[2].body)):
        built = await app.context(await viewer(app, name), "office", "2")
        assert [line.message.external_id for line in built.lines] == ["0", "1", "2"]
        assert built.lines[-1].text == text
        assert built.lines[-1].message.body == ("" if name == "linda" else text)


async def test_a_wish_keeps_back_what_was_read_and_not_yet_shown_to_a_language_model(app: App, monkeypatch):
    monkeypatch.setattr(languagemodel, "LONGEST_MATERIAL", 1)
    await tell(app, *talk(said=[*(f"{n} is a fine number" for n in range(7)), SAID[1]]))

    async def wished_meanwhile() -> str:
        await app.ingest_batch([message("w", "please forget what I said about tea", sent_at=at(300))])
        return stating()

    language_model = Scripted(lambda _: wished_meanwhile())
    outcome = await reader(app, language_model).next(app.org_id, now=LATER)
    assert (outcome, len(language_model.shown)) == ("changed", 1)
    await app.drain()
    worker = reader(app, language_model)
    while await worker.next(app.org_id, now=LATER) != "nothing":
        pass
    assert len(language_model.shown) > 1
    assert not any(SAID[1] in shown for shown in language_model.shown)


# Gone, changed, late


async def test_a_wish_goes_with_its_message(app: App):
    await tell(app, *FORGOTTEN)
    await app.erasure.redact("4", room="office")
    assert await app.wishes.all(app.operator) == []
    assert await found(app, app.operator) == {"2", "3", "5", "6"}


async def test_a_wish_that_is_edited_away_counts_no_more(app: App):
    await tell(app, *FORGOTTEN)
    await tell(app, replace(FORGOTTEN[3], body="never mind", edited_at=at(50)))
    assert await app.wishes.all(app.operator) == []
    assert await found(app, app.operator) == {"2", "3", "5", "6"}


async def test_a_message_that_is_edited_to_repeat_what_is_forgotten_is_covered(app: App):
    await tell(app, *FORGOTTEN)
    await tell(app, replace(FORGOTTEN[5], body=f"{SECRET} 4412-9981", edited_at=at(50)))
    assert await found(app, app.operator) == set()


async def test_erasing_what_a_wish_is_about_leaves_nothing_of_it(app: App, admin):
    await tell(app, *FORGOTTEN)
    receipt = await app.erasure.message("2", room="office")
    assert receipt.is_clean
    rows = await admin.execute("select target_ids from wishes where org_id = %s", [app.org_id])
    [(targets,)] = await rows.fetchall()
    assert len(targets) == 1
    assert await found(app, app.operator) == {"3", "5", "6"}


@pytest.mark.parametrize("person", ["ana", "linda", "ella", "desk"])
async def test_nothing_is_left_of_a_person_in_wishes(app: App, person):
    await tell(app, *FORGOTTEN, *(replace(one, external_id=f"c{one.external_id}") for one in CLINIC))
    receipt = await app.erasure.person(person)
    assert receipt.is_clean


@pytest.mark.parametrize("reader", ["ana", "bo", "cy"])
async def test_nobody_reads_what_is_withheld_nor_wishes_of_others(app: App, reader):
    await tell(app, *FORGOTTEN)
    async with app.db.reading(await viewer(app, reader)) as conn:
        rows = await (await conn.execute("select count(*) from withheld")).fetchone()
        assert rows == (0,)
        rows = await (await conn.execute("select count(*) from wishes")).fetchone()
        assert rows == (int(reader == "ana"),)


async def test_memories_that_rest_on_what_is_forgotten_are_recalled_for_nobody(app: App):
    await tell(app, *FORGOTTEN[:3])
    memory = await app.memories.remember(f"The {SECRET} account is known", sources=["2"], room="office")
    assert await app.memories.all(app.operator) == [memory]
    await tell(app, FORGOTTEN[3])
    assert await app.memories.all(app.operator) == []
    [wish] = await app.wishes.all(app.operator)
    await app.wishes.undo(str(wish.id))
    assert [one.id for one in await app.memories.all(app.operator)] == [memory.id]


async def test_labels_do_not_tell_what_is_to_be_forgotten(app: App):
    await tell(
        app,
        say("1", ANA, "the submarine has a leaking periscope"),
        say("2", ANA, "please forget that"),
    )
    (conversation,) = await app.conversations.all(app.operator)
    assert conversation.label == ""


@pytest.mark.parametrize("said", [FORGOTTEN, CLINIC, CONFIDED])
async def test_the_end_is_the_same_in_whatever_order_messages_arrive(open_app, admin, said):
    async def withheld(app: App) -> set[tuple[str, str]]:
        rows = await admin.execute(
            """select voice.external_id, covered.external_id
               from withheld
               join wishes on wishes.org_id = withheld.org_id and wishes.id = withheld.wish_id
               join messages as voice on voice.org_id = wishes.org_id and voice.id = wishes.message_id
               join messages as covered on covered.org_id = withheld.org_id and covered.id = withheld.message_id
               where withheld.org_id = %s""",
            [app.org_id],
        )
        return {(row[0], row[1]) for row in await rows.fetchall()}

    expected = await open_app("expected")
    await expected.ingest_batch(said)
    whole = await withheld(expected)
    assert whole

    @settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(order=st.permutations(said), cuts=st.sets(st.integers(1, len(said) - 1)), again=st.booleans())
    def any_order(order, cuts, again):
        orders.append((order, sorted(cuts), again))

    orders: list = []
    any_order()
    for order, cuts, again in orders:
        app = await open_app("shuffled")
        for start, end in zip([0, *cuts], [*cuts, len(order)], strict=True):
            await app.ingest_batch(order[start:end])
        if again:
            await app.ingest_batch(order)
        assert await withheld(app) == whole, (order, cuts)
