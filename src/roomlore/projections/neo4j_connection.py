"""Wraps the Neo4j driver. It runs named queries in transactions, and translates every error of the driver.

The queries are in `cypher/neo4j.cypher`. Error messages quote no text of the server, which may contain an address or a
property. The extra must be installed.
"""

import asyncio
import random
import re
from collections.abc import Awaitable, Callable, Mapping
from importlib import resources
from typing import Any, LiteralString, TypeVar, cast

from neo4j import (
    AsyncDriver,
    AsyncGraphDatabase,
    AsyncManagedTransaction,
    AsyncSession,
    NotificationMinimumSeverity,
    Query,
    unit_of_work,
)
from neo4j.exceptions import (
    AuthError,
    ConfigurationError,
    ConstraintError,
    DriverError,
    Neo4jError,
    ServiceUnavailable,
    SessionExpired,
    TransientError,
)

from roomlore.domain.errors import BackendUnavailable, IndexUnavailable
from roomlore.domain.patterns import lazy_pattern
from roomlore.projections.server import RequestRefused, rebuild_hint

Result = TypeVar("Result")
Row = dict[str, Any]

_SEE = "see whether Neo4j runs where ROOMLORE_NEO4J_URL says"
_REBUILD = rebuild_hint("Neo4j")
#: The version of the properties that Roomlore writes. An index with another version counts as lost.
LAYOUT = 2
#: Attempts of a transaction if another writer interferes. The driver itself retries other failures.
_MAX_ATTEMPTS = 5
#: The number of seconds for which the driver retries while a server restarts. Its pauses add about as much again.
_RETRY_SECONDS = 5.0
_QUERY_HEADER = lazy_pattern(r"^// name: (\w+)$", re.MULTILINE)


def load_queries(
    package: str = "roomlore.projections", file: str = "cypher/neo4j.cypher"
) -> Mapping[str, str]:
    """Return the queries of a file by name."""
    text = resources.files(package).joinpath(file).read_text("utf-8")
    _, *parts = _QUERY_HEADER.split(text)
    names, bodies = parts[::2], parts[1::2]
    return {
        name: "\n".join(line for line in body.strip().splitlines() if not line.startswith("//"))
        for name, body in zip(names, bodies, strict=True)
    }


class Transaction:
    """Runs named queries within one transaction."""

    def __init__(self, transaction: AsyncManagedTransaction, texts: Mapping[str, str]) -> None:
        self._transaction = transaction
        self._texts = texts

    async def rows(
        self, name: str, parameters: Mapping[str, Any], *, words: Mapping[str, str] | None = None
    ) -> list[Row]:
        """Return the rows of a query.

        Args:
            name: Name of the query.
            parameters: Its parameters.
            words: Labels, kinds and arrows, where Cypher allows no parameter; never data.
        """
        text = self._texts[name]
        for word, value in (words or {}).items():
            text = text.replace(f"<{word}>", value)
        # Each value comes from a closed list in the code.
        result = await self._transaction.run(cast("LiteralString", text), {"layout": LAYOUT, **parameters})
        return await result.data()


