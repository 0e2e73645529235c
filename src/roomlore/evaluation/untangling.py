"""Scores who answers whom, and which messages are one conversation, against what people judged.

The measures are those of J. K. Kummerfeld et al., A Large-Scale Corpus for Conversation Disentanglement, ACL 2019:
a message that answers nothing is linked to itself; conversations are what links connect, through messages that
nobody judged too; system messages count; one message alone is no conversation to be found exactly. A figure that
is not defined, such as a share of nothing, is None.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from roomlore.domain.errors import BadInput
from roomlore.evaluation.assignment import best_pairs
from roomlore.evaluation.datasets import GoldConversation, Link
from roomlore.evaluation.metrics import Report

Group = frozenset[str]
Pairs = set[tuple[str, str]]
Figures = dict[str, float | None]
#: How many messages a found and a gold group share, by their places.
Table = Mapping[tuple[int, int], int]
#: Of the found and of the gold groups.
Sizes = tuple[Sequence[int], Sequence[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """In which conversation a system puts a message."""

    message_id: str
    #: Any name, unique within a room.
    conversation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parted:
    """Judged messages, parted by people and by the system."""

    gold: Sequence[Group]
    found: Sequence[Group]
    #: The room of each judged message.
    room_of: Mapping[str, str]

    def room(self, group: Group) -> str:
        """Return the room of a group."""
        return self.room_of[min(group)]

    def by_room(self) -> "dict[str, _Parted]":
        """Return the part that is in each room, in the order in which the rooms come."""
        rooms: dict[str, dict[str, str]] = defaultdict(dict)
        for message, room in self.room_of.items():
            rooms[room][message] = room
        gold, found = self._sorted(self.gold), self._sorted(self.found)
        return {
            room: _Parted(gold=gold[room], found=found[room], room_of=within)
            for room, within in rooms.items()
        }

    def _sorted(self, groups: Sequence[Group]) -> dict[str, list[Group]]:
        sorted_: dict[str, list[Group]] = defaultdict(list)
        for group in groups:
            sorted_[self.room(group)].append(group)
        return sorted_


def score_links(
    links: Iterable[Link], conversations: Sequence[GoldConversation], *, run: Iterable[Link]
) -> Report:
    """Return how many answers are found and right, and the same of the conversations that they make.

    Precision, recall and F of links; then what `score_conversations` returns. A message without a link starts a
    conversation. Only what the judged messages answer counts, but conversations are made of the whole run.

    Args:
        links: Which message answers which.
        conversations: Every judged message, once.
        run: What the system says; a message may answer several.
    """
    room_of = _rooms_of(conversations)
    given = [(link.child, link.parent) for link in run]
    gold = _with_starts({(link.child, link.parent) for link in links}, room_of)
    found = _with_starts({pair for pair in given if pair[0] in room_of}, room_of)
    parted = _Parted(gold=_groups(conversations), found=_connected(room_of, given), room_of=room_of)
    report: Report = _rounded(_linked(gold, found) | _compared(parted))
    gold_in, found_in = _by_room(gold, room_of), _by_room(found, room_of)
    report["rooms"] = {
        room: _rounded(_linked(gold_in[room], found_in[room]) | _compared(part))
        for room, part in parted.by_room().items()
    }
    return report


def score_conversations(conversations: Sequence[GoldConversation], *, run: Iterable[Placement]) -> Report:
    """Return how well conversations are told apart, in all and by room.

    `1-VI` is one minus the variation of information over its largest possible value (M. Meilă, Comparing
    clusterings, 2007), `ARI` the adjusted Rand index (L. Hubert and P. Arabie, Comparing partitions, 1985), `1-1` the
    share of messages that fall together when conversations are paired off as well as can be within rooms, `exact`
    how many conversations of two messages or more are found whole and with nothing else. A message that the run
    does not place is one alone.

    Raises:
        BadInput: The run places a message in two conversations.
    """
    room_of = _rooms_of(conversations)
    parted = _Parted(gold=_groups(conversations), found=_placed(run, room_of), room_of=room_of)
    report: Report = _rounded(_compared(parted))
    return report | {"rooms": {room: _rounded(_compared(part)) for room, part in parted.by_room().items()}}


def _rooms_of(conversations: Iterable[GoldConversation]) -> dict[str, str]:
    return {message: one.room for one in conversations for message in one.message_ids}


def _groups(conversations: Iterable[GoldConversation]) -> list[Group]:
    return [frozenset(one.message_ids) for one in conversations if one.message_ids]


def _by_room(pairs: Pairs, room_of: Mapping[str, str]) -> dict[str, Pairs]:
    """Return the pairs of judged messages by room."""
    found: dict[str, Pairs] = defaultdict(set)
    for child, parent in pairs:
        if child in room_of:
            found[room_of[child]].add((child, parent))
    return found


def _with_starts(pairs: Pairs, judged: Iterable[str]) -> Pairs:
    """Return the pairs, and for each judged message that answers nothing one with itself."""
    children = {child for child, _ in pairs}
    return pairs | {(message, message) for message in judged if message not in children}


def _connected(judged: Iterable[str], pairs: Iterable[tuple[str, str]]) -> list[Group]:
    """Return the judged messages in the groups that pairs connect, through any messages."""
    parent: dict[str, str] = {}

    def root(message: str) -> str:
        while (above := parent.setdefault(message, message)) != message:
            # Halving the way keeps it short.
            parent[message] = message = parent[above]
        return message

    for one, other in pairs:
        parent[root(one)] = root(other)
    groups: dict[str, set[str]] = defaultdict(set)
    for message in judged:
        groups[root(message)].add(message)
    return [frozenset(group) for group in groups.values()]


def _placed(run: Iterable[Placement], room_of: Mapping[str, str]) -> list[Group]:
    """Return the judged messages in the groups that the run puts them in; what it leaves out is alone."""
    label: dict[str, str] = {}
    for placement in run:
        message = placement.message_id
        if message in room_of and label.setdefault(message, placement.conversation) != placement.conversation:
            raise BadInput(f"message {message}", "the run places it in two conversations")
    groups: dict[tuple[str, str], set[str]] = defaultdict(set)
    for message, conversation in label.items():
        groups[room_of[message], conversation].add(message)
    alone = [frozenset([message]) for message in room_of if message not in label]
    return [frozenset(group) for group in groups.values()] + alone


def _linked(gold: Pairs, found: Pairs) -> Figures:
    hits = len(gold & found)
    precision, recall = _share(hits, len(found)), _share(hits, len(gold))
    return {"link P": precision, "link R": recall, "link F": _balance(precision, recall)}


def _compared(parted: _Parted) -> Figures:
    where = {message: place for place, group in enumerate(parted.gold) for message in group}
    table = Counter((place, where[message]) for place, group in enumerate(parted.found) for message in group)
    sizes = [len(group) for group in parted.found], [len(group) for group in parted.gold]
    return {
        "1-VI": _shared_information(table, sizes, len(where)),
        "ARI": _adjusted_rand(table, sizes, len(where)),
        "1-1": _share(_most_overlap(parted, table), len(where)),
        **_exact(parted),
    }


def _shared_information(table: Table, sizes: Sizes, count: int) -> float | None:
    """Return one minus the variation of information, in parts of the most that there can be."""
    if count <= 1:
        return None
    found, gold = sizes
    joint = -math.fsum(both / count * math.log2(both / count) for both in table.values())
    mutual = math.fsum(
        both / count * math.log2(both * count / (found[a] * gold[b])) for (a, b), both in table.items()
    )
    return 1 - (joint - mutual) / math.log2(count)


def _adjusted_rand(table: Table, sizes: Sizes, count: int) -> float | None:
    """Return the share of pairs treated alike, above what chance gives; None where nothing could differ."""
    if count <= 1:
        return None
    together, found, gold = (sum(map(_pairs, many)) for many in (table.values(), *sizes))
    chance = found * gold / _pairs(count)
    most = (found + gold) / 2
    return None if most == chance else (together - chance) / (most - chance)


def _pairs(count: int) -> float:
    return count * (count - 1) / 2


def _most_overlap(parted: _Parted, table: Table) -> int:
    """Return how many messages fall together when the groups of each room are paired off at their best."""
    cells: dict[str, dict[tuple[int, int], int]] = defaultdict(dict)
    for (found, gold), both in table.items():
        room = parted.room(parted.gold[gold])
        if parted.room(parted.found[found]) == room:
            cells[room][found, gold] = both
    return sum(_paired_off(overlaps) for overlaps in cells.values())


def _paired_off(overlaps: Table) -> int:
    rows = {found: row for row, found in enumerate(dict.fromkeys(found for found, _ in overlaps))}
    columns = {gold: column for column, gold in enumerate(dict.fromkeys(gold for _, gold in overlaps))}
    grid = np.zeros((len(rows), len(columns)), np.int64)
    for (found, gold), both in overlaps.items():
        grid[rows[found], columns[gold]] = both
    return sum(int(grid[pair]) for pair in best_pairs(grid))


def _exact(parted: _Parted) -> Figures:
    gold, found = ({group for group in groups if len(group) > 1} for groups in (parted.gold, parted.found))
    hits = len(gold & found)
    precision, recall = hits / len(found) if found else 0.0, _share(hits, len(gold))
    return {"exact P": precision, "exact R": recall, "exact F": _balance(precision, recall)}


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _balance(precision: float | None, recall: float | None) -> float | None:
    if precision is None or recall is None:
        return None
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _rounded(figures: Figures) -> Figures:
    return {name: value if value is None else round(value, 4) for name, value in figures.items()}
