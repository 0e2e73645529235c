"""Memories kept in Qdrant read back as the threads they were, whichever way their points hold them."""

import copy
import json
import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from importers.conftest import Read
from roomlore.domain.incoming import IncomingAuthor, IncomingMessage, SkippedRecord
from roomlore.domain.ports import ReadOptions
from roomlore.importers.qdrant import IMPORTER
from roomlore.importers.reading.export import open_export
from roomlore.operations import App

NOON = datetime(2025, 3, 1, 12, 0, 0, 198631, tzinfo=UTC)
STEP = timedelta(milliseconds=1)
#: What was asked and answered, and how many seconds after noon.
TALK = [
    (0, "Which ferry goes to the island?", "The green one, at nine."),
    (60, "And back?", "At five; the last one."),
    (3600, "Thanks!", "Safe travels."),
]
quick = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

Point = dict[str, Any]


def point(number: int, **payload: Any) -> Point:
    known = {"user_id": "672", "memory_type": "conversation", "channel_id": "harbour", "bot_name": "Pip"}
    return {"id": f"0000-{number}", "payload": known | payload, "vector": [0.25, -1.0]}


def stamp(at: datetime) -> str:
    """As such memories write it: in UTC, and they do not say so."""
    return at.replace(tzinfo=None).isoformat()


def pairs(**more: Any) -> list[Point]:
    return [
        point(
            number,
            role="conversation_pair",
            source="conversation_pair",
            content=asked,
            user_message=asked,
            bot_response=answered,
            timestamp=stamp(NOON + timedelta(seconds=seconds)),
            **more,
        )
        for number, (seconds, asked, answered) in enumerate(TALK)
    ]


def apart(**more: Any) -> list[Point]:
    points: list[Point] = []
    for number, (seconds, asked, answered) in enumerate(TALK):
        at = NOON + timedelta(seconds=seconds)
        one = {"role": "user", "source": "user_message", "content": asked, "timestamp": stamp(at)}
        other = {
            "role": "bot",
            "source": "bot_response",
            "content": answered,
            "timestamp": stamp(at + STEP),
        }
        points += [point(100 + number, **one, **more), point(200 + number, **other, **more)]
    # A server goes by ids, which are in no order.
    random.Random(5).shuffle(points)
    return points


def answer(points: Iterable[Point]) -> dict[str, Any]:
    """What a server says when it is asked to scroll."""
    return {"result": {"points": list(points), "next_page_offset": None}, "status": "ok", "time": 0.01}


def lines(values: Iterable[Any]) -> str:
    return "\n".join(json.dumps(value) for value in values) + "\n"


def told(messages: Iterable[IncomingMessage]) -> list[tuple[Any, ...]]:
    """What makes them the same messages."""
    return sorted(
        (one.external_id, one.room, one.author, one.body, one.sent_at, one.reply_to, one.order)
        for one in messages
    )


async def threads(app: App) -> list[list[tuple[Any, ...]]]:
    found = await app.threads(app.operator, "harbour")
    return [
        [
            (
                one.author_name,
                one.author_kind,
                one.body,
                one.sent_at,
                *(edge.method for edge in thread.replies if edge.child_id == one.id),
            )
            for one in thread.messages
        ]
        for thread in found
    ]


def as_told() -> list[list[tuple[Any, ...]]]:
    told = []
    for seconds, asked, answered in reversed(TALK):
        at = NOON + timedelta(seconds=seconds)
        told.append([("672", "human", asked, at), ("Pip", "agent", answered, at + STEP, "explicit")])
    return told


def saved(path: Path, value: Any) -> Path:
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


async def test_both_shapes_read_back_as_the_same_exchanges(app: App, open_app, tmp_path: Path):
    other = await open_app("other")
    first = await app.import_path(saved(tmp_path / "new.json", answer(pairs())))
    second = await other.import_path(saved(tmp_path / "old.json", answer(apart())))
    assert first.stored == second.stored == {"added": 6, "unchanged": 0, "revised": 0, "redacted": 0}
    assert first.resolved == second.resolved == 3
    assert (first.dangling, first.skipped) == (0, ())
    assert await threads(app) == await threads(other) == as_told()


