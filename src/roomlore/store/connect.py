"""Opens connections, and says in words what went wrong: never a traceback, never a password."""

from collections.abc import Generator
from contextlib import contextmanager

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

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
        return await AsyncConnection.connect(dsn, autocommit=True, connect_timeout=CONNECT_TIMEOUT, options=options)


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
