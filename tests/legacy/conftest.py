"""A database of another program, with the table that a bot made."""

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb

from legacy.stores import ADA, BOB, FERRY, TABLES, Store
from roomlore.db.cluster import Cluster

FIRST = """
create table v2_chat_history (
  id serial primary key,
  user_id varchar not null,
  character_name varchar not null,
  role varchar,
  content text,
  timestamp timestamptz,
  channel_id varchar,
  message_id varchar,
  user_name varchar,
  metadata jsonb
)
"""
SECOND = """
alter table v2_chat_history add column author_id text;
alter table v2_chat_history add column author_is_bot boolean default false;
alter table v2_chat_history add column reply_to_msg_id text;
create index idx_v2_chat_history_author on v2_chat_history (author_id);
create index idx_v2_chat_history_author_bot on v2_chat_history (author_id, author_is_bot);
"""


@dataclass(slots=True)
class Legacy:
    """The table, in a database of its own."""

    dsn: str
    conn: psycopg.Connection
    ids: list[int] = field(default_factory=list)

    def tell(self, *rows: Mapping[str, Any]) -> list[int]:
        """Add rows, and return their ids."""
        return [self._add(row) for row in rows]

    def _add(self, row: Mapping[str, Any]) -> int:
        values = [Jsonb(value) if isinstance(value, dict) else value for value in row.values()]
        statement = sql.SQL("insert into v2_chat_history ({}) values ({}) returning id").format(
            sql.SQL(", ").join(map(sql.Identifier, row)), sql.SQL(", ").join(sql.Placeholder() * len(row))
        )
        [(number,)] = self.conn.execute(statement, values).fetchall()
        return number

    def copy(self, columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
        """Add many rows."""
        names = sql.SQL(", ").join(map(sql.Identifier, columns))
        statement = sql.SQL("copy v2_chat_history ({}) from stdin").format(names)
        with self.conn.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        return self.conn.execute(statement.encode()).fetchall()


@pytest.fixture
def old(cluster: Cluster) -> Generator[Legacy]:
    """The table as it was before it had authors."""
    name = f"legacy_{uuid4().hex}"
    with psycopg.connect(cluster.admin_dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        dsn = make_conninfo(cluster.admin_dsn, dbname=name)
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(FIRST)
            yield Legacy(dsn, conn)
        admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@pytest.fixture
def legacy(old: Legacy) -> Legacy:
    """The table with authors."""
    old.conn.execute(SECOND)
    return old


@pytest.fixture
def store(cluster: Cluster) -> Generator[Store]:
    name = f"projects_{uuid4().hex}"
    with psycopg.connect(cluster.admin_dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        dsn = make_conninfo(cluster.admin_dsn, dbname=name)
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(TABLES)
            made = Store(dsn, conn)
            made.add("projects", id=FERRY, name="Ferry")
            made.add("agents", id=ADA, slug="ada", display_name="Ada")
            made.add("agents", id=BOB, slug="bob", display_name="Bob")
            yield made
        admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
