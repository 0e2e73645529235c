"""Log files: parsing, limits, visibility."""

import asyncio
import errno
import gzip
import json
import os
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roomlore.db.search import SearchFilter
from roomlore.domain.errors import BadInput
from roomlore.domain.ids import RoomId
from roomlore.domain.records import MembershipPeriod
from roomlore.search import log_search
from roomlore.search.log_lines import parse_line
from roomlore.search.log_search import (
    LONGEST_LINE,
    LogFolders,
    LogVisibility,
    ReadBudget,
    best_candidates,
    query_terms,
    read_lines,
    to_findings,
)

OPERATOR = LogVisibility(is_operator=True)
GENERAL = RoomId(UUID(int=1))
NOON = datetime(2025, 3, 1, 12, tzinfo=UTC)


def budget(**given) -> ReadBudget:
    return ReadBudget(**({"bytes_left": 10**9, "deadline": 10.0, "clock": lambda: 0.0} | given))


def write(folder: Path, name: str, *records, packed: bool = False) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    told = [record if isinstance(record, str) else json.dumps(record) for record in records]
    data = "".join(f"{line}\n" for line in told).encode()
    path.write_bytes(gzip.compress(data) if packed else data)
    return path


def ours(number: int, text: str, **fields):
    plain = {
        "platform": "test",
        "id": str(number),
        "room": "general",
        "author": {"id": "ana", "name": "Ana"},
        "text": text,
        "sent_at": "2025-03-01T12:00:00Z",
    }
    return plain | fields


async def found(
    logs: LogFolders,
    question: str,
    access: LogVisibility = OPERATOR,
    search_filter: SearchFilter | None = None,
):
    scanned = await log_search.scan_logs(
        logs, question, access, search_filter=search_filter or SearchFilter(), clock=time.monotonic
    )
    fit = best_candidates(scanned)
    return to_findings(scanned, question, fit, clean=lambda text: text, is_operator=access.is_operator)


def texts(read) -> list[str]:
    return [line.text for line in read.lines]


# Lines


def test_our_own_format_says_who_where_and_when():
    said = parse_line(json.dumps(ours(7, "hello")).encode())

    assert (said.text, said.author_name, said.platform, said.room) == ("hello", "Ana", "test", "general")
    assert (said.accounts[0], said.ids, said.sent_at) == ("ana", ["7"], NOON)
    assert said.is_exact


@pytest.mark.parametrize(
    ("record", "text", "author", "sent_at"),
    [
        ({"msg": "hi", "nick": "bo", "ts": 1740830400}, "hi", "bo", NOON),
        (
            {"content": "hi", "user": {"username": "bo", "id": 5}, "timestamp": 1740830400000},
            "hi",
            "bo",
            NOON,
        ),
        ({"message": {"text": "hi"}, "from": "bo", "time": "2025-03-01T12:00:00+00:00"}, "hi", "bo", NOON),
        ({"text": "hi", "ts": "1740830400.0"}, "hi", "", NOON),
        ({"text": "hi", "date": "yesterday"}, "hi", "", None),
        ({"text": "hi", "date": 1e300}, "hi", "", None),
        ({"text": "hi", "time": True}, "hi", "", None),
    ],
)
def test_other_formats_are_read_by_the_usual_names_and_never_exact(record, text, author, sent_at):
    said = parse_line(json.dumps(record).encode())

    assert (said.text, said.author_name, said.sent_at) == (text, author, sent_at)
    assert not said.is_exact


ASKED = {
    "type": "user",
    "uuid": "u1",
    "timestamp": "2025-03-01T12:00:00Z",
    "message": {"role": "user", "content": "where is the ferry?"},
}
ANSWERED = {
    "type": "assistant",
    "uuid": "u2",
    "timestamp": "2025-03-01T12:00:00Z",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "ferries are secret", "text": "ferries are secret"},
            {"type": "text", "text": "At the pier."},
            {"type": "tool_use", "id": "t1", "name": "tides", "input": {"text": "ferry"}},
            {"type": "text", "text": "It leaves at nine."},
        ],
    },
}
CALLED = {
    "type": "user",
    "message": {"role": "user", "content": [{"type": "tool_result", "content": "ferry late"}]},
}
RESPONSE = {
    "timestamp": "2025-03-01T12:00:00Z",
    "type": "response_item",
    "payload": {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "which ferry?"}],
    },
}


