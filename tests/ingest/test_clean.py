"""Whatever a record holds, it comes out fit to be stored or is left out with a reason."""

import json
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.stories import at, author, message, room
from roomlore.domain.incoming import IncomingMembership, IncomingMessage, SkippedRecord
from roomlore.ingest.clean import (
    MAX_BODY,
    MAX_DEPTH,
    MAX_ID,
    MAX_RAW,
    TOO_FAR_AHEAD,
    UNSTORABLE,
    CleanRecord,
    RoomCleaner,
    clean,
    clean_room,
)
from roomlore.ingest.secrets import MARKER

NOW = datetime(2024, 6, 1, tzinfo=UTC)
SECRET = "xoxb-" + "1234567890-abcdef"

ANY_TEXT = st.text(st.characters(), max_size=20) | st.sampled_from(["\x00", "\ud800", "a\udfffb", SECRET, ""])
ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=10**400, max_value=10**401)
    | st.floats()
    | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=12,
)
ANY_TIME = st.datetimes(timezones=st.none() | st.timezones() | st.just(timezone(timedelta(hours=14))))


def cleaned(record: IncomingMessage) -> IncomingMessage:
    result = clean(record, now=NOW)
    assert isinstance(result, CleanRecord), result
    return result.message


def reason(record: IncomingMessage) -> str:
    result = clean(record, now=NOW)
    assert isinstance(result, SkippedRecord), result
    return result.reason


def strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for item in value.items() for part in item for text in strings(part)]
    if isinstance(value, list | tuple):
        return [text for part in value for text in strings(part)]
    return []


@given(body=ANY_TEXT, name=ANY_TEXT, raw=ANY_JSON, metadata=st.dictionaries(ANY_TEXT, ANY_JSON, max_size=3))
def test_any_content_becomes_storable_json_without_secrets(body, name, raw, metadata):
    record = cleaned(
        message(body=body, author=author(name=name), room=room(topic=body), raw=raw, metadata=metadata)
    )
    stored = [record.body, record.author.name, record.room.topic, record.raw, record.metadata]
    json.dumps(stored, allow_nan=False).encode()
    found = strings(stored)
    assert not any(UNSTORABLE.search(text) for text in found)
    assert not any(SECRET in text for text in found)
    assert record.author.name


@given(
    external_id=ANY_TEXT,
    platform=ANY_TEXT,
    account=ANY_TEXT,
    persona=ANY_TEXT,
    reply_to=st.none() | ANY_TEXT,
    sent_at=ANY_TIME,
    edited_at=st.none() | ANY_TIME,
    order=st.integers(),
    members=st.lists(
        st.builds(
            IncomingMembership,
            author=st.builds(author, ANY_TEXT),
            joined_at=st.none() | ANY_TIME,
            left_at=st.none() | ANY_TIME,
        ),
        max_size=2,
    ),
)
def test_any_record_is_cleaned_or_left_out_with_a_reason(external_id, account, persona, members, **fields):
    result = clean(
        message(
            external_id,
            author=author(account, persona=persona),
            room=room(members=members),
            **fields,
        ),
        now=NOW,
    )
    if isinstance(result, SkippedRecord):
        assert result.reason
        assert not UNSTORABLE.search(result.where)
        return
    record = result.message
    assert record.external_id == external_id
    assert record.author.account_id == account
    assert record.sent_at.tzinfo is UTC
    assert record.edited_at is None or record.edited_at > record.sent_at
    for member in record.room.members:
        assert member.joined_at is None or member.left_at is None or member.joined_at <= member.left_at


