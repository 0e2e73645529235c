"""A conversation: what was said, by whom, what answers what, what is remembered of it; and putting it right."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from roomlore.db.timeline import ConversationTitle, MessageMemory, RoomHeader
from roomlore.domain.errors import BadInput
from roomlore.domain.ids import MessageId
from roomlore.domain.records import RIGHTS, Conversation, ConversationParticipant, Sensitivity, SplitReason
from roomlore.operations.timeline import ConversationView, Timeline
from roomlore.web.pages import Form, PageRoutes
from roomlore.web.reply_graph import ReplyGraph, reply_graph
from roomlore.web.request_context import RequestContext, at_path
from roomlore.web.rows import Row, colour_of, colours_of, rows

PAGES = PageRoutes()
#: Messages that are shown unless more are asked for, and at most.
SHOWN, MOST = 100, 200
SENSITIVITIES: Mapping[str, Sensitivity] = {"normal": "normal", "sensitive": "sensitive"}
SPLIT_REASONS: Mapping[SplitReason, str] = {
    "first": "Nothing had been said in the room before.",
    "silence": "Nobody had spoken for long.",
    "topic": "Others were speaking of something else.",
    "person": "Somebody set it apart by hand.",
}
NOTICES = {
    "renamed": "It is called so now.",
    "unnamed": "It is called as its words say again.",
    "closed": "It is over with what was said so far; whoever goes on with it opens it again.",
    "marked": "How sensitive it is was noted.",
    "moved": "The message is here now, with what answers it.",
    "split": "This is what was split off, with what answers it.",
    "merged": "Both are one conversation now.",
}
#: Before a message's id, in an address of its room.
ANCHOR = "#m-"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColouredTalker:
    """Somebody who takes part, and in what colour."""

    talker: ConversationParticipant
    colour: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationPage:
    """A conversation."""

    conversation: Conversation
    #: None where the viewer may read what was said but not see the room.
    room: RoomHeader | None
    is_open: bool
    #: Why it is one of its own, in words; None where that is not for the viewer.
    reason: str | None
    takers: Sequence[ColouredTalker]
    #: The newest of it, oldest first.
    rows: Sequence[Row]
    #: The message before which more was said in it; and before which this is, None at its newest.
    onward: MessageId | None
    before: str | None
    graph: ReplyGraph
    #: What rests on what is shown of it and stands.
    memories: Sequence[MessageMemory]
    #: Of the same room: what ended just before, and just after, the nearest first.
    earlier: Sequence[ConversationTitle]
    later: Sequence[ConversationTitle]
    #: Whether the viewer may put it right.
    may_arrange: bool
    #: What was just done.
    notice: str


@PAGES.page("/c/{conversation}", "conversation.html")
async def conversation(visit: RequestContext, conversation: str) -> ConversationPage:
    """Return a conversation, its newest messages first of all."""
    limit = visit.number("shown", SHOWN, most=MOST)
    told = await Timeline(access=visit.app.access).conversation(
        visit.viewer, conversation, limit=limit, before=visit.word("before")
    )
    return _page(told, visit)


def _page(told: ConversationView, visit: RequestContext) -> ConversationPage:
    held, colours = told.conversation, colours_of(told.voices)
    made = rows(told.lines, told.voices)
    memories = {memory.id: memory for line in told.lines for memory in line.memories}
    return ConversationPage(
        conversation=held,
        room=told.room,
        is_open=held.is_open_at(datetime.now(UTC)),
        reason=None if held.boundary is None else SPLIT_REASONS[held.boundary],
        takers=[ColouredTalker(talker=one, colour=colour_of(colours, one.id)) for one in held.talkers],
        rows=made,
        onward=told.onward,
        before=visit.word("before"),
        graph=reply_graph(made),
        memories=list(memories.values()),
        earlier=told.earlier,
        later=told.later,
        may_arrange=visit.viewer.is_operator or "arrange" in RIGHTS[visit.viewer.role],
        notice=NOTICES.get(visit.word("done") or "", ""),
    )


@PAGES.action("/c/{conversation}/rename")
async def rename(visit: RequestContext, form: Form, conversation: str) -> str:
    """Call a conversation as the form says, or as found again where it says nothing."""
    label = form.optional("label") or ""
    kept = await visit.app.conversations.rename(conversation, label)
    return _page_address(visit, kept, "renamed" if label else "unnamed")


@PAGES.action("/c/{conversation}/close")
async def close(visit: RequestContext, form: Form, conversation: str) -> str:
    """Say that a conversation is over."""
    del form
    return _page_address(visit, await visit.app.conversations.close(conversation), "closed")


@PAGES.action("/c/{conversation}/mark")
async def mark(visit: RequestContext, form: Form, conversation: str) -> str:
    """Say how sensitive a conversation is."""
    sensitivity = SENSITIVITIES.get(form.word("sensitivity"))
    if sensitivity is None:
        raise BadInput("sensitivity", f"must be {' or '.join(SENSITIVITIES)}")
    kept = await visit.app.conversations.mark(conversation, sensitivity)
    return _page_address(visit, kept, "marked")


@PAGES.action("/c/{conversation}/move")
async def move(visit: RequestContext, form: Form, conversation: str) -> str:
    """Put a message into a conversation, by its id or by an address that leads to it."""
    message = form.word("message").rsplit(ANCHOR, 1)[-1]
    return _page_address(visit, await visit.app.conversations.move(message, conversation), "moved")


@PAGES.action("/c/{conversation}/split")
async def split(visit: RequestContext, form: Form, conversation: str) -> str:
    """Make a conversation of the ticked messages of one."""
    # Ticked are ids, which lead to their room by themselves.
    del conversation
    chosen, label = form.words("message"), form.optional("label") or ""
    return _page_address(visit, await visit.app.conversations.split(chosen, label), "split")


@PAGES.action("/c/{conversation}/merge")
async def merge(visit: RequestContext, form: Form, conversation: str) -> str:
    """Put all of another conversation into one."""
    return _page_address(
        visit, await visit.app.conversations.merge(conversation, form.word("other")), "merged"
    )


def _page_address(visit: RequestContext, kept: Conversation, done: str) -> str:
    return visit.address(at_path("c", kept.id), {"done": done})
