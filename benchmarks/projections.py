"""Indexes in Qdrant: writing and rebuilding speed, lag, and the cost of searching them.

    python -m benchmarks.projections put [--messages N] [--rounds N]
    python -m benchmarks.projections lag [--seconds N] [--rate N] [--work copying|all]
    python -m benchmarks.projections rebuild [--messages N]
    python -m benchmarks.projections search [--messages N] [--rounds N]

The server is that of `copied.py`. Compared runs alternate; figures are medians.

put: Roomlore, with its condition on versions, beside the bare client that writes the same ready-made points.
lag: messages arrive steadily from another process while the worker embeds and indexes them, or does all its work;
`lag_seconds` is read five times a second.
rebuild: an index of N messages, from the first query until it is ready.
search: an index of N messages; its nearest 20 and best 40 lexical matches beside those of the database, and whole searches
with both; recall is measured against an exact scan.
"""

import argparse
import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from operator import truediv
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from qdrant_client import AsyncQdrantClient, models

from benchmarks.copied import (
    BATCH,
    DIMENSIONS,
    Server,
    Summing,
    filled,
    messages,
    org,
    points,
    seconds,
    server,
    struct,
    timed,
    vector_of,
    words,
)
from roomlore.db import projections
from roomlore.db import search as proposals
from roomlore.db.database import Database
from roomlore.db.search import FilterSize, SearchFilter
from roomlore.domain.ids import MessageId
from roomlore.domain.projections import QueryFilter, VisibilityFilter
from roomlore.jobs import runner
from roomlore.jobs.embedding import EmbeddingVersionWorker
from roomlore.operations import App, projection_service
from roomlore.operations.projection_service import ProjectionStatus
from roomlore.projections.qdrant import PREFIX, QdrantProjection, open_qdrant
from roomlore.settings import Settings

EVERYWHERE = QueryFilter()


async def put(given: argparse.Namespace, at: Server) -> dict[str, Any]:
    """Return how many points a second are written, by us and by the bare client, in turns."""
    said = points(given.messages, random.Random(7))
    structs = [struct(one) for one in said]
    ours = open_qdrant(at.url, key=at.key)
    bare = AsyncQdrantClient(url=at.url, api_key=at.key, check_compatibility=False)
    rates: dict[str, list[float]] = {"ours": [], "bare": []}
    for turn in range(given.rounds + 1):
        for name in ("ours", "bare") if turn % 2 else ("bare", "ours"):
            await ours.prepare("put", dimensions=DIMENSIONS)
            work = ours.put("put", said) if name == "ours" else bare_put(bare, f"{PREFIX}put", structs)
            took = await seconds(work)
            await ours.remove("put")
            # The first turn warms up.
            rates[name] += [len(said) / took] if turn else []
    await ours.close()
    await bare.close()
    middle = {name: median(some) for name, some in rates.items()}
    return {
        "points/s": {name: round(rate) for name, rate in middle.items()},
        "all": {name: [round(rate) for rate in some] for name, some in rates.items()},
        # Of turns, for both sides of one meet the same neighbours.
        "ours of bare": round(median(map(truediv, rates["ours"], rates["bare"])), 2),
    }


async def bare_put(bare: AsyncQdrantClient, name: str, structs: Sequence[models.PointStruct]) -> None:
    for start in range(0, len(structs), BATCH):
        await bare.upsert(name, structs[start : start + BATCH], wait=True)


