"""The calls of a bot's memory manager, on top of Roomlore.

A bot that stored its messages in `v2_chat_history` can store them in Roomlore without other changes.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from roomlore.domain.clock import utc_now
from roomlore.domain.errors import BadInput
from roomlore.domain.ids import MessageId
from roomlore.domain.incoming import IncomingMessage
from roomlore.legacy.chat_history import ChatHistoryReader


class MessageStore(Protocol):
    """Stores one message: an `App` or a `Client`."""

    async def ingest(self, message: IncomingMessage) -> MessageId:
        """Store one message, once, and return its id."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryManager:
    """Stores the messages of bots in Roomlore. It derives the author of a message if the caller does not state it."""

    rooms: MessageStore
    #: The account of each character on the platform. A character without an account has its name as the account.
    characters: Mapping[str, str] = field(default_factory=dict[str, str])

    async def add_message(  # noqa: PLR0913, PLR0917  the arguments of the call that this one replaces
        self,
        user_id: str,
        character_name: str,
        role: str,
        content: str,
        user_name: str | None = None,
        channel_id: str | None = None,
        message_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        author_id: str | None = None,
        author_is_bot: bool | None = None,  # noqa: FBT001  as above
        reply_to_msg_id: str | None = None,
        *,
        timestamp: datetime | None = None,
    ) -> MessageId:
        """Store a message and return its id. Storing the same message of the platform again changes nothing.

        Args:
            user_id: The person that the bot talks with, who need not be the author.
            character_name: The name of the bot.
            role: Who speaks: "human" or "ai".
            content: The text.
            user_name: The name of the person.
            channel_id: The channel. Without a channel, the message is in the direct conversation of both.
            message_id: The platform's id of the message.
            metadata: More facts about the message. Only operators see them.
            author_id: The account that wrote the message. Default: the person or the bot, depending on the role.
            author_is_bot: Whether this account is a bot. Default: depending on the role.
            reply_to_msg_id: The platform's id of the message that this one answers.
            timestamp: The time of the message. Default: now.

        Raises:
            BadInput: the message has no text or an unknown role, or its author or room cannot be known.
        """
        row = {
            "id": None,
            "user_id": _text(user_id),
            "character_name": _text(character_name),
            "role": role,
            "content": content,
            "timestamp": (timestamp or utc_now()).isoformat(),
            "channel_id": _text(channel_id),
            "message_id": _text(message_id),
            "user_name": _text(user_name),
            "metadata": json.dumps(metadata, default=str) if metadata else None,
            "author_id": _text(author_id),
            "author_is_bot": "true" if author_is_bot else None,
            "author_name": None,
            "reply_to_msg_id": _text(reply_to_msg_id),
        }
        item = next(ChatHistoryReader(characters=self.characters).read(row))
        if not isinstance(item, IncomingMessage):
            raise BadInput("message", item.reason)
        return await self.rooms.ingest(item)


def _text(value: object) -> str | None:
    """Return an id as text, because callers also pass numbers."""
    return None if value is None or value == "" else str(value)
