"""What a process that is going to be killed does, and what may be found of it afterwards.

The process tells on its standard output, line by line, which of its deeds Roomlore has acknowledged.
"""

import asyncio
import itertools
import random
import sys
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

import psycopg
from psycopg_pool import PoolTimeout

import roomlore
from crash.tales import NOTICES, Teller, in_batches
from ingest.stories import at, message, room
from roomlore.domain.errors import DatabaseUnavailable
from roomlore.domain.incoming import IncomingMessage
from roomlore.domain.receipts import Receipt
from roomlore.models.fake import FakeEmbedder
from roomlore.operations import App
from roomlore.settings import Settings

MESSAGES = 160
BATCH = 8
WRITERS = 2
#: The room in which each batch leaves one message that no other has.
MARKS = "marks"
LOST = "lost the database"

Batch = Sequence[IncomingMessage]


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """A story that is partly there before; the rest comes in batches, of which every second is each writer's."""

    before: Batch
    batches: Sequence[Batch]

    def of_writer(self, writer: int) -> Iterator[tuple[int, Batch]]:
        """Return the batches of one writer, in their order, each with its number."""
        return itertools.islice(enumerate(self.batches), writer, None, WRITERS)

    def records(self, numbers: Iterable[int] | None = None) -> list[IncomingMessage]:
        """Return what was there before and what some batches, or all, bring."""
        wanted = range(len(self.batches)) if numbers is None else sorted(numbers)
        return [*self.before, *(record for number in wanted for record in self.batches[number])]


@dataclass(frozen=True, kw_only=True)
class Erasure:
    """One thing to erase, by the words with which it is asked for."""

    kind: Literal["message", "range", "person"]
    #: An external id, a room, or an account.
    word: str
    room: str = ""
    since: datetime | None = None
    until: datetime | None = None

    async def carry_out(self, app: App) -> Receipt:
        """Erase it and return the receipt."""
        match self.kind:
            case "message":
                return await app.erasure.message(self.word, room=self.room)
            case "range":
                return await app.erasure.range(self.word, since=self.since, until=self.until)
            case "person":
                return await app.erasure.person(self.word)

    def takes(self, record: IncomingMessage) -> bool:
        """Whether a record is of what is to go."""
        match self.kind:
            case "message":
                return (record.room.external_id, record.external_id) == (self.room, self.word)
            case "range":
                assert self.until is not None
                begun = self.since is None or self.since <= record.sent_at
                return record.room.external_id == self.word and begun and record.sent_at < self.until
            case "person":
                return record.author.account_id == self.word


def delivery(what: str, seed: int) -> Delivery:
    """Return a story of which nothing is there yet, or one whose edits and removals are still to come."""
    records = Teller(MESSAGES, seed).records()
    firsts = [one for one in records if what == "edit" and not one.edited_at and not one.deleted]
    rest = [one for one in records if one not in firsts]
    marked = [[*batch, _mark(number)] for number, batch in enumerate(in_batches(rest, BATCH))]
    return Delivery(before=firsts, batches=marked)


def _mark(number: int) -> IncomingMessage:
    return message(str(number), f"batch {number}", room=room(MARKS), author=NOTICES, kind="system")


def erasures(seed: int) -> list[Erasure]:
    """Return what is to be erased of a story, one after the other: messages, stretches of rooms, persons."""
    random_ = random.Random(seed)
    chosen = [
        Erasure(kind="person", word="borislav"),
        Erasure(kind="person", word="cyrilla"),
        Erasure(kind="person", word="ivonne"),
        Erasure(kind="range", word="attic", until=at(30)),
        Erasure(kind="range", word="hall", since=at(40), until=at(80)),
        Erasure(kind="range", word="den", since=at(90), until=at(140)),
    ]
    others = [
        record
        for record in Teller(MESSAGES, seed).records()
        if not record.edited_at and not record.deleted and not any(one.takes(record) for one in chosen)
    ]
    chosen += [
        Erasure(kind="message", word=record.external_id, room=record.room.external_id)
        for record in random_.sample(others, 8)
    ]
    return random_.sample(chosen, len(chosen))


def current_texts(records: Batch) -> dict[tuple[str, str], str]:
    """Return what each message says once these records are there: its newest text, nothing if it was removed."""
    newest: dict[tuple[str, str], IncomingMessage] = {}
    removed = {(one.room.external_id, one.external_id) for one in records if one.deleted}
    for one in records:
        key = (one.room.external_id, one.external_id)
        known = newest.get(key, one)
        newest[key] = max(known, one, key=lambda version: version.edited_at or version.sent_at)
    return {key: "" if key in removed else _with_files(one) for key, one in newest.items()}


def _with_files(message: IncomingMessage) -> str:
    files = [f"> [file] {file['name']}" for file in message.attachments]
    return "\n".join(filter(None, [message.body, *files]))


async def deliver(app: App, what: str, seed: int) -> None:
    """Bring the batches of a story, from several writers, while a worker embeds what has come."""
    story = delivery(what, seed)

    async def write(writer: int) -> None:
        for number, batch in story.of_writer(writer):
            await app.ingest_batch(batch)
            _acknowledge(number)

    async with _beside_a_worker(app) as together:
        for writer in range(WRITERS):
            together.create_task(write(writer))


async def erase(app: App, seed: int) -> None:
    """Erase one thing after the other, while a worker embeds and a writer brings everything again and again."""
    records = Teller(MESSAGES, seed).records()
    random_ = random.Random(seed)

    async def bring_again() -> None:
        while True:
            await app.ingest_batch(random_.sample(records, BATCH))

    async with _beside_a_worker(app) as together:
        together.create_task(bring_again())
        for number, erasure in enumerate(erasures(seed)):
            await erasure.carry_out(app)
            _acknowledge(number)


@asynccontextmanager
async def _beside_a_worker(app: App) -> AsyncGenerator[asyncio.TaskGroup]:
    # Nobody sets it: who is to be killed waits for it when all is done.
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as together:
        together.create_task(app.run_worker(stop))
        yield together


def _acknowledge(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


async def run(data: Path, org: str, what: str, seed: int) -> None:
    """Open the database as everybody does, and do what is asked for until killed."""
    try:
        async with roomlore.open(Settings(data=data, org=org), embedder=FakeEmbedder()) as app:
            await (erase(app, seed) if what == "erase" else deliver(app, what, seed))
    except* (psycopg.OperationalError, PoolTimeout, DatabaseUnavailable):
        sys.stdout.write(f"{LOST}\n")


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])))
