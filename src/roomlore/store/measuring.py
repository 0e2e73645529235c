"""What a measurement reads beside what anybody asks: stems and vectors, for plain reference methods to work with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector

from roomlore.domain.ids import OrgId
from roomlore.store.queries import Connection, Queries

QUERIES = Queries("measuring")

#: So many texts go into one statement.
BATCH = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Worded:
    """The stems of one text."""

    #: From one, in the order the texts were given.
    place: int
    stems: Sequence[str]
    counts: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageVector:
    """The vector of one message."""

    external_id: str
    embedding: HalfVector


async def stems(conn: Connection, said: Sequence[tuple[str, str]]) -> list[dict[str, int]]:
    """Return how often each stem occurs in what was said, as search indexes it: without stop words.

    Args:
        conn: Any connection; nothing stored is read.
        said: Name and text of each.
    """
    found: list[dict[str, int]] = []
    for start in range(0, len(said), BATCH):
        batch = [(_storable(name), _storable(text)) for name, text in said[start : start + BATCH]]
        params = {"names": [name for name, _ in batch], "texts": [text for _, text in batch]}
        rows = await QUERIES.all(conn, "worded", Worded, params)
        found += [dict(zip(row.stems, row.counts, strict=True)) for row in rows]
    return found


async def message_vectors(conn: Connection, org_id: OrgId, model: str) -> Mapping[str, NDArray[np.float32]]:
    """Return the vectors of one model by the external ids of their messages, as far as the viewer may read them."""
    rows = await QUERIES.all(conn, "message_vectors", MessageVector, {"org_id": org_id, "model": model})
    return {row.external_id: row.embedding.to_numpy().astype(np.float32) for row in rows}


def _storable(text: str) -> str:
    # PostgreSQL takes neither NUL nor half a surrogate pair.
    return text.encode("utf-8", "replace").decode().replace("\0", " ")
