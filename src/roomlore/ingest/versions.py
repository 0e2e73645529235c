"""Compares versions of one message: which text is current, which are history, whether it was removed.

A message's versions are told apart by when they were written: at first, or at an edit. The newest is
current; the order of arrival does not matter. A removal is final.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from roomlore.domain.ids import MessageId
from roomlore.domain.incoming import IncomingMessage, Skipped
from roomlore.store.messages import Revision, StoredVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What one or more records mean for the message that is stored."""

    message_id: MessageId
    redact: bool = False
    #: The record that becomes the current text; None where it stays.
    current: IncomingMessage | None = None
    #: Texts that are history now.
    revisions: Sequence[Revision] = ()
    skipped: Sequence[Skipped] = ()

    @property
    def nothing(self) -> bool:
        """Whether the record said nothing new."""
        return not (self.redact or self.current or self.revisions or self.skipped)


def compare(stored: StoredVersion, incoming: Sequence[IncomingMessage]) -> Change:
    """Return what the records change about the stored message."""
    if stored.redacted_at is not None:
        return Change(message_id=stored.id)
    if any(message.deleted for message in incoming):
        return Change(message_id=stored.id, redact=True)
    texts = {stored.written_at: stored.body}
    records: dict[object, IncomingMessage] = {}
    skipped: list[Skipped] = []
    for message in incoming:
        written_at = message.edited_at or message.sent_at
        if texts.setdefault(written_at, message.body) == message.body:
            records.setdefault(written_at, message)
        else:
            skipped.append(
                Skipped(
                    where=message.where or message.external_id,
                    reason="same id, other text",
                    detail=f"message {message.external_id} in {message.room.name}",
                )
            )
    newest = max(texts)
    return Change(
        message_id=stored.id,
        current=records[newest] if newest != stored.written_at else None,
        revisions=[
            Revision(message_id=stored.id, written_at=written_at, body=body)
            for written_at, body in sorted(texts.items())
            if written_at != newest
        ],
        skipped=skipped,
    )