def test_an_ordinary_record_stays_as_it_is():
    record = message(
        body="See https://example.org/a?b=c — naïve 😅\n> [file] a.png",
        raw={"ok": [1, 2.5, None, True]},
        attachments=[{"name": "a.png", "url": "https://example.org/a.png"}],
    )
    assert replace(cleaned(record), attachments=record.attachments, reactions=()) == record
    assert list(cleaned(record).attachments) == record.attachments


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"external_id": ""}, "no message id"),
        ({"external_id": "x" * (MAX_ID + 1)}, "message id too long"),
        ({"external_id": "a\x00"}, "message id not storable"),
        ({"room": room("")}, "no room"),
        ({"room": room("x" * (MAX_ID + 1))}, "room id too long"),
        ({"room": room(kind="pub")}, "unknown room kind"),
        ({"room": room(visibility="everybody")}, "unknown room visibility"),
        ({"platform": ""}, "no platform"),
        ({"platform": "p" * 101}, "platform name too long"),
        ({"external_id": SECRET}, "secret in id"),
        ({"room": room(SECRET)}, "secret in id"),
        ({"author": author(SECRET)}, "secret in id"),
        ({"author": author("hook", persona=SECRET)}, "secret in id"),
        ({"reply_to": SECRET}, "secret in id"),
        ({"author": author("", name="Cleo")}, "no account id"),
        ({"author": author("", name="Cleo", kind="agent", persona="Weather")}, "no account id"),
        ({"author": author("a\ud800")}, "account id not storable"),
        ({"author": author(persona="p" * (MAX_ID + 1))}, "persona too long"),
        ({"author": author(kind="god")}, "unknown author kind"),
        ({"reply_to": "r" * (MAX_ID + 1)}, "reply id too long"),
        ({"thread_root": "r\x00"}, "thread id not storable"),
        ({"body": "b" * (MAX_BODY + 1)}, "body too long"),
        ({"kind": "shout"}, "unknown message kind"),
        ({"precision": "year"}, "unknown precision"),
        ({"order": 2**63}, "order out of range"),
        ({"sent_at": datetime(2024, 3, 1)}, "time without zone"),  # noqa: DTZ001  the fault in question
        ({"sent_at": datetime(1969, 12, 31, tzinfo=UTC)}, "absurd date"),
        ({"sent_at": datetime.max.replace(tzinfo=UTC)}, "absurd date"),
        ({"sent_at": datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))}, "absurd date"),
        ({"edited_at": NOW + timedelta(days=400)}, TOO_FAR_AHEAD),
        ({"sent_at": NOW + timedelta(days=400)}, TOO_FAR_AHEAD),
    ],
)
def test_what_cannot_be_stored_is_left_out_with_its_reason(fields: dict[str, Any], why: str):
    assert reason(replace(message(), **fields)) == why


def test_what_is_said_now_is_kept_by_a_server_whose_clock_is_days_behind():
    said = message(sent_at=NOW + timedelta(days=3), edited_at=NOW + timedelta(days=4))
    kept = clean(said, now=NOW)
    assert not isinstance(kept, SkippedRecord)
    assert (kept.message.sent_at, kept.message.edited_at) == (said.sent_at, said.edited_at)


def test_a_zone_that_tells_no_offset_is_no_zone():
    class Nowhere(tzinfo):
        def utcoffset(self, _):
            return None

    assert reason(message(sent_at=datetime(2024, 3, 1, tzinfo=Nowhere()))) == "time without zone"


def test_the_longest_ids_that_are_taken_fit_into_an_index():
    widest = "\U0001f600" * MAX_ID
    assert len((widest + widest).encode()) + 100 < 2704


def test_a_record_is_named_by_its_place_or_its_id_without_secrets():
    assert clean(message("7", body="b" * (MAX_BODY + 1)), now=NOW).where == "7"
    assert clean(message(SECRET, kind="shout"), now=NOW).where == MARKER
    assert clean(message("7", kind="shout", where="line 3"), now=NOW).where == "line 3"


def test_secrets_are_found_in_every_part_and_counted():
    result = clean(
        message(
            body=SECRET,
            attachments=[{"url": "https://example.org/f?token=abc"}],
            raw={"a": [SECRET], SECRET: 1, "Password": "hunter2"},
            metadata={"token": "abc"},
            room=room(topic=SECRET),
        ),
        now=NOW,
    )
    assert isinstance(result, CleanRecord)
    assert result.secrets_stripped == 3  # what the foreign record repeats is not counted twice
    record = result.message
    assert record.raw == {"a": [MARKER], MARKER: 1, "Password": MARKER}
    assert record.metadata == {"token": MARKER}
    assert record.room.topic == MARKER


