"""What was erased is left out of what comes in, and nothing else is."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from ingest.stories import at, author, message, room
from roomlore.db.erasure_guard import ErasedRange, account_digest
from roomlore.db.messages import StoredVersion
from roomlore.domain.errors import BadInput
from roomlore.domain.ids import MessageId, OrgId, ParticipantId, RoomId, uuid7
from roomlore.domain.incoming import IncomingMembership
from roomlore.ingest.erasure_filter import ERASED_REASON, TOO_OLD_REASON, ErasureFilter
from roomlore.ingest.resolve import author_name
from roomlore.ingest.versions import compare
from roomlore.operations import App

ANA, BO = author("ana"), author("bo")


def test_an_account_is_told_from_every_other_by_its_digest():
    org, other = OrgId(uuid7()), OrgId(uuid7())
    names = [
        ("a", "bc", ""),
        ("ab", "c", ""),
        ("a", "b", "c"),
        ("a", "bc\0", ""),
        ("", "abc", ""),
        ("a", "", "bc"),
    ]
    digests = {account_digest(one, name) for one in (org, other) for name in names}
    assert len(digests) == 2 * len(names)
    assert {len(digest) for digest in digests} == {32}


def test_the_recipe_of_the_digest_stays_as_it_is():
    # Digests are kept for good: another recipe would let everybody back in.
    org = OrgId(UUID(int=1))
    assert account_digest(org, ("slack", "U1", "Zoë")).hex() == (
        "e8c3b2d5375f763408c2baf3aace49d8a5ff6c4fa39cd6668475d0cec1bd740d"
    )


def test_what_an_account_said_up_to_the_moment_of_its_erasure_stays_out():
    tick = timedelta(microseconds=1)
    said = [message("1", author=ANA, sent_at=moment) for moment in (at(5) - tick, at(5), at(5) + tick)]
    gone = ErasureFilter(accounts={author_name(said[0].platform, ANA): at(5)})
    assert [gone.reason(one) for one in said] == [ERASED_REASON, ERASED_REASON, None]


def test_a_range_holds_its_first_moment_and_not_its_last():
    said = [message("1", sent_at=at(minute)) for minute in (0, 1, 4, 5)]
    name = (said[0].platform, said[0].room.external_id)
    erased = ErasedRange(platform=name[0], room=name[1], since=at(1), until=at(5))
    gone = ErasureFilter(ranges={name: [erased]})
    assert [gone.reason(one) for one in said] == [None, ERASED_REASON, ERASED_REASON, None]


def test_nothing_that_comes_again_belongs_into_a_hole():
    hole = StoredVersion(
        id=MessageId(uuid7()),
        room_id=RoomId(uuid7()),
        external_id="1",
        kind="message",
        author_id=ParticipantId(uuid7()),
        author_name="",
        body="",
        written_at=at(1),
        redacted_at=at(9),
        is_said=False,
        audience=[],
        earlier_at=[],
        earlier=[],
    )
    edited = message("1", "new", edited_at=at(5))
    assert compare(hole, [message("1"), edited, message("1", deleted=True)]).is_empty


async def test_an_org_without_erasures_leaves_nothing_out(app: App):
    accepted = await app.ingest_batch([message("1"), message("2", sent_at=at(-9999))])
    assert accepted.skipped == []
    assert len(accepted.message_ids) == 2


async def test_what_was_erased_is_named_and_counted_and_the_rest_goes_in(app: App):
    await app.ingest_batch([message("1"), message("2")])
    await app.erasure.message("1")
    accepted = await app.ingest_batch([message("1", "again", where="line 1"), message("3")])
    assert [(one.where, one.reason) for one in accepted.skipped] == [("line 1", ERASED_REASON)]
    assert len(accepted.message_ids) == 1
    with pytest.raises(BadInput, match=ERASED_REASON):
        await app.ingest(message("1"))


async def test_a_hole_of_one_room_keeps_nothing_out_of_another(app: App):
    await app.ingest(message("1", room=room("red")))
    await app.erasure.message("1")
    accepted = await app.ingest_batch(
        [message("1", room=room("blue")), replace(message("1", room=room("red")), platform="other")]
    )
    assert len(accepted.added) == 2


async def test_an_answer_to_a_hole_still_answers_it(app: App):
    hole = await app.ingest(message("1"))
    await app.erasure.message("1")
    await app.ingest_batch([message("1"), message("2", reply_to="1")])
    assert [one.reply_to for one in await app.messages(app.operator, "general")] == [None, hole]


async def test_an_edit_or_another_edge_adds_nothing_to_a_hole(app: App, admin):
    await app.ingest_batch([message("1"), message("2", author=BO)])
    await app.erasure.message("2")
    await app.ingest_batch(
        [
            message("2", "edited", author=BO, edited_at=at(9), reply_to="1"),
            message("2", deleted=True, author=BO),
        ]
    )
    for table in (
        "message_revisions",
        "replies",
        "work_queue where subject_id in (select id from messages where body = '')",
    ):
        count = f"select count(*) from {table} {'and' if ' where ' in table else 'where'} org_id = %s"
        assert await (await admin.execute(count, [app.org_id])).fetchone() == (0,), table


async def test_a_range_keeps_out_what_was_sent_in_it_and_nothing_beside(app: App):
    await app.ingest(message("1"))
    await app.erasure.range("general", since=at(2), until=at(4))
    accepted = await app.ingest_batch([message(str(number)) for number in range(1, 6)])
    assert [one.where for one in accepted.skipped] == ["2", "3"]
    assert {one.reason for one in accepted.skipped} == {ERASED_REASON}
    moment = timedelta(microseconds=1)
    edges = [message("10", sent_at=at(2) - moment), message("11", sent_at=at(4) - moment)]
    assert [one.where for one in (await app.ingest_batch(edges)).skipped] == ["11"]


async def test_an_erased_account_stays_out_of_its_own_org_only(open_app):
    one, other = await open_app("one"), await open_app("other")
    for app in (one, other):
        await app.ingest_batch([message("1"), message("2", author=BO)])
    await one.erasure.person("ana")
    assert [len((await app.ingest_batch([message("3")])).skipped) for app in (one, other)] == [1, 0]


async def test_a_list_of_members_is_complete_without_the_erased(app: App):
    closed = room(
        "closed", visibility="members", members=tuple(IncomingMembership(author=a) for a in (ANA, BO))
    )
    await app.ingest_batch([message("1", room=closed), message("2", author=BO, room=closed)])
    await app.erasure.person("ana")
    await app.ingest(message("3", author=BO, room=closed))
    bo = await app.viewer("bo")
    assert [one.author_name for one in await app.messages(bo, "closed")] == ["", "Bo", "Bo"]
    assert {one.name for one in await app.participants(app.operator)} == {"Bo"}


async def test_whoever_came_back_is_named_by_what_is_said_since_only(app: App, admin):
    await app.ingest(message("1"))
    receipt = await app.erasure.person("ana")
    later = receipt.at + timedelta(minutes=1)
    await app.ingest(message("2", author=ANA, sent_at=later))
    old = message("3", "old", author=BO, kind="whisper", audience=(ANA,), mentions=("ana",))
    new = message("4", "new", author=BO, kind="whisper", audience=(ANA,), mentions=("ana",), sent_at=later)
    await app.ingest_batch([old, new])
    assert await (
        await admin.execute(
            "select external_id, mentions, (select count(*) from message_audience as heard"
            " where heard.message_id = messages.id) from messages where org_id = %s and kind = 'whisper'"
            " order by external_id",
            [app.org_id],
        )
    ).fetchall() == [("3", None, 0), ("4", ["ana"], 1)]


@pytest.mark.usefixtures("no_grace")
async def test_what_a_room_would_not_keep_is_not_taken_in(app: App):
    await app.ingest_batch([message("1", sent_at=datetime.now(UTC)), message("1", room=room("other"))])
    await app.erasure.set_retention("general", timedelta(days=1))
    fresh, old = datetime.now(UTC) - timedelta(hours=23), datetime.now(UTC) - timedelta(hours=25)
    accepted = await app.ingest_batch(
        [
            message("2", sent_at=old),
            message("3", sent_at=fresh),
            message("4", sent_at=old, room=room("other")),
            message("5", sent_at=old, room=room("new")),
        ]
    )
    assert [(one.where, one.reason) for one in accepted.skipped] == [("2", TOO_OLD_REASON)]
    await app.erasure.set_retention("general", None)
    assert (await app.ingest_batch([message("2", sent_at=old)])).skipped == []
