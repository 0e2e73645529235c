"""A project store, in a database of its own."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

TABLES = """
create table projects (id uuid primary key, name text);
create table agents (id uuid primary key, slug text, display_name text);
create table project_chat_messages (
  id uuid primary key, org_id uuid not null, project_id uuid not null, author text not null, body text,
  created_at timestamptz
);
create table agent_memories (
  id uuid primary key, org_id uuid not null, agent_id uuid not null, kind text not null, date date, content text,
  created_at timestamptz not null default now()
);
create table memory_entries (
  id uuid primary key, org_id uuid not null, agent_id uuid not null, kind text not null, title text, content text,
  metadata jsonb default '{}', importance smallint default 3, confidence double precision default 0.5,
  sensitivity text default 'internal', status text default 'active', occurred_at timestamptz, expires_at timestamptz,
  source_issue text, created_at timestamptz not null default now()
);
create table memory_entry_embeddings (memory_entry_id uuid references memory_entries, chunk_text text);
create table shared_knowledge (
  id uuid primary key, org_id uuid not null, source_agent_id uuid not null, source_memory_id uuid, kind text not null,
  title text, content text, scope text default 'org', scope_teams text[] default '{}',
  quality_score double precision default 0.5, status text default 'active',
  superseded_by uuid references shared_knowledge deferrable initially deferred, occurred_at timestamptz,
  created_at timestamptz not null default now()
);
create table shared_knowledge_embeddings (shared_knowledge_id uuid references shared_knowledge, chunk_text text);
"""
NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
ORG, FERRY, PIER, ADA, BOB = (UUID(int=number) for number in range(1, 6))


@dataclass(slots=True)
class Store:
    """A project store in a database of its own."""

    dsn: str
    conn: psycopg.Connection

    def add(self, table: str, **row: Any) -> UUID:
        values = {"id": uuid4(), **({} if table in {"projects", "agents"} else {"org_id": ORG}), **row}
        statement = sql.SQL("insert into {} ({}) values ({})").format(
            sql.Identifier(table),
            sql.SQL(", ").join(map(sql.Identifier, values)),
            sql.SQL(", ").join(sql.Placeholder() * len(values)),
        )
        self.conn.execute(
            statement, [Jsonb(one) if isinstance(one, dict) else one for one in values.values()]
        )
        return values["id"]

    def say(self, author: str, body: str | None, **row: Any) -> UUID:
        return self.add(
            "project_chat_messages",
            **{"project_id": FERRY, "author": author, "body": body, "created_at": NOON} | row,
        )

    def note(self, content: str | None, **row: Any) -> UUID:
        return self.add(
            "memory_entries",
            **{"agent_id": ADA, "kind": "fact", "content": content, "occurred_at": NOON} | row,
        )

    def share(self, content: str, **row: Any) -> UUID:
        known = {"source_agent_id": ADA, "kind": "fact", "content": content, "occurred_at": NOON}
        return self.add("shared_knowledge", **known | row)
