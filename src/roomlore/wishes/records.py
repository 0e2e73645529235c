"""What a wish is, and what it is about."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from roomlore.domain.ids import MessageId, ParticipantId
from roomlore.domain.incoming import ParticipantKind

#: Nobody is shown it any more; only those it was said to are; some are not.
WishKind = Literal["forget", "confide", "withhold"]
#: What a restriction may let through or shut out, told from general words.
Matter = Literal[
    "schedule", "health", "contact", "money", "credentials", "customer", "contract", "incident", "status"
]
#: What hears wishes where no language model does.
RULES = "rules"
#: A place in the order of a room, comparable.
Position = tuple[datetime, int, MessageId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Somebody who takes part in a room, as they are called there."""

    id: ParticipantId
    name: str
    kind: ParticipantKind = "human"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
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
class Wish:
    """What a message wishes, as far as its own words tell."""

    kind: WishKind
    #: It is about what its author said just before, or about what it answers.
    points_back: bool = False
    #: It is about its own words.
    is_about_itself: bool = False
    #: It is about what its author said about this; empty: it names nothing.
    topic: str = ""
    #: What it names that is told from everything else: numbers, codes, names, quotations.
    values: Sequence[str] = ()
    #: It tells that a wish was carried out, or puts one on record.
    is_record: bool = False
    #: From whom; of a restriction only.
    party_ids: frozenset[ParticipantId] = frozenset()
    #: From whom besides, by names that nobody bears who is known: they may still come.
    awaited: Sequence[str] = ()
    #: What these may know all the same.
    permits: frozenset[Matter] = frozenset()
    #: What these may not know; nothing: all that is not permitted.
    denies: frozenset[Matter] = frozenset()
    #: It goes on: what is said later is meant too.
    is_standing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Voice:
    """A message that voices a wish."""

    said: Said
    wish: Wish
    #: The rules, or the name of a language model.
    heard_by: str = RULES
    #: What was heard of its words, see `rows.told`; None: it names nobody who is known, and waits for them.
    told: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What a wish covers, once what was said before it is known."""

    message_id: MessageId
    wisher_id: ParticipantId
    kind: WishKind
    #: Where it was voiced.
    position: Position
    #: Messages it is about, whatever they say.
    targets: frozenset[MessageId] = frozenset()
    #: Whoever repeats one of these values is covered; as digests, never as words.
    marks: frozenset[str] = frozenset()
    #: Only its author's words are covered by these.
    own_marks: frozenset[str] = frozenset()
    #: From whom; None: from everybody but those who are spared.
    from_ids: frozenset[ParticipantId] | None = None
    spared_ids: frozenset[ParticipantId] = frozenset()
    #: A restriction that goes on, and what it lets through or shuts out.
    is_standing: bool = False
    #: So far back it reaches; None: to the beginning.
    since: datetime | None = None
    permits: frozenset[Matter] = frozenset()
    denies: frozenset[Matter] = frozenset()
    #: Whose words a standing restriction covers; None: everybody's.
    of_ids: frozenset[ParticipantId] | None = None
