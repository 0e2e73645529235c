"""Compares versions of one message: which text is current, which are history, whether it was removed.

A message's versions are told apart by when they were written: at first, or at an edit. The newest is
current and the first says how its author was called; the order of arrival does not matter. A removal is final.
A record of somebody else, of another kind or for others is no version of it, whatever its id.
"""

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

#: Why a version is left out while its message stays.
OTHER_TEXT = "same id, other text"
#: Why a record is left out that is no version of the message of its id.
OTHER_MESSAGE = "same id, other author, kind or audience"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributedMessage:
    """A record, with who says it to whom."""

    message: IncomingMessage
    author_id: ParticipantId
    audience: AbstractSet[ParticipantId]


class StoredMessage(Protocol):
    """A stored message, as far as records of it must agree with it."""

    @property
    def author_id(self) -> ParticipantId:
        """Who said it."""
        ...

    @property
    def kind(self) -> MessageKind:
        """What it is."""
        ...

    @property
    def audience(self) -> Sequence[ParticipantId]:
        """Whom a whisper is addressed to."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedVersions:
    """Records of one id: those that are versions of the stored message, and those left out."""

    own: Sequence[IncomingMessage]
    left_out: Sequence[IncomingMessage]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageChange:
    """What one or more records mean for the message that is stored."""

    message_id: MessageId
    is_redacted: bool = False
    #: The record that becomes the current text; None where it stays.
    current: IncomingMessage | None = None
    #: Texts that are history now.
    revisions: Sequence[Revision] = ()
    #: How the author was called when it was said, where only a later version had been known.
    author_name: str | None = None
    skipped: Sequence[SkippedRecord] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the record said nothing new."""
        return not (self.is_redacted or self.current or self.revisions or self.author_name or self.skipped)


def match_versions(
    stored: StoredVersion, told: Sequence[AttributedMessage], persons: Mapping[ParticipantId, UUID]
) -> MatchedVersions:
    """Return which records are versions of the stored message.

    One that names another author and says the same at the same time is the same, as another export tells it: it
    changes nothing. A removal is one whoever it names: platforms name whoever removed it, or nobody.

    Args:
        stored: The message of their id.
        told: The records.
        persons: Whose accounts participants are, of those that share a person with others.
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
    """Return whether a record has the author, the kind and the audience of a stored message."""

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
    """Return the texts that are known of a message, by when they were written."""
    return {stored.written_at: stored.body, **dict(zip(stored.earlier_at, stored.earlier, strict=True))}


def compare(stored: StoredVersion, incoming: Sequence[IncomingMessage]) -> MessageChange:
    """Return what the records change about the stored message."""
    if not stored.author_name:
        # Only a hole has none: nothing that comes again belongs there.
        return MessageChange(message_id=stored.id)
    known = _texts(stored)
    # What was said through us comes again by the clock of its platform.
    incoming = [message for message in incoming if not (stored.is_said and _is_known_text(message, known))]
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


def _first_name(
    stored: StoredVersion, incoming: Sequence[IncomingMessage], known: Mapping[datetime, str]
) -> str | None:
    """Return how the author was called by the first version, if only later ones had told so far."""
    said = [message for message in incoming if not message.deleted]
    first = min(said, key=lambda message: message.edited_at or message.sent_at, default=None)
    # What is left of a removed message does not tell which version it came with.
    told = min(known) if stored.redacted_at is None else None
    if first is None or first.author.name == stored.author_name:
        return None
    if told is None:
        return first.author.name if first.edited_at is None else None
    return first.author.name if (first.edited_at or first.sent_at) < told else None


def _source_text(message: IncomingMessage | None) -> str | None:
    """Return the text that a foreign record holds, from which the body was made."""
    raw = message.raw if message else None
    text = raw.get("text") if isinstance(raw, Mapping) else None
    return text if isinstance(text, str) else None


def _is_same_source(source: str | None, message: IncomingMessage) -> bool:
    """Return whether a message says the same in the platform's own words: only names in it read otherwise."""
    return source is not None and source == _source_text(message)


def _attachments_differ(known: str, message: IncomingMessage) -> bool:
    """Return whether only what a message carries reads otherwise, such as a preview that came later."""
    own = without_trailing_quotes(message.body)
    return bool(message.attachments and own.strip()) and own == without_trailing_quotes(known)


def skipped_conflict(message: IncomingMessage, reason: str) -> SkippedRecord:
    """Return a record as left out for the message that has its id."""
    return SkippedRecord(
        where=remove_secrets(message.where)[0] or message.external_id,
        reason=reason,
        detail=f"message {message.external_id} in {message.room.name}",
    )
