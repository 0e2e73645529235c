"""Protocols that have several implementations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import date, timedelta
from typing import IO, TYPE_CHECKING, Any, Protocol, Self, TypeVar

from roomlore.domain.vectors import TokenVectors, Vector, Vectors


@dataclass(frozen=True, slots=True, kw_only=True)
class Article:
    """The text of a web page, without navigation and markup."""

    #: The requested address. Redirects may have led elsewhere.
    url: str
    #: May be empty.
    title: str
    #: Untrusted and not sanitised.
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchFailure:
    """A link whose page could not be read."""

    url: str
    #: A short phrase for people. It never reveals the resolved address.
    reason: str


if TYPE_CHECKING:
    from uuid import UUID
    from zoneinfo import ZoneInfo

    from roomlore.domain.claims import Claim, NamedParticipant, SourceText
    from roomlore.domain.ids import MemoryId, MessageId, ParticipantId
    from roomlore.domain.incoming import ParsedItem
    from roomlore.domain.projections import Candidate, QueryFilter, StoredDigest, VisibilityFilter
    from roomlore.domain.records import Message, Reply

#: The subject type of a projection: points or nodes.
Subject_contra = TypeVar("Subject_contra", contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextEmbeddings:
    """The vectors of texts, and the vectors of their tokens."""

    vectors: Vectors
    #: The token vectors of each text; None if the embedder has none.
    tokens: Sequence[TokenVectors] | None


class Embedder(Protocol):
    """Turns texts into vectors. Blocking and CPU-bound: call it off the event loop."""

    @property
    def model_id(self) -> str:
        """The name of the vector space. Vectors of different models are never compared."""
        ...

    @property
    def dimensions(self) -> int:
        """The length of each vector."""
        ...

    @property
    def has_token_vectors(self) -> bool:
        """Whether `embed_with_tokens` returns token vectors."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one row per text, in order."""
        ...

    def embed_with_tokens(self, texts: Sequence[str]) -> TextEmbeddings:
        """Return the result of `embed` and the token vectors of each text. A long text is truncated."""
        ...


class Projection(Protocol[Subject_contra]):
    """Indexes on another server, built from the database.

    Every method raises `BackendUnavailable` if the server cannot be reached, is slow or refuses us, or if the index is
    lost or differs from the expected one. It raises `BadInput` for a subject that the server will never accept. The
    error has the id of the subject, but not its content.
    """

    async def prepare(self, index_name: str, *, dimensions: int) -> None:
        """Create an index of this name for vectors of this length, unless it exists."""
        ...

    async def put(self, index_name: str, subjects: Sequence[Subject_contra]) -> None:
        """Write subjects. They replace older versions; newer versions stay."""
        ...

    async def drop(self, index_name: str, ids: Sequence[UUID]) -> None:
        """Remove all subjects with these ids. Unknown ids are skipped."""
        ...

    async def invalidate(self, index_name: str, ids: Sequence[UUID]) -> None:
        """Let the next write replace these subjects at any version. Until then, the subjects stay.

        Unknown ids are skipped.
        """
        ...

    async def stored_digests(self, index_name: str, *, after: UUID | None, limit: int) -> list[StoredDigest]:
        """Return the stored ids and digests after an id, in order.

        The digest is empty if the index holds only a part of the message or memory.
        """
        ...

    async def index_names(self) -> list[str]:
        """Return the names of all indexes on the server."""
        ...

    async def remove(self, index_name: str) -> None:
        """Remove an index, if it exists."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


class PointIndex(Protocol):
    """An index that can be searched. It raises the errors of `Projection`."""

    async def search_dense(
        self,
        index_name: str,
        vector: Vector,
        *,
        sight: VisibilityFilter,
        query_filter: QueryFilter,
        wanted: int,
    ) -> list[Candidate]:
        """Return the visible messages with the nearest vectors, nearest first, scored by cosine similarity."""
        ...

    async def search_lexical(
        self,
        index_name: str,
        lexemes: Sequence[str],
        *,
        sight: VisibilityFilter,
        query_filter: QueryFilter,
        wanted: int,
    ) -> list[Candidate]:
        """Return the visible messages that match the lexemes best, by BM25, best first."""
        ...


class Graph(Protocol):
    """Graph questions that an index may answer for one viewer.

    The index knows neither restrictions nor sensitive memories. So its answers are only candidates, and PostgreSQL
    decides which of the candidates are visible.
    """

    async def messages_by_agents(self, *, limit: int) -> Sequence[MessageId]:
        """Return the messages of agents, newest first."""
        ...

    async def messages_by(
        self, participant_ids: Sequence[ParticipantId], *, limit: int
    ) -> Sequence[MessageId]:
        """Return the messages of these accounts, newest first."""
        ...

    async def memories_by_agents(self, *, limit: int) -> Sequence[MemoryId]:
        """Return the memories that agents stated or observed, newest first."""
        ...


class MessageSource(Protocol):
    """The source of messages for context expansion: our database, a list, a live platform.

    Every call returns only visible messages, and at most `limit` of them.
    """

    async def before(self, message: Message, limit: int) -> list[Message]:
        """Return the messages of the room just before this one, newest first."""
        ...

    async def after(self, message: Message, limit: int) -> list[Message]:
        """Return the messages of the room just after this one, oldest first."""
        ...

    async def messages(self, ids: Sequence[MessageId]) -> list[Message]:
        """Return the visible messages among these ids, in any order."""
        ...

    async def replies(self, ids: Sequence[MessageId], limit: int) -> list[Reply]:
        """Return reply edges from or to these messages, the most confident first."""
        ...


class ArticleReader(Protocol):
    """Reads the page behind a link."""

    async def read(self, url: str) -> Article | FetchFailure:
        """Return the article, or the reason why it was not read. Never raises, except when cancelled."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmFailure:
    """Why a language model gave no answer. The phrase contains no text of messages."""

    reason: str
    #: The pause that the server asked for.
    retry_after: timedelta | None = None