class Neo4jConnection:
    """A connection to one database. It is opened on first use."""

    def __init__(
        self,
        url: str,
        *,
        user: str,
        password: str,
        database: str | None,
        seconds: float,
        queries: Mapping[str, str] | None = None,
    ) -> None:
        self._url = url
        self._auth = (user, password)
        self._database = database
        self._seconds = seconds
        self._texts = queries or load_queries()
        self._opened: AsyncDriver | None = None

    def __repr__(self) -> str:
        """Show neither address nor password."""
        return "Neo4jConnection()"

    async def close(self) -> None:
        """Close the connections."""
        driver, self._opened = self._opened, None
        if driver is not None:
            await driver.close()

    async def write_transaction(self, work: Callable[[Transaction], Awaitable[Result]]) -> Result:
        """Run a write transaction, with retries, and return its result.

        Raises:
            RequestRefused: the server rejects what is written.
            BackendUnavailable: any other failure of the server or the network.
        """

        async def run() -> Result:
            async with self._session() as session:
                return await session.execute_write(self._unit(work))

        async def run_with_retries() -> Result:
            for attempt in range(1, _MAX_ATTEMPTS):
                try:
                    return await run()
                except ConstraintError:
                    # Two writers created the same node at the same time. Now it exists.
                    await asyncio.sleep(random.uniform(0, 0.05 * 2**attempt))  # noqa: S311  spreads writers, no secret
            return await run()

        return await self._with_timeout(run_with_retries)

    async def read(self, name: str, parameters: Mapping[str, Any]) -> list[Row]:
        """Return the rows of one query in a transaction of its own."""
        return await self.read_transaction(lambda work: work.rows(name, parameters))

    async def read_transaction(self, work: Callable[[Transaction], Awaitable[Result]]) -> Result:
        """Run a read transaction and return its result."""

        async def run() -> Result:
            async with self._session() as session:
                return await session.execute_read(self._unit(work))

        return await self._with_timeout(run)

    async def define(self, name: str) -> None:
        """Create a constraint or an index of the database, unless it exists."""

        async def run() -> None:
            text = Query(cast("LiteralString", self._texts[name]), timeout=self._seconds)
            async with self._session() as session:
                await (await session.run(text)).consume()

        try:
            await self._with_timeout(run)
        except RequestRefused:
            why = "the database in Neo4j holds what was not written by Roomlore"
            raise BackendUnavailable(why, cure="give Roomlore a database of its own") from None

    def _unit(
        self, work: Callable[[Transaction], Awaitable[Result]]
    ) -> Callable[[AsyncManagedTransaction], Awaitable[Result]]:
        @unit_of_work(timeout=self._seconds)
        async def unit(transaction: AsyncManagedTransaction) -> Result:
            return await work(Transaction(transaction, self._texts))

        return unit

    def _session(self) -> AsyncSession:
        if self._opened is None:
            # The driver does not type its settings.
            self._opened = cast(
                "AsyncDriver",
                cast("Any", AsyncGraphDatabase).driver(
                    self._url,
                    auth=self._auth,
                    user_agent="roomlore",
                    connection_timeout=self._seconds,
                    connection_acquisition_timeout=self._seconds,
                    max_transaction_retry_time=min(_RETRY_SECONDS, self._seconds / 4),
                    # A label without nodes is normal.
                    notifications_min_severity=NotificationMinimumSeverity.OFF,
                    warn_notification_severity=NotificationMinimumSeverity.OFF,
                    telemetry_disabled=True,
                ),
            )
        return cast("AsyncSession", cast("Any", self._opened).session(database=self._database))

    async def _with_timeout(self, run: Callable[[], Awaitable[Result]]) -> Result:
        """Call a function within the timeout and return its result. Translate every error of the driver."""
        try:
            async with asyncio.timeout(self._seconds):
                return await run()
        except TimeoutError:
            raise _timed_out(self._seconds) from None
        except AuthError:
            cure = "see whether ROOMLORE_NEO4J_USER and ROOMLORE_NEO4J_PASSWORD are right"
            raise BackendUnavailable("Neo4j denies access", cure=cure) from None
        except (ServiceUnavailable, SessionExpired, ConfigurationError, OSError):
            raise BackendUnavailable("Neo4j cannot be reached", cure=_SEE) from None
        except Neo4jError as error:
            raise _failure(error, self._seconds) from None
        except DriverError:
            raise BackendUnavailable("the server is not Neo4j", cure=_SEE) from None
        except (ValueError, OverflowError, TypeError):
            # The driver could not send the parameters.
            raise RequestRefused("Neo4j does not take this", cure=_REBUILD) from None


def _timed_out(seconds: float) -> IndexUnavailable:
    return IndexUnavailable(f"Neo4j gave no answer within {seconds:g} seconds", cure=_SEE)


def _failure(error: Neo4jError, seconds: float) -> BackendUnavailable:
    code = error.code or ""
    if "TransactionTimedOut" in code:
        return _timed_out(seconds)
    if isinstance(error, TransientError | ConstraintError):
        return BackendUnavailable("Neo4j is overloaded", cure="try again later")
    if code.startswith(("Neo.ClientError.Statement.", "Neo.ClientError.Schema.", "Neo.ClientError.General.")):
        return RequestRefused(f"Neo4j does not take this ({code})", cure=_REBUILD)
    if code.startswith("Neo.ClientError.Security."):
        return BackendUnavailable("Neo4j does not allow this", cure="see what the user may do there")
    if code.startswith("Neo.ClientError.Database."):
        return BackendUnavailable("Neo4j has no such database", cure="see what ROOMLORE_NEO4J_DATABASE says")
    return BackendUnavailable(f"Neo4j answered {code}", cure=_SEE)
