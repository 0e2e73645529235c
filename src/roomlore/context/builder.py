"""Builds a context: walks the room from the trigger, then keeps what matters most within a token budget.

Messages are kept or dropped with all of their exchange. What matters: the trigger, what it answers, what that answers, and
so on, then the rest of its conversation, then the most recent, then the rest by nearness. A single message that would eat
up more than its share is cut, and says how much.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from roomlore.context.expansion import DEFAULT_LIMITS, ExpansionLimits, Selected, expand
from roomlore.context.limits import DEFAULT_BUDGET
from roomlore.context.links import DEFAULT_LIMITS as DEFAULT_ENRICH_LIMITS
from roomlore.context.links import LinkLimits, LinkResult, attach, read_links
from roomlore.context.memory_section import MemorySection
from roomlore.context.records import Context, ContextLine, UnreadLink
from roomlore.context.render import PARTIAL, line_text, link_turn_text
from roomlore.context.selection import ContextDraft, ContextSelector
from roomlore.context.threads import ContextThread, complete_threads
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
    """Return what the viewer should read before answering the trigger, within the budget of tokens.

    The source must answer for the same viewer, and hold nothing that may not go where it is `postable`: nothing here
    decides what may be seen. The tokens of the
    trigger count even where they exceed the budget alone; nothing else ever exceeds it. What the messages link to
    can be added afterwards, `with_articles`: by then nobody waits for a database.
    """
    if budget < 1:
        raise BadInput("budget", "must be at least 1 token")
    found = await expand(source, trigger, limits=limits)
    gathered = await complete_threads(source, found, trigger, limits=limits)
    candidates = {item.message.id: item for item in (*found.over_limit, *_members(gathered))}
    draft = ContextDraft(candidates.values(), viewer, budget=budget, counter=counter)
    notice = message_cost(PARTIAL, counter)
    chooser = ContextSelector(found, draft, limit=limits.max_messages, budget=budget, notice=notice)
    choice = chooser.select(gathered)
    lines = draft.lines(choice.kept)
    return Context(
        room_id=trigger.room_id,
        viewer=viewer,
        trigger_id=trigger.id,
        lines=lines,
        left_out=draft.left_out(choice.kept, choice.causes),
        sealed=found.boundaries,
        tokens=sum(line.tokens for line in lines) + (notice if choice.is_partial else 0),
        budget=budget,
        postable=postable,
        is_partial=choice.is_partial,
    )


def _members(gathered: Sequence[ContextThread]) -> Iterable[Selected]:
    return (item for one in gathered for item in one.members)


async def with_articles(
    context: Context,
    reader: ArticleReader,
    *,
    limits: LinkLimits = DEFAULT_ENRICH_LIMITS,
    counter: TokenCounter = estimate_tokens,
) -> Context:
    """Return the context with what its messages link to, as far as the budget lasts; a page never makes it fail.

    Only links of messages that are in are read, those of the newest first. The context tells of each of the others why
    nothing of it is shown.
    """
    bodies = [
        (line.message.id, line.message.body) for line in context.lines if not removal_notice(line.message)
    ]
    found = await read_links(bodies, reader, limits=limits)
    own = [line for line in context.lines if context.viewer.is_own(line.message.author_id)]
    # In a chat the page takes a turn of its own after a message of the viewer's.
    turns = sum(message_cost(link_turn_text(line), counter) for line in own[-limits.articles :])
    attached = attach(found, tokens=context.budget - context.tokens - turns, counter=counter)
    lines = tuple(
        _with_embedded_articles(line, attached.blocks.get(line.message.id, ""), counter)
        for line in context.lines
    )
    return replace(
        context,
        lines=lines,
        tokens=context.tokens
        + sum(line.tokens for line in lines)
        - sum(line.tokens for line in context.lines),
        unread=_unread(attached.unread, lines),
    )


def with_memory_section(context: Context, section: MemorySection) -> Context:
    """Return the context with what the viewer remembers before it; its budget grows by what that costs."""
    return replace(
        context,
        block=section,
        tokens=context.tokens + section.tokens,
        budget=context.budget + section.tokens,
    )


def _unread(links: Sequence[LinkResult], lines: Sequence[ContextLine]) -> tuple[UnreadLink, ...]:
    labels = {line.message.id: line.label for line in lines}
    return tuple(
        UnreadLink(label=labels[link.message_id], url=link.outcome.url, reason=link.outcome.reason)
        for link in links
        if isinstance(link.outcome, FetchFailure)
    )


def _with_embedded_articles(line: ContextLine, block: str, counter: TokenCounter) -> ContextLine:
    if not block:
        return line
    whole = replace(line, embeddings=block)
    more = message_cost(line_text(whole), counter) - message_cost(line_text(line), counter)
    return replace(whole, tokens=line.tokens + more)
