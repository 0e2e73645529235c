"""The two logins of the embedded cluster: the owner, and the application, which owns nothing.

Each login has a generated password in its own file, which only the user can read. Creating the logins is idempotent: if
a start was killed half-way, the next start finishes it.
"""

import contextlib
import os
import secrets
from pathlib import Path
from typing import LiteralString

import psycopg
from psycopg import pq, sql
from psycopg.conninfo import make_conninfo

from roomlore.domain.errors import DatabaseUnavailable

ADMIN = "roomlore_admin"
APP = "roomlore_app"
DATABASE = "roomlore"
#: The databases for which the application role has session settings; null: settings for all databases.
ROLE_SETTINGS: LiteralString = """
    select databases.datname
    from pg_catalog.pg_db_role_setting as told
    join pg_catalog.pg_roles as roles on roles.oid = told.setrole
    left join pg_catalog.pg_database as databases on databases.oid = told.setdatabase
    where roles.rolname = 'roomlore_app'
"""


def dsn(sockets: Path, user: str, password: str, *, database: str = DATABASE) -> str:
    """Return the connection string of one login; it holds the password and must not be shown."""
    return make_conninfo(host=str(sockets), port=5432, user=user, password=password, dbname=database)


def accepts_connections(sockets: Path) -> bool:
    """Return whether the server accepts connections. It accepts none while it starts, recovers or stops."""
    return (
        pq.PGconn.ping(make_conninfo(host=str(sockets), port=5432, connect_timeout=5).encode()) == pq.Ping.OK
    )


def write_private(file: Path, text: str) -> None:
    """Replace a file in one step. Only the user can read it. It is on disk when this function returns."""
    half = file.with_name(f"{file.name}.new")
    with contextlib.suppress(FileNotFoundError):
        half.unlink()
    descriptor = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(descriptor)
        half.replace(file)
    except OSError:
        half.unlink(missing_ok=True)
        raise


def read_or_create_password(file: Path) -> tuple[str, bool]:
    """Read the password in a file, or create it; return it, and whether it was created."""
    with contextlib.suppress(FileNotFoundError):
        if password := file.read_text(encoding="utf-8").strip():
            return password, False
    password = secrets.token_urlsafe(32)
    write_private(file, password + "\n")
    return password, True


def ensure_app(admin_dsn: str, password: str, *, renew: bool) -> None:
    """Create the application's login and the database if they are missing.

    Args:
        admin_dsn: How the owner reaches the database `postgres`.
        password: The password of the application.
        renew: Whether to set password and attributes of a login that already exists.
    """
    try:
        with psycopg.connect(admin_dsn, autocommit=True, connect_timeout=10) as conn:
            if conn.execute("select from pg_catalog.pg_roles where rolname = %s", [APP]).fetchone() is None:
                conn.execute(sql.SQL("create role {}").format(sql.Identifier(APP)))
                renew = True
            if renew:
                _set_attributes(conn, password)
            if (
                conn.execute("select from pg_catalog.pg_database where datname = %s", [DATABASE]).fetchone()
                is None
            ):
                conn.execute(sql.SQL("create database {}").format(sql.Identifier(DATABASE)))
            for (database,) in conn.execute(ROLE_SETTINGS).fetchall():
                conn.execute(reset_role_settings(database))
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable(
            f"the embedded PostgreSQL refuses us: {str(error).strip()}",
            cure=f"if the password of {ADMIN} was lost, bring its file back from a backup",
        ) from error


def reset_role_settings(database: str | None) -> sql.Composed:
    """Return the statement that resets the session settings of the application role in one database or in all."""
    where = sql.SQL("") if database is None else sql.SQL(" in database {}").format(sql.Identifier(database))
    return sql.SQL("alter role {}{} reset all").format(sql.Identifier(APP), where)


def _set_attributes(conn: psycopg.Connection, password: str) -> None:
    # The password verifier is computed here, so that the password itself never reaches the server.
    verifier = conn.pgconn.encrypt_password(password.encode(), APP.encode(), b"scram-sha-256").decode()
    conn.execute(
        sql.SQL(
            "alter role {} with login nosuperuser nobypassrls nocreatedb nocreaterole noreplication password {}"
        ).format(sql.Identifier(APP), sql.Literal(verifier))
    )
