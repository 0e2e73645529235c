import zipfile
from datetime import UTC, date, datetime

import pytest

from roomlore.domain.errors import BadInput
from roomlore.domain.room_visibility import visibility_of
from roomlore.importers.irc import IMPORTER
from roomlore.importers.reading.export import open_export

LOG = """[12:18] <ana> hello all
[12:18]  * ben waves
=== cleo [~c@host] has joined #plans
[12:19] <@ben> ana: hi
=== cleo is now known as cleo_away
[12:20] <cleo_away>
"""


def test_said_lines_actions_and_system_lines_are_told_apart(read, write):
    result = read(IMPORTER, write({"#plans_2024-05-01.log": LOG}))
    assert [(m.kind, m.author.account_id, m.author.kind, m.body) for m in result.messages] == [
        ("message", "ana", "human", "hello all"),
        ("message", "ben", "human", "waves"),
        ("system", "", "system", "=== cleo [~c@host] has joined #plans"),
        ("message", "ben", "human", "ana: hi"),
        ("system", "", "system", "=== cleo is now known as cleo_away"),
        ("message", "cleo_away", "human", ""),
    ]
    assert result.messages[2].author.name == "IRC"
    assert result.messages[1].metadata["platform"]["action"] is True
    assert result.messages[3].mentions == ()
    assert [m.order for m in result.messages] == [1, 2, 3, 4, 5, 6]
    first = result.messages[0]
    assert (first.sent_at, first.precision) == (datetime(2024, 5, 1, 12, 18, tzinfo=UTC), "min")
    assert (first.room.external_id, first.raw, first.where) == (
        "#plans",
        "[12:18] <ana> hello all",
        "#plans_2024-05-01.log line 1",
    )
    assert first.synthetic_id


def test_system_lines_take_the_time_of_the_line_before_or_the_first_one(read, write):
    result = read(IMPORTER, write({"2024-05-01.txt": "=== opened\n[09:30] <ana> hi\n=== ben left\n"}))
    assert [m.sent_at.strftime("%H:%M") for m in result.messages] == ["09:30", "09:30", "09:30"]
    assert [m.order for m in result.messages] == [1, 2, 3]


def test_a_log_that_runs_past_midnight_goes_to_the_next_day(read, write):
    lines = "[23:59] <ana> late\n[00:00] <ben> early\n[00:01] <ana> x\n[23:59] <ana> y\n[00:00] <ana> z\n"
    result = read(IMPORTER, write({"2024-02-28.txt": lines}))
    assert [m.sent_at.day for m in result.messages] == [28, 29, 29, 29, 1]


def test_a_clock_set_back_a_little_keeps_day_and_order_and_what_it_showed(read, write):
    result = read(IMPORTER, write({"2024-05-01.txt": "[12:05] <ana> a\n[12:04] <ben> b\n[12:06] <ana> c\n"}))
    assert [
        (m.sent_at.strftime("%H:%M"), m.metadata.get("platform", {}).get("clock")) for m in result.messages
    ] == [
        ("12:05", None),
        ("12:05", "2024-05-01 12:04:00"),
        ("12:06", None),
    ]


def test_a_log_that_grew_keeps_the_ids_of_its_old_lines(read, write):
    before = read(IMPORTER, write({"#plans_2024-05-01.log": LOG}))
    after = read(IMPORTER, write({"#plans_2024-05-01.log": LOG + "[12:30] <ana> more\n"}))
    ids = [message.external_id for message in after.messages]
    assert ids[:-1] == [message.external_id for message in before.messages]
    assert len(set(ids)) == len(ids)


def test_the_same_words_on_two_lines_are_two_messages(read, write):
    result = read(IMPORTER, write({"2024-05-01.txt": "[12:00] <ana> ha\n[12:00] <ana> ha\n"}))
    assert len({message.external_id for message in result.messages}) == 2


