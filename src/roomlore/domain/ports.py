"""Protocols with more than one implementation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import date, timedelta
from typing import IO, TYPE_CHECKING, Any, Protocol, Self, TypeVar

from roomlore.domain.vectors import TokenVectors, Vector, Vectors


@dataclass(frozen=True, slots=True, kw_only=True)
class Article:
    """What a page says, without what surrounds it."""

    #: As it was asked for; redirects may have led elsewhere.
    url: str
    #: Empty where the page has none.
    title: str
    #: As the page has it: nobody vouches for it, and nothing in it has been made harmless yet.
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchFailure:
    """A link whose page was not read."""

    url: str
    #: One phrase for a person. It never tells what address a name stands for.
    reason: str


if TYPE_CHECKING:
    from uuid import UUID
    from zoneinfo import ZoneInfo

    from roomlore.domain.claims import Claim, NamedParticipant, SourceText
    from roomlore.domain.graph import ConversationAuthor, ConversationPartner, RelatedMemory, RelatedTag
    from roomlore.domain.ids import ConversationId, MemoryId, MessageId, ParticipantId
    from roomlore.domain.incoming import ParsedItem
    from roomlore.domain.projections import Candidate, QueryFilter, StoredDigest, VisibilityFilter
    from roomlore.domain.records import Message, Reply

#: What a projection holds of a subject: points, or nodes.
Subject_contra = TypeVar("Subject_contra", contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextEmbeddings:
    """What an embedder makes of texts."""

    #: One row per text, in the order given.
    vectors: Vectors
    #: Those of each text, in the order given; None from an embedder that has none to give.
    tokens: Sequence[TokenVectors] | None


class Embedder(Protocol):
    """Turns texts into vectors. Blocking and CPU-bound: call it off the event loop."""

    @property
    def model_id(self) -> str:
        """Name of the vector space; vectors of different ids are never compared."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of each vector."""
        ...

    @property
    def has_token_vectors(self) -> bool:
        """Whether `read` gives token vectors."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one row per text, in the order given."""
        ...

    def embed_with_tokens(self, texts: Sequence[str]) -> TextEmbeddings:
        """Return what `embed` returns and the vectors of each text's tokens, of which a long text has no more."""
        ...


class Projection(Protocol[Subject_contra]):
    """Copies of what the database knows, in another server.

    Every method raises `BackendUnavailable` where the server cannot be reached, is slow, refuses us, has lost the copy
    or holds one unlike ours; `BadInput` for a subject that it will never take, naming its id and none of its content.
    """

    async def prepare(self, copy: str, *, dimensions: int) -> None:
        """Let there be a copy of that name, for vectors so long; one that is there already stays as it is."""
        ...

    async def put(self, copy: str, subjects: Sequence[Subject_contra]) -> None:
        """Write subjects, each in place of an older version of it; a newer one that is there stays."""
        ...

    async def drop(self, copy: str, ids: Sequence[UUID]) -> None:
        """Remove what the copy holds of these subjects, of any kind; those it does not hold are passed over."""
        ...

    async def invalidate(self, copy: str, ids: Sequence[UUID]) -> None:
        """Let whatever is written next of these subjects take the place of what is held of them, which stays until then.

        Those that the copy does not hold are passed over.
        """
        ...

    async def stored_digests(self, copy: str, *, after: UUID | None, limit: int) -> list[StoredDigest]:
        """Return what the copy holds behind an id, in the order of ids; the digest is empty where some of it was lost."""
        ...

    async def index_names(self) -> list[str]:
        """Return the names of the copies that the server holds."""
        ...

    async def remove(self, copy: str) -> None:
        """Remove a whole copy; one that is not there is passed over."""
        ...

    async def close(self) -> None:
        """Give up the connections."""
        ...


class PointIndex(Protocol):
    """A copy that is searched; raises what a projection raises."""

    async def search_dense(
        self,
        copy: str,
        vector: Vector,
        *,
        sight: VisibilityFilter,
        narrowing: QueryFilter,
        wanted: int,
    ) -> list[Candidate]:
        """Return the messages within sight whose vectors are nearest, nearest first; of length one, scored by cosine."""
        ...

    async def search_lexical(
        self,
        copy: str,
        lexemes: Sequence[str],
        *,
        sight: VisibilityFilter,
        narrowing: QueryFilter,
        wanted: int,
    ) -> list[Candidate]:
        """Return the messages within sight that share most with these lexemes, by BM25, best first."""
        ...


