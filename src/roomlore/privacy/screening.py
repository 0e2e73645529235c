"""Tells which texts are put like a request of privacy: before a transaction begins, and beside the event loop.

It is work on text alone, and whoever writes a message chooses the text. So no lock is held meanwhile, other calls go
on, and a text that takes too long is left: it is stored like any other, and the worker listens to it again.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from roomlore.db import work_queue
from roomlore.db.queries import Connection
from roomlore.domain.ids import MessageId, OrgId
from roomlore.privacy.recogniser import may_hold_request

#: Seconds that one text may take; most take less than a thousandth.
TEXT_TIMEOUT = 10.0
#: By what a text says, whether it is put like a request; None: it took too long to tell.
Screened = Mapping[str, bool | None]
NOTHING_SCREENED: Screened = MappingProxyType({})

LOG = logging.getLogger(__name__)


async def screen(texts: Iterable[str], known: Screened = NOTHING_SCREENED) -> dict[str, bool | None]:
    """Return of each text whether it is put like a request of privacy; None of one that takes too long.

    Args:
        texts: What was said.
        known: What was listened to before.
    """
    said = list(dict.fromkeys(texts))
    told: dict[str, bool | None] = {text: known[text] for text in said if text in known}
    waiting = [text for text in said if text not in told]
    while waiting:
        found = await _screen_until_timeout(waiting)
        told |= found
        left = [text for text in waiting if text not in found]
        if left:
            LOG.warning("a text of %d characters took too long to be listened to", len(left[0]))
            told[left[0]] = None
        waiting = left[1:]
    return told


async def request_messages(
    conn: Connection, org_id: OrgId, bodies: Mapping[MessageId, str], known: Screened
) -> list[MessageId]:
    """Return which messages are put like a request, and ask the worker to listen to those that take too long.

    Args:
        conn: In the transaction that stores the messages.
        org_id: Whose.
        bodies: What the messages say.
        known: What was listened to before.
    """
    told = await screen(bodies.values(), known)
    unheard = [key for key, body in bodies.items() if told[body] is None]
    if unheard:
        await work_queue.enqueue(conn, org_id, "listen", unheard)
    return [key for key, body in bodies.items() if told[body]]


async def _screen_until_timeout(texts: Collection[str]) -> dict[str, bool]:
    """Return what was told of these texts in order, up to one that takes too long."""
    found: dict[str, bool] = {}

    def work() -> None:
        for text in texts:
            if given_up.is_set():
                return
            found[text] = may_hold_request(text)

    given_up = asyncio.Event()
    task = asyncio.create_task(asyncio.to_thread(work))
    try:
        so_far = -1
        while not task.done() and so_far < len(found):
            so_far = len(found)
            await asyncio.wait({task}, timeout=TEXT_TIMEOUT)
        if task.done():
            await task
    finally:
        given_up.set()
    return dict(found)
