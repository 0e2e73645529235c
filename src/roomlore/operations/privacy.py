"""Privacy requests found in messages: listing, accepting and dismissing them, and the mode of an org."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, get_args
from uuid import UUID

from msgspec import Meta

from roomlore.db import directory, erasure_guard, memories, messages, privacy_requests
from roomlore.db.database import without_restrictions
from roomlore.db.privacy_requests import RequestCounts, RequestMode, RequestReview, RequestStatus
from roomlore.db.queries import Connection
from roomlore.domain.errors import BadInput, NotFound
from roomlore.domain.ids import MessageId, ParticipantId, RoomId, ids_matching
from roomlore.domain.records import (
    Message,
    Viewer,
    convert,
)
from roomlore.ingest.imports import ImportReport
from roomlore.operations.access import Access, check_limit
from roomlore.operations.registry import MOST_WORDS, Limit, operation
from roomlore.privacy import enforcement, storage
from roomlore.search import lookup
from roomlore.search.records import Answer, Hit, RestrictedResult

#: The maximum number of hidden messages that one call reports.
MOST_TOLD = 200


async def restrictions_on(access: Access, viewer: Viewer, ids: Sequence[MessageId]) -> list[RestrictedResult]:
    """Return the privacy requests that hide messages, in the order of the messages.

    Operators see all requests, other viewers their own. The caller must hold no other connection.
    """
    if not ids:
        return []
    # Only operators may read this table, because a row would reveal that a message is hidden.
    async with access.db.read_transaction(Viewer.operator(access.org_id)) as conn:
        found = await privacy_requests.restrictions_of(conn, access.org_id, ids)
    seen = [row for row in found if viewer.is_operator or viewer.is_own(row.author_id)]
    async with access.db.read_transaction(viewer) as conn:
        people = {key for row in seen for key in row.from_ids or ()}
        names = await memories.known_names(conn, access.org_id, people) if people else {}
    order = {message_id: index for index, message_id in enumerate(ids)}
    return [
        RestrictedResult(
            message_id=row.message_id,
            request_id=row.request_id,
            kind=row.kind,
            room_name=row.room_name,
            author_name=row.author_name,
            restricted_names=None if row.from_ids is None else _names(names, row.from_ids),
        )
        for row in sorted(seen, key=lambda row: order[row.message_id])
    ]


async def operator_restrictions(
    access: Access, viewer: Viewer, ids: Sequence[MessageId], *, destination: RoomId | MessageId | None
) -> list[RestrictedResult]:
    """Return the requests that hide messages from an operator, or from anybody at a destination.

    Viewers other than operators get nothing. The caller must hold no other connection.
    """
    if not viewer.is_operator or not ids:
        return []
    if destination is None:
        return [row for row in await restrictions_on(access, viewer, ids) if row.restricted_names is None]
    org_id = access.org_id
    async with access.db.read_transaction(viewer.posting(destination), apply_restrictions=True) as conn:
        shown = {message.id for message in await messages.messages_by_id(conn, org_id, list(ids))}
        async with without_restrictions(conn):
            readable = {message.id for message in await messages.messages_by_id(conn, org_id, list(ids))}
    return await restrictions_on(access, viewer, [key for key in ids if key in readable - shown])


async def hidden_message_ids(
    conn: Connection,
    viewer: Viewer,
    search_again: Callable[[], Awaitable[Iterable[MessageId]]],
    *,
    shown: Collection[MessageId],
) -> list[MessageId]:
    """Return the messages that restrictions may have hidden from an operator.

    `search_again` runs without restrictions. Viewers other than operators get an empty list, because the result would
    reveal that messages exist.
    """
    if not viewer.is_operator or not await privacy_requests.has_restrictions(conn):
        return []
    async with without_restrictions(conn):
        found = list(dict.fromkeys(await search_again()))
    return [message_id for message_id in found if message_id not in shown][:MOST_TOLD]


def message_ids_of_hits(hits: Iterable[Hit]) -> list[MessageId]:
    """Return the ids of the messages in hits."""
    return [message.id for hit in hits for message in hit.messages]


def source_ids_of_answer(answer: Answer) -> list[MessageId]:
    """Return the ids of the messages and memory sources of an answer."""
    sources = [key for match in answer.memories for key in match.memory.source_ids]
    return [*message_ids_of_hits(answer.hits), *sources]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyRequestView:
    """A privacy request, and the messages that it hides."""

    id: UUID
    kind: str
    #: `proposed`: uncertain, and without effect until its author or an operator accepts it. `active`: in effect.
    #: `dismissed`: the author or an operator rejected it.
    status: RequestStatus
    #: Why the meaning of the request is uncertain; empty if it is certain.
    review_reason: str
    room_id: RoomId
    room_name: str
    #: None if the request was erased. An erased request to forget still hides the messages of other people that it
    #: covers.
    author_id: ParticipantId | None
    author_name: str
    #: The source message; None if it was erased.
    message_id: MessageId | None
    body: str
    said_at: datetime | None
    #: "rules", or the name of a language model.
    detected_by: str
    #: The participants from whom the request hides messages. None means everybody except the exempt participants.
    restricted_names: Sequence[str] | None
    exempt_names: Sequence[str]
    #: Whether the request also covers future messages. If it does, the allowed or the denied topics follow.
    is_ongoing: bool
    allowed_topics: Sequence[str]
    denied_topics: Sequence[str]
    #: When somebody last accepted or dismissed it.
    decided_at: datetime | None
    #: The covered messages that the viewer may read, oldest first, with the source message. For a proposed request,
    #: these are messages that it would cover, and there may be more.
    covered_messages: Sequence[Message]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyRequests:
    """The privacy requests of an org. Authors see and decide their own requests, operators all requests.

    A request is named by its id, or by the beginning or end of its id. Every method raises NotFound if the caller sees
    nothing by a name. It raises BadInput if a name is ambiguous or an argument is invalid, and NotAllowed if the
    caller's role does not allow the call.
    """

    access: Access

    @operation("GET", "/privacy-requests", name="list_privacy_requests")
    async def all(
        self,
        viewer: Viewer,
        *,
        room: str | None = None,
        status: RequestStatus | None = None,
        limit: Limit = 50,
    ) -> list[PrivacyRequestView]:
        """Return the newest privacy requests of the viewer, newest first. An operator gets all requests.

        Args:
            viewer: The viewer.
            room: Only requests written in this room.
            status: Only requests with this status.
            limit: The maximum number of requests.
        """
        check_limit(limit)
        if status is not None and status not in get_args(RequestStatus):
            raise BadInput("status", f"must be one of {', '.join(get_args(RequestStatus))}")
        async with self.access.reading(viewer, "list privacy requests") as reading:
            conn, org_id = reading.conn, self.access.org_id
            room_id = None if room is None else await lookup.room(conn, org_id, room)
            found = await privacy_requests.newest(conn, org_id, room_id=room_id, status=status, limit=limit)
            intact = [row for row in found.items if _is_source_intact(row)]
            reading.record_shown([row.id for row in intact])
        return await self._to_views(viewer, intact)

    @operation("GET", "/privacy-requests/counts", name="count_privacy_requests")
    async def counts(self, viewer: Viewer) -> RequestCounts:
        """Return how many of the viewer's privacy requests are active, proposed and dismissed."""
        async with self.access.reading(viewer, "count privacy requests") as reading:
            return await privacy_requests.counts(reading.conn, self.access.org_id)

    async def with_request_counts(self, importing: Awaitable[ImportReport]) -> ImportReport:
        """Return the report of an import with the number of privacy requests found in it."""
        before = await self._counts()
        report = await importing
        return replace(report, privacy_requests=(await self._counts()).since(before))

    async def _counts(self) -> RequestCounts:
        async with self.access.db.read_transaction(Viewer.operator(self.access.org_id)) as conn:
            return await privacy_requests.counts(conn, self.access.org_id)

    @operation("GET", "/restrictions", name="list_restrictions")
    async def restrictions_on(
        self,
        viewer: Viewer,
        message_ids: Annotated[Sequence[MessageId], Meta(min_length=1, max_length=MOST_WORDS)],
    ) -> list[RestrictedResult]:
        """Return which of these messages privacy requests hide, and whose requests these are.

        Only operators get the requests of other people.
        """
        async with self.access.reading(viewer, "list restrictions") as reading:
            found = await messages.messages_by_id(reading.conn, self.access.org_id, list(message_ids), most=0)
        return await restrictions_on(self.access, viewer, [message.id for message in found])

    @operation("POST", "/privacy-requests/{request}/apply", name="apply_privacy_request", replay="once")
    async def apply(self, request: str) -> PrivacyRequestView:
        """Put a proposed or dismissed privacy request into effect and return it.

        Raises:
            BadInput: it is active already, its message was edited or erased, or the org's mode is "off".
        """
        at, by = datetime.now(UTC), self.access.principal.participant_id

        async def write(conn: Connection, request: RequestReview) -> bool:
            if request.message_id is None:
                raise BadInput(f"privacy request {request.id}", "was erased, so nobody knows what it covered")
            if not _is_source_intact(request):
                raise BadInput(
                    f"privacy request {request.id}",
                    "no longer states a request: its message was edited since",
                )
            if await privacy_requests.mode(conn, self.access.org_id) == "off":
                raise BadInput(
                    f"privacy request {request.id}",
                    'has no effect while the org\'s mode is "off"; set the mode to "propose" or "on"',
                )
            if not await privacy_requests.decide(
                conn, self.access.org_id, request.id, "active", at=at, by=by
            ):
                return False
            await enforcement.reapply(conn, self.access.org_id, [request.room_id])
            return True

        return await self._decide(request, "apply privacy request", write, "is active already")

    @operation("POST", "/privacy-requests/{request}/dismiss", name="dismiss_privacy_request", replay="once")
    async def dismiss(self, request: str) -> PrivacyRequestView:
        """Reject a privacy request or end its effect, and return it. The messages that it hid are recalled again.

        Raises:
            BadInput: it was dismissed before.
        """
        at, by = datetime.now(UTC), self.access.principal.participant_id

        async def write(conn: Connection, request: RequestReview) -> bool:
            if not await privacy_requests.decide(
                conn, self.access.org_id, request.id, "dismissed", at=at, by=by
            ):
                return False
            await enforcement.lift(conn, self.access.org_id, request.room_id, request.id)
            return True

        return await self._decide(request, "dismiss privacy request", write, "was dismissed before")

    @operation("GET", "/privacy-requests/mode", name="read_privacy_mode", result_key="mode")
    async def mode(self) -> RequestMode:
        """Return the org's mode of privacy requests. For operators."""
        await self.access.check("administer", "look at the privacy mode")
        async with self.access.resolving("look at the privacy mode") as conn:
            return await privacy_requests.mode(conn, self.access.org_id)

    @operation("PUT", "/privacy-requests/mode", replay="whole", is_repeatable=True, result_key="mode")
    async def set_mode(self, mode: RequestMode) -> RequestMode:
        """Set the org's mode of privacy requests and return it. For operators.

        "on" applies clear requests and proposes all other requests. "propose" proposes all new requests. "off" detects
        no requests, and earlier requests hide nothing until the mode changes again.
        """
        if mode not in get_args(RequestMode):
            raise BadInput("mode", f"must be one of {', '.join(get_args(RequestMode))}")

        async def work(conn: Connection) -> tuple[RequestMode, Sequence[UUID]]:
            await erasure_guard.lock_shared(conn, self.access.org_id)
            rooms = await privacy_requests.rooms_with_requests(conn, self.access.org_id)
            await directory.lock_rooms(conn, rooms)
            before = await privacy_requests.mode(conn, self.access.org_id)
            await privacy_requests.set_mode(conn, self.access.org_id, mode)
            if mode == "off":
                await enforcement.lift_all(conn, self.access.org_id)
            elif before == "off":
                await enforcement.reapply(conn, self.access.org_id, rooms)
            return mode, []

        return await self.access.change("administer", "set the privacy mode", work)

    async def _decide(
        self,
        word: str,
        action: str,
        write: Callable[[Connection, RequestReview], Awaitable[bool]],
        refusal: str,
    ) -> PrivacyRequestView:
        await self.access.check("correct", action)
        async with self.access.resolving(action) as conn:
            request = await self._resolve(conn, word)

        async def work(conn: Connection) -> tuple[None, Sequence[UUID]]:
            # Either messages and erasures of the room wait for this call, or this call waits for them.
            await erasure_guard.lock_shared(conn, self.access.org_id)
            await directory.lock_rooms(conn, [request.room_id])
            if not await write(conn, request):
                # Raises NotFound if the request was erased with its message.
                await self._resolve(conn, str(request.id))
                raise BadInput(f"privacy request {request.id}", refusal)
            return None, [key for key in (request.id, request.message_id) if key is not None]

        await self.access.change("correct", action, work)
        async with self.access.resolving(action) as conn:
            changed = await self._resolve(conn, str(request.id))
        return (await self._to_views(self.access.principal, [changed]))[0]

    async def _resolve(self, conn: Connection, word: str) -> RequestReview:
        ids = ids_matching(word)
        if ids is None:
            raise NotFound("privacy request", word)
        found = await privacy_requests.newest(
            conn, self.access.org_id, room_id=None, status=None, limit=10, named=ids
        )
        return lookup.single("privacy request", word, found.items)

    async def _to_views(self, viewer: Viewer, requests: Sequence[RequestReview]) -> list[PrivacyRequestView]:
        """Return requests with the covered messages that the viewer may read.

        It uses one connection after the other, because two connections at once could deadlock the pool.
        """
        org_id = self.access.org_id
        covered: defaultdict[UUID, list[MessageId]] = defaultdict(list)
        # Only operators may read this table: a row in it would reveal a hidden message.
        async with self.access.db.read_transaction(Viewer.operator(org_id)) as conn:
            for row in await privacy_requests.covered_messages(conn, org_id, [row.id for row in requests]):
                covered[row.request_id].append(row.message_id)
        ids = {key for keys in covered.values() for key in keys}
        people = {key for row in requests for key in (*(row.from_ids or ()), *row.exempt_ids)}
        async with self.access.db.read_transaction(viewer) as conn:
            found = await messages.messages_truncated(conn, org_id, list(ids))
            names = await memories.known_names(conn, org_id, people)
        by_id = {message.id: message for message in found}
        return [
            convert(
                PrivacyRequestView,
                row,
                said_at=row.sent_at,
                restricted_names=None if row.from_ids is None else _names(names, row.from_ids),
                exempt_names=_names(names, row.exempt_ids),
                allowed_topics=sorted(row.allowed_topics),
                denied_topics=sorted(row.denied_topics),
                covered_messages=[by_id[key] for key in covered[row.id] if key in by_id],
            )
            for row in requests
        ]


def _is_source_intact(row: RequestReview) -> bool:
    """Return whether the source message still states the request.

    An erased message counts as still stating the request, because erasing a message does not withdraw its request.
    """
    return row.spans is None or storage.is_unchanged(row.spans, row.body)


def _names(names: dict[ParticipantId, str], ids: Sequence[ParticipantId]) -> list[str]:
    return sorted(names[key] for key in ids if key in names)