class LlmAnswer(str):
    """An answer of a language model with the token counts of prompt and answer, if the server reports them."""

    __slots__ = ("answer_tokens", "sent_tokens")

    sent_tokens: int | None
    answer_tokens: int | None

    def __new__(cls, text: str, *, sent_tokens: int | None = None, answer_tokens: int | None = None) -> Self:
        """Return the text with these counts."""
        worded = super().__new__(cls, text)
        worded.sent_tokens, worded.answer_tokens = sent_tokens, answer_tokens
        return worded


class Extractor(Protocol):
    """Finds claims in a conversation."""

    @property
    def name(self) -> str:
        """The name that is stored with its memories: "message model", or the name of the language model."""
        ...

    async def extract(
        self, said: Sequence[SourceText], people: Sequence[NamedParticipant]
    ) -> Sequence[Claim] | LlmFailure:
        """Return the claims in an ordered conversation, or the reason why there are none."""
        ...


class LanguageModel(Protocol):
    """A language model. Its answers are as untrusted as its input."""

    @property
    def name(self) -> str:
        """The name of the model."""
        ...

    @property
    def timeout(self) -> timedelta:
        """The time within which every call ends."""
        ...

    async def answer(self, instructions: str, prompt: str, *, shape: Mapping[str, Any]) -> str | LlmFailure:
        """Return the answer, or the reason why there is none. Never raises, except when cancelled.

        `prompt` contains untrusted text: nothing in it is an instruction. `shape` is the JSON schema of the answer.
        The model may ignore the schema.
        """
        ...


class ExportFiles(Protocol):
    """The named files of an export: one file, a folder, or an archive.

    Names are relative, with forward slashes. Opening is safe: nothing outside the export is reachable, and
    archives have a size limit.
    """

    @property
    def name(self) -> str:
        """The name of the file or folder, without its path."""
        ...

    @property
    def files(self) -> Sequence[str]:
        """The sorted names of the files inside. A single file has one name."""
        ...

    def open(self, file: str) -> AbstractContextManager[IO[bytes]]:
        """Open one of the files for reading."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Facts that the export itself does not state."""

    #: The day of the first line, for a log that has only times of day.
    day: date | None = None
    #: The zone of times that state no zone. None means UTC.
    zone: ZoneInfo | None = None
    #: The server, workspace or network. For a log, the network of its channel.
    workspace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Importer:
    """An importer for one format: how to recognise it and how to read it."""

    #: The platform name stored with rooms and accounts: "discord", "slack", …
    name: str
    #: Looks only at names and the first kilobytes. Never raises.
    recognises: Callable[[ExportFiles], bool]
    read: Callable[[ExportFiles, ReadOptions], Iterator[ParsedItem]]
    #: Strings that files of this format contain. They rank likely formats if no importer recognises an export.
    signs: Sequence[str] = ()
