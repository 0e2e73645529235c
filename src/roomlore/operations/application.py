"""The `App`: every operation on the rooms of one org, on behalf of one caller.

Services are imported on first use. So a command that lists rooms does not load embedding models.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from roomlore.context.limits import DEFAULT_BUDGET, DEFAULT_LIMITS
from roomlore.domain.clock import utc_now
from roomlore.domain.errors import BadInput, NotAllowed
from roomlore.domain.records import Viewer
from roomlore.domain.words import LAST
from roomlore.search.query_parser import NO_FILTERS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from uuid import UUID

    from roomlore.agents.section_cache import SectionCache
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
    from roomlore.operations.events import EventStream, Notifier
    from roomlore.operations.exports import Exports
    from roomlore.operations.graph import GraphQueries
    from roomlore.operations.history import History
    from roomlore.operations.intake import AnalyzeTrigger, Intake
    from roomlore.operations.jobs import Extraction, Jobs
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


class Shared:
    """The objects that all callers of an App share. Each is loaded on first use."""

    @cached_property
    def models(self) -> ModelCache:
        """The embedding models."""
        from roomlore.operations.embedding_models import ModelCache

        return ModelCache()

    @cached_property
    def sections(self) -> SectionCache:
        """The cached memory sections."""
        from roomlore.agents.section_cache import SectionCache

        return SectionCache()

    @cached_property
    def notifier(self) -> Notifier:
        """Wakes streams of events."""
        from roomlore.operations.events import Notifier

        return Notifier()

    @cached_property
    def analyze_trigger(self) -> AnalyzeTrigger:
        """Counts stored messages."""
        from roomlore.operations.intake import AnalyzeTrigger

        return AnalyzeTrigger()

    @cached_property
    def servers(self) -> ProjectionClients:
        """The connections to Qdrant and Neo4j."""
        from roomlore.operations.candidates import ProjectionClients

        return ProjectionClients()

    async def close(self) -> None:
        """Close the connections, if there are any."""
        if "servers" in vars(self):
            await self.servers.close()


@dataclass(slots=True, kw_only=True)
class App:
    """The rooms of one org, on behalf of one caller.

    A room, a participant or a message is named by name, account, external id or id. Every method raises NotFound if the
    viewer sees nothing by a name, and BadInput if a name is ambiguous or an argument is invalid. It raises NotAllowed
    if the caller may not do this or may not read as the viewer, and KeyRefused if the caller's key is no longer valid.
    """

    db: Database
    org_id: OrgId
    settings: Settings
    #: None means the operator.
    _principal: Viewer | None = None
    _embedder: Embedder | None = None
    #: Starts the embedded server again; None if the database is another server.
    _reconnect: runner.Reconnect | None = None
    #: These models replace the shared models.
    _model_cache: ModelCache | None = None
    _projection_clients: ProjectionClients | None = None
    _shared: Shared = field(default_factory=Shared)

    @property
    def principal(self) -> Viewer:
        """The caller of every method."""
        return self._principal or self.operator

    @property
    def operator(self) -> Viewer:
        """The viewer who sees everything in the org."""
        return Viewer.operator(self.org_id)

    @property
    def access(self) -> Access:
        """The access control of the caller."""
        from roomlore.operations.access import Access

        return Access(db=self.db, org_id=self.org_id, principal=self.principal)

    @property
    def people(self) -> People:
        """Participants and their accounts."""
        from roomlore.operations.people import People

        return People(access=self.access)

    @property
    def keys(self) -> Keys:
        """Keys that let callers sign in."""
        from roomlore.operations.keys import Keys

        return Keys(access=self.access)

    @property
    def memories(self) -> Memories:
        """Memories with their sources."""
        from roomlore.operations.memories import Memories

        return Memories(access=self.access)

    @property
    def agents(self) -> Agents:
        """The memories, relationships and replies of agents."""
        from roomlore.operations.agents import Agents

        return Agents(
            access=self.access,
            section_cache=self._shared.sections,
            is_shadow=self.settings.shadow_memory_sections,
        )

    @property
    def embedding_versions(self) -> EmbeddingVersions:
        """The embedding models of the org."""
        from roomlore.operations.embedding_versions import EmbeddingVersions

        return EmbeddingVersions(access=self.access, models=self._models)

    @property
    def projections(self) -> Projections:
        """Indexes in other servers."""
        from roomlore.operations.projection_service import Projections

        load = partial(self._models.current, self.org_id)
        return Projections(access=self.access, settings=self.settings, load=load)

    @property
    def graph(self) -> GraphQueries:
        """Answers who said what, who talks to whom, and which memories are related."""
        from roomlore.operations.graph import GraphQueries

        return GraphQueries(access=self.access, settings=self.settings, projection_clients=self._servers)

    @property
    def privacy_requests(self) -> PrivacyRequests:
        """Privacy requests found in messages."""
        from roomlore.operations.privacy import PrivacyRequests

        return PrivacyRequests(access=self.access)

    @property
    def conversations(self) -> Conversations:
        """Conversations, and corrections of them."""
        from roomlore.operations.conversations import Conversations

        return Conversations(access=self.access)

    @property
    def monitoring(self) -> Monitoring:
        """Statistics and the embedding policy of rooms; for operators."""
        from roomlore.operations.monitoring import Monitoring

        return Monitoring(
            access=self.access,
            section_cache=self._shared.sections,
            embedding_versions=self.embedding_versions,
        )

    @property
    def exports(self) -> Exports:
        """Exports as JSON lines, and imports of such exports."""
        from roomlore.operations.exports import Exports

        return Exports(access=self.access)

    @property
    def erasure(self) -> Erasures:
        """Erasure with receipts, and retention."""
        from roomlore.operations.erasure import Erasures

        return Erasures(access=self.access)

    @property
    def room_admin(self) -> RoomManagement:
        """The visibility, names and members of rooms; for operators."""
        from roomlore.operations.rooms import RoomManagement

        return RoomManagement(access=self.access)

    @property
    def intake(self) -> Intake:
        """Records of our own format, messages that agents write, and edits."""
        from roomlore.operations.intake import Intake

        return Intake(
            access=self.access,
            store_batch=self.ingest_batch,
            on_stored=partial(self._shared.analyze_trigger.record_stored, self.db),
        )

    @property
    def extraction(self) -> Extraction:
        """Extraction of memories on request; for operators."""
        from roomlore.operations.jobs import Extraction

        return Extraction(access=self.access, settings=self.settings)

    async def sign_in(self, key: str) -> App:
        """Return this App on behalf of the holder of a key; raise KeyRefused if the key is not valid."""
        from roomlore.operations.keys import sign_in

        return replace(self, _principal=await sign_in(self.db, self.org_id, key))

    def impersonate(self, viewer: Viewer) -> App:
        """Return this App on behalf of a viewer; for operators."""
        if not self.principal.is_operator or viewer.org_id != self.org_id:
            raise NotAllowed("only an operator acts for another, in the same org")
        return replace(self, _principal=replace(viewer, key_id=self.principal.key_id))

    async def viewer(self, word: str) -> Viewer:
        """Return a participant as a viewer; for operators."""
        from roomlore.operations.access import viewer_of
        from roomlore.search import lookup

        await self.access.check("administer", "read as another")
        async with self.db.read_transaction(self.operator) as conn:
            participant_id = await lookup.participant(conn, self.org_id, word)
        return await viewer_of(self.db, self.org_id, participant_id)

    async def ingest(self, message: IncomingMessage) -> MessageId:
        """Store one message and return its id. The message is then on disk. Storing it again changes nothing.

        Raises:
            BadInput: the message cannot be stored.
        """
        accepted = await self.ingest_batch([message])
        if accepted.skipped:
            [skipped] = accepted.skipped
            raise BadInput(f"message {skipped.where!r}", skipped.reason)
        return accepted.message_ids[0]

    async def ingest_batch(self, batch: Sequence[IncomingMessage]) -> accept.IngestResult:
        """Store a batch of messages in one transaction. The result names the messages that cannot be stored."""
        from roomlore.operations.imports import partition_storable

        valid, skipped = await asyncio.to_thread(partition_storable, batch, now=utc_now())
        accepted = await self._store_batch(valid, action="ingest")
        return replace(accepted, skipped=[*skipped, *accepted.skipped])

    async def _store_batch(self, batch: Sequence[IncomingMessage], *, action: str) -> accept.IngestResult:
        from roomlore.operations.intake import store_records

        accepted = await store_records(self.access, batch, action=action)
        await self._shared.analyze_trigger.record_stored(self.db, len(accepted.added))
        return accepted

    async def import_path(
        self, path: Path, *, options: ImportOptions | None = None, progress: Progress | None = None
    ) -> ImportReport:
        """Import an export in batches. Report its content, and who may read it. For operators.

        Raises:
            BadInput: the path cannot be read, or does not contain a room that the options name.
            UnknownFormat: no reader knows the format.
        """
        from roomlore.operations.imports import StoredRooms, read_export

        await self.access.check("administer", "import")
        store, stored_rooms = partial(self._store_batch, action="import"), StoredRooms(access=self.access)
        importing = read_export(path, options, store=store, stored_rooms=stored_rooms, progress=progress)
        return await self.privacy_requests.with_request_counts(importing)

    async def drain(
        self,
        progress: runner.Progress | None = None,
        *,
        disentangled: runner.Progress | None = None,
        every_org: bool = False,
    ) -> runner.DrainResult:
        """Do all waiting work of this org, or of every org, and return what was done. For operators.

        `progress` is called after each batch of embeddings, `disentangled` after each part of a room.
        """
        return await self._jobs.drain(progress, disentangled=disentangled, every_org=every_org)

    async def disentangle(self, progress: runner.Progress | None = None) -> runner.DrainResult:
        """Find replies and assign the messages of this org to conversations. For operators."""
        return await self._jobs.disentangle(progress)

    async def run_worker(
        self,
        stop: asyncio.Event,
        progress: runner.Progress | None = None,
        expired: expiry.OnExpired | None = None,
    ) -> None:
        """Do the work of every org as it arrives, until `stop` is set. For operators.

        `progress` is called after each batch of embeddings. `expired` is called with the number of messages that
        retention erased.
        """
        await self._jobs.run(stop, progress, expired)

    async def waiting(
        self, stage: work_queue.QueueName = "embed", *, every_org: bool = False
    ) -> work_queue.WorkCount:
        """Return how many jobs of a queue wait, and how many failed for good.

        They are counted in this org or in every org.
        """
        return await self._jobs.waiting(stage, every_org=every_org)

    async def retry(self, *, every_org: bool = False) -> int:
        """Retry the jobs that failed for good, in this org or in every org, and return their number."""
        return await self._jobs.retry(every_org=every_org)

    async def rooms(self, viewer: Viewer) -> list[Room]:
        """Return the rooms that the viewer may see, the most recently active first."""
        return await self._history.rooms(viewer)

    async def participants(self, viewer: Viewer, *, room: str | None = None) -> list[Participant]:
        """Return the participants that the viewer knows, or the participants of one room, those with the most messages first."""
        return await self._history.participants(viewer, room=room)

    async def messages(
        self,
        viewer: Viewer,
        room: str,
        *,
        limit: int = 50,
        before: PositionLike = None,
        apply_restrictions: bool = False,
    ) -> list[Message]:
        """Return the newest messages of a room, or the messages before a given message, oldest first.

        With `apply_restrictions`, messages that privacy requests hide are left out.
        """
        page = await self._history.messages(
            viewer, room, limit=limit, before=before, apply_restrictions=apply_restrictions
        )
        return list(page.items[::-1])

    async def threads(
        self, viewer: Viewer, room: str, *, limit: int = 20, before: PositionLike = None
    ) -> list[Thread]:
        """Return the newest threads of a room, or the threads whose root is before a message, newest first."""
        return list((await self._history.threads(viewer, room, limit=limit, before=before)).items)

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
        """Return what the viewer should read before answering a message. For an agent, this includes its memories.

        Unless `private` is set, the context holds only what everybody in the room may read. If the trigger is a
        whisper, it holds only what all readers of the whisper may read.

        Args:
            viewer: Who answers.
            room: The room.
            trigger: The message to answer. Default: the newest message that everybody in the room may read; with
                `private`, the newest that the viewer may read. If a privacy request hides the message, it is shown
                without its text.
            budget: The maximum number of tokens.
            limits: How far to search.
            articles: Also read linked pages, over the network.
            private: Include everything that the viewer may read. The result must not be posted in a room.
        """
        from roomlore.operations.contexts import ContextOptions, Contexts

        options = ContextOptions(budget=budget, limits=limits, articles=articles, private=private)
        contexts = Contexts(access=self.access, agents=self.agents)
        return await contexts.context(viewer, room, trigger, options)

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
        """Return up to `limit` threads that match a question, best first, with the reasons.

        A large thread is returned only in part.

        If the question names an author or a time, the results are filtered by it, unless `filters` names another one.

        Args:
            viewer: Who searches.
            question: In plain words.
            room: Search this room, and return only what everybody in the room may read.
            as_of: Search as if this message of the room were the last.
            filters: More filters.
            limit: The maximum number of threads.
            private: Return everything that the viewer may read. The result must not be posted in a room.
        """
        from roomlore.operations.destination import Destination

        destination = Destination(room=room, as_of=as_of, private=private)
        return await self._search_service.search(
            viewer, question, destination=destination, filters=filters, limit=limit
        )

    async def similar(
        self,
        viewer: Viewer,
        question: str,
        *,
        room: str | None = None,
        limit: int = 10,
        private: bool = False,
    ) -> SearchResult:
        """Return up to `limit` threads in which the viewer asked something similar before, most similar first."""
        from roomlore.operations.destination import Destination

        return await self._search_service.similar(
            viewer, question, destination=Destination(room=room, private=private), limit=limit
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
        """Return the answer to a question, or that there is no answer. A room is searched before everything else.

        With `quote`, no language model is asked. The other arguments are those of `search`.
        """
        from roomlore.operations.destination import Destination

        destination = Destination(room=room, as_of=as_of, private=private)
        return await self._search_service.ask(
            viewer, question, destination=destination, filters=filters, quote=quote
        )

    async def log(
        self, viewer: Viewer, *, subject: UUID | str | None = None, limit: int = 50
    ) -> list[AuditLine]:
        """Return the newest audit lines, newest first. Operators get all lines, other viewers their own lines.

        With `subject`, only lines that name this id are returned. The beginning or the end of an id is enough.
        """
        return await self._history.log(viewer, subject=subject, limit=limit)

    def events(self, viewer: Viewer, *, room: str | None = None, after: str | None = None) -> EventStream:
        """Return the changes that the viewer may see as an async iterator. It begins now, or after a given event."""
        from roomlore.operations.events import EventStream

        return EventStream(self.access, self._shared.notifier, viewer=viewer, room=room, after=after)

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
            servers=lambda: self._servers,
        )

    @property
    def _models(self) -> EmbeddingModels:
        from roomlore.operations.embedding_models import EmbeddingModels

        return EmbeddingModels(
            db=self.db,
            settings=self.settings,
            cache=self._model_cache or self._shared.models,
            provided=self._embedder,
        )

    @property
    def _servers(self) -> ProjectionClients:
        return self._projection_clients or self._shared.servers
