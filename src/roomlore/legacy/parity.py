"""Compares a table with what Roomlore stored of it.

The database that holds the table derives author, room, day and id of each row by itself, in SQL. So a mistake in the
code that migrates does not repeat here. Both stores are counted by author, room, day and kind of author. Some random
messages are compared field by field.
"""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from roomlore.db.migrated_messages import MessageContent, MessageKey, MigratedMessage, RoomKey
from roomlore.domain.incoming import PLATFORM_METADATA
from roomlore.importers.bot_messages import OTHER_PLATFORM
from roomlore.importers.reading.fields import object_field
from roomlore.ingest.clean import ValueCleaner
from roomlore.ingest.versions import OTHER_MESSAGE, OTHER_TEXT
from roomlore.legacy.chat_history import ANSWERED, CONTRADICTION, INVALID_REPLY, fact_parameters, place_of
from roomlore.legacy.source import Row, Source

#: The number of rows that are looked up at once.
BATCH = 2_000
#: The number of messages that are compared field by field.
SAMPLE = 200
SEED = 20
#: The number of differences of each kind that a report names.
_NAMED = 20
DIMENSIONS = ("author", "room", "day", "kind")
#: Reasons of rows that are not messages. The database must find the same reason.
_ROW_REASONS = frozenset(
    {"unknown role", "no text", "no time", "no author", "no room", "id too long", CONTRADICTION}
)
#: Reasons of rows whose id another message has.
_CONFLICTS = frozenset({OTHER_MESSAGE, OTHER_TEXT})
COPY = "the same message as another row"
REMOVED = "the text was removed in Roomlore"
ELSEWHERE = "another import stored it before"
MISSING = "not in Roomlore"
OTHER_REASON = "left out for a reason that the database does not see"