@pytest.mark.parametrize(
    ("record", "text", "author"),
    [
        (ASKED, "where is the ferry?", "user"),
        (ANSWERED, "At the pier.\nIt leaves at nine.", "assistant"),
        (RESPONSE, "which ferry?", "user"),
        (
            {"role": "assistant", "content": [{"type": "output_text", "text": "soon"}], "ts": 1740830400},
            "soon",
            "assistant",
        ),
        (
            {"from": "Ana", "date": 1740830400, "text": ["see ", {"type": "bold", "text": "pier"}, " 3"]},
            "see pier 3",
            "Ana",
        ),
        (
            {"message": {"author": {"name": "Bo"}, "content": "hi", "timestamp": "2025-03-01T12:00:00Z"}},
            "hi",
            "Bo",
        ),
    ],
)
def test_logs_of_sessions_with_agents_are_read(record, text, author):
    said = parse_line(json.dumps(record).encode())

    assert (said.text, said.author_name, said.sent_at) == (text, author, NOON)
    assert not said.is_exact


@pytest.mark.parametrize("mark", ["isMeta", "isSidechain", "isCompactSummary"])
def test_what_a_program_wrote_in_a_session_is_not_the_persons(mark):
    by_program = parse_line(json.dumps(ASKED | {mark: True}).encode())
    by_person = parse_line(json.dumps(ASKED | {mark: False}).encode())

    assert (by_program.author_name, by_program.is_for_all) == ("", False)
    assert (by_person.author_name, by_person.is_for_all) == ("user", True)


def test_only_user_and_assistant_lines_of_a_session_are_public():
    assert [parse_line(json.dumps(one).encode()).is_for_all for one in (ASKED, ANSWERED)] == [True, True]
    for kind in ("system", "summary", "whisper", "assistant"):
        assert not parse_line(json.dumps(ASKED | {"type": kind}).encode()).is_for_all
    # Without the side that speaks, the word is a kind of message that is not known.
    assert not parse_line(json.dumps({"type": "user", "text": "hi"}).encode()).is_for_all


async def test_a_line_without_words_is_not_broken(tmp_path):
    write(tmp_path / "logs", "session.jsonl", ASKED, CALLED, ANSWERED, {"type": "summary"}, "{ferry}")
    read = await found(LogFolders(folders=[tmp_path / "logs"]), "when does the ferry leave")

    assert texts(read) == ["At the pier.\nIt leaves at nine."]
    assert read.note == "broken lines skipped: 1"


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[]", b"1", b'{"text": ""}', b'{"text": 5}', b'{"level": "info"}', b"[" * 100_000]
)
def test_line_without_content_is_none(line):
    assert parse_line(line) is None


@settings(max_examples=30)
@given(
    st.dictionaries(
        st.sampled_from(
            ["text", "author", "room", "id", "sent_at", "ts", "mentions", "kind", "deleted", "platform"]
        ),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "name"]), inner)
            ),
            max_leaves=5,
        ),
    )
)
def test_any_line_parses_to_storable_text(record):
    said = parse_line(json.dumps(record).encode())

    if said is not None:
        told = (said.author_name, said.text, *said.accounts, *said.mentions, *said.ids, said.room)
        assert all("\0" not in word and word.encode() is not None for word in told)


def test_a_word_is_the_same_with_its_endings_and_words_that_say_nothing_are_none():
    assert query_terms("Where do the ferries and the Ferry leave?") == ["ferri", "ferry", "leav"]
    assert query_terms("leaving leaves left") == ["leav", "left"]
    assert query_terms("what is it?") == []


# Files


def test_log_files_of_all_folders_are_read_packed_or_not_and_no_others(tmp_path):
    write(tmp_path / "logs", "a.jsonl", "{1}")
    write(tmp_path / "logs", "deep/er/b.ndjson.gz", "{2}", packed=True)
    write(tmp_path / "more", "c.jsonl", "{3}")
    for other in ("notes.txt", ".hidden.jsonl", ".git/d.jsonl", "secrets.env"):
        write(tmp_path / "logs", other, "{4}")

    read = list(read_lines([tmp_path / "logs", tmp_path / "more", tmp_path / "nowhere"], budget()))

    assert [(line.file, line.number, line.data) for line in read] == [
        ("logs/a.jsonl", 1, b"{1}\n"),
        ("logs/deep/er/b.ndjson.gz", 1, b"{2}\n"),
        ("more/c.jsonl", 1, b"{3}\n"),
    ]


