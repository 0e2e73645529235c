"""Reads rooms with known replies, and makes further rooms of them that are slower, nameless or not interleaved."""

import gzip
import json
import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from roomlore.conversations.message_text import BUCKETS, bucket, stem, tokens
from roomlore.conversations.window import COMMON_WORD_RARITY, WINDOW, ConversationMessage
from roomlore.domain.ids import MessageId, ParticipantId
from roomlore.text.mentions import aliases, mention_words

#: So many messages before the first judged one are enough to fill the window.
_LEAD = WINDOW + 50
_FEWEST_ALONE = 4
_WITH_SECONDS = 0.6
#: A word in fewer messages is as rare as can be.
_RAREST = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A message, whether its replies are known, and which messages it answers (none: it starts a conversation)."""

    said: ConversationMessage
    judged: bool
    parents: frozenset[MessageId]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRoom:
    """A room, or one made of it."""

    id: str
    lines: list[Line]
    #: How much it counts in training.
    weight: float = 1.0


def read_rooms(folder: Path) -> list[TrainingRoom]:
    """Return the rooms of a data set (rooms, messages, links and conversations as .jsonl or .jsonl.gz), in order.

    System lines are left out; of the unjudged beginning only what fills the window is kept.
    """
    parents: defaultdict[str, set[str]] = defaultdict(set)
    for link in _read(folder / "links.jsonl"):
        parents[link["child"]].add(link["parent"])
    judged = {one for row in _read(folder / "conversations.jsonl") for one in row["message_ids"]}
    lines: defaultdict[str, list[Line]] = defaultdict(list)
    for row in _read(folder / "messages.jsonl"):
        if not row.get("system"):
            lines[row["room"]].append(_line(row, judged, parents))
    return [
        TrainingRoom(id=row["id"], lines=_kept(lines[row["id"]])) for row in _read(folder / "rooms.jsonl")
    ]


def _read(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        path = path.with_name(path.name + ".gz")
    with (
        gzip.open(path, "rt", encoding="utf-8")
        if path.suffix == ".gz"
        else path.open(encoding="utf-8") as file
    ):
        for line in file:
            if line.strip():
                yield json.loads(line)


def _line(row: dict[str, Any], judged: set[str], parents: dict[str, set[str]]) -> Line:
    said = ConversationMessage(
        id=cast("MessageId", row["id"]),
        author_id=cast("ParticipantId", row["author_id"]),
        author_name=row["author_name"],
        sent_at=datetime.fromisoformat(row["timestamp"]).replace(tzinfo=UTC),
        body=row["text"],
    )
    above = cast("set[MessageId]", parents.get(row["id"], set()))
    return Line(said=said, judged=row["id"] in judged, parents=frozenset(above))


def _kept(lines: list[Line]) -> list[Line]:
    first = next((place for place, line in enumerate(lines) if line.judged), 0)
    return lines[max(0, first - _LEAD) :]


def rarity_of(rooms: list[TrainingRoom]) -> list[float]:
    """Return for each bucket of words the logarithm of one over the share of messages that hold it; names left out."""
    counts: Counter[int] = Counter()
    total = 0
    for room in rooms:
        names = _names(room)
        for line in room.lines:
            words = {bucket(stem(word)) for word in tokens(line.said.body) if word not in names}
            words |= {bucket(word) for word in tokens(line.said.body) if word not in names}
            counts.update(words)
            total += 1
    return [math.log(total / max(counts[row], _RAREST)) for row in range(BUCKETS)]


def _names(room: TrainingRoom) -> set[str]:
    found: set[str] = set()
    for name in {line.said.author_name for line in room.lines}:
        found |= aliases(name, lambda _: False)[1]
    return found


def without_names(room: TrainingRoom, rarity: list[float]) -> TrainingRoom:
    """Return a room in whose texts nobody is called by name."""
    loud: set[str] = set()
    plain: set[str] = set()
    for name in {line.said.author_name for line in room.lines}:
        forms = aliases(name, lambda word: rarity[bucket(word)] < COMMON_WORD_RARITY)
        loud |= forms[0]
        plain |= forms[1]
    lines = [
        replace(line, said=replace(line.said, body=_nameless(line.said.body, loud, plain)))
        for line in room.lines
    ]
    return TrainingRoom(id=f"{room.id} nameless", lines=lines)


def _nameless(body: str, loud: set[str], plain: set[str]) -> str:
    called = mention_words(body)
    gone = (loud & set(called.loud)) | (plain & set(called.plain))
    if not gone:
        return body
    kept = [word for word in body.split() if gone.isdisjoint(_forms(word))]
    return " ".join(kept) or "ok"


def _forms(word: str) -> set[str]:
    called = mention_words(word)
    return {*called.loud, *called.plain}


def with_other_clock(room: TrainingRoom, chance: random.Random) -> TrainingRoom:
    """Return a room that is faster or much slower, half the time with seconds where only minutes were known."""
    factor = math.exp(chance.uniform(math.log(0.3), math.log(200.0)))
    return TrainingRoom(
        id=f"{room.id} clock",
        lines=clocked(room.lines, factor, chance if chance.random() < _WITH_SECONDS else None),
    )


def clocked(lines: list[Line], factor: float, chance: random.Random | None = None) -> list[Line]:
    """Return lines with every gap times a factor; with chance, at random seconds of their minute, in order."""
    start = lines[0].said.sent_at
    seconds = [(line.said.sent_at - start).total_seconds() for line in lines]
    if chance is not None:
        by_minute: defaultdict[float, list[float]] = defaultdict(list)
        for line in lines:
            by_minute[(line.said.sent_at - start).total_seconds()].append(chance.uniform(0.0, 60.0))
        waiting = {minute: iter(sorted(drawn)) for minute, drawn in by_minute.items()}
        seconds = [(at := (line.said.sent_at - start).total_seconds()) + next(waiting[at]) for line in lines]
    return [
        replace(line, said=replace(line.said, sent_at=start + timedelta(seconds=second * factor)))
        for line, second in zip(lines, seconds, strict=True)
    ]


def one_after_another(room: TrainingRoom, chance: random.Random) -> TrainingRoom | None:
    """Return a room of the same conversations, but none begins before the last has ended; None if there are none."""
    top: dict[MessageId, MessageId] = {}
    conversations: defaultdict[MessageId, list[Line]] = defaultdict(list)
    for line in room.lines:
        if not line.judged:
            continue
        known = [top[parent] for parent in line.parents if parent in top]
        top[line.said.id] = known[0] if known else line.said.id
        conversations[top[line.said.id]].append(line)
    lines: list[Line] = []
    at = room.lines[0].said.sent_at
    for said in (talk for talk in conversations.values() if len(talk) >= _FEWEST_ALONE):
        start = said[0].said.sent_at
        lines += [
            replace(line, said=replace(line.said, sent_at=at + (line.said.sent_at - start))) for line in said
        ]
        at = lines[-1].said.sent_at + timedelta(seconds=60 * chance.randint(0, 120))
    return TrainingRoom(id=f"{room.id} alone", lines=lines, weight=0.5) if lines else None
