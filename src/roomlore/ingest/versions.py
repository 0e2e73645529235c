"""Compares versions of a message: the current text, the history, and whether the message was removed."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from roomlore.db.messages import Revision, StoredVersion
from roomlore.domain.ids import MessageId, ParticipantId
from roomlore.domain.incoming import IncomingMessage, MessageKind, SkippedRecord
from roomlore.domain.rendering import without_trailing_quotes
from roomlore.ingest.secrets import remove_secrets

#: The reason for skipping a version of a message. The message itself is stored.
OTHER_TEXT = "same id, other text"
#: The reason for skipping a record that is not a version of the stored message with the same id.
OTHER_MESSAGE = "same id, other author, kind or audience"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributedMessage:
    """A record with the ids of author and audience."""

    message: IncomingMessage
    author_id: ParticipantId
    audience: AbstractSet[ParticipantId]


class StoredMessage(Protocol):
    """A stored message, with the facts that its versions must match."""

    @property
    def author_id(self) -> ParticipantId:
        """The author."""
        ...

    @property
    def kind(self) -> MessageKind:
        """The kind."""
        ...

    @property
    def audience(self) -> Sequence[ParticipantId]:
        """The audience of a whisper."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedVersions:
    """Records with one id: versions of the stored message, and other records."""

    own: Sequence[IncomingMessage]
    left_out: Sequence[IncomingMessage]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageChange:
    """The changes that records make to a stored message."""

    message_id: MessageId
    is_redacted: bool = False
    #: The new current record; None if the current record stays.
    current: IncomingMessage | None = None
    #: New history.
    revisions: Sequence[Revision] = ()
    #: The author's name at the time of the message, if only a later version was known.
    author_name: str | None = None
    skipped: Sequence[SkippedRecord] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes."""
        return not (self.is_redacted or self.current or self.revisions or self.author_name or self.skipped)


def match_versions(
    stored: StoredVersion, told: Sequence[AttributedMessage], persons: Mapping[ParticipantId, UUID]
) -> MatchedVersions:
    """Return which records are versions of the stored message.

    A record with another author but the same text and time comes from another export and changes nothing. A record that
    removes the message is always a version, whoever its author is, because platforms name the person who removed it, or
    nobody. `persons` maps participants to persons with several accounts.
    """
    own: list[IncomingMessage] = []
    left_out: list[IncomingMessage] = []
    for one in told:
        message = one.message
        if message.deleted or is_version(stored, one, persons):
            own.append(message)
        elif not _says_the_same(stored, message):
            left_out.append(message)
    return MatchedVersions(own=own, left_out=left_out)


def is_version(stored: StoredMessage, told: AttributedMessage, persons: Mapping[ParticipantId, UUID]) -> bool:
    """Return whether a record has the author, kind and audience of a stored message."""

    def person(who: ParticipantId) -> UUID:
        return persons.get(who, who)

    return (
        person(stored.author_id) == person(told.author_id)
        and stored.kind == told.message.kind
        and set(map(person, stored.audience)) == set(map(person, told.audience))
    )


def _says_the_same(stored: StoredVersion, message: IncomingMessage) -> bool:
    return _texts(stored).get(message.edited_at or message.sent_at) == message.body


def _texts(stored: StoredVersion) -> dict[datetime, str]:
    """Return the known texts of a message by time."""
    return {stored.written_at: stored.body, **dict(zip(stored.earlier_at, stored.earlier, strict=True))}


def compare(stored: StoredVersion, incoming: Sequence[IncomingMessage]) -> MessageChange:
    """Return the changes that records make to a stored message."""
    if not stored.author_name:
        # Only a tombstone has no author name. A tombstone stays as it is.
        return MessageChange(message_id=stored.id)
    known = _texts(stored)
    # The same message may come back with another clock: the platform's, or that of a store beside the platform.
    incoming = [
        message
        for message in incoming
        if not (_is_known_text(message, known) and (stored.is_said or _is_other_clock(stored, message)))
    ]
    name = _first_name(stored, incoming, known)
    removed = any(message.deleted for message in incoming)
    if removed or stored.redacted_at is not None:
        return MessageChange(message_id=stored.id, is_redacted=stored.redacted_at is None, author_name=name)
    texts, records = dict(known), dict[datetime, IncomingMessage]()
    sources = {stored.written_at: stored.source_text}
    skipped: list[SkippedRecord] = []
    for message in incoming:
        written_at = message.edited_at or message.sent_at
        if texts.setdefault(written_at, message.body) == message.body:
            records.setdefault(written_at, message)
        elif not (
            _is_same_source(sources.setdefault(written_at, _source_text(records.get(written_at))), message)
            or _attachments_differ(texts[written_at], message)
        ):
            skipped.append(skipped_conflict(message, OTHER_TEXT))
    newest = max(texts)
    return MessageChange(
        message_id=stored.id,
        author_name=name,
        current=records[newest] if newest != stored.written_at else None,
        revisions=[
            Revision(message_id=stored.id, written_at=written_at, body=body)
            for written_at, body in sorted(texts.items())
            if written_at != newest and written_at not in stored.earlier_at
        ],
        skipped=skipped,
    )


def _is_known_text(message: IncomingMessage, known: Mapping[datetime, str]) -> bool:
    return not message.deleted and message.edited_at is None and message.body in known.values()


def _is_other_clock(stored: StoredVersion, message: IncomingMessage) -> bool:
    return stored.sent_at is not None and message.sent_at != stored.sent_at


def _first_name(
    stored: StoredVersion, incoming: Sequence[IncomingMessage], known: Mapping[datetime, str]
) -> str | None:
    """Return the author's name in the first version, if only later versions were known."""
    said = [message for message in incoming if not message.deleted]
    first = min(said, key=lambda message: message.edited_at or message.sent_at, default=None)
    # A removed message does not show which version it was.
    told = min(known) if stored.redacted_at is None else None
    if first is None or first.author.name == stored.author_name:
        return None
    if told is None:
        return first.author.name if first.edited_at is None else None
    return first.author.name if (first.edited_at or first.sent_at) < told else None


def _source_text(message: IncomingMessage | None) -> str | None:
    """Return the original text from which the body was made."""
    raw = message.raw if message else None
    text = raw.get("text") if isinstance(raw, Mapping) else None
    return text if isinstance(text, str) else None


def _is_same_source(source: str | None, message: IncomingMessage) -> bool:
    """Return whether the original text is the same. In this case, only rendered names differ."""
    return source is not None and source == _source_text(message)


def _attachments_differ(known: str, message: IncomingMessage) -> bool:
    """Return whether only the attachments differ, for example because a preview arrived late."""
    own = without_trailing_quotes(message.body)
    return bool(message.attachments and own.strip()) and own == without_trailing_quotes(known)


def skipped_conflict(message: IncomingMessage, reason: str) -> SkippedRecord:
    """Return a `SkippedRecord` for a record that conflicts with the stored message of the same id."""
    return SkippedRecord(
        where=remove_secrets(message.where)[0] or message.external_id,
        reason=reason,
        detail=f"message {message.external_id} in {message.room.name}",
    )
