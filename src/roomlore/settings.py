"""What can be set. Read once, by the app, and passed down as values."""

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from roomlore.domain.errors import BadInput
from roomlore.domain.patterns import lazy_pattern

DEFAULT_DATA = Path(".roomlore")
DEFAULT_ORG = "default"
DEFAULT_ANSWER_CALLS = 200
#: Of calls to find what is stated in conversations: for each org and day, and for each room and day.
DEFAULT_MEMORY_CALLS = 200
DEFAULT_ROOM_CALLS = 50
#: What the embedding model is called that ROOMLORE_MODEL or ROOMLORE_EMBEDDING_URL names, or that ships along.
DEFAULT_EMBEDDING = "default"
#: What other embedding models may be called.
_NAME = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
#: No embedding model gives longer vectors.
MAX_DIMENSIONS = 16_000
_VARIABLE = lazy_pattern("[A-Z_][A-Z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModelSettings:
    """A language model behind an address, and how often it may be asked."""

    #: Where its API begins, like https://host/v1; it must speak OpenAI's chat completions.
    url: str
    name: str
    #: Shown to the server, and to nobody else.
    key: str | None = field(default=None, repr=False)
    #: For each org and day, in UTC: to name conversations and to word answers.
    calls: int = DEFAULT_ANSWER_CALLS
    #: For each org and day: to find what is stated in conversations.
    memory_calls: int = DEFAULT_MEMORY_CALLS
    #: Of these, for each room and day.
    room_calls: int = DEFAULT_ROOM_CALLS

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        if not _is_plain_address(self.url):
            raise BadInput(
                "language model URL",
                "must be like https://host/v1, without an account, a query or a fragment",
            )
        if not self.name.strip():
            raise BadInput("language model name", "must not be empty; set ROOMLORE_LANGUAGE_MODEL_NAME")
        if self.key is not None and not (self.key.isascii() and self.key.isprintable()):
            raise BadInput("language model key", "must be printable ASCII; is there a line break in it?")
        if min(self.calls, self.memory_calls, self.room_calls) < 0:
            raise BadInput("language model calls", "must not be negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingSettings:
    """An embedding model behind an address, to which every message and memory is sent."""

    #: Where its API begins, like https://host/v1; it must speak OpenAI's embeddings.
    url: str
    name: str
    #: Shown to the server, and to nobody else.
    key: str | None = field(default=None, repr=False)
    #: Asked of the server; None takes vectors as long as it gives them.
    dimensions: int | None = None

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        if not _is_plain_address(self.url):
            raise BadInput(
                "embedding URL", "must be like https://host/v1, without an account, a query or a fragment"
            )
        if not self.name.strip():
            raise BadInput("embedding name", "must not be empty; set ROOMLORE_EMBEDDING_NAME")
        if self.key is not None and not (self.key.isascii() and self.key.isprintable()):
            raise BadInput("embedding key", "must be printable ASCII; is there a line break in it?")
        if self.dimensions is not None and not 0 < self.dimensions <= MAX_DIMENSIONS:
            raise BadInput("embedding dimensions", f"must be from 1 to {MAX_DIMENSIONS:,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class QdrantSettings:
    """A Qdrant server that may hold copies."""

    #: Like http://host:6333.
    url: str
    #: Shown to the server, and to nobody else.
    key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        if not _is_plain_address(self.url):
            raise BadInput(
                "Qdrant URL", "must be like http://host:6333, without an account, a query or a fragment"
            )
        if self.key is not None and not (self.key.isascii() and self.key.isprintable()):
            raise BadInput("Qdrant key", "must be printable ASCII; is there a line break in it?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Neo4jSettings:
    """A Neo4j server that may hold copies."""

    #: Like bolt://host:7687, or neo4j+s://host.
    url: str
    user: str = "neo4j"
    #: Shown to the server, and to nobody else.
    password: str = field(repr=False)
    #: None: the one that the server has for this user.
    database: str | None = None

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        if not _is_plain_address(self.url, schemes={"bolt", "bolt+s", "neo4j", "neo4j+s"}):
            raise BadInput(
                "Neo4j URL", "must be like bolt://host:7687, without an account, a query or a fragment"
            )
        if not self.user or not self.password:
            raise BadInput("Neo4j password", "is missing; set ROOMLORE_NEO4J_PASSWORD")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where the data lies and whose it is."""

    #: Folder of the embedded database; not used when a database is named.
    data: Path = DEFAULT_DATA
    #: URL of a PostgreSQL 16 or newer with pgvector; None starts the embedded one.
    database: str | None = None
    #: None is the org of the key, or the default one without a key.
    org: str | None = None
    #: Folder with another embedding model: model.onnx and tokenizer.json.
    model: Path | None = None
    #: An embedding model behind an address, in place of one in a folder; None keeps messages on this machine.
    embedding: EmbeddingSettings | None = None
    #: Other embedding models, by their names, that an org may be switched to: a folder, or a model behind an address.
    embeddings: Mapping[str, EmbeddingSettings | Path] = field(
        default_factory=dict[str, EmbeddingSettings | Path]
    )
    #: Folder with other PostgreSQL binaries than those that come along.
    binaries: Path | None = None
    #: A key names the org and decides for whom is read; None is the operator.
    key: str | None = None
    #: Names conversations, words answers and finds what is stated; None leaves all of it to words and rules, and
    #: nothing leaves this machine.
    language_model: LanguageModelSettings | None = None
    #: Where copies are kept, if an org has any; None reads and writes none.
    qdrant: QdrantSettings | None = None
    #: Where copies are kept that are walked as a graph, if an org has any; None reads and writes none.
    neo4j: Neo4jSettings | None = None
    #: Folders of logs that nobody imported, as JSON lines: where an answer is looked for last, for operators.
    raw_logs: Sequence[Path] = ()
    #: In which room such files were written, as `platform/external id`, by patterns of their names such as
    #: `logs/general-*.jsonl`; then whoever may read the room is answered from them, too.
    raw_log_rooms: Mapping[str, str] = field(default_factory=dict[str, str])
    #: What agents remember is looked up and logged for each context, and not put into it.
    shadow_blocks: bool = False

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
                    f"embedding model {name!r}", "is the one that is there without a name; choose another"
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
            if not (pattern and platform and slash and external_id):
                raise BadInput(
                    f"room of raw logs {pattern!r}", "must be like discord/1234: platform/external id"
                )

    def __repr__(self) -> str:
        """Show everything but the key, and the database URL, which may hold a password."""
        place = f"data={str(self.data)!r}" if self.database is None else "database=…"
        return f"Settings({place}, org={self.org!r})"


def from_environment(environment: Mapping[str, str] | None = None) -> Settings:
    """Return the settings that the environment gives in its ROOMLORE_… variables.

    Raises:
        BadInput: they cannot work; says which.
    """
    env = os.environ if environment is None else environment
    return Settings(
        data=Path(env.get("ROOMLORE_DATA") or DEFAULT_DATA),
        database=env.get("ROOMLORE_DATABASE_URL") or None,
        org=env.get("ROOMLORE_ORG") or None,
        model=_folder(env.get("ROOMLORE_MODEL")),
        embedding=_embedding(env),
        embeddings=_embeddings(_folder(env.get("ROOMLORE_EMBEDDINGS")), env),
        binaries=_folder(env.get("ROOMLORE_PG_BIN")),
        # An empty one, perhaps of a secret that is missing, is a key that is refused, and not the operator.
        key=env.get("ROOMLORE_KEY"),
        language_model=_language_model(env),
        qdrant=_qdrant(env),
        neo4j=_neo4j(env),
        raw_logs=[Path(part) for part in env.get("ROOMLORE_RAW_LOGS", "").split(os.pathsep) if part],
        raw_log_rooms=_raw_log_rooms(_folder(env.get("ROOMLORE_RAW_LOG_ROOMS"))),
        shadow_blocks=_flag(env, "ROOMLORE_SHADOW_BLOCKS"),
    )


def _json_object(what: str, file: Path) -> Mapping[str, object]:
    """Return the JSON object that a file holds."""
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


def _language_model(env: Mapping[str, str]) -> LanguageModelSettings | None:
    url, name = env.get("ROOMLORE_LANGUAGE_MODEL_URL"), env.get("ROOMLORE_LANGUAGE_MODEL_NAME")
    if not url:
        if name:
            raise BadInput("language model URL", "is missing; set ROOMLORE_LANGUAGE_MODEL_URL, or no name")
        return None
    key = env.get("ROOMLORE_LANGUAGE_MODEL_KEY") or None
    return LanguageModelSettings(
        url=url,
        name=name or "",
        key=key,
        calls=_call_limit(env, "ROOMLORE_LANGUAGE_MODEL_CALLS", DEFAULT_ANSWER_CALLS),
        memory_calls=_call_limit(env, "ROOMLORE_LANGUAGE_MODEL_MEMORY_CALLS", DEFAULT_MEMORY_CALLS),
        room_calls=_call_limit(env, "ROOMLORE_LANGUAGE_MODEL_ROOM_CALLS", DEFAULT_ROOM_CALLS),
    )


def _embedding(env: Mapping[str, str]) -> EmbeddingSettings | None:
    url, name = env.get("ROOMLORE_EMBEDDING_URL"), env.get("ROOMLORE_EMBEDDING_NAME")
    if not url:
        if name:
            raise BadInput("embedding URL", "is missing; set ROOMLORE_EMBEDDING_URL, or no name")
        return None
    wanted = env.get("ROOMLORE_EMBEDDING_DIMENSIONS") or None
    is_number = wanted is None or (wanted.isascii() and wanted.isdecimal() and len(wanted) <= len("16000"))
    if not is_number:
        raise BadInput("embedding dimensions", "must be a number; see ROOMLORE_EMBEDDING_DIMENSIONS")
    key = env.get("ROOMLORE_EMBEDDING_KEY") or None
    dimensions = None if wanted is None else int(wanted)
    return EmbeddingSettings(url=url, name=name or "", key=key, dimensions=dimensions)


def _embeddings(file: Path | None, env: Mapping[str, str]) -> Mapping[str, EmbeddingSettings | Path]:
    """Return the embedding models that a file names; their keys are in the environment."""
    if file is None:
        return {}
    what = f"ROOMLORE_EMBEDDINGS {str(file)!r}"
    return {
        name: _named_embedding(f"{what}: {name!r}", one, env)
        for name, one in _json_object(what, file).items()
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
    # An empty one would be sent as no key at all.
    key = env.get(variable) or None if isinstance(variable, str) else None
    if variable is not None and not _VARIABLE.fullmatch(cast(str, variable)):
        # Perhaps the key itself: it is not shown.
        raise BadInput(what, "key_from must be the name of an environment variable, like EMBEDDING_KEY")
    if variable is not None and key is None:
        raise BadInput(what, f"its key is to come from {variable}, which the environment does not have")
    length = dimensions if isinstance(dimensions, int) else None
    try:
        return EmbeddingSettings(url=url, name=name, key=key, dimensions=length)
    except BadInput as error:
        raise BadInput(what, f"{error.what} {error.why}") from None


def _qdrant(env: Mapping[str, str]) -> QdrantSettings | None:
    url, key = env.get("ROOMLORE_QDRANT_URL"), env.get("ROOMLORE_QDRANT_KEY") or None
    return QdrantSettings(url=url, key=key) if url else None


def _neo4j(env: Mapping[str, str]) -> Neo4jSettings | None:
    url = env.get("ROOMLORE_NEO4J_URL")
    if not url:
        return None
    return Neo4jSettings(
        url=url,
        user=env.get("ROOMLORE_NEO4J_USER") or "neo4j",
        password=env.get("ROOMLORE_NEO4J_PASSWORD") or "",
        database=env.get("ROOMLORE_NEO4J_DATABASE") or None,
    )


def _call_limit(env: Mapping[str, str], name: str, default: int) -> int:
    calls = env.get(name) or str(default)
    if not (calls.isascii() and calls.isdecimal() and len(calls) <= len("1000000000")):
        raise BadInput("language model calls", f"must be a number; see {name}")
    return int(calls)


def _flag(env: Mapping[str, str], name: str) -> bool:
    word = env.get(name) or "off"
    if word not in {"on", "off"}:
        raise BadInput(name, "must be on or off")
    return word == "on"


def _is_plain_address(url: str, *, schemes: Collection[str] = ("http", "https")) -> bool:
    try:
        parts = urlsplit(url)
        is_web = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    extras = (parts.username, parts.password, parts.query, parts.fragment)
    return is_web and not any(extras) and url.isascii() and url.isprintable() and " " not in url


def _folder(value: str | None) -> Path | None:
    return Path(value) if value else None
