"""Gives every message and memory that is to have one a vector, so that it can be found by meaning."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from roomlore.domain.ids import OrgId
from roomlore.domain.ports import Embedder
from roomlore.domain.records import Viewer
from roomlore.store import erased, work
from roomlore.store.db import Database
from roomlore.store.queries import Connection
from roomlore.store.work import Stage, Task, TextToEmbed

#: Up to this many vectors an exact scan is fast enough, and needs no index to be built and kept up.
WORTH_INDEXING = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedWorker:
    """Embeds messages and memories that have no vector of one model."""

    db: Database
    embedder: Embedder
    batch: int = 256
    stage: Stage = "embed"
    worth_indexing: int = WORTH_INDEXING
    #: Asked in the transaction that writes: whether the model is still the one that is wanted. What it made is left out
    #: otherwise, and its work stays to be done.
    still: Callable[[Connection], Awaitable[bool]] | None = None

    async def begin(self, only_org: OrgId | None) -> None:
        """Ask for the vectors of this model that are missing, as all are when it is new, and drop spare ones."""
        for org_id in await self._orgs(only_org):
            await self.db.change(org_id, partial(self._ask_for_missing, org_id=org_id))
            await self.db.change(org_id, partial(work.drop_spare, org_id=org_id))

    async def _ask_for_missing(self, conn: Connection, org_id: OrgId) -> None:
        # Nothing is asked for that an erasure is just taking away.
        await erased.keep_erasures_out(conn, org_id)
        model, with_tokens = self.embedder.model_id, self.embedder.gives_tokens
        await work.enqueue_missing(conn, org_id, model, with_tokens=with_tokens, stage=self.stage)

    async def _orgs(self, only_org: OrgId | None) -> list[OrgId]:
        if only_org is not None:
            return [only_org]
        async with self.db.outside_orgs() as conn:
            return await work.org_ids(conn)

    async def do(self, org_id: OrgId, tasks: Sequence[Task]) -> int:
        """Embed the subjects of these tasks, write their vectors and return how many it was about.

        One that is to have no vector is passed over, such as an answer where its room embeds exchanges.
        """
        async with self.db.reading(Viewer.operator(org_id)) as conn:
            wanted = await work.texts_to_embed(conn, org_id, [task.subject_id for task in tasks])
        read = await asyncio.to_thread(self.embedder.read, [spoken(text) for text in wanted])

        async def write(conn: Connection) -> None:
            if self.still is not None and not await self.still(conn):
                await work.release(conn, org_id, self.stage, tasks)
                return
            current = await work.finish(conn, org_id, self.stage, tasks)
            kept = [place for place, text in enumerate(wanted) if text.subject_id in current]
            ids = [wanted[place].subject_id for place in kept]
            tokens = None if read.tokens is None else [read.tokens[place] for place in kept]
            await work.put_embeddings(
                conn, org_id, self.embedder.model_id, ids, vectors=read.vectors[kept], tokens=tokens
            )

        await self.db.change(org_id, write)
        return len(tasks)

    async def tidy(self) -> None:
        """Build the vector indexes that have become worth it, and tell the planner what has changed."""
        await tidy(self.db, worth_indexing=self.worth_indexing)


async def tidy(db: Database, *, worth_indexing: int = WORTH_INDEXING) -> None:
    """Build the vector indexes that have become worth it, and tell the planner what has changed.

    Kept up row by row, these indexes would slow embedding.
    """
    while await _build_one(db, worth_indexing):
        pass
    async with db.outside_orgs() as conn:
        await work.refresh_statistics(conn)


async def _build_one(db: Database, worth_indexing: int) -> int:
    async with db.outside_orgs() as conn:
        return await work.build_vector_indexes(conn, worth_it=worth_indexing)


def spoken(text: TextToEmbed) -> str:
    """Return the text as it is embedded: with its author, which who-said questions need; a memory names whom it is about."""
    return text.body if text.author_name is None else f"{text.author_name}: {text.body}"