def test_links_and_special_files_are_not_read(tmp_path):
    outside = write(tmp_path / "outside", "secret.jsonl", "{1}")
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "link.jsonl").symlink_to(outside)
    (logs / "linked").symlink_to(outside.parent)
    (logs / "loop").symlink_to(logs)
    os.mkfifo(logs / "pipe.jsonl")
    (logs / "folder.jsonl").mkdir()

    assert list(read_lines([logs], budget())) == []


def test_folder_may_be_a_link_and_its_path_is_not_revealed(tmp_path):
    write(tmp_path / "somewhere", "a.jsonl", "{1}")
    (tmp_path / "logs").symlink_to(tmp_path / "somewhere")

    assert [line.file for line in read_lines([tmp_path / "logs"], budget())] == ["logs/a.jsonl"]


def test_unreadable_files_are_reported_with_reason_and_without_path(tmp_path, monkeypatch):
    logs = tmp_path / "logs"
    write(logs, "a.jsonl", "{1}")
    write(logs, "locked.jsonl", "{2}")
    write(logs, "deep/locked/b.jsonl", "{3}")
    (logs / "link.jsonl").symlink_to(logs / "a.jsonl")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "file").write_text("{}")
    original = os.open

    def opened(name, flags, *args, **given):
        # The tests may run as root, who may open everything.
        if str(name).startswith("locked"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
        return original(name, flags, *args, **given)

    monkeypatch.setattr(log_search.os, "open", opened)
    unread: list[str] = []
    folders = [logs, tmp_path / "nowhere", tmp_path / "file", tmp_path / "loop"]

    read = list(read_lines(folders, budget(), unreadable=unread.append))

    assert [line.file for line in read] == ["logs/a.jsonl"]
    assert unread == [
        "logs/locked.jsonl: Permission denied",
        "logs/…/locked: Permission denied",
        "nowhere: No such file or directory",
        "file: Not a directory",
        "loop: Too many levels of symbolic links",
    ]


def test_unreadable_folder_is_reported_and_the_next_one_is_read(tmp_path, monkeypatch):
    write(tmp_path / "locked", "a.jsonl", "{1}")
    write(tmp_path / "logs", "a.jsonl", "{2}")
    original = os.fwalk

    def walk(top, **given):
        if Path(top).name == "locked":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(top))
        return original(top, **given)

    monkeypatch.setattr(log_search.os, "fwalk", walk)
    unread: list[str] = []

    read = list(read_lines([tmp_path / "locked", tmp_path / "logs"], budget(), unreadable=unread.append))

    assert [line.file for line in read] == ["logs/a.jsonl"]
    assert unread == ["locked: Permission denied"]


def test_reading_ends_with_the_bytes_and_says_so(tmp_path):
    write(tmp_path, "a.jsonl", *("x" * 99 for _ in range(100)))
    limited = budget(bytes_left=1_000)

    assert len(list(read_lines([tmp_path], limited))) == 10
    assert limited.cut_short == "too large to be read whole"


def test_a_bomb_counts_as_unpacked(tmp_path):
    (tmp_path / "bomb.jsonl.gz").write_bytes(gzip.compress(b"x" * 50_000_000))
    limited = budget(bytes_left=3 * LONGEST_LINE)

    assert list(read_lines([tmp_path], limited)) == []
    assert limited.cut_short == "too large to be read whole"


def test_reading_ends_with_the_time_and_says_so(tmp_path):
    write(tmp_path, "a.jsonl", *("{}" for _ in range(100)))
    ticks = iter(range(1_000))
    limited = budget(deadline=9.5, clock=lambda: float(next(ticks)))

    assert len(list(read_lines([tmp_path], limited))) == 10
    assert limited.cut_short == "out of time"


def test_a_line_without_end_is_left_out_and_the_next_one_read(tmp_path):
    write(tmp_path, "a.jsonl", "x" * (2 * LONGEST_LINE + 5), "{}")

    assert [line.data for line in read_lines([tmp_path], budget())] == [None, b"{}\n"]


@pytest.mark.parametrize("cut", [5, 30])
def test_a_damaged_archive_is_one_broken_line(tmp_path, cut):
    path = write(tmp_path, "a.jsonl.gz", *("some words" for _ in range(50)), packed=True)
    path.write_bytes(path.read_bytes()[:cut])
    write(tmp_path, "b.jsonl", "{}")

    read = {line.file.split("/")[-1]: line.data for line in read_lines([tmp_path], budget())}

    assert read == {"a.jsonl.gz": None, "b.jsonl": b"{}\n"}


