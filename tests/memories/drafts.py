"""Statements as extractors hand them on, written by the names of their authors and the ids of their messages."""

from datetime import UTC, datetime
from typing import Any

from roomlore.db import directory, erasure_guard
from roomlore.db.memory_writes import MemoryDraft
from roomlore.db.queries import Connection
from roomlore.domain.ids import MemoryId, uuid7
from roomlore.domain.records import MemorySource
from roomlore.memories.consolidation import UpsertResult, upsert
from roomlore.operations import App
from roomlore.search import lookup


async def kept(
    app: App, content: str, *said: str, by: str = "ana", about: tuple[str, ...] = ("ana",), **fields: Any
) -> UpsertResult | None:
    """Keep a statement drawn from messages, as a worker does, and return what became of it."""
    org_id = app.org_id
    async with app.db.read_transaction(app.operator) as conn:
        found = [await lookup.message(conn, org_id, word, room_id=None) for word in said]
        author = await lookup.single_account(conn, org_id, by)
        subjects = {await lookup.single_account(conn, org_id, name) for name in about}
    draft = MemoryDraft(
        id=MemoryId(uuid7()),
        content=content,
        kind=fields.pop("kind", "fact"),
        importance=fields.pop("importance", 3),
        recorded_at=datetime.now(UTC),
        valid_from=min(one.sent_at for one in found),
        sources=[MemorySource(message_id=one.id, quote_start=0, quote_end=len(one.body)) for one in found],
        roles=frozenset({("author", author), *(("subject", who) for who in subjects)}),
        extractor=fields.pop("extractor", "rules"),
        **fields,
    )

    async def work(conn: Connection) -> UpsertResult | None:
        await erasure_guard.lock_shared(conn, org_id)
        await directory.lock_rooms(conn, {one.room_id for one in found})
        return await upsert(conn, org_id, draft)

    return await app.db.change(org_id, work)
