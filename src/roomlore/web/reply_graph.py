"""The reply graph of a conversation: messages from top to bottom, branches side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from roomlore.domain.ids import MessageId
from roomlore.domain.records import ReplyMethod
from roomlore.domain.rendering import with_mention_names
from roomlore.web.rendering import beginning
from roomlore.web.rows import INFERRED_METHODS, Row

MAX_NODES = 60
#: The maximum number of branches side by side. Further branches share the last lane.
LANES = 10
WIDTH, ROW, LANE, EDGE = 400, 26, 16, 12
#: The maximum number of characters of the label of a node: name and beginning of the text.
LABEL = 38


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A message."""

    id: MessageId
    x: int
    y: int
    colour: int
    author_name: str
    time: str
    beginning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A line from a message down to its reply."""

    path: str
    method: ReplyMethod
    is_found: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyGraph:
    """Nodes and edges with their positions."""

    nodes: Sequence[Node]
    edges: Sequence[Edge]
    width: int
    height: int
    words_x: int
    #: The number of messages that are left out. These are the oldest messages.
    omitted: int


def reply_graph(rows: Sequence[Row]) -> ReplyGraph:
    """Return the reply graph of the newest rows."""
    shown = rows[-MAX_NODES:]
    above = {
        row.line.message.id: row.line.placed.answers.parent_id
        for row in shown
        if row.line.placed.answers is not None
    }
    order = {row.line.message.id: index for index, row in enumerate(shown)}
    lanes = _lanes([row.line.message.id for row in shown], order, above)
    points = {key: (EDGE + LANE * lanes[key], ROW * index + ROW // 2) for key, index in order.items()}
    edges = [
        Edge(
            path=_path(points[answers.parent_id], points[row.line.message.id]),
            method=answers.method,
            is_found=answers.method in INFERRED_METHODS,
        )
        for row in shown
        if (answers := row.line.placed.answers) is not None and answers.parent_id in points
    ]
    return ReplyGraph(
        nodes=[_node(row, *points[row.line.message.id]) for row in shown],
        edges=edges,
        width=WIDTH,
        height=ROW * len(shown),
        words_x=2 * EDGE + LANE * max(lanes.values(), default=0),
        omitted=len(rows) - len(shown),
    )


def _node(row: Row, x: int, y: int) -> Node:
    message = row.line.message
    return Node(
        id=message.id,
        x=x,
        y=y,
        colour=row.colour,
        author_name=message.author_name,
        time=f"{message.sent_at:%H:%M}",
        beginning=beginning(with_mention_names(message), max(LABEL - len(message.author_name), LABEL // 3))
        or "without words",
    )


def _lanes(
    shown: Sequence[MessageId], order: Mapping[MessageId, int], above: Mapping[MessageId, MessageId]
) -> dict[MessageId, int]:
    """Return the lane of each message.

    A message has its parent's lane if the parent is the last message in that lane. Otherwise it has a free lane.
    """
    lanes: dict[MessageId, int] = {}
    last_answers = {parent: order[child] for child, parent in above.items()}
    # The last message in each lane.
    ends: list[MessageId] = []
    for message_id in shown:
        place, parent = order[message_id], above.get(message_id)
        if parent is not None and parent in lanes and ends[lanes[parent]] == parent:
            lane = lanes[parent]
        else:
            # The lane must be free since the parent, so that the edge crosses no other message.
            since = order.get(parent, place) if parent is not None else place
            free = (
                lane
                for lane, end in enumerate(ends)
                if order[end] < since and last_answers.get(end, -1) <= place
            )
            lane = next(free, min(len(ends), LANES - 1))
        if lane == len(ends):
            ends.append(message_id)
        ends[lane] = message_id
        lanes[message_id] = lane
    return lanes


def _path(start: tuple[int, int], end: tuple[int, int]) -> str:
    (x, y), (to_x, to_y) = start, end
    if x == to_x:
        return f"M{x} {y}V{to_y}"
    return f"M{x} {y}C{x} {y + ROW} {to_x} {y} {to_x} {y + ROW}V{to_y}"
