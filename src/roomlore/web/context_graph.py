"""The picture of a context: its candidates one below the other, and the ways over which they were reached."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from roomlore.context.expansion import TimeBoundary
from roomlore.domain.ids import MessageId
from roomlore.domain.records import ReplyMethod
from roomlore.web.candidates import Candidate, MemoryCandidate

#: Of a row, and where its dot stands: left of it the ways, right of it the words.
ROW, DOT, WIDTH = 26, 112, 1180
#: A way of one row is so deep, and each row more adds to it, up to a depth.
MIN_ARC_DEPTH, ARC_DEPTH_STEP, MAX_ARC_DEPTH = 16, 9, 132
#: More than so many messages no picture shows; those that are in come first.
MAX_DOTS = 80
#: Characters of a message beside its dot.
GLANCE = 124

#: How a message was reached: the platform says so, it was found, it stood near in time, or it is remembered.
EdgeKind = Literal["stated", "found", "near", "remembered"]
STATED = frozenset[ReplyMethod]({"explicit", "thread"})
EDGE_KIND_TEXTS: Mapping[EdgeKind, str] = {
    "stated": "a reply, by the platform's own word",
    "found": "a reply that was found",
    "near": "near in time",
    "remembered": "a memory",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """A message in the picture."""

    candidate: Candidate
    y: int
    glance: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDiamond:
    """A memory in the picture."""

    memory: MemoryCandidate
    y: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Arc:
    """A way from one row to another, as the path of a drawing."""

    way: EdgeKind
    path: str
    #: For those who point at it, and who hear it read.
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Where nobody spoke for too long, and nothing further was looked at."""

    y: int
    length: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextGraph:
    """Everything of the picture, each with its place."""

    dots: Sequence[Dot]
    diamonds: Sequence[MemoryDiamond]
    arcs: Sequence[Arc]
    pauses: Sequence[Pause]
    width: int
    height: int
    #: Where the dots stand.
    x: int
    #: Messages that were considered and are not in the picture, for want of place.
    not_drawn: int

    @property
    def ways(self) -> Mapping[EdgeKind, str]:
        """What the lines of this picture mean."""
        used = {arc.way for arc in self.arcs}
        return {way: means for way, means in EDGE_KIND_TEXTS.items() if way in used}


def context_graph(
    candidates: Sequence[Candidate], boundaries: Sequence[TimeBoundary], memories: Sequence[MemoryCandidate]
) -> ContextGraph:
    """Return the picture of a context, the oldest on top, what is remembered below the message to answer."""
    shown = _select_dots(candidates)
    rows, pauses = _row_positions(shown, boundaries)
    dots = [Dot(candidate=one, y=rows[one.message_id], glance=_glance(one)) for one in shown]
    below = max((dot.y for dot in dots), default=0)
    diamonds = [
        MemoryDiamond(memory=one, y=below + (place + 1) * ROW)
        for place, one in enumerate(memory for memory in memories if memory.included)
    ]
    return ContextGraph(
        dots=dots,
        diamonds=diamonds,
        arcs=[*_arcs(shown, rows), *_memory_arcs(shown, rows, diamonds)],
        pauses=pauses,
        width=WIDTH,
        height=below + (len(diamonds) + 1) * ROW,
        x=DOT,
        not_drawn=len(candidates) - len(shown),
    )


def _select_dots(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return as many as a picture shows, in the order of the room: those that are in, then the newest."""
    newest_first = candidates[::-1]
    first = sorted(newest_first, key=lambda one: not one.included)[:MAX_DOTS]
    kept = {one.message_id for one in first}
    return [one for one in candidates if one.message_id in kept]


def _row_positions(
    shown: Sequence[Candidate], sealed: Sequence[TimeBoundary]
) -> tuple[dict[MessageId, int], list[Pause]]:
    """Return where each message stands, and where the pauses between them."""
    before = {seal.message_id: seal.gap for seal in sealed if seal.direction == "before"}
    after = {seal.message_id: seal.gap for seal in sealed if seal.direction == "after"}
    rows: dict[MessageId, int] = {}
    pauses: list[Pause] = []
    y = 0
    for one in shown:
        for gap in [before[one.message_id]] if one.message_id in before else []:
            y += ROW
            pauses.append(Pause(y=y, length=gap))
        y += ROW
        rows[one.message_id] = y
        for gap in [after[one.message_id]] if one.message_id in after else []:
            y += ROW
            pauses.append(Pause(y=y, length=gap))
    return rows, pauses


def _arcs(shown: Sequence[Candidate], rows: Mapping[MessageId, int]) -> list[Arc]:
    labels = {one.message_id: one.label or "one that is out" for one in shown}
    found: list[Arc] = []
    for one in shown:
        name = labels[one.message_id]
        if one.via is not None and one.via in rows:
            found.append(_arc(rows[one.message_id], rows[one.via], _edge_kind(one), f"{name}: {one.reason}"))
        tied = {one.via, *(other.message_id for other in shown if other.via == one.message_id)}
        if one.reply_to is not None and one.reply_to in rows and one.reply_to not in tied:
            title = f"{name}: answers {labels[one.reply_to]}"
            found.append(_arc(rows[one.message_id], rows[one.reply_to], "stated", title))
    return found


def _memory_arcs(
    shown: Sequence[Candidate], rows: Mapping[MessageId, int], diamonds: Sequence[MemoryDiamond]
) -> list[Arc]:
    trigger = next((rows[one.message_id] for one in shown if one.rule == "trigger"), None)
    return [
        _arc(diamond.y, trigger, "remembered", f"{diamond.memory.label}: {diamond.memory.reason}")
        for diamond in diamonds
        if trigger is not None
    ]


def _edge_kind(one: Candidate) -> EdgeKind:
    if one.method is None:
        return "near"
    return "stated" if one.method in STATED else "found"


def _arc(start: int, end: int, way: EdgeKind, title: str) -> Arc:
    depth = min(MAX_ARC_DEPTH, MIN_ARC_DEPTH + ARC_DEPTH_STEP * max(0, abs(start - end) // ROW - 1))
    # Clear of the dots at both ends.
    x, edge = DOT - 8, DOT - 8 - depth
    return Arc(way=way, path=f"M {x} {start} C {edge} {start}, {edge} {end}, {x} {end}", title=title)


def _glance(one: Candidate) -> str:
    longest = max(12, GLANCE - len(one.author_name))
    return one.glance if len(one.glance) <= longest else f"{one.glance[: longest - 1]}…"
