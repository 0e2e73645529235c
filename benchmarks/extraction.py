"""Memories that the message model extracts from real rooms: how many of each kind, how many duplicates, how fast.

    python -m benchmarks.extraction PATH [PATH...] [--sample N] [--out FILE]

Each PATH is an export, or a folder with `messages.jsonl` in the layout of `evaluation/`. It is imported into its own org on
the embedded server, disentangled, and extracted without an embedding model. Two active memories are duplicates if they are
about the same people and share nine in ten of their words. `--sample` writes so many random memories, with the text
around their sources, and so many superseded ones, for a person to judge.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from evaluation.datasets import read_messages
from evaluation.loading import incoming
from roomlore import operations as composition
from roomlore.domain.errors import RoomloreError
from roomlore.domain.records import Memory
from roomlore.memories.normalisation import normalised
from roomlore.operations import App
from roomlore.operations.jobs import extraction_worker
from roomlore.settings import Settings

MOST = 1_000_000
ALIKE = 0.9
BATCH = 1_000


async def fill(app: App, path: Path) -> int:
    """Bring what a path holds into an org; return how many messages that are."""
    if not (path / "messages.jsonl").exists() and not (path / "messages.jsonl.gz").exists():
        report = await app.import_path(path)
        return report.messages
    told = list(incoming(read_messages(path), now=datetime.now(UTC)))
    for start in range(0, len(told), BATCH):
        await app.ingest_batch(told[start : start + BATCH])
    return len(told)


def doubles(memories: Sequence[Memory]) -> int:
    """Return how many memories say nearly what another of the same people does."""
    words: dict[frozenset[object], list[set[str]]] = {}
    double = 0
    for memory in memories:
        said = set(normalised(memory.content).split())
        others = words.setdefault(frozenset(memory.subject_ids), [])
        double += any(len(said & other) >= ALIKE * len(said | other) for other in others)
        others.append(said)
    return double


async def shown(app: App, memory: Memory) -> dict[str, object]:
    """Return a memory with the words around its sources."""
    why = await app.memories.provenance(app.operator, str(memory.id))
    around = []
    for source in why.sources:
        before = await app.messages(
            app.operator, str(source.message.room_id), limit=2, before=str(source.message.id)
        )
        around += [f"{said.author_name}: {said.body}" for said in before]
        around.append(f"{source.message.author_name}: {source.message.body}  <<< {source.quote}")
    people = [f"{person.role} {person.name}" for person in memory.participants]
    return {
        "kind": memory.kind,
        "content": memory.content,
        "superseded by": [one.content for one in why.successors],
        "confidence": memory.confidence,
        "people": people,
        "said": around,
    }


async def measured(data: Path, path: Path, sample: int) -> tuple[dict[str, object], list[dict[str, object]]]:
    """Return the figures of one path, and memories to judge."""
    settings = Settings(data=data, org=str(path))
    async with composition.open(settings) as app:
        messages = await fill(app, path)
        await app.disentangle()
        worker = extraction_worker(app.db)
        began = time.perf_counter()
        drawn = await worker.drain(app.org_id)
        took = time.perf_counter() - began
        again = await worker.drain(app.org_id)
        standing = await app.memories.all(app.operator, limit=MOST)
        history = await app.memories.all(app.operator, limit=MOST, statuses=["deprecated"])
        chosen = random.Random(0).sample(standing, min(sample, len(standing)))
        judged = [await shown(app, memory) for memory in chosen]
        replaced = [await shown(app, memory) for memory in history[:sample]]
    return {
        "path": path.name,
        "messages": messages,
        "memories": len(standing),
        "superseded": len(history),
        "per_1000_messages": round(1000 * len(standing) / max(messages, 1), 1),
        "kinds": dict(Counter(memory.kind for memory in standing).most_common()),
        "twice": doubles(standing),
        "drawn": sum(one.added for one in drawn if one),
        "drawn_again": sum(one.added for one in again if one),
        "us_per_message": round(1e6 * took / max(messages, 1)),
    }, [*judged, *replaced]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    judged: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        measure = partial(measured, Path(folder), sample=given.sample)
        for path in given.paths:
            try:
                figures, shown_ = asyncio.run(measure(path))
            except RoomloreError as error:
                sys.stderr.write(f"{path}: left out: {error}\n")
                continue
            print(json.dumps(figures))
            sys.stdout.flush()
            judged += shown_
    if given.out is not None:
        given.out.write_text("".join(f"{json.dumps(one)}\n" for one in judged))


if __name__ == "__main__":
    main()
