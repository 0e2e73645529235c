"""Questions with and without an answer, from which the confidence of a search is learned.

A data set has questions that its rooms answer, and some that they do not. Two more kinds are made of the former: the
same question in another room, and the same question with another person, time or object.
"""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from evaluation.datasets import DatasetMessage, Question, read_messages, read_questions

Kind = Literal["own", "unanswerable", "other", "person", "time", "object"]
KINDS: tuple[Kind, ...] = ("own", "unanswerable", "other", "person", "time", "object")

#: Questions are drawn the same way each time.
SEED = 20_261_127
MONTHS = "January February March April May June July August September October November December".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
YEAR = re.compile(r"\b20[12]\d\b")
#: The word after one of these is taken for an object.
BEFORE_OBJECT = frozenset(
    "the a an his her their its my your our of for to with in on at about new this that".split()
)
#: These are no objects.
NO_OBJECT = frozenset(
    """
    what when where which who whom whose why how did does are was were has have had will would could should can may
    might the and from into about after before during between his her their its your our they them him that this these
    those there then than not any some all both each every other another one two first last many much more most kind
    type think thought thoughts said say says tell told talk talked feel felt make made get got given give gone went
    going come came want wanted need needed use used take took like liked likes summarize discussion meeting opinion
    group regarding currently current exact being been also only just still over under out off back time day week month
    year
    """.split()
)
#: First words of names that are titles or jobs.
NO_FIRST_NAME = frozenset("Nurse Lab The All Intake Clinic Office Staff Coordinator Project".split())
#: The shortest word that is an object or a first name; the fewest messages of a person to swap.
OBJECT_LETTERS, NAME_LETTERS, MESSAGES_OF_PERSON = 4, 3, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Which part of a data set is used."""

    name: str
    corpus: str
    messages: int
    #: The number of answerable and of unanswerable questions; of others two thirds, of each kind of swap a half.
    questions: int
    #: Rooms with more messages are left out.
    longest_room: int = 1_000_000
    #: People are known by their whole names.
    whole_names: bool = False


SAMPLES = (
    Sample(name="locomo-dev", corpus="LoCoMo", messages=9_999, questions=400),
    Sample(name="gatemem-dev", corpus="GateMem", messages=4_500, questions=300),
    Sample(name="friendsqa-episode-dev", corpus="FriendsQA", messages=9_999, questions=360),
    Sample(
        name="qmsum-train", corpus="QMSum", messages=6_000, questions=300, longest_room=700, whole_names=True
    ),
    Sample(
        name="qmsum-val", corpus="QMSum", messages=5_000, questions=300, longest_room=700, whole_names=True
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedQuestion:
    """A question with its kind."""

    kind: Kind
    question: Question


def read_sample(folder: Path, sample: Sample) -> tuple[list[DatasetMessage], list[AskedQuestion]]:
    """Return the messages of some rooms of a data set, and the questions to ask there."""
    chance = random.Random(SEED)  # noqa: S311  a repeatable draw, not a secret
    messages, questions = read_messages(folder), read_questions(folder)
    rooms = _rooms(messages, sample, chance)
    messages = [message for message in messages if message.room in rooms]
    inside = [question for question in questions if question.room in rooms]
    answerable = [question for question in inside if question.answerable]

    def some(kind: Kind, found: Sequence[Question], most: int) -> Iterator[AskedQuestion]:
        drawn = found if len(found) <= most else chance.sample(found, most)
        return (AskedQuestion(kind=kind, question=question) for question in drawn)

    elsewhere = [question for question in questions if question.answerable]
    asked = [
        *some("own", answerable, sample.questions),
        *some("unanswerable", [one for one in inside if not one.answerable], sample.questions),
    ]
    for one in some("other", elsewhere, sample.questions * 2 // 3):
        room = chance.choice(sorted(rooms - {one.question.room}))
        moved = replace(one.question, room=room, as_of_message_id=None)
        asked.append(AskedQuestion(kind="other", question=moved))
    swapped = swaps(inside, names(messages, sample), chance)
    for kind, found in swapped.items():
        asked += some(kind, found, sample.questions // 2)
    return messages, asked


def _rooms(messages: Iterable[DatasetMessage], sample: Sample, chance: random.Random) -> set[str]:
    """Return a random choice of rooms with at most so many messages together."""
    sizes = Counter(message.room for message in messages)
    rooms = sorted(room for room, size in sizes.items() if size <= sample.longest_room)
    chance.shuffle(rooms)
    chosen: set[str] = set()
    total = 0
    for room in rooms:
        if total + sizes[room] <= sample.messages:
            chosen.add(room)
            total += sizes[room]
    return chosen


def names(messages: Iterable[DatasetMessage], sample: Sample) -> dict[str, set[str]]:
    """Return for each room the names of the people who often speak there."""
    spoken = Counter((message.room, message.author_name) for message in messages if not message.is_bot)
    found: dict[str, set[str]] = defaultdict(set)
    for (room, author), count in spoken.items():
        first = author.split()[0] if author.strip() else ""
        is_name = first.isalpha() and first.istitle() and first not in NO_FIRST_NAME
        if sample.whole_names:
            found[room].add(author)
        elif is_name and len(first) >= NAME_LETTERS and count >= MESSAGES_OF_PERSON:
            found[room].add(first)
    return found


def swaps(
    questions: Sequence[Question], names_of: Mapping[str, set[str]], chance: random.Random
) -> dict[Kind, list[Question]]:
    """Return answerable questions with another person, time or object. A result that was really asked is left out."""
    asked = {question.question.strip().lower() for question in questions}
    found: dict[Kind, list[Question]] = {"person": [], "time": [], "object": []}
    for room in sorted({question.room for question in questions}):
        here = [question for question in questions if question.room == room]
        people = sorted(names_of[room])
        lower = {name.lower() for name in people}
        pool = sorted({word for question in here for word in objects(question.question, lower)})
        for question in (one for one in here if one.answerable):
            text = question.question
            texts: dict[Kind, str | None] = {
                "person": _other_name(text, people, chance),
                "time": _other_time(text, chance),
                "object": _other_object(text, objects(text, lower), pool, chance),
            }
            for kind, swapped in texts.items():
                if swapped is not None and swapped.strip().lower() not in asked:
                    found[kind].append(replace(question, question=swapped, answerable=False))
    return found


def objects(text: str, names_in_room: set[str]) -> list[str]:
    """Return the words of a question that probably are objects: nouns after an article or a preposition."""
    words = WORD.findall(text)
    found: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        base = word.removesuffix("'s").lower()
        is_long = len(base) >= OBJECT_LETTERS and base not in NO_OBJECT and base not in names_in_room
        follows = before.lower() in BEFORE_OBJECT or before.endswith("'s")
        found += [word] if is_long and follows and not base.endswith(("ing", "ed", "ly")) else []
    return found


def _swap(text: str, old: str, new: str) -> str:
    return re.sub(rf"\b{re.escape(old)}\b", new, text)


def _has(text: str, word: str) -> bool:
    return re.search(rf"\b{re.escape(word)}\b", text) is not None


def _other_name(text: str, people: Sequence[str], chance: random.Random) -> str | None:
    named = [name for name in people if _has(text, name)]
    others = [name for name in people if name not in named]
    return _swap(text, chance.choice(named), chance.choice(others)) if named and others else None


def _other_time(text: str, chance: random.Random) -> str | None:
    for words in (MONTHS, DAYS):
        stated = [word for word in words if _has(text, word)]
        if stated:
            others = [word for word in words if word not in stated]
            return _swap(text, chance.choice(stated), chance.choice(others))
    year = YEAR.search(text)
    return _swap(text, year[0], str(int(year[0]) + chance.choice([-2, -1, 1, 2]))) if year else None


def _other_object(text: str, own: Sequence[str], pool: Sequence[str], chance: random.Random) -> str | None:
    words = {word.lower() for word in WORD.findall(text)}
    others = [word for word in pool if word.lower() not in words]
    return _swap(text, chance.choice(own), chance.choice(others)) if own and others else None
