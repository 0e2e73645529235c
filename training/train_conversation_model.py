"""Trains the conversation model: `python -m training.train_conversation_model CONVERSATIONS OUT [--hold AUTHOR]`.

CONVERSATIONS is the file that `training.corpora` writes. Rooms are mixed of it, and the written rooms of
`training/sets` are added. `--hold` leaves one author's rooms out and measures on them; `--measure` measures on a data
set in the format of `python -m evaluation`. A conversation teaches either the text projections or the network.
"""

import argparse
import gzip
import hashlib
import json
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np

from evaluation.clustering import Assignment, score_conversations
from evaluation.datasets import GoldConversation
from roomlore.conversations.conversation_model import ConversationModel, Step, load_from, settle, window_of
from roomlore.conversations.open_conversations import (
    CANDIDATES,
    NO_LABEL,
    Arrival,
    TextProjections,
    arrival,
    candidates_of,
    features_of,
)
from roomlore.conversations.reply_linker import ReplyLinker
from roomlore.conversations.window import Array, ConversationMessage
from roomlore.domain.ids import MessageId, ParticipantId
from roomlore.domain.vectors import Vectors
from roomlore.models.local_embedding import LocalEmbedder
from training import mixing, network, text_projections, written_rooms
from training.corpora import HELD_OUT
from training.mixing import Line

MIXED_ROOMS, PROJECTION_ROOMS, MEASURED_ROOMS = 700, 250, 100
#: The most rooms of each data set of real rooms, and the weight of their messages.
REAL_ROOMS, REAL_WEIGHT = 80, 4.0
#: How often a message is put into a wrong conversation while the network learns, in rooms with such errors.
ERRORS = (0.0, 0.08, 0.16)
#: Written rooms are seen several times, with other errors each time, and weigh more than mixed ones.
WRITTEN_PASSES, WRITTEN_WEIGHT = 3, 4.0
PLAN = network.Plan(epochs=6, width=CANDIDATES, hidden=96, second=32, rate=2e-3, decay=0.2)
#: Made rooms begin at zero seconds.
_EPOCH = 1_700_000_000
_FIRST_REAL_TIME = 1e9

Rooms = list[list[Line]]


@dataclass(frozen=True, slots=True)
class Seen:
    """A room as the model sees it."""

    lines: Sequence[Line]
    arrivals: Sequence[Arrival]


