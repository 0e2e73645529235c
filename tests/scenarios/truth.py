"""The story of Saltmere and the truth about it, as written down: nothing here asks who may see what.

`story.jsonl` is what was said, in seven chapters. `heard.jsonl` says of every message by name who heard it, who
did only while two accounts were one person, and what is left of it from which chapter on. `cast.json` names
the viewers and who knows of which room, `memories.jsonl` what is remembered and by whom it may be recalled,
`questions.jsonl` what is asked and which messages speak of it.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CHAPTERS = range(1, 8)
#: The chapter in which "jonas" and "wren" are one person.
MERGED = 3
OPERATOR = "the operator"
STRANGER = "a stranger"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """What is left of a message whose words are gone."""

    chapter: int
    #: "redacted" and "hole" are places without words, "nothing" is not even that.
    left: str
    #: Who sees the place; besides the operator, who sees every place.
    place_seen_by: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What is written down about one message."""

    id: str
    #: In which it is said.
    chapter: int
    #: A word that stands in this message alone.
    marker: str
    heard_by: frozenset[str]
    #: Who else hears it while two accounts are one person.
    while_merged: frozenset[str]
    #: The words that stand in it alone after an edit, by the chapter of the edit.
    says_later: Mapping[int, str]
    #: Whatever became of its words, in order.
    gone: Sequence[Gone]

    def fate(self, chapter: int) -> Gone | None:
        """Return what is left of it, or None while its words are there."""
        return next((gone for gone in reversed(self.gone) if gone.chapter <= chapter), None)

    def markers(self) -> dict[int, str]:
        """Return every word that stands in it alone, by the chapter in which it comes up."""
        return {self.chapter: self.marker, **self.says_later}

    def current(self, chapter: int) -> str:
        """Return the word that stands in it now."""
        return self.markers()[max(since for since in self.markers() if since <= chapter)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question, when it is asked, and the messages that speak of it."""

    number: int
    chapter: int
    text: str
    about: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """One memory, what it rests on, and who may recall it in which chapter."""

    id: str
    content: str
    marker: str
    sources: tuple[str, ...]
    sensitive: bool
    asserted_by: str | None
    seen_by: Mapping[int, frozenset[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """A viewer, the word that names them, and the chapters in which they are there."""

    name: str
    word: str
    arrives: int
    leaves: int

    def is_there(self, chapter: int) -> bool:
        """Return whether the org knows them in a chapter."""
        return self.arrives <= chapter < self.leaves


class Truth:
    """Everything that is written down, and what follows from it for one viewer in one chapter."""

    def __init__(self) -> None:
        cast = json.loads((HERE / "cast.json").read_text())
        self.lines = list(_lines("story.jsonl"))
        self.heard = {line["id"]: _heard(line) for line in _lines("heard.jsonl")}
        self.questions = [_question(line) for line in _lines("questions.jsonl")]
        self.memories = {line["id"]: _remembered(line) for line in _lines("memories.jsonl")}
        self.cast = {one["name"]: Cast(**{"leaves": 99, **one}) for one in cast["viewers"]}
        self.rooms: dict[str, str] = {room["id"]: room["name"] for room in cast["rooms"]}
        self.known_to = {room["id"]: _by_chapter(room["known_to"]) for room in cast["rooms"]}
        #: Words in names that were taken in closed rooms only, and the messages that bear them.
        self.name_words: dict[str, list[str]] = {one["word"]: one["on"] for one in cast["closed_names"]}

    def viewers(self, chapter: int) -> list[str]:
        """Return who asks in a chapter: all who have arrived, gone or not, the operator and a stranger."""
        arrived = [one.name for one in self.cast.values() if one.arrives <= chapter]
        return [*arrived, OPERATOR, STRANGER]

    def sees_place(self, viewer: str, message: str, chapter: int) -> bool:
        """Return whether a viewer may know that a message is or was there."""
        heard = self.heard[message]
        if chapter < heard.chapter or not self._is_there(viewer, chapter):
            return False
        gone = heard.fate(chapter)
        if viewer == OPERATOR or (gone and gone.left == "nothing"):
            return gone is None or gone.left != "nothing"
        seen_by = gone.place_seen_by if gone else heard.heard_by
        return viewer in seen_by or (chapter == MERGED and viewer in heard.while_merged)

    def hears(self, viewer: str, message: str, chapter: int) -> bool:
        """Return whether a viewer may be shown what a message says."""
        return self.sees_place(viewer, message, chapter) and self.heard[message].fate(chapter) is None

    def places(self, viewer: str, chapter: int) -> set[str]:
        """Return the messages whose places a viewer may see."""
        return {message for message in self.heard if self.sees_place(viewer, message, chapter)}

    def counted(self, viewer: str, chapter: int) -> set[str]:
        """Return the messages that a viewer may be told the number of: those seen, without holes."""
        fates = {message: self.heard[message].fate(chapter) for message in self.places(viewer, chapter)}
        return {message for message, gone in fates.items() if gone is None or gone.left != "hole"}

    def heard_of(self, viewer: str, chapter: int) -> set[str]:
        """Return the messages that a viewer may be shown."""
        return {message for message in self.heard if self.hears(viewer, message, chapter)}

    def knows_room(self, viewer: str, room: str, chapter: int) -> bool:
        """Return whether a viewer may know of a room."""
        return viewer == OPERATOR or viewer in self.known_to[room][chapter]

    def verbatim(self, message: str, chapter: int) -> tuple[str, str]:
        """Return how the author of a message was called and what it says; nothing where its words are gone."""
        versions = [line for line in self.lines if line["id"] == message and line["chapter"] <= chapter]
        gone = self.heard[message].fate(chapter)
        name = "" if gone and gone.left == "hole" else versions[0]["author"]["name"]
        return name, "" if gone else versions[-1]["text"]

    def recalls(self, viewer: str, chapter: int) -> set[str]:
        """Return the memories that a viewer may be shown."""
        return {
            memory.id
            for memory in self.memories.values()
            if chapter in memory.seen_by and (viewer == OPERATOR or viewer in memory.seen_by[chapter])
        }

    def allowed_words(self, viewer: str, chapter: int) -> set[str]:
        """Return which of the telling words may stand in an answer to a viewer."""
        heard, places = self.heard_of(viewer, chapter), self.places(viewer, chapter)
        words = {self.heard[message].current(chapter) for message in heard}
        words |= {self.memories[memory].marker for memory in self.recalls(viewer, chapter)}
        words |= {word for word, on in self.name_words.items() if heard.intersection(on)}
        words |= {name for room, name in self.rooms.items() if self.knows_room(viewer, room, chapter)}
        return {word.casefold() for word in words} | places

    @cached_property
    def telling_words(self) -> set[str]:
        """Every word that tells of one message, memory, name or room, and every external id of a message."""
        words = {word for heard in self.heard.values() for word in heard.markers().values()}
        words |= {memory.marker for memory in self.memories.values()}
        words |= {*self.name_words, *self.rooms.values()}
        return {word.casefold() for word in words} | set(self.heard)

    @cached_property
    def said(self) -> set[str]:
        """The messages that search looks at: what somebody said, openly or in a whisper."""
        return {line["id"] for line in self.lines if line.get("kind", "message") in {"message", "whisper"}}

    @cached_property
    def room_of(self) -> dict[str, str]:
        """The room of every message."""
        return {line["id"]: room_id(line) for line in self.lines}

    def _is_there(self, viewer: str, chapter: int) -> bool:
        return viewer == OPERATOR or (viewer in self.cast and self.cast[viewer].is_there(chapter))


def room_id(line: Mapping[str, Any]) -> str:
    """Return the room of a line of the story."""
    return line["room"]["id"] if isinstance(line["room"], dict) else line["room"]


def tokens(text: str) -> set[str]:
    """Return every word and id of an answer written out."""
    found = set(re.findall(r"[\w-]+", text.casefold()))
    return found | set(re.findall(r"\w+", text.casefold()))


def _lines(name: str) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in (HERE / name).read_text().splitlines())


def _heard(line: Mapping[str, Any]) -> Heard:
    gone = [
        {**gone, "place_seen_by": frozenset(gone.get("place_seen_by", []))} for gone in line.get("gone", [])
    ]
    return Heard(
        id=line["id"],
        chapter=line["chapter"],
        marker=line["marker"],
        heard_by=frozenset(line["heard_by"]),
        while_merged=frozenset(line.get("while_merged", [])),
        says_later={said["chapter"]: said["marker"] for said in line.get("says_later", [])},
        gone=[Gone(**one) for one in gone],
    )


def _question(line: Mapping[str, Any]) -> Question:
    return Question(
        number=line["number"],
        chapter=line["chapter"],
        text=line["question"],
        about=frozenset(line["about"]),
    )


def _remembered(line: Mapping[str, Any]) -> Remembered:
    return Remembered(
        id=line["id"],
        content=line["content"],
        marker=line["marker"],
        sources=tuple(line["sources"]),
        sensitive=line.get("sensitive", False),
        asserted_by=line.get("asserted_by"),
        seen_by=_by_chapter(line["seen_by"]),
    )


def _by_chapter(lists: Mapping[str, list[str]]) -> dict[int, frozenset[str]]:
    return {int(chapter): frozenset(names) for chapter, names in lists.items()}
