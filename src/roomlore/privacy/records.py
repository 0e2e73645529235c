"""Privacy requests and what they cover. With a request, people ask in chat to forget or restrict something."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from roomlore.db.privacy_requests import Position, RoomMessage
from roomlore.domain.ids import MessageId, ParticipantId

#: `forget`: hide from everybody. `confidential`: show only to people who were present. `restrict`: hide from some
#: people.
RequestKind = Literal["forget", "confidential", "restrict"]
#: Topics that a restriction may allow or deny.
Topic = Literal[
    "schedule", "health", "contact", "money", "credentials", "customer", "contract", "incident", "status"
]
#: The name of the detector if the rules, and not a language model, found the request.
BY_RULES = "rules"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyRequest:
    """A privacy request as the words of its message state it."""

    kind: RequestKind
    #: Whether the request is about the author's previous message, or about the message that it replies to.
    refers_back: bool = False
    #: Whether the request is about its own message.
    is_about_itself: bool = False
    #: The subject of the messages that the request covers; empty if the request states no subject.
    subject: str = ""
    #: The distinctive values in the request: numbers, codes, names, quotations.
    identifiers: Sequence[str] = ()
    #: Whether the message reports that a request was carried out, or records a request.
    is_record: bool = False
    #: For restrictions: the people from whom messages are hidden.
    restricted_ids: frozenset[ParticipantId] = frozenset()
    #: Names that belong to nobody who is known. People with these names are added when they join.
    unresolved_names: Sequence[str] = ()
    #: Topics that the restricted people may still see.
    allowed: frozenset[Topic] = frozenset()
    #: Topics that the restricted people may not see. If empty, this is every topic that is not allowed.
    denied: frozenset[Topic] = frozenset()
    #: Whether the request also covers later messages.
    is_ongoing: bool = False
    #: Whether a model is certain that the message states this request. Rules judge by the words instead.
    is_certain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestMessage:
    """A message that states a privacy request."""

    message: RoomMessage
    request: PrivacyRequest
    #: `BY_RULES`, or the name of the model that detected it.
    detected_by: str = BY_RULES
    #: The positions in the message of the parsed words, see `storage.to_spans`. None if the request names only unknown
    #: people and waits for them.
    spans: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestScope:
    """The scope of a privacy request, resolved from the messages before it."""

    message_id: MessageId
    requester_id: ParticipantId
    kind: RequestKind
    #: The position of the request's message.
    position: Position
    #: Messages that are covered, whatever they say.
    target_ids: frozenset[MessageId] = frozenset()
    #: Digests of values. Every message that contains one of these values is covered.
    digests: frozenset[str] = frozenset()
    #: Digests of values. Every message of the request's author that contains one of these values is covered.
    author_digests: frozenset[str] = frozenset()
    #: The people from whom messages are hidden. None means everybody except `exempt_ids`.
    restricted_ids: frozenset[ParticipantId] | None = None
    exempt_ids: frozenset[ParticipantId] = frozenset()
    #: Whether the request also covers later messages.
    is_ongoing: bool = False
    #: The start of an ongoing restriction. None means the beginning of the room.
    since: datetime | None = None
    allowed: frozenset[Topic] = frozenset()
    denied: frozenset[Topic] = frozenset()
    #: The authors whose messages an ongoing restriction covers. None means all authors.
    author_ids: frozenset[ParticipantId] | None = None
