"""Rate of disentangling rooms in the database at steady state.

    python -m benchmarks.disentanglement_worker [--messages N] [--arriving N]

Made-up messages arrive in a busy room in small batches, as from a live platform, on the embedded server with its usual
settings. After each batch the worker reads the new messages and the window before them, links and assigns them, labels
their conversations, and writes all of that. Only the worker is timed, by the clock and by its processor time. Target:
2,000 messages a second on one core.
"""

import argparse
import asyncio
import random
import resource
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from roomlore import operations as composition
from roomlore.domain.incoming import IncomingAuthor, IncomingMessage, IncomingRoom
from roomlore.operations import App
from roomlore.settings import Settings

START = datetime(2024, 1, 1, tzinfo=UTC)
PEOPLE = [
    f"{first}{last}"
    for first in ("ana", "bo", "cy", "dee", "eli", "fay")
    for last in ("", "42", "_x", "home")
]
THINGS = [
    "printer",
    "toner",
    "driver",
    "kernel",
    "module",
    "reboot",
    "invoice",
    "ledger",
    "ferry",
    "pier",
    "berth",
    "swell",
    "timetable",
    "skipper",
    "ramp",
]
OPENINGS = (
    "does anybody know why the {} fails?",
    "how do I install the {} on this old {}?",
    "the {} is broken again",
)
ANSWERS = (
    "{}: try another {}",
    "yes, the {} needs a {}",
    "{}, which {} do you have?",
    "it worked, thanks {}",
    "no",
)


def talk(count: int) -> Iterator[IncomingMessage]:
    """Yield messages of one room in order, a second or so apart."""
    chance = random.Random(7)
    sent_at = START
    for number in range(count):
        sent_at += timedelta(seconds=chance.choice((0, 1, 1, 2, 5, 20)))
        words = (
            chance.choice(PEOPLE) if chance.random() < 0.5 else chance.choice(THINGS),
            chance.choice(THINGS),
        )
        who = chance.choice(PEOPLE)
        yield IncomingMessage(
            platform="benchmark",
            room=IncomingRoom(external_id="busy", name="busy"),
            external_id=f"{number}",
            author=IncomingAuthor(account_id=who, name=who),
            body=chance.choice(OPENINGS if chance.random() < 0.3 else ANSWERS).format(*words),
            sent_at=sent_at,
            order=number,
        )


async def disentangle(app: App) -> tuple[float, float, int]:
    """Return seconds by the clock, seconds of this process, and how many messages were gone through."""
    clock, own = time.perf_counter(), time.process_time()
    done = (await app.disentangle()).done
    return time.perf_counter() - clock, time.process_time() - own, done


async def main(count: int, arriving: int) -> None:
    messages = list(talk(count))
    with tempfile.TemporaryDirectory(prefix="roomlore-benchmark-") as data:
        async with composition.open(Settings(data=Path(data))) as app:
            await app.ingest_batch(messages[:arriving])
            await disentangle(app)
            taken = own = 0.0
            done = 0
            for start in range(arriving, count, arriving):
                await app.ingest_batch(messages[start : start + arriving])
                seconds, processor, through = await disentangle(app)
                taken, own, done = taken + seconds, own + processor, done + through
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{count:,} messages of one room, {arriving} at a time")
    print(f"by the clock      {done / taken:8,.0f} messages/s  ({taken / done * 1e6:,.0f} µs each)")
    print(f"processor, ours   {done / own:8,.0f} messages/s  ({own / done * 1e6:,.0f} µs each)")
    print(f"largest memory    {megabytes:8,.0f} MB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--arriving", type=int, default=500, help="how many come in at a time")
    given = parser.parse_args()
    asyncio.run(main(given.messages, given.arriving))
