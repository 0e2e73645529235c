"""The steps of an erasure, in order.

`erase` runs in one transaction:

1. Lock: nothing is ingested meanwhile, and the accounts of a person do not change.
2. Complete the request: the end of a time range, all accounts of a person.
3. Remove the content: a message, or each message of a person, becomes a tombstone; the messages of a range or a room
   are deleted. Everything derived from them is removed. Names of an erased person are redacted in others' messages.
4. Store the receipt: what was removed, what is kept and why. A dry run rolls back instead.

`verify` runs in a second transaction: it counts what is left and completes the receipt. `expire` is an erasure by
retention, one batch per transaction.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from roomlore.db import (
    directory,
    erasure,
    erasure_guard,
    injections,
    llm_calls,
    memory_writes,
    messages,
    outbox,
    receipts,
    room_retention,
    rooms,
)
from roomlore.db.erasure import MessageToErase
from roomlore.db.queries import Connection
from roomlore.domain.errors import NotFound
from roomlore.domain.ids import MessageId, OrgId, ParticipantId, RoomId
from roomlore.domain.receipts import Receipt, VerificationCheck
from roomlore.domain.records import Viewer
from roomlore.domain.redaction import PersonAliases
from roomlore.domain.words import name_words
from roomlore.privacy import enforcement, erasure_receipts, redaction
from roomlore.privacy.erasure_receipts import ErasureRequest
from roomlore.privacy.redaction import IdentifiersByPlatform

#: The maximum number of messages that one statement removes.
BATCH_SIZE = 10_000
_END_OF_TIME = datetime(9999, 12, 31, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """A finished erasure: its receipt, and data that is needed only for the verification right after it."""

    receipt: Receipt
    #: The receipt with all counts. None if an operator requested the erasure, because `receipt` then has all counts.
    operator_receipt: Receipt | None = None
    #: The accounts and names of an erased person.
    identifiers: IdentifiersByPlatform | None = None


async def erase(
    conn: Connection, org_id: OrgId, request: ErasureRequest, *, by: Viewer, dry_run: bool
) -> Erasure:
    """Erase what is requested and store the receipt. A dry run does the same and is then rolled back."""
    async with conn.transaction(force_rollback=dry_run):
        if not dry_run:
            # A dry run takes no locks, so concurrent changes may be missing in its counts.
            await _lock(conn, org_id, request)
        at = datetime.now(UTC)
        request = await _complete(conn, org_id, request, at=at)
        counts, identifiers = await _remove(conn, org_id, request, at=at)
        visible = erasure_receipts.visible_counts(by, counts)
        receipt = erasure_receipts.build_receipt(request, visible, at=at, by=by, is_dry_run=dry_run)
        operator_receipt = None
        if not (by.is_operator or dry_run):
            operator = Viewer.operator(org_id, key_id=by.key_id)
            operator_receipt = erasure_receipts.build_receipt(
                request, counts, at=at, by=operator, is_dry_run=False
            )
            await receipts.add(conn, org_id, operator_receipt)
        if not dry_run:
            await receipts.add(conn, org_id, receipt)
    return Erasure(receipt=receipt, operator_receipt=operator_receipt, identifiers=identifiers)


async def verify(conn: Connection, org_id: OrgId, done: Erasure) -> Receipt:
    """Count what is left of the erased content, and return the receipt with the result."""
    receipt = done.receipt
    left = {check.what: check.found for check in await receipts.residuals(conn, org_id, receipt)}
    if receipt.kind == "person":
        left["accounts in others' mentions"] = await receipts.accounts_still_mentioned(
            conn, org_id, at=receipt.at
        )
    if done.identifiers is not None:
        left["traces in others' messages"] = await redaction.count_remaining(conn, org_id, done.identifiers)
    checks = tuple(
        VerificationCheck(store="postgresql", what=what, found=found) for what, found in left.items()
    )
    checked_at = datetime.now(UTC)
    for each in (receipt, done.operator_receipt):
        if each is not None:
            await receipts.record_checks(conn, org_id, each.id, checks=checks, checked_at=checked_at)
    return replace(receipt, checks=checks, checked_at=checked_at)


async def expire(
    conn: Connection, org_id: OrgId, room_id: RoomId, *, now: datetime, by: Viewer
) -> Erasure | None:
    """Delete a batch of messages older than the retention of a room, oldest first; None if there is no such message."""
    await erasure_guard.lock_exclusive(conn, org_id)
    for room in await room_retention.rooms_with_retention(conn, org_id, room_id, now=now):
        counts = await delete_range(
            conn, org_id, room_id, until=room.kept_since, limit=BATCH_SIZE, leaves_tombstones=True
        )
        if counts["messages"]:
            request = ErasureRequest(kind="expiry", room_id=room_id, until=room.kept_since)
            at = datetime.now(UTC)
            receipt = erasure_receipts.build_receipt(request, counts, at=at, by=by, is_dry_run=False)
            await receipts.add(conn, org_id, receipt)
            return Erasure(receipt=receipt)
    return None


# 1. Lock


async def _lock(conn: Connection, org_id: OrgId, request: ErasureRequest) -> None:
    await erasure_guard.lock_exclusive(conn, org_id)
    if request.kind in {"person", "room"}:
        # Until the erasure ends, nobody may gain or lose an account, and no removed room may be created again.
        await directory.lock_directory(conn, org_id)


# 2. Complete the request


async def _complete(
    conn: Connection, org_id: OrgId, request: ErasureRequest, *, at: datetime
) -> ErasureRequest:
    if request.kind == "range":
        # If a range reached into the future, new messages would be rejected silently.
        return replace(request, until=at if request.until is None else min(request.until, at))
    if request.kind == "person":
        accounts = await directory.accounts(conn, org_id, request.participant_ids[0])
        if not accounts:
            raise NotFound("participant", str(request.participant_ids[0]))
        return replace(request, participant_ids=[account.id for account in accounts])
    return request


# 3. Remove the content


async def _remove(
    conn: Connection, org_id: OrgId, request: ErasureRequest, *, at: datetime
) -> tuple[Counter[str], IdentifiersByPlatform | None]:
    match request:
        case ErasureRequest(kind="message", message_id=message_id) if message_id is not None:
            found = await messages.messages_by_id(conn, org_id, [message_id])
            to_erase = [MessageToErase(id=m.id, room_id=m.room_id, author_id=m.author_id) for m in found]
            return await erase_messages(conn, org_id, to_erase, at=at), None
        case ErasureRequest(kind="person", participant_ids=accounts):
            return await erase_person(conn, org_id, accounts, at=at)
        case ErasureRequest(kind="range", room_id=room_id, since=since, until=until) if room_id and until:
            await erasure_guard.add_range(conn, org_id, room_id, since=since, until=until, at=at)
            return await delete_range(conn, org_id, room_id, since=since, until=until), None
        case ErasureRequest(kind="room", room_id=room_id) if room_id is not None:
            return await erase_room(conn, org_id, room_id, at=at), None
        case _:
            raise AssertionError(request.kind)


async def erase_messages(
    conn: Connection, org_id: OrgId, to_erase: Sequence[MessageToErase], *, at: datetime
) -> Counter[str]:
    """Replace messages by tombstones, and remove everything derived from them."""
    ids = [message.id for message in to_erase]
    counts = await _remove_derived(conn, org_id, ids)
    counts.update(await erasure.remove_from_conversations(conn, org_id, ids))
    counts["messages"] += await erasure.make_tombstones(conn, org_id, ids, at=at)
    await outbox.remove_messages(conn, org_id, ids)
    # A tombstone keeps the id and the readers of its message. Only the tombstone of a whisper has no readers.
    await outbox.append(conn, org_id, "message.erased", ids)
    await _refresh_rooms(conn, org_id, to_erase)
    return counts


async def erase_person(
    conn: Connection, org_id: OrgId, accounts: Sequence[ParticipantId], *, at: datetime
) -> tuple[Counter[str], IdentifiersByPlatform]:
    """Remove a person with all accounts and messages, and redact the person in other people's messages.

    Memories that an agent extracted from other people's messages stay, because they belong to the org.
    """
    names = await erasure.names_of(conn, org_id, accounts)
    account_names = await erasure.accounts_of(conn, org_id, accounts)
    identifiers = redaction.identifiers_of(account_names, names)
    counts = Counter[str]()
    while to_erase := await erasure.messages_by(conn, org_id, accounts, limit=BATCH_SIZE):
        counts.update(await erase_messages(conn, org_id, to_erase, at=at))
    participants = await memory_writes.participants_by_id(conn, org_id, accounts)
    if all(participant.is_agent for participant in participants.values()):
        await memory_writes.anonymise(conn, org_id, accounts)
    else:
        counts.update(await _erase_memories(conn, org_id, accounts, names=names))
        counts["name digests"] = await erasure_guard.add_names(conn, org_id, name_words(names), at=at)
    counts["injections"] += await injections.revoke_from_agents(conn, org_id, accounts)
    counts.update(await erasure.drop_person(conn, org_id, accounts))
    counts.update(await redaction.redact(conn, org_id, identifiers))
    keys = await erasure.keys_containing(conn, org_id, names)
    counts["names of keys"] += sum(PersonAliases(names=names).is_named_in(key) for key in keys)
    # With the digests of the accounts, later imports recognise and skip messages of these accounts.
    await erasure_guard.add_accounts(conn, org_id, account_names, at=at)
    counts["digests"] = len(account_names)
    return counts, identifiers


async def _erase_memories(
    conn: Connection, org_id: OrgId, accounts: Sequence[ParticipantId], *, names: frozenset[str]
) -> Counter[str]:
    """Remove memories by and about a person, and tags, labels and language model calls that name them."""
    aliases = PersonAliases(names=names)
    counts = Counter[str]()
    counts.update(
        await erasure.drop_memories(conn, org_id, await erasure.memories_of(conn, org_id, accounts))
    )
    candidates = await erasure.memories_containing(conn, org_id, names, participant_ids=accounts)
    naming = [memory for memory in candidates if aliases.is_named_in(memory.content)]
    tags = await erasure.tags_containing(conn, org_id, names)
    counts["tags"] += await erasure.drop_tags(conn, org_id, [t for t in tags if aliases.is_named_in(t.tag)])
    involved = [memory.id for memory in naming if memory.is_involved]
    counts.update(await erasure.drop_memories(conn, org_id, involved))
    counts["names in others' memories"] += len(naming) - len(involved)
    counts["language model calls"] += await llm_calls.drop_containing(conn, org_id, names)
    labels = await erasure.labels_containing(conn, org_id, names)
    label_ids = [label.id for label in labels if aliases.is_named_in(label.label)]
    counts["labels"] += await erasure.clear_labels(conn, org_id, label_ids)
    return counts


async def erase_room(conn: Connection, org_id: OrgId, room_id: RoomId, *, at: datetime) -> Counter[str]:
    """Remove a room with everything in it, and prevent later imports from creating it again."""
    room = await rooms.room_state(conn, org_id, room_id)
    counts = await delete_range(conn, org_id, room_id, until=_END_OF_TIME)
    asserted = await rooms.memories_asserted_in(conn, org_id, room_id)
    counts.update(await erasure.drop_memories(conn, org_id, asserted))
    counts.update(await rooms.drop(conn, org_id, room, at=at))
    del counts["tombstones of privacy requests"]
    return counts


async def delete_range(
    conn: Connection,
    org_id: OrgId,
    room_id: RoomId,
    *,
    since: datetime | None = None,
    until: datetime,
    limit: int | None = None,
    leaves_tombstones: bool = False,
) -> Counter[str]:
    """Delete the messages of a time range in a room (at most the oldest `limit`), and everything derived from them.

    With `leaves_tombstones`, existing tombstones stay, because only they prevent later imports from storing their
    messages again.
    """
    counts = Counter[str]()
    while limit is None or counts["messages"] < limit:
        to_erase = await erasure.messages_in_range(
            conn,
            org_id,
            room_id,
            since=since,
            until=until,
            limit=BATCH_SIZE if limit is None else min(BATCH_SIZE, limit - counts["messages"]),
            with_tombstones=not leaves_tombstones,
        )
        if not to_erase:
            break
        ids = [message.id for message in to_erase]
        counts.update(await _remove_derived(conn, org_id, ids))
        counts["waiting replies"] += await erasure.detach_replies(conn, org_id, ids, since=since, until=until)
        counts.update(await erasure.remove_from_conversations(conn, org_id, ids))
        await outbox.remove_messages(conn, org_id, ids)
        counts.update(await erasure.drop_messages(conn, org_id, ids))
        await _refresh_rooms(conn, org_id, to_erase)
    counts["memberships of the room"] = await erasure.memberships_in(conn, org_id, room_id)
    return counts


async def _remove_derived(conn: Connection, org_id: OrgId, ids: Sequence[MessageId]) -> Counter[str]:
    counts = Counter(await erasure.drop_derived(conn, org_id, ids))
    counts.update(await erasure.drop_message_details(conn, org_id, ids))
    return counts


async def _refresh_rooms(conn: Connection, org_id: OrgId, gone: Sequence[MessageToErase]) -> None:
    """Update activity counts and privacy restrictions that depended on these removed messages."""
    room_ids = {message.room_id for message in gone}
    await erasure.recount_activity(conn, org_id, room_ids, {message.author_id for message in gone})
    await enforcement.reapply(conn, org_id, room_ids)