# Finding


async def test_the_line_with_the_rarest_words_comes_first(tmp_path):
    logs = LogFolders(folders=[tmp_path])
    write(
        tmp_path, "a.jsonl", ours(1, "the ferry is late"), ours(2, "the ferry leaves at nine"), ours(3, "tea")
    )

    read = await found(logs, "when does the ferry leave?")

    assert texts(read) == ["the ferry leaves at nine", "the ferry is late"]
    assert read.matched == 2
    first = read.lines[0]
    assert (first.file, first.number, first.author_name) == (f"{tmp_path.name}/a.jsonl", 2, "Ana")
    assert first.strength == 0.5 > read.lines[1].strength > 0


async def test_questions_and_deleted_messages_are_no_answers(tmp_path):
    write(
        tmp_path,
        "a.jsonl",
        ours(1, "when does the ferry leave?"),
        ours(2, "the ferry leaves at nine"),
        ours(2, "", deleted=True),
        ours(2, "the ferry leaves at ten", room="other"),
    )

    assert texts(await found(LogFolders(folders=[tmp_path]), "when does the ferry leave")) == [
        "the ferry leaves at ten"
    ]


async def test_note_counts_broken_lines_and_states_the_cut(tmp_path):
    write(tmp_path, "a.jsonl", "nonsense", '{"text": "ferry', ours(1, "the ferry"), '{"text": "ferry", }')

    read = await found(LogFolders(folders=[tmp_path]), "ferry")
    assert texts(read) == ["the ferry"]
    assert read.note == "broken lines skipped: 3"

    read = await found(LogFolders(folders=[tmp_path], most_bytes=5), "ferry")
    assert (texts(read), read.note) == ([], "cut short: too large to be read whole")


async def test_best_of_very_many_lines_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(log_search, "MAX_KEPT", 20)
    plain = [ours(number, f"ferry number {number}") for number in range(200)]
    plain[137] = ours(137, "the ferry leaves at nine")
    write(tmp_path, "a.jsonl", *plain)

    read = await found(LogFolders(folders=[tmp_path]), "when does the ferry leave")

    assert read.lines[0].number == 138
    assert len(read.lines) == read.matched <= 20
    assert read.note == "more lines share words with it than are kept"


async def test_words_of_other_alphabets_are_found_however_they_are_written(tmp_path):
    write(tmp_path, "a.jsonl", json.dumps(ours(1, "паром уходит в девять")))

    assert texts(await found(LogFolders(folders=[tmp_path]), "когда уходит паром")) == [
        "паром уходит в девять"
    ]


async def test_since_and_until_narrow_the_lines(tmp_path):
    stamps = [f"2025-03-0{day}T12:00:00Z" for day in (1, 2, 3)]
    write(tmp_path, "a.jsonl", *(ours(day, "the ferry", sent_at=stamp) for day, stamp in enumerate(stamps)))
    write(tmp_path, "b.jsonl", {"text": "ferry without time"})
    scope = SearchFilter(since=datetime(2025, 3, 2, tzinfo=UTC), until=datetime(2025, 3, 3, tzinfo=UTC))

    read = await found(LogFolders(folders=[tmp_path]), "ferry", search_filter=scope)

    assert [line.number for line in read.lines] == [2]


