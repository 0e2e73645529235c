"""Work that follows from what was stored: done until nothing waits, or as it comes."""

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from roomlore.agents.chores import agents_chores, remember_and_inject
from roomlore.app import copies
from roomlore.app.desk import Desk
from roomlore.app.embedding import Models
from roomlore.app.following import Following
from roomlore.app.naming import ask_about_waiting, language_model_chores
from roomlore.config import Settings
from roomlore.domain.ids import OrgId, uuid7
from roomlore.store import extracting, work
from roomlore.store.generations import STATE_OF
from roomlore.store.queries import Connection
from roomlore.workers import extract, generations, loop, retain
from roomlore.workers.beating import Pulse
from roomlore.workers.extract import ExtractWorker, Rules
from roomlore.workers.generations import GenerationWorker
from roomlore.workers.listen import ListenWorker
from roomlore.workers.untangle import UntangleWorker


@dataclass(frozen=True, slots=True, kw_only=True)
class Working:
    """The work of an org, or of every org of the database; the operator's."""

    desk: Desk
    settings: Settings
    models: Models
    #: Starts the embedded server again; None where the server is somebody else's.
    restart: loop.Mend | None = None

    async def drain(
        self,
        progress: loop.Progress | None = None,
        *,
        untangled: loop.Progress | None = None,
        every_org: bool = False,
    ) -> loop.Drained:
        """Do all the work that is waiting or missing, and return what was done.

        Args:
            progress: Told of each batch that was embedded.
            untangled: Told of each portion of a room that was gone through.
            every_org: The work of all orgs in the database.
        """
        await self.desk.work("work", every_org=every_org)
        db, only_org = self.desk.db, None if every_org else self.desk.org_id
        worker, renewing = self._embedding("embed"), self._embedding("reembed")
        gone = await retain.expire_everywhere(db, now=datetime.now(UTC), only_org=only_org)
        # Before memories are drawn: nothing is drawn from a request.
        listened = await loop.drain(db, ListenWorker(db=db), only_org=only_org)
        gone_through = await self._untangle(untangled, only_org)
        drawn = await extract.drain(self._rules, only_org=only_org)
        await remember_and_inject(db, only_org)
        # Before anything is embedded: what comes of it is, too.
        await ask_about_waiting(db, self.settings.language_model, only_org)
        drained = await generations.drain(worker, only_org=only_org, progress=progress)
        renewed = await generations.drain(renewing, only_org=only_org, progress=progress)
        await self._following.once(only_org)
        return replace(
            drained,
            done=drained.done + renewed.done,
            failing=await copies.write_waiting(db, self.settings, only_org),
            unembedded=list(dict.fromkeys([*worker.failing, *renewing.failing])),
            expired=retain.message_count(gone),
            untangled=gone_through.done,
            remembered=drawn.added,
            set_aside=await self._set_aside(only_org) + gone_through.set_aside + listened.set_aside,
        )

    async def untangle(self, progress: loop.Progress | None = None) -> loop.Drained:
        """Find what the messages of this org answer and put them into conversations; return what was done."""
        await self.desk.work("untangle")
        return await self._untangle(progress, self.desk.org_id)

    async def _untangle(self, progress: loop.Progress | None, only_org: OrgId | None) -> loop.Drained:
        worker = UntangleWorker(db=self.desk.db)
        return await loop.drain(self.desk.db, worker, only_org=only_org, progress=progress)

    async def run(
        self,
        stop: asyncio.Event,
        progress: loop.Progress | None = None,
        expired: retain.Expired | None = None,
    ) -> None:
        """Do work as it comes, of every org in the database, until told to stop.

        Args:
            stop: Ends the work once it is set.
            progress: Told of each batch that was embedded.
            expired: Told how many messages were erased, each time that rooms no longer kept some.
        """
        await self.desk.work("work", every_org=True)
        db = self.desk.db
        worker, renewing = self._embedding("embed"), self._embedding("reembed")
        chores: list[loop.Chore] = [
            Pulse(db=db, worker_id=uuid7(), started_at=datetime.now(UTC)).run,
            partial(retain.run, db, expired=expired),
            lambda stop: loop.run(db, ListenWorker(db=db), stop=stop),
            lambda stop: loop.run(db, UntangleWorker(db=db), stop=stop),
            lambda stop: loop.run(db, renewing, stop=stop, progress=progress),
            worker.rounds,
            renewing.rounds,
            self._following.run,
            partial(extract.run, self._rules),
            *agents_chores(db),
            *language_model_chores(db, self.settings.language_model),
            partial(copies.keep_up, db, self.settings),
        ]
        await loop.run(db, worker, stop=stop, mend=self.restart, progress=progress, chores=chores)

    async def waiting(self, stage: work.Stage = "embed", *, every_org: bool = False) -> work.WorkCount:
        """Return how much of a stage waits and was set aside, messages or rooms, in this org or in every one."""
        await self.desk.work("count work", every_org=every_org)
        async with self.desk.db.outside_orgs() as conn:
            return await work.count(conn, stage, None if every_org else self.desk.org_id)

    async def retry(self, *, every_org: bool = False) -> int:
        """Let what was set aside be tried again, in this org or in every one, and return how much that is."""
        await self.desk.work("retry work", every_org=every_org)
        async with self.desk.db.outside_orgs() as conn:
            org_ids = await work.org_ids(conn) if every_org else [self.desk.org_id]
        return sum([await self.desk.db.change(org_id, partial(_retry, org_id=org_id)) for org_id in org_ids])

    async def _set_aside(self, only_org: OrgId | None) -> int:
        # Asked for when all is done: what one model could not embed may be another's by then.
        async with self.desk.db.outside_orgs() as conn:
            counts = [await work.count(conn, stage, only_org) for stage in STATE_OF]
        return sum(count.set_aside for count in counts)

    def _embedding(self, stage: work.Stage) -> GenerationWorker:
        return GenerationWorker(db=self.desk.db, models=self.models, stage=stage)

    @property
    def _following(self) -> Following:
        return Following(db=self.desk.db, settings=self.settings, models=self.models)

    @property
    def _rules(self) -> ExtractWorker:
        return ExtractWorker(db=self.desk.db, extractor=Rules())


async def _retry(conn: Connection, org_id: OrgId) -> int:
    again = [await work.retry(conn, org_id, stage) for stage in work.STAGES]
    return sum(again) + await extracting.retry(conn, org_id)