@pytest.mark.parametrize(
    ("file", "room"),
    [
        ("2004-11-15_03.ascii.txt", "irc"),
        ("#ubuntu_2004-11-15.log", "#ubuntu"),
        ("ubuntu-2004-11-15.txt", "ubuntu"),
        ("#ubuntu/2004-11-15.txt", "#ubuntu"),
        ("2004/#ubuntu/2004-11-15.log", "#ubuntu"),
        ("2004-11-15.log", "irc"),
        ("20041115.log", "irc"),
        ("#ubuntu/20041115.log", "#ubuntu"),
        ("#ubuntu/2004-11-15.123456+0000UTC.txt", "#ubuntu"),
        ("#ubuntu.20041115.log", "#ubuntu"),
        ("2004-11-15_#ubuntu.log", "#ubuntu"),
        ("logs/2004-11-15-ubuntu.txt", "ubuntu"),
        ("2004-11-15 12-30-00.utf8.log", "irc"),
    ],
)
def test_logs_of_one_channel_share_a_room(read, write, file, room):
    assert {m.room.external_id for m in read(IMPORTER, write({file: LOG})).messages} == {room}


DATED = "[2024-05-01 12:18] <ana> hello\n"


def rooms(result):
    return {message.where.split(" line")[0]: message.room.external_id for message in result.messages}


@pytest.mark.parametrize("folder", ["", "logs/", "2024/"])
def test_a_log_without_a_date_in_its_name_is_a_room_of_its_own(read, write, folder):
    files = {f"{folder}#python.log": DATED, f"{folder}#rust.log": DATED, f"{folder}#99999999.log": DATED}
    result = read(IMPORTER, write(files))
    assert rooms(result) == {
        f"{folder}#python.log": "#python",
        f"{folder}#rust.log": "#rust",
        f"{folder}#99999999.log": "#99999999",
    }


def test_a_log_by_itself_is_the_same_room_as_among_others(read, write):
    root = write({"#python.log": DATED, "#rust.log": DATED})
    whole = read(IMPORTER, root)
    alone = read(IMPORTER, root / "#python.log").only
    assert (alone.room, alone.external_id) in [(m.room, m.external_id) for m in whole.messages]


def test_channels_of_one_name_on_two_networks_are_two_rooms(read, write):
    result = read(
        IMPORTER,
        write(
            {"2023/libera/#python.log": DATED, "2024/libera/#python.log": DATED, "oftc/#python.log": DATED}
        ),
    )
    assert rooms(result) == {
        "2023/libera/#python.log": "libera/#python",
        "2024/libera/#python.log": "libera/#python",
        "oftc/#python.log": "oftc/#python",
    }
    assert {message.room.name for message in result.messages} == {"#python"}


def test_a_given_day_does_not_change_the_room(read, write):
    root = write({"#python.log": "[12:18] <ana> hi\n", "2024-01-01.log": "[12:18] <ana> hi\n"})
    assert rooms(read(IMPORTER, root, day=date(2024, 5, 1))) == {
        "#python.log": "#python",
        "2024-01-01.log": "irc",
    }


def test_parts_of_one_day_do_not_share_ids(read, write):
    result = read(IMPORTER, write({"2024-05-01_01.txt": LOG, "2024-05-01_02.txt": LOG}))
    assert len({message.external_id for message in result.messages}) == 12


def test_a_day_may_be_given_and_without_one_nothing_is_imported(read, write):
    root = write({"plans.log": LOG, "2024-01-01.log": LOG})
    with pytest.raises(BadInput, match="--day"), open_export(root) as source:
        next(iter(IMPORTER.read(source, type("O", (), {"day": None})())))
    result = read(IMPORTER, root / "plans.log", day=date(2024, 5, 1))
    assert result.messages[0].sent_at.date() == date(2024, 5, 1)
    assert result.messages[0].room.external_id == "plans"


@pytest.mark.parametrize(
    ("line", "moment", "precision"),
    [
        ("[2024-05-01 12:18:33] <ana> hi", datetime(2024, 5, 1, 12, 18, 33, tzinfo=UTC), "s"),
        ("2024-05-01T12:18:33 <ana> hi", datetime(2024, 5, 1, 12, 18, 33, tzinfo=UTC), "s"),
        ("2024-05-01T12:18:33Z <ana> hi", datetime(2024, 5, 1, 12, 18, 33, tzinfo=UTC), "s"),
        ("2024-05-01 12:18 <ana> hi", datetime(2024, 5, 1, 12, 18, tzinfo=UTC), "min"),
    ],
)
def test_lines_with_a_date_of_their_own_need_no_other(read, write, *, line, moment, precision):
    message = read(IMPORTER, write({"plans.log": line + "\n"})).only
    assert (message.sent_at, message.precision, message.body) == (moment, precision, "hi")


