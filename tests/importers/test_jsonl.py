import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from roomlore.importers.jsonl import IMPORTER
from roomlore.importers.reading.export import open_export
from roomlore.importers.reading.text_lines import MAX_LINE_BYTES

PAGE = Path(__file__).parents[2] / "docs" / "jsonl.md"


def line(**more):
    return {
        "schema": "roomlore.message/1",
        "room": "r",
        "id": "1",
        "author": "ana",
        "text": "hi",
        "sent_at": 1700000000123,
    } | more


@pytest.fixture
def lines(read, write):
    def run(*records):
        text = "\n".join(record if isinstance(record, str) else json.dumps(record) for record in records)
        return read(IMPORTER, write({"m.jsonl": text}) / "m.jsonl")

    return run


def test_the_example_of_the_reference_page_reads_as_it_says(read, write):
    match = re.search(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert match
    root = write({"messages.jsonl": match[1]})
    with open_export(root / "messages.jsonl") as source:
        assert IMPORTER.recognises(source)
    result = read(IMPORTER, root / "messages.jsonl")
    assert result.skipped == []
    first, second, third, fourth = result.messages
    assert {
        (m.platform, m.room.external_id, m.room.name, m.room.visibility, len(m.room.members))
        for m in result.messages
    } == {("campfire", "kitchen", "Kitchen table", "members", 3)}
    assert first.sent_at == datetime(2025, 3, 1, 8, tzinfo=UTC)
    assert (second.author.kind, second.reply_to) == ("agent", "1")
    assert (third.author.persona, third.author.bridged, third.mentions) == ("Cleo", True, ["ben"])
    assert third.metadata == {"platform": {"history_lost": True}}
    assert (fourth.kind, [who.account_id for who in fourth.audience]) == ("whisper", ["ana"])


def test_every_key_of_the_record_is_on_the_reference_page():
    page = PAGE.read_text(encoding="utf-8")
    source = Path(IMPORTER.read.__code__.co_filename).read_text(encoding="utf-8")
    used = set(
        re.findall(
            r'(?:text_field|required_id|object_list|object_field|_flag|get)\((?:fields(?:\.get\()?, )?"(\w+)"',
            source,
        )
    )
    assert len(used) > 15
    assert {key for key in used if f"`{key}`" not in page and f'"{key}"' not in page} == set()


def test_a_message_with_an_audience_is_a_whisper_even_to_nobody(lines):
    result = lines(
        line(audience=["ben", {"id": "bot", "kind": "agent"}]),
        line(id="2", audience=[]),
        line(id="3", kind="whisper"),
    )
    assert [(m.kind, [who.account_id for who in m.audience]) for m in result.messages] == [
        ("whisper", ["ben", "bot"]),
        ("whisper", []),
        ("whisper", []),
    ]


def test_direct_rooms_are_for_members_and_stay_so_when_named_by_id(lines):
    result = lines(
        line(room={"id": "r", "kind": "dm", "members": ["ana"]}),
        line(id="2"),
        line(id="3", room={"id": "r", "name": "R"}),
        line(id="4", room="other"),
    )
    assert [(m.room.visibility, len(m.room.members)) for m in result.messages] == [
        ("members", 1),
        ("members", 1),
        ("members", 1),
        (None, 0),
    ]


def test_members_may_have_times(lines):
    (member,) = lines(
        line(
            room={
                "id": "r",
                "members": [{"id": "ana", "joined_at": "2024-01-01T00:00:00Z", "left_at": 1700000000000}],
            }
        )
    ).only.room.members
    assert member.joined_at == datetime(2024, 1, 1, tzinfo=UTC)
    assert member.left_at == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    ("written", "moment", "precision"),
    [
        (1700000000123, datetime(2023, 11, 14, 22, 13, 20, 123000, UTC), "ms"),
        (-1, datetime(1969, 12, 31, 23, 59, 59, 999000, UTC), "ms"),
        ("2024-05-01T10:00+02:00", datetime(2024, 5, 1, 8, tzinfo=UTC), "min"),
        ("2024-05-01T10:00:01Z", datetime(2024, 5, 1, 10, 0, 1, tzinfo=UTC), "s"),
        ("2024-05-01T10:00:01.5Z", datetime(2024, 5, 1, 10, 0, 1, 500000, UTC), "ms"),
        ("2024-05-01T10:00:01.123456Z", datetime(2024, 5, 1, 10, 0, 1, 123456, UTC), "us"),
    ],
)
def test_times_are_as_fine_as_written(lines, written, moment, precision):
    message = lines(line(sent_at=written)).only
    assert (message.sent_at, message.precision) == (moment, precision)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("{", "not JSON"),
        ("[1]", "not an object"),
        ('{"a": NaN}', "not JSON"),
        ('{"a": ' + "9" * 5000 + "}", "not JSON"),
        ("[" * 100_000, "nested too deeply"),
        (line(metadata=json.loads("[" * 80 + "]" * 80)), "nested too deeply"),
        (line(schema="roomlore.message/9"), "unknown schema"),
        (line(id=5), "wrong type"),
        (line(id=None), "no id"),
        (line(id="x" * 256), "id too long"),
        (line(author=None), "no author"),
        (line(author={}), "no author"),
        (line(author=[]), "wrong type"),
        (line(author={"id": "a", "kind": "robot"}), "unknown participant kind"),
        (line(author={"id": "a", "bridged": "yes"}), "wrong type"),
        (line(room=None), "no room"),
        (line(room=5), "wrong type"),
        (line(room={"id": "r", "visibility": "maybe"}), "unknown visibility"),
        (line(room={"id": "r", "members": "all"}), "wrong type"),
        (line(kind="shout"), "unknown message kind"),
        (line(audience="ben"), "wrong type"),
        (line(audience=[None]), "no author"),
        (line(text={"a": 1}), "wrong type"),
        (line(sent_at=None), "no time"),
        (line(sent_at=True), "no time"),
        (line(sent_at=1.5), "no time"),
        (line(sent_at=10**18), "no time"),
        (line(sent_at="2024-05-01T10:00:00"), "no time zone"),
        (line(deleted="no"), "wrong type"),
        (line(edited_at="x"), "no time"),
    ],
)
def test_a_broken_line_is_skipped_with_its_reason_and_the_rest_goes_in(lines, broken, reason):
    result = lines(line(id="a"), broken, "", line(id="b"))
    assert [message.external_id for message in result.messages] == ["a", "b"]
    assert [(item.where, item.reason) for item in result.skipped] == [("m.jsonl line 2", reason)]


