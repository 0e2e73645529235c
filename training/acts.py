"""Learns which words speak for what a message does: start, go on, answer another, be answered."""

import numpy as np
import numpy.typing as npt

from roomlore.conversations.message_text import (
    ACT_COUNT,
    BUCKETS,
    CHARACTERS_READ,
    Lexicon,
    act_features,
    tokens,
)
from roomlore.domain.ids import MessageId, ParticipantId
from roomlore.text.mentions import mention_words
from training.rooms import TrainingRoom

_STEPS, _RATE, _DECAY = 40, 0.02, 1e-3


def learnt(rooms: list[TrainingRoom], rarity: list[float]) -> Lexicon:
    """Return what the judged messages of some rooms teach of words: one logistic regression for each act."""
    rows, lengths, truth = _read(rooms)
    usual = np.log(truth.mean(axis=0) / (1 - truth.mean(axis=0)))
    table = np.zeros((BUCKETS, ACT_COUNT))
    first, square = np.zeros_like(table), np.zeros_like(table)
    message = np.repeat(np.arange(len(lengths)), lengths)
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    for step in range(1, _STEPS + 1):
        against = np.add.reduceat(table[rows], starts, axis=0) + usual
        wrong = (1 / (1 + np.exp(-against)) - truth) / len(lengths)
        gradient = np.stack(
            [np.bincount(rows, wrong[message, act], BUCKETS) for act in range(ACT_COUNT)], axis=1
        )
        gradient += _DECAY * table
        first += 0.1 * (gradient - first)
        square += 0.01 * (gradient**2 - square)
        table -= _RATE * (first / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-7)
    return Lexicon(rarity, table.astype(np.float16).astype(np.float32), usual.astype(np.float32))


def _read(
    rooms: list[TrainingRoom],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    rows: list[int] = []
    lengths: list[int] = []
    truth: list[tuple[bool, ...]] = []
    for room in rooms:
        answered = _answered(room)
        authors = {line.said.id: line.said.author_id for line in room.lines}
        for line in (line for line in room.lines if line.judged):
            said, lower = line.said, line.said.body[:CHARACTERS_READ].lower()
            found = act_features(tokens(said.body)[mention_words(said.body).opening :], lower)
            rows += found
            lengths.append(len(found))
            above = {authors.get(parent) for parent in line.parents}
            below = answered.get(said.id, set())
            own = said.author_id
            truth.append((not above, own in above, bool(above - {own}), bool(below - {own}), own in below))
    return np.array(rows), np.array(lengths), np.array(truth, dtype=float)


def _answered(room: TrainingRoom) -> dict[MessageId, set[ParticipantId]]:
    found: dict[MessageId, set[ParticipantId]] = {}
    for line in room.lines:
        for parent in line.parents:
            found.setdefault(parent, set()).add(line.said.author_id)
    return found
