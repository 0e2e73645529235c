"""Opens connections and translates their errors, without tracebacks and passwords."""

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
#: SQL states of outages: connection exceptions, shutdowns, too many clients.
OUTAGE_STATES = ("08", "57P", "53300")


async def connect(dsn: str, *, options: str | None = None) -> AsyncConnection[TupleRow]:
    """Return a connection outside the pool, with the session options of the DSN, or with the given options."""
    with translate_errors():
        return await AsyncConnection.connect(
            dsn, autocommit=True, connect_timeout=CONNECT_TIMEOUT, options=options
        )


@contextmanager
def translate_errors() -> Generator[None]:
    """Translate connection errors of the driver that occur inside the block into errors that say what to do."""
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
        # The driver's message quotes the URL, password included.
        raise BadInput(
            "database", "not a valid URL; write special characters of the password as %XX"
        ) from None


@contextmanager
def translate_connection_errors() -> Generator[None]:
    """Translate the loss of a connection and a full disk inside the block into errors that say what to do."""
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
    """Return the first line of an error message."""
    return str(error).strip().partition("\n")[0]


# Temporary tables come last in the search path, so that none can replace one of our tables.
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
    # Each transaction sets its viewer. A transaction without a viewer sees nothing.
    "roomlore.org": "",
    "roomlore.viewer": "",
    "roomlore.destination": "",
    "roomlore.destination_bounds": "",
    "roomlore.apply_restrictions": "off",
    "roomlore.dry_run": "off",
}
#: The options of every session.
SESSION_OPTIONS = " ".join(f"-c {name}={value}" for name, value in _SESSION_SETTINGS.items())


class StaleSession(psycopg.OperationalError):
    """The session started with old settings of its role. They are reset now, so the next session is clean."""


async def reset_session(conn: Connection) -> bool:
    """Reset the session settings stored for the application role; return whether there were any.

    The connection must use the application role, because each role may change only its own settings.
    """
    rows = await (await conn.execute(ROLE_SETTINGS)).fetchall()
    for (database,) in rows:
        await conn.execute(reset_role_settings(database))
    return bool(rows)
