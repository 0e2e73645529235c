"""Contexts: what somebody reads before they answer, bound to where the answer is posted."""

from dataclasses import dataclass
from time import perf_counter

from roomlore.app.agents import Agents
from roomlore.app.desk import Desk
from roomlore.app.posting import answering, marked
from roomlore.app.withholding import told_of
from roomlore.backends.articles import open_reader
from roomlore.context.builder import DEFAULT_BUDGET, build, with_articles
from roomlore.context.records import Context
from roomlore.context.replygraph import DEFAULT_LIMITS, WalkLimits
from roomlore.context.storesource import StoreSource
from roomlore.domain.records import Viewer


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextWish:
    """How a context is wanted."""

    #: Tokens.
    budget: int = DEFAULT_BUDGET
    limits: WalkLimits = DEFAULT_LIMITS
    #: Also read what the messages link to, over the network.
    articles: bool = False
    #: All that the viewer may read: then nothing of it may be posted.
    private: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Contexts:
    """Contexts of an org; `App` describes the call."""

    desk: Desk
    agents: Agents

    async def context(self, viewer: Viewer, room: str, trigger: str, wish: ContextWish) -> Context:
        """Return what the viewer should read before answering a message of the room."""
        reader = open_reader() if wish.articles else None
        began = perf_counter()
        async with self.desk.reading(
            viewer, marked("context", private=wish.private), keeps_plans=True, recalls=True, began=began
        ) as reading:
            read = await answering(reading.conn, viewer, room, trigger, private=wish.private)
            block = await self.agents.block_beside(reading, read, budget=wish.budget)
            source = StoreSource(conn=reading.conn, org_id=self.desk.org_id)
            left = wish.budget - (block.tokens if block else 0)
            built = await build(
                source, read.trigger, viewer=viewer, limits=wish.limits, budget=left, postable=read.postable
            )
            built = await self.agents.beside(reading, built, block) if block else built
            reading.shows([built.room_id, *(line.message.id for line in built.lines)])
        built = await told_of(self.desk, built)
        # No connection is held while others are waited for.
        return built if reader is None else await with_articles(built, reader)
