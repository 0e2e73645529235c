"""Privacy requests: requests in chat to forget or restrict something, and what they cover."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from roomlore.db.privacy_requests import Position, RoomMessage
from roomlore.domain.ids import MessageId, ParticipantId

#: `forget`: hidden from everybody. `confide`: only for those present. `withhold`: hidden from some people.
RequestKind = Literal["forget", "confidential", "restrict"]
#: Topics that a restriction may allow or deny.
Topic = Literal[
    "schedule", "health", "contact", "money", "credentials", "customer", "contract", "incident", "status"
]
#: The detector if no language model found the request.
BY_RULES = "rules"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyRequest:
    """What a message requests, by its words alone."""

    kind: RequestKind
    #: It is about the author's previous message, or the message it replies to.
    refers_back: bool = False
    #: It is about itself.
    is_about_itself: bool = False
    #: The subject of the messages that it is about; empty if it names none.
    subject: str = ""
    #: The distinctive values that it names: numbers, codes, names, quotations.
    identifiers: Sequence[str] = ()
    #: It reports that a request was carried out, or records one.
    is_record: bool = False
    #: For restrictions: the people from whom to hide.
    restricted_ids: frozenset[ParticipantId] = frozenset()
    #: Names that match nobody yet; people with these names are added when they appear.
    unresolved_names: Sequence[str] = ()
    #: Topics that these people may still see.
    allowed: frozenset[Topic] = frozenset()
    #: Topics that they may not see; empty: everything that is not allowed.
    denied: frozenset[Topic] = frozenset()
    #: It covers later messages too.
    is_ongoing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestMessage:
    """A message that states a privacy request."""

    message: RoomMessage
    request: PrivacyRequest
    #: The rules, or the name of a language model.
    detected_by: str = BY_RULES
    #: The parsed spans of the message, see `storage.to_spans`. None: it names nobody who is known, and waits
    #: for them.
    spans: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestScope:
    """What a privacy request covers, resolved from the messages before it."""

    message_id: MessageId
    requester_id: ParticipantId
    kind: RequestKind
    #: The position of its message.
    position: Position
    #: Messages that it covers, whatever they say.
    target_ids: frozenset[MessageId] = frozenset()
    #: Digests of values: every message that repeats one is covered.
    digests: frozenset[str] = frozenset()
    #: Digests that cover only messages of its author.
    author_digests: frozenset[str] = frozenset()
    #: From whom to hide; None: from everybody except `exempt_ids`.
    restricted_ids: frozenset[ParticipantId] | None = None
    exempt_ids: frozenset[ParticipantId] = frozenset()
    #: An ongoing restriction.
    is_ongoing: bool = False
    #: The start of an ongoing restriction; None: the beginning.
    since: datetime | None = None
    allowed: frozenset[Topic] = frozenset()
    denied: frozenset[Topic] = frozenset()
    #: Whose messages an ongoing restriction covers; None: everybody's.
    author_ids: frozenset[ParticipantId] | None = None
