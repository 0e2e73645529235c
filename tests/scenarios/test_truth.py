"""The story's own order: what is written down about it is whole, and the rule, stated in Python, says the same."""

import re
from collections import Counter
from datetime import datetime
from itertools import product
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import pytest

from domain.audience import MessageFacts, Period, RoomFacts, ViewerFacts, can_see_message
from roomlore.domain.ids import OrgId, ParticipantId, RoomId
from roomlore.domain.records import Viewer
from scenarios.truth import MERGED, OPERATOR, STRANGER, Truth, room_id

TRUTH = Truth()
#: Before anything is erased.
WHOLE = range(1, 6)
ORG = OrgId(uuid5(NAMESPACE_URL, "saltmere"))
ONE_HEAD = {"jonas", "wren"}
NAMES = {(one.word, ""): one.name for one in TRUTH.cast.values()} | {
    ("gull", "Orla"): "orla",
    ("gull", "Finn"): "finn",
}


def named(author: dict[str, Any]) -> str:
    return NAMES[author["id"], author.get("persona", "")]


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))


def test_every_message_has_its_hearers_and_every_hearer_a_name():
    assert {line["id"] for line in TRUTH.lines} == TRUTH.heard.keys()
    assert all(TRUTH.heard[line["id"]].chapter <= line["chapter"] for line in TRUTH.lines)
    for heard in TRUTH.heard.values():
        gone = [who for gone in heard.gone for who in gone.place_seen_by]
        assert {*heard.heard_by, *heard.while_merged, *gone} <= TRUTH.cast.keys()


def test_whoever_says_something_hears_it():
    assert all(named(line["author"]) in TRUTH.heard[line["id"]].heard_by for line in TRUTH.lines)


def test_a_telling_word_stands_in_one_text_alone():
    markers = [word.casefold() for heard in TRUTH.heard.values() for word in heard.markers().values()]
    said = Counter(word for line in TRUTH.lines for word in words(line["text"]))
    assert {word: said[word] for word in markers} == dict.fromkeys(markers, 1)
    assert len(set(markers)) == len(markers)


def test_words_that_tell_of_memories_rooms_and_names_stand_in_no_message():
    said = {word for line in TRUTH.lines for word in words(line["text"])}
    elsewhere = {memory.marker for memory in TRUTH.memories.values()}
    elsewhere |= {*TRUTH.name_words, *TRUTH.rooms.values()}
    assert {word.casefold() for word in elsewhere}.isdisjoint(said)


def test_there_are_two_hundred_questions_that_give_nothing_away():
    assert len(TRUTH.questions) == 200
    for question in TRUTH.questions:
        assert words(question.text).isdisjoint(TRUTH.telling_words)
        assert question.about
        assert all(TRUTH.heard[message].chapter <= question.chapter for message in question.about)


@pytest.mark.slow
def test_most_questions_are_answered_to_one_viewer_other_than_to_another():
    answers = [
        {
            frozenset(question.about & TRUTH.heard_of(name, question.chapter))
            for name in TRUTH.viewers(question.chapter)
        }
        for question in TRUTH.questions
    ]
    # Some ask for what is gone: nobody is shown anything.
    assert sum(len(different) > 1 for different in answers) >= 195
    assert sum(len(different) > 2 for different in answers) >= 120


def test_the_story_has_everything_that_makes_visibility_hard():
    kinds = Counter(line.get("kind", "message") for line in TRUTH.lines)
    assert {line["author"].get("persona") for line in TRUTH.lines} == {None, "Orla", "Finn"}
    assert {line["platform"] for line in TRUTH.lines} == {"pier", "kelp"}
    assert (len(TRUTH.rooms), len(TRUTH.cast)) == (8, 13)
    assert kinds["whisper"] >= 40
    assert kinds["context_injection"] >= 5
    assert any(line.get("audience") == [] for line in TRUTH.lines)
    assert any("edited_at" in line for line in TRUTH.lines)
    assert any(line.get("deleted") for line in TRUTH.lines)
    assert any("thread_root" in line for line in TRUTH.lines)


@pytest.mark.parametrize("chapter", WHOLE)
def test_the_rule_says_what_is_written_down(chapter: int):
    lines = [line for line in TRUTH.lines if line["chapter"] <= chapter and "edited_at" not in line]
    stays = all_stays(lines)
    rooms = {
        name: facts_of_room(line) for line in TRUTH.lines for name in [room_id(line)] if is_described(line)
    }
    said = {line["id"]: facts_of_message(line, rooms[room_id(line)]) for line in lines}
    for name, (id_, facts) in product(TRUTH.viewers(chapter), said.items()):
        viewer = facts_of_viewer(name, stays, chapter)
        assert can_see_message(facts, viewer) == TRUTH.sees_place(name, id_, chapter), (name, id_)


def is_described(line: dict[str, Any]) -> bool:
    return isinstance(line["room"], dict) and "kind" in line["room"]


def all_stays(lines: list[dict[str, Any]]) -> dict[tuple[str, str], list[Period]]:
    """Return who was in which closed room when, by the lists of members: each is complete."""
    stays: dict[tuple[str, str], dict[datetime | None, Period]] = {}
    for line in lines:
        if not isinstance(line["room"], dict) or "members" not in line["room"]:
            continue
        room, listed = line["room"]["id"], line["room"]["members"]
        there = {named(member) for member in listed}
        for (where, who), periods in stays.items():
            if where == room and who not in there:
                for joined, period in periods.items():
                    periods[joined] = Period(
                        joined_at=joined, left_at=period.left_at or time(line["sent_at"])
                    )
        for member in listed:
            period = Period(joined_at=time(member.get("joined_at")), left_at=time(member.get("left_at")))
            stays.setdefault((room, named(member)), {})[period.joined_at] = period
    return {key: list(periods.values()) for key, periods in stays.items()}


def time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def facts_of_room(line: dict[str, Any]) -> RoomFacts:
    room = line["room"]
    closed = "members" if room["kind"] in {"dm", "group_dm"} else room["visibility"]
    return RoomFacts(org_id=ORG, id=key(room["id"]), visibility=closed)


def facts_of_message(line: dict[str, Any], room: RoomFacts) -> MessageFacts:
    return MessageFacts(
        room=room,
        kind=line.get("kind", "message"),
        author_id=key(named(line["author"])),
        sent_at=time(line["sent_at"]),
        audience=frozenset(key(named(who)) for who in line.get("audience", [])),
    )


def facts_of_viewer(name: str, stays: dict[tuple[str, str], list[Period]], chapter: int) -> ViewerFacts:
    accounts = ONE_HEAD if name in ONE_HEAD and chapter == MERGED else {name}
    periods: dict[RoomId, list[Period]] = {}
    for (room, who), spent in stays.items():
        if who in accounts:
            periods.setdefault(key(room), []).extend(spent)
    return ViewerFacts(
        viewer=Viewer(org_id=ORG, participant_id=None if name == OPERATOR else key(name)),
        is_participant=name not in {OPERATOR, STRANGER},
        is_agent=name in {"tidebot", "ledger"},
        periods=periods,
        accounts=frozenset(key(account) for account in accounts) - {key(name)},
    )


def key(name: str) -> Any:
    return ParticipantId(uuid5(ORG, name))
