"""Wishes that were heard in rooms: reviewed, accepted and dismissed, and how many an org wants carried out."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, get_args
from uuid import UUID

from msgspec import Meta

from roomlore.db import directory, erased, memories, messages, privacy_requests
from roomlore.db.database import without_restrictions
from roomlore.db.privacy_requests import RequestCounts, RequestMode, RequestReview, RequestStatus
from roomlore.db.queries import Connection
from roomlore.domain.errors import BadInput, NotFound
from roomlore.domain.ids import MessageId, ParticipantId, RoomId, ids_matching
from roomlore.domain.records import Message, Viewer
from roomlore.ingest.imports import ImportReport
from roomlore.operations.access import Access, check_limit
from roomlore.operations.registry import MOST_WORDS, Limit, operation
from roomlore.privacy import enforcement, storage
from roomlore.search import lookup
from roomlore.search.records import Answer, Hit, RestrictedResult

#: So many messages that were withheld are told of one call.
MOST_TOLD = 200


async def restrictions_on(access: Access, viewer: Viewer, ids: Sequence[MessageId]) -> list[RestrictedResult]:
    """Return which requests withhold messages, each message at its place in the order given.

    An operator is told of all, everybody else of their own requests only. No other connection may be held meanwhile.
    """
    if not ids:
        return []
    # What is withheld is in a table that operators alone read: that a row is there would tell.
    async with access.db.read_transaction(Viewer.operator(access.org_id)) as whole:
        found = await privacy_requests.restrictions_of(whole, access.org_id, ids)
    seen = [row for row in found if viewer.is_operator or viewer.is_own(row.author_id)]
    async with access.db.read_transaction(viewer) as conn:
        people = {key for row in seen for key in row.from_ids or ()}
        names = await memories.known_names(conn, access.org_id, people) if people else {}
    place = {message_id: number for number, message_id in enumerate(ids)}
    return [
        RestrictedResult(
            message_id=row.message_id,
            wish_id=row.wish_id,
            kind=row.kind,
            room_name=row.room_name,
            author_name=row.author_name,
            from_names=None
            if row.from_ids is None
            else sorted(names[key] for key in row.from_ids if key in names),
        )
        for row in sorted(seen, key=lambda row: place[row.message_id])
    ]


async def operator_restrictions(
    access: Access, viewer: Viewer, ids: Sequence[MessageId], *, place: RoomId | MessageId | None
) -> list[RestrictedResult]:
    """Return which requests withhold messages from an operator who recalls; nothing for anybody else.

    No connection may be held meanwhile.

    Args:
        access: Of the org.
        viewer: Who is told.
        ids: What may be withheld.
        place: Where what is recalled is to be posted: whatever is kept from anybody there counts as withheld.
    """
    if not viewer.is_operator or not ids:
        return []
    if place is None:
        return [one for one in await restrictions_on(access, viewer, ids) if one.from_names is None]
    async with access.db.read_transaction(viewer.posting(place), apply_restrictions=True) as conn:
        recalled = {one.id for one in await messages.messages_by_id(conn, access.org_id, list(ids))}
        async with without_restrictions(conn):
            said = {one.id for one in await messages.messages_by_id(conn, access.org_id, list(ids))}
    return await restrictions_on(access, viewer, [key for key in ids if key in said - recalled])


async def hidden_message_ids(
    conn: Connection,
    viewer: Viewer,
    search_again: Callable[[], Awaitable[Iterable[MessageId]]],
    *,
    shown: Collection[MessageId],
) -> list[MessageId]:
    """Return what an operator would have been shown besides, as far as requests may be the reason.

    Nothing for anybody else: that something is left out tells that it is there.

    Args:
        conn: Recalls for the viewer.
        viewer: For whom.
        search_again: Looks again, as if nothing were withheld.
        shown: What was found.
    """
    if not viewer.is_operator or not await privacy_requests.has_restrictions(conn):
        return []
    async with without_restrictions(conn):
        found = list(dict.fromkeys(await search_again()))
    return [message_id for message_id in found if message_id not in shown][:MOST_TOLD]


def message_ids_of_hits(hits: Iterable[Hit]) -> list[MessageId]:
    """Return the messages of what was found."""
    return [message.id for hit in hits for message in hit.messages]


def source_ids_of_answer(answer: Answer) -> list[MessageId]:
    """Return the messages that an answer rests on."""
    return [
        *message_ids_of_hits(answer.hits),
        *(key for one in answer.memories for key in one.memory.source_ids),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyRequestView:
    """A wish as it was heard, and what it keeps from whom."""

    id: UUID
    kind: str
    #: `proposed`: heard with doubt, it hides nothing until its author or an operator accepts it; `active`: it is carried
    #: out; `dismissed`: one of them said that it does not count.
    status: RequestStatus
    #: Why a person is asked first; empty where it was put plainly.
    doubt: str
    room_id: RoomId
    room_name: str
    #: None of a wish to forget that was erased: only what it covers of others' words is kept.
    author_id: ParticipantId | None
    author_name: str
    #: What voices it; None of one that was erased.
    message_id: MessageId | None
    body: str
    said_at: datetime | None
    #: "rules" or the name of a language model.
    heard_by: str
    #: From whom it is kept; None: from everybody but those who are spared.
    from_names: Sequence[str] | None
    spared_names: Sequence[str]
    #: Of a restriction that goes on: what is let through, or what alone is shut out.
    is_standing: bool
    permits: Sequence[str]
    denies: Sequence[str]
    #: When somebody last accepted or dismissed it.
    decided_at: datetime | None
    #: What it covers, or what a proposed one would at least, as far as the viewer may read it, oldest first; its own words are among it.
    covers: Sequence[Message]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacySetting:
    """What an org does with the requests it hears."""

    mode: RequestMode


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyRequests:
    """The spoken wishes of an org: each is its author's to see and to decide, and the operator's."""

    access: Access

    @operation("GET", "/wishes", name="list_wishes")
    async def all(
        self,
        viewer: Viewer,
        *,
        room: str | None = None,
        status: RequestStatus | None = None,
        limit: Limit = 50,
    ) -> list[PrivacyRequestView]:
        """Return the newest wishes that the viewer voiced, or all for an operator, newest first.

        Args:
            viewer: For whom.
            room: Only those voiced there.
            status: Only those of which this became.
            limit: How many.

        Raises:
            BadInput: nothing is wanted.
            NotFound: there is no such room, or the viewer may not see it.
        """
        check_limit(limit)
        if status is not None and status not in get_args(RequestStatus):
            raise BadInput("status", f"must be one of {', '.join(get_args(RequestStatus))}")
        async with self.access.reading(viewer, "list wishes") as reading:
            conn, org_id = reading.conn, self.access.org_id
            room_id = None if room is None else await lookup.room(conn, org_id, room)
            found = await privacy_requests.newest(conn, org_id, room_id=room_id, status=status, limit=limit)
            held = [row for row in found if _is_source_intact(row)]
            reading.record_shown([row.id for row in held])
        return await self._to_views(viewer, held)

    @operation("GET", "/wishes/counts", name="count_wishes")
    async def counts(self, viewer: Viewer) -> RequestCounts:
        """Return how many of the wishes that the viewer may see were carried out, proposed and dismissed."""
        async with self.access.reading(viewer, "count wishes") as reading:
            return await privacy_requests.counts(reading.conn, self.access.org_id)

    async def with_request_counts(self, importing: Awaitable[ImportReport]) -> ImportReport:
        """Return the report of an import with how many requests were heard in it."""
        before = await self._counts()
        report = await importing
        return replace(report, wishes=(await self._counts()).since(before))

    async def _counts(self) -> RequestCounts:
        async with self.access.db.read_transaction(Viewer.operator(self.access.org_id)) as conn:
            return await privacy_requests.counts(conn, self.access.org_id)

    @operation("GET", "/wishes/withheld", name="list_withheld")
    async def withheld(
        self,
        viewer: Viewer,
        message_ids: Annotated[Sequence[MessageId], Meta(min_length=1, max_length=MOST_WORDS)],
    ) -> list[RestrictedResult]:
        """Return which of these messages wishes withhold, and by whose request; of others' requests operators alone know."""
        async with self.access.reading(viewer, "look at what is withheld") as reading:
            said = await messages.messages_by_id(reading.conn, self.access.org_id, list(message_ids), most=0)
        return await restrictions_on(self.access, viewer, [one.id for one in said])

    @operation("POST", "/wishes/{wish}/accept", name="accept_wish", replay="once")
    async def accept(self, wish: str) -> PrivacyRequestView:
        """Carry a wish out that was proposed, or dismissed before; return it.

        Args:
            wish: Its id, or the beginning or end of it.

        Raises:
            BadInput: several are meant, it counts already, its message says something else by now, it was erased, or
                the org hears no requests.
            NotFound: there is no such wish any more, or it is neither the caller's nor is the caller an operator.
        """
        at, by = datetime.now(UTC), self.access.principal.participant_id

        async def write(conn: Connection, held: RequestReview) -> bool:
            if held.message_id is None:
                raise BadInput(f"wish {held.id}", "was erased, and what it was about is known no more")
            if not _is_source_intact(held):
                raise BadInput(f"wish {held.id}", "says no wish any more: its message was edited since")
            if await privacy_requests.mode(conn, self.access.org_id) == "off":
                raise BadInput(
                    f"wish {held.id}",
                    'counts not while the org\'s mode is "off"; set it to "propose" or "on"',
                )
            if not await privacy_requests.decide(conn, self.access.org_id, held.id, "active", at=at, by=by):
                return False
            await enforcement.reapply(conn, self.access.org_id, [held.room_id])
            return True

        return await self._decide(wish, "accept wish", write, "counts already")

    @operation("POST", "/wishes/{wish}/dismiss", name="dismiss_wish", replay="once")
    async def dismiss(self, wish: str) -> PrivacyRequestView:
        """Let a wish count no more, or never: what it covered is recalled again; return it.

        Args:
            wish: Its id, or the beginning or end of it.

        Raises:
            BadInput: several are meant, or it was dismissed before.
            NotFound: there is no such wish any more, or it is neither the caller's nor is the caller an operator.
        """
        at, by = datetime.now(UTC), self.access.principal.participant_id

        async def write(conn: Connection, held: RequestReview) -> bool:
            if not await privacy_requests.decide(
                conn, self.access.org_id, held.id, "dismissed", at=at, by=by
            ):
                return False
            await enforcement.lift(conn, self.access.org_id, held.room_id, held.id)
            return True

        return await self._decide(wish, "dismiss wish", write, "was dismissed before")

    @operation("GET", "/wishes/mode", name="read_mode", result_key="mode")
    async def mode(self) -> RequestMode:
        """Return what the org does with the requests it hears; for operators."""
        await self.access.check("administer", "look at the mode of wishes")
        async with self.access.resolving("look at the mode of wishes") as conn:
            return await privacy_requests.mode(conn, self.access.org_id)

    @operation("PUT", "/wishes/mode", replay="whole", is_repeatable=True, result_key="mode")
    async def set_mode(self, mode: RequestMode) -> RequestMode:
        """Say what the org does with the requests it hears, and return it; for operators.

        Args:
            mode: "on" carries plain requests out and proposes the others; "propose" proposes all that are heard from
                now on; "off" hears none, and nothing is withheld for those that were heard, till it is another again.

        Raises:
            BadInput: it is none of these.
            NotAllowed: the caller is no operator.
        """
        if mode not in get_args(RequestMode):
            raise BadInput("mode", f"must be one of {', '.join(get_args(RequestMode))}")

        async def work(conn: Connection) -> tuple[None, Sequence[UUID]]:
            await erased.lock_shared(conn, self.access.org_id)
            rooms = await privacy_requests.rooms_with_requests(conn, self.access.org_id)
            await directory.lock_rooms(conn, rooms)
            before = await privacy_requests.mode(conn, self.access.org_id)
            await privacy_requests.set_mode(conn, self.access.org_id, mode)
            if mode == "off":
                await enforcement.lift_all(conn, self.access.org_id)
            elif before == "off":
                await enforcement.reapply(conn, self.access.org_id, rooms)
            return None, []

        await self.access.change("administer", "set the mode of wishes", work)
        return mode

    async def _decide(
        self,
        word: str,
        action: str,
        write: Callable[[Connection, RequestReview], Awaitable[bool]],
        in_vain: str,
    ) -> PrivacyRequestView:
        await self.access.check("correct", action)
        async with self.access.resolving(action) as conn:
            held = await self._resolve(conn, word)

        async def work(conn: Connection) -> tuple[None, Sequence[UUID]]:
            # What is said or erased meanwhile waits, or is there already: either way it is settled once.
            await erased.lock_shared(conn, self.access.org_id)
            await directory.lock_rooms(conn, [held.room_id])
            if not await write(conn, held):
                # One that went with its message meanwhile is not there any more.
                await self._resolve(conn, str(held.id))
                raise BadInput(f"wish {held.id}", in_vain)
            return None, [key for key in (held.id, held.message_id) if key is not None]

        await self.access.change("correct", action, work)
        async with self.access.resolving(action) as conn:
            changed = await self._resolve(conn, str(held.id))
        return (await self._to_views(self.access.principal, [changed]))[0]

    async def _resolve(self, conn: Connection, word: str) -> RequestReview:
        named = ids_matching(word)
        if named is None:
            raise NotFound("wish", word)
        found = await privacy_requests.newest(
            conn, self.access.org_id, room_id=None, status=None, limit=10, named=named
        )
        if not found:
            raise NotFound("wish", word)
        if len(found) > 1:
            choices = ", ".join(str(one.id) for one in found)
            raise BadInput(f"wish {word!r}", f"several are meant, name one by id: {choices}")
        return found[0]

    async def _to_views(self, viewer: Viewer, held: Sequence[RequestReview]) -> list[PrivacyRequestView]:
        """Return wishes with what they cover, of which the viewer is told what they may read.

        One connection after the other: many who held one and waited for a second would wait for each other.
        """
        org_id = self.access.org_id
        covered: dict[UUID, list[MessageId]] = defaultdict(list)
        # What is withheld is told to nobody but operators: that a row is there would tell.
        async with self.access.db.read_transaction(Viewer.operator(org_id)) as whole:
            for one in await privacy_requests.covered_messages(whole, org_id, [row.id for row in held]):
                covered[one.wish_id].append(one.message_id)
        readable = {key for keys in covered.values() for key in keys}
        people = {key for row in held for key in (*(row.from_ids or ()), *row.spared_ids)}
        async with self.access.db.read_transaction(viewer) as conn:
            said = {one.id: one for one in await messages.messages_truncated(conn, org_id, list(readable))}
            names = await memories.known_names(conn, org_id, people)
        tell = partial(_names, names)
        return [
            PrivacyRequestView(
                id=row.id,
                kind=row.kind,
                status=row.status,
                doubt=row.doubt,
                room_id=row.room_id,
                room_name=row.room_name,
                author_id=row.author_id,
                author_name=row.author_name,
                message_id=row.message_id,
                body=row.body,
                said_at=row.sent_at,
                heard_by=row.heard_by,
                from_names=None if row.from_ids is None else tell(row.from_ids),
                spared_names=tell(row.spared_ids),
                is_standing=row.is_standing,
                permits=sorted(row.permits),
                denies=sorted(row.denies),
                decided_at=row.decided_at,
                covers=[said[key] for key in covered[row.id] if key in said],
            )
            for row in held
        ]


def _is_source_intact(row: RequestReview) -> bool:
    """Return whether what voices a wish still says it; of one that is gone nothing else is known."""
    return row.told is None or storage.is_unchanged(row.told, row.body)


def _names(names: dict[ParticipantId, str], ids: Sequence[ParticipantId]) -> list[str]:
    return sorted(names[key] for key in ids if key in names)
