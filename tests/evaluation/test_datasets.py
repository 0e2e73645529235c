import gzip
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from evaluation.datasets import (
    Link,
    check_files,
    read_context,
    read_conversations,
    read_gold,
    read_links,
    read_messages,
    read_questions,
)
from roomlore.domain.errors import BadInput

MESSAGE = {
    "id": "m1",
    "room": "camp",
    "author_id": "ana",
    "author_name": "Ana",
    "is_bot": False,
    "timestamp": "2024-05-01T09:30",
    "text": "who has the tent?",
}
QUESTION = {
    "id": "q1",
    "room": "camp",
    "question": "Who brings the tent?",
    "evidence_message_ids": ["m2"],
    "answer": "Bo",
    "category": "who",
    "answerable": True,
    "split": "dev",
}


def write(folder: Path, name: str, *records: object):
    (folder / name).write_text("".join(json.dumps(record) + "\n" for record in records))


def test_messages_are_read_with_what_is_optional_left_empty(tmp_path):
    write(tmp_path, "messages.jsonl", MESSAGE)
    (message,) = read_messages(tmp_path)
    assert message.text == "who has the tent?"
    assert message.timestamp == datetime(2024, 5, 1, 9, 30, tzinfo=UTC)
    assert (message.reply_to, message.system) == (None, False)


def test_messages_are_read_with_everything_a_source_tells(tmp_path):
    more = {"reply_to": "m0", "system": True, "mentions": ["bo"]}
    write(tmp_path, "messages.jsonl", MESSAGE | more | {"timestamp": "2024-05-01T09:30:00+02:00"})
    (message,) = read_messages(tmp_path)
    assert message.timestamp == datetime(2024, 5, 1, 7, 30, tzinfo=UTC)
    assert (message.reply_to, message.system) == ("m0", True)


def test_messages_without_a_time_have_none(tmp_path):
    write(tmp_path, "messages.jsonl", MESSAGE | {"timestamp": None})
    assert read_messages(tmp_path)[0].timestamp is None


@pytest.mark.parametrize(
    "written",
    [
        "2024-05-01T09:30:00",
        "2024-05-01T09:30:00Z",
        "2024-05-01 11:30+02:00",
        "20240501T093000",
        1714555800,
        1714555800.0,
        "1714555800",
        "1714555800.000000",
        1714555800000,
        1714555800000000,
    ],
    ids=repr,
)
def test_the_same_time_is_read_however_it_is_written(written, tmp_path):
    write(tmp_path, "messages.jsonl", MESSAGE | {"timestamp": written})
    assert read_messages(tmp_path)[0].timestamp == datetime(2024, 5, 1, 9, 30, tzinfo=UTC)


def test_parts_of_a_second_are_kept(tmp_path):
    write(
        tmp_path,
        "messages.jsonl",
        MESSAGE | {"timestamp": "1714555800.000200"},
        MESSAGE | {"timestamp": 1714555800123},
        MESSAGE | {"timestamp": "2024-05-01T09:30:00.5"},
    )
    assert [message.timestamp.microsecond for message in read_messages(tmp_path)] == [200, 123_000, 500_000]


def test_a_message_that_does_not_say_whether_a_bot_wrote_it_is_a_persons(tmp_path):
    write(tmp_path, "messages.jsonl", {name: value for name, value in MESSAGE.items() if name != "is_bot"})
    assert read_messages(tmp_path)[0].is_bot is False


def test_questions_are_read_with_the_patterns_of_their_extras(tmp_path):
    extra = {"include": ["nine"], "leak_targets": ["4711"], "domain": "camping"}
    write(
        tmp_path,
        "questions.jsonl",
        QUESTION,
        QUESTION | {"extra": extra, "as_of_message_id": "m9", "answer": None},
    )
    plain, rich = read_questions(tmp_path)
    assert (plain.include, plain.leak_targets, plain.as_of_message_id) == ((), (), None)
    assert (rich.include, rich.leak_targets, rich.as_of_message_id) == (("nine",), ("4711",), "m9")


def test_context_is_read(tmp_path):
    item = {
        "id": "c1",
        "room": "camp",
        "trigger_message_id": "m3",
        "gold_context_ids": ["m1", "m2"],
        "gold_parent_ids": ["m2"],
        "judged_from_id": "m1",
    }
    write(tmp_path, "context.jsonl", item)
    (read,) = read_context(tmp_path)
    assert (read.gold_context_ids, read.gold_parent_ids) == (("m1", "m2"), ("m2",))


def test_links_are_read(tmp_path):
    write(tmp_path, "links.jsonl", {"room": "camp", "child": "m2", "parent": "m1"})
    assert read_links(tmp_path) == [Link(child="m2", parent="m1")]


