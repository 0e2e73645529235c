"""Contexts: what somebody reads before they answer, bound to where the answer is posted."""

from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter

from roomlore.app.agents import Agents
from roomlore.app.desk import Desk
from roomlore.app.posting import answering, marked
from roomlore.app.withholding import left_out, told_to_operator
from roomlore.backends.articles import open_reader
from roomlore.context.builder import build, with_articles
from roomlore.context.limits import DEFAULT_BUDGET
from roomlore.context.records import Context
from roomlore.context.replygraph import DEFAULT_LIMITS, WalkLimits
from roomlore.context.storesource import StoreSource
from roomlore.domain.ids import MessageId
from roomlore.domain.records import Viewer
from roomlore.retrieval import meant


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
            conn = reading.conn
            read = await answering(conn, viewer, room, trigger, private=wish.private)
            block = await self.agents.block_beside(reading, read, budget=wish.budget)
            source = StoreSource(conn=conn, org_id=self.desk.org_id)
            left = wish.budget - (block.tokens if block else 0)
            walk = partial(build, source, read.trigger, viewer=viewer, limits=wish.limits, budget=left)
            built = await walk(postable=read.postable)

            async def look() -> list[MessageId]:
                named = await meant.message(conn, self.desk.org_id, trigger, room_id=built.room_id)
                return [named.id, *_said_in(await walk())]

            hidden = await left_out(conn, viewer, look, shown=_worded_in(built))
            built = await self.agents.beside(reading, built, block) if block else built
            reading.shows([built.room_id, *_said_in(built)])
        withheld = await told_to_operator(self.desk, viewer, hidden, place=read.viewer.place)
        built = replace(built, withheld=tuple(withheld))
        # No connection is held while others are waited for.
        return built if reader is None else await with_articles(built, reader)


def _said_in(built: Context) -> list[MessageId]:
    return [line.message.id for line in built.lines]


def _worded_in(built: Context) -> list[MessageId]:
    """Return the messages whose words are shown: one that is named and withheld stands there without them."""
    return [line.message.id for line in built.lines if line.message.body]