async def test_the_share_of_messages_from_pairs_is_counted_as_they_are_imported(
    app: App, open_app, tmp_path: Path
):
    other = await open_app("other")
    await app.import_path(saved(tmp_path / "new.json", pairs()[:2]))
    await app.import_path(saved(tmp_path / "old.json", apart()))
    await other.import_path(saved(tmp_path / "old.json", apart()))
    # Two of three questions, each with its answer, came as pairs first.
    assert (await app.monitoring.statistics()).counts.legacy_share == pytest.approx(2 / 3)
    assert (await other.monitoring.statistics()).counts.legacy_share == 0.0


async def test_the_same_talk_in_both_shapes_and_twice_is_there_once(app: App, tmp_path: Path):
    await app.import_path(saved(tmp_path / "new.json", pairs()))
    for again in (pairs(), apart()):
        report = await app.import_path(saved(tmp_path / "again.jsonl", lines(again)))
        assert report.stored == {"added": 0, "unchanged": 6, "revised": 0, "redacted": 0}
    assert await threads(app) == as_told()


async def test_of_a_pair_one_message_can_go_without_leaving_its_words_with_the_other(read: Read, write):
    result = read(
        IMPORTER, write({"a.json": pairs(metadata={"bot_response": "hidden twice", "mood": "calm"})})
    )
    for one in result.messages:
        stored = json.dumps(one.raw)
        asked, answered = next(both for _, *both in TALK if one.body in both)
        assert (asked in stored) == (one.body == asked)
        assert (answered in stored) == (one.body == answered)
        assert "vector" not in stored
        if one.body == asked:
            assert "hidden twice" not in stored
            assert "calm" in stored


EXPORTS = {
    "a page": lambda points: {"page.json": answer(points)},
    "a page by lines": lambda points: {"page.json": json.dumps(answer(points), indent=2)},
    "a list": lambda points: {"points.json": points},
    "points": lambda points: {"points.json": {"points": points}},
    "an answer": lambda points: {"points.json": {"result": points, "status": "ok"}},
    "a list by lines": lambda points: {
        "points.json": "[\n" + ",\n".join(json.dumps(one) for one in points) + "\n]"
    },
    "a list of pages": lambda points: {"pages.json": [answer(points[:2]), answer(points[2:])]},
    "a point a line": lambda points: {"points.jsonl": lines(points)},
    "a page a line": lambda points: {"pages.jsonl": lines([answer(points[:1]), answer(points[1:])])},
    "many files": lambda points: {"1.json": answer(points[:2]), "2.json": answer(points[2:])},
    "as Windows saves it": lambda points: {
        "points.jsonl": "\ufeff\n" + lines(points).replace("\n", "\r\n\r\n")
    },
}


@pytest.mark.parametrize("export", EXPORTS)
def test_any_way_to_save_points_gives_the_same_messages(read: Read, tmp_path: Path, export):
    same = told(read(IMPORTER, saved(tmp_path / "page.json", answer(pairs()))).messages)
    for name, points in (("one", pairs()), ("two", apart())):
        (tmp_path / name).mkdir()
        for file, value in EXPORTS[export](points).items():
            saved(tmp_path / name / file, value)
        result = read(IMPORTER, tmp_path / name)
        assert result.skipped == []
        assert told(result.messages) == same


def test_who_spoke_is_told_by_whatever_the_points_have(read: Read, write):
    named = {"author_id": "672", "author_name": "Ana", "author_is_bot": False}
    bot = {"author_id": "99", "author_name": "Pip", "author_is_bot": True}
    at = "2025-03-01T12:00:00Z"
    result = read(
        IMPORTER,
        write(
            {
                "a.json": [
                    point(1, role="human", content="one", timestamp=at, **named),
                    point(2, role="ai", content="two", timestamp=at, **bot),
                    point(3, content="three", timestamp=at, **bot),
                    point(4, role="user", content="four", timestamp=at, user_name="Ana B."),
                    point(5, role="human", content="five", timestamp=at, **(bot | {"author_id": "77"})),
                ]
            }
        ),
    )
    assert {one.body: one.author for one in result.messages} == {
        "one": IncomingAuthor(account_id="672", name="Ana"),
        "two": IncomingAuthor(account_id="99", name="Pip", kind="agent"),
        "three": IncomingAuthor(account_id="99", name="Pip", kind="agent"),
        "four": IncomingAuthor(account_id="672", name="Ana B."),
        "five": IncomingAuthor(account_id="77", name="Pip", kind="agent"),
    }


