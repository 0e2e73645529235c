"""Conversations: what was said by topic, read and put right."""

from fastapi import APIRouter
from starlette.responses import Response

from roomlore.http.authentication import AuthenticatedApp
from roomlore.http.cursors import LongPageParameter
from roomlore.http.field_types import ShortText
from roomlore.http.responses import json_response
from roomlore.http.schemas import ConversationRead, conversation_read
from roomlore.operations.history import History

ROUTER = APIRouter(prefix="/v1/conversations", tags=["conversations"])


@ROUTER.get("/{conversation}", response_model=ConversationRead)
async def read_conversation(
    app: AuthenticatedApp, conversation: ShortText, page: LongPageParameter
) -> Response:
    """Read a conversation and the newest of what was said in it, oldest first, with who answers whom.

    `conversation` is an id or the beginning of one, or `message:` and a message in it, here and everywhere. `next` is the
    cursor of what was said before.
    """
    found, said = await History(access=app.access).conversation(
        app.access.principal, conversation, limit=page.limit, before=page.before
    )
    following = page.next([one.message.position for one in said.items], is_cut=said.is_cut)
    told = conversation_read(found, said.items[::-1], following=following)
    return json_response(told)
