"""Migrates the table `v2_chat_history` in batches, and reports what was stored and what was left out."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import md5
from typing import Any

from roomlore.db.migrated_messages import MessageKey, MigratedMessage
from roomlore.domain.incoming import PLATFORM_METADATA, IncomingMessage, SkippedRecord
from roomlore.importers.reading.fields import as_object
from roomlore.ingest.accept import IngestResult
from roomlore.ingest.clean import RoomCleaner, clean, clean_room
from roomlore.legacy.chat_history import (
    ANSWERED,
    INVALID_REPLY,
    ChatHistoryReader,
)
from roomlore.legacy.parity import ParityReport
from roomlore.legacy.source import Row, Source

#: The number of rows in one transaction.
BATCH = 2_000
#: The number of ids that other rows state for a character, in a report.
_NAMED_IDS = 5
#: Called with the number of rows of each batch.
Progress = Callable[[int], None]
#: Stores a batch. None means a dry run.
Store = Callable[[Sequence[IncomingMessage]], Awaitable[IngestResult]] | None
#: Finds stored messages by their ids.
Find = Callable[[Sequence[MessageKey]], Awaitable[Sequence[MigratedMessage]]]


@dataclass(slots=True, kw_only=True)
class MigrationReport:
    """The content of a table, and what was stored."""

    source: str
    rows: int = 0
    #: Rows that are messages.
    messages: int = 0
    #: The number of rooms by kind.
    rooms: dict[str, int] = field(default_factory=dict[str, int])
    #: The number of authors by kind.
    authors: dict[str, int] = field(default_factory=dict[str, int])
    replies: int = 0
    #: Rows whose user was a channel. Their author is never the channel.
    channels_as_users: int = 0
    #: Characters without an id: the number of their rows, and the ids that other rows state.
    characters_without_id: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    skipped: list[SkippedRecord] = field(default_factory=list[SkippedRecord])
    #: Counts of added, unchanged, revised and redacted messages; None for a dry run.
    stored: dict[str, int] | None = None
    #: The comparison of both stores; None for a dry run.
    parity: ParityReport | None = None

    @property
    def left_out(self) -> Mapping[str, str]:
        """The reasons why rows were left out, by position."""
        return {one.where: one.reason for one in self.skipped if one.reason != INVALID_REPLY}

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "source": self.source,
            "rows": self.rows,
            "messages": self.messages,
            "rooms": self.rooms,
            "authors": self.authors,
            "replies": self.replies,
            "channels_as_users": self.channels_as_users,
            "characters_without_id": self.characters_without_id,
            "skipped": dict(sorted(Counter(one.reason for one in self.skipped).items())),
            "stored": self.stored,
            "parity": None if self.parity is None else self.parity.as_json(),
        }


async def migrate_rows(
    source: Source,
    characters: Mapping[str, str],
    *,
    store: Store,
    find: Find | None,
    now: datetime,
    progress: Progress,
) -> MigrationReport:
    """Store all rows in the order of their ids and return the report. Rows that are stored already change nothing."""
    accounts = await source.fetch("bot_accounts", {"answered": ANSWERED})
    stated: dict[str, set[str]] = {}
    for account in accounts:
        stated.setdefault(account["character_name"], set()).add(account["author_id"] or "")
    reader = ChatHistoryReader(characters=characters, stated_accounts=stated)
    tally = _Tally(report=MigrationReport(source=source.name), reader=reader, now=now)
    async for rows in source.stream("rows", size=BATCH):
        messages = await asyncio.to_thread(tally.read, rows)
        if store is not None and find is not None and messages:
            new = await _without_stored(messages, find)
            tally.note_unchanged(len(messages) - len(new))
            if new:
                tally.note_stored(await store(new))
        progress(len(rows))
    return tally.finished(is_dry_run=store is None)


async def _without_stored(messages: Sequence[IncomingMessage], find: Find) -> list[IncomingMessage]:
    """Return the messages that a migration has not stored as they are. Comparing all others takes much longer."""
    stored = {one.key: one for one in await find([_key(message) for message in messages])}
    return [message for message in messages if not _is_stored(message, stored.get(_key(message)))]


def _key(message: IncomingMessage) -> MessageKey:
    return (message.platform, message.room.external_id, message.external_id)


def _is_stored(message: IncomingMessage, stored: MigratedMessage | None) -> bool:
    # A reply that the row states only now must be stored.
    if message.reply_to is not None:
        return False
    facts = as_object(message.metadata.get(PLATFORM_METADATA)) or {}
    return (
        stored is not None
        and stored.legacy_id is not None
        and stored.legacy_id == facts.get("legacy_id")
        and stored.author == message.author.account_id
        and stored.author_kind == message.author.kind
        and stored.body_digest == md5(message.body.encode(), usedforsecurity=False).hexdigest()
    )


@dataclass(slots=True, kw_only=True)
class _Tally:
    """Reads rows and counts."""

    report: MigrationReport
    reader: ChatHistoryReader
    now: datetime
    _cleaner: RoomCleaner = field(default_factory=lambda: RoomCleaner(clean_room))
    _rooms: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    _authors: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    _stored: Counter[str] = field(default_factory=Counter[str])

    def read(self, rows: Sequence[Row]) -> list[IncomingMessage]:
        """Return the clean messages of rows."""
        messages: list[IncomingMessage] = []
        for row in rows:
            for item in self.reader.read(row):
                cleaned = (
                    item
                    if isinstance(item, SkippedRecord)
                    else clean(item, now=self.now, rooms=self._cleaner)
                )
                if isinstance(cleaned, SkippedRecord):
                    self.report.skipped.append(cleaned)
                else:
                    self._note(cleaned.message)
                    messages.append(cleaned.message)
        self.report.rows += len(rows)
        return messages

    def _note(self, message: IncomingMessage) -> None:
        self.report.messages += 1
        self.report.replies += message.reply_to is not None
        self._rooms[message.platform, message.room.external_id] = message.room.kind or "channel"
        key = (message.platform, message.author.account_id)
        if self._authors.get(key) != "agent":
            self._authors[key] = message.author.kind

    def note_unchanged(self, count: int) -> None:
        """Count messages that were stored before."""
        self._stored["unchanged"] += count

    def note_stored(self, accepted: IngestResult) -> None:
        """Count the result of a batch."""
        self._stored["added"] += len(accepted.added)
        self._stored["unchanged"] += accepted.unchanged
        self._stored["revised"] += accepted.revised
        self._stored["redacted"] += accepted.redacted
        self.report.skipped.extend(accepted.skipped)

    def finished(self, *, is_dry_run: bool) -> MigrationReport:
        """Return the report with all counts."""
        report = self.report
        report.rooms = dict(sorted(Counter(self._rooms.values()).items()))
        report.authors = dict(sorted(Counter(self._authors.values()).items()))
        report.channels_as_users = self.reader.channels_as_users
        report.characters_without_id = {
            character: {
                "rows": count,
                "stated": sorted(self.reader.stated_accounts.get(character, set()) - {"", character})[
                    :_NAMED_IDS
                ],
            }
            for character, count in sorted(self.reader.nameless.items())
        }
        outcomes = ("added", "unchanged", "revised", "redacted")
        report.stored = None if is_dry_run else {name: self._stored[name] for name in outcomes}
        return report
