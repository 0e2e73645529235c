"""Shared by the benchmarks of indexes: a server, an org, and realistic messages and points.

The server is the engine of Qdrant behind a small HTTP server (tests/projections/qdrant/shim.py, on the same cores, in its
own process), unless --url names a real one, with its key in QDRANT_KEY. The vector of a message is the sum of the vectors
of its words; word frequencies are those of chat.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from uuid import UUID

import numpy as np
from qdrant_client import models

from roomlore.db.cluster import start_cluster
from roomlore.db.database import Database
from roomlore.db.schema import migrate
from roomlore.domain.ids import MessageId, ParticipantId, RoomId
from roomlore.domain.incoming import IncomingAuthor, IncomingMembership, IncomingMessage, IncomingRoom
from roomlore.domain.projections import Point
from roomlore.jobs import embedding
from roomlore.jobs.embedding import EmbeddingVersionWorker
from roomlore.models.fake import FakeEmbedder
from roomlore.operations import App
from roomlore.operations.candidates import ProjectionClients
from roomlore.projections.qdrant_connection import DENSE, LEXICAL, lexeme_weights, payload_of
from roomlore.settings import QdrantSettings, Settings

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from projections.qdrant.running import Shim

DIMENSIONS, VOCABULARY, PEOPLE, ROOMS = 384, 5_000, 50, 10
START = datetime(2024, 1, 1, tzinfo=UTC)
TABLE = np.random.default_rng(1).standard_normal((VOCABULARY, DIMENSIONS)).astype(np.float32)
#: Points of one request, ours and the bare client's.
BATCH = 256


class Summing(FakeEmbedder):
    """Embeds a text as the sum of the vectors of its words."""

    def embed(self, texts: Sequence[str]) -> Any:
        return np.array([vector_of(text) for text in texts], np.float32)


def words(chance: random.Random) -> str:
    """Return a message: the r-th word has a share of about 1 / (r + 2)."""
    places = [int(3 * (VOCABULARY / 3) ** chance.random()) - 3 for _ in range(chance.randint(3, 12))]
    return " ".join(f"word{place}" for place in places)


def vector_of(text: str) -> Any:
    known = [int(word.removeprefix("word")) for word in text.split() if word.startswith("word")]
    vector = TABLE[[place for place in known if place < VOCABULARY] or [0]].sum(0)
    return vector / np.linalg.norm(vector)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A Qdrant, and the process that it is, if it is ours."""

    url: str
    key: str | None
    shim: Shim | None

    def megabytes(self) -> float | None:
        """Return how much memory it takes."""
        if self.shim is None or self.shim._process is None:  # noqa: SLF001  for its number alone
            return None
        status = Path(f"/proc/{self.shim._process.pid}/status").read_text()  # noqa: SLF001
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024

    def on_disk(self) -> float | None:
        """Return how many megabytes its files take."""
        if self.shim is None:
            return None
        blocks = [path.stat().st_blocks for path in self.shim.folder.rglob("*") if path.is_file()]
        return sum(blocks) * 512 / 2**20


@asynccontextmanager
async def server(given: argparse.Namespace) -> AsyncGenerator[Server]:
    if given.url:
        yield Server(url=given.url, key=os.environ.get("QDRANT_KEY"), shim=None)
        return
    with tempfile.TemporaryDirectory(prefix="roomlore-benchmark-") as folder:
        shim = Shim(Path(folder) / "qdrant")
        shim.start()
        try:
            yield Server(url=shim.url, key=None, shim=shim)
        finally:
            shim.kill()


@asynccontextmanager
async def org(at: Server) -> AsyncGenerator[App]:
    """Give an empty org in a database of its own, that may have a copy in the server."""
    async with opened(ProjectionClients(), qdrant=QdrantSettings(url=at.url, key=at.key)) as app:
        yield app


@asynccontextmanager
async def opened(servers: ProjectionClients, **named: Any) -> AsyncGenerator[App]:
    """Give an empty org in a database of its own, that may have copies where these settings name a server."""
    with tempfile.TemporaryDirectory(prefix="roomlore-benchmark-") as folder:
        data = Path(folder)
        cluster = await start_cluster(data)
        await migrate(cluster.admin_dsn)
        db = await Database.connect(cluster.app_dsn, size=12)
        try:
            yield App(
                db=db,
                org_id=await db.ensure_org("bench"),
                settings=Settings(data=data, org="bench", **named),
                _embedder=Summing(DIMENSIONS),
                _projection_clients=servers,
            )
        finally:
            await servers.close()
            await db.close()
            await cluster.close()


