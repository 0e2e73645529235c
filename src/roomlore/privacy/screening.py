"""Screens texts for privacy requests before a transaction begins, off the event loop.

Screening works only on text, which may be hostile. Because it runs outside transactions, it holds no lock, and other
calls continue. A text that takes too long is stored like any other text, and the worker screens it again.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from roomlore.db import work_queue
from roomlore.db.queries import Connection
from roomlore.domain.ids import MessageId, OrgId
from roomlore.privacy.recogniser import may_hold_request

#: The time limit of one text. Most texts take less than a millisecond.
TEXT_TIMEOUT = 10.0
#: Whether each text may state a privacy request; None if its screening timed out.
Screened = Mapping[str, bool | None]
NOTHING_SCREENED: Screened = MappingProxyType({})

LOG = logging.getLogger(__name__)


async def screen(texts: Iterable[str], known: Screened = NOTHING_SCREENED) -> dict[str, bool | None]:
    """Return for each text whether it may state a request; None if its screening timed out.

    `known` are earlier results.
    """
    unique = list(dict.fromkeys(texts))
    results: dict[str, bool | None] = {text: known[text] for text in unique if text in known}
    waiting = [text for text in unique if text not in results]
    while waiting:
        done = await _screen_until_timeout(waiting)
        results |= done
        rest = [text for text in waiting if text not in done]
        if rest:
            LOG.warning("a text of %d characters took too long to be screened", len(rest[0]))
            results[rest[0]] = None
        waiting = rest[1:]
    return results


async def request_messages(
    conn: Connection, org_id: OrgId, bodies: Mapping[MessageId, str], known: Screened
) -> list[MessageId]:
    """Return the messages that may state a request.

    Messages whose screening timed out are enqueued for the worker.
    """
    results = await screen(bodies.values(), known)
    timed_out = [key for key, body in bodies.items() if results[body] is None]
    if timed_out:
        await work_queue.enqueue(conn, org_id, "read", timed_out)
    return [key for key, body in bodies.items() if results[body]]


async def _screen_until_timeout(texts: Collection[str]) -> dict[str, bool]:
    """Return the results of texts in order, up to the first timeout."""
    results: dict[str, bool] = {}

    def work() -> None:
        for text in texts:
            if cancelled.is_set():
                return
            results[text] = may_hold_request(text)

    cancelled = asyncio.Event()
    task = asyncio.create_task(asyncio.to_thread(work))
    try:
        finished = -1
        while not task.done() and finished < len(results):
            finished = len(results)
            await asyncio.wait({task}, timeout=TEXT_TIMEOUT)
        if task.done():
            await task
    finally:
        cancelled.set()
    return dict(results)