async def test_a_cancelled_reading_ends(tmp_path):
    write(tmp_path, "a.jsonl", *(ours(number, "ferry") for number in range(2_000)))
    ended, going = threading.Event(), threading.Event()

    def clock() -> float:
        going.set()
        return 0.0

    logs = LogFolders(folders=[tmp_path] * 5_000)
    original = log_search._LogReader.read

    def read(self, limits):
        try:
            return original(self, limits)
        finally:
            ended.set()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_search._LogReader, "read", read)
        task = asyncio.create_task(
            log_search.scan_logs(logs, "ferry", OPERATOR, search_filter=SearchFilter(), clock=clock)
        )
        await asyncio.to_thread(going.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(ended.wait, 20)


# For whom


@pytest.fixture
def mapped(tmp_path) -> LogFolders:
    write(
        tmp_path,
        "general.jsonl",
        ours(1, "ferry early", sent_at="2025-03-01T10:00:00Z"),
        ours(2, "ferry late", sent_at="2025-03-01T14:00:00Z"),
        ours(3, "ferry whispered", kind="whisper"),
        ours(4, "ferry for some", audience=["bo"]),
        ours(5, "ferry elsewhere", room="other"),
        {"text": "ferry without time", "author": "ana"},
    )
    write(tmp_path, "unmapped.jsonl", ours(6, "ferry unmapped"))
    return LogFolders(folders=[tmp_path], rooms={f"{tmp_path.name}/general*": ("test", "general")})


async def test_an_operator_sees_every_line(mapped):
    assert len(texts(await found(mapped, "ferry"))) == 7


@pytest.mark.parametrize(
    ("rooms", "seen"),
    [
        ({}, []),
        ({("test", "other"): None}, []),
        ({("irc", "general"): None}, []),
        ({("test", "general"): []}, []),
        ({("test", "general"): None}, ["ferry early", "ferry late"]),
        (
            {("test", "general"): [MembershipPeriod(room_id=GENERAL, joined_at=None, left_at=NOON)]},
            ["ferry early"],
        ),
        (
            {("test", "general"): [MembershipPeriod(room_id=GENERAL, joined_at=NOON, left_at=None)]},
            ["ferry late"],
        ),
    ],
)
async def test_others_see_ordinary_lines_of_a_mapped_room_as_of_their_time_there(mapped, rooms, seen):
    read = await found(mapped, "ferry", LogVisibility(is_operator=False, rooms=rooms))

    assert sorted(texts(read)) == seen
    assert read.matched == len(seen)
    assert "left out" not in read.note


@pytest.mark.parametrize(
    "fields",
    [
        {"to": ["Bob"]},
        {"recipients": ["Bob"]},
        {"recipient": "Bob"},
        {"audience": []},
        {"kind": ["whisper"]},
        {"kind": {"of": "whisper"}},
        {"type": "whisper"},
        {"subtype": "bot_message"},
        {"type": "message", "subtype": 5},
    ],
)
@pytest.mark.parametrize("is_within", [False, True])
async def test_addressed_and_special_lines_are_for_operators(tmp_path, fields, is_within):
    plain = {"user": "Ana", "ts": NOON.timestamp()}
    told = {"message": {"text": "ferry"} | fields} if is_within else {"text": "ferry"} | fields
    write(tmp_path, "a.jsonl", plain | told)
    logs = LogFolders(folders=[tmp_path], rooms={"*/*": ("slack", "C1")})
    member = LogVisibility(is_operator=False, rooms={("slack", "C1"): None})

    assert texts(await found(logs, "ferry")) == ["ferry"]
    read = await found(logs, "ferry", member)
    assert (texts(read), read.matched) == ([], 0)


@pytest.mark.parametrize(
    ("fields", "is_shown"),
    [
        ({}, True),
        ({"channel": "C1"}, True),
        ({"channel": {"id": "C1", "name": "hr-private"}}, True),
        ({"platform": "slack"}, True),
        ({"channel": "", "to": [], "recipients": None, "type": "message", "subtype": "", "kind": None}, True),
        ({"channel": "hr-private"}, False),
        ({"channel": {"name": "hr-private"}}, False),
        ({"channel": ["hr-private"]}, False),
        ({"room": [], "channel": "hr-private"}, False),
        ({"channel_name": "hr-private"}, False),
        ({"platform": "irc"}, False),
        ({"platform": "irc", "channel": "C1"}, False),
    ],
)
async def test_a_line_that_names_another_room_or_platform_is_for_operators(tmp_path, fields, is_shown):
    write(tmp_path, "a.jsonl", {"user": "Ana", "text": "ferry", "ts": NOON.timestamp()} | fields)
    logs = LogFolders(folders=[tmp_path], rooms={"*/*": ("slack", "C1")})
    member = LogVisibility(is_operator=False, rooms={("slack", "C1"): None, ("slack", "hr-private"): None})

    assert texts(await found(logs, "ferry")) == ["ferry"]
    assert texts(await found(logs, "ferry", member)) == ["ferry"] * is_shown


@pytest.mark.parametrize(
    ("pattern", "file", "is_mapped"),
    [
        ("bots/general-*.jsonl", "bots/general-1.jsonl", True),
        ("bots/general-*.jsonl", "bots/general-.jsonl", True),
        ("bots/general-*.jsonl", "bots/general-private/secret.jsonl", False),
        ("bots/*", "bots/a.jsonl", True),
        ("bots/*", "bots/deep/a.jsonl", False),
        ("bots/*/*", "bots/deep/a.jsonl", True),
        ("bots/general?*", "bots/general/secret.jsonl", False),
        ("bots[!a]*", "bots/secret.jsonl", False),
        ("*", "bots/a.jsonl", False),
        ("*.jsonl", "bots/a.jsonl", False),
        ("**/a.jsonl", "bots/deep/a.jsonl", False),
        ("bots/General.jsonl", "bots/general.jsonl", False),
    ],
)
def test_a_pattern_reaches_into_no_folder_that_it_does_not_name(pattern, file, is_mapped):
    logs = LogFolders(folders=[], rooms={pattern: ("test", "general")})

    assert (logs.room_of(file) is not None) == is_mapped


async def test_a_file_in_a_folder_that_only_begins_like_a_mapped_file_is_not_shown(tmp_path):
    write(tmp_path, "bots/general-1.jsonl", ours(1, "ferry"))
    write(tmp_path, "bots/general-private/secret.jsonl", ours(2, "ferry in secret"))
    logs = LogFolders(folders=[tmp_path / "bots"], rooms={"bots/general-*.jsonl": ("test", "general")})

    assert texts(
        await found(logs, "ferry", LogVisibility(is_operator=False, rooms={("test", "general"): None}))
    ) == ["ferry"]


@pytest.mark.parametrize("second", ["b/bots", "a/bots/bots", "a/../b/bots"])
async def test_two_folders_of_the_same_name_are_refused_and_others_find_nothing(tmp_path, second):
    write(tmp_path, "a/bots/general.jsonl", ours(1, "ferry"))
    write(tmp_path, f"{second}/general.jsonl", ours(2, "ferry in secret"))
    folders = [tmp_path / "a/bots", tmp_path / second]
    logs = LogFolders(folders=folders, rooms={"bots/general.jsonl": ("test", "general")})

    with pytest.raises(BadInput, match="same name") as refused:
        await found(logs, "ferry")
    assert all(repr(str(folder)) in str(refused.value) for folder in folders)
    member = LogVisibility(is_operator=False, rooms={("test", "general"): None})
    read = await found(logs, "ferry", member)
    assert (texts(read), read.matched, read.note) == ([], 0, "")


async def test_the_same_folder_named_twice_is_no_other(tmp_path):
    write(tmp_path, "a.jsonl", ours(1, "ferry"))

    assert (await found(LogFolders(folders=[tmp_path, tmp_path]), "ferry")).lines


async def test_unreadable_files_are_named_to_operators_up_to_a_limit(tmp_path, mapped):
    missing = [tmp_path / f"gone{number}" for number in range(5)]
    logs = LogFolders(folders=[*mapped.folders, *missing], rooms=mapped.rooms)
    member = LogVisibility(is_operator=False, rooms={("test", "general"): None})

    why = "No such file or directory"
    assert (await found(logs, "ferry")).note == (
        f"could not be read: gone0: {why}, gone1: {why}, gone2: {why}, and 2 more"
    )
    assert await found(logs, "ferry", member) == await found(mapped, "ferry", member)


def test_possible_rooms_are_the_mapped_and_the_stated_one():
    said = parse_line(b'{"text": "ferry", "channel": "hr"}')

    assert said.possible_rooms(("slack", "C1")) == [("slack", "C1"), ("slack", "hr")]
    assert said.possible_rooms(None) == []


def test_a_room_by_its_name_alone_is_not_exact():
    assert not parse_line(json.dumps(ours(7, "hello", room={"name": "general"})).encode()).is_exact


async def test_broken_lines_are_counted_for_operators_only(tmp_path):
    write(tmp_path, "a.jsonl", "{salary 91k}", {"event": {"text": "salary 91k"}})
    logs = LogFolders(folders=[tmp_path], rooms={"*/*": ("test", "general")})
    member = LogVisibility(is_operator=False, rooms={("test", "general"): None})

    assert (await found(logs, "salary")).note == "broken lines skipped: 1"
    assert await found(logs, "salary", member) == await found(logs, "wages", member)


async def test_invisible_lines_do_not_change_scores(mapped, tmp_path):
    member = LogVisibility(is_operator=False, rooms={("test", "general"): None})
    before = await found(mapped, "early ferry", member)
    write(tmp_path, "secret.jsonl", *(ours(number, "early ferry early") for number in range(20)))
    write(tmp_path, "broken.jsonl", "{nonsense", "x" * 10)

    assert await found(mapped, "early ferry", member) == before