def test_a_clock_in_seconds_and_system_lines_with_a_clock(read, write):
    result = read(
        IMPORTER,
        write({"2024-05-01.txt": "[12:18:59] <ana> hi\n[12:19:00] *** ben left\n12:20 -!- cleo joined\n"}),
    )
    assert [(m.kind, m.body) for m in result.messages] == [
        ("message", "hi"),
        ("system", "*** ben left"),
        ("system", "-!- cleo joined"),
    ]


def test_lines_that_are_none_are_reported_by_number(read, write):
    result = read(
        IMPORTER,
        write({"2024-05-01.txt": "[12:00] <ana> a\nnot a line\n\n[99:99] <ana> b\n[12:01] <ana> c\n"}),
    )
    assert [m.body for m in result.messages] == ["a", "c"]
    assert [(s.where, s.reason) for s in result.skipped] == [
        ("2024-05-01.txt line 2", "not a line of an IRC log"),
        ("2024-05-01.txt line 4", "no time"),
    ]


def test_bytes_that_are_not_utf8_are_replaced(read, write):
    assert read(IMPORTER, write({"2024-05-01.txt": b"[12:00] <ana> caf\xe9\r\n"})).only.body == "caf�"


def test_the_last_day_of_the_calendar_has_no_next(read, write):
    result = read(IMPORTER, write({"9999-12-31.txt": "[23:59] <ana> a\n[00:00] <ana> b\n"}))
    assert [m.body for m in result.messages] == ["a"]
    assert result.reasons == ["no time"]


def test_other_text_is_not_taken_for_a_log(write):
    for content in ("1001 1002 -\n", "[1/2/24 12:18:33] Ana: hi\n", "=== title\ntext\n", ""):
        with open_export(write({"a.txt": content})) as source:
            assert not IMPORTER.recognises(source)


def test_a_log_of_system_lines_only_has_its_day_but_no_hour(read, write):
    result = read(IMPORTER, write({"2024-05-01.txt": "=== ana joined\n"}))
    assert result.only.sent_at == datetime(2024, 5, 1, tzinfo=UTC)


def test_system_lines_without_any_date_are_reported(read, write):
    result = read(IMPORTER, write({"plans.log": "=== ana joined\n=== ben joined\n"}))
    assert result.messages == []
    assert result.reasons == ["no date", "no date"]


def test_a_date_that_no_calendar_has_is_no_date(read, write):
    with pytest.raises(BadInput, match="--day"):
        read(IMPORTER, write({"2024-13-45.txt": "[12:00] <ana> hi\n"}))


def test_a_damaged_archive_member_is_reported_and_the_other_logs_go_in(read, tmp_path):
    path = tmp_path / "logs.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number in (1, 2):
            archive.writestr(f"2024-05-0{number}.log", f"[12:00] <ana> words {number}\n")
    path.write_bytes(path.read_bytes().replace(b"words 1", b"WORDS 1", 1))
    result = read(IMPORTER, path)
    assert [message.body for message in result.messages] == ["words 2"]
    assert [(item.where, item.reason) for item in result.skipped] == [("2024-05-01.log", "unreadable file")]


def test_a_talk_of_two_is_for_its_sides_and_a_channel_is_not(read, write):
    two = "[12:00] <ana> hi\n[12:01] <ben> psst\n"
    three = f"{two}[12:02] <cleo> hello\n"
    files = {"#plans_2024-05-01.log": two, "ben_2024-05-01.log": two, "deb_2024-05-01.log": two}
    result = read(IMPORTER, write(files | {"python_2024-05-01.log": three}))
    kinds = {message.room.name: message.room.kind for message in result.messages}
    assert kinds == {"#plans": "channel", "ben": "dm", "deb": None, "python": "channel"}
    read_by = {message.room.name: visibility_of(message.room).visibility for message in result.messages}
    assert read_by == {"#plans": "open", "ben": "members", "deb": "members", "python": "open"}


def test_one_name_on_two_networks_is_two_rooms_where_the_network_is_told(read, write):
    root = write({"#general_2024-05-01.log": LOG})
    rooms = [read(IMPORTER, root, workspace=name).messages[0].room for name in ("libera", "oftc", "")]
    assert [(room.external_id, room.workspace, room.name) for room in rooms] == [
        ("libera/#general", "libera", "#general"),
        ("oftc/#general", "oftc", "#general"),
        ("#general", "", "#general"),
    ]
