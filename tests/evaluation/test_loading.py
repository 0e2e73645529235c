from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.datasets import DatasetMessage
from evaluation.loading import incoming

NOW = datetime(2024, 5, 10, tzinfo=UTC)
NINE = datetime(2024, 5, 1, 9, tzinfo=UTC)
MESSAGE = DatasetMessage(
    id="m1",
    room="camp",
    author_id="ana",
    author_name="Ana",
    is_bot=False,
    timestamp=NINE,
    text="bo: who has the tent?",
    reply_to=None,
    system=False,
)


def at(*times: datetime | None, room: str = "camp") -> list[DatasetMessage]:
    return [
        replace(MESSAGE, id=f"{room}/{number}", room=room, timestamp=time)
        for number, time in enumerate(times)
    ]


def fed(messages: list[DatasetMessage]):
    return list(incoming(messages, now=NOW))


def test_what_the_data_set_states_is_kept():
    (record,) = fed([replace(MESSAGE, reply_to="m0")])
    assert (record.external_id, record.room.external_id, record.room.name) == ("m1", "camp", "camp")
    assert (record.author.account_id, record.author.name, record.author.kind) == ("ana", "Ana", "human")
    assert (record.body, record.kind, record.sent_at, record.reply_to) == (
        MESSAGE.text,
        "message",
        NINE,
        "m0",
    )


def test_names_that_somebody_found_in_the_text_are_not_passed_on():
    assert fed([MESSAGE])[0].mentions == ()


def test_bots_are_agents_and_notices_are_of_the_system():
    (record,) = fed([replace(MESSAGE, is_bot=True, system=True)])
    assert (record.author.kind, record.kind) == ("agent", "system")


def test_messages_of_the_same_minute_keep_their_time_and_their_order():
    records = fed(at(NINE, NINE, NINE))
    assert {record.sent_at for record in records} == {NINE}
    assert [record.order for record in records] == [0, 1, 2]


@pytest.mark.parametrize(
    ("finest", "precision"),
    [
        (timedelta(minutes=7), "min"),
        (timedelta(seconds=7), "s"),
        (timedelta(milliseconds=7), "ms"),
        (timedelta(microseconds=7), "us"),
    ],
)
def test_the_finest_time_of_a_room_tells_how_fine_its_times_are(finest, precision):
    records = fed([*at(NINE, NINE + finest, None), *at(NINE, room="harbour")])
    assert [record.precision for record in records] == [precision] * 3 + ["min"]


def test_a_time_that_goes_back_is_that_of_the_message_before():
    minute = timedelta(minutes=1)
    records = fed(at(NINE, NINE - minute, NINE + minute, NINE))
    assert [record.sent_at for record in records] == [NINE, NINE, NINE + minute, NINE + minute]


def test_a_missing_time_is_that_of_the_message_before_or_the_first_there_is():
    later = NINE + timedelta(hours=1)
    records = fed(at(None, NINE, None, later))
    assert [record.sent_at for record in records] == [NINE, NINE, NINE, later]


def test_a_room_without_times_has_a_steady_pace_and_ends_before_now():
    records = fed(at(None, None, None))
    first, second, third = (record.sent_at for record in records)
    assert second - first == third - second == timedelta(seconds=20)
    assert third < NOW


def test_a_data_set_from_the_future_is_moved_by_whole_weeks():
    soon = NOW + timedelta(days=8, hours=3)
    records = fed([*at(NINE, soon), *at(None, room="harbour")])
    assert [record.sent_at for record in records[:2]] == [
        NINE - timedelta(weeks=2),
        soon - timedelta(weeks=2),
    ]
    assert NOW - timedelta(minutes=5) < records[2].sent_at < NOW


times = st.none() | st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


@given(st.lists(st.tuples(st.sampled_from(["camp", "harbour"]), times), max_size=12))
def test_no_room_changes_its_order_and_nothing_is_from_the_future(said):
    messages = [
        replace(MESSAGE, id=str(number), room=room, timestamp=time)
        for number, (room, time) in enumerate(said)
    ]
    records = fed(messages)
    assert [record.external_id for record in records] == [message.id for message in messages]
    assert all(record.sent_at <= NOW for record in records)
    for room in ("camp", "harbour"):
        places = [(record.sent_at, record.order) for record in records if record.room.external_id == room]
        assert places == sorted(places)