class StoredMessages(Protocol):
    """Finds messages in Roomlore."""

    async def find(self, keys: Sequence[MessageKey]) -> Sequence[MigratedMessage]:
        """Return the messages with these ids."""
        ...

    async def contents(self, keys: Sequence[MessageKey]) -> Sequence[MessageContent]:
        """Return the fields of the messages with these ids."""
        ...

    async def counts(self, keys: Sequence[RoomKey]) -> Mapping[RoomKey, int]:
        """Return the number of all messages of each of these rooms."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CountDifference:
    """A value for which both stores have different counts."""

    dimension: str
    value: str
    source: int
    roomlore: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldDifference:
    """A field that differs between a row and its message."""

    row: str
    field: str
    why: str
    #: Whether Roomlore changed the field on purpose.
    is_expected: bool = False


@dataclass(slots=True, kw_only=True)
class ParityReport:
    """The comparison of both stores."""

    rows: int = 0
    #: Rows with a message of the same author, room, day and kind, or whose counts are compared.
    compared: int = 0
    #: Rows without a message of their own, by reason.
    explained: Counter[str] = field(default_factory=Counter[str])
    #: Rows that should have a message and do not, by reason.
    unexplained: Counter[str] = field(default_factory=Counter[str])
    #: The ids of some of these rows.
    unexplained_rows: list[str] = field(default_factory=list[str])
    counts: list[CountDifference] = field(default_factory=list[CountDifference])
    #: The number of values that were counted, by dimension.
    values: dict[str, int] = field(default_factory=dict[str, int])
    sampled: int = 0
    fields: list[FieldDifference] = field(default_factory=list[FieldDifference])
    #: Messages of the same rooms that are not from this table.
    other_messages: int = 0

    @property
    def is_equal(self) -> bool:
        """Whether every difference is explained."""
        return not (
            self.unexplained or self.counts or any(not difference.is_expected for difference in self.fields)
        )

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return asdict(self) | {
            "explained": dict(self.explained),
            "unexplained": dict(self.unexplained),
            "is_equal": self.is_equal,
        }


async def compare_stores(
    source: Source,
    stored: StoredMessages,
    *,
    characters: Mapping[str, str],
    left_out: Mapping[str, str],
    seed: int = SEED,
) -> ParityReport:
    """Return the differences between a table and Roomlore. `left_out` has the reason for each row without a message."""
    comparison = _Comparison(left_out=left_out, chance=random.Random(seed))  # noqa: S311  a sample, not a secret
    params = fact_parameters(characters) | {"other_platform": OTHER_PLATFORM}
    async for facts in source.stream("facts", params, size=BATCH):
        expected = [fact for fact in facts if comparison.expects(fact)]
        found = {one.key: one for one in await stored.find([_key(fact) for fact in expected])}
        for fact in expected:
            comparison.note(fact, found.get(_key(fact)))
    report = comparison.finished()
    totals = await stored.counts(sorted(comparison.rooms))
    report.other_messages = sum(totals.values()) - sum(comparison.rooms.values())
    await _compare_sample(source, stored, comparison.sample, report)
    return report


@dataclass(slots=True, kw_only=True)
class _Comparison:
    """Counts in both stores."""

    left_out: Mapping[str, str]
    chance: random.Random
    report: ParityReport = field(default_factory=ParityReport)
    #: Messages that were found, by room.
    rooms: Counter[RoomKey] = field(default_factory=Counter[RoomKey])
    sample: list[tuple[Row, MigratedMessage]] = field(default_factory=list[tuple[Row, MigratedMessage]])
    _source: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    _roomlore: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def expects(self, fact: Row) -> bool:
        """Return whether a row has a message of its own. Otherwise count the reason."""
        self.report.rows += 1
        reason = self.left_out.get(place_of(fact["id"]))
        if (fact["fault"] or reason in _ROW_REASONS) and fact["fault"] != reason:
            self._miss(fact, OTHER_REASON)
        elif reason in _CONFLICTS:
            # If the message that contradicts the row is the row's own, one of them was changed.
            return True
        elif reason is not None:
            self.report.explained[reason] += 1
        elif fact["copy"] > 1:
            self.report.explained[COPY] += 1
        else:
            return True
        return False

    def note(self, fact: Row, found: MigratedMessage | None) -> None:
        """Count a row and its message."""
        if found is None:
            self._miss(fact, MISSING)
            return
        reason = self.left_out.get(place_of(fact["id"]))
        if reason is not None and found.legacy_id != fact["id"]:
            self.report.explained[reason] += 1
            return
        self.rooms[found.platform, found.room] += 1
        if found.is_removed or found.legacy_id is None:
            self.report.explained[REMOVED if found.is_removed else ELSEWHERE] += 1
            return
        self.report.compared += 1
        source = (fact["author"], fact["room"], fact["day"], "agent" if fact["is_agent"] else "human")
        day = f"{found.sent_at.astimezone(UTC):%Y-%m-%d}"
        roomlore = (found.author or "", found.room, day, found.author_kind)
        for dimension, ours, theirs in zip(DIMENSIONS, roomlore, source, strict=True):
            self._roomlore[dimension][ours] += 1
            self._source[dimension][theirs] += 1
        self._draw(fact, found)

    def _draw(self, fact: Row, found: MigratedMessage) -> None:
        """Keep the row in the sample with the same chance as every other row."""
        if len(self.sample) < SAMPLE:
            self.sample.append((fact, found))
        elif (place := self.chance.randrange(self.report.compared)) < SAMPLE:
            self.sample[place] = (fact, found)

    def _miss(self, fact: Row, reason: str) -> None:
        self.report.unexplained[reason] += 1
        if len(self.report.unexplained_rows) < _NAMED:
            self.report.unexplained_rows.append(fact["id"])

    def finished(self) -> ParityReport:
        """Return the report with the differences of the counts."""
        for dimension in DIMENSIONS:
            source, roomlore = self._source[dimension], self._roomlore[dimension]
            self.report.values[dimension] = len(source)
            differing = [value for value in sorted(source | roomlore) if source[value] != roomlore[value]]
            self.report.counts += [
                CountDifference(
                    dimension=dimension, value=value, source=source[value], roomlore=roomlore[value]
                )
                for value in differing[:_NAMED]
            ]
        return self.report


def _key(fact: Row) -> MessageKey:
    return (fact["platform"], fact["room"], fact["external_id"])


async def _compare_sample(
    source: Source,
    stored: StoredMessages,
    sample: Sequence[tuple[Row, MigratedMessage]],
    report: ParityReport,
) -> None:
    rows = {
        row["id"]: row
        for row in await source.fetch("rows_by_id", {"ids": [fact["id"] for fact, _ in sample]})
    }
    contents = {one.key: one for one in await stored.contents([found.key for _, found in sample])}
    for fact, found in sample:
        report.sampled += 1
        report.fields += _differences(rows[fact["id"]], fact, found, contents[found.key])


def _differences(
    row: Row, fact: Row, found: MigratedMessage, content: MessageContent
) -> Iterator[FieldDifference]:
    """Yield the fields in which a row and its message differ."""
    for name, why, is_expected in (
        *_identity_differences(row, fact, found, content),
        *_content_differences(row, content),
    ):
        yield FieldDifference(row=row["id"], field=name, why=why, is_expected=is_expected)


#: The field, why it differs, and whether Roomlore changed it on purpose.
_Difference = tuple[str, str, bool]


def _identity_differences(
    row: Row, fact: Row, found: MigratedMessage, content: MessageContent
) -> Iterator[_Difference]:
    sent_at = datetime.fromisoformat(row["timestamp"])
    sent_at = sent_at.replace(tzinfo=sent_at.tzinfo or UTC)
    expected = {
        "author": (fact["author"], found.author),
        "kind": (fact["is_agent"], found.author_kind == "agent"),
        "name": (_cleaned(_name(row, fact)).strip(), content.author_name),
        "time": (sent_at, found.sent_at),
        "message id": (row["message_id"] or found.external_id, found.external_id),
        "room": (
            (row["channel_id"] or found.room, "channel" if row["channel_id"] else content.room_kind),
            (found.room, content.room_kind),
        ),
    }
    yield from (
        (name, f"{there} there, {here} here", False)
        for name, (there, here) in expected.items()
        if there != here
    )


def _content_differences(row: Row, content: MessageContent) -> Iterator[_Difference]:
    if row["content"] != content.body:
        if content.is_edited:
            yield "text", "edited since", True
        elif _cleaned(row["content"]) == content.body:
            yield "text", "secrets or unreadable characters were replaced", True
        else:
            yield "text", "another text", False
    if row["reply_to_msg_id"] not in {content.stated_parent, content.parent}:
        is_invalid = content.stated_parent is None
        yield "reply", INVALID_REPLY if is_invalid else "another parent", is_invalid
    if ValueCleaner().value(_parsed(row["metadata"])) != _kept_metadata(content):
        yield "metadata", "other metadata", False


def _name(row: Row, fact: Row) -> str:
    if row["role"] in ANSWERED:
        return row["character_name"] or fact["author"]
    is_user = fact["author"] == row["user_id"] or (row["user_id"] or "").startswith("channel_")
    return row["author_name"] or (row["user_name"] if is_user else None) or fact["author"]


def _cleaned(text: str) -> str:
    return ValueCleaner().text(text)


def _parsed(value: str | None) -> Any:
    try:
        return json.loads(value) if value else None
    except (ValueError, RecursionError):
        return value


def _kept_metadata(content: MessageContent) -> Any:
    return object_field(content.metadata or {}, PLATFORM_METADATA).get("legacy")