def test_secrets_are_found_in_mentions_and_places():
    assert cleaned(message(mentions=["bo", SECRET])).mentions == ("bo", MARKER)
    left_out = clean(message(kind="shout", where=f"{SECRET}.json record 3"), now=NOW)
    assert left_out.where == f"{MARKER}.json record 3"


def test_the_size_of_a_record_is_that_of_its_body_and_of_the_foreign_record():
    for raw in ({"text": "x" * 1000}, {"text": "x" * 1000, "password": "abc"}):
        result = clean(message(body="y" * 500, raw=raw), now=NOW)
        assert isinstance(result, CleanRecord)
        assert 1500 <= result.size <= 1600


def test_cleaning_again_changes_and_counts_nothing():
    once = cleaned(message(body=f"{SECRET} https://a:b@example.org", raw={"token": "abc", "t": SECRET}))
    again = clean(once, now=NOW)
    assert again == CleanRecord(message=once, secrets_stripped=0)


def test_numbers_that_json_cannot_hold_become_nothing():
    raw = {"nan": math.nan, "inf": -math.inf, "huge": 10**400, "fine": 10**30, "yes": True}
    assert cleaned(message(raw=raw)).raw == {
        "nan": None,
        "inf": None,
        "huge": None,
        "fine": 10**30,
        "yes": True,
    }


def test_what_is_not_json_becomes_text():
    assert cleaned(message(metadata={"at": at(0), 3: b"x"})).metadata == {"at": str(at(0)), "3": "b'x'"}


def test_nesting_without_end_is_cut():
    deep: Any = "bottom"
    for _ in range(5000):
        deep = [deep]
    raw = cleaned(message(raw={"deep": deep})).raw
    assert "bottom" not in json.dumps(raw)
    assert json.dumps(raw).count("[") <= MAX_DEPTH + 1


def test_a_giant_foreign_record_is_left_away_and_the_message_kept():
    record = cleaned(message(body="small", raw={"text": "x" * (MAX_RAW + 1)}))
    assert (record.body, record.raw) == ("small", None)


def test_a_removed_message_keeps_nothing_of_what_it_said():
    record = cleaned(message(body="gone", deleted=True, raw={"text": "gone"}, attachments=[{"name": "gone"}]))
    assert (record.body, record.raw, record.attachments, record.metadata) == ("", None, (), {})


def test_an_edit_is_later_than_what_it_edits_also_by_a_coarse_clock():
    assert cleaned(message("1", edited_at=at(1))).edited_at == at(1) + timedelta(microseconds=1)
    assert cleaned(message("1", edited_at=at(0))).edited_at == at(1) + timedelta(microseconds=1)
    assert cleaned(message("1", edited_at=at(2))).edited_at == at(2)


@pytest.mark.parametrize(
    ("joined", "left"),
    [(at(5), at(4)), (datetime(2024, 1, 1), None), (None, datetime.max.replace(tzinfo=UTC))],  # noqa: DTZ001  the fault
)
def test_an_impossible_presence_lets_nobody_in(joined, left):
    member = IncomingMembership(author=author(), joined_at=joined, left_at=left)
    assert cleaned(message(room=room(members=[member]))).room.members == ()


def test_whoever_cannot_be_named_may_read_no_whisper():
    nobody = [
        author("a\x00"),
        author(SECRET),
        author("c" * 300),
        author("", name="Cleo"),
        author("", name="Dora"),
    ]
    record = cleaned(message(kind="whisper", audience=[*nobody, author("bo")]))
    assert [who.account_id for who in record.audience] == ["bo"]


def test_whoever_cannot_be_named_is_no_member():
    members = [IncomingMembership(author=who) for who in (author("", name="Cleo"), author("bo"))]
    kept = cleaned(message(room=room(members=members))).room.members
    assert [member.author.account_id for member in kept] == ["bo"]


def test_a_platform_speaks_without_an_account():
    assert cleaned(message(author=author("", kind="system", name="notice"))).author.name == "notice"


def test_a_room_is_cleaned_once_while_its_description_stays():
    rooms = RoomCleaner(clean_room)
    first = rooms.cleaned(room(name="a\x00"))
    assert rooms.cleaned(room(name="a\x00")) is first
    assert rooms.cleaned(room(name="b")).name == "b"
