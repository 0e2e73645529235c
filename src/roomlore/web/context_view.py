"""A context in the form that pages show: text by line, tokens by part, candidates, and a drawing of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from roomlore.context.expansion import TimeBoundary
from roomlore.context.memory_section import ExplainedMemory, MemorySection, section_text
from roomlore.context.records import Context, ContextLine, ExplainedMessage, OmittedMessage
from roomlore.context.render import PARTIAL, line_text
from roomlore.domain.ids import MemoryId, MessageId, ParticipantId
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.records import ReplyMethod, convert
from roomlore.domain.rendering import as_one_line, removal_notice, with_mention_names

#: The maximum number of characters of a message in the table, and in the drawing.
GLANCE, DRAWN_GLANCE = 140, 124
#: A label of a memory where a line of the memory section begins.
CITATION = lazy_pattern(r"(?P<before>- |Current focus: )#(?P<label>k\d+)(?=\s|$)")
#: The parts of a context in the order of its text.
PART_NAMES: Mapping[str, str] = {
    "memories": "memories",
    "temporal": "near in time",
    "reply": "connected by replies",
    "recent": "most recent",
    "trigger": "the message to answer",
    "left": "left over",
}
#: In pixels: the height of a row, the horizontal position of the dots, and the width of the drawing.
ROW, DOT, WIDTH = 26, 112, 1180
#: In pixels: how far an arc over one row extends to the left, how much each further row adds, and the maximum.
MIN_ARC_DEPTH, ARC_DEPTH_STEP, MAX_ARC_DEPTH = 16, 9, 132
#: The maximum number of messages in a drawing. Messages in the context are drawn first.
MAX_DOTS = 80

#: How a message or memory was reached.
EdgeKind = Literal["stated", "found", "near", "remembered"]
STATED = frozenset[ReplyMethod]({"explicit", "thread"})
EDGE_KIND_TEXTS: Mapping[EdgeKind, str] = {
    "stated": "a reply that the platform states",
    "found": "an inferred reply",
    "near": "near in time",
    "remembered": "a memory",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenShare:
    """The tokens of one part of a context."""

    part: str
    means: str
    tokens: int
    #: The share of these tokens in the budget, or in all tokens if these exceed the budget.
    share: float
    #: The sum of the shares of the parts before this one.
    begins: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate(ExplainedMessage):
    """A message that was considered, whether it is in the context, and why."""

    external_id: str
    author_id: ParticipantId
    author_name: str
    author_kind: ParticipantKind
    sent_at: datetime
    #: The beginning of its text, on one line.
    glance: str
    #: The message that it answers according to the platform.
    reply_to: MessageId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCandidate(ExplainedMemory):
    """A memory that was considered, whether it is in the context, and why."""

    #: The text as in the context; empty if the memory is not in the context.
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextTextLine:
    """A line of the context's text."""

    #: The label of the line; None for a heading.
    label: str | None
    text: str
    message_id: MessageId | None = None
    memory_id: MemoryId | None = None


def candidates_of(context: Context) -> list[Candidate]:
    """Return every message that was considered, in the order of the room."""
    known = {item.message.id: item for item in (*context.lines, *context.omitted)}
    return [_candidate(known[one.message_id], one) for one in context.explain()]


def _candidate(item: ContextLine | OmittedMessage, explained: ExplainedMessage) -> Candidate:
    message = item.message
    glance = removal_notice(message) or as_one_line(with_mention_names(message)[: 4 * GLANCE])
    return convert(
        Candidate,
        explained,
        external_id=message.external_id,
        author_id=message.author_id,
        author_name=message.author_name,
        author_kind=message.author_kind,
        sent_at=message.sent_at,
        glance=_cut(glance, GLANCE),
        reply_to=message.reply_to,
    )


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def lines_of(context: Context) -> list[ContextTextLine]:
    """Return the lines of the context's text, as `to_text` formats it, each with the id that it cites."""
    messages = [
        ContextTextLine(
            label=line.label,
            text=line_text(line).removeprefix(f"#{line.label}"),
            message_id=line.message.id,
        )
        for line in context.lines
    ]
    partial = [ContextTextLine(label=None, text=PARTIAL)] if context.is_partial else []
    return [*_section_lines(context.memory_section), *partial, *messages]


def _section_lines(section: MemorySection | None) -> list[ContextTextLine]:
    if section is None:
        return []
    lines: list[ContextTextLine] = []
    for text in section_text(section).splitlines():
        citation = CITATION.match(text)
        memory_id = section.citations.get(citation["label"]) if citation else None
        if citation is None or memory_id is None:
            lines.append(ContextTextLine(label=None, text=text))
        else:
            rest = citation["before"] + text[citation.end() :].removeprefix(" ")
            lines.append(ContextTextLine(label=citation["label"], text=rest, memory_id=memory_id))
    return lines


def memory_candidates_of(context: Context) -> list[MemoryCandidate]:
    """Return every memory that was considered. If the viewer is not an agent, there are none."""
    if context.memory_section is None:
        return []
    texts = {line.memory_id: line.text for line in context.memory_section.lines}
    return [
        convert(MemoryCandidate, one, text=texts.get(one.memory_id, ""))
        for one in context.memory_section.explain()
    ]


