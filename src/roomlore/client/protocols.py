"""What can be done with the rooms of one org, wherever they are: here in a database, or behind a server.

`App` and `Client` are both of it. What each call returns and raises is told by `App`; what only an App can do is not here.
"""

from collections.abc import AsyncIterator, Awaitable, Sequence
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
    """What changes, without end, until it is closed."""

    def __aiter__(self) -> AsyncIterator[Event]: ...

    def __anext__(self) -> Awaitable[Event]: ...

    def aclose(self) -> Awaitable[None]:
        """Hear no more of it; whoever waits for the next event is told that there is none."""
        ...


class Rooms(Protocol):
    """Rooms of one org: what was said in them, and what a viewer may know of it."""

    # Properties, so that a field will do as well.

    @property
    def org_id(self) -> OrgId:
        """Whose rooms these are."""
        ...

    @property
    def caller(self) -> Viewer:
        """On whose behalf every call is made."""
        ...

    @property
    def operator(self) -> Viewer:
        """The viewer who sees everything in the org."""
        ...

    @property
    def people(self) -> People:
        """Whose accounts the participants are."""
        ...

    @property
    def keys(self) -> Keys:
        """Who may come in."""
        ...

    @property
    def memories(self) -> Memories:
        """What is durably known."""
        ...

    @property
    def agents(self) -> Agents:
        """What agents remember, and make of whom they met."""
        ...

    @property
    def wishes(self) -> PrivacyRequests:
        """What was wished in rooms to be forgotten, or kept from some."""
        ...

    @property
    def conversations(self) -> Conversations:
        """What was said by topic."""
        ...

    @property
    def operations(self) -> Monitoring:
        """How far the work has come, and what rooms embed; for operators."""
        ...

    @property
    def room_management(self) -> RoomManagement:
        """The access, names and members of rooms; for operators."""
        ...

    @property
    def erasure(self) -> Erasures:
        """What is to be gone, and receipts of what is."""
        ...

    @property
    def intake(self) -> Intake:
        """What is said, as records of our own format; and edits of it."""
        ...

    async def sign_in(self, key: str) -> "Rooms":
        """Return the same on behalf of whoever holds the key."""
        ...

    def acting(self, viewer: Viewer) -> "Rooms":
        """Return the same on behalf of a viewer whom its operator named."""
        ...

    async def viewer(self, word: str) -> Viewer:
        """Return the viewer meant by a participant's name, account, id or beginning of an id."""
        ...

    async def ingest(self, message: IncomingMessage) -> MessageId:
        """Store one message, once, and return its id; it is on disk when this returns."""
        ...

    async def ingest_batch(self, batch: Sequence[IncomingMessage]) -> IngestResult:
        """Store a batch of messages in one transaction; what cannot be stored is named and left out."""
        ...

    async def rooms(self, viewer: Viewer) -> list[Room]:
        """Return the rooms the viewer may see, most recently active first."""
        ...

    async def participants(self, viewer: Viewer, *, room: str | None = None) -> list[Participant]:
        """Return the participants the viewer may know of, or those of one room, most talkative first."""
        ...

    async def messages(
        self, viewer: Viewer, room: str, *, limit: int = 50, before: str | None = None, recalls: bool = False
    ) -> list[Message]:
        """Return the newest messages of a room, or those before one of them, oldest first."""
        ...

    async def exchanges(
        self, viewer: Viewer, room: str, *, limit: int = 20, before: str | None = None
    ) -> list[Thread]:
        """Return the newest exchanges of a room, each whole, by their openings, newest first."""
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
        """Return up to `limit` exchanges the viewer may see, best first, each with its reasons."""
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
        """Return exchanges in which the viewer asked something like this before, most alike first."""
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
        """Return what is known of a question, or that it is not."""
        ...

    def events(self, viewer: Viewer, *, room: str | None = None, after: str | None = None) -> Events:
        """Return what changes, as far as the viewer may see it: from now on, or from after the event of that id."""
        ...

    async def log(
        self, viewer: Viewer, *, subject: UUID | str | None = None, limit: int = 50
    ) -> list[AuditLine]:
        """Return the newest lines of the activity log that the viewer may see, newest first."""
        ...
