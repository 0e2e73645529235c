"""The written rooms and messages are what their description says."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from training import written_rooms

ROOT = Path(written_rooms.__file__).parents[1]
ROOMS = sorted((ROOT / "training" / "sets" / "rooms").glob("*/*.jsonl"))
MESSAGES = [ROOT / "training" / "sets" / "messages", ROOT / "evaluation" / "sets"]
ACTS = {
    *(
        "question",
        "answer",
        "thanks",
        "announcement",
        "decision",
        "promise",
        "preference",
        "person_fact",
        "how_to",
    ),
    *("correction", "resource", "request_private", "chatter"),
}
INTENTS = {"forget", "confidential", "deny", "allow", "take_back", "none"}
SCOPES = {"this", "previous", "topic", "value", "person", None}
LABELS = {"replaces", "contradicts", "repeats", "separate"}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().split("\n") if line]


def of_kind(kind: str) -> Iterator[dict[str, Any]]:
    for folder in MESSAGES:
        for path in folder.glob(f"*/{kind}.jsonl"):
            yield from lines(path)


@pytest.mark.parametrize("path", ROOMS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_message_of_a_room_answers_an_earlier_one_of_its_conversation(path: Path):
    told = lines(path)
    assert [one["at"] for one in told] == sorted(one["at"] for one in told)
    conversation_of: dict[str, str] = {}
    for one in told:
        assert one["id"] not in conversation_of
        if one["answers"] is not None:
            assert conversation_of[one["answers"]] == one["conversation"], one["id"]
        assert set(one["acts"]) <= ACTS, one["id"]
        assert one["keep"] in range(4)
        conversation_of[one["id"]] = one["conversation"]


def test_messages_have_known_labels():
    assert {act for one in of_kind("acts") for act in one["acts"]} == ACTS
    assert {one["intent"] for one in of_kind("requests")} == INTENTS
    assert {one["scope"] for one in of_kind("requests")} == SCOPES
    assert {one["label"] for one in of_kind("pairs")} == LABELS
    assert {one["label"] for one in of_kind("answers")} == {0, 1}


def test_injections_name_the_memories_that_matter():
    cases = list(of_kind("injections"))
    assert {len(one["memories"]) for one in cases} == {6}
    assert {place for one in cases for place in one["relevant"]} == set(range(6))
    assert {bool(one["relevant"]) for one in cases} == {True, False}


def test_what_measures_is_in_no_set_to_learn_from():
    learnt = {one["text"] for path in ROOMS for one in lines(path) if len(one["text"]) > 40}
    learnt |= {
        one["text"]
        for kind in ("acts", "requests")
        for path in MESSAGES[0].glob(f"*/{kind}.jsonl")
        for one in lines(path)
    }
    measured = {
        one["text"]
        for kind in ("messages", "acts", "requests")
        for path in MESSAGES[1].glob(f"*/{kind}.jsonl")
        for one in lines(path)
    }
    assert not [text for text in measured & learnt if len(text) > 40]


def test_rooms_are_read_by_author():
    rooms = written_rooms.rooms_of(written_rooms.authors()[0])
    assert all(len({line.conversation for line in room}) <= len(room) for room in rooms)
    assert sum(map(len, rooms)) > 500


def test_questions_about_a_chat_name_its_messages():
    paths = sorted((ROOT / "training" / "sets" / "questions").glob("*/questions.jsonl"))
    assert paths
    for path in paths:
        for number, chat in enumerate(lines(path)):
            assert all(one["author"] and one["text"] for one in chat["messages"]), (path, number)
            for asked in chat["questions"]:
                assert asked["question"], (path, number)
                assert set(asked["answers"]) <= set(range(len(chat["messages"]))), (path, number, asked)
