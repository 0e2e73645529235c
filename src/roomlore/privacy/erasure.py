"""An erasure is one transaction with its receipt; a second look follows in another and completes it.

A dry run does the very same and takes it back.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from roomlore.db import (
    directory,
    erased,
    erasure,
    injections,
    llm_calls,
    memory_writes,
    messages,
    outbox,
    receipts,
    rooms,
)
from roomlore.db.erasure import MessageToErase
from roomlore.db.queries import Connection
from roomlore.domain.errors import NotFound
from roomlore.domain.ids import OrgId, ParticipantId, RoomId
from roomlore.domain.receipts import Receipt, VerificationCheck
from roomlore.domain.records import Viewer
from roomlore.domain.redaction import PersonAliases
from roomlore.domain.words import name_words
from roomlore.privacy import enforcement, erasure_receipts, redaction
from roomlore.privacy.erasure_receipts import ErasureRequest
from roomlore.privacy.redaction import IdentifiersByPlatform

#: How many messages one statement takes.
BATCH_SIZE = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomRange:
    """A time in a room; without `since` from its beginning."""

    room_id: RoomId
    since: datetime | None
    until: datetime


async def erase_messages(
    conn: Connection, org_id: OrgId, doomed: Sequence[MessageToErase], *, at: datetime
) -> Counter[str]:
    """Leave holes in place of messages, and return how much of what went."""
    ids = [message.id for message in doomed]
    tally = Counter(await erasure.drop_derived(conn, org_id, ids))
    tally.update(await erasure.drop_message_details(conn, org_id, ids))
    tally.update(await erasure.remove_from_conversations(conn, org_id, ids))
    tally["messages"] += await erasure.make_tombstones(conn, org_id, ids, at=at)
    await outbox.remove_messages(conn, org_id, ids)
    # A hole keeps its id, and is seen by those alone who saw the message: of a whisper by nobody.
    await outbox.append(conn, org_id, "message.erased", ids)
    await _refresh_rooms(conn, org_id, doomed)
    return tally


async def erase_messages_by(
    conn: Connection, org_id: OrgId, authors: Sequence[ParticipantId], *, at: datetime
) -> Counter[str]:
    """Leave holes in place of everything that authors wrote, and return how much of what went."""
    tally = Counter[str]()
    while doomed := await erasure.messages_by(conn, org_id, authors, limit=BATCH_SIZE):
        tally.update(await erase_messages(conn, org_id, doomed, at=at))
    return tally


async def delete_range(
    conn: Connection,
    org_id: OrgId,
    room_range: RoomRange,
    *,
    at_most: int | None = None,
    leaves_tombstones: bool = False,
) -> Counter[str]:
    """Remove the messages of a stretch, place and all, and return how much of what went or was loosened.

    Args:
        conn: In the transaction of the erasure.
        org_id: Whose.
        room_range: Which messages.
        at_most: How many, the oldest; all of them by default.
        leaves_tombstones: Holes stay, where nothing else keeps out what was there.
    """
    tally = Counter[str]()
    while at_most is None or tally["messages"] < at_most:
        limit = BATCH_SIZE if at_most is None else min(BATCH_SIZE, at_most - tally["messages"])
        doomed = await erasure.messages_in_range(
            conn,
            org_id,
            room_range.room_id,
            since=room_range.since,
            until=room_range.until,
            limit=limit,
            with_tombstones=not leaves_tombstones,
        )
        if not doomed:
            break
        tally.update(await _delete_batch(conn, org_id, doomed, room_range))
    tally["memberships of the room"] = await erasure.memberships_in(conn, org_id, room_range.room_id)
    return tally


async def _delete_batch(
    conn: Connection, org_id: OrgId, doomed: Sequence[MessageToErase], stretch: RoomRange
) -> Counter[str]:
    ids = [message.id for message in doomed]
    tally = Counter(await erasure.drop_derived(conn, org_id, ids))
    tally.update(await erasure.drop_message_details(conn, org_id, ids))
    tally["waiting replies"] += await erasure.detach_replies(
        conn, org_id, ids, since=stretch.since, until=stretch.until
    )
    tally.update(await erasure.remove_from_conversations(conn, org_id, ids))
    await outbox.remove_messages(conn, org_id, ids)
    tally.update(await erasure.drop_messages(conn, org_id, ids))
    await _refresh_rooms(conn, org_id, doomed)
    return tally


async def _refresh_rooms(conn: Connection, org_id: OrgId, gone: Sequence[MessageToErase]) -> None:
    rooms = {message.room_id for message in gone}
    await erasure.recount_activity(conn, org_id, rooms, {message.author_id for message in gone})
    await enforcement.reapply(conn, org_id, rooms)


#: After whatever is said.
_END = datetime(9999, 12, 31, tzinfo=UTC)


async def erase_room(conn: Connection, org_id: OrgId, room_id: RoomId, *, at: datetime) -> Counter[str]:
    """Remove a room and keep it out from now on; return how much of what went."""
    room = await rooms.room_state(conn, org_id, room_id)
    tally = await delete_range(conn, org_id, RoomRange(room_id=room_id, since=None, until=_END))
    asserted = await rooms.memories_asserted_in(conn, org_id, room_id)
    tally.update(await erasure.drop_memories(conn, org_id, asserted))
    tally.update(await rooms.drop(conn, org_id, room, at=at))
    del tally["wishes without words"]
    return tally


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedPerson:
    """How much of what went with a person, and how they were called, for the second look."""

    tally: Counter[str]
    traces: IdentifiersByPlatform


async def erase_person(
    conn: Connection, org_id: OrgId, accounts: Sequence[ParticipantId], *, at: datetime
) -> ErasedPerson:
    """Remove the participants who are accounts of one person, and return how much of what went.

    What an agent made of what others said stays: memories are the org's, and no agent is owed to be forgotten by it.
    """
    names = await erasure.names_of(conn, org_id, accounts)
    account_names = await erasure.accounts_of(conn, org_id, accounts)
    traced = redaction.identifiers_of(account_names, names)
    tally = await erase_messages_by(conn, org_id, accounts, at=at)
    if all(
        known.is_agent for known in (await memory_writes.participants_by_id(conn, org_id, accounts)).values()
    ):
        await memory_writes.anonymise(conn, org_id, accounts)
    else:
        tally.update(await _erase_memories(conn, org_id, accounts, names=names))
        tally["name digests"] = await erased.add_names(conn, org_id, name_words(names), at=at)
    tally["injections"] += await injections.revoke_from_agents(conn, org_id, accounts)
    tally.update(await erasure.drop_person(conn, org_id, accounts))
    tally.update(await redaction.redact(conn, org_id, traced))
    keys = await erased.keys_containing(conn, org_id, names)
    tally["names of keys"] += sum(PersonAliases(names=names).is_named_in(key) for key in keys)
    await erased.add_accounts(conn, org_id, account_names, at=at)
    tally["digests"] = len(account_names)
    return ErasedPerson(tally=tally, traces=traced)


async def _erase_memories(
    conn: Connection, org_id: OrgId, accounts: Sequence[ParticipantId], *, names: frozenset[str]
) -> Counter[str]:
    """Remove memories by and about participants and those that name them; labels and readings too."""
    tally = Counter[str]()
    tally.update(await erasure.drop_memories(conn, org_id, await erasure.memories_of(conn, org_id, accounts)))
    called = PersonAliases(names=names)
    saying = await erasure.memories_containing(conn, org_id, names, participant_ids=accounts)
    naming = [memory for memory in saying if called.is_named_in(memory.content)]
    tags = await erased.tags_containing(conn, org_id, names)
    tally["tags"] += await erased.drop_tags(
        conn, org_id, [one for one in tags if called.is_named_in(one.tag)]
    )
    involved = [memory.id for memory in naming if memory.is_involved]
    tally.update(await erasure.drop_memories(conn, org_id, involved))
    tally["names in others' memories"] += len(naming) - len(involved)
    tally["readings"] += await llm_calls.drop_containing(conn, org_id, names)
    labels = await erasure.labels_containing(conn, org_id, names)
    told = [label.id for label in labels if called.is_named_in(label.label)]
    tally["labels"] += await erasure.clear_labels(conn, org_id, told)
    return tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """An erasure carried out: its receipt, and what only the second look right after it may know."""

    receipt: Receipt
    #: The same for the operator, where somebody else asked, who may not know all of it.
    operator_receipt: Receipt | None = None
    traces: IdentifiersByPlatform | None = None


async def erase(
    conn: Connection, org_id: OrgId, asked: ErasureRequest, *, by: Viewer, dry_run: bool
) -> Erasure:
    """Erase what is asked for and keep the receipt, or on a dry run nothing of it all."""
    async with conn.transaction(force_rollback=dry_run):
        if not dry_run:
            # Looking keeps nobody waiting: what is written meanwhile is not in what would go.
            await erased.lock_exclusive(conn, org_id)
            await _lock_accounts(conn, org_id, asked)
        at = datetime.now(UTC)
        asked = await _completed(conn, org_id, asked, at=at)
        tally, traces = await _remove(conn, org_id, asked, at=at)
        told = erasure_receipts.visible_counts(by, tally)
        receipt = erasure_receipts.build_receipt(asked, told, at=at, by=by, is_dry_run=dry_run)
        in_full = None
        if not (by.is_operator or dry_run):
            operator = Viewer.operator(org_id, key_id=by.key_id)
            in_full = erasure_receipts.build_receipt(asked, tally, at=at, by=operator, is_dry_run=False)
            await receipts.add(conn, org_id, in_full)
        if not dry_run:
            await receipts.add(conn, org_id, receipt)
    return Erasure(receipt=receipt, operator_receipt=in_full, traces=traces)


async def expire(
    conn: Connection, org_id: OrgId, room_id: RoomId, *, now: datetime, by: Viewer
) -> Erasure | None:
    """Erase some of what is older than a room keeps, oldest first; None where nothing is."""
    await erased.lock_exclusive(conn, org_id)
    for room in await erased.rooms_with_retention(conn, org_id, room_id, now=now):
        stretch = RoomRange(room_id=room_id, since=None, until=room.kept_since)
        tally = await delete_range(conn, org_id, stretch, at_most=BATCH_SIZE, leaves_tombstones=True)
        if not tally["messages"]:
            return None
        asked = ErasureRequest(kind="expiry", room_id=room_id, until=room.kept_since)
        receipt = erasure_receipts.build_receipt(asked, tally, at=datetime.now(UTC), by=by, is_dry_run=False)
        await receipts.add(conn, org_id, receipt)
        return Erasure(receipt=receipt)
    return None


async def verify(conn: Connection, org_id: OrgId, done: Erasure) -> Receipt:
    """Read once more whatever should be gone, and return the receipt with what was found."""
    receipt = done.receipt
    checks = [
        VerificationCheck(store="postgresql", what=left.what, found=left.found)
        for left in await receipts.residuals(conn, org_id, receipt)
    ]
    if receipt.kind == "person":
        named = await receipts.accounts_still_mentioned(conn, org_id, at=receipt.at)
        checks.append(VerificationCheck(store="postgresql", what="accounts in others' mentions", found=named))
    if done.traces is not None:
        found = await redaction.count_remaining(conn, org_id, done.traces)
        checks.append(VerificationCheck(store="postgresql", what="traces in others' messages", found=found))
    checked_at = datetime.now(UTC)
    for one in (receipt, done.operator_receipt):
        if one is not None:
            await receipts.record_checks(conn, org_id, one.id, checks=checks, checked_at=checked_at)
    return replace(receipt, checks=tuple(checks), checked_at=checked_at)


async def _lock_accounts(conn: Connection, org_id: OrgId, asked: ErasureRequest) -> None:
    """Let nobody get another account, or lose one, nor a room come back, while one is erased."""
    if asked.kind in {"person", "room"}:
        await directory.lock_directory(conn, org_id)


async def _completed(
    conn: Connection, org_id: OrgId, asked: ErasureRequest, *, at: datetime
) -> ErasureRequest:
    """Return what is asked for with what only the erasure itself can know: its time, all accounts of a person."""
    if asked.kind == "range":
        # What will be said later is not asked for, and would be kept out unseen.
        return replace(asked, until=at if asked.until is None else min(asked.until, at))
    if asked.kind == "person":
        accounts = await directory.accounts(conn, org_id, asked.participant_ids[0])
        if not accounts:
            raise NotFound("participant", str(asked.participant_ids[0]))
        return replace(asked, participant_ids=[account.id for account in accounts])
    return asked


async def _remove(
    conn: Connection, org_id: OrgId, asked: ErasureRequest, *, at: datetime
) -> tuple[Counter[str], IdentifiersByPlatform | None]:
    match asked.kind:
        case "person":
            gone = await erase_person(conn, org_id, asked.participant_ids, at=at)
            return gone.tally, gone.traces
        case "message":
            assert asked.message_id is not None
            found = await messages.messages_by_id(conn, org_id, [asked.message_id])
            doomed = [
                MessageToErase(id=one.id, room_id=one.room_id, author_id=one.author_id) for one in found
            ]
            return await erase_messages(conn, org_id, doomed, at=at), None
        case "range":
            assert asked.room_id is not None
            assert asked.until is not None
            stretch = RoomRange(room_id=asked.room_id, since=asked.since, until=asked.until)
            await erased.add_range(
                conn, org_id, stretch.room_id, since=stretch.since, until=stretch.until, at=at
            )
            return await delete_range(conn, org_id, stretch), None
        case "room":
            assert asked.room_id is not None
            return await erase_room(conn, org_id, asked.room_id, at=at), None
        case "expiry":
            raise AssertionError("is carried out in portions")
