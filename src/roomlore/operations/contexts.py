"""Contexts: the messages to read before answering, limited to the destination of the answer."""

from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter

from roomlore.articles.article_reader import open_reader
from roomlore.context.builder import build, with_articles
from roomlore.context.limits import DEFAULT_BUDGET, DEFAULT_LIMITS, ExpansionLimits
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
    """Options of a context."""

    #: In tokens.
    budget: int = DEFAULT_BUDGET
    limits: ExpansionLimits = DEFAULT_LIMITS
    #: Also read linked pages, over the network.
    articles: bool = False
    #: Include everything that the viewer may read. The result must then not be posted.
    private: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Contexts:
    """The contexts of an org. `App.context` describes the call."""

    access: Access
    agents: Agents

    async def context(self, viewer: Viewer, room: str, trigger: str, options: ContextOptions) -> Context:
        """Return what the viewer should read before answering a message of the room."""
        reader = open_reader() if options.articles else None
        started_at = perf_counter()
        async with self.access.reading(
            viewer,
            audit_action_for("context", private=options.private),
            generic_plan=True,
            apply_restrictions=True,
            started_at=started_at,
        ) as reading:
            conn = reading.conn
            target = await reply_target(conn, viewer, room, trigger, private=options.private)
            section = await self.agents.section_for_context(reading, target, budget=options.budget)
            source = StoreSource(conn=conn, org_id=self.access.org_id)
            budget = options.budget - (section.tokens if section else 0)
            expand = partial(
                build, source, target.trigger, viewer=viewer, limits=options.limits, budget=budget
            )
            context = await expand(postable=target.postable)

            async def search_again() -> list[MessageId]:
                named = await lookup.message(conn, self.access.org_id, trigger, room_id=context.room_id)
                return [named.id, *(line.message.id for line in (await expand()).lines)]

            # A restricted trigger that the caller named is shown without its text, so it counts as hidden.
            shown = [line.message.id for line in context.lines if line.message.body]
            hidden = await hidden_message_ids(conn, viewer, search_again, shown=shown)
            if section:
                built = await self.agents.with_memory_section(reading, context, section)
            else:
                built = context
            reading.record_shown([built.room_id, *(line.message.id for line in built.lines)])
        restrictions = await operator_restrictions(
            self.access, viewer, hidden, destination=target.viewer.destination
        )
        built = replace(built, restrictions=tuple(restrictions))
        # The connection is given back before the network is used.
        return built if reader is None else await with_articles(built, reader)


def article_reader() -> ArticleReader:
    """Return a reader of linked pages, over the network of this machine.

    Raises:
        BadInput: its package is not installed.
    """
    return open_reader()