class Embeddings:
    """The vectors of texts, each computed once and kept in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, Array] = {}
        if path.exists():
            with np.load(path, allow_pickle=False) as stored:
                self._known = dict(zip(stored["digests"].tolist(), stored["vectors"], strict=True))

    def add(self, rooms: Iterable[Sequence[Line]]) -> None:
        """Compute the vectors of all texts that are not known yet."""
        texts = list(dict.fromkeys(line.text for room in rooms for line in room))
        missing = [text for text in texts if _digest(text) not in self._known]
        if not missing:
            return
        embedder = LocalEmbedder.load()
        for start in range(0, len(missing), 4_096):
            part = missing[start : start + 4_096]
            for text, vector in zip(part, embedder.embed(part), strict=True):
                self._known[_digest(text)] = vector.astype(np.float16)
            _say(f"embedded {start + len(part)} of {len(missing)} texts")
            np.savez(self._path, digests=list(self._known), vectors=np.array(list(self._known.values())))

    def of(self, room: Sequence[Line]) -> Vectors:
        """Return one vector for each message."""
        return np.array([self._known[_digest(line.text)] for line in room], dtype=np.float32)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201  a script's progress


def see(lines: Sequence[Line], vectors: Vectors, projections: TextProjections) -> Seen:
    """Return what the model sees of the messages of a room, in order."""
    linker, texts = ReplyLinker(), projections.project(vectors)
    found: list[Arrival] = []
    for place, line in enumerate(lines):
        evidence = linker.link_with_evidence(_message(line, place))
        found.append(arrival(evidence, texts.relations(place, evidence.seen.count)))
    return Seen(lines, found)


def _message(line: Line, place: int) -> ConversationMessage:
    seconds = line.seconds if line.seconds > _FIRST_REAL_TIME else line.seconds + _EPOCH
    return ConversationMessage(
        id=MessageId(_id(f"message {place}")),
        author_id=ParticipantId(_id(f"author {line.author}")),
        author_name=line.author,
        sent_at=datetime.fromtimestamp(seconds, UTC),
        body=line.text,
    )


def _id(text: str) -> UUID:
    return UUID(bytes=hashlib.blake2b(text.encode(), digest_size=16).digest())


@dataclass(slots=True)
class _Collected:
    pairs: list[Array]
    own: list[Array]
    right: list[Array]
    count: list[int]


def examples_of(rooms: Sequence[Seen], *, seed: int, weight: float) -> network.Examples:
    """Return one example for each message with a candidate; earlier messages stand where they belong, with some errors."""
    chance = random.Random(seed)  # noqa: S311  not a secret
    found = _Collected([], [], [], [])
    for room in rooms:
        _collect(room, chance, found)
    return network.Examples(
        pairs=np.array(found.pairs, dtype=np.float16),
        own=np.array(found.own, dtype=np.float32),
        right=np.array(found.right),
        count=np.array(found.count),
        weight=np.full(len(found.own), weight, dtype=np.float32),
    )


def _collect(room: Seen, chance: random.Random, found: _Collected) -> None:
    labels, errors = window_of(()), chance.choice(ERRORS)
    #: The true conversation of each label.
    truth: dict[int, int] = {}
    for number, (line, seen) in enumerate(zip(room.lines, room.arrivals, strict=True)):
        candidates = candidates_of(labels[None])
        shown = [int(label) for label in candidates[0] if label != NO_LABEL]
        same = [label for label in shown if truth[label] == line.conversation]
        if shown:
            pairs, own = features_of(seen, labels[None], candidates)
            right = np.zeros(CANDIDATES + 1, dtype=np.bool_)
            right[CANDIDATES - 1 - shown.index(same[0]) if same else CANDIDATES] = True
            # The network expects the latest candidate in the last column.
            found.pairs.append(pairs[0][:, ::-1].astype(np.float16))
            found.own.append(own[0])
            found.right.append(right)
            found.count.append(len(shown))
        label = same[0] if same else number
        if chance.random() < errors:
            label = chance.choice([number, *shown[:3]])
        truth.setdefault(label, line.conversation)
        labels = np.append(labels[1:], label)


def joined(parts: Sequence[network.Examples]) -> network.Examples:
    """Return the examples of several parts as one."""
    return network.Examples(
        pairs=np.concatenate([part.pairs for part in parts]),
        own=np.concatenate([part.own for part in parts]),
        right=np.concatenate([part.right for part in parts]),
        count=np.concatenate([part.count for part in parts]),
        weight=np.concatenate([part.weight for part in parts]),
    )


def train(
    mixed: Sequence[Seen], real: Sequence[Seen], written: Sequence[Seen], *, projections: TextProjections
) -> dict[str, Array]:
    """Return the arrays of a weights file."""
    parts = [examples_of(mixed, seed=0, weight=1.0)]
    parts += [examples_of(real, seed=0, weight=REAL_WEIGHT)] if real else []
    passes = range(1, WRITTEN_PASSES + 1) if written else ()
    parts += [examples_of(written, seed=number, weight=WRITTEN_WEIGHT) for number in passes]
    examples = joined(parts)
    _say(f"{len(examples.own)} examples")
    scale = network.scale_of(examples)
    weights = network.folded(network.train(examples, scale, PLAN), scale)
    return {
        **weights,
        "before_projection": projections.before,
        "after_projection": projections.after,
        "start_direction": projections.start,
        "start_bonus": np.float32(0.0),
    }


def measure(model: ConversationModel, rooms: Sequence[Seen]) -> str:
    """Return the figures of a model on rooms with known conversations."""
    gold: list[GoldConversation] = []
    predicted: list[Assignment] = []
    for number, room in enumerate(rooms):
        members: dict[int, list[str]] = defaultdict(list)
        steps = [Step(seen, place) for place, seen in enumerate(room.arrivals)]
        settled = settle(model, (), steps, len(steps))
        for place, (line, one) in enumerate(zip(room.lines, settled, strict=True)):
            members[line.conversation].append(f"{number}/{place}")
            predicted.append(Assignment(message_id=f"{number}/{place}", conversation=f"{number}/{one.label}"))
        gold += [GoldConversation(room=str(number), message_ids=ids) for ids in members.values()]
    figures = score_conversations(gold, predicted=predicted)
    return json.dumps({key: value for key, value in figures.items() if not isinstance(value, dict)})


def _lines_of(path: Path) -> Iterator[dict[str, Any]]:
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
    yield from (json.loads(line) for line in text.split("\n") if line)


def rooms_of_set(folder: Path) -> Rooms:
    """Return the rooms of a data set of `python -m evaluation`: their messages with a known conversation."""
    conversation_of: dict[str, int] = {}
    for number, line in enumerate(_lines_of(next(folder.glob("conversations.jsonl*")))):
        conversation_of.update(dict.fromkeys(line["message_ids"], number))
    rooms: dict[str, list[Line]] = defaultdict(list)
    for one in _lines_of(next(folder.glob("messages.jsonl*"))):
        if one["id"] in conversation_of:
            seconds = datetime.fromisoformat(one["timestamp"]).replace(tzinfo=UTC).timestamp()
            line = Line(seconds, one["author_name"], conversation_of[one["id"]], one["text"])
            rooms[one["room"]].append(line)
    return list(rooms.values())


def main() -> None:
    """Train, measure and write the weights."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("conversations", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--hold", action="append", default=[], choices=written_rooms.authors())
    parser.add_argument("--learn", action="append", default=[], type=Path, help="a data set of real rooms")
    parser.add_argument("--measure", action="append", default=[], type=Path, help="a data set")
    options = parser.parse_args()

    conversations = list(_lines_of(options.conversations))
    learnt = [one for one in conversations if one["corpus"] not in HELD_OUT]
    halves = [[one for one in learnt if int(_digest(one["id"]), 16) % 2 == half] for half in (0, 1)]
    for_projections = mixing.rooms(halves[0], PROJECTION_ROOMS, seed=11)
    mixed = mixing.rooms(halves[1], MIXED_ROOMS, seed=12)
    written = [
        room
        for name in written_rooms.authors()
        if name not in options.hold
        for room in written_rooms.rooms_of(name)
    ]
    real_rooms: Rooms = []
    for folder in options.learn:
        real = rooms_of_set(folder)
        real_rooms += random.Random(14).sample(real, min(REAL_ROOMS, len(real)))  # noqa: S311  not a secret
    held: dict[str, Rooms] = {name: written_rooms.rooms_of(name) for name in options.hold}
    for corpus in sorted(HELD_OUT):
        own = [one for one in conversations if one["corpus"] == corpus]
        held |= {corpus: mixing.rooms(own, MEASURED_ROOMS, seed=13)} if own else {}
    held |= {folder.name: rooms_of_set(folder) for folder in options.measure}

    embeddings = Embeddings(options.out.with_suffix(".vectors.npz"))
    embeddings.add(
        [
            *for_projections,
            *mixed,
            *real_rooms,
            *written,
            *(room for rooms in held.values() for room in rooms),
        ]
    )
    projections = text_projections.train(for_projections, [embeddings.of(room) for room in for_projections])

    def seen(rooms: Rooms) -> list[Seen]:
        return [see(room, embeddings.of(room), projections) for room in rooms]

    np.savez(options.out, **train(seen(mixed), seen(real_rooms), seen(written), projections=projections))
    model = load_from(options.out)
    for name, rooms in held.items():
        _say(f"{name}: {measure(model, seen(rooms))}")


if __name__ == "__main__":
    main()