def messages(
    count: int, chance: random.Random, *, since: int = 0, says_members: bool = True
) -> list[IncomingMessage]:
    """Return messages of a few rooms, every second one closed; their first messages state the members."""
    people = [IncomingAuthor(account_id=f"u{i}", name=f"Person{i}") for i in range(PEOPLE)]
    members = [IncomingMembership(author=person) for person in people[: PEOPLE // 2] if says_members]
    rooms = [
        IncomingRoom(external_id=f"room{i}", name=f"room{i}", visibility="members", members=members)
        if i % 2
        else IncomingRoom(external_id=f"room{i}", name=f"room{i}")
        for i in range(ROOMS)
    ]
    return [
        IncomingMessage(
            platform="bench",
            room=chance.choice(rooms),
            external_id=f"m{number}",
            author=chance.choice(people),
            body=words(chance),
            sent_at=START + timedelta(seconds=number),
            order=number,
        )
        for number in range(since, since + count)
    ]


def answering(said: Sequence[IncomingMessage], share: float) -> list[IncomingMessage]:
    """Return messages of which a share answers the one before in its room."""
    chance, last = random.Random(3), dict[str, str]()
    made: list[IncomingMessage] = []
    for one in said:
        before = last.get(one.room.external_id) if chance.random() < share else None
        made.append(replace(one, reply_to=before))
        last[one.room.external_id] = one.external_id
    return made


async def filled(app: App, count: int, *, replying: float = 0.0) -> None:
    """Store and embed so many messages, a share of which answers others, and give their vectors an index if that is worth it.

    No conversations are looked for.
    """
    chance = random.Random(7)
    for start in range(0, count, 5_000):
        said = messages(min(5_000, count - start), chance, since=start, says_members=not start)
        await app.ingest_batch(answering(said, replying))
    print(f"{count:,} messages stored", file=sys.stderr, flush=True)
    worker = EmbeddingVersionWorker(db=app.db, models=app._models)  # noqa: SLF001  a part of the worker
    await embedding.drain(worker, only_org=app.org_id)
    print("and embedded", file=sys.stderr, flush=True)


def points(count: int, chance: random.Random, *, since: int = 0) -> list[Point]:
    """Return points like those of messages."""
    made: list[Point] = []
    for number in range(since, since + count):
        text = words(chance)
        lexemes = {word: text.split().count(word) for word in text.split()}
        made.append(
            Point(
                id=MessageId(UUID(int=chance.getrandbits(128))),
                version=1 + number // BATCH,
                room_id=RoomId(UUID(int=1 + number % ROOMS)),
                kind="message",
                author_id=ParticipantId(UUID(int=1 + number % PEOPLE)),
                author_name=f"Person{number % PEOPLE}",
                author_kind="human",
                sent_at=START + timedelta(seconds=number),
                sequence=number,
                thread_id=MessageId(UUID(int=number)),
                vector=vector_of(text).astype(np.float32),
                lexemes=lexemes,
            )
        )
    return made


def struct(point: Point, **payload: str) -> models.PointStruct:
    """Return a point as the bare client takes it."""
    weights = lexeme_weights(point.lexemes)
    sparse = models.SparseVector(indices=list(weights), values=list(weights.values()))
    assert point.vector is not None
    vectors: dict[str, Any] = {DENSE: point.vector.astype(np.float64).tolist(), LEXICAL: sparse}
    return models.PointStruct(id=str(point.id), vector=vectors, payload=payload_of(point) | payload)


async def timed(calls: Sequence[Callable[[], Awaitable[object]]]) -> dict[str, float]:
    """Return the times of the second time each call is made."""
    took: list[float] = []
    for call in calls:
        await call()
        took.append(1000 * await seconds(call()))
    return {"p50 ms": round(median(took), 1), "p95 ms": round(quantiles(took, n=20)[18], 1)}


async def seconds(work: Awaitable[object]) -> float:
    began = time.perf_counter()
    await work
    return time.perf_counter() - began
