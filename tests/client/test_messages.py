"""Whatever is written comes back as it was, and stands where it was put."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from urllib.parse import unquote
from uuid import UUID

import httpx2
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operations.village import ANA, SQUARE, say
from roomlore.client import codec
from roomlore.domain.errors import BadInput, ServerUnavailable
from roomlore.domain.incoming import IncomingMessage
from roomlore.domain.records import Room

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@given(st.text(max_size=20))
def test_a_word_is_one_part_of_a_path_or_refused(word) -> None:
    try:
        part = codec.segment("room", word)
    except BadInput:
        assert word in {"", ".", ".."} or any("\ud800" <= one <= "\udfff" for one in word)
        return

    path = httpx2.URL(f"https://rooms.example/v1/rooms/{part}/messages").raw_path.decode()
    assert path.split("/")[1:3] + path.split("/")[4:] == ["v1", "rooms", "messages"]
    assert unquote(path.split("/")[3]) == word


@given(
    body=st.text(),
    metadata=st.dictionaries(st.text(), JSON, max_size=3),
    sent_at=st.datetimes(min_value=datetime(1970, 1, 2), timezones=st.just(UTC)),  # noqa: DTZ001
    order=st.integers(-(2**63), 2**63 - 1),
)
def test_a_record_comes_back_as_it_was(body, metadata, sent_at, order) -> None:
    told = {"body": body, "metadata": metadata, "sent_at": sent_at, "order": order}
    said = replace(say(1, ANA, SQUARE, audience=(ANA,)), **told)

    back = msgspec.json.decode(codec.encode(said), type=IncomingMessage)

    assert (back.body, back.metadata, back.sent_at, back.order) == (body, metadata, sent_at, order)
    # A list instead of a tuple is the same.
    assert codec.encode(back) == codec.encode(said)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1: {2: object()}}, b"x"])
def test_what_is_no_json_is_refused(value) -> None:
    with pytest.raises(BadInput, match="cannot be written as JSON"):
        codec.encode({"messages": [value]})


def test_what_goes_round_in_circles_is_refused() -> None:
    dedup_scope: list[object] = []
    dedup_scope.append(dedup_scope)
    with pytest.raises(BadInput):
        codec.encode(dedup_scope)


def test_a_time_without_a_zone_is_refused() -> None:
    codec.check_zone("time", datetime(2026, 1, 1, 9, tzinfo=timezone(timedelta(hours=9))))
    codec.check_zone("time", None)
    with pytest.raises(BadInput, match="time: needs a zone"):
        codec.check_zone("time", datetime(2026, 1, 1))  # noqa: DTZ001


def test_lists_are_named_word_by_word_and_none_is_left_out() -> None:
    asked = codec.query(kinds=["a", "b"], room=None, limit=3, newest=False, about=UUID(int=1), tags=[])

    assert asked == [
        ("kinds", "a"),
        ("kinds", "b"),
        ("limit", "3"),
        ("newest", "false"),
        ("about", str(UUID(int=1))),
        # An empty list selects nothing, which is not the same as no list.
        ("tags", ""),
    ]


@pytest.mark.parametrize("body", [b"", b"{}", b"[1]", b"null", b'{"id": "x"}', b"\xff", b"[" * 10**6])
def test_what_is_no_record_is_told_without_being_shown(body) -> None:
    with pytest.raises(ServerUnavailable, match="the server's answer is no"):
        codec.decode(body, Room)
