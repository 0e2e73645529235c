"""Identifies messages in the stores of bots: points in Qdrant and rows of a table.

The same message may be in both stores, and in an export of Discord. All of them give it the same platform, room and id.
So a message that arrives from several stores is stored once.
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from roomlore.domain.patterns import lazy_pattern

Side = Literal["asked", "answered"]
#: Who speaks: the person or the bot.
SIDES: Mapping[str, Side] = {
    "user_message": "asked",
    "user": "asked",
    "human": "asked",
    "bot_response": "answered",
    "bot": "answered",
    "ai": "answered",
    "assistant": "answered",
}
#: The platform of messages whose ids are not Discord's.
OTHER_PLATFORM = "qdrant"
_DISCORD_ID = lazy_pattern(r"[1-9][0-9]{16,19}")
#: A bot that writes to a channel without an addressee stores this instead of a person.
_CHANNEL_AS_USER = lazy_pattern(r"channel_([0-9]{1,20})")


def is_discord_id(value: str) -> bool:
    """Return whether an id looks like Discord's."""
    return _DISCORD_ID.fullmatch(value) is not None


def channel_in_user(user_id: str) -> str:
    """Return the channel that stands in place of a user; empty if the user is a user."""
    found = _CHANNEL_AS_USER.fullmatch(user_id)
    return found[1] if found else ""


def platform_of(*, channel: str, partner: str) -> str:
    """Return the platform of a room: Discord if the channel, or else the partner, has an id of Discord."""
    return "discord" if is_discord_id(channel or partner) else OTHER_PLATFORM


def room_of(*, channel: str, bot: str, partner: str) -> str:
    """Return the id of a room: the channel, or else the name of the bot and the partner."""
    return channel or f"{bot} with {partner}"


def derived_id(*, side: Side, partner: str, body: str, sent_at: datetime) -> str:
    """Return the id of a message that has no id of its platform. `sent_at` is in UTC."""
    told = f"{side}\0{partner}\0{body}"
    digest = hashlib.sha256(told.encode("utf-8", "replace")).hexdigest()[:16]
    return f"{sent_at:%Y%m%dT%H%M%S.%f}:{digest}"
