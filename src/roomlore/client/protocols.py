"""The interface that `App` and `Client` share. `App` documents what each call returns and raises."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Protocol
from uuid import UUID

from roomlore.context.limits import DEFAULT_BUDGET, DEFAULT_LIMITS, ExpansionLimits
from roomlore.context.records import Context
from roomlore.domain.ids import MessageId, OrgId
from roomlore.domain.incoming import IncomingMessage
from roomlore.domain.records import AuditLine, Message, Participant, Room, Viewer
from roomlore.domain.words import LAST
from roomlore.ingest.accept import IngestResult
from roomlore.operations.agents import Agents
from roomlore.operations.conversations import Conversations
from roomlore.operations.erasure import Erasures
from roomlore.operations.events import Event
from roomlore.operations.intake import Intake
from roomlore.operations.keys import Keys
from roomlore.operations.memories import Memories
from roomlore.operations.monitoring import Monitoring
from roomlore.operations.people import People
from roomlore.operations.privacy import PrivacyRequests
from roomlore.operations.rooms import RoomManagement
from roomlore.search.query_parser import NO_FILTERS, Filters
from roomlore.search.records import Answer, SearchResult, Thread


class Events(Protocol):
    """A stream of events that never ends by itself. Close it when you are done."""

    def __aiter__(self) -> AsyncIterator[Event]: ...

    def __anext__(self) -> Awaitable[Event]: ...

    def aclose(self) -> Awaitable[None]:
        """Close the stream. A task that waits for the next event gets StopAsyncIteration."""
        ...


class Rooms(Protocol):
    """The rooms of one org."""

    # They are declared as properties, so that an implementation may use plain fields.

    @property
    def org_id(self) -> OrgId:
        """The org of the rooms."""
        ...

    @property
    def principal(self) -> Viewer:
        """The viewer on whose behalf every call is made."""
        ...

    @property
    def operator(self) -> Viewer:
        """The viewer who sees everything in the org."""
        ...

    @property
    def people(self) -> People:
        """Participants and their accounts."""
        ...

    @property
    def keys(self) -> Keys:
        """Keys."""
        ...

    @property
    def memories(self) -> Memories:
        """Memories."""
        ...

    @property
    def agents(self) -> Agents:
        """Memories of agents, and their trust in others."""
        ...

    @property
    def privacy_requests(self) -> PrivacyRequests:
        """Privacy requests."""
        ...

    @property
    def conversations(self) -> Conversations:
        """Messages by topic."""
        ...

    @property
    def monitoring(self) -> Monitoring:
        """The state of the jobs and the embedding policies of rooms. For operators."""
        ...

    @property
    def room_admin(self) -> RoomManagement:
        """The visibility, names and members of rooms. For operators."""
        ...

    @property
    def erasure(self) -> Erasures:
        """Erasures and their receipts."""
        ...

    @property
    def intake(self) -> Intake:
        """Messages as records of Roomlore's own format, and their revisions."""
        ...

    async def sign_in(self, key: str) -> "Rooms":
        """Return the same rooms on behalf of the holder of another key."""
        ...

    def impersonate(self, viewer: Viewer) -> "Rooms":
        """Return this handle on behalf of another viewer. Only operators may do this."""
        ...

    async def viewer(self, word: str) -> Viewer:
        """Return the viewer for a participant's name, account, id or beginning of an id."""
        ...

    async def ingest(self, message: IncomingMessage) -> MessageId:
        """Store one message, once, and return its id. When this returns, the message is on disk."""
        ...

    async def ingest_batch(self, batch: Sequence[IncomingMessage]) -> IngestResult:
        """Store a batch of messages in one transaction. The result names the messages that were skipped."""
        ...

    async def rooms(self, viewer: Viewer) -> list[Room]:
        """Return the rooms that the viewer may see, the most recently active first."""
        ...

    async def participants(self, viewer: Viewer, *, room: str | None = None) -> list[Participant]:
        """Return the participants that the viewer may know of, or the participants of one room.

        Participants with the most messages come first.
        """
        ...

    async def messages(
        self,
        viewer: Viewer,
        room: str,
        *,
        limit: int = 50,
        before: str | None = None,
        apply_restrictions: bool = False,
    ) -> list[Message]:
        """Return the newest messages of a room, or the messages before a given message, oldest first."""
        ...

    async def threads(
        self, viewer: Viewer, room: str, *, limit: int = 20, before: str | None = None
    ) -> list[Thread]:
        """Return the newest threads of a room, newest root first. Each thread is whole."""
        ...

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
        """Return what the viewer should read before answering a message of the room."""
        ...

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
        """Return up to `limit` threads that the viewer may see, best first, each with its reasons."""
        ...

    async def similar(
        self,
        viewer: Viewer,
        question: str,
        *,
        room: str | None = None,
        limit: int = 10,
        private: bool = False,
    ) -> SearchResult:
        """Return threads in which the viewer asked a similar question before, the most similar first."""
        ...

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
        """Return the answer to a question, or that no answer is known."""
        ...

    def events(self, viewer: Viewer, *, room: str | None = None, after: str | None = None) -> Events:
        """Return the changes that the viewer may see, from now on, or after the event with the given id."""
        ...

    async def log(
        self, viewer: Viewer, *, subject: UUID | str | None = None, limit: int = 50
    ) -> list[AuditLine]:
        """Return the newest audit lines that the viewer may see, newest first."""
        ...


def fetcher(
    rooms: Rooms,
    viewer: Viewer,
    room: str,
    trigger: str = LAST,
    *,
    budget: int = DEFAULT_BUDGET,
    articles: bool = False,
    private: bool = False,
) -> Callable[[], Awaitable[Context]]:
    """Return a function without parameters that reads the current context of a message, for a reply generator.

    Args:
        rooms: An App or a Client.
        viewer: The viewer of the context.
        room: Name, id or external id.
        trigger: The message to answer. Default: at each call, the newest message that everybody in the room may read.
        budget: The maximum number of tokens.
        articles: Also read linked pages, over the network.
        private: Whether to use everything that the viewer may read. The context must then not be posted.
    """

    async def fetch() -> Context:
        return await rooms.context(viewer, room, trigger, budget=budget, articles=articles, private=private)

    return fetch
