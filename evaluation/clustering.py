"""Scores reply links and conversations against what people judged.

The metrics are those of J. K. Kummerfeld et al., A Large-Scale Corpus for Conversation Disentanglement, ACL 2019:
a message that answers nothing is linked to itself; conversations are connected components of links, also through
messages that nobody judged; system messages count; single messages are not counted in exact matches. An undefined
figure, such as a share of nothing, is None.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.cluster.hierarchy import DisjointSet
from scipy.optimize import linear_sum_assignment  # pyright: ignore[reportUnknownVariableType]

from evaluation.datasets import GoldConversation, Link
from evaluation.metrics import Report
from roomlore.domain.errors import BadInput

Group = frozenset[str]
Pairs = set[tuple[str, str]]
Figures = dict[str, float | None]
#: How many messages a found and a gold group share, by their places.
Contingency = Mapping[tuple[int, int], int]
#: Sizes of the found and of the gold groups.
Sizes = tuple[Sequence[int], Sequence[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The conversation to which a system assigns a message."""

    message_id: str
    #: Any name, unique within a room.
    conversation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Clusterings:
    """Two clusterings of the judged messages: by people and by the system."""

    gold: Sequence[Group]
    found: Sequence[Group]
    room_of: Mapping[str, str]

    def by_room(self) -> "dict[str, _Clusterings]":
        """Return the part in each room, in the order of the rooms."""
        gold, found = _split(self.gold, self.room_of), _split(self.found, self.room_of)
        return {room: _Clusterings(gold=gold[room], found=found[room], room_of=self.room_of) for room in gold}


def score_links(
    links: Iterable[Link], conversations: Sequence[GoldConversation], *, predicted: Iterable[Link]
) -> Report:
    """Return precision, recall and F1 of links, and the scores of the conversations that the links make.

    A message without a link starts a conversation. Only links of judged messages are scored, but conversations
    are made of all links.

    Args:
        links: Which message answers which.
        conversations: Every judged message, once.
        predicted: Which message answers which, by the system; a message may answer several.
    """
    room_of = _rooms_of(conversations)
    given = [(link.child, link.parent) for link in predicted]
    gold = _with_starts({(link.child, link.parent) for link in links}, room_of)
    found = _with_starts({pair for pair in given if pair[0] in room_of}, room_of)
    both = _Clusterings(gold=_groups(conversations), found=connected(room_of, given), room_of=room_of)
    report: Report = _rounded(_link_figures(gold, found) | _cluster_figures(both))
    gold_in, found_in = _by_room(gold, room_of), _by_room(found, room_of)
    report["rooms"] = {
        room: _rounded(_link_figures(gold_in[room], found_in[room]) | _cluster_figures(part))
        for room, part in both.by_room().items()
    }
    return report


def score_conversations(
    conversations: Sequence[GoldConversation], *, predicted: Iterable[Assignment]
) -> Report:
    """Return how well conversations are told apart, in all and by room.

    `1-VI` is one minus the variation of information, scaled by its maximum (M. Meilă, Comparing clusterings, 2007),
    `ARI` the adjusted Rand index (L. Hubert and P. Arabie, Comparing partitions, 1985), `1-1` the share of messages
    that overlap when conversations are matched one to one at their best within rooms, `exact` the exact matches
    of conversations of two messages or more. A message without an assignment is alone.

    Raises:
        BadInput: A message is assigned to two conversations.
    """
    room_of = _rooms_of(conversations)
    both = _Clusterings(gold=_groups(conversations), found=_assigned(predicted, room_of), room_of=room_of)
    report: Report = _rounded(_cluster_figures(both))
    return report | {
        "rooms": {room: _rounded(_cluster_figures(part)) for room, part in both.by_room().items()}
    }


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


def connected(judged: Iterable[str], pairs: Sequence[tuple[str, str]]) -> list[Group]:
    """Return the judged messages as connected components of the pairs, through any messages."""
    components = DisjointSet([*judged, *(message for pair in pairs for message in pair)])
    for child, parent in pairs:
        components.merge(child, parent)  # pyright: ignore[reportUnknownMemberType]
    groups: dict[str, set[str]] = defaultdict(set)
    for message in judged:
        groups[components[message]].add(message)
    return [frozenset(group) for group in groups.values()]


