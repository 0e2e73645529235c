"""Databases of their own on the server of the tests: empty ones, and ones in which a story was told."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from roomlore.db.database import Database
from roomlore.models.fake import FakeEmbedder
from roomlore.operations import App
from roomlore.settings import Settings

#: What a backup does not hold, and what a restore adds a line to.
BESIDE = {"outbox", "projections", "heartbeats", "migrations", "audit_log"}


class Databases:
    """Makes databases as copies of others, and drops them in the end."""

    def __init__(self, admin_dsn: str) -> None:
        self._parts: dict[str, Any] = conninfo_to_dict(admin_dsn)
        self._names: list[str] = []

    def url(self, name: str, **login: str) -> str:
        """Return the URL of a database, for the administrator or another login."""
        return f"postgresql:///?{urlencode({**self._parts, 'dbname': name, **login})}"

    def make(self, template: str = "template1") -> str:
        """Make a database and return its name."""
        name = f"backups_{uuid4().hex}"
        with self._server() as conn:
            conn.execute(
                sql.SQL("create database {} template {}").format(
                    sql.Identifier(name), sql.Identifier(template)
                )
            )
        self._names.append(name)
        return name

    def drop_all(self) -> None:
        with self._server() as conn:
            for name in self._names:
                conn.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))

    def rows(self, name: str, query: str, *values: Any) -> list[Any]:
        """Return rows, or the values of the only column, as a superuser sees them."""
        options = "-c search_path=roomlore,public -c timezone=UTC"
        with psycopg.connect(self.url(name), options=options, autocommit=True) as conn:
            rows = conn.execute(query, values).fetchall()  # type: ignore[arg-type]
        return [row[0] if len(row) == 1 else row for row in rows]

    def execute(self, name: str, statement: str, *values: Any) -> None:
        with psycopg.connect(self.url(name), options="-c search_path=roomlore,public") as conn:
            conn.execute(statement, values)  # type: ignore[arg-type]

    def dump(self, name: str) -> dict[str, list[str]]:
        """Return all rows of all tables, generated columns included."""
        tables = self.rows(
            name,
            "select relname::text from pg_class where relnamespace = 'roomlore'::regnamespace"
            " and relkind in ('r', 'p') and not relispartition order by 1",
        )
        return {
            table: self.rows(name, f"select to_jsonb(t)::text from {table} as t order by 1")
            for table in tables
            if table not in BESIDE
        }

    def _server(self) -> psycopg.Connection:
        return psycopg.connect(self.url("postgres"), autocommit=True)


@asynccontextmanager
async def opened(url: str, org: str = "village") -> AsyncGenerator[App]:
    """Open the App of an org."""
    db = await Database.connect(url, size=2)
    try:
        settings = Settings(org=org, database=url)
        yield App(db=db, org_id=await db.ensure_org(org), settings=settings, _embedder=FakeEmbedder())
    finally:
        await db.close()
