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
from roomlore.store.work import QueueName, Task, TextToEmbed

#: Up to this many vectors an exact scan is fast enough, and needs no index to be built and kept up.
MIN_INDEX_SIZE = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingWorker:
    """Embeds messages and memories that have no vector of one model."""

    db: Database
    embedder: Embedder
    batch: int = 256
    queue: QueueName = "embed"
    min_index_size: int = MIN_INDEX_SIZE
    #: Asked in the transaction that writes: whether the model is still the one that is wanted. What it made is left out
    #: otherwise, and its work stays to be done.
    is_still_wanted: Callable[[Connection], Awaitable[bool]] | None = None

    async def begin(self, only_org: OrgId | None) -> None:
        """Ask for the vectors of this model that are missing, as all are when it is new, and drop spare ones."""
        for org_id in await self._orgs(only_org):
            await self.db.change(org_id, partial(self._enqueue_missing, org_id=org_id))
            await self.db.change(org_id, partial(work.drop_unneeded, org_id=org_id))

    async def _enqueue_missing(self, conn: Connection, org_id: OrgId) -> None:
        # Nothing is asked for that an erasure is just taking away.
        await erased.lock_shared(conn, org_id)
        model, with_tokens = self.embedder.model_id, self.embedder.has_token_vectors
        await work.enqueue_missing(conn, org_id, model, with_tokens=with_tokens, queue=self.queue)

    async def _orgs(self, only_org: OrgId | None) -> list[OrgId]:
        if only_org is not None:
            return [only_org]
        async with self.db.system_connection() as conn:
            return await work.org_ids(conn)

    async def do(self, org_id: OrgId, tasks: Sequence[Task]) -> int:
        """Embed the subjects of these tasks, write their vectors and return how many it was about.

        One that is to have no vector is passed over, such as an answer where its room embeds exchanges.
        """
        async with self.db.read_transaction(Viewer.operator(org_id)) as conn:
            wanted = await work.texts_to_embed(conn, org_id, [task.subject_id for task in tasks])
        read = await asyncio.to_thread(self.embedder.embed_with_tokens, [text_to_embed(text) for text in wanted])

        async def write(conn: Connection) -> None:
            if self.is_still_wanted is not None and not await self.is_still_wanted(conn):
                await work.release(conn, org_id, self.queue, tasks)
                return
            current = await work.finish(conn, org_id, self.queue, tasks)
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
        await build_indexes(self.db, min_index_size=self.min_index_size)


async def build_indexes(db: Database, *, min_index_size: int = MIN_INDEX_SIZE) -> None:
    """Build the vector indexes that have become worth it, and tell the planner what has changed.

    Kept up row by row, these indexes would slow embedding.
    """
    while await _build_index(db, min_index_size):
        pass
    async with db.system_connection() as conn:
        await work.refresh_statistics(conn)


async def _build_index(db: Database, worth_indexing: int) -> int:
    async with db.system_connection() as conn:
        return await work.build_vector_indexes(conn, worth_it=worth_indexing)


def text_to_embed(text: TextToEmbed) -> str:
    """Return the text as it is embedded: with its author, which who-said questions need; a memory names whom it is about."""
    return text.body if text.author_name is None else f"{text.author_name}: {text.body}"
