"""Rooms for the tests of the context: made by hand or generated."""

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import strategies as st

from roomlore.context.sources import ListSource
from roomlore.domain.ids import MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.records import Message, Reply, Viewer

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
ROOM = RoomId(UUID(int=1))
ELSEWHERE = RoomId(UUID(int=2))
OPERATOR = Viewer(org_id=OrgId(UUID(int=3)), participant_id=None)


def person(number):
    return ParticipantId(UUID(int=1000 + number))


def viewer(number):
    return Viewer(org_id=OPERATOR.org_id, participant_id=person(number))


def mid(number):
    return MessageId(UUID(int=10_000 + number))


def say(number, minute=None, **fields):
    """Make message `number`, by default at minute `number`; `by` is the author's number."""
    by = fields.pop("by", 1)
    reply_to = fields.pop("reply_to", None)
    values = {
        "id": mid(number),
        "room_id": ROOM,
        "external_id": f"x{number}",
        "kind": "message",
        "author_id": person(by),
        "author_name": f"P{by}",
        "author_kind": "human",
        "body": f"text {number}",
        "sent_at": START + timedelta(minutes=number if minute is None else minute),
        "precision": "ms",
        "sequence": 0,
        "edited_at": None,
        "redacted_at": None,
        "reply_to": None if reply_to is None else mid(reply_to),
    }
    return Message(**(values | fields))


def answer(child, parent, confidence=1.0, method="inferred", *, answers=None):
    return Reply(
        child_id=mid(child),
        parent_id=mid(parent),
        method=method,
        confidence=confidence,
        answer_probability=answers,
    )


def numbers(items):
    """Return the numbers of messages, or of items with a message."""
    return [getattr(item, "message", item).id.int - 10_000 for item in items]


@dataclass
class CountingSource:
    """Passes everything on, in another order if shuffled, and counts calls and rows."""

    inner: ListSource
    seed: int = 0
    shuffled: bool = False
    calls: int = 0
    rows: int = 0
    asked: list[str] = field(default_factory=list)

    def _hand_out(self, name, rows):
        self.calls += 1
        self.rows += len(rows)
        self.asked.append(name)
        return random.Random(self.seed).sample(rows, len(rows)) if self.shuffled else rows

    async def before(self, message, limit):
        return self._hand_out("before", await self.inner.before(message, limit))

    async def after(self, message, limit):
        return self._hand_out("after", await self.inner.after(message, limit))

    async def messages(self, ids):
        return self._hand_out("messages", await self.inner.messages(ids))

    async def replies(self, ids, limit):
        return self._hand_out("replies", await self.inner.replies(ids, limit))


SHORT = st.text(max_size=30)


@st.composite
def rooms(draw, bodies=SHORT):
    """Draw (messages, reply edges, trigger), with cycles, replies to later and to missing messages."""
    count = draw(st.integers(1, 45))
    pauses = draw(st.lists(st.sampled_from([0, 0, 1, 5, 29, 30, 31, 600]), min_size=count, max_size=count))
    target = st.none() | st.integers(0, count + 3)
    messages, minute = [], 0
    for number, pause in enumerate(pauses):
        minute += pause
        messages.append(
            say(
                number,
                minute,
                by=draw(st.integers(1, 4)),
                reply_to=draw(target),
                body=draw(bodies),
                room_id=draw(st.sampled_from([ROOM] * 9 + [ELSEWHERE])),
                author_kind=draw(st.sampled_from(["human", "agent"])),
                redacted_at=draw(st.sampled_from([None] * 9 + [START])),
            )
        )
    end = st.integers(0, count + 3)
    edges = draw(st.lists(st.builds(answer, end, end, st.sampled_from([0.2, 0.5, 0.9, 1.0])), max_size=60))
    twice = draw(st.lists(st.sampled_from(messages), max_size=5))
    trigger = draw(st.sampled_from(messages))
    return [*messages, *twice], edges, trigger
