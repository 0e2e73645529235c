"""Which embedding model serves an org: chosen, filled in the background, switched to at once, and left again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from roomlore.app.desk import Desk
from roomlore.app.embedding import Models, Space
from roomlore.domain.errors import BadInput, Conflict
from roomlore.domain.ids import OrgId
from roomlore.store import erased, generations, work
from roomlore.store.generations import STATE_OF, Generation, State
from roomlore.store.queries import Connection
from roomlore.workers import loop
from roomlore.workers.generations import GenerationWorker, drain, drop_spare


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationStatus:
    """How the vectors of one model do."""

    state: State
    #: What the model is called, in settings.
    provider: str
    #: The name of its vector space and the length of its vectors; None while it was never reached.
    model: str | None
    dimensions: int | None
    #: None: it was never chosen, it is what there is.
    since: datetime | None
    #: How many messages and memories are to have a vector, and have one of it.
    wanted: int
    done: int
    #: How many are still to be embedded by it, and how many it could not embed; none of the previous one.
    waiting: int
    set_aside: int
    #: Since when it gives no vectors, and why, as the worker met it.
    failing_since: datetime | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """A switch of models as it was asked for."""

    #: The model that is to come; None where none is, any more.
    provider: str | None
    #: Whether searches use it by now, and no other.
    is_done: bool
    #: How many messages and memories it has to embed before.
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Generations:
    """The embedding models of an org; the operator's."""

    desk: Desk
    models: Models

    async def status(self) -> list[GenerationStatus]:
        """Return the model that searches use, the one that is to come and the one before, as far as there are such."""
        await self.desk.work("embedding models")
        held = await self._held()
        spaces = {
            one.provider: await self.models.space(one.provider) for one in held.values() if not one.model
        }
        async with self.desk.db.reading(self.desk.caller) as conn:
            return await self._statuses(conn, held, spaces)

    async def as_known(self, conn: Connection) -> list[GenerationStatus]:
        """Return the same as far as it is known here, for whoever may: no model is loaded or asked for it."""
        held = self._with_default(await generations.all_of(conn, self.desk.org_id))
        spaces = {
            one.provider: self.models.known_space(one.provider) for one in held.values() if not one.model
        }
        return await self._statuses(conn, held, spaces)

    async def switch(self, name: str) -> Switch:
        """Ask for an org to be searched by another model once that has embedded everything; return at once.

        Until then both are asked. Asking for the same again changes nothing.

        Raises:
            BadInput: no model is called so here.
            Conflict: a switch to another one is under way.
            ModelUnavailable: the model gives no vectors now.
        """
        await self.desk.work("switch embedding model")
        if name not in self.models.names:
            raise BadInput(f"embedding model {name!r}", f"must be one of {', '.join(self.models.names)}")
        held = await self._held()
        coming = held.get("next")
        if coming is not None and coming.provider != name:
            raise _under_way(name, coming.provider)
        if coming is None and held["current"].provider == name:
            return Switch(provider=name, is_done=True, waiting=0)
        return await self._begin(name, held["current"])

    async def back(self) -> Switch:
        """Give up the switch that is under way and drop its vectors; else ask for a switch to the model before.

        Raises:
            Conflict: there is none to go back to.
            ModelUnavailable: the model gives no vectors now.
        """
        await self.desk.work("switch embedding model back")
        held = await self._held()
        if "next" in held:
            if not await self.desk.db.change(self.desk.org_id, partial(_give_up, org_id=self.desk.org_id)):
                # It has just taken over.
                return await self.back()
            await drop_spare(self.desk.db, self.desk.org_id)
            return Switch(provider=None, is_done=True, waiting=0)
        if "previous" not in held:
            raise Conflict("embedding model", "there is none to go back to")
        return await self._begin(held["previous"].provider, held["current"])

    async def finish(self, progress: loop.Progress | None = None) -> Switch:
        """Embed what is missing for the switch that is under way and switch; what is interrupted goes on later.

        `progress` is told of each batch that was embedded.
        """
        await self.desk.work("embed for another model")
        await drain(self._worker, only_org=self.desk.org_id, progress=progress)
        held = await self._held()
        coming = held.get("next")
        if coming is None:
            return Switch(provider=held["current"].provider, is_done=True, waiting=0)
        async with self.desk.db.reading(self.desk.caller) as conn:
            left = await generations.progress(conn, self.desk.org_id, coming.model, stage="reembed")
        return Switch(provider=coming.provider, is_done=False, waiting=left.waiting)

    @property
    def _worker(self) -> GenerationWorker:
        return GenerationWorker(db=self.desk.db, models=self.models, stage="reembed")

    async def _held(self) -> dict[State, Generation]:
        return self._with_default(await self.models.generations(self.desk.org_id))

    def _with_default(self, held: dict[State, Generation]) -> dict[State, Generation]:
        return {"current": Generation(state="current", provider=self.models.default), **held}

    async def _statuses(
        self, conn: Connection, held: dict[State, Generation], spaces: Mapping[str, Space]
    ) -> list[GenerationStatus]:
        states: Sequence[State] = ("current", "next", "previous")
        there = [held[state] for state in states if state in held]
        return [await self._status(conn, one, spaces.get(one.provider, (None, None))) for one in there]

    async def _status(self, conn: Connection, held: Generation, space: Space) -> GenerationStatus:
        stage: work.Stage = "embed" if held.state == STATE_OF["embed"] else "reembed"
        model, dimensions = held.model or space[0], held.dimensions or space[1]
        if model is None and held.state == "current":
            model, dimensions = await self._found(conn)
        far = await generations.progress(conn, self.desk.org_id, model, stage=stage)
        works = held.state != "previous"
        return GenerationStatus(
            state=held.state,
            provider=held.provider,
            model=model,
            dimensions=dimensions,
            # Nobody chose a default that was never reached: it is only known to fail.
            since=held.since if held.model is not None or held.state != "current" else None,
            wanted=far.wanted,
            done=far.done,
            waiting=far.waiting if works else 0,
            set_aside=far.set_aside if works else 0,
            failing_since=held.failing_since,
            error=held.error,
        )

    async def _found(self, conn: Connection) -> Space:
        """Return what the vectors there are tell of a model that was never chosen, nor loaded here."""
        there = await generations.lengths(conn, self.desk.org_id)
        return next(iter(there.items())) if len(there) == 1 else (None, None)

    async def _begin(self, name: str, current: Generation) -> Switch:
        # Asked once here: whoever switches to a model that is not there learns it at once.
        embedder = await self.models.waken(name)
        model, dimensions = await self.models.space(current.provider)
        # As the worker knew it, where the settings name it no more.
        now = replace(current, model=model or current.model, dimensions=dimensions or current.dimensions)
        coming = Generation(
            state="next", provider=name, model=embedder.model_id, dimensions=embedder.dimensions
        )
        begin = partial(
            _begin, org_id=self.desk.org_id, held=(now, coming), with_tokens=embedder.gives_tokens
        )
        await self.desk.db.change(self.desk.org_id, begin)
        await self._worker.settle(self.desk.org_id)
        held = await self._held()
        async with self.desk.db.reading(self.desk.caller) as conn:
            left = await generations.progress(conn, self.desk.org_id, coming.model, stage="reembed")
        return Switch(provider=name, is_done="next" not in held, waiting=left.waiting)


async def _begin(conn: Connection, org_id: OrgId, held: Sequence[Generation], *, with_tokens: bool) -> None:
    await erased.keep_erasures_out(conn, org_id)
    await generations.keep_embedding_out(conn, org_id)
    # Somebody may have switched while the model was loaded.
    there = await generations.all_of(conn, org_id)
    current, coming, wanted = there.get("current"), there.get("next"), held[-1].provider
    if coming is not None and coming.provider != wanted:
        raise _under_way(wanted, coming.provider)
    if coming is None and current is not None and current.provider == wanted:
        return
    for one in held:
        await generations.put(conn, org_id, one)
    model = held[-1].model
    assert model is not None
    await work.enqueue_missing(conn, org_id, model, with_tokens=with_tokens, stage="reembed")


async def _give_up(conn: Connection, org_id: OrgId) -> bool:
    await generations.keep_embedding_out(conn, org_id)
    return await generations.give_up_next(conn, org_id)


def _under_way(wanted: str, coming: str) -> Conflict:
    """Return the refusal of a switch while there is one to another model."""
    return Conflict(
        f"embedding model {wanted!r}",
        f"a switch to {coming!r} is under way; roomlore embed back gives it up",
    )