def test_conversations_are_read(tmp_path):
    write(tmp_path, "conversations.jsonl", {"room": "camp", "message_ids": ["m1", "m3"], "topic": "tents"})
    (one,) = read_conversations(tmp_path)
    assert (one.room, one.message_ids) == ("camp", ("m1", "m3"))


def test_only_the_labels_that_are_asked_for_are_read(tmp_path):
    write(tmp_path, "links.jsonl", {"child": "m2", "parent": "m1"})
    write(tmp_path, "questions.jsonl", {"damaged": True})
    gold = read_gold(tmp_path, ("messages", "links"))
    assert gold.links == [Link(child="m2", parent="m1")]
    assert (gold.questions, gold.context, gold.conversations) == ((), (), ())


def test_a_file_that_a_task_needs_is_named_with_the_task(tmp_path):
    write(tmp_path, "messages.jsonl", MESSAGE)
    (tmp_path / "links.jsonl.gz").write_bytes(b"")
    check_files(tmp_path, "links", ["messages", "links"])
    with pytest.raises(
        BadInput,
        match=r"neither conversations\.jsonl nor conversations\.jsonl\.gz, which the task links needs",
    ):
        check_files(tmp_path, "links", ["messages", "links", "conversations"])


def test_packed_files_read_like_plain_ones_and_blank_lines_are_skipped(tmp_path):
    lines = json.dumps(MESSAGE) + "\n\n" + json.dumps(MESSAGE | {"id": "m2", "text": "日本語"}) + "\n"
    (tmp_path / "messages.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    packed = read_messages(tmp_path)
    (tmp_path / "messages.jsonl").write_text(lines, "utf-8")
    assert read_messages(tmp_path) == packed
    assert [message.id for message in packed] == ["m1", "m2"]


@pytest.mark.parametrize(
    "read", [read_messages, read_questions, read_context, read_links, read_conversations]
)
def test_a_missing_file_is_told(read, tmp_path):
    with pytest.raises(BadInput, match="has neither"):
        read(tmp_path)
    with pytest.raises(BadInput, match="has neither"):
        read(tmp_path / "nowhere")


@pytest.mark.parametrize("damage", ["cut short", "not packed", "only a head"])
def test_a_damaged_archive_is_told(damage, tmp_path):
    packed = gzip.compress((json.dumps(MESSAGE) * 50).encode())
    content = {"cut short": packed[:-12], "not packed": b"junk" + packed, "only a head": b"\x1f\x8b"}[damage]
    (tmp_path / "messages.jsonl.gz").write_bytes(content)
    with pytest.raises(BadInput, match=r"messages\.jsonl\.gz: cannot be read"):
        read_messages(tmp_path)


@pytest.mark.parametrize("line", [b"{", b"\xff\xfe", b"[" * 100_000])
def test_a_line_that_is_not_json_is_told_with_its_number(line, tmp_path):
    (tmp_path / "messages.jsonl").write_bytes(json.dumps(MESSAGE).encode() + b"\n" + line)
    with pytest.raises(BadInput, match="line 2: not JSON"):
        read_messages(tmp_path)


def test_a_line_that_is_no_object_is_told(tmp_path):
    write(tmp_path, "messages.jsonl", [1])
    with pytest.raises(BadInput, match="line 1: not an object"):
        read_messages(tmp_path)


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("text", None, "missing required field `text`"),
        ("text", 3, r"Expected `str`, got `int` - at `\$\.text`"),
        ("is_bot", 1, r"Expected `bool`, got `int` - at `\$\.is_bot`"),
        ("timestamp", "yesterday", "`timestamp` is not a time"),
        ("timestamp", "0001-01-01T00:00+14:00", "`timestamp` is not a time"),
        ("timestamp", 12, "`timestamp` is not a time"),
        ("timestamp", True, "`timestamp` is not a time"),
        ("timestamp", ["2024"], "`timestamp` is not a time"),
    ],
)
def test_a_field_of_the_wrong_kind_is_told(field, value, why, tmp_path):
    write(tmp_path, "messages.jsonl", MESSAGE | {field: value})
    with pytest.raises(BadInput, match=f"line 1: .*{why}"):
        read_messages(tmp_path)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"answerable": None}, "missing required field `answerable`"),
        ({"evidence_message_ids": "m2"}, "Expected `array`, got `str`"),
        (
            {"evidence_message_ids": ["m2", 1]},
            r"Expected `str`, got `int` - at `\$\.evidence_message_ids\[1\]`",
        ),
        ({"extra": ["x"]}, "Expected `object`, got `array`"),
    ],
)
def test_a_question_that_is_none_is_told(changed, why, tmp_path):
    write(tmp_path, "questions.jsonl", QUESTION | changed)
    with pytest.raises(BadInput, match=f"line 1: .*{why}"):
        read_questions(tmp_path)
