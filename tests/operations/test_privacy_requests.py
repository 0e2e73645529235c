"""What is wished in a room takes effect on what recall shows, at once, and can be reviewed and undone."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.stories import at, author, message, room
from jobs.test_llm_extraction import LATER, SAID, Scripted, reader, stating, talk
from operations.village import error_of
from roomlore.context.render import to_text
from roomlore.db import privacy_requests as kept
from roomlore.domain.errors import BadInput, NotFound
from roomlore.domain.records import Viewer
from roomlore.memories import llm_extractor
from roomlore.operations import App
from roomlore.privacy import enforcement
from search.telling import ANA, BO, CY, tell

OFFICE = room("office")
LINDA = author("linda", name="Linda Moss (mother)")
ELLA = author("ella", name="Ella Moss")
DESK = author("desk", name="Rob (front desk)")
DOC = author("doc", name="Dr. Fell")
SECRET = "wolfram"


def say(key: str, who, body: str, **fields):
    return message(key, body, **{"author": who, "room": OFFICE, **fields})


async def viewer(app: App, name: str) -> Viewer:
    return await app.viewer(name)


async def accept_all(app: App) -> None:
    """What was heard with doubt is carried out, once an operator says so."""
    for wish in await app.privacy_requests.all(app.operator):
        if wish.status == "proposed":
            await app.privacy_requests.apply(str(wish.id))


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


@pytest.mark.sampled(1)
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


@pytest.mark.sampled(1)
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


CONFIDED = [
    say("0", BO, "how is it going?"),
    say("1", ANA, f"I am leaving {SECRET} in May"),
    say("2", ANA, "just between us"),
    say("3", CY, f"so you leave {SECRET}?", reply_to="1"),
    say("4", LINDA, "hello"),
]


# From some


CLINIC = [
    say("1", LINDA, f"I drive her to {SECRET} today"),
    say("2", ELLA, "She may have ride times only, no results"),
    say("3", DESK, "Noted: Linda may receive ride times only, no results."),
    say("4", DOC, f"{SECRET} result: the biopsy shows a benign tumor"),
    say("5", DESK, f"{SECRET} ride is Friday at 9:30 AM"),
]


VERA = author("vera", name="Vera (vendor)")
#: The messages, and what search then shows of those about the secret, by reader.
CASES = {
    "a repeated value stays the other's": (
        [
            say("1", BO, f"the {SECRET} debt is 7731-0042"),
            say("2", CY, f"{SECRET} 7731-0042, sure"),
            say("3", CY, "please forget that"),
        ],
        {"operator": {"1"}},
    ),
    "anybody may forget a leaked key": (
        [
            say("1", BO, f"{SECRET} token is tk_live_9Q4M-L7PT-2C8R"),
            say("2", CY, "remove the token tk_live_9Q4M-L7PT-2C8R from memory please"),
        ],
        {"operator": set()},
    ),
    "a forgotten question hides no answer": (
        [
            say("1", CY, f"{SECRET}: what was decided?"),
            say("2", ANA, f"{SECRET}: we ship on Monday", reply_to="1"),
            say("3", CY, "please forget that", reply_to="1"),
            say("4", BO, f"{SECRET}: Monday it is", reply_to="1"),
        ],
        {"operator": {"2", "4"}},
    ),
    "a topic": (
        [
            say("1", ANA, f"{SECRET}: my divorce lawyer is slow"),
            say("2", ANA, f"{SECRET}: the ferry leaves at noon"),
            say("3", ANA, "please delete what I said about my divorce"),
        ],
        {"operator": {"2"}},
    ),
    "a confidential question hides no answer": (
        [
            say("1", CY, f"{SECRET}: what was decided, Bo?"),
            say("2", ANA, f"{SECRET}: we ship on Monday", reply_to="1"),
            say("3", CY, "just between us", reply_to="1"),
        ],
        {"operator": {"2"}},
    ),
    "an answer to confidential words": (
        CONFIDED,
        {"ana": {"1", "3"}, "bo": {"1", "3"}, "cy": {"3"}, "linda": set()},
    ),
    "kept from one person": (
        [
            say("1", CY, "hello"),
            say("2", ANA, f"I resign from {SECRET}"),
            say("3", ANA, "don't tell Cy"),
        ],
        {"cy": set(), "operator": {"2"}},
    ),
    "a restriction with a permitted topic": (
        CLINIC,
        {"linda": {"1", "5"}, "ella": {"1", "4", "5"}, "operator": {"1", "4", "5"}},
    ),
    "a restriction that nobody confirms": (
        [
            say("1", LINDA, "hello"),
            say("2", CY, "Linda may receive ride times only"),
            say("3", BO, f"the {SECRET} result is in"),
            say("4", CY, f"the {SECRET} result is mine"),
        ],
        {"linda": {"3"}},
    ),
    **{
        f"a restriction of another person confirms none: {words}": (
            [
                say("1", LINDA, "hello"),
                say("2", VERA, "hello"),
                say("3", ANA, words),
                say("4", CY, "Linda may receive scheduling only."),
                say("5", BO, f"the {SECRET} report is in the drawer"),
            ],
            {"linda": {"5"}},
        )
        for words in ("Vera may receive scheduling only.", "She may receive scheduling only.")
    },
    "an edited request": (
        [*FORGOTTEN, replace(FORGOTTEN[3], body="never mind", edited_at=at(50))],
        {"operator": {"2", "3", "5", "6"}},
    ),
    "an edited repetition": (
        [*FORGOTTEN, replace(FORGOTTEN[5], body=f"{SECRET} 4412-9981", edited_at=at(50))],
        {"operator": set()},
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CASES)
async def test_a_request_hides_its_messages_and_no_others(app: App, name: str):
    messages, expected = CASES[name]
    for said in messages:
        await tell(app, said)
    await accept_all(app)
    shown = {
        reader: await found(app, app.operator if reader == "operator" else await viewer(app, reader))
        for reader in expected
    }
    assert shown == expected


async def test_a_later_request_does_not_hide_what_somebody_asked_or_was_answered(app: App):
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


async def test_somebody_who_joins_later_is_restricted_by_what_was_said_before(app: App):
    await tell(app, *CLINIC[1:])
    await tell(app, CLINIC[0])
    await accept_all(app)
    assert await found(app, await viewer(app, "linda")) == {"1", "5"}


# Told once


KEPT_FROM_LINDA = [
    say("1", LINDA, "hello", sent_at=at(1)),
    say("2", ANA, f"my {SECRET} diagnosis is diabetes", sent_at=at(2)),
    say("3", ANA, "please don't tell Linda about my diagnosis", sent_at=at(3)),
]
SUNNY, NAMESAKE = replace(LINDA, name="Sunny"), author("mallory", name="Linda Fake")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "later",
    [
        [say("4", SUNNY, "hi again", sent_at=at(4))],
        [say("4", NAMESAKE, "hi", sent_at=at(4))],
        [say("4", SUNNY, "hi again", sent_at=at(4)), say("5", NAMESAKE, "hi", sent_at=at(5))],
        [say("4", SUNNY, "hi again", sent_at=at(4)), say("5", BO, "late", sent_at=at(0))],
        [say("4", NAMESAKE, "hi", sent_at=at(4)), say("5", BO, "late", sent_at=at(0)), KEPT_FROM_LINDA[2]],
    ],
)
async def test_nobody_slips_away_from_a_wish_or_into_it_under_another_name(app: App, later):
    await tell(app, *KEPT_FROM_LINDA)
    linda = await viewer(app, "linda")
    for said in later:
        await tell(app, said)
    assert await found(app, linda) == set()
    [wish] = await app.privacy_requests.all(app.operator)
    assert {"2", "3"} <= {one.external_id for one in wish.covered_messages}
    if any(said.author is NAMESAKE for said in later):
        assert await found(app, await viewer(app, "mallory")) == {"2"}


async def test_a_name_that_two_bear_means_both_and_a_full_name_whom_it_names(app: App):
    namesake = author("lin", name="Linda Park")
    await tell(app, KEPT_FROM_LINDA[0], say("0", namesake, "hello", sent_at=at(0)), *KEPT_FROM_LINDA[1:])
    for name in ("linda", "lin"):
        assert await found(app, await viewer(app, name)) == set()
    full = "please don't tell Linda Park about my diagnosis"
    await tell(app, replace(KEPT_FROM_LINDA[2], body=full, edited_at=at(9)))
    assert await found(app, await viewer(app, "linda")) == {"2"}
    assert await found(app, await viewer(app, "lin")) == set()


@pytest.mark.slow
async def test_whoever_is_erased_and_comes_back_under_their_name_is_kept_from_it_again(app: App):
    await tell(app, *KEPT_FROM_LINDA)
    await app.erasure.person("linda")
    assert await app.privacy_requests.all(app.operator) == []
    again = author("linda-again", name="Linda Moss")
    await tell(app, say("4", again, "hi", sent_at=at(4)))
    assert await found(app, await viewer(app, "linda-again")) == set()
    await tell(app, say("5", NAMESAKE, "hi", sent_at=at(5)), say("6", BO, "late", sent_at=at(0)))
    assert await found(app, await viewer(app, "mallory")) == {"2"}


MALLORY, FAKE = author("mallory", name="Mallory"), author("mallory", name="Bo Fake")


def confided_to_bo(last) -> list:
    """Something is confided to Bo, days after he and others spoke; somebody else spoke last."""
    return [
        say("1", BO, "hello", sent_at=at(-5_003)),
        say("2", CY, "hi", sent_at=at(-5_002)),
        say("3", last, "morning everybody", sent_at=at(-5_001)),
        say("4", ANA, f"Bo, the {SECRET} diagnosis is diabetes", sent_at=at(4)),
        say("5", ANA, "Bo, that stays just between us", sent_at=at(5)),
    ]


async def told_to(app: App) -> list[str]:
    wishes = await app.privacy_requests.all(app.operator)
    return [name for wish in wishes if wish.kind == "confidential" for name in wish.exempt_names]


async def test_a_confidant_who_is_renamed_stays_one_and_whoever_spoke_last_is_none(app: App):
    await tell(app, *confided_to_bo(MALLORY))
    await tell(app, say("6", replace(BO, name="Robert"), "sure", sent_at=at(6)))
    await tell(app, say("7", CY, "late", sent_at=at(0)))
    assert await told_to(app) == ["Ana", "Robert"]
    assert await found(app, await viewer(app, "mallory")) == set()
    assert await found(app, await viewer(app, "bo")) == {"4"}


@pytest.mark.slow
async def test_nobody_becomes_a_confidant_by_a_name_and_by_what_settles_wishes_anew(app: App):
    await tell(app, *confided_to_bo(MALLORY))
    await tell(
        app,
        say("6", FAKE, "my dog is Rex", sent_at=at(6)),
        say("7", FAKE, "please forget that", sent_at=at(7)),
    )
    mallory = await viewer(app, "mallory")
    (wish,) = await app.impersonate(mallory).privacy_requests.all(mallory)
    await app.impersonate(mallory).privacy_requests.dismiss(str(wish.id))
    assert await told_to(app) == ["Ana", "Bo"]
    assert await found(app, mallory) == set()


async def test_what_is_confided_under_a_name_that_two_bear_is_told_to_neither(app: App):
    await tell(app, *confided_to_bo(FAKE))
    assert await told_to(app) == ["Ana"]


@pytest.mark.parametrize("both", ["Linda/Carl", "Linda and Carl"])
async def test_whoever_calls_themselves_like_two_people_frees_neither(app: App, both):
    carl = author("carl", name="Carl Ode")
    await tell(
        app,
        say("0", LINDA, "hi"),
        say("00", carl, "hi"),
        say("1", author("mallory", name="Linda Carl"), "hi"),
        say("2", ANA, f"my {SECRET} diagnosis is diabetes"),
        say("3", ANA, f"{both} may receive scheduling only"),
    )
    await accept_all(app)
    for name in ("linda", "carl", "mallory"):
        assert await found(app, await viewer(app, name)) == set()


@pytest.mark.slow
@pytest.mark.parametrize(
    "wish",
    ["Linda and Carl may receive scheduling only", "please don't tell Linda or Carl about my diagnosis"],
)
async def test_of_several_who_are_named_each_is_bound_when_they_come_and_nobody_after_them(app: App, wish):
    carl = author("carl", name="Carl Ode")
    await tell(app, *KEPT_FROM_LINDA[:2], say("3", ANA, wish, sent_at=at(3)))
    await accept_all(app)
    assert await found(app, await viewer(app, "linda")) == set()
    await tell(app, say("4", carl, "hi", sent_at=at(4)))
    await tell(app, say("5", author("mallory", name="Carl Fake"), "hi", sent_at=at(5)))
    await tell(
        app, say("6", replace(carl, name="Sunny"), "hi", sent_at=at(6)), say("7", BO, "late", sent_at=at(0))
    )
    for name, shown in (("linda", set()), ("carl", set()), ("mallory", {"2"})):
        assert await found(app, await viewer(app, name)) == shown


async def test_whoever_restricts_somebody_of_their_own_name_restricts_not_themselves(app: App):
    kay = author("kay", name="Linda Kay")
    await tell(
        app,
        KEPT_FROM_LINDA[0],
        say("2", kay, f"my {SECRET} diagnosis is diabetes", sent_at=at(2)),
        say("3", kay, "Linda may receive scheduling only", sent_at=at(3)),
    )
    await accept_all(app)
    assert await found(app, await viewer(app, "linda")) == set()
    assert await found(app, await viewer(app, "kay")) == {"2"}


@pytest.mark.parametrize(
    "wish",
    [
        "In California I used it. Please delete the alias Nia from your memory",
        "My nia was bad. Please delete the alias Nia from your memory",
    ],
)
async def test_a_value_is_what_was_named_and_no_part_of_another_word(app: App, wish):
    await tell(
        app,
        say("1", ANA, f"confidential: the {SECRET} alias is Nia, ask for Nia", sent_at=at(1)),
        say("2", BO, f"{SECRET} alias Nia, got it", sent_at=at(2)),
        say("3", ANA, wish, sent_at=at(3)),
    )
    await accept_all(app)
    assert await found(app, app.operator) == set()
    [one] = [each for each in await app.privacy_requests.all(app.operator) if each.kind == "forget"]
    assert [said.external_id for said in one.covered_messages] == ["1", "2", "3"]


@pytest.mark.slow
async def test_what_is_confided_is_told_to_nobody_who_takes_the_name_of_a_confidant(app: App):
    bo = author("robert", name="Bo")
    await tell(
        app,
        say("1", bo, "hello", sent_at=at(1)),
        say("2", ANA, "hello", sent_at=at(2)),
        say("3", CY, "hello", sent_at=at(3)),
        say("4", ANA, f"Off the record, Bo: I leave {SECRET} in May", sent_at=at(4)),
    )
    assert await found(app, await viewer(app, "robert")) == {"4"}
    await tell(app, say("5", replace(bo, name="Robert"), "hi", sent_at=at(5)))
    await tell(app, say("6", author("mallory", name="Bo"), "hi", sent_at=at(6)))
    await tell(app, say("7", LINDA, "late", sent_at=at(0)))
    assert await found(app, await viewer(app, "mallory")) == set()


@pytest.mark.slow
async def test_a_value_stays_forgotten_when_somebody_calls_themselves_so(app: App):
    await tell(
        app,
        say("1", ANA, f"confidential: the {SECRET} alias is Nia, ask for Nia", sent_at=at(1)),
        say("2", BO, f"{SECRET} alias Nia, got it", sent_at=at(2)),
        say("3", ANA, "Please delete the alias Nia from your memory", sent_at=at(3)),
    )
    assert await found(app, app.operator) == set()
    await tell(app, say("4", author("mallory", name="Nia"), "hi", sent_at=at(4)))
    await tell(app, say("5", CY, "late", sent_at=at(0)))
    assert await found(app, app.operator) == set()


# Reviewed


async def test_a_wish_is_reviewed_and_undone_by_its_author(app: App):
    await tell(app, *FORGOTTEN)
    ana = app.impersonate(await viewer(app, "ana"))
    (wish,) = await ana.privacy_requests.all(await viewer(app, "ana"))
    assert (wish.kind, wish.status, wish.author_name, wish.room_name) == ("forget", "active", "Ana", "office")
    assert [one.external_id for one in wish.covered_messages] == ["2", "3", "4", "5"]
    undone = await ana.privacy_requests.dismiss(str(wish.id))
    assert undone.status == "dismissed"
    assert undone.covered_messages == []
    assert await found(app, app.operator) == {"2", "3", "5", "6"}
    assert (await error_of(ana.privacy_requests.dismiss(str(wish.id))))[0] is BadInput
    await ana.privacy_requests.apply(str(wish.id)[:-2])
    assert await found(app, app.operator) == {"6"}


async def test_a_wish_that_was_undone_stays_so_when_more_is_said(app: App):
    await tell(app, *FORGOTTEN)
    (wish,) = await app.privacy_requests.all(app.operator)
    await app.privacy_requests.dismiss(str(wish.id))
    await tell(app, say("0", CY, "before all that"), say("7", CY, f"{SECRET} 4412-9981 again"))
    assert await found(app, app.operator) == {"2", "3", "5", "6", "7"}


async def test_a_wish_that_was_undone_stays_so_when_it_is_edited_away_and_back(app: App):
    await tell(app, *FORGOTTEN)
    (wish,) = await app.privacy_requests.all(app.operator)
    await app.privacy_requests.dismiss(str(wish.id))
    await tell(app, replace(FORGOTTEN[3], body="never mind", edited_at=at(50)))
    await tell(app, replace(FORGOTTEN[3], edited_at=at(51)))
    assert [one.status for one in await app.privacy_requests.all(app.operator)] == ["dismissed"]
    assert await found(app, app.operator) == {"2", "3", "5", "6"}
    await app.privacy_requests.apply(str(wish.id))
    assert await found(app, app.operator) == {"6"}


@pytest.mark.slow
async def test_an_undone_wish_that_is_edited_away_is_not_listed_and_counts_not_again(app: App):
    await tell(app, *FORGOTTEN)
    (wish,) = await app.privacy_requests.all(app.operator)
    await app.privacy_requests.dismiss(str(wish.id))
    await tell(app, replace(FORGOTTEN[3], body="lunch?", edited_at=at(50)))
    assert await app.privacy_requests.all(app.operator) == []
    with pytest.raises(BadInput, match="no longer states a request"):
        await app.privacy_requests.apply(str(wish.id))
    await tell(app, replace(FORGOTTEN[3], edited_at=at(51)))
    assert (await app.privacy_requests.apply(str(wish.id))).status == "active"


async def test_nobody_else_sees_or_undoes_a_wish(app: App):
    await tell(app, *FORGOTTEN)
    (wish,) = await app.privacy_requests.all(app.operator)
    cy = app.impersonate(await viewer(app, "cy"))
    assert await cy.privacy_requests.all(await viewer(app, "cy")) == []
    assert (await error_of(cy.privacy_requests.dismiss(str(wish.id))))[0] is NotFound


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
    [wish] = await app.privacy_requests.all(app.operator)
    said, undone = app.ingest_batch([FORGOTTEN[4]]), app.privacy_requests.dismiss(str(wish.id))
    await while_held(admin, monkeypatch, (enforcement, "apply"), first=said, then=undone)
    assert await found(app, app.operator) == {"2", "3", "5"}


async def test_what_is_said_while_a_wish_is_kept_is_covered(app: App, admin, monkeypatch):
    await tell(app, *FORGOTTEN[:4])
    [wish] = await app.privacy_requests.all(app.operator)
    await app.privacy_requests.dismiss(str(wish.id))
    said, again = app.ingest_batch([FORGOTTEN[4]]), app.privacy_requests.apply(str(wish.id))
    await while_held(admin, monkeypatch, (enforcement, "apply"), first=said, then=again)
    assert await found(app, app.operator) == set()


async def test_a_wish_that_is_erased_while_another_is_kept_stays_gone(app: App, admin, monkeypatch):
    await tell(
        app,
        *FORGOTTEN[:4],
        say("7", BO, f"my {SECRET} pin is 9910-1123"),
        say("8", BO, "please forget that"),
    )
    theirs, _ = sorted(await app.privacy_requests.all(app.operator), key=lambda wish: wish.author_name)
    await app.privacy_requests.dismiss(str(theirs.id))
    await app.drain()
    again, erased = app.privacy_requests.apply(str(theirs.id)), app.erasure.message("8", room="office")
    _, receipt = await while_held(admin, monkeypatch, (kept, "messages_before"), first=again, then=erased)
    assert receipt.is_clean
    assert [wish.id for wish in await app.privacy_requests.all(app.operator) if wish.message_id] == [
        theirs.id
    ]


async def test_a_wish_that_went_meanwhile_is_not_there(app: App, admin, monkeypatch):
    await tell(app, *FORGOTTEN[:4])
    [wish] = await app.privacy_requests.all(app.operator)
    edited = app.ingest_batch([replace(FORGOTTEN[3], body="never mind", edited_at=at(50))])
    undone = error_of(app.privacy_requests.dismiss(str(wish.id)))
    _, (error, _) = await while_held(admin, monkeypatch, (enforcement, "apply"), first=edited, then=undone)
    assert error is NotFound


# Before an answer


#: Linda was in the room long before, and not when it was said.
ASIDE = [
    say("0", LINDA, "hello", sent_at=at(0)),
    say("1", BO, "how is it?", sent_at=at(3_000)),
    say("2", ANA, f"Off the record, Bo: the {SECRET} account is 4412-9981", sent_at=at(3_001)),
]


async def test_the_last_to_answer_is_the_last_that_is_not_kept_from_the_viewer(app: App):
    await tell(app, *ASIDE)
    for name, last in (("linda", "1"), ("bo", "2"), ("ana", "2")):
        built = await app.context(await viewer(app, name), "office", private=True)
        assert built.lines[-1].message.external_id == last
        assert ("4412" in to_text(built)) == (last == "2")
        # Linda reads what is posted there, whoever writes it.
        posted = await app.context(await viewer(app, name), "office")
        assert posted.lines[-1].message.external_id == "1"
        assert "4412" not in to_text(posted)
    await tell(app, replace(ASIDE[0], room=room("aside"), body="off the record: hello", author=ANA))
    assert (await error_of(app.context(await viewer(app, "linda"), "aside")))[0] is NotFound


async def test_what_is_to_be_answered_by_name_has_no_words_for_those_it_is_kept_from(app: App):
    await tell(app, *ASIDE)
    for name, text in (("linda", "[no text]"), ("bo", ASIDE[2].body)):
        posted = await app.context(await viewer(app, name), "office", "2")
        assert posted.lines[-1].text == "[no text]"
        built = await app.context(await viewer(app, name), "office", "2", private=True)
        assert [line.message.external_id for line in built.lines] == ["0", "1", "2"]
        assert built.lines[-1].text == text
        assert built.lines[-1].message.body == ("" if name == "linda" else text)


async def test_a_wish_keeps_back_what_was_read_and_not_yet_shown_to_a_language_model(app: App, monkeypatch):
    monkeypatch.setattr(llm_extractor, "LONGEST_MATERIAL", 1)
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


@pytest.mark.parametrize("said", [CONFIDED, CLINIC])
async def test_what_is_confided_or_kept_from_some_is_so_as_long_as_the_message_that_asks_for_it_is_there(
    app: App, said
):
    await tell(app, *said)
    await accept_all(app)
    [wish, *_] = await app.privacy_requests.all(app.operator)
    await app.erasure.redact(str(wish.message_id), room="office")
    assert wish.id not in {one.id for one in await app.privacy_requests.all(app.operator)}


NEWER = [
    replace(one, sent_at=datetime.now(UTC) - timedelta(days=days))
    for one, days in zip(FORGOTTEN, (41, 40, 5, 39, 4, 3), strict=True)
]


async def redacting(app: App) -> None:
    await app.erasure.redact("4", room="office")


async def erasing(app: App) -> None:
    assert (await app.erasure.message("4", room="office")).is_clean


async def erasing_its_author(app: App) -> None:
    receipt = await app.erasure.person("ana")
    assert receipt.is_clean
    assert ("privacy requests to forget, without author and text", 1) in {
        (one.what, one.count) for one in receipt.kept
    }


async def expiring(app: App) -> None:
    await app.erasure.set_retention("office", timedelta(days=30))
    await app.erasure.erase_expired()


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("no_grace")
@pytest.mark.parametrize(
    ("ends", "own"), [(redacting, {"2"}), (erasing, {"2"}), (erasing_its_author, set()), (expiring, set())]
)
async def test_what_others_repeated_stays_forgotten_when_the_wish_is_gone_till_an_operator_undoes_it(
    app: App, admin, ends, own
):
    await tell(app, *NEWER)
    await ends(app)
    await app.drain()
    assert await found(app, app.operator) == {"6"}
    for name in ("bo", "cy"):
        assert await found(app, await viewer(app, name)) == {"6"}
        assert await app.privacy_requests.all(await viewer(app, name)) == []
    [wish] = await app.privacy_requests.all(app.operator)
    assert (wish.message_id, wish.author_id, wish.author_name, wish.body) == (None, None, "", "")
    assert {one.external_id for one in wish.covered_messages} == {"3", "5"} | own
    rows = await admin.execute(
        "select row_to_json(privacy_requests)::text from privacy_requests where org_id = %s", [app.org_id]
    )
    [(row,)] = await rows.fetchall()
    assert '"identifiers":[]' in row
    assert '"spans":null' in row

    await tell(app, replace(NEWER[5], external_id="7", body="what comes later changes nothing"))
    assert await found(app, app.operator) == {"6"}
    undone = await app.privacy_requests.dismiss(str(wish.id))
    assert (undone.status, undone.covered_messages) == ("dismissed", [])
    assert await found(app, app.operator) == {"3", "5", "6"} | own
    assert (await error_of(app.privacy_requests.apply(str(wish.id))))[0] is BadInput


@pytest.mark.slow
async def test_a_wish_that_is_gone_goes_with_the_last_of_what_it_covers(app: App):
    await tell(app, *FORGOTTEN)
    await app.erasure.person("ana")
    await tell(app, replace(FORGOTTEN[2], body=f"{SECRET} 4412-9981, edited", edited_at=at(50)))
    assert await found(app, app.operator) == {"6"}
    for name in ("bo", "cy"):
        assert len(await app.privacy_requests.all(app.operator)) == 1
        assert (await app.erasure.person(name)).is_clean
    assert await app.privacy_requests.all(app.operator) == []


async def test_a_wish_that_was_undone_leaves_nothing_when_it_goes(app: App):
    await tell(app, *FORGOTTEN)
    [wish] = await app.privacy_requests.all(app.operator)
    await app.privacy_requests.dismiss(str(wish.id))
    await app.erasure.person("ana")
    assert await app.privacy_requests.all(app.operator) == []
    assert await found(app, app.operator) == {"3", "5", "6"}


async def test_erasing_what_a_wish_is_about_leaves_nothing_of_it(app: App, admin):
    await tell(app, *FORGOTTEN)
    receipt = await app.erasure.message("2", room="office")
    assert receipt.is_clean
    rows = await admin.execute("select target_ids from privacy_requests where org_id = %s", [app.org_id])
    [(targets,)] = await rows.fetchall()
    assert len(targets) == 1
    assert await found(app, app.operator) == {"3", "5", "6"}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("person", ["ana", "linda", "ella", "desk"])
async def test_nothing_is_left_of_a_person_in_wishes(app: App, person):
    await tell(app, *FORGOTTEN, *(replace(one, external_id=f"c{one.external_id}") for one in CLINIC))
    receipt = await app.erasure.person(person)
    assert receipt.is_clean


@pytest.mark.parametrize("reader", ["ana", "bo", "cy"])
async def test_nobody_reads_what_is_withheld_nor_wishes_of_others(app: App, reader):
    await tell(app, *FORGOTTEN)
    async with app.db.read_transaction(await viewer(app, reader)) as conn:
        rows = await (await conn.execute("select count(*) from restricted_messages")).fetchone()
        assert rows == (0,)
        rows = await (await conn.execute("select count(*) from privacy_requests")).fetchone()
        assert rows == (int(reader == "ana"),)


async def test_memories_that_rest_on_what_is_forgotten_are_recalled_for_nobody(app: App):
    await tell(app, *FORGOTTEN[:3])
    memory = await app.memories.remember(f"The {SECRET} account is known", sources=["2"], room="office")
    assert await app.memories.all(app.operator) == [memory]
    await tell(app, FORGOTTEN[3])
    assert await app.memories.all(app.operator) == []
    [wish] = await app.privacy_requests.all(app.operator)
    await app.privacy_requests.dismiss(str(wish.id))
    assert [one.id for one in await app.memories.all(app.operator)] == [memory.id]


async def test_labels_do_not_tell_what_is_to_be_forgotten(app: App):
    await tell(
        app,
        say("1", ANA, "the submarine has a leaking periscope"),
        say("2", ANA, "please forget that"),
    )
    (conversation,) = await app.conversations.all(app.operator)
    assert conversation.label == ""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("said", [FORGOTTEN, CLINIC, CONFIDED])
async def test_the_end_is_the_same_in_whatever_order_messages_arrive(open_app, admin, said):
    async def withheld(app: App) -> set[tuple[str, str]]:
        rows = await admin.execute(
            """select voice.external_id, covered.external_id
               from restricted_messages
               join privacy_requests on privacy_requests.org_id = restricted_messages.org_id and privacy_requests.id = restricted_messages.request_id
               join messages as voice on voice.org_id = privacy_requests.org_id and voice.id = privacy_requests.message_id
               join messages as covered on covered.org_id = restricted_messages.org_id and covered.id = restricted_messages.message_id
               where restricted_messages.org_id = %s""",
            [app.org_id],
        )
        return {(row[0], row[1]) for row in await rows.fetchall()}

    expected = await open_app("expected")
    await expected.ingest_batch(said)
    await accept_all(expected)
    whole = await withheld(expected)
    assert whole

    @settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
        await accept_all(app)
        assert await withheld(app) == whole, (order, cuts)


async def test_many_may_list_wishes_at_once(app):
    await app.ingest_batch([message("1", "I am moving to Kiel"), message("2", "please forget that")])

    listings = (app.privacy_requests.all(app.operator) for _ in range(20))
    found = await asyncio.wait_for(asyncio.gather(*listings), timeout=20)

    assert {len(one) for one in found} == {1}
