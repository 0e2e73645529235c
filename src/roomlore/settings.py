"""The settings. The App reads them once and passes them on."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from roomlore.domain.errors import BadInput
from roomlore.domain.patterns import lazy_pattern

if TYPE_CHECKING:
    from roomlore.domain.projections import GraphTexts

DEFAULT_DATA = Path(".roomlore")
DEFAULT_ORG = "default"
DEFAULT_ANSWER_CALLS = 200
#: Extraction calls, for each org and day, and for each room and day.
DEFAULT_MEMORY_CALLS, DEFAULT_ROOM_CALLS = 200, 50
#: The name of the embedding model of ROOMLORE_MODEL or ROOMLORE_EMBEDDING_URL, or the built-in one.
DEFAULT_EMBEDDING = "default"
#: No embedding model has longer vectors.
MAX_DIMENSIONS = 16_000
#: Larger batches need much memory, and longer pauses look like a stopped worker.
MAX_WORKER_BATCH, MAX_WORKER_PAUSE = 4_096, 3_600
_NAME = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_VARIABLE = lazy_pattern("[A-Z_][A-Z0-9_]*")
_API_URL = "https://host/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModelSettings:
    """A language model on a server, and how often it may be called."""

    #: The base URL of an API that speaks OpenAI's chat completions, for example https://host/v1.
    url: str
    name: str
    key: str | None = field(default=None, repr=False)
    #: For titles and answers, for each org and day in UTC.
    calls: int = DEFAULT_ANSWER_CALLS
    #: For extraction, for each org and day, and for each room and day.
    memory_calls: int = DEFAULT_MEMORY_CALLS
    room_calls: int = DEFAULT_ROOM_CALLS

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        _check_server("language model", self.url, self.key, example=_API_URL)
        if not self.name.strip():
            raise BadInput("language model name", "must not be empty; set ROOMLORE_LANGUAGE_MODEL_NAME")
        if min(self.calls, self.memory_calls, self.room_calls) < 0:
            raise BadInput("language model calls", "must not be negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingSettings:
    """An embedding model on a server, which gets every message and memory."""

    #: The base URL of an API that speaks OpenAI's embeddings, for example https://host/v1.
    url: str
    name: str
    key: str | None = field(default=None, repr=False)
    #: The length of vectors to request. None means the server's default.
    dimensions: int | None = None

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        _check_server("embedding", self.url, self.key, example=_API_URL)
        if not self.name.strip():
            raise BadInput("embedding name", "must not be empty; set ROOMLORE_EMBEDDING_NAME")
        if self.dimensions is not None and not 0 < self.dimensions <= MAX_DIMENSIONS:
            raise BadInput("embedding dimensions", f"must be from 1 to {MAX_DIMENSIONS:,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class QdrantSettings:
    """A Qdrant server for indexes."""

    #: For example http://host:6333.
    url: str
    key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        _check_server("Qdrant", self.url, self.key, example="http://host:6333")


_GRAPH_TEXTS = ("none", "memories", "all")


@dataclass(frozen=True, slots=True, kw_only=True)
class Neo4jSettings:
    """A Neo4j server for indexes."""

    #: For example bolt://host:7687, or neo4j+s://host.
    url: str
    user: str = "neo4j"
    password: str = field(repr=False)
    #: None means the user's default.
    database: str | None = None
    #: The texts in the graph: none, those of memories and their tags, or also those of messages.
    texts: "GraphTexts" = "none"

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        schemes = ("bolt", "bolt+s", "neo4j", "neo4j+s")
        _check_server("Neo4j", self.url, None, example="bolt://host:7687", schemes=schemes)
        if not self.user or not self.password:
            raise BadInput("Neo4j password", "is missing; set ROOMLORE_NEO4J_PASSWORD")
        if self.texts not in _GRAPH_TEXTS:
            raise BadInput("ROOMLORE_NEO4J_TEXTS", f"must be one of {', '.join(_GRAPH_TEXTS)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """How much the workers do at once, and how often they look for work."""

    #: The number of texts that are embedded together.
    embedding_batch: int = 256
    #: The number of conversations from which memories are extracted together.
    extraction_batch: int = 100
    #: The seconds between two looks for work that no notification announced.
    pause_seconds: float = 2.0

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        for name, size in (
            ("ROOMLORE_EMBEDDING_BATCH", self.embedding_batch),
            ("ROOMLORE_EXTRACTION_BATCH", self.extraction_batch),
        ):
            if not 1 <= size <= MAX_WORKER_BATCH:
                raise BadInput(name, f"must be from 1 to {MAX_WORKER_BATCH:,}")
        if not 0 < self.pause_seconds <= MAX_WORKER_PAUSE:
            raise BadInput(
                "ROOMLORE_WORKER_PAUSE", f"must be more than 0 and at most {MAX_WORKER_PAUSE:,} seconds"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of an App."""

    #: The folder of the embedded database, if no other database is set.
    data: Path = DEFAULT_DATA
    #: The URL of PostgreSQL 16 or newer with pgvector. None starts the embedded database.
    database: str | None = None
    #: None means the org of the key. Without a key, it means the default org.
    org: str | None = None
    #: A folder with an embedding model: model.onnx and tokenizer.json.
    model: Path | None = None
    #: An embedding model on a server, instead of a local one.
    embedding: EmbeddingSettings | None = None
    #: More embedding models by name that an org may switch to: a folder or a server.
    embeddings: Mapping[str, EmbeddingSettings | Path] = field(
        default_factory=dict[str, EmbeddingSettings | Path]
    )
    #: A folder with PostgreSQL binaries to use instead of the bundled ones.
    binaries: Path | None = None
    #: A key names the org and the viewer. Without a key, the viewer is the operator.
    key: str | None = None
    #: The language model that writes titles and answers and extracts memories. None uses rules, and nothing leaves this
    #: machine.
    language_model: LanguageModelSettings | None = None
    qdrant: QdrantSettings | None = None
    neo4j: Neo4jSettings | None = None
    #: Folders of JSON lines that were not imported. Answers are searched there last. By default, only operators get
    #: answers from them.
    raw_logs: Sequence[Path] = ()
    #: The rooms of such files, as `platform/external id`, by patterns of file names such as `logs/general-*.jsonl`. The
    #: readers of a room get answers from its files, too.
    raw_log_rooms: Mapping[str, str] = field(default_factory=dict[str, str])
    #: Whether memory sections are built and logged, but not added to contexts.
    shadow_memory_sections: bool = False
    workers: WorkerSettings = field(default_factory=WorkerSettings)

    @property
    def graph_texts(self) -> "GraphTexts":
        """The texts in the graph."""
        return self.neo4j.texts if self.neo4j is not None else "none"

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        if self.org is not None and not self.org.strip():
            raise BadInput("org", "must not be empty")
        if self.database is not None and not self.database.startswith(("postgres://", "postgresql://")):
            raise BadInput("database", "must be a URL like postgresql://user@host/name")
        if self.model is not None and self.embedding is not None:
            raise BadInput("embedding model", "ROOMLORE_MODEL and ROOMLORE_EMBEDDING_URL cannot both be set")
        for name in self.embeddings:
            if name == DEFAULT_EMBEDDING:
                raise BadInput(
                    f"embedding model {name!r}", "is the name of the default model; choose another"
                )
            if not _NAME.fullmatch(name):
                raise BadInput(
                    f"embedding model {name!r}", "must be called by up to 64 letters, digits, dots, - and _"
                )
        for pattern, room in self.raw_log_rooms.items():
            if "/" not in pattern:
                raise BadInput(
                    f"pattern of raw logs {pattern!r}", "must name the folder too, like bots/general-*.jsonl"
                )
            platform, slash, external_id = room.partition("/")
            if not (platform and slash and external_id):
                raise BadInput(
                    f"room of raw logs {pattern!r}", "must be like discord/1234: platform/external id"
                )

    def __repr__(self) -> str:
        """Hide the key, and the database URL, which may hold a password."""
        place = f"data={str(self.data)!r}" if self.database is None else "database=…"
        return f"Settings({place}, org={self.org!r})"


