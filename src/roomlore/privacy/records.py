"""What a wish is, and what it is about."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from roomlore.domain.ids import MessageId, ParticipantId
from roomlore.domain.incoming import ParticipantKind

#: Nobody is shown it any more; only those it was said to are; some are not.
RequestKind = Literal["forget", "confide", "withhold"]
#: What a restriction may let through or shut out, told from general words.
Topic = Literal[
    "schedule", "health", "contact", "money", "credentials", "customer", "contract", "incident", "status"
]
#: What hears wishes where no language model does.
BY_RULES = "rules"
#: A place in the order of a room, comparable.
Position = tuple[datetime, int, MessageId]


@dataclass(frozen=True, slots=True, kw_only=True)
class NameIndexEntry:
    """Somebody who takes part in a room, as they are called there."""

    id: ParticipantId
    name: str
    kind: ParticipantKind = "human"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenedMessage:
    """A message, as wishes look at it."""

    id: MessageId
    author_id: ParticipantId
    author_name: str
    author_kind: ParticipantKind
    body: str
    sent_at: datetime
    native_order: int
    #: What it answers by the platform's word.
    reply_to: MessageId | None = None

    @property
    def position(self) -> Position:
        """The place in the room, comparable."""
        return (self.sent_at, self.native_order, self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyRequest:
    """What a message wishes, as far as its own words tell."""

    kind: RequestKind
    #: It is about what its author said just before, or about what it answers.
    refers_back: bool = False
    #: It is about its own words.
    is_about_itself: bool = False
    #: It is about what its author said about this; empty: it names nothing.
    subject: str = ""
    #: What it names that is told from everything else: numbers, codes, names, quotations.
    identifiers: Sequence[str] = ()
    #: It tells that a wish was carried out, or puts one on record.
    is_record: bool = False
    #: From whom; of a restriction only.
    restricted_ids: frozenset[ParticipantId] = frozenset()
    #: From whom besides, by names that nobody bears who is known: they may still come.
    unresolved_names: Sequence[str] = ()
    #: What these may know all the same.
    allowed: frozenset[Topic] = frozenset()
    #: What these may not know; nothing: all that is not permitted.
    denied: frozenset[Topic] = frozenset()
    #: It goes on: what is said later is meant too.
    is_ongoing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestMessage:
    """A message that voices a wish."""

    message: ScreenedMessage
    request: PrivacyRequest
    #: The rules, or the name of a language model.
    detected_by: str = BY_RULES
    #: What was heard of its words, see `rows.told`; None: it names nobody who is known, and waits for them.
    spans: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestScope:
    """What a wish covers, once what was said before it is known."""

    message_id: MessageId
    requester_id: ParticipantId
    kind: RequestKind
    #: Where it was voiced.
    position: Position
    #: Messages it is about, whatever they say.
    target_ids: frozenset[MessageId] = frozenset()
    #: Whoever repeats one of these values is covered; as digests, never as words.
    digests: frozenset[str] = frozenset()
    #: Only its author's words are covered by these.
    author_digests: frozenset[str] = frozenset()
    #: From whom; None: from everybody but those who are spared.
    restricted_ids: frozenset[ParticipantId] | None = None
    exempt_ids: frozenset[ParticipantId] = frozenset()
    #: A restriction that goes on, and what it lets through or shuts out.
    is_ongoing: bool = False
    #: So far back it reaches; None: to the beginning.
    since: datetime | None = None
    allowed: frozenset[Topic] = frozenset()
    denied: frozenset[Topic] = frozenset()
    #: Whose words a standing restriction covers; None: everybody's.
    author_ids: frozenset[ParticipantId] | None = None