def _assigned(predicted: Iterable[Assignment], room_of: Mapping[str, str]) -> list[Group]:
    """Return the judged messages as the system groups them; a message without an assignment is alone."""
    label: dict[str, str] = {}
    for one in predicted:
        if (
            one.message_id in room_of
            and label.setdefault(one.message_id, one.conversation) != one.conversation
        ):
            raise BadInput(f"message {one.message_id}", "is assigned to two conversations")
    groups: dict[tuple[str, str], set[str]] = defaultdict(set)
    for message, conversation in label.items():
        groups[room_of[message], conversation].add(message)
    alone = [frozenset([message]) for message in room_of if message not in label]
    return [frozenset(group) for group in groups.values()] + alone


def _split(groups: Iterable[Group], room_of: Mapping[str, str]) -> dict[str, list[Group]]:
    """Return the groups of each room."""
    rooms: dict[str, list[Group]] = defaultdict(list)
    for group in groups:
        parts: dict[str, set[str]] = defaultdict(set)
        for message in group:
            parts[room_of[message]].add(message)
        for room, part in parts.items():
            rooms[room].append(frozenset(part))
    return rooms


def _link_figures(gold: Pairs, found: Pairs) -> Figures:
    hits = len(gold & found)
    precision, recall = _share(hits, len(found)), _share(hits, len(gold))
    return {"link P": precision, "link R": recall, "link F": _f1(precision, recall)}


def _cluster_figures(both: _Clusterings) -> Figures:
    contingency = _contingency(both)
    sizes = [len(group) for group in both.found], [len(group) for group in both.gold]
    count = sum(sizes[1])
    return {
        "1-VI": _scaled_vi(contingency, sizes, count),
        "ARI": _adjusted_rand(contingency, sizes, count),
        "1-1": _share(sum(map(_one_to_one, both.by_room().values())), count),
        **_exact(both),
    }


def _contingency(both: _Clusterings) -> Contingency:
    gold_of = {message: place for place, group in enumerate(both.gold) for message in group}
    return Counter((place, gold_of[message]) for place, group in enumerate(both.found) for message in group)


def _scaled_vi(contingency: Contingency, sizes: Sizes, count: int) -> float | None:
    """Return one minus the variation of information, scaled by its maximum; None of one message."""
    if count <= 1:
        return None
    found, gold = sizes
    joint = -math.fsum(both / count * math.log2(both / count) for both in contingency.values())
    mutual = math.fsum(
        both / count * math.log2(both * count / (found[a] * gold[b])) for (a, b), both in contingency.items()
    )
    return 1 - (joint - mutual) / math.log2(count)


def _adjusted_rand(contingency: Contingency, sizes: Sizes, count: int) -> float | None:
    """Return the adjusted Rand index; None where it is not defined, as for a single group on both sides."""
    if count <= 1:
        return None
    together, found, gold = (sum(map(_pairs, many)) for many in (contingency.values(), *sizes))
    chance = found * gold / _pairs(count)
    most = (found + gold) / 2
    return None if most == chance else (together - chance) / (most - chance)


def _pairs(count: int) -> float:
    return count * (count - 1) / 2


def _one_to_one(both: _Clusterings) -> int:
    """Return how many messages overlap when found and gold groups are matched one to one at their best."""
    overlaps = np.zeros((len(both.found), len(both.gold)), np.int64)
    for place, shared in _contingency(both).items():
        overlaps[place] = shared
    return int(overlaps[linear_sum_assignment(overlaps, maximize=True)].sum())


def _exact(both: _Clusterings) -> Figures:
    gold, found = ({group for group in groups if len(group) > 1} for groups in (both.gold, both.found))
    hits = len(gold & found)
    precision, recall = hits / len(found) if found else 0.0, _share(hits, len(gold))
    return {"exact P": precision, "exact R": recall, "exact F": _f1(precision, recall)}


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _f1(precision: float | None, recall: float | None) -> float | None:
    if precision is None or recall is None:
        return None
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _rounded(figures: Figures) -> Figures:
    return {name: value if value is None else round(value, 4) for name, value in figures.items()}
