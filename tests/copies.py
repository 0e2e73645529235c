"""What an org was told, kept in order to be put into other orgs row by row: much faster than telling it again."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

import psycopg
from psycopg import sql

from roomlore.domain.ids import OrgId
from roomlore.operations import App

Story = Callable[[App], Awaitable[Any]]
#: Of every table of orgs the columns that are written, apart from whose row it is.
COLUMNS = """
select relname::text, array_agg(attname::text order by attnum)
from pg_class join pg_attribute on attrelid = pg_class.oid
where relnamespace = 'roomlore'::regnamespace and relkind in ('r', 'p') and not relispartition
  and relname <> 'orgs' and attnum > 0 and not attisdropped and attgenerated = ''
group by relname having 'org_id' = any(array_agg(attname))
order by relname
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What was kept of one story."""

    result: Any
    #: Put the rows into an org.
    statements: tuple[sql.Composed, ...]


class Copies:
    """Stories that were told in this session; a superuser's connection keeps them in tables of its own."""

    def __init__(self, conn: psycopg.Connection) -> None:
        self._conn = conn
        self._columns: dict[str, list[str]] = dict(conn.execute(COLUMNS).fetchall())
        self._kept: dict[Story, Kept] = {}
        self._numbers = count()

    def __contains__(self, story: Story) -> bool:
        return story in self._kept

    def is_empty(self, org_id: OrgId) -> bool:
        """Return whether nothing was said, made or read in an org."""
        return not any(self._has_rows(name, org_id) for name in ("rooms", "participants", "audit_log"))

    def keep(self, story: Story, org_id: OrgId, result: Any) -> None:
        """Keep everything there is of an org, and what telling it returned."""
        assert not isinstance(result, App), "a copy has an App of its own"
        tables = [name for name in self._columns if self._has_rows(name, org_id)]
        number = next(self._numbers)
        statements = [self._keep_rows(number, name, org_id) for name in tables]
        self._kept[story] = Kept(result=result, statements=tuple(statements))

    def put(self, story: Story, org_id: OrgId) -> Any:
        """Put what was kept into an empty org, with the same ids, and return what telling it returned."""
        kept = self._kept[story]
        with self._conn.transaction():
            # The rows are consistent already, and nobody is to be told of them.
            self._conn.execute("set local session_replication_role = replica")
            for statement in kept.statements:
                self._conn.execute(statement, [org_id])
        return kept.result

    def _has_rows(self, table: str, org_id: OrgId) -> bool:
        query = sql.SQL("select 1 from roomlore.{} where org_id = %s limit 1").format(sql.Identifier(table))
        return self._conn.execute(query, [org_id]).fetchone() is not None

    def _keep_rows(self, number: int, table: str, org_id: OrgId) -> sql.Composed:
        columns = sql.SQL(", ").join(
            sql.Identifier(name) for name in self._columns[table] if name != "org_id"
        )
        names = {
            "columns": columns,
            "table": sql.Identifier(table),
            "kept": sql.Identifier(f"{number}_{table}"),
        }
        self._conn.execute(
            sql.SQL(
                "create temporary table {kept} as select {columns} from roomlore.{table} where org_id = {org}"
            ).format(org=sql.Literal(org_id), **names)
        )
        return sql.SQL(
            "insert into roomlore.{table} (org_id, {columns}) overriding system value select %s, {columns} from {kept}"
        ).format(**names)
