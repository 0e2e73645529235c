"""Wishes that something else than the rules heard: kept beside those that rules hear, and never instead of them."""

import re
from collections.abc import Mapping
from dataclasses import replace

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.stories import at, room
from operations.test_privacy_requests import SECRET, accept_all, found, say
from roomlore.db import directory
from roomlore.operations import App
from roomlore.privacy import enforcement, storage
from roomlore.privacy.records import PrivacyRequest
from search.telling import ANA, BO, CY, tell

SAID = [
    say("1", BO, "how is it?", sent_at=at(1)),
    say("2", ANA, f"my {SECRET} account is 4412-9981", sent_at=at(2)),
    say("3", ANA, "good morning, folks", sent_at=at(3)),
    say("4", CY, f"{SECRET} 4412 9981, is it?", sent_at=at(4)),
]
BACK = PrivacyRequest(kind="forget", refers_back=True)


async def ids_of(admin, app: App) -> dict[str, object]:
    rows = await admin.execute(
        "select external_id, id, room_id from messages where org_id = %s", [app.org_id]
    )
    found = await rows.fetchall()
    return {external_id: key for external_id, key, _ in found} | {"room": found[0][2]}


async def name(
    app: App, admin, wishes: Mapping[str, PrivacyRequest], *, detected_by="a language model"
) -> int:
    """Have wishes heard, by the external ids of their messages."""
    ids = await ids_of(admin, app)
    room_id, named = ids["room"], {ids[key]: wish for key, wish in wishes.items()}

    async def work(conn) -> int:
        await directory.lock_rooms(conn, [room_id])
        return await enforcement.add_detected(
            conn, app.org_id, room_id, named, detected_by=detected_by, at=at(60)
        )

    count = await app.db.change(app.org_id, work)
    await accept_all(app)
    return count


async def test_a_wish_that_rules_do_not_hear_counts_once_it_is_named(app: App, admin):
    await tell(app, *SAID)
    assert await found(app, app.operator) == {"2", "4"}
    assert await name(app, admin, {"3": BACK}) == 1
    assert await found(app, app.operator) == set()
    [wish] = await app.privacy_requests.all(app.operator)
    assert (wish.detected_by, wish.author_name) == ("a language model", "Ana")
    assert [one.external_id for one in wish.covered_messages] == ["2", "3", "4"]


async def test_what_rules_heard_is_never_replaced(app: App, admin):
    await tell(app, *SAID[:2], replace(SAID[2], body="please forget that"))
    assert await name(app, admin, {"3": PrivacyRequest(kind="confidential")}) == 0
    [wish] = await app.privacy_requests.all(app.operator)
    assert (wish.detected_by, wish.kind) == ("rules", "forget")


async def test_a_named_wish_that_was_undone_stays_so(app: App, admin):
    await tell(app, *SAID)
    await name(app, admin, {"3": BACK})
    [wish] = await app.privacy_requests.all(app.operator)
    await app.privacy_requests.dismiss(str(wish.id))
    assert await name(app, admin, {"3": BACK}) == 0
    assert await found(app, app.operator) == {"2", "4"}
    await app.privacy_requests.apply(str(wish.id))
    assert await found(app, app.operator) == set()


@pytest.mark.slow
async def test_a_named_wish_survives_whatever_rules_settle_and_is_settled_with_it(app: App, admin):
    await tell(app, SAID[0], *SAID[2:])
    assert await name(app, admin, {"3": BACK}) == 1
    assert await found(app, app.operator) == {"4"}
    await tell(app, SAID[1])
    assert await found(app, app.operator) == set()
    await tell(app, say("5", BO, "off the record: I am leaving", sent_at=at(0)))
    await app.erasure.redact("1", room="office")
    assert {wish.detected_by for wish in await app.privacy_requests.all(app.operator)} == {
        "rules",
        "a language model",
    }
    assert await found(app, app.operator) == set()


@pytest.mark.slow
async def test_a_named_wish_goes_with_its_message_and_when_that_is_changed(app: App, admin):
    await tell(app, *SAID)
    await name(app, admin, {"3": BACK})
    await tell(app, replace(SAID[2], body="never mind", edited_at=at(50)))
    assert await app.privacy_requests.all(app.operator) == []
    assert await found(app, app.operator) == {"2", "4"}
    await name(app, admin, {"3": BACK})
    await app.erasure.redact("3", room="office")
    assert [wish.message_id for wish in await app.privacy_requests.all(app.operator)] == [None]
    assert await found(app, app.operator) == set()


async def test_a_named_wish_that_is_edited_into_one_that_rules_hear_is_theirs(app: App, admin):
    await tell(app, *SAID)
    await name(app, admin, {"3": PrivacyRequest(kind="confidential", refers_back=True)})
    await tell(app, replace(SAID[2], body="please forget that", edited_at=at(50)))
    [wish] = await app.privacy_requests.all(app.operator)
    assert (wish.detected_by, wish.kind) == ("rules", "forget")


async def stored_requests(app: App, admin: psycopg.AsyncConnection) -> list[str]:
    """Return the rows of privacy requests as JSON, without ids, digests and times: these may have any digits."""
    rows = await admin.execute(
        "select row_to_json(privacy_requests)::text from privacy_requests where org_id = %s", [app.org_id]
    )
    return [re.sub(r"[0-9a-f-]{16,}|\d{4}-\d\d-\d\dT[\d:.+]+", "", row) for (row,) in await rows.fetchall()]


