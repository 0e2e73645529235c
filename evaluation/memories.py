"""The task `memories`: of how many questions the evidence lies in a memory.

It is measured at the number of memories that Roomlore extracts, and at `BUDGET`: then the messages that the message model
thinks most worth remembering fill the places that are left, one memory each.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence

from evaluation.benchmark import BenchmarkRun, Outcome
from evaluation.datasets import DatasetMessage, Question
from roomlore.models.message_model import CONTEXT, MessageInContext, bundled_model

#: Memories per message.
BUDGET = 0.1
_MOST = 1_000_000


async def memories(run: BenchmarkRun) -> Outcome:
    """Return how many memories are extracted, how fast, and how much of the evidence they hold."""
    app = run.app
    await app.disentangle()
    began = time.perf_counter()
    await app.extraction.extract()
    seconds = time.perf_counter() - began
    found = await app.memories.all(app.operator, limit=_MOST, statuses=["active", "deprecated"])
    external = {
        one.id: one.external_id
        for room in run.rooms
        for one in await app.messages(app.operator, room, limit=_MOST)
    }
    rooms = {message.id: message.room for message in run.messages}
    held = [[external[source.message_id] for source in one.sources] for one in found]
    of_room = Counter(rooms[sources[0]] for sources in held if sources)
    own = {source for sources in held for source in sources}
    questions = [one for one in run.gold.questions if one.answerable and one.evidence_message_ids]
    filled = own | _most_worth(run.messages, without=own, memories=of_room)
    thousands = len(run.messages) / 1_000
    report = {
        "messages": len(run.messages),
        "memories": len(found),
        "memories per 1,000 messages": round(len(found) / thousands, 1),
        "seconds per 1,000 messages": round(seconds / thousands, 1),
        "kinds": dict(Counter(one.kind for one in found).most_common()),
        "questions": len(questions),
        "evidence in a memory": _share_held(questions, own),
        "evidence in a memory, at 100 per 1,000": _share_held(questions, filled),
        "all evidence in memories, at 100 per 1,000": _share_held(questions, filled, wholly=True),
    }
    return Outcome(report=report, predictions=None)


def _most_worth(
    messages: Sequence[DatasetMessage], *, without: Collection[str], memories: Mapping[str, int]
) -> set[str]:
    """Return the best messages of each room that are in no memory, as many as the budget leaves."""
    of_room: dict[str, list[DatasetMessage]] = defaultdict(list)
    for message in messages:
        of_room[message.room].append(message)
    found: set[str] = set()
    for room, said in of_room.items():
        readings = bundled_model().read([_in_context(said, place) for place in range(len(said))])
        left = max(round(len(said) * BUDGET) - memories.get(room, 0), 0)
        ranked = sorted(zip(said, readings, strict=True), key=lambda one: -one[1].keep)
        found.update([one.id for one, _ in ranked if one.id not in without][:left])
    return found


def _in_context(said: Sequence[DatasetMessage], place: int) -> MessageInContext:
    message = said[place]
    before = reversed(said[max(0, place - CONTEXT) : place])
    return MessageInContext(
        text=message.text,
        is_bot=message.is_bot,
        before=tuple((one.text, one.author_id == message.author_id) for one in before),
    )


def _share_held(questions: Sequence[Question], held: Collection[str], *, wholly: bool = False) -> float:
    found = [[message_id in held for message_id in one.evidence_message_ids] for one in questions]
    return round(sum(all(one) if wholly else any(one) for one in found) / max(len(found), 1), 3)
