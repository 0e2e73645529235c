"""What can be done with the rooms of one org: writing, working, reading, each call on behalf of its caller.

Each part is imported by the call that needs it: a command that lists rooms does not wait for embedding models.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from roomlore.context.limits import DEFAULT_BUDGET, DEFAULT_LIMITS
from roomlore.domain.clock import utc_now
from roomlore.domain.errors import BadInput, NotAllowed
from roomlore.domain.records import Viewer
from roomlore.domain.words import LAST
from roomlore.operations.shared import Shared
from roomlore.search.query_parser import NO_FILTERS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from uuid import UUID

    from roomlore.context.limits import ExpansionLimits
    from roomlore.context.records import Context
    from roomlore.db import work_queue
    from roomlore.db.database import Database
    from roomlore.domain.ids import MessageId, OrgId
    from roomlore.domain.incoming import IncomingMessage
    from roomlore.domain.ports import Embedder
    from roomlore.domain.records import AuditLine, Message, Participant, Room
    from roomlore.ingest import accept
    from roomlore.ingest.imports import ImportOptions, ImportReport, Progress
    from roomlore.jobs import expiry, runner
    from roomlore.operations.access import Access
    from roomlore.operations.agents import Agents
    from roomlore.operations.candidates import ProjectionClients
    from roomlore.operations.conversations import Conversations
    from roomlore.operations.embedding_models import EmbeddingModels, ModelCache
    from roomlore.operations.embedding_versions import EmbeddingVersions
    from roomlore.operations.erasure import Erasures
    from roomlore.operations.events import EventStream
    from roomlore.operations.extraction import Extraction
    from roomlore.operations.graph import GraphQueries
    from roomlore.operations.history import History
    from roomlore.operations.intake import Intake
    from roomlore.operations.jobs import Jobs
    from roomlore.operations.keys import Keys
    from roomlore.operations.memories import Memories
    from roomlore.operations.monitoring import Monitoring
    from roomlore.operations.people import People
    from roomlore.operations.privacy import PrivacyRequests
    from roomlore.operations.projection_service import Projections
    from roomlore.operations.rooms import RoomManagement
    from roomlore.operations.search import SearchService
    from roomlore.search.lookup import PositionLike
    from roomlore.search.query_parser import Filters
    from roomlore.search.records import Answer, SearchResult, Thread
    from roomlore.settings import Settings


@dataclass(slots=True, kw_only=True)
class App:
    """Rooms of one org: what was said in them, and what a viewer may know of it."""

    db: Database
    org_id: OrgId
    settings: Settings
    #: On whose behalf every call is made; None is the operator.
    _principal: Viewer | None = None
    _embedder: Embedder | None = None
    #: Starts the embedded server again; None where the server is somebody else's.
    _reconnect: runner.Reconnect | None = None
    #: In place of those that are shared.
    _model_cache: ModelCache | None = None
    _projection_clients: ProjectionClients | None = None
    #: Shared by all on whose behalf this App acts.
    _shared: Shared = field(default_factory=Shared)

    @property
    def caller(self) -> Viewer:
        """On whose behalf every call is made."""
        return self._principal or self.operator

    @property
    def operator(self) -> Viewer:
        """The viewer who sees everything in the org."""
        return Viewer.operator(self.org_id)

    @property
    def access(self) -> Access:
        """What every call passes."""
        from roomlore.operations.access import Access

        return Access(db=self.db, org_id=self.org_id, principal=self.caller)

    @property
    def people(self) -> People:
        """Whose accounts the participants are."""
        from roomlore.operations.people import People

        return People(access=self.access)

    @property
    def keys(self) -> Keys:
        """Who may come in."""
        from roomlore.operations.keys import Keys

        return Keys(access=self.access)

    @property
    def memories(self) -> Memories:
        """What is durably known."""
        from roomlore.operations.memories import Memories

        return Memories(access=self.access)

    @property
    def agents(self) -> Agents:
        """What agents remember, and make of whom they met."""
        from roomlore.operations.agents import Agents

        return Agents(
            access=self.access, section_cache=self._shared.blocks, is_shadow=self.settings.shadow_blocks
        )

    @property
    def generations(self) -> EmbeddingVersions:
        """Which embedding model serves the org."""
        from roomlore.operations.embedding_versions import EmbeddingVersions

        return EmbeddingVersions(access=self.access, models=self._models)

    @property
    def projecting(self) -> Projections:
        """Copies in other servers."""
        from roomlore.operations.projection_service import Projections

        return Projections(
            access=self.access, settings=self.settings, load=partial(self._models.current, self.org_id)
        )

    @property
    def graph(self) -> GraphQueries:
        """What people, messages and memories have to do with each other."""
        from roomlore.operations.graph import GraphQueries

        return GraphQueries(access=self.access, settings=self.settings, projection_clients=self._copies)

    @property
    def wishes(self) -> PrivacyRequests:
        """What was wished in rooms to be forgotten, or kept from some."""
        from roomlore.operations.privacy import PrivacyRequests

        return PrivacyRequests(access=self.access)

    @property
    def conversations(self) -> Conversations:
        """What was said by topic."""
        from roomlore.operations.conversations import Conversations

        return Conversations(access=self.access)

    @property
    def operations(self) -> Monitoring:
        """How far the work has come, and what rooms embed; for operators."""
        from roomlore.operations.monitoring import Monitoring

        return Monitoring(
            access=self.access, section_cache=self._shared.blocks, embedding_versions=self.generations
        )

    @property
    def erasure(self) -> Erasures:
        """What is to be gone, and receipts of what is."""
        from roomlore.operations.erasure import Erasures

        return Erasures(access=self.access)

    @property
    def room_management(self) -> RoomManagement:
        """The access, names and members of rooms; for operators."""
        from roomlore.operations.rooms import RoomManagement

        return RoomManagement(access=self.access)

    @property
    def intake(self) -> Intake:
        """Records of our own format that come in, what agents say as themselves, and edits."""
        from roomlore.operations.intake import Intake

        return Intake(
            access=self.access,
            store_batch=self.ingest_batch,
            on_stored=partial(self._shared.growth.record_stored, self.db),
        )

    async def sign_in(self, key: str) -> App:
        """Return this App on behalf of whoever holds the key.

        Raises:
            KeyRefused: there is no such key, or it has expired or was revoked.
        """
        from roomlore.operations.keys import sign_in

        return replace(self, _principal=await sign_in(self.db, self.org_id, key))

    def acting(self, viewer: Viewer) -> App:
        """Return this App on behalf of a viewer whom its operator named.

        Raises:
            NotAllowed: the caller is no operator, or the viewer is of another org.
        """
        if not self.caller.is_operator or viewer.org_id != self.org_id:
            raise NotAllowed("only an operator acts for another, in the same org")
        return replace(self, _principal=replace(viewer, key_id=self.caller.key_id))

    async def viewer(self, word: str) -> Viewer:
        """Return the viewer meant by a participant's name, account, id or beginning of an id.

        Raises:
            NotFound: nobody is meant.
            BadInput: several are meant.
            NotAllowed: the caller is no operator; everybody else reads as themselves.
        """
        from roomlore.operations.viewers import viewer_of
        from roomlore.search import lookup

        await self.access.check("administer", "read as another")
        async with self.db.read_transaction(self.operator) as conn:
            participant_id = await lookup.participant(conn, self.org_id, word)
        return await viewer_of(self.db, self.org_id, participant_id)

    # What is written

    async def ingest(self, message: IncomingMessage) -> MessageId:
        """Store one message, once, and return its id; it is on disk when this returns.

        Raises:
            BadInput: the message cannot be stored; says why.
        """
        accepted = await self.ingest_batch([message])
        if accepted.skipped:
            [skipped] = accepted.skipped
            raise BadInput(f"message {skipped.where!r}", skipped.reason)
        return accepted.message_ids[0]

    async def ingest_batch(self, batch: Sequence[IncomingMessage]) -> accept.IngestResult:
        """Store a batch of messages in one transaction; what cannot be stored is named and left out."""
        from roomlore.operations.imports import partition_storable

        fit, unfit = await asyncio.to_thread(partition_storable, batch, now=utc_now())
        accepted = await self._store_batch(fit, action="ingest")
        return replace(accepted, skipped=[*unfit, *accepted.skipped])

    async def _store_batch(self, batch: Sequence[IncomingMessage], *, action: str) -> accept.IngestResult:
        from roomlore.operations.intake import store_records

        accepted = await store_records(self.access, batch, action=action)
        await self._shared.growth.record_stored(self.db, len(accepted.added))
        return accepted

    async def import_path(
        self, path: Path, *, wish: ImportOptions | None = None, progress: Progress | None = None
    ) -> ImportReport:
        """Read an export into the store, batch by batch, and report what it held and who may read it.

        Raises:
            BadInput: the path cannot be read, or a room is named that is not in it.
            UnknownFormat: no reader recognises it.
        """
        from roomlore.operations.imports import StoredRooms, read_export

        await self.access.check("administer", "import")
        store, there = partial(self._store_batch, action="import"), StoredRooms(access=self.access)
        importing = read_export(path, wish, store=store, stored_rooms=there, progress=progress)
        return await self.wishes.with_request_counts(importing)

    # What is worked on

    async def drain(
        self,
        progress: runner.Progress | None = None,
        *,
        untangled: runner.Progress | None = None,
        every_org: bool = False,
    ) -> runner.DrainResult:
        """Do the work of this org, or of every one; tell of batches embedded, portions untangled; return what was done."""
        return await self._jobs.drain(progress, untangled=untangled, every_org=every_org)

    async def untangle(self, progress: runner.Progress | None = None) -> runner.DrainResult:
        """Find what the messages of this org answer and put them into conversations; return what was done."""
        return await self._jobs.untangle(progress)

    async def run_worker(
        self,
        stop: asyncio.Event,
        progress: runner.Progress | None = None,
        expired: expiry.OnExpired | None = None,
    ) -> None:
        """Do work as it comes, of every org in the database, until `stop` is set.

        `progress` is told of each batch that was embedded, `expired` how many messages went that rooms no longer keep.
        """
        await self._jobs.run(stop, progress, expired)

    async def waiting(
        self, stage: work_queue.QueueName = "embed", *, every_org: bool = False
    ) -> work_queue.WorkCount:
        """Return how much of a stage waits and was set aside, messages or rooms, in this org or in every one."""
        return await self._jobs.waiting(stage, every_org=every_org)

    async def retry(self, *, every_org: bool = False) -> int:
        """Let what was set aside be tried again, in this org or in every one, and return how much that is."""
        return await self._jobs.retry(every_org=every_org)

    # What is read

    async def rooms(self, viewer: Viewer) -> list[Room]:
        """Return the rooms the viewer may see, most recently active first."""
        return await self._history.rooms(viewer)

    async def participants(self, viewer: Viewer, *, room: str | None = None) -> list[Participant]:
        """Return the participants the viewer may know of, or those of one room, most talkative first."""
        return await self._history.participants(viewer, room=room)

    async def messages(
        self,
        viewer: Viewer,
        room: str,
        *,
        limit: int = 50,
        before: PositionLike = None,
        recalls: bool = False,
    ) -> list[Message]:
        """Return a room's newest messages, or those before one, oldest first; `recalls`: none that a wish keeps away."""
        found = await self._history.messages(viewer, room, limit=limit, before=before, recalls=recalls)
        return list(found.items[::-1])

    async def exchanges(
        self, viewer: Viewer, room: str, *, limit: int = 20, before: PositionLike = None
    ) -> list[Thread]:
        """Return the newest exchanges of a room, each whole, or those that open before a message, newest first."""
        return list((await self._history.exchanges(viewer, room, limit=limit, before=before)).items)

    async def context(
        self,
        viewer: Viewer,
        room: str,
        trigger: str = LAST,
        *,
        budget: int = DEFAULT_BUDGET,
        limits: ExpansionLimits = DEFAULT_LIMITS,
        articles: bool = False,
        private: bool = False,
    ) -> Context:
        """Return what the viewer should read before answering a message of the room; an agent also what it remembers.

        It holds what everybody in the room may read, for the answer is posted there, or everybody who hears the whisper
        that is answered; with `private` all that the viewer may read: then it says that nothing of it may be posted.

        The trigger is by default the room's last that everybody there may read; one that a wish keeps from them has no
        words. `budget` is in tokens, `limits` say how far to look, and `articles` reads what is linked to, over the network.
        """
        from roomlore.operations.contexts import ContextOptions, Contexts

        wish = ContextOptions(budget=budget, limits=limits, articles=articles, private=private)
        return await Contexts(access=self.access, agents=self.agents).context(viewer, room, trigger, wish)

    async def search(
        self,
        viewer: Viewer,
        question: str,
        *,
        room: str | None = None,
        as_of: str | None = None,
        filters: Filters = NO_FILTERS,
        limit: int = 10,
        private: bool = False,
    ) -> SearchResult:
        """Return up to `limit` exchanges the viewer may see, best first, each with its reasons; of large ones what matters.

        With a room only what everybody there may read; with `private` all that the viewer may, to be posted nowhere.

        What a question in plain words says of who said something and when narrows the search, as `room` and `filters` do;
        `as_of` searches as if this message of the room had been the last.

        Raises:
            BadInput: there is no question, nothing is wanted, a filter is wrong, or nothing can be posted in the room.
        """
        from roomlore.operations.destination import Destination

        place = Destination(room=room, as_of=as_of, private=private)
        return await self._search_service.search(viewer, question, place=place, filters=filters, limit=limit)

    async def similar(
        self,
        viewer: Viewer,
        question: str,
        *,
        room: str | None = None,
        limit: int = 10,
        private: bool = False,
    ) -> SearchResult:
        """Return up to `limit` exchanges in which the viewer asked something like this before, most alike first."""
        from roomlore.operations.destination import Destination

        return await self._search_service.similar(
            viewer, question, place=Destination(room=room, private=private), limit=limit
        )

    async def ask(
        self,
        viewer: Viewer,
        question: str,
        *,
        room: str | None = None,
        as_of: str | None = None,
        filters: Filters = NO_FILTERS,
        quote: bool = False,
        private: bool = False,
    ) -> Answer:
        """Return what is known of a question, or that it is not, through a room first; `quote` asks no language model."""
        from roomlore.operations.destination import Destination

        place = Destination(room=room, as_of=as_of, private=private)
        return await self._search_service.ask(viewer, question, place=place, filters=filters, quote=quote)

    async def log(
        self, viewer: Viewer, *, subject: UUID | str | None = None, limit: int = 50
    ) -> list[AuditLine]:
        """Return the log's newest lines, others' to operators only, of those that name `subject` by id, or how it begins or ends.

        Raises:
            BadInput: the subject is no id, nor the beginning of one.
        """
        return await self._history.log(viewer, subject=subject, limit=limit)

    def events(self, viewer: Viewer, *, room: str | None = None, after: str | None = None) -> EventStream:
        """Return what changes, as far as the viewer may see it, to iterate over: from now on, or after the event of an id."""
        from roomlore.operations.events import EventStream

        return EventStream(self.access, self._shared.bell, viewer=viewer, room=room, after=after)

    @property
    def extracting(self) -> Extraction:
        """Memories drawn from what was said, at once."""
        from roomlore.operations.extraction import Extraction

        return Extraction(access=self.access, settings=self.settings)

    @property
    def _jobs(self) -> Jobs:
        from roomlore.operations.jobs import Jobs

        return Jobs(
            access=self.access, settings=self.settings, models=self._models, reconnect=self._reconnect
        )

    @property
    def _history(self) -> History:
        from roomlore.operations.history import History

        return History(access=self.access)

    @property
    def _search_service(self) -> SearchService:
        from roomlore.operations.search import SearchService

        return SearchService(
            access=self.access,
            settings=self.settings,
            models=self._models,
            now=utc_now,
            servers=lambda: self._copies,
        )

    @property
    def _models(self) -> EmbeddingModels:
        from roomlore.operations.embedding_models import EmbeddingModels

        return EmbeddingModels(
            db=self.db,
            settings=self.settings,
            cache=self._model_cache or self._shared.loading,
            provided=self._embedder,
        )

    @property
    def _copies(self) -> ProjectionClients:
        return self._projection_clients or self._shared.servers
