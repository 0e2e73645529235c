"""Privacy requests, which people state in chat to forget or restrict something, and what they cover."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from roomlore.db.privacy_requests import Position, RoomMessage
from roomlore.domain.ids import MessageId, ParticipantId

#: `forget`: hide from everybody. `confidential`: only for those present. `restrict`: hide from some people.
RequestKind = Literal["forget", "confidential", "restrict"]
#: Topics that a restriction may allow or deny.
Topic = Literal[
    "schedule", "health", "contact", "money", "credentials", "customer", "contract", "incident", "status"
]
#: The name of the detector if the rules found the request, rather than a language model.
BY_RULES = "rules"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyRequest:
    """A privacy request as the words of its message state it."""

    kind: RequestKind
    #: Whether it is about the author's previous message, or about the message it replies to.
    refers_back: bool = False
    #: Whether it is about its own message.
    is_about_itself: bool = False
    #: What the messages that it covers are about; empty if it states no subject.
    subject: str = ""
    #: The distinctive values in the request: numbers, codes, names, quotations.
    identifiers: Sequence[str] = ()
    #: Whether it reports that a request was carried out, or records one.
    is_record: bool = False
    #: For restrictions: the people from whom to hide.
    restricted_ids: frozenset[ParticipantId] = frozenset()
    #: Names that belong to nobody known yet; people with these names are added when they join.
    unresolved_names: Sequence[str] = ()
    #: Topics that the restricted people may still see.
    allowed: frozenset[Topic] = frozenset()
    #: Topics that the restricted people may not see; empty: all topics that are not allowed.
    denied: frozenset[Topic] = frozenset()
    #: Whether it covers later messages too.
    is_ongoing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestMessage:
    """A message that states a privacy request."""

    message: RoomMessage
    request: PrivacyRequest
    #: `BY_RULES`, or the name of the language model that detected it.
    detected_by: str = BY_RULES
    #: The positions in the message of what was parsed, see `storage.to_spans`. None if the request names only unknown
    #: people and waits for them.
    spans: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestScope:
    """The scope of a privacy request, resolved from the messages before it."""

    message_id: MessageId
    requester_id: ParticipantId
    kind: RequestKind
    #: The position of its message.
    position: Position
    #: Messages that are covered whatever they say.
    target_ids: frozenset[MessageId] = frozenset()
    #: Digests of values; every message that contains one of these values is covered.
    digests: frozenset[str] = frozenset()
    #: Digests of values; every message of the request's author that contains one of these values is covered.
    author_digests: frozenset[str] = frozenset()
    #: The people from whom to hide; None: everybody except `exempt_ids`.
    restricted_ids: frozenset[ParticipantId] | None = None
    exempt_ids: frozenset[ParticipantId] = frozenset()
    #: Whether it covers later messages too.
    is_ongoing: bool = False
    #: The start of an ongoing restriction; None: the beginning of the room.
    since: datetime | None = None
    allowed: frozenset[Topic] = frozenset()
    denied: frozenset[Topic] = frozenset()
    #: The authors whose messages an ongoing restriction covers; None: all.
    author_ids: frozenset[ParticipantId] | None = None