def test_what_was_said_in_the_first_moment_there_is_answers_nothing(read: Read, write):
    bot = {"author_id": "99", "author_name": "Pip", "author_is_bot": True}
    result = read(
        IMPORTER,
        write({"a.json": [point(1, role="ai", content="one", timestamp="0001-01-01T00:00:00", **bot)]}),
    )
    assert [one.reply_to for one in result.messages] == [None] * len(result.messages)
    assert len(result.messages) + len(result.skipped) == 1


def test_without_a_room_two_talk_alone_and_the_file_names_the_bot(read: Read, tmp_path: Path):
    points = [*pairs()[:1], *apart()]
    for one in points:
        del one["payload"]["channel_id"], one["payload"]["bot_name"]
    result = read(IMPORTER, saved(tmp_path / "elena.json", points))
    (room,) = {one.room.external_id: one.room for one in result.messages}.values()
    assert (room.external_id, room.kind, room.visibility) == ("elena with 672", "dm", "members")
    assert {(one.author.account_id, one.joined_at) for one in room.members} == {
        ("672", None),
        ("elena", None),
    }


def test_a_room_that_is_named_is_open_to_nobody_who_does_not_speak_there(read: Read, write):
    (room,) = {
        one.room.external_id: one.room for one in read(IMPORTER, write({"a.json": pairs()})).messages
    }.values()
    assert (room.external_id, room.visibility, room.members) == ("harbour", "members", ())


def test_an_answer_says_what_it_answers_or_stands_right_behind_it(read: Read, write):
    at = "2025-03-01T12:00:0{}+00:00".format
    result = read(
        IMPORTER,
        write(
            {
                "a.json": [
                    point(1, role="human", content="first", timestamp=at("0"), message_id="m1"),
                    point(2, role="human", content="second", timestamp=at("1"), message_id="m2"),
                    point(3, role="ai", content="to the first", timestamp=at("2"), reply_to_msg_id="m1"),
                    point(4, role="ai", content="to the second", timestamp=at("1.001")),
                    point(5, role="ai", content="to nothing", timestamp=at("1.002")),
                    point(6, role="ai", content="to somebody else", timestamp=at("1.001"), user_id="673"),
                    point(7, role="ai", content="to itself", timestamp=at("5"), message_id="m7", reply_to_msg_id="m7"),
                ]
            }
        ),
    )  # fmt: skip
    body = {one.external_id: one.body for one in result.messages}
    assert {one.body: body[one.reply_to] for one in result.messages if one.reply_to} == {
        "to the first": "first",
        "to the second": "second",
    }


def test_of_two_questions_at_once_none_is_taken_for_the_one_that_is_answered(read: Read, write):
    at = "2025-03-01T12:00:00.00{}Z".format
    points = [
        point(1, role="user", content="this", timestamp=at(0)),
        point(2, role="user", content="or that", timestamp=at(0)),
        point(3, role="bot", content="yes", timestamp=at(1)),
    ]
    assert [one.reply_to for one in read(IMPORTER, write({"a.json": points})).messages] == [None] * 3