async def lag(given: argparse.Namespace, at: Server) -> dict[str, Any]:
    """Return how far the copy lags while messages come in steadily, from another process."""
    async with org(at) as app:
        await filled(app, 1_000)
        await app.projections.rebuild("qdrant")
        stop = asyncio.Event()
        looked: list[ProjectionStatus] = []
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            # Once for nothing, so that its start does not count.
            await fed_by(pool, app, rate=10, seconds=1, since=5_000)
            working = [
                asyncio.create_task(WORK[given.work](app, stop)),
                asyncio.create_task(watch(app, stop, looked)),
            ]
            fed = await fed_by(pool, app, rate=given.rate, seconds=given.seconds, since=10_000)
        told = list(looked)
        after = await seconds(settled(app))
        stop.set()
        await asyncio.gather(*working)
        found = await app.projections.diff("qdrant")
    lags = [one.lag_seconds for one in told]
    return {
        "work": given.work,
        "messages/s": round(given.seconds * given.rate / fed.seconds),
        "lag s": {
            "p50": round(median(lags), 2),
            "p95": round(quantiles(lags, n=20)[18], 2),
            "max": round(max(lags), 2),
        },
        "waiting at most": max(one.waiting for one in told),
        "all written after s": round(after, 1),
        "ingest late at most s": round(fed.late, 2),
        "differences afterwards": found.count,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Fed:
    """How messages came in: in how many seconds, and how late the latest batch of them was."""

    seconds: float
    late: float


async def fed_by(pool: ProcessPoolExecutor, app: App, *, rate: int, seconds: int, since: int) -> Fed:
    dsn = app.db._dsn  # noqa: SLF001  another process writes to the same database
    work = partial(feed, dsn, rate=rate, seconds=seconds, since=since)
    return await asyncio.get_running_loop().run_in_executor(pool, work)


def feed(dsn: str, *, rate: int, seconds: int, since: int) -> Fed:
    """Store messages of an org at a rate, five batches a second."""

    async def run() -> Fed:
        db = await Database.connect(dsn, size=2)
        settings = Settings(data=Path("unused"), org="bench")
        app = App(
            db=db, org_id=await db.ensure_org("bench"), settings=settings, _embedder=Summing(DIMENSIONS)
        )
        chance, late = random.Random(9), 0.0
        began = time.perf_counter()
        for step in range(seconds * 5):
            some = messages(rate // 5, chance, since=since + step * (rate // 5), says_members=False)
            await app.ingest_batch(some)
            ahead = began + (step + 1) / 5 - time.perf_counter()
            late = max(late, -ahead)
            await asyncio.sleep(max(0.0, ahead))
        took = time.perf_counter() - began
        await db.close()
        return Fed(seconds=took, late=late)

    return asyncio.run(run())


async def all_work(app: App, stop: asyncio.Event) -> None:
    await app.run_worker(stop)


async def copying_alone(app: App, stop: asyncio.Event) -> None:
    """Embed and copy what comes in, and do nothing else: no conversations, no memories."""
    embedding = EmbeddingVersionWorker(db=app.db, models=app._models)  # noqa: SLF001  a part of the worker
    chores = [embedding.watch, partial(projection_service.follow_changes, app.db, app.settings)]
    await runner.run(embedding, stop=stop, tasks=chores)


WORK: dict[str, Callable[[App, asyncio.Event], Awaitable[None]]] = {
    "copying": copying_alone,
    "all": all_work,
}


async def watch(app: App, stop: asyncio.Event, looked: list[ProjectionStatus]) -> None:
    while not stop.is_set():
        looked += await app.projections.status()
        await asyncio.sleep(0.2)


async def settled(app: App) -> None:
    """Wait until nothing waits to be embedded or copied."""
    while True:
        (state,) = await app.projections.status()
        if not state.waiting and not (await app.waiting("embed")).waiting:
            return
        await asyncio.sleep(0.1)


async def rebuild(given: argparse.Namespace, at: Server) -> dict[str, Any]:
    """Return how long a copy takes to be built."""
    async with org(at) as app:
        await filled(app, given.messages)
        took = await seconds(app.projections.rebuild("qdrant"))
        (state,) = await app.projections.status()
        assert state.is_ready
        comparing = await seconds(app.projections.diff("qdrant"))
        await app.projections.drop("qdrant")
    return {
        "messages": given.messages,
        "rebuilt in s": round(took, 1),
        "messages/s": round(given.messages / took),
        "compared in s": round(comparing, 1),
    }


async def search(given: argparse.Namespace, at: Server) -> dict[str, Any]:
    """Return what the copy finds beside the database, and how long both take."""
    async with org(at) as app:
        await filled(app, given.messages)
        rebuilding = await seconds(app.projections.rebuild("qdrant"))
        indexing = await seconds(indexed(app, at))
        chance = random.Random(11)
        asked = [" ".join(words(chance).split()[:4]) for _ in range(given.rounds)]
        report: dict[str, Any] = {
            "messages": given.messages,
            "rebuilt in s": round(rebuilding, 1),
            "indexed in s": round(indexing, 1),
        }
        for who, viewer in (("operator", app.operator), ("member", await app.viewer("u3"))):
            report[who] = await compared(app, viewer, asked, at)
        await app.projections.drop("qdrant")
    return report


async def indexed(app: App, at: Server) -> None:
    """Let the server give the vectors of the copy an index, if it thinks it worth it, and wait until it has."""
    async with app.db.read_transaction(app.operator) as conn:
        (held,) = await projections.all_projections(conn, app.org_id)
    bare = AsyncQdrantClient(url=at.url, api_key=at.key, check_compatibility=False, timeout=3_600)
    name = f"{PREFIX}{held.index_name}"
    await bare.update_collection(
        name, optimizers_config=models.OptimizersConfigDiff(indexing_threshold=10_000)
    )
    while True:
        if (await bare.get_collection(name)).status is models.CollectionStatus.GREEN:
            break
        await asyncio.sleep(0.5)
    await bare.close()


async def compared(app: App, viewer: Any, asked: Sequence[str], at: Server) -> dict[str, Any]:
    copied = open_qdrant(at.url, key=at.key)
    async with app.db.read_transaction(app.operator) as conn:
        (held,) = await projections.all_projections(conn, app.org_id)
    async with app.db.read_transaction(viewer) as conn:
        sight = await projections.visibility_filter(conn)
    sides = Sides(app=app, viewer=viewer, copied=copied, copy=held.index_name or "", sight=sight)
    exactly = [await sides.nearest(text, by_index=False) for text in asked]
    ways: dict[str, Callable[[str], Awaitable[list[MessageId]]]] = {
        "nearest, database": lambda text: sides.nearest(text, by_index=True),
        "nearest, copy": sides.near,
        "words, database": sides.lexical_candidates,
        "words counted only, database": lambda text: sides.lexical_candidates(text, wanted=0),
        "words, copy": sides.worded,
    }
    report: dict[str, Any] = {}
    for name, way in ways.items():
        report[name] = await timed([lambda way=way, text=text: way(text) for text in asked])
        if name.startswith("nearest"):
            shares = [shared(truth, await way(text)) for truth, text in zip(exactly, asked, strict=True)]
            report[name]["recall@20"] = round(sum(shares) / len(shares), 4)
    overlap = [shared(await sides.lexical_candidates(text), await sides.worded(text)) for text in asked]
    report["words, copy"]["of the database's 40"] = round(sum(overlap) / len(overlap), 4)
    alone = replace(app, settings=replace(app.settings, qdrant=None))
    for name, through in (("whole search, database", alone), ("whole search, copy", app)):
        report[name] = await timed(
            [lambda text=text, through=through: through.search(viewer, text) for text in asked]
        )
    hits = [(await alone.search(viewer, text), await app.search(viewer, text)) for text in asked]
    same = [shared(found_ids(first.hits), found_ids(second.hits)) for first, second in hits]
    report["whole search, copy"]["of the database's finds"] = round(sum(same) / len(same), 4)
    await copied.close()
    return report


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The index and the database, with the same query."""

    app: App
    viewer: Any
    copied: QdrantProjection
    copy: str
    sight: VisibilityFilter

    async def near(self, text: str) -> list[MessageId]:
        found = await self.copied.search_dense(
            self.copy, vector_of(text), sight=self.sight, query_filter=EVERYWHERE, wanted=20
        )
        return [one.message_id for one in found]

    async def worded(self, text: str) -> list[MessageId]:
        found = await self.copied.search_lexical(
            self.copy, text.split(), sight=self.sight, query_filter=EVERYWHERE, wanted=40
        )
        return [one.message_id for one in found]

    async def nearest(self, text: str, *, by_index: bool) -> list[MessageId]:
        async with self.app.db.read_transaction(
            self.viewer, generic_plan=True, apply_restrictions=True
        ) as conn:
            measure = (
                await proposals.filter_size(conn, None)
                if by_index
                else FilterSize(message_count=0, indexed_lengths=())
            )
            vector = (Summing(DIMENSIONS).model_id, vector_of(text))
            found = await proposals.dense_candidates(
                conn, vector, search_filter=SearchFilter(), measure=measure, wanted=20
            )
        return [one.message_id for one in found]

    async def lexical_candidates(self, text: str, *, wanted: int = 40) -> list[MessageId]:
        async with self.app.db.read_transaction(
            self.viewer, generic_plan=True, apply_restrictions=True
        ) as conn:
            measure = await proposals.filter_size(conn, None)
            found = await proposals.lexical_candidates(
                conn, text, search_filter=SearchFilter(), measure=measure, wanted=wanted
            )
        return list(found.message_ids)


def shared(truth: Sequence[MessageId], found: Sequence[MessageId]) -> float:
    return len(set(truth) & set(found)) / len(truth) if truth else 1.0


def found_ids(hits: Sequence[Any]) -> list[MessageId]:
    return [key for hit in hits for key in hit.why]


PARTS: dict[str, Callable[[argparse.Namespace, Server], Awaitable[dict[str, Any]]]] = {
    "put": put,
    "lag": lag,
    "rebuild": rebuild,
    "search": search,
}


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--url", help="a real server, whose key is in QDRANT_KEY")
    parser.add_argument("--messages", type=int)
    parser.add_argument("--rounds", type=int, default=None)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--rate", type=int, default=500, help="messages a second")
    parser.add_argument("--work", choices=WORK, default="copying", help="what the worker does meanwhile")
    given = parser.parse_args()
    usual = {"put": (5_000, 7), "rebuild": (20_000, 1), "search": (20_000, 60)}
    count, rounds = usual.get(given.part, (0, 1))
    given.messages, given.rounds = given.messages or count, given.rounds or rounds
    async with server(given) as at:
        print(json.dumps({given.part: await PARTS[given.part](given, at)}, indent=2))


if __name__ == "__main__":
    asyncio.run(main())
