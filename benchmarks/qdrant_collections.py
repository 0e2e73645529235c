"""One Qdrant collection per org, beside one collection for all orgs.

    python -m benchmarks.qdrant_collections [--orgs 20] [--messages 2000] [--rounds 3]

The server is that of `copied.py`. The bare client writes the same points to both, with the same indexes, and one more for
the org, which stores points of an org together (`is_tenant`). The query is the 20 nearest in three rooms of one org. Memory
and disk are how much they grew.
"""

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any
from uuid import UUID

import numpy as np
from qdrant_client import AsyncQdrantClient, models

from benchmarks.copied import (
    BATCH,
    DIMENSIONS,
    Server,
    points,
    seconds,
    server,
    struct,
    timed,
    vector_of,
    words,
)
from roomlore.domain.projections import Point
from roomlore.projections.qdrant_connection import DENSE, INDEXES, LEXICAL


async def collections(given: argparse.Namespace, at: Server) -> dict[str, Any]:
    """Return what a collection for each org costs beside one for all: medians of turns, each on an empty server."""
    orgs = [points(given.messages, random.Random(number)) for number in range(given.orgs)]
    ways: dict[str, Callable[[int], str]] = {
        "a collection for each": lambda number: f"org{number}",
        "one for all": lambda _: "all",
    }
    found: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    for turn in range(given.rounds):
        for name in list(ways)[:: -1 if turn % 2 else 1]:
            found[name].append(await apart(at, orgs, ways[name]))
            print(name, found[name][-1], file=sys.stderr, flush=True)
    return {
        name: {figure: round(median(one[figure] for one in turns), 2) for figure in turns[0]}
        for name, turns in found.items()
    }


async def apart(at: Server, orgs: Sequence[Sequence[Point]], named: Callable[[int], str]) -> dict[str, float]:
    bare = AsyncQdrantClient(url=at.url, api_key=at.key, check_compatibility=False, timeout=60)
    if at.shim is not None:
        at.shim.restart()
    before, disk = at.megabytes(), at.on_disk()
    began = time.perf_counter()
    names = sorted({named(number) for number in range(len(orgs))})
    for name in names:
        await prepare(bare, name)
    made = time.perf_counter() - began
    structs = [[struct(one, org_id=f"org{number}") for one in said] for number, said in enumerate(orgs)]
    began = time.perf_counter()
    for start in range(0, len(orgs[0]), BATCH):
        for number, some in enumerate(structs):
            await bare.upsert(named(number), some[start : start + BATCH], wait=True)
    took = time.perf_counter() - began
    chance = random.Random(13)
    asked = [(number % len(orgs), words(chance)) for number in range(200)]
    calls = [
        lambda number=number, text=text: nearest(bare, named(number), text, number) for number, text in asked
    ]
    report = {"made in s": made, "points/s": sum(map(len, orgs)) / took, **await timed(calls)}
    if at.shim is not None:
        report |= {
            "memory MB": (at.megabytes() or 0) - (before or 0),
            "disk MB": (at.on_disk() or 0) - (disk or 0),
        }
    report["removed in s"] = sum([await seconds(bare.delete_collection(name)) for name in names])
    await bare.close()
    return report


async def prepare(bare: AsyncQdrantClient, name: str) -> None:
    await bare.create_collection(
        name,
        vectors_config={DENSE: models.VectorParams(size=DIMENSIONS, distance=models.Distance.COSINE)},
        sparse_vectors_config={LEXICAL: models.SparseVectorParams(modifier=models.Modifier.IDF)},
    )
    for field, schema in INDEXES.items():
        await bare.create_payload_index(name, field, field_schema=schema, wait=True)
    tenants = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
    await bare.create_payload_index(name, "org_id", field_schema=tenants, wait=True)


async def nearest(bare: AsyncQdrantClient, name: str, text: str, number: int) -> None:
    match = models.FieldCondition
    room = match(key="room_id", match=models.MatchAny(any=[str(UUID(int=place)) for place in (1, 2, 3)]))
    ours = match(key="org_id", match=models.MatchValue(value=f"org{number}"))
    await bare.query_points(
        name,
        vector_of(text).astype(np.float64).tolist(),
        using=DENSE,
        query_filter=models.Filter(must=[ours, room]),
        limit=20,
        with_payload=False,
    )


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", help="a real server, whose key is in QDRANT_KEY")
    parser.add_argument("--orgs", type=int, default=20)
    parser.add_argument("--messages", type=int, default=2_000, help="of each org")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    async with server(given) as at:
        print(json.dumps(await collections(given, at), indent=2))


if __name__ == "__main__":
    asyncio.run(main())
