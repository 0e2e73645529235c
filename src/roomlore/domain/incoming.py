"""The neutral record. Importers emit it, and ingest accepts it.

An importer turns an export into a stream of `IncomingMessage`. For each record that it cannot read, the stream has a
`SkippedRecord`. An importer never raises an error because of one bad record. It never guesses: if the export does not
state a field, the field stays empty.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

RoomKind = Literal["dm", "group_dm", "channel", "project", "issue", "ad_hoc", "system"]
Visibility = Literal["open", "members"]
ParticipantKind = Literal["human", "agent", "system"]
MessageKind = Literal["message", "whisper", "system", "context_injection"]
TimestampPrecision = Literal["us", "ms", "s", "min"]
#: The start of a membership without a known beginning. The member was present before the records begin.
ALWAYS: None = None
#: The key in `metadata` of the platform's own facts about a message. Only operators see them.
PLATFORM_METADATA = "platform"
#: The value of the platform fact `time_zone` if neither the export nor the caller names a zone.
ASSUMED_UTC = "assumed UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingAuthor:
    """An account on a platform, together with its persona.

    One bot or webhook account may speak for several people. So (account_id, persona) identifies the author.
    """

    account_id: str
    #: The display name at the time of the message.
    name: str
    kind: ParticipantKind = "human"
    #: The speaker behind a shared webhook or bridge account; empty for an ordinary account.
    persona: str = ""
    #: True if a bridge bot relays a person from another platform.
    bridged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingMembership:
    """One period of a participant in a room. A time is None if the platform does not state it."""

    author: IncomingAuthor
    joined_at: datetime | None = ALWAYS
    left_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingRoom:
    """A room as its platform describes it."""

    external_id: str
    name: str
    #: None if the platform states an unknown kind. The room is then closed.
    kind: RoomKind | None = "channel"
    #: Who may read the room. If the platform does not say, this is None, and `domain.room_visibility` decides.
    visibility: Visibility | None = None
    topic: str = ""
    members: Sequence[IncomingMembership] = ()
    #: The server, workspace or network of the room; may be empty.
    workspace: str = ""
    #: The platform's heading above the room. It is used to assume a visibility.
    category: str = ""
    #: The project or issue of the room: an id from another system. Empty if none is stated.
    context_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingMessage:
    """One message, from any platform."""

    platform: str
    room: IncomingRoom
    #: The platform's message id, unique in (platform, room).
    external_id: str
    author: IncomingAuthor
    body: str
    #: The time has a time zone. It is stored as UTC.
    sent_at: datetime
    kind: MessageKind = "message"
    precision: TimestampPrecision = "ms"
    #: The order of messages with equal times: line number, snowflake or position.
    order: int = 0
    #: The external id of the parent message. The parent may arrive later.
    reply_to: str | None = None
    #: The external id of the first message of the thread. Being in a thread is not a reply.
    thread_root: str | None = None
    #: The readers of a whisper besides its author. If empty, nobody else may read it.
    audience: Sequence[IncomingAuthor] = ()
    #: Account ids that the platform marks as mentioned. They are never guessed from the text.
    mentions: Sequence[str] = ()
    #: Each attachment has at least {"name", "url"} if known. The texts of attachments become quoted lines below the
    #: body (`ingest/attachments.py`).
    attachments: Sequence[Mapping[str, Any]] = ()
    #: Each reaction has {"emoji", "count"} if known, and {"by": [account ids]}.
    reactions: Sequence[Mapping[str, Any]] = ()
    edited_at: datetime | None = None
    #: Whether the platform removed the content. The position stays.
    deleted: bool = False
    #: Whether the format has no message ids and this id was derived from position and content.
    synthetic_id: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    #: The original record. It is stored without secrets.
    raw: Mapping[str, Any] | str | None = None
    #: The position in the export for reports, such as "general/2016-01-05.json record 12".
    where: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedRecord:
    """A record, or some of its fields, that was not imported, with the reason."""

    #: File, and record or line number.
    where: str
    #: A short fixed phrase by which reports count: "not JSON", "no date", "no author".
    reason: str
    #: The invalid value, shortened. It never contains a secret.
    detail: str = ""


ParsedItem = IncomingMessage | SkippedRecord
