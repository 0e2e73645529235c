"""The rooms of one org on a server, on behalf of the holder of a key."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from roomlore.client import codec
from roomlore.client.codec import segment
from roomlore.client.events import EventStream
from roomlore.client.protocols import Events
from roomlore.client.remote import ConversationPages, RemoteErasures, remote
from roomlore.client.session import Session, check_page, fetch_all
from roomlore.client.transport import Transport
from roomlore.context.builder import with_articles
from roomlore.context.limits import DEFAULT_BUDGET, DEFAULT_LIMITS, ExpansionLimits
from roomlore.context.records import Context
from roomlore.domain.errors import BadInput, KeyRefused
from roomlore.domain.ids import MessageId, OrgId
from roomlore.domain.incoming import IncomingMessage
from roomlore.domain.records import AuditLine, Message, Participant, Room, Viewer, field_values
from roomlore.domain.words import LAST
from roomlore.ingest.accept import IngestResult
from roomlore.operations.agents import Agents
from roomlore.operations.contexts import article_reader
from roomlore.operations.conversations import Conversations
from roomlore.operations.erasure import Erasures
from roomlore.operations.intake import MOST_RECORDS, Intake
from roomlore.operations.keys import Keys, org_of
from roomlore.operations.memories import Memories
from roomlore.operations.monitoring import Monitoring
from roomlore.operations.people import People
from roomlore.operations.privacy import PrivacyRequests
from roomlore.operations.responses import (
    AnswerResponse,
    BatchResponse,
    PersonResponse,
    SearchResponse,
    convert,
)
from roomlore.operations.rooms import RoomManagement
from roomlore.search.query_parser import NO_FILTERS, Filters
from roomlore.search.records import Answer, SearchResult, Thread


@dataclass(frozen=True, slots=True, kw_only=True)
class _MessagesPage:
    messages: list[Message]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _ThreadsPage:
    threads: list[Thread]
    next: str | None


async def sign_in(transport: Transport, key: str) -> "Client":
    """Return a client on behalf of the holder of a key.

    Raises:
        KeyRefused: the key does not exist, has expired or was revoked.
        ServerUnavailable: the server cannot be reached.
    """
    org_id = org_of(key)
    session = Session(transport=transport, org_id=org_id, key=key, key_holder=Viewer.operator(org_id))
    return Client(session=replace(session, key_holder=await session.read(Viewer, "viewer")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """The rooms of one org on a server.

    The methods are those of `App`, where it is documented what they return and raise. Each method may also raise
    ServerUnavailable.
    """

    session: Session

    @property
    def org_id(self) -> OrgId:
        """The org that the key names."""
        return self.session.org_id

    @property
    def principal(self) -> Viewer:
        """The viewer on whose behalf every call is made."""
        return self.session.principal

    @property
    def operator(self) -> Viewer:
        """The viewer who sees everything in the org."""
        return Viewer.operator(self.org_id)

    @property
    def people(self) -> People:
        """Participants and their accounts."""
        return remote(People, self.session)

    @property
    def keys(self) -> Keys:
        """Keys."""
        return remote(Keys, self.session)

    @property
    def memories(self) -> Memories:
        """Memories."""
        return remote(Memories, self.session)

    @property
    def agents(self) -> Agents:
        """Memories of agents, and their trust in others."""
        return remote(Agents, self.session)

    @property
    def privacy_requests(self) -> PrivacyRequests:
        """Privacy requests."""
        return remote(PrivacyRequests, self.session)

    @property
    def conversations(self) -> Conversations:
        """Messages by topic."""
        return remote(Conversations, self.session, by_hand=ConversationPages(session=self.session))

    @property
    def monitoring(self) -> Monitoring:
        """The state of the jobs and the embedding policies of rooms. For operators."""
        return remote(Monitoring, self.session)

    @property
    def room_admin(self) -> RoomManagement:
        """The visibility, names and members of rooms. For operators."""
        return remote(RoomManagement, self.session)

    @property
    def erasure(self) -> Erasures:
        """Erasures and their receipts."""
        return remote(Erasures, self.session, by_hand=RemoteErasures(session=self.session))

    @property
    def intake(self) -> Intake:
        """Messages as records of Roomlore's own format, and their revisions."""
        return remote(Intake, self.session)

    async def sign_in(self, key: str) -> "Client":
        """Return a client of the same server on behalf of the holder of another key.

        If one client is closed, both are closed.
        """
        if org_of(key) != self.org_id:
            raise KeyRefused
        return await sign_in(self.session.transport, key)

    def impersonate(self, viewer: Viewer) -> "Client":
        """Return this client on behalf of a viewer. Only an operator's client may do this."""
        return Client(session=self.session.impersonate(viewer))

    async def viewer(self, word: str) -> Viewer:
        """Return the viewer for a participant's name, account, id or beginning of an id. For operators."""
        return await self.session.read(Viewer, f"viewers/{segment('participant', word)}")

    async def ingest(self, message: IncomingMessage) -> MessageId:
        """Store one message, once, and return its id. When this returns, the message is on the server's disk."""
        accepted = await self.ingest_batch([message])
        if accepted.skipped:
            skipped = accepted.skipped[0]
            raise BadInput(f"message {skipped.where!r}", skipped.reason)
        return accepted.message_ids[0]

    async def ingest_batch(self, batch: Sequence[IncomingMessage]) -> IngestResult:
        """Store a batch of messages in one transaction. The result names the messages that were skipped."""
        if len(batch) > MOST_RECORDS:
            raise BadInput("messages", f"over HTTP at most {MOST_RECORDS:,} at a time; send them in parts")
        body = {"messages": list(batch)}
        response = await self.session.change(BatchResponse, "POST", "messages/records", body)
        added = {(one.room_id, one.external_id): one.id for one in response.added}
        return convert(IngestResult, response, added=added, room_ids=frozenset(response.room_ids))

    async def rooms(self, viewer: Viewer) -> list[Room]:
        """Return the rooms that the viewer may see, the most recently active first."""
        return await self.session.read(list[Room], "rooms", viewer=viewer)

    async def participants(self, viewer: Viewer, *, room: str | None = None) -> list[Participant]:
        """Return the participants that the viewer may know of, or the participants of one room.

        Participants with the most messages come first.
        """
        path = f"rooms/{segment('room', room)}/participants" if room else "participants"
        people = await self.session.read(list[PersonResponse], path, viewer=viewer)
        return [one.participant() for one in people]

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
        path = f"rooms/{segment('room', room)}/messages"

        async def fetch(query: codec.Query) -> tuple[list[Message], str | None]:
            query = [*query, *codec.query(apply_restrictions=apply_restrictions or None)]
            page = await self.session.read(_MessagesPage, path, viewer=viewer, query=query)
            return page.messages[::-1], page.next

        return (await fetch_all(fetch, limit=limit, before=before))[::-1]

    async def threads(
        self, viewer: Viewer, room: str, *, limit: int = 20, before: str | None = None
    ) -> list[Thread]:
        """Return the newest threads of a room, newest root first. Each thread is whole."""
        path = f"rooms/{segment('room', room)}/threads"

        async def fetch(query: codec.Query) -> tuple[list[Thread], str | None]:
            page = await self.session.read(_ThreadsPage, path, viewer=viewer, query=query)
            return page.threads, page.next

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
        """Return what the viewer should read before answering a message. Articles are read from this machine."""
        reader = article_reader() if articles else None
        body = {"trigger": trigger, "budget": budget, "limits": limits, "private": private}
        path = f"rooms/{segment('room', room)}/context"
        built = await self.session.read(Context, path, viewer=viewer, body=body)
        # The server does not return the key of the viewer, so the caller's own record is used.
        built = replace(built, viewer=viewer)
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
        """Return up to `limit` threads that the viewer may see, best first, each with its reasons."""
        body = {"question": question, "room": room, "as_of": as_of, "private": private, "limit": limit}
        body |= _filter_fields(filters)
        return (await self.session.read(SearchResponse, "search", viewer=viewer, body=body)).result()

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
        body = {"question": question, "room": room, "limit": limit, "private": private}
        return (await self.session.read(SearchResponse, "search/similar", viewer=viewer, body=body)).result()

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
        """Return the answer to a question, or that no answer is known. With `quote`, no language model is called."""
        body = {"question": question, "room": room, "as_of": as_of, "private": private, "quote": quote}
        body |= _filter_fields(filters)
        return (await self.session.read(AnswerResponse, "ask", viewer=viewer, body=body)).to_answer()

    def events(self, viewer: Viewer, *, room: str | None = None, after: str | None = None) -> Events:
        """Return the changes that the viewer may see, from now on, or after the event with the given id.

        Iterate over the result, and close it when you are done. If the connection is lost, it reconnects when the
        server is available again within some minutes.
        """
        return EventStream(self.session, viewer=viewer, room=room, after=after).events()

    async def log(
        self, viewer: Viewer, *, subject: UUID | str | None = None, limit: int = 50
    ) -> list[AuditLine]:
        """Return the newest audit lines that the viewer may see, newest first."""
        check_page(limit)
        query = codec.query(about=subject, limit=limit)
        return await self.session.read(list[AuditLine], "audit-log", viewer=viewer, query=query)


def _filter_fields(filters: Filters) -> dict[str, Any]:
    for name in ("since", "until"):
        codec.check_zone(name, getattr(filters, name), otherwise="must say its time zone")
    return field_values(filters)