def test_a_line_without_end_costs_only_itself(read, write):
    good = json.dumps(line()).encode()
    huge = b'{"id": "' + b"x" * (MAX_LINE_BYTES + 10) + b'"}'
    result = read(IMPORTER, write({"m.jsonl": b"\n".join([good, huge, good])}))
    assert len(result.messages) == 2
    assert [(item.where, item.reason) for item in result.skipped] == [("m.jsonl line 2", "line too long")]


def test_half_a_surrogate_pair_and_infinity_become_storable(lines):
    text = (
        json.dumps(line(text="X", metadata={"X": 1})).replace('"X"', '"\\ud800x"').replace(": 1}", ": 1e999}")
    )
    message = lines(text).only
    assert message.body == "�x"
    assert message.metadata == {"�x": None}
    assert "\\ud800" not in json.dumps(message.raw)


def test_only_a_first_line_with_the_schema_is_recognised(write):
    for text, known in [
        (json.dumps(line()), True),
        ("\ufeff" + json.dumps(line()), True),
        ('{"id": "1"}', False),
        ("", False),
        ("[]", False),
    ]:
        with open_export(write({"m.jsonl": text}) / "m.jsonl") as source:
            assert IMPORTER.recognises(source) is known


def test_an_unknown_field_is_reported_once_and_its_messages_go_in(lines):
    result = lines(line(id="1", mood="glad"), line(id="2", mood="sad", author={"id": "ana", "colour": "red"}))
    assert [one.external_id for one in result.messages] == ["1", "2"]
    assert [(one.where, one.reason, one.detail.partition(":")[0]) for one in result.skipped] == [
        ("m.jsonl line 1", "unknown field", "mood"),
        ("m.jsonl line 2", "unknown field", "author.colour"),
    ]


@pytest.mark.parametrize(
    "misspelt",
    [
        {"room": {"id": "r", "visibilty": "members"}},
        {"room": {"id": "r", "Members": ["ana"]}},
        {"audiance": ["ben"]},
        {"delete": True},
    ],
)
def test_a_misspelt_field_that_would_have_closed_a_message_keeps_it_out(lines, misspelt):
    result = lines(line(**misspelt))
    assert (result.messages, [one.reason for one in result.skipped]) == ([], ["unknown field"])
