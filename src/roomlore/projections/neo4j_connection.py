"""Speaks to a Neo4j server by its own driver, in named queries; whatever goes wrong there has one of our names here.

Queries live in `cypher/neo4j.cypher`. No text of an answer is passed on, for it may quote an address or a property.
Needs the extra: only what has made sure of it imports this.
"""

import asyncio
import random
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib import resources
from typing import Any, LiteralString, TypeVar, cast, get_args

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
from roomlore.domain.projections import NodeLabel

Result = TypeVar("Result")
Row = dict[str, Any]

_SEE = "see whether Neo4j runs where ROOMLORE_NEO4J_URL says"
_REBUILD = "run: roomlore project rebuild neo4j"
#: How often a transaction is tried that another writer got in the way of; the driver repeats the rest by itself.
_TRIES = 5
#: For so long the driver repeats what a server did not do that is going or coming; it pauses as long again.
_REPEATING_SECONDS = 5.0
_QUERY_HEADER = lazy_pattern(r"^// name: (\w+)$", re.MULTILINE)
_LABELS: Sequence[NodeLabel] = get_args(NodeLabel)


class WriteRefused(IndexUnavailable):
    """The server does not take what it was asked to write."""


def missing_copy() -> IndexUnavailable:
    """Return the error for a copy that is not there."""
    return IndexUnavailable("the copy is gone", cure=_REBUILD)


def load_queries() -> Mapping[str, str]:
    """Return the named queries, as they are written."""
    text = resources.files("roomlore.projections").joinpath("cypher/neo4j.cypher").read_text("utf-8")
    _, *parts = _QUERY_HEADER.split(text)
    names, bodies = parts[::2], parts[1::2]
    return {name: _statement(body) for name, body in zip(names, bodies, strict=True)}


def _statement(body: str) -> str:
    return "\n".join(line for line in body.strip().splitlines() if not line.startswith("//"))


class Transaction:
    """What may be asked within one transaction."""

    def __init__(self, transaction: AsyncManagedTransaction, texts: Mapping[str, str]) -> None:
        self._transaction = transaction
        self._texts = texts

    async def rows(
        self, name: str, parameters: Mapping[str, Any], *, words: Mapping[str, str] | None = None
    ) -> list[Row]:
        """Return what a query answers.

        Args:
            name: Of the query.
            parameters: What it is asked with.
            words: What is filled in where parameters may not stand; never out of data.
        """
        text = self._texts[name]
        for word, meant in (words or {}).items():
            text = text.replace(f"<{word}>", meant)
        # Every word is one of a closed list of ours.
        result = await self._transaction.run(cast("LiteralString", text), dict(parameters))
        return await result.data()


