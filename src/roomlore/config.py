"""What can be set. Read once, by the app, and passed down as values."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from roomlore.domain.errors import BadInput

DEFAULT_DATA = Path(".roomlore")
DEFAULT_ORG = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where the data lies and whose it is."""

    #: Folder of the embedded database; not used when a database is named.
    data: Path = DEFAULT_DATA
    #: URL of a PostgreSQL 15 or newer with pgvector; None starts the embedded one.
    database: str | None = None
    org: str = DEFAULT_ORG
    #: Folder with another embedding model: model.onnx and tokenizer.json.
    model: Path | None = None
    #: Folder with other PostgreSQL binaries than those that come along.
    binaries: Path | None = None

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        if not self.org.strip():
            raise BadInput("org", "must not be empty")
        if self.database is not None and not self.database.startswith(("postgres://", "postgresql://")):
            raise BadInput("database", "must be a URL like postgresql://user@host/name")

    def __repr__(self) -> str:
        """Show everything but the database URL, which may hold a password."""
        place = f"data={str(self.data)!r}" if self.database is None else "database=…"
        return f"Settings({place}, org={self.org!r})"


def from_environment(environment: Mapping[str, str] | None = None) -> Settings:
    """Return the settings that environment variables give: ROOMLORE_DATA, _DATABASE_URL, _ORG, _MODEL, _PG_BIN."""
    env = os.environ if environment is None else environment
    return Settings(
        data=Path(env.get("ROOMLORE_DATA") or DEFAULT_DATA),
        database=env.get("ROOMLORE_DATABASE_URL") or None,
        org=env.get("ROOMLORE_ORG") or DEFAULT_ORG,
        model=_folder(env.get("ROOMLORE_MODEL")),
        binaries=_folder(env.get("ROOMLORE_PG_BIN")),
    )


def _folder(value: str | None) -> Path | None:
    return Path(value) if value else None
