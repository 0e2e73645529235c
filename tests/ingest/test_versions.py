"""Which text is current follows from when it was written, not from when it arrived."""

from dataclasses import replace
from datetime import timedelta
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.stories import at, author, message
from roomlore.db.messages import StoredVersion
from roomlore.domain.ids import MessageId, ParticipantId, RoomId, uuid7
from roomlore.domain.incoming import IncomingMessage
from roomlore.ingest.versions import AttributedMessage, compare, match_versions

ID, ROOM = MessageId(uuid7()), RoomId(uuid7())
ANA, BO, CY = (ParticipantId(uuid7()) for _ in range(3))
FIRST = message("1", "first")
SECOND = message("1", "second", edited_at=at(5))
THIRD = message("1", "third", edited_at=at(6))


def stored(record: IncomingMessage, *earlier: IncomingMessage, **fields) -> StoredVersion:
    version = StoredVersion(
        id=ID,
        room_id=ROOM,
        external_id=record.external_id,
        kind=record.kind,
        author_id=ANA,
        author_name=record.author.name,
        body=record.body,
        written_at=record.edited_at or record.sent_at,
        redacted_at=None,
        is_said=False,
        audience=[],
        earlier_at=[one.edited_at or one.sent_at for one in earlier],
        earlier=[one.body for one in earlier],
    )
    return replace(version, **fields)


def test_the_same_again_says_nothing_new():
    assert compare(stored(FIRST), [FIRST, FIRST]).is_empty
    assert compare(stored(SECOND, FIRST), [FIRST, SECOND]).is_empty


def test_the_same_text_by_another_clock_says_nothing_new():
    for seconds in (-1, 1):
        other = replace(FIRST, sent_at=FIRST.sent_at + timedelta(seconds=seconds))
        assert compare(stored(FIRST, sent_at=FIRST.sent_at), [other]).is_empty
        edited = replace(other, edited_at=at(5))
        assert not compare(stored(FIRST, sent_at=FIRST.sent_at), [edited]).is_empty


def test_a_newer_text_becomes_current_and_the_older_history():
    change = compare(stored(FIRST), [SECOND])
    assert change.current is SECOND
    assert [(one.written_at, one.body) for one in change.revisions] == [(at(1), "first")]


def test_an_older_text_becomes_history_at_once():
    change = compare(stored(SECOND), [FIRST])
    assert change.current is None
    assert [one.body for one in change.revisions] == ["first"]


def test_a_removal_is_final():
    gone = replace(FIRST, deleted=True, body="")
    assert compare(stored(FIRST), [gone, SECOND]).is_redacted
    assert compare(stored(FIRST, redacted_at=at(9), body=""), [SECOND, gone]).is_empty


def test_another_text_of_the_same_time_is_reported_and_the_first_stays():
    other = replace(FIRST, body="other", where="line 7")
    change = compare(stored(FIRST), [other])
    assert [(one.where, one.reason) for one in change.skipped] == [("line 7", "same id, other text")]
    assert change.current is None
    assert not change.revisions
    assert compare(stored(SECOND, FIRST), [other]).skipped


def test_a_text_that_reads_otherwise_only_because_somebody_was_renamed_is_the_same():
    before = replace(FIRST, body="hello @Ana", raw={"text": "hello <@U1>"})
    after = replace(FIRST, body="hello @Anna", raw={"text": "hello <@U1>"})
    assert compare(stored(before, source_text="hello <@U1>"), [after]).is_empty
    assert compare(stored(SECOND), [before, after]).skipped == []


@pytest.mark.parametrize("raw", [{"text": "other"}, {"text": 5}, {"content": "hello <@U1>"}, "text", None])
def test_a_text_whose_source_is_another_or_unknown_is_reported(raw):
    other = replace(FIRST, body="other", raw=raw)
    assert compare(stored(FIRST, source_text="hello <@U1>"), [other]).skipped
    assert compare(stored(FIRST, source_text=None), [other]).skipped


def test_what_a_contradiction_says_is_not_repeated_in_the_report():
    (skipped,) = compare(stored(FIRST), [replace(FIRST, body="a private word")]).skipped
    assert "private" not in repr(skipped)


def test_the_first_version_says_how_its_author_was_called():
    later = replace(SECOND, author=author(name="Ana Married"))
    assert compare(stored(later), [FIRST]).author_name == "Ana"
    assert compare(stored(FIRST), [later]).author_name is None
    assert compare(
        stored(later, FIRST, author_name="Ana"), [replace(FIRST, author=author(name="X"))]
    ).is_empty


@given(st.permutations([FIRST, SECOND, THIRD]), st.integers(1, 3))
def test_any_order_of_arrival_leaves_the_same_texts(order: list[IncomingMessage], together: int):
    current, history = order[0], []
    rest = order[1:]
    for batch in (rest[:together], rest[together:]):
        if batch:
            change = compare(stored(current, *history), batch)
            history += [
                one for one in (FIRST, SECOND, THIRD) if one.body in {r.body for r in change.revisions}
            ]
            current = change.current or current
    assert current is THIRD
    assert {one.body for one in history} == {"first", "second"}


def test_every_order_in_one_batch_is_the_same():
    changes = {
        (change.current.body if change.current else "", tuple(one.body for one in change.revisions))
        for records in permutations([FIRST, SECOND, THIRD])
        for change in [compare(stored(FIRST), records)]
    }
    assert changes == {("third", ("first", "second"))}


def test_a_tick_is_enough_to_be_later():
    barely = replace(SECOND, edited_at=at(1) + timedelta(microseconds=1))
    assert compare(stored(FIRST), [barely]).current is barely


def told(record: IncomingMessage, who: ParticipantId = ANA, *audience: ParticipantId) -> AttributedMessage:
    return AttributedMessage(message=record, author_id=who, audience=set(audience))


def test_a_record_of_another_author_kind_or_audience_is_no_version():
    whisper = replace(SECOND, kind="whisper")
    held = stored(replace(FIRST, kind="whisper"), audience=[BO])
    for before, after in (
        (stored(FIRST), told(SECOND, BO)),
        (stored(FIRST), told(replace(SECOND, kind="system"))),
        (stored(FIRST), told(whisper, ANA, BO)),
        (held, told(whisper, ANA, BO, CY)),
        (held, told(whisper, ANA, CY)),
        (held, told(SECOND)),
    ):
        versions = match_versions(before, [after], {})
        assert (versions.own, versions.left_out) == ([], [after.message])
    assert match_versions(held, [told(whisper, ANA, BO)], {}).own == [whisper]


def test_another_account_of_the_author_or_of_a_hearer_is_the_same():
    person, other = uuid7(), uuid7()
    renamed = replace(SECOND, author=author(name="Ana Married"))
    assert match_versions(stored(FIRST), [told(renamed)], {}).own == [renamed]
    assert match_versions(stored(FIRST), [told(SECOND, CY)], {ANA: person, CY: person}).own == [SECOND]
    held, whisper = stored(replace(FIRST, kind="whisper"), audience=[BO]), replace(SECOND, kind="whisper")
    assert match_versions(held, [told(whisper, ANA, CY)], {BO: other, CY: other}).own == [whisper]


def test_an_export_that_names_nobody_truly_changes_nothing_and_is_not_reported():
    versions = match_versions(stored(SECOND, FIRST), [told(FIRST, BO), told(SECOND, CY)], {})
    assert (versions.own, versions.left_out) == ([], [])


def test_a_removal_counts_whoever_it_names():
    gone = replace(FIRST, deleted=True, body="")
    assert match_versions(stored(FIRST), [told(gone, BO)], {}).own == [gone]
