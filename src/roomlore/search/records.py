"""What a search and an answer return."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from uuid import UUID

from roomlore.domain.ids import MessageId
from roomlore.domain.records import Memory, Message, Postable, Reply
from roomlore.search.query_parser import AppliedFilters

StageName = Literal["room", "memories", "history", "raw logs", "none"]
#: `empty`: there was nothing to look at; `below_bar`: nothing was good enough; `outweighed`: it was, but what was
#: said fits better and answers; `answered`: this tier answered.
StageOutcome = Literal["empty", "below_bar", "outweighed", "answered"]
#: What an answer is that quotes what it rests on; others are written by a language model, under its name.
WRITTEN_BY_QUOTING = "quotation"
SearchDegradation = Literal[
    "no embedding model",
    "one of two embedding models is unavailable",
    "not everything is embedded yet",
    "qdrant is unavailable",
    "neo4j is unavailable",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchReason:
    """Why a message was found."""

    #: 0..1, comparable within one search only.
    score: float
    #: Cosine between question and message; None if it was not among the nearest.
    similarity: float | None
    #: Share of the question's words, by rarity, that the message has; None if it shares none.
    coverage: float | None
    #: The shared words, rarest first, as stems.
    terms: Sequence[str]
    #: Mean over the question's tokens of the best cosine to any of the message's, weighted: a token counts less the
    #: closer it is to whatever else was compared (`maxsim`). Comparable within one search only; None if that was not
    #: asked, or the message was not compared.
    closeness: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """An opening message and what was replied: its messages in room order."""

    messages: Sequence[Message]
    #: For each of the messages but the opening what it stands under, which may be left out; in room order.
    replies: Sequence[Reply] = ()
    #: How many messages of a very large exchange that was found are left out; only such as the viewer may see count.
    #: None are where the history of a room is listed.
    omitted: int = 0
    #: So many characters of each text are there at most, and a mark at the end of each that is longer; None: all.
    shortened_to: int | None = None

    @property
    def root(self) -> Message:
        """The message that all others stand under, seldom not the first."""
        below = {edge.child_id for edge in self.replies}
        return next(message for message in self.messages if message.id not in below)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit(Thread):
    """One exchange that was found."""

    #: For each message that matched, why; the others came with it.
    why: dict[MessageId, MatchReason]
    room_name: str
    platform: str

    @property
    def score(self) -> float:
        """The best score of its messages."""
        return max(why.score for why in self.why.values())

    @property
    def best(self) -> Message:
        """The message that matched best."""
        best_id = max(self.why, key=lambda message_id: (self.why[message_id].score, message_id))
        return next(message for message in self.messages if message.id == best_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestrictedResult:
    """A message that recall leaves out, and the request for which it does."""

    message_id: MessageId
    wish_id: UUID
    #: forget, confide or withhold.
    kind: str
    room_name: str
    #: Who asked for it; empty where they are gone.
    author_name: str
    #: From whom; None: from everybody but those it was said to.
    from_names: Sequence[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """What a search returns: exchanges, best first, and what could not be used."""

    hits: Sequence[Hit]
    #: How sure it is that the answer is among them, 0..1; None where nothing was found or everything was wanted.
    certainty: float | None = None
    degraded: Sequence[SearchDegradation] = ()
    #: What was read out of the question: what narrowed the search, and whom it names that nobody is; None where neither.
    read: AppliedFilters | None = None
    #: What spoken requests left out of it; told to operators alone.
    withheld: Sequence[RestrictedResult] = ()
    #: In the room, where one was named and it was not asked for privately.
    postable: Postable = "nowhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedMemory:
    """A memory that fits a question, as it stands now."""

    memory: Memory
    #: Older ones that it took the place of and that fit the question, newest first.
    superseded: Sequence[Memory] = ()
    #: How well the best of them fits, 0..1.
    strength: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMatch:
    """A line of a raw log that fits a question, and where it stands."""

    #: Name of the configured folder and the file's path in it; nothing of where that folder is.
    file: str
    number: int
    #: As the line says it; empty where it does not.
    author_name: str
    text: str
    sent_at: datetime | None
    #: How well it fits, 0..1.
    strength: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTrace:
    """What one tier of the cascade saw and why it passed on."""

    tier: StageName
    candidates: int
    #: How sure the tier is of its best candidate, 0..1; None where there was none.
    best: float | None
    bar: float
    outcome: StageOutcome
    #: What was not looked at, and why; empty where everything was.
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer from what is cited, or the honest lack of one."""

    question: str
    tier: StageName
    #: The answer's text: what the cited messages say, or that nothing is known.
    text: str
    #: What it rests on, best first; empty where nothing is known.
    hits: Sequence[Hit]
    #: Memories that it rests on or that stand beside it, best first.
    memories: Sequence[MatchedMemory] = ()
    #: Lines of raw logs that it rests on, best first.
    lines: Sequence[LogMatch] = ()
    trace: Sequence[StageTrace]
    #: `quotation`, or the language model that wrote the text.
    written_by: str = WRITTEN_BY_QUOTING
    #: What the marks in a written text stand for: ids of messages and memories, or the places of lines.
    citations: Mapping[str, UUID | str] = field(default_factory=dict[str, UUID | str])
    #: Why a language model that is configured did not write it; empty where it did or none is.
    note: str = ""
    degraded: Sequence[SearchDegradation] = ()
    #: What was read out of the question: what narrowed where was looked, and whom it names that nobody is; None where
    #: neither. Of the latter the text tells, too.
    read: AppliedFilters | None = None
    #: What it would rest on, too, if no spoken request withheld it; told to operators alone.
    withheld: Sequence[RestrictedResult] = ()
    #: In the room, where one was named and it was not asked for privately.
    postable: Postable = "nowhere"

    @property
    def is_known(self) -> bool:
        """Whether there is an answer."""
        return self.tier != "none"
