"""Opens connections, and says in words what went wrong: never a traceback, never a password."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import LiteralString

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from roomlore.db.logins import ROLE_SETTINGS, reset_role_settings
from roomlore.db.queries import Connection
from roomlore.domain.errors import BadInput, DatabaseFull, DatabaseUnavailable

#: Seconds to wait for a server that does not answer.
CONNECT_TIMEOUT = 10
#: How a server says that it goes, comes, or has no room: connection exceptions, shutdowns, too many clients.
OUTAGE_STATES = ("08", "57P", "53300")


async def connect(dsn: str, *, options: str | None = None) -> AsyncConnection[TupleRow]:
    """Return a connection of its own, outside the pool.

    Args:
        dsn: Where, and as whom.
        options: How its session begins; as the DSN says by default.

    Raises:
        BadInput: the URL is not one.
        DatabaseUnavailable: nobody answers, or the login is refused.
    """
    with translate_errors():
        if options is None:
            return await AsyncConnection.connect(dsn, autocommit=True, connect_timeout=CONNECT_TIMEOUT)
        return await AsyncConnection.connect(
            dsn, autocommit=True, connect_timeout=CONNECT_TIMEOUT, options=options
        )


@contextmanager
def translate_errors() -> Generator[None]:
    """Turn what the driver raises about a connection into errors that say what to do."""
    try:
        yield
    except psycopg.errors.InsufficientPrivilege as error:
        raise DatabaseUnavailable(
            f"the login may not use Roomlore's tables: {first_line(error)}",
            cure="let an administrator run: grant roomlore_app to that login",
        ) from error
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable(
            f"cannot connect to the database: {first_line(error)}",
            cure="start it, or correct the URL given by --database or ROOMLORE_DATABASE_URL",
        ) from error
    except psycopg.ProgrammingError:
        # What the driver says here quotes the URL, password included.
        raise BadInput(
            "database", "not a valid URL; write special characters of the password as %XX"
        ) from None


@contextmanager
def translate_connection_errors() -> Generator[None]:
    """Turn the loss of a connection, inside the block, into the error that says so.

    Raises:
        DatabaseUnavailable: the server went away, or gives no connection; or its disk is full.
    """
    try:
        yield
    except psycopg.errors.DiskFull as error:
        raise DatabaseFull from error
    except psycopg.OperationalError as error:
        if error.sqlstate is not None and not error.sqlstate.startswith(OUTAGE_STATES):
            raise
        raise DatabaseUnavailable(
            f"lost the database: {first_line(error)}", cure="what was stored stays; run this again"
        ) from error


def first_line(error: psycopg.Error) -> str:
    """Return the first line of what the server said."""
    return str(error).strip().partition("\n")[0]


# Temporary tables come last in the search path, or one of them could stand in for a table of ours.
_SESSION_SETTINGS: dict[LiteralString, LiteralString] = {
    "search_path": "roomlore,public,pg_temp",
    "timezone": "UTC",
    "datestyle": "ISO,MDY",
    "intervalstyle": "postgres",
    "bytea_output": "hex",
    "standard_conforming_strings": "on",
    "row_security": "on",
    "default_transaction_read_only": "off",
    "default_transaction_deferrable": "off",
    "default_transaction_isolation": r"read\ committed",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    # For whom a session reads is stated by each transaction; without, it is for nobody.
    "roomlore.org": "",
    "roomlore.viewer": "",
    "roomlore.place": "",
    "roomlore.place_bounds": "",
    "roomlore.recall": "off",
    "roomlore.looking": "off",
}
#: How a session begins.
SESSION_OPTIONS = " ".join(f"-c {name}={value}" for name, value in _SESSION_SETTINGS.items())


class StaleSession(psycopg.OperationalError):
    """A session began as its role was told; the next one does not."""


async def reset_session(conn: Connection) -> bool:
    """Take back what the application's role was told to begin its sessions with; return whether it was told anything.

    As that role: each may say so of itself.
    """
    rows = await (await conn.execute(ROLE_SETTINGS)).fetchall()
    for (database,) in rows:
        await conn.execute(reset_role_settings(database))
    return bool(rows)