def from_environment(environment: Mapping[str, str] | None = None) -> Settings:
    """Return the settings of the ROOMLORE_… variables.

    Raises:
        BadInput: a value cannot work.
    """
    env = os.environ if environment is None else environment
    return Settings(
        data=Path(env.get("ROOMLORE_DATA") or DEFAULT_DATA),
        database=env.get("ROOMLORE_DATABASE_URL") or None,
        org=env.get("ROOMLORE_ORG") or None,
        model=_path(env, "ROOMLORE_MODEL"),
        embedding=_embedding(env),
        embeddings=_embeddings(_path(env, "ROOMLORE_EMBEDDINGS"), env),
        binaries=_path(env, "ROOMLORE_PG_BIN"),
        # An empty key is perhaps a missing secret. It must be refused, and must not become the operator.
        key=env.get("ROOMLORE_KEY"),
        language_model=_language_model(env),
        qdrant=QdrantSettings(url=url, key=env.get("ROOMLORE_QDRANT_KEY") or None)
        if (url := env.get("ROOMLORE_QDRANT_URL"))
        else None,
        neo4j=_neo4j(env),
        raw_logs=[Path(part) for part in env.get("ROOMLORE_RAW_LOGS", "").split(os.pathsep) if part],
        raw_log_rooms=_raw_log_rooms(_path(env, "ROOMLORE_RAW_LOG_ROOMS")),
        shadow_memory_sections=_flag(env, "ROOMLORE_SHADOW_MEMORY_SECTIONS"),
        workers=_workers(env),
    )


