"""Long made-up stories: several rooms, people who come and go, and messages that are edited and removed.

A story is the same for the same seed, so that another process can tell it too.

One thing is left to other tests: of a closed room whose lists of members leave people out more than once,
the order of arrival decides how late a presence ends (see `roomlore.ingest.participants`). Here the lists of the
vault name everybody who ever came, with the times they came and went, and in the den only the last list
leaves somebody out. Of such lists the order does not matter.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from ingest.stories import MISSING, at, author
from roomlore.domain.incoming import (
    IncomingAuthor,
    IncomingMembership,
    IncomingMessage,
    IncomingRoom,
    MessageKind,
)

PLATFORM = "test"
#: Names that are part of no other word.
PEOPLE = [
    author(name)
    for name in (
        *("anabel", "borislav", "cyrilla", "deodat", "eligius"),
        *("fayette", "gustavo", "hannelore", "ivonne", "juniper"),
    )
]
AGENTS = [
    author("helper", kind="agent"),
    author("hook", kind="agent", persona="Weather"),
    author("hook", kind="agent", persona="News"),
]
NOTICES = author("", kind="system", name="notice")
#: How people are called, one name after the other.
STYLES = ("", " B.", "!", " (away)")
ROOMS = ("hall", "kitchen", "yard", "vault", "den", "attic")
WORDS = ("heron", "kestrel", "osprey", "bittern", "curlew", "dunlin", "merlin", "plover", "tea", "boat")
#: Who was in the vault, and from when to when, as parts of the story.
STAYS = (
    ("anabel", 0.0, None),
    ("borislav", 0.0, 0.3),
    ("cyrilla", 0.1, 0.5),
    ("borislav", 0.6, None),
    ("deodat", 0.4, 0.9),
    ("helper", 0.2, None),
    ("cyrilla", 0.7, 0.8),
)
EVERYBODY = {one.account_id: one for one in (*PEOPLE, *AGENTS) if not one.persona}


class Teller:
    """Draws the messages of one story, a minute apart, sometimes two at the same time."""

    def __init__(self, count: int, seed: int) -> None:
        self.count = count
        self.random = random.Random(seed)
        #: The message that carries the den's last list.
        self._leaving: int | None = None

    def records(self) -> list[IncomingMessage]:
        """Return every version of every message, in the order in which they were written."""
        told = [record for number in range(self.count) for record in self._versions(number)]
        return sorted(told, key=lambda record: record.edited_at or record.sent_at)

    def _versions(self, number: int) -> Iterator[IncomingMessage]:
        first = self._first(number)
        yield first
        last, removed = first, self.random.random() < 0.06
        for edit in range(self.random.choice((0, 0, 0, 1, 2))):
            written_at = last.sent_at + timedelta(minutes=self.random.randrange(1, self.count), seconds=edit)
            last = replace(
                first,
                body=f"{first.body} again {edit}" if self.random.random() < 0.9 else "",
                edited_at=written_at,
                # A removed message does not tell which of its versions named its author.
                author=first.author if removed else self._called(first.author, written_at),
                metadata={"edit": edit},
                reply_to=self.random.choice((None, first.reply_to)),
            )
            yield last
        if removed:
            yield replace(first, deleted=True, reply_to=None)

    def _first(self, number: int) -> IncomingMessage:
        sent_at = self._time(number)
        # Two rooms may use the same id: the room is part of what names a message.
        where = self.random.choice(ROOMS[:3] if number % 2 else ROOMS[3:])
        kind, who = self._speaker(where, number)
        name = self._called(who, sent_at)
        return IncomingMessage(
            platform=PLATFORM,
            room=self._room(where, number),
            external_id=str(number // 2),
            author=name,
            body=f"{self._statement(number)}{' '.join(self.random.sample(WORDS, 3))} unique{number:04}",
            sent_at=sent_at,
            order=number,
            kind=kind,
            reply_to=self._another(number, 0.4),
            thread_root=self._another(number, 0.1),
            audience=tuple(self.random.sample(PEOPLE, 2)) if kind in {"whisper", "context_injection"} else (),
            mentions=(PEOPLE[number % 10].account_id,) if number % 3 == 1 else (),
            reactions=({"emoji": "+1", "count": number % 3 + 1},) if number % 13 == 0 else (),
            attachments=({"name": f"picture{number:04}"},) if number % 17 == 0 else (),
            metadata={"number": number} if number % 5 == 0 else {},
            raw={"text": f"raw{number:04}", "n": number} if number % 3 == 0 else None,
        )

    @staticmethod
    def _statement(number: int) -> str:
        """Let every seventh say something that is remembered, mostly once more and mostly with another value."""
        word = WORDS[number % len(WORDS)].title()
        match number % 21:
            case 0:
                return f"I live in {word}. "
            case 7:
                return f"My favourite bird is the {word.lower()}. "
            case 14:
                return f"I'm allergic to {word.lower()} feathers. "
            case _:
                return ""

    def _minute(self, number: int) -> int:
        return number - number % 7 % 2

    def _time(self, number: int) -> datetime:
        return at(self._minute(number))

    def _speaker(self, where: str, number: int) -> tuple[MessageKind, IncomingAuthor]:
        kind = self.random.choices(
            ("message", "whisper", "system", "context_injection"), weights=(80, 12, 4, 4)
        )[0]
        if kind == "system":
            return kind, NOTICES
        if kind == "context_injection":
            return kind, AGENTS[0]
        if where == "den":
            return kind, PEOPLE[number % (3 if number < self.count * 0.9 else 2)]
        return kind, self.random.choice((*PEOPLE, *PEOPLE, *AGENTS))

    def _called(self, who: IncomingAuthor, when: datetime) -> IncomingAuthor:
        if who.kind != "human":
            return who
        passed = (when - at(0)) / timedelta(minutes=self.count)
        style = STYLES[min(int(passed * len(STYLES)), len(STYLES) - 1)]
        return replace(who, name=who.account_id.title() + style)

    def _another(self, number: int, chance: float) -> str | None:
        """Name a message near this one, earlier or later, or one that nobody ever sends."""
        if self.random.random() >= chance:
            return None
        near = (number + self.random.randrange(-40, 20)) // 2
        return str(near) if 0 <= near < self.count // 2 else MISSING

    def _room(self, where: str, number: int) -> IncomingRoom:
        passed = self._minute(number) / self.count
        described = IncomingRoom(
            external_id=where,
            name=where if passed < 0.6 else f"{where}-renamed",
            topic="tea" if 0.3 < passed < 0.8 else "",
            kind="group_dm" if where == "den" else "channel",
        )
        match where:
            case "yard":
                stays = [self._stay(*stay, known=1.0) for stay in STAYS[: 1 + number % len(STAYS)]]
                return replace(described, members=tuple(stays))
            case "vault":
                stays = [self._stay(*stay, known=passed) for stay in STAYS if stay[1] <= passed]
                return replace(described, visibility="members", members=tuple(stays))
            case "den":
                listed = self._den(number)
                return replace(described, visibility="members", members=listed)
            case "attic":
                return replace(described, visibility="members" if passed > 0.5 else "open")
            case _:
                return described

    def _stay(self, account: str, joined: float, left: float | None, *, known: float) -> IncomingMembership:
        return IncomingMembership(
            author=EVERYBODY[account],
            joined_at=at(joined * self.count),
            left_at=None if left is None or left > known else at(left * self.count),
        )

    def _den(self, number: int) -> tuple[IncomingMembership, ...]:
        """List the three of the den, and after nine parts in ten the two who stay, once."""
        last = self.count * 9 // 10
        if number < last:
            return tuple(IncomingMembership(author=one) for one in PEOPLE[:3])
        if self._leaving is None and self._time(number) == at(number):
            self._leaving = number
            return tuple(IncomingMembership(author=one) for one in PEOPLE[:2])
        return ()


def in_batches(records: Sequence[IncomingMessage], size: int) -> list[Sequence[IncomingMessage]]:
    """Cut records into batches of a size."""
    return [records[start : start + size] for start in range(0, len(records), size)]
