"""Builds a context: walks from the trigger, then keeps what is most important within the token budget.

A thread is kept or left out as a whole. The order of importance is: the trigger; the message that the trigger answers,
the message that that message answers, and so on; the rest of the trigger's conversation; the most recent messages; all
other messages by distance. A message that takes more than its share of the budget is cut, with a note of how much was
cut.
"""

from dataclasses import replace

from roomlore.context.expansion import expand
from roomlore.context.limits import DEFAULT_BUDGET, DEFAULT_LIMITS, ExpansionLimits
from roomlore.context.links import DEFAULT_LIMITS as DEFAULT_LINK_LIMITS
from roomlore.context.links import LinkLimits, attach, read_links
from roomlore.context.memory_section import MemorySection
from roomlore.context.records import Context, ContextLine, UnreadLink
from roomlore.context.render import PARTIAL, line_text, link_turn_text
from roomlore.context.selection import ContextDraft, ContextSelector
from roomlore.context.threads import complete_threads
from roomlore.context.tokens import TokenCounter, estimate_tokens, message_cost
from roomlore.domain.errors import BadInput
from roomlore.domain.ports import ArticleReader, FetchFailure, MessageSource
from roomlore.domain.records import Message, Postable, Viewer
from roomlore.domain.rendering import removal_notice


async def build(
    source: MessageSource,
    trigger: Message,
    *,
    viewer: Viewer,
    limits: ExpansionLimits = DEFAULT_LIMITS,
    budget: int = DEFAULT_BUDGET,
    counter: TokenCounter = estimate_tokens,
    postable: Postable = "room",
) -> Context:
    """Return what the viewer should read before answering the trigger, within a token budget.

    Nothing here checks visibility. The source must return only messages that the viewer may see and that may be
    repeated where the context is `postable`. The budget is exceeded only if the trigger alone is too long. Add link
    contents afterwards with `with_articles`, so that no database connection waits for the network.
    """
    if budget < 1:
        raise BadInput("budget", "must be at least 1 token")
    found = await expand(source, trigger, limits=limits)
    threads = await complete_threads(source, found, trigger, limits=limits)
    members = [item for thread in threads for item in thread.members]
    candidates = {item.message.id: item for item in (*found.over_limit, *members)}
    draft = ContextDraft(candidates.values(), viewer, budget=budget, counter=counter)
    notice = message_cost(PARTIAL, counter)
    selector = ContextSelector(found, draft, limit=limits.max_messages, budget=budget, notice=notice)
    selection = selector.select(threads)
    lines = draft.lines(selection.kept)
    return Context(
        room_id=trigger.room_id,
        viewer=viewer,
        trigger_id=trigger.id,
        lines=lines,
        omitted=draft.omitted(selection.kept, selection.causes),
        boundaries=found.boundaries,
        tokens=sum(line.tokens for line in lines) + (notice if selection.is_partial else 0),
        budget=budget,
        postable=postable,
        is_partial=selection.is_partial,
    )


async def with_articles(
    context: Context,
    reader: ArticleReader,
    *,
    limits: LinkLimits = DEFAULT_LINK_LIMITS,
    counter: TokenCounter = estimate_tokens,
) -> Context:
    """Return the context with the contents of its links, the newest messages first, as far as the budget allows.

    A linked page never makes this call fail. If a page is not shown, the context states the reason.
    """
    bodies = [
        (line.message.id, line.message.body) for line in context.lines if not removal_notice(line.message)
    ]
    found = await read_links(bodies, reader, limits=limits)
    own = [line for line in context.lines if context.viewer.is_own(line.message.author_id)]
    # In a chat format, the page is a separate turn after the viewer's own message.
    turns = sum(message_cost(link_turn_text(line), counter) for line in own[-limits.articles :])
    attached = attach(found, tokens=context.budget - context.tokens - turns, counter=counter)
    lines = tuple(
        _with_embeddings(line, attached.blocks.get(line.message.id, ""), counter) for line in context.lines
    )
    labels = {line.message.id: line.label for line in lines}
    added = sum(line.tokens for line in lines) - sum(line.tokens for line in context.lines)
    return replace(
        context,
        lines=lines,
        tokens=context.tokens + added,
        unread_links=tuple(
            UnreadLink(label=labels[link.message_id], url=link.outcome.url, reason=link.outcome.reason)
            for link in attached.unread_links
            if isinstance(link.outcome, FetchFailure)
        ),
    )


def with_memory_section(context: Context, section: MemorySection) -> Context:
    """Return the context with a memory section before the messages.

    The tokens of the section are added to the tokens and to the budget of the context.
    """
    return replace(
        context,
        memory_section=section,
        tokens=context.tokens + section.tokens,
        budget=context.budget + section.tokens,
    )


def _with_embeddings(line: ContextLine, block: str, counter: TokenCounter) -> ContextLine:
    if not block:
        return line
    extended = replace(line, embeddings=block)
    more = message_cost(line_text(extended), counter) - message_cost(line_text(line), counter)
    return replace(extended, tokens=line.tokens + more)