def _workers(env: Mapping[str, str]) -> WorkerSettings:
    default = WorkerSettings()
    embedding = _number(env, "ROOMLORE_EMBEDDING_BATCH", "batch of the embedding worker")
    extraction = _number(env, "ROOMLORE_EXTRACTION_BATCH", "batch of the extraction worker")
    return WorkerSettings(
        embedding_batch=default.embedding_batch if embedding is None else embedding,
        extraction_batch=default.extraction_batch if extraction is None else extraction,
        pause_seconds=_seconds(env, "ROOMLORE_WORKER_PAUSE", default.pause_seconds),
    )


def _seconds(env: Mapping[str, str], name: str, default: float) -> float:
    value = env.get(name)
    if not value:
        return default
    try:
        return float(value)
    except ValueError:
        raise BadInput(name, "must be a number of seconds, like 2 or 0.5") from None


def _json_object(what: str, file: Path) -> Mapping[str, object]:
    try:
        value: object = json.loads(file.read_bytes())
    except OSError as error:
        raise BadInput(what, f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise BadInput(what, "must hold a JSON object") from error
    if not isinstance(value, dict):
        raise BadInput(what, "must hold a JSON object")
    return cast(Mapping[str, object], value)


def _raw_log_rooms(file: Path | None) -> Mapping[str, str]:
    if file is None:
        return {}
    what = f"ROOMLORE_RAW_LOG_ROOMS {str(file)!r}"
    rooms = _json_object(what, file)
    if not all(isinstance(room, str) for room in rooms.values()):
        raise BadInput(what, 'must hold a JSON object like {"logs/general-*.jsonl": "discord/1234"}')
    return cast(Mapping[str, str], rooms)


def _model_server(
    env: Mapping[str, str], what: str, variables: tuple[str, str, str]
) -> tuple[str, str, str | None] | None:
    """Return the URL, name and key of a model from these variables; None without a URL."""
    url_variable, name_variable, key_variable = variables
    url, name = env.get(url_variable), env.get(name_variable)
    if url:
        return url, name or "", env.get(key_variable) or None
    if name:
        raise BadInput(f"{what} URL", f"is missing; set {url_variable}, or no name")
    return None


def _language_model(env: Mapping[str, str]) -> LanguageModelSettings | None:
    variables = "ROOMLORE_LANGUAGE_MODEL_URL", "ROOMLORE_LANGUAGE_MODEL_NAME", "ROOMLORE_LANGUAGE_MODEL_KEY"
    server = _model_server(env, "language model", variables)
    if server is None:
        return None

    def calls(variable: str, default: int) -> int:
        number = _number(env, variable, "language model calls")
        return default if number is None else number

    url, name, key = server
    return LanguageModelSettings(
        url=url,
        name=name,
        key=key,
        calls=calls("ROOMLORE_LANGUAGE_MODEL_CALLS", DEFAULT_ANSWER_CALLS),
        memory_calls=calls("ROOMLORE_LANGUAGE_MODEL_MEMORY_CALLS", DEFAULT_MEMORY_CALLS),
        room_calls=calls("ROOMLORE_LANGUAGE_MODEL_ROOM_CALLS", DEFAULT_ROOM_CALLS),
    )


def _embedding(env: Mapping[str, str]) -> EmbeddingSettings | None:
    variables = "ROOMLORE_EMBEDDING_URL", "ROOMLORE_EMBEDDING_NAME", "ROOMLORE_EMBEDDING_KEY"
    server = _model_server(env, "embedding", variables)
    if server is None:
        return None
    dimensions = _number(env, "ROOMLORE_EMBEDDING_DIMENSIONS", "embedding dimensions")
    url, name, key = server
    return EmbeddingSettings(url=url, name=name, key=key, dimensions=dimensions)


def _embeddings(file: Path | None, env: Mapping[str, str]) -> Mapping[str, EmbeddingSettings | Path]:
    """Return the embedding models in a file. The environment holds their keys."""
    if file is None:
        return {}
    what = f"ROOMLORE_EMBEDDINGS {str(file)!r}"
    return {
        name: _named_embedding(f"{what}: {name!r}", entry, env)
        for name, entry in _json_object(what, file).items()
    }


def _named_embedding(what: str, value: object, env: Mapping[str, str]) -> EmbeddingSettings | Path:
    entry = cast(Mapping[str, object], value) if isinstance(value, dict) else dict[str, object]()
    if set(entry) == {"folder"} and isinstance(entry["folder"], str) and entry["folder"]:
        return Path(entry["folder"])
    url, name, variable = entry.get("url"), entry.get("model"), entry.get("key_from")
    dimensions = entry.get("dimensions")
    is_whole = (
        set(entry) <= {"url", "model", "key_from", "dimensions"}
        and isinstance(url, str)
        and isinstance(name, str)
        and (variable is None or isinstance(variable, str))
        and (dimensions is None or type(dimensions) is int)
    )
    if not is_whole:
        raise BadInput(
            what,
            'must be {"folder": …}, or {"url": …, "model": …} and, if need be, "key_from" and "dimensions"',
        )
    assert isinstance(url, str)
    assert isinstance(name, str)
    # An empty key would be sent as no key.
    key = env.get(variable) or None if isinstance(variable, str) else None
    if variable is not None and not _VARIABLE.fullmatch(cast(str, variable)):
        # The value may be the key itself, so it is not shown.
        raise BadInput(what, "key_from must be the name of an environment variable, like EMBEDDING_KEY")
    if variable is not None and key is None:
        raise BadInput(what, f"its key is to come from {variable}, which the environment does not have")
    length = dimensions if isinstance(dimensions, int) else None
    try:
        return EmbeddingSettings(url=url, name=name, key=key, dimensions=length)
    except BadInput as error:
        raise BadInput(what, f"{error.what} {error.why}") from None


def _neo4j(env: Mapping[str, str]) -> Neo4jSettings | None:
    url = env.get("ROOMLORE_NEO4J_URL")
    if not url:
        return None
    return Neo4jSettings(
        url=url,
        user=env.get("ROOMLORE_NEO4J_USER") or "neo4j",
        password=env.get("ROOMLORE_NEO4J_PASSWORD") or "",
        database=env.get("ROOMLORE_NEO4J_DATABASE") or None,
        texts=cast("GraphTexts", env.get("ROOMLORE_NEO4J_TEXTS") or "none"),
    )


def _number(env: Mapping[str, str], name: str, what: str) -> int | None:
    value = env.get(name) or None
    if value is not None and not (value.isascii() and value.isdecimal() and len(value) <= len("1000000000")):
        raise BadInput(what, f"must be a number; see {name}")
    return None if value is None else int(value)


def _flag(env: Mapping[str, str], name: str) -> bool:
    word = env.get(name) or "off"
    if word not in {"on", "off"}:
        raise BadInput(name, "must be on or off")
    return word == "on"


def _path(env: Mapping[str, str], name: str) -> Path | None:
    return Path(value) if (value := env.get(name)) else None


def _check_server(
    what: str, url: str, key: str | None, *, example: str, schemes: Sequence[str] = ("http", "https")
) -> None:
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, is_address = urlsplit(""), False
    extras = (parts.username, parts.password, parts.query, parts.fragment)
    if not is_address or any(extras) or not (url.isascii() and url.isprintable()) or " " in url:
        raise BadInput(f"{what} URL", f"must be like {example}, without an account, a query or a fragment")
    if key is not None and not (key.isascii() and key.isprintable()):
        raise BadInput(f"{what} key", "must be printable ASCII; is there a line break in it?")
