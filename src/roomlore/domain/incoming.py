"""The neutral record: what every platform reader emits and ingest accepts.

A reader turns a foreign export into a stream of `IncomingMessage` and, for whatever it could not read,
`Skipped`. It never raises for one bad record and never guesses: what the export does not say stays empty.
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
#: What is known only about the past of an identity: present since before the records begin.
ALWAYS: None = None
#: The key of `metadata` under which stands what the platform itself says of a message. Only operators see it.
PLATFORM_METADATA = "platform"
#: What the platform's fact `time_zone` says where neither the export nor the caller names a zone.
ASSUMED_UTC = "assumed UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingAuthor:
    """One account on a platform, with the persona it speaks as.

    A bot or webhook account that speaks for several people is one identity per persona:
    the pair (account_id, persona) names the author, never the account alone.
    """

    account_id: str
    #: Display name at the time of the message.
    name: str
    kind: ParticipantKind = "human"
    #: Who a shared webhook or bridge account speaks as; empty for an ordinary account.
    persona: str = ""
    #: True where a bridge bot relays a person from another platform.
    bridged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingMembership:
    """A participant's presence in a room; None for a time that the platform does not tell."""

    author: IncomingAuthor
    joined_at: datetime | None = ALWAYS
    left_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingRoom:
    """A room as the platform names it."""

    external_id: str
    name: str
    #: None where the platform states a kind that nobody here knows: such a room is for its members.
    kind: RoomKind | None = "channel"
    #: Who may read it, as the platform says; None where it says nothing (`domain.roomaudience` then decides).
    visibility: Visibility | None = None
    topic: str = ""
    members: Sequence[IncomingMembership] = ()
    #: The server, workspace or network that the room belongs to; empty where there is none.
    workspace: str = ""
    #: The heading that the platform lists the room under; it counts when the audience has to be assumed.
    category: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingMessage:
    """One message as said, whatever platform it comes from."""

    platform: str
    room: IncomingRoom
    #: The platform's id of the message, unique in (platform, room).
    external_id: str
    author: IncomingAuthor
    body: str
    #: Aware; stored as UTC.
    sent_at: datetime
    kind: MessageKind = "message"
    precision: TimestampPrecision = "ms"
    #: Native order inside the room, for messages with the same time: line number, snowflake, position.
    order: int = 0
    #: External id of the message this one answers; kept until that message arrives.
    reply_to: str | None = None
    #: External id of the thread's first message. A thread root is not a reply to a person.
    thread_root: str | None = None
    #: Who may read a whisper besides its author. Empty means nobody else.
    audience: Sequence[IncomingAuthor] = ()
    #: Account ids named by the platform's own structure, never guessed from the text.
    mentions: Sequence[str] = ()
    #: Each at least {"name", "url"} where known; words of it become quoted lines below the body, see `ingest/attachments.py`.
    attachments: Sequence[Mapping[str, Any]] = ()
    #: Each {"emoji", "count"} where known, plus {"by": [account ids]}.
    reactions: Sequence[Mapping[str, Any]] = ()
    edited_at: datetime | None = None
    #: The platform says that the content was removed: the place is kept, the content is not.
    deleted: bool = False
    #: True where the format has no message ids and this one was made from place and content.
    synthetic_id: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    #: The foreign record as it came; stored minus secrets.
    raw: Mapping[str, Any] | str | None = None
    #: Where the record stands, for reports: "general/2016-01-05.json record 12".
    where: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedRecord:
    """A record that was left out, or fields of one, with the reason; the rest goes in."""

    #: Where it stands: file and record or line number.
    where: str
    #: A short stable phrase that a report can count: "not JSON", "no date", "no author".
    reason: str
    #: What was found, cut short; never a secret.
    detail: str = ""


#: What a reader yields.
ParsedItem = IncomingMessage | SkippedRecord
