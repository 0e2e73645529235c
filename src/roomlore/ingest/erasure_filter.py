"""Leaves out of a batch what was erased, so that it stays gone however often it is delivered.

Looked at before anything of the batch is stored, while no erasure can be under way. An erased account is
known by its digest only: what it said until it was erased is left out, and no list, audience, mention or
foreign record of others brings it back. What it says later is new, and from then on others may name it again.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, cast

from roomlore.db import client_ids, directory, erased
from roomlore.db.erased import AccountName, ErasedRange, MessageName, RoomName
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
class FilteredBatch:
    """What of a batch may be stored, and what may not."""

    batch: Sequence[IncomingMessage]
    skipped: Sequence[SkippedRecord] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureFilter:
    """What is to be kept out of a batch."""

    tombstones: set[MessageName] = field(default_factory=set[MessageName])
    #: What was erased by the ids that its speakers had stated.
    client_id_tombstones: set[tuple[MessageName, AccountName]] = field(
        default_factory=set[tuple[MessageName, AccountName]]
    )
    #: Rooms that were erased whole.
    rooms: frozenset[RoomName] = frozenset()
    ranges: Mapping[RoomName, Sequence[ErasedRange]] = field(
        default_factory=dict[RoomName, Sequence[ErasedRange]]
    )
    #: Since when rooms keep what was said.
    kept_since: Mapping[RoomName, datetime] = field(default_factory=dict[RoomName, datetime])
    #: When accounts were erased.
    accounts: Mapping[AccountName, datetime] = field(default_factory=dict[AccountName, datetime])
    #: Erased accounts that have come back.
    returned: frozenset[AccountName] = frozenset()

    def reason(self, message: IncomingMessage) -> str | None:
        """Return why a message is left out, or None where it may be stored."""
        room: RoomName = (message.platform, message.room.external_id)
        sent_at = message.sent_at
        if room in self.rooms:
            return ROOM_ERASED_REASON
        place: MessageName = (*room, message.external_id)
        author = author_name(message.platform, message.author)
        if (
            place in self.tombstones
            or (place, author) in self.client_id_tombstones
            or self._wrote_before(message)
        ):
            return ERASED_REASON
        for one in self.ranges.get(room, ()):
            if (one.since is None or one.since <= sent_at) and sent_at < one.until:
                return ERASED_REASON
        return TOO_OLD_REASON if room in self.kept_since and sent_at < self.kept_since[room] else None

    def is_erased(self, name: AccountName, message: IncomingMessage) -> bool:
        """Return whether an account stays out of what a message of somebody else says."""
        return name in self.accounts and (name not in self.returned or message.sent_at <= self.accounts[name])

    def _wrote_before(self, message: IncomingMessage) -> bool:
        erased_at = self.accounts.get(author_name(message.platform, message.author))
        return erased_at is not None and message.sent_at <= erased_at


async def reject_erased(
    conn: Connection, org_id: OrgId, batch: Sequence[IncomingMessage], *, now: datetime
) -> FilteredBatch:
    """Return a batch without what was erased and what is too old for its room, and what that was."""
    removals = await erased.erased_kinds(conn, org_id)
    if not (removals.accounts or removals.ranges or removals.holes or removals.keeping or removals.rooms):
        return FilteredBatch(batch=batch)
    gone = await _load_filter(conn, org_id, batch, removals=removals, now=now)
    staying: list[IncomingMessage] = []
    skipped: list[SkippedRecord] = []
    for message in batch:
        reason = gone.reason(message)
        if reason is None:
            staying.append(message)
        else:
            where = remove_secrets(message.where)[0] or message.external_id
            skipped.append(SkippedRecord(where=where, reason=reason))
    if gone.accounts:
        staying = await asyncio.to_thread(_redacted, batch, staying, gone)
    return FilteredBatch(batch=staying, skipped=skipped)


def _redacted(
    batch: Sequence[IncomingMessage], staying: Sequence[IncomingMessage], gone: ErasureFilter
) -> list[IncomingMessage]:
    return _BatchRedactor(erasures=gone, aliases=_erased_aliases(batch, gone)).redact(staying)


async def _load_filter(
    conn: Connection,
    org_id: OrgId,
    batch: Sequence[IncomingMessage],
    *,
    removals: erased.ErasedKinds,
    now: datetime,
) -> ErasureFilter:
    rooms = sorted({(message.platform, message.room.external_id) for message in batch})
    gone = ErasureFilter()
    if removals.rooms:
        gone = replace(gone, rooms=await erased_rooms(conn, org_id, rooms))
    if removals.holes:
        places = [(message.platform, message.room.external_id, message.external_id) for message in batch]
        by = await client_ids.tombstones(conn, org_id, places)
        names = [author_name(message.platform, message.author) for message in batch]
        said = {
            (place, name)
            for place, name in zip(places, names, strict=True)
            if place in by and erased.account_digest(org_id, name) in by[place]
        }
        gone = replace(
            gone, tombstones=await erased.tombstones(conn, org_id, places), client_id_tombstones=said
        )
    if removals.ranges:
        ranges: dict[RoomName, list[ErasedRange]] = defaultdict(list)
        for one in await erased.erased_ranges(conn, org_id, rooms):
            ranges[one.platform, one.room].append(one)
        gone = replace(gone, ranges=ranges)
    if removals.keeping:
        keeping = await erased.rooms_with_retention(conn, org_id, now=now)
        gone = replace(gone, kept_since={(one.platform, one.room): one.kept_since for one in keeping})
    if removals.accounts:
        names = set(_batch_accounts(batch))
        accounts = await erased.erased_accounts(conn, org_id, names)
        gone = replace(
            gone, accounts=accounts, returned=await _returned_accounts(conn, org_id, batch, accounts)
        )
    return gone


async def _returned_accounts(
    conn: Connection,
    org_id: OrgId,
    batch: Sequence[IncomingMessage],
    accounts: Mapping[AccountName, datetime],
) -> frozenset[AccountName]:
    """Return which erased accounts have said something since: they are known again, or speak in this batch."""
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
            yield from (one for one in cast("Sequence[Any]", by) if isinstance(one, str))


def _erased_aliases(
    batch: Sequence[IncomingMessage], gone: ErasureFilter
) -> Mapping[AccountName, PersonAliases]:
    """Return how each erased account is called, as far as the batch itself tells."""
    called: dict[AccountName, set[str]] = {name: set() for name in gone.accounts}
    for platform, author in authors_named(batch):
        name = author_name(platform, author)
        if name in called:
            called[name] |= {author.name, author.persona} - {""}
    return {
        name: PersonAliases(
            accounts=frozenset({name[1]} if name[1] and not name[2] else ()), names=frozenset(names)
        )
        for name, names in called.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _BatchRedactor:
    """Takes erased accounts out of what others say; rooms that many messages share stay shared."""

    erasures: ErasureFilter
    aliases: Mapping[AccountName, PersonAliases]
    _rooms: dict[tuple[int, frozenset[AccountName]], IncomingRoom] = field(
        default_factory=dict[tuple[int, frozenset[AccountName]], IncomingRoom]
    )

    def redact(self, batch: Sequence[IncomingMessage]) -> list[IncomingMessage]:
        """Return messages that name nobody who is gone."""
        return [self._message(message) for message in batch]

    def _message(self, message: IncomingMessage) -> IncomingMessage:
        out = frozenset(
            name
            for name in self.erasures.accounts
            if name[0] == message.platform and self.erasures.is_erased(name, message)
        )
        if not out:
            return message
        audience = tuple(one for one in message.audience if author_name(message.platform, one) not in out)
        message = replace(message, room=self._room(message, out), audience=audience)
        for name in sorted(out):
            message = _redact_message(message, self.aliases[name])
        return message

    def _room(self, message: IncomingMessage, out: frozenset[AccountName]) -> IncomingRoom:
        room = message.room
        made = self._rooms.get((id(room), out))
        if made is None:
            members = tuple(
                one for one in room.members if author_name(message.platform, one.author) not in out
            )
            made = replace(room, members=members)
            if room.kind in PRIVATE_KINDS:
                for account in sorted(out):
                    trace = self.aliases[account]
                    topic = trace.redact_names(made.topic)
                    made = replace(made, name=without_names(made.name, trace), topic=topic)
            self._rooms[id(room), out] = made
        return made


def _redact_message(message: IncomingMessage, trace: PersonAliases) -> IncomingMessage:
    scrubber = Redactor(
        aliases=trace,
        mentions_them=trace.has_account_in(message.mentions),
        is_notice=message.kind == "system",
        author_name=message.author.name,
    )
    return replace(
        message,
        body=scrubber.text(message.body),
        mentions=tuple(scrubber.ids(message.mentions)),
        reactions=scrubber.reactions(message.reactions),
        attachments=scrubber.value(message.attachments),
        metadata=scrubber.value(message.metadata),
        raw=scrubber.value(message.raw),
    )