@pytest.mark.parametrize(("value", "left"), [("4412-9981", set()), ("4412-9982", {"2", "4"})])
async def test_only_values_that_the_message_says_count_and_none_of_their_words_is_kept(
    app: App, admin, value, left
):
    await tell(app, *SAID[:2], replace(SAID[2], body="4412-9981 must go away, okay"), SAID[3])
    await name(app, admin, {"3": PrivacyRequest(kind="forget", identifiers=(value,))})
    assert await found(app, app.operator) == left
    assert all("4412" not in row for row in await stored_requests(app, admin))
    await tell(app, say("0", CY, "hello", sent_at=at(0)))
    assert await found(app, app.operator) == left


async def test_what_was_said_elsewhere_or_is_gone_voices_nothing(app: App, admin):
    await tell(app, *SAID, replace(SAID[2], external_id="6", room=room("aside")))
    await app.erasure.redact("3", room="office")
    assert await name(app, admin, {"3": BACK, "6": BACK}) == 0
    assert await app.privacy_requests.all(app.operator) == []


# How far a wish looks


async def withheld(admin, app: App) -> set[tuple[str, str]]:
    """What is withheld: pairs of the message that voices a wish and what it covers, by their external ids."""
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


async def test_a_restriction_reaches_back_so_far_and_on_without_end_wherever_more_arrives(
    app: App, admin, monkeypatch
):
    monkeypatch.setattr(storage, "MAX_MESSAGES_BACK", 3)
    told = [say(str(n), ANA, f"the result of day {n} is in", sent_at=at(n)) for n in range(1, 10)]
    voice = say("v", ANA, "Bo may receive scheduling only", sent_at=at(6.5))
    hello = say("b", BO, "hello", sent_at=at(0))
    await app.ingest_batch([hello, *told, voice])
    await accept_all(app)
    expected = {("v", key) for key in ("v", "4", "5", "6", "7", "8", "9")}
    assert await withheld(admin, app) == expected
    await app.ingest_batch([say(f"c{n}", CY, "chatter", sent_at=at(5 + n / 10)) for n in range(4)])
    assert await withheld(admin, app) == expected
    await app.ingest_batch([say("l", ANA, "a late result", sent_at=at(5.5))])
    assert await withheld(admin, app) == expected | {("v", "l")}
    await app.ingest_batch([say("m", ANA, "a result of long ago", sent_at=at(0.5))])
    assert await withheld(admin, app) == expected | {("v", "l")}
    await app.erasure.redact("l", room="office")
    assert await withheld(admin, app) == expected


async def test_what_was_heard_of_a_wish_is_kept_without_a_word_of_it(app: App, admin):
    said = 'my "sea otter" code: 4412-9981. Dr. Fell knows.'
    voice = "Please delete Falcon, (4412 9981), and what I said about Dr. Fell from memory."
    await app.ingest_batch([say("1", ANA, said, sent_at=at(1)), say("2", ANA, voice, sent_at=at(2))])
    await accept_all(app)
    before = await withheld(admin, app)
    assert before == {("2", "1"), ("2", "2")}
    await app.ingest_batch([say("3", BO, "late", sent_at=at(0))])
    assert await withheld(admin, app) == before
    [row] = await stored_requests(app, admin)
    assert not any(word in row for word in ("Falcon", "4412", "9981", "Fell"))


STORY = [
    say("1", BO, "hello, is this confidential?", sent_at=at(1)),
    say("2", ANA, "this is confidential: the alias is Nia, the number 415-555-0142", sent_at=at(2)),
    say("3", CY, "Nia it is, and (415) 555 0142", sent_at=at(3), reply_to="2"),
    say("4", ANA, "Kubernetes is slow", sent_at=at(4)),
    say("5", BO, "Kubernetes is fine", sent_at=at(5), reply_to="4"),
    say("6", ANA, "please delete the alias Nia and 415-555-0142 from memory", sent_at=at(6)),
    say("7", ANA, "please forget what I said about Kubernetes", sent_at=at(7)),
    say("8", CY, "was Nia on 0142?", sent_at=at(8)),
    say("9", CY, "Bo may receive scheduling only", sent_at=at(9)),
    say("10", ANA, "Bo may receive scheduling only, no results", sent_at=at(10)),
    say("11", CY, "the results are bad", sent_at=at(11)),
    say("12", CY, "just between us", sent_at=at(12)),
]


@pytest.mark.slow
async def test_what_is_looked_up_is_all_that_a_wish_covers_in_whatever_order_messages_arrive(open_app, admin):
    whole = await open_app("expected")
    await whole.ingest_batch(STORY)
    await accept_all(whole)
    expected = await withheld(admin, whole)
    assert {pair for pair in expected if pair[0] in {"6", "7"}} == {
        *(("6", key) for key in ("2", "3", "6", "8")),
        *(("7", key) for key in ("4", "7")),
    }

    @settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(order=st.permutations(STORY), cuts=st.sets(st.integers(1, len(STORY) - 1)))
    def any_order(order, cuts):
        orders.append((order, sorted(cuts)))

    orders: list = []
    any_order()
    for order, cuts in orders:
        app = await open_app("shuffled")
        for start, end in zip([0, *cuts], [*cuts, len(order)], strict=True):
            await app.ingest_batch(order[start:end])
        await accept_all(app)
        assert await withheld(admin, app) == expected, ([one.external_id for one in order], cuts)