def token_shares_of(context: Context) -> list[TokenShare]:
    """Return the tokens of each part of a context that has tokens, and of the unused rest of the budget."""
    tokens = dict.fromkeys(PART_NAMES, 0)
    tokens["memories"] = context.memory_section.tokens if context.memory_section else 0
    for line in context.lines:
        tokens[line.rule] += line.tokens
    tokens["left"] = max(0, context.budget - context.tokens)
    whole, begins, shares = max(context.budget, context.tokens), 0.0, list[TokenShare]()
    for part, means in PART_NAMES.items():
        share = tokens[part] / whole
        if tokens[part]:
            shares.append(TokenShare(part=part, means=means, tokens=tokens[part], share=share, begins=begins))
        begins += share
    return shares


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """A message in the drawing."""

    candidate: Candidate
    y: int
    glance: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDiamond:
    """A memory in the drawing."""

    memory: MemoryCandidate
    y: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Arc:
    """A curved line from one row to another, as an SVG path."""

    way: EdgeKind
    path: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A pause at which the expansion stopped."""

    y: int
    length: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextGraph:
    """The drawing of a context."""

    dots: Sequence[Dot]
    diamonds: Sequence[MemoryDiamond]
    arcs: Sequence[Arc]
    pauses: Sequence[Pause]
    width: int
    height: int
    #: The horizontal position of the dots.
    x: int
    #: The number of considered messages that are not drawn.
    not_drawn: int

    @property
    def ways(self) -> Mapping[EdgeKind, str]:
        """The kinds of arcs in the drawing, with their names for the legend."""
        used = {arc.way for arc in self.arcs}
        return {way: means for way, means in EDGE_KIND_TEXTS.items() if way in used}


def context_graph(
    candidates: Sequence[Candidate], boundaries: Sequence[TimeBoundary], memories: Sequence[MemoryCandidate]
) -> ContextGraph:
    """Return the drawing of a context. The oldest message comes first; memories are below the message to answer."""
    shown = _select_dots(candidates)
    rows, pauses = _row_positions(shown, boundaries)
    dots = [
        Dot(candidate=one, y=rows[one.message_id], glance=_cut(one.glance, _glance_length(one)))
        for one in shown
    ]
    below = max((dot.y for dot in dots), default=0)
    diamonds = [
        MemoryDiamond(memory=one, y=below + (index + 1) * ROW)
        for index, one in enumerate(memory for memory in memories if memory.included)
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


def _glance_length(candidate: Candidate) -> int:
    return max(12, DRAWN_GLANCE - len(candidate.author_name))


def _select_dots(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates to draw, in the order of the room.

    Included candidates are chosen first, then the newest.
    """
    newest_first = candidates[::-1]
    by_rank = sorted(newest_first, key=lambda one: not one.included)[:MAX_DOTS]
    selected = {one.message_id for one in by_rank}
    return [one for one in candidates if one.message_id in selected]


def _row_positions(
    shown: Sequence[Candidate], boundaries: Sequence[TimeBoundary]
) -> tuple[dict[MessageId, int], list[Pause]]:
    gaps = {(one.message_id, one.direction): one.gap for one in boundaries}
    rows: dict[MessageId, int] = {}
    pauses: list[Pause] = []
    y = 0
    for one in shown:
        if (gap := gaps.get((one.message_id, "before"))) is not None:
            y += ROW
            pauses.append(Pause(y=y, length=gap))
        y += ROW
        rows[one.message_id] = y
        if (gap := gaps.get((one.message_id, "after"))) is not None:
            y += ROW
            pauses.append(Pause(y=y, length=gap))
    return rows, pauses


def _arcs(shown: Sequence[Candidate], rows: Mapping[MessageId, int]) -> list[Arc]:
    labels = {one.message_id: one.label or "one that is out" for one in shown}
    arcs: list[Arc] = []
    for one in shown:
        name = labels[one.message_id]
        if one.reached_from is not None and one.reached_from in rows:
            arcs.append(
                _arc(rows[one.message_id], rows[one.reached_from], _edge_kind(one), f"{name}: {one.reason}")
            )
        connected = {
            one.reached_from,
            *(other.message_id for other in shown if other.reached_from == one.message_id),
        }
        if one.reply_to is not None and one.reply_to in rows and one.reply_to not in connected:
            title = f"{name}: answers {labels[one.reply_to]}"
            arcs.append(_arc(rows[one.message_id], rows[one.reply_to], "stated", title))
    return arcs


def _memory_arcs(
    shown: Sequence[Candidate], rows: Mapping[MessageId, int], diamonds: Sequence[MemoryDiamond]
) -> list[Arc]:
    trigger = next((rows[one.message_id] for one in shown if one.rule == "trigger"), None)
    return [
        _arc(diamond.y, trigger, "remembered", f"{diamond.memory.label}: {diamond.memory.reason}")
        for diamond in diamonds
        if trigger is not None
    ]


def _edge_kind(candidate: Candidate) -> EdgeKind:
    if candidate.method is None:
        return "near"
    return "stated" if candidate.method in STATED else "found"


def _arc(start: int, end: int, way: EdgeKind, title: str) -> Arc:
    depth = min(MAX_ARC_DEPTH, MIN_ARC_DEPTH + ARC_DEPTH_STEP * max(0, abs(start - end) // ROW - 1))
    # At both ends the arc keeps a distance from the dots.
    x, edge = DOT - 8, DOT - 8 - depth
    return Arc(way=way, path=f"M {x} {start} C {edge} {start}, {edge} {end}, {x} {end}", title=title)
