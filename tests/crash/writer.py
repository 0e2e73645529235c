"""A process that delivers a whole story in an order and in batches of its own."""

import asyncio
import random
import sys

from crash.tales import Teller
from roomlore.db.database import Database
from roomlore.domain.incoming import IncomingMessage
from roomlore.operations import App
from roomlore.settings import Settings


async def deliver(dsn: str, org: str, records: list[IncomingMessage], *, order: int) -> None:
    """Store every record once, shuffled, from connections of its own."""
    random_ = random.Random(order)
    mine = random_.sample(records, len(records))
    db = await Database.connect(dsn, size=1)
    app = App(db=db, org_id=await db.ensure_org(org), settings=Settings(org=org))
    while mine:
        size = random_.choice((1, 3, 20, 100, 300))
        accepted = await app.ingest_batch(mine[:size])
        assert not accepted.skipped, accepted.skipped
        mine = mine[size:]
    await db.close()


if __name__ == "__main__":
    dsn_, org_, count, seed, order_ = sys.argv[1:]
    asyncio.run(deliver(dsn_, org_, Teller(int(count), int(seed)).records(), order=int(order_)))
