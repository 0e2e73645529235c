# ruff: noqa: PLR2004  the numbers are probabilities and sizes of made rooms
"""Makes rooms of single conversations: one alone, one after another, or up to four at the same time.

A real room differs from a corpus in its clock, its people and its style. So each made room has a pace, people of its own who
take part in several conversations, and habits: whether they name each other, split a thought over several messages,
write in lower case, or say that they change the subject.
"""

import math
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

_NAMES = (
    "Adam Aisha Alex Alice Amir Amy Andrea Anita Anton Arjun Astrid Bea Ben Bianca Boris Brenda Camille Carlos Cem "
    "Chen Chloe Clara Dana Daniel Deniz Diego Dora Ed Elena Elif Emil Emma Eric Esra Fatima Felix Fiona Gabi Georg "
    "Gina Hana Hassan Heidi Hugo Ines Ingrid Irene Ivan Jack Jamal Jan Jane Jason Jean Joan Johan Jorge Julia Kai "
    "Karen Keiko Kofi Lars Laura Lena Leo Liam Linda Luca Luis Maja Marco Maria Mark Marta Max Maya Mei Mila Nadia "
    "Nico Nina Noah Olga Omar Pablo Paula Petra Priya Quinn Rachel Ravi Rosa Sami Sara Sean Selma Simon Sofia Stella "
    "Sven Tara Theo Tim Tom Uma Vera Vijay Wanda Wei Yara Yuki Yusuf Zara Zoe sk8r pixel nova mossy bytebee noodle raven "
    "koala99 zed moth gizmo quark waffles echo7 lumen hex sprout badger comet ash_k jo.b m_lopez t-wren dk"
).split()
_ROLES = frozenset({"SYSTEM", "USER", "user", "assistant", "agent", "A", "B", "agent_1", "agent_2"})
#: Corpora in which one side is a machine that serves many.
_SERVED = frozenset({"sgd", "tm4"})
_BOT_NAMES = ("HelpBot", "Assistant", "ShopBot", "Desk", "Agent Kim", "Support", "aria", "concierge")
_TURNING = (
    *("btw, {}", "by the way, {}", "different topic: {}", "unrelated: {}", "also, {}", "quick question: {}"),
    *(
        "oh and {}",
        "{} (sorry, other topic)",
        "changing the subject, {}",
        "one more thing, {}",
        "hey all, {}",
    ),
)
_REACTIONS = (
    "ok|+1|thanks!|\U0001f44d|great|lol|haha|sure|nice|will do|got it|same|cool|true|perfect|np|yes".split(
        "|"
    )
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_LONGEST_SILENCE = 4 * 86_400
#: Between two conversations of a room that sleeps: up to three months.
_LONGEST_SLEEP = 90 * 86_400


@dataclass(frozen=True, slots=True)
class Line:
    """One message of a made room."""

    seconds: float
    author: str
    conversation: int
    text: str


@dataclass
class _Room:
    chance: random.Random
    conversations: Sequence[dict[str, Any]]
    people: list[str] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    made: int = 0

    def __post_init__(self) -> None:
        chance = self.chance
        self.people = chance.sample(_NAMES, chance.randint(2, 8))
        self.pace = min(max(60 * math.exp(chance.gauss(0, 1.1)), 3), 3_600)
        self.shares_people = chance.random()
        self.names_others = chance.choice((0, 0, 0.08, 0.2, 0.45))
        self.says_turn = chance.choice((0, 0.05, 0.1, 0.4))
        self.splits = chance.choice((0, 0.2, 0.6))
        self.bot = chance.choice(_BOT_NAMES) if chance.random() < 0.5 else None
        #: How often the room sleeps between two conversations.
        self.sleeps = random.Random(self.pace)  # noqa: S311  not a secret
        self.lower = {name: chance.random() < 0.4 for name in (*_NAMES, *_BOT_NAMES)}

    def spread(self, middle: float, spread: float) -> float:
        return middle * math.exp(self.chance.gauss(0, spread))

    def add(self, start: float, *, longest: int, is_first: bool) -> tuple[float, float]:
        """Add a conversation; return when it begins and ends."""
        chance = self.chance
        source = chance.choice(self.conversations)
        length = 1 if chance.random() < 0.08 else max(2, int(self.spread(5.5, 0.6)))
        turns = source["turns"][: min(length, longest)]
        names = self._cast(turns, is_served=source["corpus"] in _SERVED)
        guests = self._guests(names) if source["corpus"] not in _SERVED else []
        at, pace, previous, said = start, self.pace * math.exp(chance.gauss(0, 0.4)), None, 0
        for number, (speaker, whole) in enumerate(turns):
            author = names[speaker]
            if guests and number > 1 and chance.random() < 0.3:
                author = chance.choice(guests)
            for piece, text in enumerate(self._pieces(whole)):
                if said:
                    at += self._pause(pace * (0.25 if piece else 1.0))
                written = self._addressed(text, previous) if piece == 0 and author != previous else text
                if not said and not is_first and chance.random() < self.says_turn:
                    written = chance.choice(_TURNING).format(written)
                self._say(at, author, written, names)
                said += 1
            previous = author
        if length > 1 and chance.random() < 0.2:
            at += self._pause(pace)
            others = [name for name in (*names.values(), *guests) if name != previous]
            self._say(at, chance.choice(others or [str(previous)]), chance.choice(_REACTIONS), names)
        self.made += 1
        return start, at

    def _pause(self, pace: float) -> float:
        long = self.spread(15, 0.8) if self.chance.random() < 0.04 else 1.0
        return min(max(self.spread(pace, 0.8) * long, 1.0), _LONGEST_SILENCE)

    def _cast(self, turns: Sequence[Sequence[str]], *, is_served: bool) -> dict[str, str]:
        """Return the name in the room of each speaker."""
        chance = self.chance
        if chance.random() < self.shares_people:
            free = chance.sample(self.people, len(self.people))
        else:
            free = chance.sample([name for name in _NAMES if name not in self.people], 8)
            if len(self.people) < 12:
                self.people += free[:2]
        names: dict[str, str] = {}
        for speaker, _ in turns:
            if speaker in names:
                continue
            if is_served and self.bot and speaker in {"SYSTEM", "assistant", "A", "agent"}:
                names[speaker] = self.bot
            else:
                names[speaker] = free.pop() if free else chance.choice(_NAMES)
        return names

    def _guests(self, names: dict[str, str]) -> list[str]:
        others = [name for name in self.people if name not in names.values()]
        return self.chance.sample(others, min(len(others), self.chance.choice((0, 0, 1, 2))))

    def _pieces(self, text: str) -> list[str]:
        parts = _SENTENCE_END.split(text)
        if len(parts) < 2:
            return [text]
        if self.chance.random() < self.splits:
            cut = self.chance.randint(1, len(parts) - 1)
            return [" ".join(parts[:cut]), " ".join(parts[cut:])]
        return [" ".join(parts[:2])] if len(text) > 120 and self.chance.random() < 0.6 else [text]

    def _addressed(self, text: str, previous: str | None) -> str:
        if previous is None or self.chance.random() >= self.names_others:
            return text
        forms = (f"@{previous} {text}", f"{previous}: {text}", f"{previous}, {text}", f"{text} {previous}")
        return self.chance.choice(forms)

    def _say(self, at: float, author: str, text: str, names: dict[str, str]) -> None:
        for old, new in names.items():
            if len(old) > 2 and old not in _ROLES:
                text = re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", new, text, flags=re.IGNORECASE)
        if self.lower.get(author):
            text = text.lower().removesuffix(".")
        self.lines.append(Line(at, author, self.made, text))


def rooms(
    conversations: Sequence[dict[str, Any]], count: int, seed: int, *, pure: float = 0.7
) -> list[list[Line]]:
    """Return made rooms, each in order of time; a share of `pure` of them has conversations of one corpus only."""
    chance = random.Random(seed)  # noqa: S311  not a secret
    by_corpus: dict[str, list[dict[str, Any]]] = {}
    for each in conversations:
        by_corpus.setdefault(each["corpus"], []).append(each)
    corpora = sorted(by_corpus)
    made: list[list[Line]] = []
    while len(made) < count:
        one = random.Random(chance.random())  # noqa: S311  not a secret
        if one.random() < pure:
            sources = by_corpus[one.choice(corpora)]
        else:
            sources = [one.choice(by_corpus[one.choice(corpora)]) for _ in range(12)]
        lines = _room(one, sources)
        if 3 <= len(lines) <= 90:
            made.append(lines)
    return made


def _room(chance: random.Random, sources: Sequence[dict[str, Any]]) -> list[Line]:
    room = _Room(chance, sources)
    kind, at = chance.random(), 0.0

    def silence() -> float:
        far = max(room.spread(max(2_400, room.pace * 20), 0.9), room.pace * 4)
        if room.sleeps.random() < 0.4:
            return min(far * room.sleeps.choice((5, 20, 100, 500)), _LONGEST_SLEEP)
        return min(far, _LONGEST_SILENCE)

    def breath() -> float:
        return room.pace * math.exp(chance.gauss(0.5, 0.9))

    if kind < 0.18:
        room.add(0, longest=40, is_first=True)
        while len(room.lines) < 8 and chance.random() < 0.5:
            room.lines.clear()
            room.add(0, longest=40, is_first=True)
    elif kind < 0.5:
        is_slow = kind < 0.34
        for number in range(chance.randint(2, 7)):
            _, end = room.add(at, longest=20, is_first=number == 0)
            at = end + (silence() if is_slow or chance.random() < 0.25 else breath())
    else:
        for number in range(chance.choice((1, 1, 2, 3, 4))):
            start, end = room.add(at, longest=20, is_first=number == 0)
            last = end
            for _ in range(chance.choice((1, 1, 1, 2, 2, 3))):
                beside = start + chance.random() * max(end - start, room.pace)
                last = max(last, room.add(beside, longest=20, is_first=False)[1])
            at = last + (silence() if chance.random() < 0.5 else breath())
    grain = chance.choice((1, 1, 1, 60))
    return sorted(
        (
            Line(float(line.seconds // grain * grain), line.author, line.conversation, line.text)
            for line in room.lines
        ),
        key=lambda line: line.seconds,
    )