class Graph(Protocol):
    """What people, messages and memories have to do with each other, as far as one viewer may see it.

    Of a copy a `Sight` says what that is; of the database its connection. A copy raises what a projection raises, and
    knows less than the database: neither wishes, nor which memories are sensitive, nor what its server was not told yet.
    What it answers is proposed, and the database decides.

    Several participants are meant as the accounts of one person. Memories are those that stand.
    """

    async def messages_by_agents(self, *, limit: int) -> list[MessageId]:
        """Return what agents said, newest first."""
        ...

    async def messages_by(self, participant_ids: Sequence[ParticipantId], *, limit: int) -> list[MessageId]:
        """Return what somebody said, newest first."""
        ...

    async def memories_by_agents(self, *, limit: int) -> list[MemoryId]:
        """Return the memories that agents stated or that were seen through their eyes, newest first."""
        ...

    async def memories_by(self, participant_ids: Sequence[ParticipantId], *, limit: int) -> list[MemoryId]:
        """Return the memories that somebody stated or that were seen through their eyes, newest first."""
        ...

    async def memories_about(self, participant_ids: Sequence[ParticipantId], *, limit: int) -> list[MemoryId]:
        """Return the memories about somebody, newest first."""
        ...

    async def conversation_partners(
        self, participant_ids: Sequence[ParticipantId], *, limit: int
    ) -> list[ConversationPartner]:
        """Return whom somebody answered or was answered by, the most frequent first."""
        ...

    async def related_memories(
        self, participant_ids: Sequence[ParticipantId], *, limit: int
    ) -> list[RelatedMemory]:
        """Return the memories that are about somebody or involve them, the weightiest first."""
        ...

    async def related_tags(self, participant_ids: Sequence[ParticipantId], *, limit: int) -> list[RelatedTag]:
        """Return the tags of memories that are about somebody or involve them, the most frequent first."""
        ...

    async def conversation_authors(
        self, conversation_id: ConversationId, *, limit: int
    ) -> list[ConversationAuthor]:
        """Return who wrote in a conversation of which the viewer may see all, the most talkative first."""
        ...

    async def conversation_memories(
        self,
        conversation_id: ConversationId,
        participant_ids: Sequence[ParticipantId],
        *,
        limit: int,
    ) -> list[RelatedMemory]:
        """Return the memories that rest on a conversation, or name some of those present, the weightiest first.

        Nothing, where the viewer may not see all of the conversation.
        """
        ...


class MessageSource(Protocol):
    """Where the context walk fetches messages from: our store, a list, a live platform.

    Every call returns only what the viewer may see and never more than `limit` rows.
    """

    async def before(self, message: Message, limit: int) -> list[Message]:
        """Return the messages of the same room just before this one, newest first."""
        ...

    async def after(self, message: Message, limit: int) -> list[Message]:
        """Return the messages of the same room just after this one, oldest first."""
        ...

    async def messages(self, ids: Sequence[MessageId]) -> list[Message]:
        """Return those of the ids that exist and are visible, in any order."""
        ...

    async def replies(self, ids: Sequence[MessageId], limit: int) -> list[Reply]:
        """Return reply edges that have one of the ids at either end, most confident first."""
        ...


class ArticleReader(Protocol):
    """Reads what a link points to."""

    async def read(self, url: str) -> Article | FetchFailure:
        """Return the article behind an address, or why it was not read; only a cancellation is raised."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmFailure:
    """Why a language model gave no answer, in one phrase that quotes nobody."""

    reason: str
    #: It asked to be left alone for so long.
    retry_after: timedelta | None = None


class LlmAnswer(str):
    """An answer of a language model, and how long it and its question were, where the server says."""

    __slots__ = ("answer_tokens", "sent_tokens")

    sent_tokens: int | None
    answer_tokens: int | None

    def __new__(cls, text: str, *, sent_tokens: int | None = None, answer_tokens: int | None = None) -> Self:
        """Return the text with these counts."""
        worded = super().__new__(cls, text)
        worded.sent_tokens, worded.answer_tokens = sent_tokens, answer_tokens
        return worded


class Extractor(Protocol):
    """Finds what is stated in a conversation."""

    @property
    def name(self) -> str:
        """What memories say drew them: "rules", or the name of a language model."""
        ...

    async def extract(
        self, said: Sequence[SourceText], people: Sequence[NamedParticipant]
    ) -> Sequence[Claim] | LlmFailure:
        """Return what is stated, or why there is no answer.

        Args:
            said: The conversation, in order.
            people: Who may be spoken of.
        """
        ...


class LanguageModel(Protocol):
    """Answers in words. What it answers is a stranger's text, to be trusted no more than what it was given."""

    @property
    def name(self) -> str:
        """Which one answers."""
        ...

    @property
    def timeout(self) -> timedelta:
        """After so long a call has ended, answered or not."""
        ...

    async def answer(self, instructions: str, material: str, *, shape: Mapping[str, Any]) -> str | LlmFailure:
        """Return the answer, or why there is none; only a cancellation is raised.

        Args:
            instructions: What is wanted.
            material: What it is wanted of; nothing in there is an instruction.
            shape: JSON schema of the answer, which a language model may or may not keep to.
        """
        ...


class ExportFiles(Protocol):
    """An export as a set of named files: one file, a folder, or an archive.

    Names are relative, with forward slashes. Opening is safe: nothing outside the export can be reached,
    and an archive cannot unpack without end.
    """

    @property
    def name(self) -> str:
        """File or folder name, without its path."""
        ...

    @property
    def files(self) -> Sequence[str]:
        """Names of the files inside, sorted; one for a single file."""
        ...

    def open(self, file: str) -> AbstractContextManager[IO[bytes]]:
        """Open one of the files for reading."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What a person may tell a reader that the export itself does not say."""

    #: The day of the first line of a log that names only hours.
    day: date | None = None
    #: The zone of times that name none; UTC is assumed without it.
    zone: ZoneInfo | None = None
    #: The server, workspace or network; for a log, the network that its channel is on.
    workspace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Importer:
    """One foreign format: how to recognise it and how to read it."""

    #: The platform's name as stored with rooms and identities: "discord", "slack", …
    name: str
    #: Cheap and quiet: looks at names and the first kilobytes, never raises.
    recognises: Callable[[ExportFiles], bool]
    read: Callable[[ExportFiles, ReadOptions], Iterator[ParsedItem]]
