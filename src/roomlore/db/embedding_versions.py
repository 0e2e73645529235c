"""Embedding versions of an org: the current model, the next one while its vectors are made, and the previous one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from roomlore.db.queries import Connection, Queries, RowCount
from roomlore.domain.ids import OrgId

if TYPE_CHECKING:
    from roomlore.db.work_queue import QueueName

QUERIES = Queries("embedding_versions")

#: Searches use the current version, and the vectors that the next version already has. The previous version is kept for
#: a rollback.
VersionState = Literal["current", "next", "previous"]
#: The version that each queue embeds for.
STATE_OF_QUEUE: dict[QueueName, VersionState] = {"embed": "current", "reembed": "next"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingVersion:
    """The vectors of one model and their provider."""

    state: VersionState
    #: The provider's name as in the settings.
    provider: str
    #: None until the provider has been reached.
    model: str | None = None
    dimensions: int | None = None
    #: None if the default provider is used because nobody chose a provider.
    since: datetime | None = None
    failing_since: datetime | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingProgress:
    """How many messages and memories have a vector of a model."""

    total: int
    done: int
    waiting: int
    dead_lettered: int


@QUERIES.query
async def all_versions(conn: Connection, org_id: OrgId) -> dict[VersionState, EmbeddingVersion]:
    """Return the versions of an org; empty if it has only used the default provider."""
    ...


async def is_unchanged(
    conn: Connection, org_id: OrgId, state: VersionState, provider: str, *, default: str
) -> bool:
    """Return whether a version still has this provider. Block switches until the transaction ends."""
    await _lock_switches(conn, org_id)
    version = (await all_versions(conn, org_id)).get(state)
    return provider == version.provider if version else state == "current" and provider == default


@QUERIES.query
async def _lock_switches(conn: Connection, org_id: OrgId) -> None: ...


@QUERIES.query
async def lock_embeddings(conn: Connection, org_id: OrgId) -> None:
    """Wait for writers of vectors and block others until the transaction ends."""
    ...


@QUERIES.query
async def put(conn: Connection, org_id: OrgId, version: EmbeddingVersion) -> None:
    """Store a version, unless the org already has a version of the same state.

    If the existing version has the same provider and no model yet, its model and vector length are stored.
    """
    ...


async def drop_next(conn: Connection, org_id: OrgId) -> bool:
    """Drop the next version and its work; return whether there was a next version.

    No version uses its vectors afterwards.
    """
    if not await _drop_version(conn, org_id, "next"):
        return False
    await _drop_reembed(conn, org_id)
    return True


@QUERIES.query
async def _drop_version(conn: Connection, org_id: OrgId, state: VersionState) -> RowCount: ...


async def promote_next(conn: Connection, org_id: OrgId, model: str) -> bool:
    """Make the next version the current one, if it has this model and no work waits for it; return whether it did.

    The current version becomes the previous one. No version uses the vectors of the former previous version afterwards.
    """
    if await has_pending(conn, org_id):
        return False
    await _drop_version(conn, org_id, "previous")
    await _change_state(conn, org_id, "current", to="previous")
    await _change_state(conn, org_id, "next", to="current")
    await _drop_embedded(conn, org_id, model)
    await _inherit_set_aside(conn, org_id)
    await _drop_reembed(conn, org_id)
    return True


@QUERIES.query
async def _change_state(
    conn: Connection, org_id: OrgId, state: VersionState, *, to: VersionState
) -> None: ...


@QUERIES.query
async def _drop_embedded(conn: Connection, org_id: OrgId, model: str) -> None: ...


@QUERIES.query
async def _inherit_set_aside(conn: Connection, org_id: OrgId) -> None: ...


@QUERIES.query
async def _drop_reembed(conn: Connection, org_id: OrgId) -> None: ...


@QUERIES.query
async def has_pending(conn: Connection, org_id: OrgId) -> bool:
    """Return whether work waits for the next model. Dead letters are not counted."""
    ...


async def record_reached(
    conn: Connection, org_id: OrgId, provider: str, *, model: str, dimensions: int
) -> None:
    """Record that a provider works, and which model it has.

    Nothing is stored for the default provider, unless the org switched to it.
    """
    await _drop_unchosen(conn, org_id, provider)
    await _record_reached(conn, org_id, provider, model=model, dimensions=dimensions)


@QUERIES.query
async def _drop_unchosen(conn: Connection, org_id: OrgId, provider: str) -> None: ...


@QUERIES.query
async def _record_reached(
    conn: Connection, org_id: OrgId, provider: str, *, model: str, dimensions: int
) -> None: ...


async def record_outage(
    conn: Connection, org_id: OrgId, provider: str, *, error: str, is_unchosen: bool = False
) -> None:
    """Store that a provider fails and since when, also for a default provider that nobody chose."""
    if is_unchosen:
        await _add_unchosen(conn, org_id, provider)
    await _record_outage(conn, org_id, provider, error=error)


@QUERIES.query
async def _add_unchosen(conn: Connection, org_id: OrgId, provider: str) -> None: ...


@QUERIES.query
async def _record_outage(conn: Connection, org_id: OrgId, provider: str, *, error: str) -> None: ...


@QUERIES.query
async def is_behind(conn: Connection, org_id: OrgId, model: str) -> bool:
    """Return whether vectors of a model are missing: work waits, or only other models have vectors."""
    ...


@QUERIES.query
async def progress(conn: Connection, org_id: OrgId, model: str | None, *, queue: str) -> EmbeddingProgress:
    """Return how many messages and memories need a vector, and how many have a vector of a model.

    Also return the work left in a queue.
    """
    ...


@QUERIES.query
async def unused_models(conn: Connection, org_id: OrgId) -> list[str]:
    """Return the models whose vectors no version and no projection uses; none if the model of a version is unknown."""
    ...


@QUERIES.query
async def vector_lengths(conn: Connection, org_id: OrgId) -> dict[str, int]:
    """Return the length of an org's vectors by model."""
    ...


@QUERIES.query
async def drop_vectors(conn: Connection, org_id: OrgId, model: str, *, limit: int) -> int:
    """Drop up to `limit` message vectors and up to `limit` memory vectors of a model; return how many were dropped."""
    ...
