"""The composition root: settings in, one App out, which owns start and stop.

The only module that knows which platforms and backends there are. Every other surface uses what is here.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from roomlore.backends.embedding import LocalEmbedder
from roomlore.config import DEFAULT_ORG, Settings, from_environment
from roomlore.context.builder import DEFAULT_BUDGET, build
from roomlore.context.records import Context
from roomlore.context.replygraph import DEFAULT_LIMITS, WalkLimits
from roomlore.context.storesource import StoreSource
from roomlore.domain.errors import BadInput, ModelUnavailable, NotFound
from roomlore.domain.ids import MessageId, OrgId
from roomlore.domain.incoming import IncomingMessage, Skipped
from roomlore.domain.ports import Embedder
from roomlore.domain.records import Message, Participant, Room, Viewer
from roomlore.ingest import accept
from roomlore.ingest.clean import Rooms, clean, clean_room
from roomlore.ingest.importing import ImportReport, ImportWish, Progress, Store, import_export
from roomlore.platforms import discord, irc, jsonl, slack, telegram
from roomlore.retrieval import cascade, meant
from roomlore.retrieval.records import Answer, Degradation, Found
from roomlore.retrieval.search import QuestionVector, search
from roomlore.store import directory, messages, work
from roomlore.store.cluster import start_cluster
from roomlore.store.db import Database
from roomlore.store.migrate import migrate
from roomlore.store.queries import Connection
from roomlore.store.search import Scope
from roomlore.workers import loop
from roomlore.workers.embed import EmbedWorker

READERS = (jsonl.READER, discord.READER, slack.READER, telegram.READER, irc.READER)
#: The shortest time between two messages.
MOMENT = timedelta(microseconds=1)


@asynccontextmanager
async def open(  # noqa: A001  read as roomlore.open
    settings: Settings | None = None, *, embedder: Embedder | None = None, create_org: bool = True
) -> AsyncGenerator["App"]:
    """Give an App on the database that the settings name, or on the embedded one, started if need be.

    Args:
        settings: Where the data lies and whose it is; the environment's settings by default.
        embedder: Another embedding model than the one the settings name.
        create_org: Make the org where there is none; the default org is always made.

    Raises:
        NotFound: there is no such org, and it was not to be made.
        DatabaseUnavailable: the database cannot be reached or started; says what to do.
        SchemaMismatch: a named database needs `roomlore migrate`; the embedded one migrates by itself.
    """
    settings = settings or from_environment()
    async with AsyncExitStack() as stack:
        db = await Database.connect(await _dsn(settings, stack))
        stack.push_async_callback(db.close)
        org_id = await _org(db, settings.org, create=create_org or settings.org == DEFAULT_ORG)
        restart = None if settings.database else partial(_restart, settings)
        yield App(db=db, org_id=org_id, settings=settings, _embedder=embedder, _restart=restart)


async def _org(db: Database, name: str, *, create: bool) -> OrgId:
    org_id = await db.org(name) if create else await db.find_org(name)
    if org_id is None:
        raise NotFound("org", name)
    return org_id


async def preview(
    path: Path, *, wish: ImportWish | None = None, progress: Progress | None = None
) -> ImportReport:
    """Report what an export holds; touches no database.

    Raises:
        BadInput: the path cannot be read.
        UnknownFormat: no reader recognises it.
    """
    return await _import(path, wish, store=None, progress=progress)


async def _import(
    path: Path, wish: ImportWish | None, *, store: Store, progress: Progress | None
) -> ImportReport:
    return await import_export(
        path,
        READERS,
        wish=wish or ImportWish(),
        store=store,
        now=datetime.now(UTC),
        progress=progress or _silent,
    )


async def prepare(settings: Settings) -> list[str]:
    """Bring the database to the schema of this code and return the names of the migrations applied.

    Raises:
        DatabaseUnavailable: it cannot be reached, or the login may not create roles and extensions.
        SchemaMismatch: it is newer than this code.
    """
    if settings.database is not None:
        return [migration.name for migration in await migrate(settings.database)]
    cluster = await start_cluster(settings.data, binaries=settings.binaries)
    try:
        return [migration.name for migration in await migrate(cluster.admin_dsn)]
    finally:
        await cluster.close()


async def _restart(settings: Settings) -> None:
    # Our own claim on the server outlives it, so that giving up this one does not stop it again.
    cluster = await start_cluster(settings.data, binaries=settings.binaries)
    await cluster.close()


async def _dsn(settings: Settings, stack: AsyncExitStack) -> str:
    if settings.database is not None:
        return settings.database
    cluster = await start_cluster(settings.data, binaries=settings.binaries)
    stack.push_async_callback(cluster.close)
    await migrate(cluster.admin_dsn)
    return cluster.app_dsn


@dataclass(slots=True, kw_only=True)
class App:
    """Rooms of one org: what was said in them, and what a viewer may know of it."""

    db: Database
    org_id: OrgId
    settings: Settings
    _embedder: Embedder | None = None
    #: Starts the embedded server again; None where the server is somebody else's.
    _restart: loop.Mend | None = None
    _loading: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def operator(self) -> Viewer:
        """The viewer who sees everything in the org."""
        return Viewer(org_id=self.org_id, participant_id=None)

    async def viewer(self, word: str) -> Viewer:
        """Return the viewer meant by a participant's name, account, id or beginning of an id.

        Raises:
            NotFound: nobody is meant.
            BadInput: several are meant.
        """
        async with self.db.reading(self.operator) as conn:
            participant_id = await meant.participant(conn, self.org_id, word)
        return Viewer(org_id=self.org_id, participant_id=participant_id)

    # What is written

    async def ingest(self, message: IncomingMessage) -> MessageId:
        """Store one message, once, and return its id; it is on disk when this returns.

        Raises:
            BadInput: the message cannot be stored; says why.
        """
        accepted = await self.ingest_batch([message])
        if accepted.skipped:
            skipped = accepted.skipped[0]
            raise BadInput(f"message {skipped.where!r}", skipped.reason)
        return accepted.message_ids[0]

    async def ingest_batch(self, batch: Sequence[IncomingMessage]) -> accept.Accepted:
        """Store a batch of messages in one transaction; what cannot be stored is named and left out."""
        now, rooms = datetime.now(UTC), Rooms(clean_room)
        fit: list[IncomingMessage] = []
        unfit: list[Skipped] = []
        for message in batch:
            cleaned = clean(message, now=now, rooms=rooms)
            if isinstance(cleaned, Skipped):
                unfit.append(cleaned)
            else:
                fit.append(cleaned.message)
        accepted = await self._accept(fit)
        return replace(accepted, skipped=[*unfit, *accepted.skipped])

    async def _accept(self, batch: Sequence[IncomingMessage]) -> accept.Accepted:
        now = datetime.now(UTC)
        return await self.db.change(
            self.org_id, lambda conn: accept.accept(conn, self.org_id, batch, received_at=now)
        )

    async def redact(self, message: str, *, room: str | None = None) -> MessageId:
        """Remove a message's content and all that was derived from it, and keep its place; return its id."""
        async with self.db.reading(self.operator) as conn:
            room_id = await meant.room(conn, self.org_id, room) if room else None
            found = await meant.message(conn, self.org_id, message, room_id=room_id)

        async def change(conn: Connection) -> None:
            # An edit that is just arriving would otherwise keep the text as history.
            await directory.lock_rooms(conn, [found.room_id])
            await accept.redact(conn, self.org_id, [found.id], redacted_at=datetime.now(UTC))

        await self.db.change(self.org_id, change)
        return found.id

    async def import_path(
        self,
        path: Path,
        *,
        wish: ImportWish | None = None,
        progress: Progress | None = None,
    ) -> ImportReport:
        """Read an export into the store and report what it held.

        Raises:
            BadInput: the path cannot be read.
            UnknownFormat: no reader recognises it.
        """
        return await _import(path, wish, store=self._accept, progress=progress)

    # What is worked on

    async def drain(self, progress: loop.Progress | None = None, *, every_org: bool = False) -> loop.Drained:
        """Do all the work that is waiting or missing in this org, or in every one; return what was done."""
        worker = await self._embed_worker()
        only_org = None if every_org else self.org_id
        return await loop.drain(self.db, worker, only_org=only_org, progress=progress)

    async def run_worker(self, stop: asyncio.Event, progress: loop.Progress | None = None) -> None:
        """Do work as it comes, of every org in the database, until told to stop."""
        worker = await self._embed_worker()
        await loop.run(self.db, worker, stop=stop, mend=self._restart, progress=progress)

    async def waiting(self, *, every_org: bool = False) -> work.WorkCount:
        """Return how much work is waiting and how much was set aside, in this org or in every one."""
        async with self.db.outside_orgs() as conn:
            return await work.count(conn, "embed", None if every_org else self.org_id)

    async def retry(self, *, every_org: bool = False) -> int:
        """Let what was set aside be tried again, in this org or in every one, and return how much that is."""
        async with self.db.outside_orgs() as conn:
            org_ids = await work.org_ids(conn) if every_org else [self.org_id]
        again = [
            await self.db.change(org_id, partial(work.retry, org_id=org_id, stage="embed"))
            for org_id in org_ids
        ]
        return sum(again)

    # What is read

    async def rooms(self, viewer: Viewer) -> list[Room]:
        """Return the rooms the viewer may see, most recently active first."""
        async with self.db.reading(viewer) as conn:
            return await directory.rooms(conn, viewer)

    async def participants(self, viewer: Viewer, *, room: str | None = None) -> list[Participant]:
        """Return the participants the viewer may know of, or those of one room, most talkative first."""
        async with self.db.reading(viewer) as conn:
            room_id = await meant.room(conn, self.org_id, room) if room else None
            return await directory.participants(conn, viewer, room_id)

    async def messages(
        self, viewer: Viewer, room: str, *, limit: int = 50, before: str | None = None
    ) -> list[Message]:
        """Return the newest messages of a room, or those before one of them, oldest first."""
        _check_limit(limit)
        async with self.db.reading(viewer) as conn:
            room_id = await meant.room(conn, self.org_id, room)
            if before is None:
                newest = await messages.newest_messages(conn, self.org_id, room_id, limit=limit)
            else:
                place = await meant.message(conn, self.org_id, before, room_id=room_id)
                newest = await messages.messages_before(conn, self.org_id, place, limit=limit)
        return newest[::-1]

    async def context(
        self,
        viewer: Viewer,
        room: str,
        trigger: str = meant.LAST,
        *,
        budget: int = DEFAULT_BUDGET,
        limits: WalkLimits = DEFAULT_LIMITS,
    ) -> Context:
        """Return what the viewer should read before answering a message of the room."""
        async with self.db.reading(viewer) as conn:
            room_id = await meant.room(conn, self.org_id, room)
            message = await meant.message(conn, self.org_id, trigger, room_id=room_id)
            source = StoreSource(conn=conn, org_id=self.org_id)
            return await build(source, message, viewer=viewer, limits=limits, budget=budget)

    async def search(
        self,
        viewer: Viewer,
        question: str,
        *,
        room: str | None = None,
        as_of: str | None = None,
        limit: int = 10,
    ) -> Found:
        """Return up to `limit` exchanges the viewer may see, best first, each with its reasons.

        Args:
            viewer: For whom.
            question: In plain words.
            room: Only in this room; everywhere by default.
            as_of: As if this message of the room had been the last.
            limit: How many exchanges; of a very large one what surrounds the finds, and how much is left out.

        Raises:
            BadInput: there is no question, or nothing is wanted.
        """
        if not question.strip():
            raise BadInput("question", "must not be empty")
        _check_limit(limit)
        vector, degraded = await self._vector(question, viewer)
        async with self.db.reading(viewer) as conn:
            scope = await self._scope(conn, room)
            if as_of is not None:
                room_id = scope.room_ids[0] if scope.room_ids else None
                last = await meant.message(conn, self.org_id, as_of, room_id=room_id)
                scope = replace(scope, until=last.sent_at + MOMENT, last=last.position)
            hits = await search(conn, viewer, question, vector, scope=scope, limit=limit)
        return Found(hits=hits, degraded=degraded)

    async def ask(self, viewer: Viewer, question: str, *, room: str | None = None) -> Answer:
        """Return what the viewer's messages say about a question, with sources, or that they do not."""
        if not question.strip():
            raise BadInput("question", "must not be empty")
        vector, degraded = await self._vector(question, viewer)
        async with self.db.reading(viewer) as conn:
            scope = await self._scope(conn, room)
            answer = await cascade.ask(conn, viewer, question, vector, scope=scope)
        return replace(answer, degraded=degraded)

    async def _scope(self, conn: Connection, room: str | None) -> Scope:
        return Scope(room_ids=None if room is None else [await meant.room(conn, self.org_id, room)])

    # The embedding model, loaded when first needed

    async def _load_embedder(self) -> Embedder:
        async with self._loading:
            if self._embedder is None:
                self._embedder = await asyncio.to_thread(LocalEmbedder.load, self.settings.model)
            return self._embedder

    async def _embed_worker(self) -> EmbedWorker:
        return EmbedWorker(db=self.db, embedder=await self._load_embedder())

    async def _vector(self, question: str, viewer: Viewer) -> tuple[QuestionVector, Sequence[Degradation]]:
        try:
            embedder = await self._load_embedder()
        except ModelUnavailable:
            return None, ("no embedding model",)
        vectors = await asyncio.to_thread(embedder.embed, [question])
        # Only the operator may learn that something unread is waiting.
        is_behind = viewer.is_operator and await self._is_behind(embedder.model_id)
        return (embedder.model_id, vectors[0]), ("not everything is embedded yet",) if is_behind else ()

    async def _is_behind(self, model: str) -> bool:
        async with self.db.reading(self.operator) as conn:
            return await work.is_behind(conn, self.org_id, model)


def _check_limit(limit: int) -> None:
    if limit < 1:
        raise BadInput("limit", "must be at least 1")


def _silent(read: int, total: int, records: int) -> None:
    """Show no progress."""
