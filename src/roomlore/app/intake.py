"""What is said, as records of our own format, each with what became of it; and edits of what was said before."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

from roomlore.app.desk import Desk
from roomlore.app.importing import sort_out
from roomlore.domain.errors import BadInput
from roomlore.domain.ids import MessageId
from roomlore.domain.incoming import IncomingAuthor, IncomingMessage, IncomingRoom, Skipped
from roomlore.ingest import accept
from roomlore.ingest.accept import Accepted
from roomlore.ingest.clean import TICK
from roomlore.ingest.versions import OTHER_TEXT
from roomlore.platforms.jsonl import read_record
from roomlore.platforms.unknown import named
from roomlore.retrieval import meant
from roomlore.store import directory, erased, messages
from roomlore.store.messages import ToldMessage
from roomlore.store.queries import Connection

#: Of records in one call: what is larger is a file, and imported.
MOST_RECORDS = 1_000
#: `known`: it was there before; a newer text of it is its text now.
Outcome = Literal["added", "known", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What became of one record."""

    outcome: Outcome
    #: The message; None where there is none.
    id: MessageId | None
    #: Why it, its text or a field of it is left out; a short stable phrase. Empty otherwise.
    reason: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTaken:
    """What became of records, which is on disk."""

    #: One of each, in their order.
    items: Sequence[Taken]
    added: int
    #: Messages that have a newer text now.
    revised: int
    redacted: int
    skipped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """What comes in one by one; the operator's."""

    desk: Desk
    #: Stores a batch of messages in one transaction.
    take: Callable[[Sequence[IncomingMessage]], Awaitable[Accepted]]

    async def records(self, records: Sequence[Any]) -> BatchTaken:
        """Store messages given as objects of `roomlore.message/1`, and return what became of each.

        One transaction stores all that can be stored; the same records again change nothing. Each stands alone: nothing
        that another says of its room is taken for its own.

        Raises:
            BadInput: there are none, or too many.
            NotAllowed: the caller is no operator.
        """
        await self.desk.check("administer", "ingest")
        if not 1 <= len(records) <= MOST_RECORDS:
            raise BadInput("messages", f"must be at least 1 and at most {MOST_RECORDS:,}; send them in parts")
        each = [read_record(one, where=str(place), order=place) for place, one in enumerate(records)]
        read = [one for one, _ in each]
        accepted = await self.take([one for one in read if not isinstance(one, Skipped)])
        told = _told(read, accepted)
        items = [_noted(item, unknown) for item, (_, unknown) in zip(told.items, each, strict=True)]
        return replace(told, items=items)

    async def edit(self, message: str, text: str, *, room: str | None = None) -> MessageId:
        """Put another text in the place of a message's and return its id; the earlier one stays as a revision.

        Args:
            message: Its id or external id.
            text: What it says from now on.
            room: Where the message is; everywhere by default.

        Raises:
            NotFound: there is no such message or room.
            BadInput: several are meant, the message was removed, or the text cannot be stored.
            NotAllowed: the caller is no operator.
        """
        await self.desk.check("administer", "edit")
        async with self.desk.looking("edit") as conn:
            room_id = None if room is None else await meant.room(conn, self.desk.org_id, room)
            found = await meant.message(conn, self.desk.org_id, message, room_id=room_id)

        async def change(conn: Connection) -> tuple[MessageId, Sequence[UUID]]:
            # Whoever removes it holds one or the other until it is removed.
            await erased.keep_erasures_out(conn, self.desk.org_id)
            await directory.lock_rooms(conn, [found.room_id])
            now = datetime.now(UTC)
            told = await messages.as_told(conn, self.desk.org_id, found.id)
            if told is None or told.redacted_at is not None:
                raise BadInput(f"message {message!r}", "was removed")
            edited = _edited(told, text, now=now)
            fit, unfit = sort_out([edited], now=now)
            if fit and fit[0].body != told.body:
                accepted = await accept.accept(conn, self.desk.org_id, fit, received_at=now)
                unfit = list(accepted.skipped)
            if unfit:
                raise BadInput("text", unfit[0].reason)
            return found.id, [found.id]

        return await self.desk.change("administer", "edit", change)


def _told(read: Sequence[IncomingMessage | Skipped], accepted: Accepted) -> BatchTaken:
    said = {one.where: one for one in (*read, *accepted.skipped) if isinstance(one, Skipped)}
    # A version that contradicts another is left out, while the message that it is of is there.
    gone = {where for where, one in said.items() if one.reason != OTHER_TEXT}
    ids, fresh = iter(accepted.message_ids), set(accepted.added.values())
    items: list[Taken] = []
    for place in range(len(read)):
        where = str(place)
        skipped = said.get(where)
        message_id = None if where in gone else next(ids)
        items.append(_taken(skipped, message_id, is_new=message_id in fresh))
        fresh.discard(message_id or MessageId(UUID(int=0)))
    return BatchTaken(
        items=items,
        added=len(accepted.added),
        revised=accepted.revised,
        redacted=accepted.redacted,
        skipped=sum(one.outcome == "skipped" for one in items),
    )


def _taken(skipped: Skipped | None, message_id: MessageId | None, *, is_new: bool) -> Taken:
    if skipped is not None:
        return Taken(outcome="skipped", id=message_id, reason=skipped.reason, detail=skipped.detail)
    return Taken(outcome="added" if is_new else "known", id=message_id)


def _noted(item: Taken, unknown: list[str]) -> Taken:
    """Return what became of a record, with the keys of it that were left aside."""
    return (
        item if item.reason or not unknown else replace(item, reason="unknown field", detail=named(unknown))
    )


def _edited(told: ToldMessage, text: str, *, now: datetime) -> IncomingMessage:
    """Return a message as its platform told it, with another text."""
    room = IncomingRoom(
        external_id=told.room_external_id,
        name=told.room_name,
        kind=told.room_kind,
        visibility=told.visibility,
        topic=told.topic,
    )
    author = IncomingAuthor(
        account_id=told.account_id,
        name=told.author_name,
        kind=told.author_kind,
        persona=told.persona,
        bridged=told.bridged,
    )
    written = told.edited_at or told.sent_at
    return IncomingMessage(
        platform=told.platform,
        room=room,
        external_id=told.external_id,
        author=author,
        body=text,
        sent_at=told.sent_at,
        kind=told.kind,
        precision=told.precision,
        order=told.native_order,
        mentions=told.mentions or (),
        attachments=told.attachments or (),
        reactions=told.reactions or (),
        # A platform's clock may be ahead of ours.
        edited_at=max(now, written + TICK),
        synthetic_id=told.synthetic_id,
        metadata=told.metadata or {},
    )
