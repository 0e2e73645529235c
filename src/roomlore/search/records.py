"""Result types of searches and of answered questions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from uuid import UUID

from roomlore.domain.ids import MessageId
from roomlore.domain.records import Memory, Message, Postable, Reply
from roomlore.search.query_parser import AppliedFilters

StageName = Literal["room", "memories", "history", "logs", "none"]
#: `empty`: no candidates. `below_threshold`: no candidate was good enough. `outweighed`: a candidate was good enough,
#: but messages fit better and answer. `answered`: this stage answered.
StageOutcome = Literal["empty", "below_threshold", "outweighed", "answered"]
#: `written_by` of an answer that quotes its sources; otherwise `written_by` is the name of a language model.
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

    #: The score, 0..1. It is comparable only within one search.
    score: float
    #: Cosine between question and message; None if the message has no vector, or if no vectors were compared.
    similarity: float | None
    #: The share of the question's words that the message contains, weighted by rarity; None if it contains none of
    #: them.
    coverage: float | None
    #: The shared words as stems, rarest first.
    terms: Sequence[str]
    #: Late-interaction score (`ranking.max_similarity`), only comparable within one search; None if the message was not
    #: compared.
    rerank_score: float | None = None
    #: The probability that the message answers the question, as the answer model reads it; None if it was not read.
    answer_probability: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """A root message and its replies, in the order of the room."""

    messages: Sequence[Message]
    #: The edge from each message except the root to its parent, in the order of the room. The parent itself may be
    #: omitted.
    replies: Sequence[Reply] = ()
    #: The number of messages of a very large thread that are left out. It counts only messages that the viewer may see.
    omitted: int = 0
    #: Longer texts are cut to this many characters and marked. None means that all texts are complete.
    shortened_to: int | None = None

    @property
    def root(self) -> Message:
        """The message at the top of the tree. Usually it is the first message."""
        children = {edge.child_id for edge in self.replies}
        return next(message for message in self.messages if message.id not in children)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit(Thread):
    """A thread that a search found."""

    #: Why each matching message matched. Messages without an entry are context.
    why: dict[MessageId, MatchReason]
    room_name: str
    platform: str

    @property
    def score(self) -> float:
        """The best score of its messages."""
        return max(why.score for why in self.why.values())

    @property
    def best(self) -> Message:
        """The message that matches best."""
        best_id = max(self.why, key=lambda message_id: (self.why[message_id].score, message_id))
        return next(message for message in self.messages if message.id == best_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestrictedResult:
    """A message that a privacy request keeps out of the result."""

    message_id: MessageId
    request_id: UUID
    #: forget, confidential or restrict.
    kind: str
    room_name: str
    #: The author of the request; empty if that person was erased.
    author_name: str
    #: The people who may not see the message. None means everybody except the exempt people.
    restricted_names: Sequence[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The result of a search."""

    #: Best first.
    hits: Sequence[Hit]
    #: The confidence that the answer is among the hits, 0..1. None without hits, or if the search only listed messages.
    confidence: float | None = None
    degraded: Sequence[SearchDegradation] = ()
    #: The filters read from the question, and unknown names in it; None if it has neither.
    applied_filters: AppliedFilters | None = None
    #: Messages that privacy requests keep out. For operators only.
    restrictions: Sequence[RestrictedResult] = ()
    #: `room` if the search named a room and was not private.
    postable: Postable = "nowhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedMemory:
    """A current memory that matches a question."""

    memory: Memory
    #: Superseded versions that also match, newest first.
    superseded: Sequence[Memory] = ()
    #: Relevance of the best matching version, 0..1.
    strength: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMatch:
    """A line of a log file that matches a question."""

    #: The name of the configured folder, and the path of the file in it. It does not reveal where the folder is.
    file: str
    number: int
    #: The author's name as the line states it; empty if the line names no author.
    author_name: str
    text: str
    sent_at: datetime | None
    #: Relevance, 0..1.
    strength: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTrace:
    """The result of one stage of the fallback chain. If the stage did not answer, it says why."""

    stage: StageName
    candidates: int
    #: The confidence in the best candidate, 0..1; None without candidates.
    best: float | None
    #: The threshold for `best`.
    threshold: float
    outcome: StageOutcome
    #: What was not searched, and why; empty if everything was searched.
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer with its sources, or the statement that no answer is known."""

    question: str
    stage: StageName
    #: What the sources say, or the statement that the answer is not known.
    text: str
    #: Cited threads, best first; empty without an answer.
    hits: Sequence[Hit]
    #: Cited or related memories, best first.
    memories: Sequence[MatchedMemory] = ()
    #: Cited log lines, best first.
    lines: Sequence[LogMatch] = ()
    trace: Sequence[StageTrace]
    #: `quotation`, or the name of the language model.
    written_by: str = WRITTEN_BY_QUOTING
    #: What each label in the text cites: the id of a message or memory, or the position of a log line.
    citations: Mapping[str, UUID | str] = field(default_factory=dict[str, UUID | str])
    #: Why the configured language model did not write the answer; empty if the model wrote it, or if no model is
    #: configured.
    note: str = ""
    degraded: Sequence[SearchDegradation] = ()
    #: The filters read from the question, and the unknown names in it. The text also states both. None if the question
    #: has neither.
    applied_filters: AppliedFilters | None = None
    #: Messages that privacy requests keep out of the answer. For operators only.
    restrictions: Sequence[RestrictedResult] = ()
    #: `room` if the question named a room and was not private.
    postable: Postable = "nowhere"

    @property
    def is_answered(self) -> bool:
        """Whether there is an answer."""
        return self.stage != "none"