@pytest.mark.parametrize("stamp", [1740830400.25, 1740830400250, "2025-03-01T12:00:00.250"])
def test_times_are_text_or_numbers(read: Read, write, stamp):
    points = [point(1, source="conversation_pair", user_message="a", bot_response="b", timestamp=stamp)]
    asked, answered = read(IMPORTER, write({"a.json": points})).messages
    assert asked.sent_at == datetime(2025, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
    assert answered.sent_at - asked.sent_at == STEP
    zone = {"time_zone": "assumed UTC"} if isinstance(stamp, str) else {}
    assert asked.metadata == {"platform": {"legacy_pair": "0000-1"} | zone}


BAD = {
    "no author": {"user_id": None},
    "no time": {"timestamp": "yesterday"},
    "wrong type": {"content": 7},
    "no text": {"content": ""},
    "no payload": None,
    "not something said": {"memory_type": "fact"},
    "id too long": {"channel_id": "x" * 300},
}


@pytest.mark.parametrize("reason", BAD)
def test_a_point_that_cannot_be_read_is_named_and_the_rest_goes_in(read: Read, write, reason):
    good = {"role": "user", "content": "hello", "timestamp": "2025-03-01T12:00:00Z"}
    bad = point(2, **(good | (BAD[reason] or {})))
    if BAD[reason] is None:
        del bad["payload"]
    points = [point(1, **good), bad, point(3, **(good | {"content": "bye"}))]
    for export in ({"a.json": answer(points)}, {"a.jsonl": lines(points)}):
        result = read(IMPORTER, write(export))
        assert [one.body for one in result.messages] == ["hello", "bye"]
        (skipped,) = result.skipped
        assert skipped.reason == reason
        assert skipped.where.endswith("point 0000-2")
        (write({}) / next(iter(export))).unlink()


def test_a_broken_line_costs_that_line(read: Read, write):
    good = lines(pairs()).splitlines()
    for place in range(3):
        broken = [*good]
        broken[place] = broken[place][: len(broken[place]) // 2]
        result = read(IMPORTER, write({"a.jsonl": "\n".join(broken)}))
        assert len(result.messages) == 4
        assert [one.where for one in result.skipped] == [f"a.jsonl line {place + 1}"]


@pytest.mark.parametrize("value", [{"result": None}, {"result": {"points": 7}}, {"points": {}}, 7, [7]])
def test_what_holds_no_points_is_told_of(read: Read, write, value):
    result = read(IMPORTER, write({"a.json": value}))
    assert result.messages == []
    assert value == 7 or result.reasons in (["not a list of points"], ["not an object"], [])


def test_what_roomlore_itself_writes_to_qdrant_is_no_memory_of_talk(write):
    ours = {"id": "1", "payload": {"author_id": "1", "author_is_bot": 0, "kind": "message", "digest": "d"}}
    with open_export(write({"a.json": answer([ours])})) as source:
        assert not IMPORTER.recognises(source)


# Against damage

junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(1 - 2**63, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6)
    | st.sampled_from(["conversation_pair", "bot", "2025-03-01T12:00:00", "9999-12-31T23:59:59.999999"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        found += places(inner, (*path, key))
    return found


def replaced(value: Any, path: tuple[Any, ...], other: Any) -> Any:
    if not path:
        return other
    changed = copy.deepcopy(value)
    holder = changed
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = other
    return changed


def survived(path: Path) -> tuple[list[IncomingMessage], list[SkippedRecord]]:
    """Read, and look at every record."""
    with open_export(path) as source:
        IMPORTER.recognises(source)
        items = list(IMPORTER.read(source, ReadOptions()))
    for item in items:
        if isinstance(item, SkippedRecord):
            assert item.reason
            assert item.where
            continue
        assert 0 < len(item.external_id) <= 255
        assert item.body
        assert item.author.name
        assert max(len(item.author.account_id), len(item.room.external_id)) <= 255
        assert item.sent_at.utcoffset() == timedelta(0)
        assert json.dumps([item.body, item.raw, item.metadata], allow_nan=False).encode()
    return (
        [item for item in items if isinstance(item, IncomingMessage)],
        [item for item in items if isinstance(item, SkippedRecord)],
    )


SOME = {"metadata": {"mood": "calm"}, "message_id": "m", "reply_to_msg_id": "n", "author_is_bot": False}


@pytest.mark.parametrize("points", [pairs, apart], ids=["pairs", "apart"])
@quick
@given(data=st.data())
def test_any_value_anywhere_in_a_point_costs_at_most_that_point(tmp_path: Path, points, data):
    first, second, *rest = points(**SOME)
    damaged = replaced(second, data.draw(st.sampled_from(places(second)[1:])), data.draw(junk))
    whole = [first, damaged, *rest]
    for name, content in (("a.json", json.dumps(whole)), ("a.jsonl", lines(whole))):
        messages, skipped = survived(saved(tmp_path / name, content))
        wanted = {one["payload"]["content"] for one in (first, *rest)}
        assert wanted <= {one.body for one in messages}
        assert len(skipped) <= 1
        # The damaged point is told of, as what it says or as what is wrong with it.
        assert len({one.where for one in messages} | {one.where for one in skipped}) == len(whole)


@quick
@given(data=st.data())
def test_any_value_anywhere_in_a_page_is_survived(tmp_path: Path, data):
    whole = answer(pairs()[:2])
    damaged = replaced(whole, data.draw(st.sampled_from(places(whole))), data.draw(junk))
    survived(saved(tmp_path / "a.json", damaged))


@quick
@given(data=st.data())
def test_flipped_bytes_and_cuts_never_raise(tmp_path: Path, data):
    text = data.draw(st.sampled_from([json.dumps(answer(apart())), lines(pairs())]))
    damaged = bytearray(text.encode()[: data.draw(st.integers(1, len(text)))])
    for place, value in data.draw(
        st.lists(st.tuples(st.integers(0, len(damaged) - 1), st.integers(0, 255)), max_size=6)
    ):
        damaged[place] = value
    path = tmp_path / "a.json"
    path.write_bytes(damaged)
    survived(path)


@quick
@given(data=st.binary(max_size=300))
def test_arbitrary_bytes_never_raise(tmp_path: Path, data):
    path = tmp_path / "a.json"
    path.write_bytes(data)
    assert survived(path)[0] == []


def test_a_truncated_page_yields_what_stands_before_the_break(read: Read, write):
    whole = json.dumps(answer(pairs()))
    result = read(IMPORTER, write({"a.json": whole[: whole.index("Thanks!")]}))
    assert len(result.messages) == 4
    assert result.reasons == ["truncated JSON"]


ANA, BOT, CHANNEL = "100000000000000001", "200000000000000001", "300000000000000001"


def of_discord(number: int, **payload: Any) -> Point:
    known = {
        "channel_id": CHANNEL,
        "user_id": ANA,
        "message_id": str(400000000000000000 + number),
        "content": f"number {number}",
        "timestamp": stamp(NOON + timedelta(seconds=number)),
        "role": "human",
    }
    return {"id": number, "payload": known | payload}


def test_ids_of_discord_are_kept_and_others_are_derived(read: Read, write):
    points = [
        of_discord(1),
        of_discord(2, role="ai", author_id=BOT, reply_to_msg_id="400000000000000001"),
        of_discord(3, message_id=None),
        of_discord(4, channel_id=None, message_id=None),
        of_discord(5, channel_id="harbour"),
    ]
    found = {one.body: one for one in read(IMPORTER, write({"elena.json": points})).messages}
    assert {body: (one.platform, one.room.external_id) for body, one in found.items()} == {
        "number 1": ("discord", CHANNEL),
        "number 2": ("discord", CHANNEL),
        "number 3": ("discord", CHANNEL),
        "number 4": ("discord", f"export with {ANA}"),
        "number 5": ("qdrant", "harbour"),
    }
    assert {body for body, one in found.items() if one.synthetic_id} == {"number 3", "number 4"}
    assert found["number 1"].external_id == found["number 2"].reply_to == "400000000000000001"


def test_an_answer_with_the_id_of_its_question_gets_another(read: Read, write):
    points = [of_discord(1, role="ai", content="yes"), of_discord(1)]
    answer, question = read(IMPORTER, write({"elena.json": points})).messages
    assert question.external_id == "400000000000000001"
    assert answer.external_id != question.external_id
    assert answer.synthetic_id


def test_a_channel_in_place_of_a_user_is_the_room_and_nobody(read: Read, write):
    nobody = {"channel_id": None, "user_id": f"channel_{CHANNEL}"}
    points = [
        of_discord(1, role="ai", **nobody),
        of_discord(2, **nobody),
        of_discord(3, **nobody, author_id=ANA),
    ]
    result = read(IMPORTER, write({"elena.json": points}))
    assert {one.body: (one.room.external_id, one.author.account_id) for one in result.messages} == {
        "number 1": (CHANNEL, "export"),
        "number 3": (CHANNEL, ANA),
    }
    assert [one.reason for one in result.skipped] == ["no author"]
