"""What can be done with the rooms of one org behind a server, on behalf of whoever holds the key."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from roomlore.client import codec
from roomlore.client.codec import segment
from roomlore.client.conversations import ConversationPages
from roomlore.client.erasure import ClientErasures
from roomlore.client.events import EventStream
from roomlore.client.intake import ingest_batch
from roomlore.client.people import PersonResponse
from roomlore.client.protocols import Events
from roomlore.client.remote import remote
from roomlore.client.search import AnswerResponse, SearchResponse, search_body
from roomlore.client.session import PageRequest, Session, check_page, fetch_all
from roomlore.client.transport import Transport
from roomlore.context.builder import with_articles
from roomlore.context.limits import DEFAULT_BUDGET, DEFAULT_LIMITS, ExpansionLimits
from roomlore.context.records import Context
from roomlore.domain.errors import BadInput, KeyRefused
from roomlore.domain.ids import MessageId, OrgId
from roomlore.domain.incoming import IncomingMessage
from roomlore.domain.records import AuditLine, Message, Participant, Room, Viewer
from roomlore.domain.words import LAST
from roomlore.ingest.accept import IngestResult
from roomlore.operations.access import check_limit
from roomlore.operations.agents import Agents
from roomlore.operations.contexts import article_reader
from roomlore.operations.conversations import Conversations
from roomlore.operations.erasure import Erasures
from roomlore.operations.intake import Intake
from roomlore.operations.keys import Keys, org_of
from roomlore.operations.memories import Memories
from roomlore.operations.monitoring import Monitoring
from roomlore.operations.people import People
from roomlore.operations.privacy import PrivacyRequests
from roomlore.operations.rooms import RoomManagement
from roomlore.search.query_parser import NO_FILTERS, Filters
from roomlore.search.records import Answer, SearchResult, Thread


@dataclass(frozen=True, slots=True, kw_only=True)
class _MessagesPage:
    """A page of a room."""

    messages: list[Message]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _ExchangesPage:
    """A page of a room, by exchanges."""

    exchanges: list[Thread]
    next: str | None


async def sign_in(transport: Transport, key: str) -> "Client":
    """Return a client on behalf of whoever holds a key.

    Raises:
        KeyRefused: there is no such key, or it has expired or was revoked.
        ServerUnavailable: the server cannot be reached.
    """
    # Before a server is known nobody is: whom the key names is its answer.
    org_id = org_of(key)
    line = Session(transport=transport, org_id=org_id, key=key, key_holder=Viewer.operator(org_id))
    holder = await line.read(Viewer, "viewer")
    return Client(session=replace(line, key_holder=holder))


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Rooms of one org behind a server: what was said in them, and what a viewer may know of it.

    The calls are those of `App`, which tells what they return and raise; each also raises ServerUnavailable.
    """

    session: Session

    @property
    def org_id(self) -> OrgId:
        """Whose rooms these are: the org that the key names."""
        return self.session.org_id

    @property
    def caller(self) -> Viewer:
        """On whose behalf every call is made."""
        return self.session.principal

    @property
    def operator(self) -> Viewer:
        """The viewer who sees everything in the org."""
        return Viewer.operator(self.org_id)

    @property
    def people(self) -> People:
        """Whose accounts the participants are."""
        return remote(People, self.session)

    @property
    def keys(self) -> Keys:
        """Who may come in."""
        return remote(Keys, self.session)

    @property
    def memories(self) -> Memories:
        """What is durably known."""
        return remote(Memories, self.session)

    @property
    def agents(self) -> Agents:
        """What agents remember, and make of whom they met."""
        return remote(Agents, self.session)

    @property
    def wishes(self) -> PrivacyRequests:
        """What was wished in rooms to be forgotten, or kept from some."""
        return remote(PrivacyRequests, self.session)

    @property
    def conversations(self) -> Conversations:
        """What was said by topic."""
        return remote(Conversations, self.session, by_hand=ConversationPages(line=self.session))

    @property
    def operations(self) -> Monitoring:
        """How far the work has come, and what rooms embed; for operators."""
        return remote(Monitoring, self.session)

    @property
    def room_management(self) -> RoomManagement:
        """The access, names and members of rooms; for operators."""
        return remote(RoomManagement, self.session)

    @property
    def erasure(self) -> Erasures:
        """What is to be gone, and receipts of what is."""
        return remote(Erasures, self.session, by_hand=ClientErasures(session=self.session))

    @property
    def intake(self) -> Intake:
        """What is said, as records of our own format; and edits of it."""
        return remote(Intake, self.session)

    async def sign_in(self, key: str) -> "Client":
        """Return a client of the same server on behalf of whoever holds the key; it is closed with this one."""
        if org_of(key) != self.org_id:
            raise KeyRefused
        return await sign_in(self.session.transport, key)

    def acting(self, viewer: Viewer) -> "Client":
        """Return this client on behalf of a viewer whom its operator named."""
        return Client(session=self.session.impersonate(viewer))

    async def viewer(self, word: str) -> Viewer:
        """Return the viewer meant by a participant's name, account, id or beginning of an id; for operators."""
        return await self.session.read(Viewer, f"viewers/{segment('participant', word)}")

    # What is written

    async def ingest(self, message: IncomingMessage) -> MessageId:
        """Store one message, once, and return its id; it is on the server's disk when this returns."""
        accepted = await self.ingest_batch([message])
        if accepted.skipped:
            skipped = accepted.skipped[0]
            raise BadInput(f"message {skipped.where!r}", skipped.reason)
        return accepted.message_ids[0]

    async def ingest_batch(self, batch: Sequence[IncomingMessage]) -> IngestResult:
        """Store a batch of messages in one transaction; what cannot be stored is named and left out."""
        return await ingest_batch(self.session, batch)

    # What is read

    async def rooms(self, viewer: Viewer) -> list[Room]:
        """Return the rooms the viewer may see, most recently active first."""
        return await self.session.read(list[Room], "rooms", viewer=viewer)

    async def participants(self, viewer: Viewer, *, room: str | None = None) -> list[Participant]:
        """Return the participants the viewer may know of, or those of one room, most talkative first."""
        path = f"rooms/{segment('room', room)}/participants" if room else "participants"
        return [
            one.participant() for one in await self.session.read(list[PersonResponse], path, viewer=viewer)
        ]

    async def messages(
        self, viewer: Viewer, room: str, *, limit: int = 50, before: str | None = None, recalls: bool = False
    ) -> list[Message]:
        """Return the newest messages of a room, or those before one of them, oldest first."""
        check_limit(limit)
        path = f"rooms/{segment('room', room)}/messages"

        async def fetch(page: PageRequest) -> tuple[list[Message], str | None]:
            asked = [*page.query(), *codec.query(recalls=recalls or None)]
            found = await self.session.read(_MessagesPage, path, viewer=viewer, query=asked)
            return found.messages[::-1], found.next

        return (await fetch_all(fetch, limit=limit, before=before))[::-1]

    async def exchanges(
        self, viewer: Viewer, room: str, *, limit: int = 20, before: str | None = None
    ) -> list[Thread]:
        """Return the newest exchanges of a room, each whole, by their openings, newest first."""
        check_limit(limit)
        path = f"rooms/{segment('room', room)}/exchanges"

        async def fetch(page: PageRequest) -> tuple[list[Thread], str | None]:
            found = await self.session.read(_ExchangesPage, path, viewer=viewer, query=page.query())
            return found.exchanges, found.next

        return await fetch_all(fetch, limit=limit, before=before)

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
        """Return what the viewer should read before answering a message; articles are read from this machine."""
        reader = article_reader() if articles else None
        asked = {"trigger": trigger, "budget": budget, "limits": limits, "private": private}
        path = f"rooms/{segment('room', room)}/context"
        told = await self.session.read(Context, path, viewer=viewer, body=asked)
        # Of whom it is, the caller knows more than is told: with which key the server let them in is not of it.
        built = replace(told, viewer=viewer)
        return built if reader is None else await with_articles(built, reader)

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
        asked = search_body(question, room=room, as_of=as_of, filters=filters, private=private)
        told = await self.session.read(SearchResponse, "search", viewer=viewer, body=asked | {"limit": limit})
        return told.found()

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
        asked = {"question": question, "room": room, "limit": limit, "private": private}
        return (await self.session.read(SearchResponse, "search/similar", viewer=viewer, body=asked)).found()

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
        """Return what is known of a question, or that it is not; `quote` asks no language model."""
        asked = search_body(question, room=room, as_of=as_of, filters=filters, private=private)
        told = await self.session.read(AnswerResponse, "ask", viewer=viewer, body=asked | {"quote": quote})
        return told.to_answer()

    def events(self, viewer: Viewer, *, room: str | None = None, after: str | None = None) -> Events:
        """Return what changes, as far as the viewer may see it: from now on, or from after the event of that id.

        Iterate over it, and close it when enough was heard. It goes on where it was cut off, for as long as the server
        comes back within some minutes.
        """
        return EventStream(self.session, viewer=viewer, room=room, after=after).events()

    async def log(
        self, viewer: Viewer, *, subject: UUID | str | None = None, limit: int = 50
    ) -> list[AuditLine]:
        """Return the newest lines of the activity log that the viewer may see, newest first."""
        check_page(limit)
        asked = codec.query(about=subject, limit=limit)
        return await self.session.read(list[AuditLine], "log", viewer=viewer, query=asked)
