"""Rejects erased content on ingest, however often it is delivered."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, cast

from roomlore.db import client_ids, directory, erasure_guard, room_retention
from roomlore.db.erasure_guard import AccountName, ErasedRange, MessageName, RoomName
from roomlore.db.queries import Connection
from roomlore.db.rooms import erased_rooms
from roomlore.domain.ids import OrgId
from roomlore.domain.incoming import IncomingMessage, IncomingRoom, SkippedRecord
from roomlore.domain.redaction import PRIVATE_KINDS, PersonAliases, Redactor, without_names
from roomlore.ingest.resolve import author_name, authors_named
from roomlore.ingest.secrets import remove_secrets

ERASED_REASON = "erased"
ROOM_ERASED_REASON = "its room was erased"
TOO_OLD_REASON = "older than its room keeps"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureFilter:
    """The records of a batch that must be rejected."""

    tombstones: set[MessageName] = field(default_factory=set[MessageName])
    #: Erased messages by the client ids that their authors stated.
    client_id_tombstones: set[tuple[MessageName, AccountName]] = field(
        default_factory=set[tuple[MessageName, AccountName]]
    )
    rooms: frozenset[RoomName] = frozenset()
    ranges: Mapping[RoomName, Sequence[ErasedRange]] = field(
        default_factory=dict[RoomName, Sequence[ErasedRange]]
    )
    #: The start of the retention period by room.
    kept_since: Mapping[RoomName, datetime] = field(default_factory=dict[RoomName, datetime])
    #: The time of erasure by account.
    accounts: Mapping[AccountName, datetime] = field(default_factory=dict[AccountName, datetime])
    #: Erased accounts that are active again.
    returned: frozenset[AccountName] = frozenset()

    def reason(self, message: IncomingMessage) -> str | None:
        """Return why a message is rejected; None if it is not rejected."""
        room: RoomName = (message.platform, message.room.external_id)
        sent_at = message.sent_at
        if room in self.rooms:
            return ROOM_ERASED_REASON
        message_name: MessageName = (*room, message.external_id)
        author = author_name(message.platform, message.author)
        if (
            message_name in self.tombstones
            or (message_name, author) in self.client_id_tombstones
            or self._wrote_before(message)
        ):
            return ERASED_REASON
        for erased_range in self.ranges.get(room, ()):
            if (erased_range.since is None or erased_range.since <= sent_at) and sent_at < erased_range.until:
                return ERASED_REASON
        return TOO_OLD_REASON if room in self.kept_since and sent_at < self.kept_since[room] else None

    def is_erased(self, name: AccountName, message: IncomingMessage) -> bool:
        """Return whether an account must be redacted in a message of somebody else."""
        return name in self.accounts and (name not in self.returned or message.sent_at <= self.accounts[name])

    def _wrote_before(self, message: IncomingMessage) -> bool:
        erased_at = self.accounts.get(author_name(message.platform, message.author))
        return erased_at is not None and message.sent_at <= erased_at


async def reject_erased(
    conn: Connection, org_id: OrgId, batch: Sequence[IncomingMessage], *, now: datetime
) -> tuple[Sequence[IncomingMessage], list[SkippedRecord]]:
    """Return a batch without erased and expired messages, and the rejected ones."""
    removals = await erasure_guard.erased_kinds(conn, org_id)
    if not (
        removals.accounts or removals.ranges or removals.tombstones or removals.retention or removals.rooms
    ):
        return batch, []
    erasures = await _load_filter(conn, org_id, batch, removals=removals, now=now)
    staying: list[IncomingMessage] = []
    skipped: list[SkippedRecord] = []
    for message in batch:
        reason = erasures.reason(message)
        if reason is None:
            staying.append(message)
        else:
            where = remove_secrets(message.where)[0] or message.external_id
            skipped.append(SkippedRecord(where=where, reason=reason))
    if erasures.accounts:
        redactor = _BatchRedactor(erasures=erasures, aliases=_erased_aliases(batch, erasures))
        staying = await asyncio.to_thread(redactor.redact, staying)
    return staying, skipped


async def _load_filter(
    conn: Connection,
    org_id: OrgId,
    batch: Sequence[IncomingMessage],
    *,
    removals: erasure_guard.ErasedKinds,
    now: datetime,
) -> ErasureFilter:
    rooms = sorted({(message.platform, message.room.external_id) for message in batch})
    erasures = ErasureFilter()
    if removals.rooms:
        erasures = replace(erasures, rooms=await erased_rooms(conn, org_id, rooms))
    if removals.tombstones:
        message_names = [
            (message.platform, message.room.external_id, message.external_id) for message in batch
        ]
        digests = await client_ids.tombstones(conn, org_id, message_names)
        names = [author_name(message.platform, message.author) for message in batch]
        stated_by_erased = {
            (message_name, name)
            for message_name, name in zip(message_names, names, strict=True)
            if (*message_name, erasure_guard.account_digest(org_id, name)) in digests
        }
        erasures = replace(
            erasures,
            tombstones=await erasure_guard.tombstones(conn, org_id, message_names),
            client_id_tombstones=stated_by_erased,
        )
    if removals.ranges:
        ranges: dict[RoomName, list[ErasedRange]] = defaultdict(list)
        for each in await erasure_guard.erased_ranges(conn, org_id, rooms):
            ranges[each.platform, each.room].append(each)
        erasures = replace(erasures, ranges=ranges)
    if removals.retention:
        limited = await room_retention.rooms_with_retention(conn, org_id, now=now)
        erasures = replace(
            erasures, kept_since={(each.platform, each.room): each.kept_since for each in limited}
        )
    if removals.accounts:
        names = set(_batch_accounts(batch))
        accounts = await erasure_guard.erased_accounts(conn, org_id, names)
        erasures = replace(
            erasures, accounts=accounts, returned=await _returned_accounts(conn, org_id, batch, accounts)
        )
    return erasures


async def _returned_accounts(
    conn: Connection,
    org_id: OrgId,
    batch: Sequence[IncomingMessage],
    accounts: Mapping[AccountName, datetime],
) -> frozenset[AccountName]:
    """Return the erased accounts that are active again.

    They are already stored again, or are authors in this batch.
    """
    known = await directory.accounts_by_key(conn, org_id, list(accounts))
    speaking = {
        name
        for message in batch
        if (name := author_name(message.platform, message.author)) in accounts
        and message.sent_at > accounts[name]
    }
    return frozenset(known) | speaking


def _batch_accounts(batch: Sequence[IncomingMessage]) -> Iterable[AccountName]:
    for platform, author in authors_named(batch):
        yield author_name(platform, author)
    for message in batch:
        for account_id in (*message.mentions, *_reacted(message)):
            yield (message.platform, account_id, "")


def _reacted(message: IncomingMessage) -> Iterable[str]:
    for reaction in message.reactions:
        by = reaction.get("by")
        if isinstance(by, list | tuple):
            yield from (each for each in cast("Sequence[Any]", by) if isinstance(each, str))


def _erased_aliases(
    batch: Sequence[IncomingMessage], erasures: ErasureFilter
) -> Mapping[AccountName, PersonAliases]:
    """Return the names of erased accounts in this batch."""
    known_names: dict[AccountName, set[str]] = {name: set() for name in erasures.accounts}
    for platform, author in authors_named(batch):
        name = author_name(platform, author)
        if name in known_names:
            known_names[name] |= {author.name, author.persona} - {""}
    return {
        name: PersonAliases(
            accounts=frozenset({name[1]} if name[1] and not name[2] else ()), names=frozenset(names)
        )
        for name, names in known_names.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _BatchRedactor:
    """Redacts erased accounts in messages of other people.

    Messages that share a room object and have the same erased accounts also share the redacted room object.
    """

    erasures: ErasureFilter
    aliases: Mapping[AccountName, PersonAliases]
    _rooms: dict[tuple[int, frozenset[AccountName]], IncomingRoom] = field(
        default_factory=dict[tuple[int, frozenset[AccountName]], IncomingRoom]
    )

    def redact(self, batch: Sequence[IncomingMessage]) -> list[IncomingMessage]:
        """Return the messages without erased accounts."""
        return [self._message(message) for message in batch]

    def _message(self, message: IncomingMessage) -> IncomingMessage:
        erased_names = frozenset(
            name
            for name in self.erasures.accounts
            if name[0] == message.platform and self.erasures.is_erased(name, message)
        )
        if not erased_names:
            return message
        audience = tuple(
            each for each in message.audience if author_name(message.platform, each) not in erased_names
        )
        message = replace(message, room=self._room(message, erased_names), audience=audience)
        for name in sorted(erased_names):
            message = _redact_message(message, self.aliases[name])
        return message

    def _room(self, message: IncomingMessage, erased_names: frozenset[AccountName]) -> IncomingRoom:
        room = message.room
        redacted = self._rooms.get((id(room), erased_names))
        if redacted is None:
            members = tuple(
                member
                for member in room.members
                if author_name(message.platform, member.author) not in erased_names
            )
            redacted = replace(room, members=members)
            if room.kind in PRIVATE_KINDS:
                for account in sorted(erased_names):
                    aliases = self.aliases[account]
                    topic = aliases.redact_names(redacted.topic)
                    redacted = replace(redacted, name=without_names(redacted.name, aliases), topic=topic)
            self._rooms[id(room), erased_names] = redacted
        return redacted


def _redact_message(message: IncomingMessage, aliases: PersonAliases) -> IncomingMessage:
    redactor = Redactor(
        aliases=aliases,
        mentions_them=aliases.has_account_in(message.mentions),
        is_notice=message.kind == "system",
        author_name=message.author.name,
    )
    return replace(
        message,
        body=redactor.text(message.body),
        mentions=tuple(redactor.ids(message.mentions)),
        reactions=redactor.reactions(message.reactions),
        attachments=redactor.value(message.attachments),
        metadata=redactor.value(message.metadata),
        raw=redactor.value(message.raw),
    )
