"""A server of copies that lives in a dictionary, and can fail in the ways that servers do."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from roomlore.app import App
from roomlore.domain.errors import BackendUnavailable, BadInput
from roomlore.domain.projected import Held, Point
from roomlore.store import projections


@dataclass
class Shelf:
    """Copies by name, each a dictionary of points."""

    held_copies: dict[str, dict[UUID, Point]] = field(default_factory=dict)
    #: Ids that are never taken.
    poison: set[UUID] = field(default_factory=set)
    is_down: bool = False
    #: Set once something is to be written; it goes on when `go` is set.
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event | None = None
    written: int = 0

    def _copy(self, name: str) -> dict[UUID, Point]:
        if self.is_down:
            raise BackendUnavailable("the shelf fell down", cure="put it up again")
        if name not in self.held_copies:
            raise BackendUnavailable(f"the copy {name} is gone", cure="rebuild it")
        return self.held_copies[name]

    async def prepare(self, copy: str, *, dimensions: int) -> None:
        assert dimensions == 384
        if self.is_down:
            raise BackendUnavailable("the shelf fell down", cure="put it up again")
        self.held_copies.setdefault(copy, {})

    async def put(self, copy: str, subjects: Sequence[Point]) -> None:
        self.begun.set()
        if self.go is not None:
            await self.go.wait()
        held = self._copy(copy)
        for point in subjects:
            if point.id not in self.poison and (
                point.id not in held or held[point.id].version < point.version
            ):
                held[point.id] = point
                self.written += 1
        refused = [point.id for point in subjects if point.id in self.poison]
        if refused:
            raise BadInput(f"point {refused[0]}", "is not to the shelf's taste")

    async def drop(self, copy: str, ids: Sequence[UUID]) -> None:
        held = self._copy(copy)
        for one in ids:
            held.pop(one, None)

    async def held(self, copy: str, *, after: UUID | None, limit: int) -> list[Held]:
        ids = sorted(one for one in self._copy(copy) if after is None or one > after)
        return [Held(id=one, digest=self.held_copies[copy][one].digest) for one in ids[:limit]]

    async def copies(self) -> list[str]:
        if self.is_down:
            raise BackendUnavailable("the shelf fell down", cure="put it up again")
        return list(self.held_copies)

    async def remove(self, copy: str) -> None:
        self.held_copies.pop(copy, None)

    async def close(self) -> None:
        """Have nothing to close."""


async def expected(app: App, model: str) -> dict[UUID, str]:
    """Return the digest of everything that a copy is to hold."""
    async with app.db.reading(app.operator) as conn:
        ids = await projections.ids_after(conn, app.org_id, None, limit=100_000)
        points = await projections.points(conn, app.org_id, ids, model=model, version=0)
    return {point.id: point.digest for point in points}


def on(shelf: Shelf, copy: str) -> dict[UUID, str]:
    """Return the digest of everything that a copy holds."""
    return {key: point.digest for key, point in shelf.held_copies[copy].items()}
