"""Contexts: what somebody reads before they answer, bound to where the answer is posted."""

from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter

from roomlore.articles.article_reader import open_reader
from roomlore.context.builder import build, with_articles
from roomlore.context.expansion import DEFAULT_LIMITS, ExpansionLimits
from roomlore.context.limits import DEFAULT_BUDGET
from roomlore.context.records import Context
from roomlore.context.sources import StoreSource
from roomlore.domain.ids import MessageId
from roomlore.domain.ports import ArticleReader
from roomlore.domain.records import Viewer
from roomlore.operations.access import Access
from roomlore.operations.agents import Agents
from roomlore.operations.destination import audit_action_for, reply_target
from roomlore.operations.privacy import hidden_message_ids, operator_restrictions
from roomlore.search import lookup


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextOptions:
    """How a context is wanted."""

    #: Tokens.
    budget: int = DEFAULT_BUDGET
    limits: ExpansionLimits = DEFAULT_LIMITS
    #: Also read what the messages link to, over the network.
    articles: bool = False
    #: All that the viewer may read: then nothing of it may be posted.
    private: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Contexts:
    """Contexts of an org; `App` describes the call."""

    access: Access
    agents: Agents

    async def context(self, viewer: Viewer, room: str, trigger: str, options: ContextOptions) -> Context:
        """Return what the viewer should read before answering a message of the room."""
        reader = open_reader() if options.articles else None
        began = perf_counter()
        async with self.access.reading(
            viewer,
            audit_action_for("context", private=options.private),
            generic_plan=True,
            apply_restrictions=True,
            started_at=began,
        ) as reading:
            conn = reading.conn
            read = await reply_target(conn, viewer, room, trigger, private=options.private)
            block = await self.agents.section_for_context(reading, read, budget=options.budget)
            source = StoreSource(conn=conn, org_id=self.access.org_id)
            left = options.budget - (block.tokens if block else 0)
            walk = partial(build, source, read.trigger, viewer=viewer, limits=options.limits, budget=left)
            built = await walk(postable=read.postable)

            async def look() -> list[MessageId]:
                named = await lookup.message(conn, self.access.org_id, trigger, room_id=built.room_id)
                return [named.id, *_message_ids(await walk())]

            hidden = await hidden_message_ids(conn, viewer, look, shown=_shown_message_ids(built))
            built = await self.agents.with_memory_section(reading, built, block) if block else built
            reading.record_shown([built.room_id, *_message_ids(built)])
        withheld = await operator_restrictions(self.access, viewer, hidden, place=read.viewer.place)
        built = replace(built, withheld=tuple(withheld))
        # No connection is held while others are waited for.
        return built if reader is None else await with_articles(built, reader)


def _message_ids(built: Context) -> list[MessageId]:
    return [line.message.id for line in built.lines]


def _shown_message_ids(built: Context) -> list[MessageId]:
    """Return the messages whose words are shown: one that is named and withheld stands there without them."""
    return [line.message.id for line in built.lines if line.message.body]


def article_reader() -> ArticleReader:
    """Return what reads linked pages, over the network of this machine.

    Raises:
        BadInput: what reads them is not installed.
    """
    return open_reader()
