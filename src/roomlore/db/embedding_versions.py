"""Whose vectors an org is searched by: the current model, the next one while it is being filled, the one before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from roomlore.db.queries import Connection, Queries
from roomlore.domain.ids import OrgId

if TYPE_CHECKING:
    from roomlore.db.work_queue import QueueName

QUERIES = Queries("embedding_versions")

#: `current`: searched by; `next`: being filled, and searched by as far as it is; `previous`: to go back to.
VersionState = Literal["current", "next", "previous"]
#: Whom each stage embeds for.
STATE_OF_QUEUE: dict[QueueName, VersionState] = {"embed": "current", "reembed": "next"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingVersion:
    """Vectors of one model, and who makes them."""

    state: VersionState
    #: As settings name it.
    provider: str
    #: None until it has been reached.
    model: str | None = None
    dimensions: int | None = None
    #: None: nobody ever chose it, it is what there is.
    since: datetime | None = None
    failing_since: datetime | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingProgress:
    """How far a model has come."""

    wanted: int
    done: int
    waiting: int
    set_aside: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LagRow:
    """Whether vectors lag behind what is to have them."""

    is_behind: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRow:
    """Whether anything waits."""

    is_true: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedCount:
    """How many vectors were removed."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRef:
    """A vector space, by its name."""

    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorLength:
    """How long the vectors of a model are."""

    model: str
    dimensions: int


async def all_versions(conn: Connection, org_id: OrgId) -> dict[VersionState, EmbeddingVersion]:
    """Return the generations of an org; none where the default provider is current and nothing else was ever wanted."""
    rows = await QUERIES.all(conn, "all", EmbeddingVersion, {"org_id": org_id})
    return {row.state: row for row in rows}


async def is_unchanged(
    conn: Connection, org_id: OrgId, state: VersionState, provider: str, *, default: str
) -> bool:
    """Return whether a provider makes the vectors of a state, and let no switch change that until the transaction ends."""
    await QUERIES.run(conn, "keep_switches_out", {"org_id": org_id})
    held = (await all_versions(conn, org_id)).get(state)
    return provider == held.provider if held is not None else state == "current" and provider == default


async def lock_embeddings(conn: Connection, org_id: OrgId) -> None:
    """Wait for those who are writing vectors, and let others wait until the transaction ends."""
    await QUERIES.run(conn, "keep_embedding_out", {"org_id": org_id})


async def put(conn: Connection, org_id: OrgId, held: EmbeddingVersion) -> None:
    """Say which provider makes the vectors of a state, where nobody has said so yet."""
    params = {"org_id": org_id, "state": held.state, "provider": held.provider}
    await QUERIES.run(conn, "put", params | {"model": held.model, "dimensions": held.dimensions})


async def drop_next(conn: Connection, org_id: OrgId) -> bool:
    """Have no next generation any more, nor work for it; return whether there was one. Its vectors are spare then."""
    if not await QUERIES.run(conn, "drop_next", {"org_id": org_id}):
        return False
    await QUERIES.run(conn, "drop_reembed", {"org_id": org_id})
    return True


async def promote_next(conn: Connection, org_id: OrgId, model: str) -> bool:
    """Let the next generation, of this model, be current, unless something waits for it; return whether it is.

    The current one becomes the previous one, whose own vectors are spare then.
    """
    if await has_pending(conn, org_id):
        return False
    await QUERIES.run(conn, "drop_previous", {"org_id": org_id})
    for was, state in (("current", "previous"), ("next", "current")):
        await QUERIES.run(conn, "succeed", {"org_id": org_id, "was": was, "state": state})
    await QUERIES.run(conn, "drop_embedded", {"org_id": org_id, "model": model})
    await QUERIES.run(conn, "inherit_set_aside", {"org_id": org_id})
    await QUERIES.run(conn, "drop_reembed", {"org_id": org_id})
    return True


async def has_pending(conn: Connection, org_id: OrgId) -> bool:
    """Return whether anything is still to be embedded by the next model; what was set aside is not."""
    found = await QUERIES.first(conn, "waits", PendingRow, {"org_id": org_id})
    return found is not None and found.is_true


async def record_reached(
    conn: Connection, org_id: OrgId, provider: str, *, model: str, dimensions: int
) -> None:
    """Say what a provider was found to be, and that it gives vectors; of one that nobody chose nothing is kept."""
    await QUERIES.run(conn, "forget_unchosen", {"org_id": org_id, "provider": provider})
    params = {"org_id": org_id, "provider": provider, "model": model, "dimensions": dimensions}
    await QUERIES.run(conn, "note_reached", params)


async def record_outage(
    conn: Connection, org_id: OrgId, provider: str, *, error: str, is_unchosen: bool = False
) -> None:
    """Say that a provider gives no vectors, and keep since when; also where it is the default, and nobody chose."""
    if is_unchosen:
        await QUERIES.run(conn, "note_unchosen", {"org_id": org_id, "provider": provider})
    await QUERIES.run(conn, "note_outage", {"org_id": org_id, "provider": provider, "error": error})


async def is_behind(conn: Connection, org_id: OrgId, model: str) -> bool:
    """Return whether something cannot be found by this model's vectors yet; asked by an operator."""
    row = await QUERIES.first(conn, "embedding_lag", LagRow, {"org_id": org_id, "model": model})
    assert row is not None
    return row.is_behind


async def progress(
    conn: Connection, org_id: OrgId, model: str | None, *, stage: QueueName
) -> EmbeddingProgress:
    """Return how many messages and memories are to have a vector and have one of this model, and what of a stage is left."""
    params = {"org_id": org_id, "model": model, "stage": stage}
    row = await QUERIES.first(conn, "progress", EmbeddingProgress, params)
    assert row is not None
    return row


async def unused_models(conn: Connection, org_id: OrgId) -> Sequence[str]:
    """Return the models of which there are vectors that nobody reads any more."""
    rows = await QUERIES.all(conn, "spare_models", ModelRef, {"org_id": org_id})
    return [row.model for row in rows]


async def vector_lengths(conn: Connection, org_id: OrgId) -> dict[str, int]:
    """Return how long the vectors are that an org has, by model."""
    rows = await QUERIES.all(conn, "lengths", VectorLength, {"org_id": org_id})
    return {row.model: row.dimensions for row in rows}


async def drop_vectors(conn: Connection, org_id: OrgId, model: str, *, limit: int) -> int:
    """Remove up to so many vectors of messages and of memories by a model, and return how many that were."""
    params = {"org_id": org_id, "model": model, "limit": limit}
    row = await QUERIES.first(conn, "drop_vectors", DroppedCount, params)
    return row.count if row else 0