class Neo4jConnection:
    """A connection to one database of a server, made when it is first needed."""

    def __init__(self, url: str, *, user: str, password: str, database: str | None, seconds: float) -> None:
        self._url = url
        self._auth = (user, password)
        self._database = database
        self._seconds = seconds
        self._texts = load_queries()
        self._opened: AsyncDriver | None = None

    def __repr__(self) -> str:
        """Show neither address nor password."""
        return "Wire()"

    async def close(self) -> None:
        """Give up the connections."""
        driver, self._opened = self._opened, None
        if driver is not None:
            await driver.close()

    async def write_transaction(self, asking: Callable[[Transaction], Awaitable[Result]]) -> Result:
        """Return what was done in one transaction, which may be begun again until it passes.

        Raises:
            Refused: the server does not take what it was asked to write.
            BackendUnavailable: anything else that a server or the way to it can do.
        """
        return await self._with_timeout(lambda: self._with_retries(asking))

    async def read(self, name: str, parameters: Mapping[str, Any]) -> list[Row]:
        """Return what a query answers.

        Raises:
            BackendUnavailable: whatever a server or the way to it can do.
        """

        async def ask(work: Transaction) -> list[Row]:
            return await work.rows(name, parameters)

        return await self.read_transaction(ask)

    async def read_transaction(self, asking: Callable[[Transaction], Awaitable[Result]]) -> Result:
        """Return what was read in one transaction.

        Raises:
            BackendUnavailable: whatever a server or the way to it can do.
        """

        async def run() -> Result:
            async with self._session() as session:
                return await session.execute_read(self._unit(asking))

        return await self._with_timeout(run)

    async def define(self, name: str) -> None:
        """Let a constraint or an index be there.

        Raises:
            BackendUnavailable: whatever a server or the way to it can do.
        """

        async def run() -> None:
            text = Query(cast("LiteralString", self._texts[name]), timeout=self._seconds)
            async with self._session() as session:
                await (await session.run(text)).consume()

        try:
            await self._with_timeout(run)
        except WriteRefused:
            why = "the database in Neo4j holds what was not written by Roomlore"
            raise BackendUnavailable(why, cure="give Roomlore a database of its own") from None

    async def _with_retries(self, asking: Callable[[Transaction], Awaitable[Result]]) -> Result:
        for attempt in range(1, _TRIES):
            try:
                return await self._written(asking)
            except ConstraintError:
                # Two writers made the same node at once: now it is there.
                await asyncio.sleep(random.uniform(0, 0.05 * 2**attempt))  # noqa: S311  spreads writers, guards nothing
        return await self._written(asking)

    async def _written(self, asking: Callable[[Transaction], Awaitable[Result]]) -> Result:
        async with self._session() as session:
            return await session.execute_write(self._unit(asking))

    def _unit(
        self, asking: Callable[[Transaction], Awaitable[Result]]
    ) -> Callable[[AsyncManagedTransaction], Awaitable[Result]]:
        @unit_of_work(timeout=self._seconds)
        async def unit(transaction: AsyncManagedTransaction) -> Result:
            return await asking(Transaction(transaction, self._texts))

        return unit

    def _session(self) -> AsyncSession:
        if self._opened is None:
            # Its settings are not typed.
            self._opened = cast(
                "AsyncDriver",
                cast("Any", AsyncGraphDatabase).driver(
                    self._url,
                    auth=self._auth,
                    user_agent="roomlore",
                    connection_timeout=self._seconds,
                    connection_acquisition_timeout=self._seconds,
                    max_transaction_retry_time=min(_REPEATING_SECONDS, self._seconds / 4),
                    # A label that nothing has yet is no news.
                    notifications_min_severity=NotificationMinimumSeverity.OFF,
                    warn_notification_severity=NotificationMinimumSeverity.OFF,
                    telemetry_disabled=True,
                ),
            )
        return cast("AsyncSession", cast("Any", self._opened).session(database=self._database))

    async def _with_timeout(self, run: Callable[[], Awaitable[Result]]) -> Result:
        """Return what is done in time, or raise why it is not."""
        try:
            async with asyncio.timeout(self._seconds):
                return await run()
        except TimeoutError:
            raise _timed_out(self._seconds) from None
        except AuthError:
            cure = "see whether ROOMLORE_NEO4J_USER and ROOMLORE_NEO4J_PASSWORD are right"
            raise BackendUnavailable("Neo4j refuses us", cure=cure) from None
        except (ServiceUnavailable, SessionExpired, ConfigurationError, OSError):
            raise BackendUnavailable("Neo4j cannot be reached", cure=_SEE) from None
        except Neo4jError as error:
            raise _failure(error, self._seconds) from None
        except DriverError:
            raise BackendUnavailable("what answers is not Neo4j", cure=_SEE) from None
        except (ValueError, OverflowError, TypeError):
            # What cannot even be sent.
            raise WriteRefused("Neo4j does not take this", cure=_REBUILD) from None


def _timed_out(seconds: float) -> IndexUnavailable:
    return IndexUnavailable(f"Neo4j gave no answer within {seconds:g} seconds", cure=_SEE)


def _failure(error: Neo4jError, seconds: float) -> BackendUnavailable:
    code = error.code or ""
    if "TransactionTimedOut" in code:
        return _timed_out(seconds)
    if isinstance(error, TransientError | ConstraintError):
        return BackendUnavailable("Neo4j is asked too much", cure="try again later")
    if code.startswith(("Neo.ClientError.Statement.", "Neo.ClientError.Schema.", "Neo.ClientError.General.")):
        return WriteRefused(f"Neo4j does not take this ({code})", cure=_REBUILD)
    if code.startswith("Neo.ClientError.Security."):
        return BackendUnavailable("Neo4j does not let us", cure="see what the user may do there")
    if code.startswith("Neo.ClientError.Database."):
        return BackendUnavailable("Neo4j has no such database", cure="see what ROOMLORE_NEO4J_DATABASE says")
    return BackendUnavailable(f"Neo4j answered {code}", cure=_SEE)


def label_values(label: NodeLabel) -> Mapping[str, str]:
    """Return what is filled in for a label."""
    return {"label": label, "other_labels": ":".join(one for one in _LABELS if one != label)}
