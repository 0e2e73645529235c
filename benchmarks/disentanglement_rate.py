"""Speed of disentanglement: no database, one core.

    OMP_NUM_THREADS=1 python -m benchmarks.disentanglement_rate [--messages 2000] [--rounds 3]

A made-up room of many people in which several conversations run at once; half of the messages name somebody. The best round
counts, because other programs only make a round slower. It prints the time of the reply model alone, and that of replies and
conversations together without the vectors of the texts. Targets: at most 0.2 and 3 milliseconds per message.
"""

import argparse
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID

from threadpoolctl import threadpool_limits

from roomlore.conversations.disentangler import NewMessage, disentangle
from roomlore.conversations.reply_linker import link_all
from roomlore.conversations.window import ConversationMessage
from roomlore.domain.ids import MessageId, ParticipantId
from roomlore.models.local_embedding import bundled_embedder

_START = datetime(2024, 1, 1, tzinfo=UTC)
_SYLLABLES = ("ka", "lo", "mi", "ren", "to", "sha", "vu", "bel", "dor", "in")
_PHRASES = (
    "how do i",
    "you can try",
    "thanks",
    "it does not work",
    "what about",
    "see the",
    "no, that is",
    "i think",
)


def room(size: int, chance: random.Random) -> list[ConversationMessage]:
    """Return the messages of a room."""
    words = ["".join(chance.choices(_SYLLABLES, k=3)) for _ in range(2000)]
    people = ["".join(chance.choices(_SYLLABLES, k=3)) + str(number) for number in range(200)]
    seconds = 0.0
    lines: list[ConversationMessage] = []
    for number in range(size):
        seconds += chance.expovariate(1 / 12)
        here = min(int(chance.paretovariate(0.8)), 40) + number // 100
        name = people[here % len(people)]
        other = people[(here + chance.randint(1, 5)) % len(people)]
        body = " ".join((chance.choice(_PHRASES), *chance.choices(words, k=chance.randint(1, 14))))
        lines.append(
            ConversationMessage(
                id=MessageId(UUID(int=number)),
                author_id=ParticipantId(UUID(int=10**9 + here % len(people))),
                author_name=name,
                sent_at=_START + timedelta(seconds=int(seconds)),
                body=f"{other}: {body}" if chance.random() < 0.5 else body,
            )
        )
    return lines


def main() -> None:
    """Print milliseconds a message, elapsed and of processor time."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    lines = room(given.messages, random.Random(1))
    bundled_embedder().embed([line.body for line in lines])
    with threadpool_limits(1):
        _measure("replies", lambda: link_all(lines), given)
        _measure(
            "replies and conversations",
            lambda: disentangle([], [NewMessage(message=one) for one in lines]),
            given,
        )


def _measure(name: str, work: Callable[[], object], given: argparse.Namespace) -> None:
    elapsed: list[float] = []
    busy: list[float] = []
    for _ in range(given.rounds):
        begun, used = time.perf_counter(), time.process_time()
        work()
        elapsed.append((time.perf_counter() - begun) / given.messages * 1e3)
        busy.append((time.process_time() - used) / given.messages * 1e3)
    print(f"{name}: {min(elapsed):.2f} ms a message elapsed, {min(busy):.2f} ms of processor time")


if __name__ == "__main__":
    main()
