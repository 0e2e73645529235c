"""A conversation: its messages, participants, reply graph and memories; and the actions that change it."""

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
#: Messages on a page: by default, and at most.
SHOWN, MOST = 100, 200
SENSITIVITIES: Mapping[str, Sensitivity] = {"normal": "normal", "sensitive": "sensitive"}
SPLIT_REASONS: Mapping[SplitReason, str] = {
    "first": "It is the first conversation of the room.",
    "idle": "There was a long silence before it.",
    "topic": "Its topic is another one.",
    "person": "Somebody split it off by hand.",
}
NOTICES = {
    "renamed": "The conversation has a new name.",
    "unnamed": "The name comes from its messages again.",
    "closed": "The conversation is closed. A new message in it opens it again.",
    "marked": "The sensitivity is set.",
    "moved": "The message is here now, with its replies.",
    "split": "These messages were split off, with their replies.",
    "merged": "The two conversations are merged.",
}
#: Comes before the id of a message in an address on the page of its room.
ANCHOR = "#m-"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColouredTalker:
    """A participant and their colour."""

    talker: ConversationParticipant
    colour: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationPage:
    """One conversation."""

    conversation: Conversation
    #: None if the viewer may not see the room.
    room: RoomHeader | None
    is_open: bool
    #: Why the conversation begins here; None if the viewer may not know this.
    reason: str | None
    takers: Sequence[ColouredTalker]
    #: The messages, oldest first.
    rows: Sequence[Row]
    #: The message before which the next page ends, and the message before which this page ends; None if there is none.
    next: MessageId | None
    before: str | None
    graph: ReplyGraph
    #: Active memories that have one of the shown messages as a source.
    memories: Sequence[MessageMemory]
    #: Conversations of the same room around this conversation, nearest first.
    earlier: Sequence[ConversationTitle]
    later: Sequence[ConversationTitle]
    #: Whether the viewer may change the conversation.
    may_arrange: bool
    notice: str


@PAGES.page("/c/{conversation}", "conversation.html")
async def conversation(visit: RequestContext, conversation: str) -> ConversationPage:
    """Return a conversation with its newest messages."""
    limit = visit.number("shown", SHOWN, most=MOST)
    found = await Timeline(access=visit.app.access).conversation(
        visit.viewer, conversation, limit=limit, before=visit.word("before")
    )
    return _page(found, visit)


def _page(found: ConversationView, visit: RequestContext) -> ConversationPage:
    one, colours = found.conversation, colours_of(found.speakers)
    shown = rows(found.lines, found.speakers)
    memories = {memory.id: memory for line in found.lines for memory in line.memories}
    return ConversationPage(
        conversation=one,
        room=found.room,
        is_open=one.is_open_at(datetime.now(UTC)),
        reason=None if one.split_reason is None else SPLIT_REASONS[one.split_reason],
        takers=[
            ColouredTalker(talker=talker, colour=colour_of(colours, talker.id)) for talker in one.participants
        ],
        rows=shown,
        next=found.next,
        before=visit.word("before"),
        graph=reply_graph(shown),
        memories=list(memories.values()),
        earlier=found.earlier,
        later=found.later,
        may_arrange=visit.viewer.is_operator or "arrange" in RIGHTS[visit.viewer.role],
        notice=NOTICES.get(visit.word("done") or "", ""),
    )


@PAGES.action("/c/{conversation}/rename")
async def rename(visit: RequestContext, form: Form, conversation: str) -> str:
    """Set the name of a conversation; an empty name restores the automatic one."""
    label = form.optional("label") or ""
    changed = await visit.app.conversations.rename(conversation, label)
    return _page_address(visit, changed, "renamed" if label else "unnamed")


@PAGES.action("/c/{conversation}/close")
async def close(visit: RequestContext, form: Form, conversation: str) -> str:
    """Close a conversation."""
    del form
    return _page_address(visit, await visit.app.conversations.close(conversation), "closed")


@PAGES.action("/c/{conversation}/mark")
async def mark(visit: RequestContext, form: Form, conversation: str) -> str:
    """Set the sensitivity of a conversation."""
    sensitivity = SENSITIVITIES.get(form.word("sensitivity"))
    if sensitivity is None:
        raise BadInput("sensitivity", f"must be {' or '.join(SENSITIVITIES)}")
    changed = await visit.app.conversations.set_sensitivity(conversation, sensitivity)
    return _page_address(visit, changed, "marked")


@PAGES.action("/c/{conversation}/move")
async def move(visit: RequestContext, form: Form, conversation: str) -> str:
    """Move a message into a conversation. The form names the message by its id or address."""
    message = form.word("message").rsplit(ANCHOR, 1)[-1]
    return _page_address(visit, await visit.app.conversations.move(message, conversation), "moved")


@PAGES.action("/c/{conversation}/split")
async def split(visit: RequestContext, form: Form, conversation: str) -> str:
    """Split the ticked messages off into a new conversation."""
    del conversation
    chosen, label = form.words("message"), form.optional("label") or ""
    return _page_address(visit, await visit.app.conversations.split(chosen, label), "split")


@PAGES.action("/c/{conversation}/merge")
async def merge(visit: RequestContext, form: Form, conversation: str) -> str:
    """Merge another conversation into this one."""
    return _page_address(
        visit, await visit.app.conversations.merge(conversation, form.word("other")), "merged"
    )


def _page_address(visit: RequestContext, changed: Conversation, done: str) -> str:
    return visit.address(at_path("c", changed.id), {"done": done})
