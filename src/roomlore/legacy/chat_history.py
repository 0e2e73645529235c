"""Reads rows of the table `v2_chat_history`: one row is one message of a person or of a bot.

The table was made for one person and one bot. In a channel, `user_id` is the person that the bot answers, and not the
author; `role` says who speaks. Newer rows also state the author.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from roomlore.domain.incoming import (
    ASSUMED_UTC,
    IncomingAuthor,
    IncomingMembership,
    IncomingMessage,
    IncomingRoom,
    ParsedItem,
    SkippedRecord,
)
from roomlore.importers.bot_messages import (
    OTHER_PLATFORM,
    SIDES,
    Side,
    channel_in_user,
    derived_id,
    is_discord_id,
    platform_of,
    room_of,
)
from roomlore.importers.reading.fields import (
    MAX_ID,
    MalformedRecord,
    checked_id,
    parse_iso_time,
    platform_metadata,
    sequence,
)
from roomlore.legacy.source import Column, Row, Table

TABLE = "v2_chat_history"
COLUMNS = (
    Column(name="id", is_required=True),
    Column(name="user_id", is_required=True),
    Column(name="character_name", is_required=True),
    Column(name="role", is_required=True),
    Column(name="content", is_required=True),
    Column(name="timestamp", is_required=True, is_time=True),
    Column(name="channel_id"),
    Column(name="message_id"),
    Column(name="user_name"),
    Column(name="metadata"),
    Column(name="author_id"),
    Column(name="author_is_bot"),
    Column(name="author_name"),
    Column(name="reply_to_msg_id"),
)
CHAT_HISTORY = Table(name=TABLE, columns=COLUMNS)
ASKED = [role for role, side in SIDES.items() if side == "asked"]
ANSWERED = [role for role, side in SIDES.items() if side == "answered"]
INVALID_REPLY = "invalid reply"
CONTRADICTION = "role and author contradict each other"


def fact_parameters(characters: Mapping[str, str]) -> dict[str, Any]:
    """Return the parameters of the statements that derive authors."""
    return {
        "names": list(characters),
        "accounts": list(characters.values()),
        "asked": ASKED,
        "answered": ANSWERED,
    }


def place_of(row_id: str) -> str:
    """Return the position of a row for reports."""
    return f"{TABLE} id {row_id}"


@dataclass(slots=True, kw_only=True)
class ChatHistoryReader:
    """Turns rows into messages, and counts what it had to derive."""

    #: The account of each character.
    characters: Mapping[str, str] = field(default_factory=dict[str, str])
    #: Rows whose author is a character without an account, by character.
    nameless: Counter[str] = field(default_factory=Counter[str])
    #: The accounts with which each character speaks, as rows state them; empty for a row that states none.
    stated_accounts: Mapping[str, set[str]] = field(default_factory=dict[str, set[str]])
    #: Rows whose user was a channel.
    channels_as_users: int = 0
    _rooms: dict[str, IncomingRoom] = field(default_factory=dict[str, IncomingRoom])

    def read(self, row: Row) -> Iterator[ParsedItem]:
        """Yield the message of a row, and what was left out of it, or only the reason why there is no message."""
        where = place_of(str(row["id"]))
        try:
            message = self._message(row, where)
        except MalformedRecord as error:
            yield SkippedRecord(where=where, reason=error.reason, detail=error.detail)
            return
        yield message
        if row["reply_to_msg_id"] and message.reply_to is None:
            yield SkippedRecord(where=where, reason=INVALID_REPLY, detail="the message is stored without it")

    def _message(self, row: Row, where: str) -> IncomingMessage:
        side = SIDES.get(row["role"] or "")
        if side is None:
            raise MalformedRecord("unknown role")
        if not row["content"]:
            raise MalformedRecord("no text")
        sent_at, is_assumed = _sent(row["timestamp"])
        author = self._author(row, side)
        room = self._room(row)
        partner = checked_id(row["user_id"] or author.account_id, "user_id")
        native = checked_id(row["message_id"] or "", "message_id")
        external_id = native or derived_id(side=side, partner=partner, body=row["content"], sent_at=sent_at)
        platform = platform_of(channel=_channel(row), partner=partner)
        self._count(row, side, author)
        return IncomingMessage(
            platform=platform,
            room=room,
            external_id=external_id,
            author=author,
            body=row["content"],
            sent_at=sent_at,
            precision="us",
            order=sequence(native, sequence(str(row["id"] or ""), 0)),
            reply_to=_reply(row, platform, external_id),
            synthetic_id=not native,
            metadata=platform_metadata(
                time_zone=ASSUMED_UTC if is_assumed else "",
                legacy_id=row["id"],
                character=row["character_name"],
                legacy=_metadata(row["metadata"]),
            ),
            raw={key: value for key, value in row.items() if value is not None},
            where=where,
        )

    def _author(self, row: Row, side: Side) -> IncomingAuthor:
        user, stated = row["user_id"] or "", row["author_id"] or ""
        if channel_in_user(stated):
            stated = ""
        if side == "answered":
            return self._bot(row, stated)
        account = stated or (user if not channel_in_user(user) else "")
        if not account:
            raise MalformedRecord("no author", "the user is a channel" if user else "")
        own_name = row["user_name"] if account == user or channel_in_user(user) else ""
        is_bot = row["author_is_bot"] == "true" or account in self.characters.values()
        return IncomingAuthor(
            account_id=checked_id(account, "the author"),
            name=row["author_name"] or own_name or account,
            kind="agent" if is_bot else "human",
        )

    def _bot_account(self, character: str, stated: str) -> str:
        # A backfill of the table may have stored the name in place of the id.
        return stated if stated not in {"", character} else self.characters.get(character, character)

    def _bot(self, row: Row, stated: str) -> IncomingAuthor:
        character = row["character_name"] or ""
        account = self._bot_account(character, stated)
        if not account:
            raise MalformedRecord("no author")
        # The column has the default false, so only true says something.
        is_known = row["author_is_bot"] == "true" or account in self.characters.values()
        if account == row["user_id"] and not is_known:
            raise MalformedRecord(CONTRADICTION)
        return IncomingAuthor(
            account_id=checked_id(account, "the author"), name=character or account, kind="agent"
        )

    def _room(self, row: Row) -> IncomingRoom:
        channel, user, character = _channel(row), row["user_id"], row["character_name"]
        if not channel and not (user and character):
            raise MalformedRecord("no room")
        room_id = checked_id(room_of(channel=channel, bot=character, partner=user), "the room's id")
        known = self._rooms.get(room_id)
        if known is None:
            members = () if channel else self._both_sides(row)
            known = self._rooms[room_id] = IncomingRoom(
                external_id=room_id,
                name=room_id,
                kind="channel" if channel else "dm",
                # The table does not state who may read a channel.
                visibility="members",
                members=members,
            )
        return known

    def _both_sides(self, row: Row) -> tuple[IncomingMembership, ...]:
        user, character = row["user_id"], row["character_name"]
        is_agent = user in self.characters.values()
        person = IncomingAuthor(
            account_id=user, name=row["user_name"] or user, kind="agent" if is_agent else "human"
        )
        stated = self.stated_accounts.get(character, {""})
        accounts = sorted({self._bot_account(character, one) for one in stated} - {user})
        bots = [IncomingAuthor(account_id=one, name=character, kind="agent") for one in accounts]
        return tuple(IncomingMembership(author=author) for author in (person, *bots))

    def _count(self, row: Row, side: Side, author: IncomingAuthor) -> None:
        character = row["character_name"] or ""
        self.channels_as_users += bool(channel_in_user(row["user_id"] or ""))
        if side == "answered" and author.account_id == character and character not in self.characters:
            self.nameless[character] += 1


def _channel(row: Row) -> str:
    return row["channel_id"] or channel_in_user(row["user_id"] or "")


def _sent(value: str | None) -> tuple[datetime, bool]:
    """Return the time, and whether its zone is assumed."""
    if not value:
        raise MalformedRecord("no time")
    moment = parse_iso_time(value, zone=UTC)
    return moment, datetime.fromisoformat(value).tzinfo is None


def _reply(row: Row, platform: str, external_id: str) -> str | None:
    """Return the id of the parent; None if there is none or it is not valid."""
    parent = row["reply_to_msg_id"] or ""
    # Other platforms have ids of any form.
    is_valid = is_discord_id(parent) or (platform == OTHER_PLATFORM and len(parent) <= MAX_ID)
    return parent if parent and is_valid and parent != external_id else None


def _metadata(value: str | None) -> Any:
    """Return the metadata of a row; a text that is not JSON stays as it is."""
    if not value:
        return None
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value
