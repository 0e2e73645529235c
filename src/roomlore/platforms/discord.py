"""Reads DiscordChatExporter JSON: one channel, direct message or thread per file, large ones in partitions.

Traps that shaped it: a webhook has one id for all who speak through it; only some references are replies;
a forwarded message is not its poster's own words; mentions in the text are rendered, so they come from the list.
"""

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Any

from roomlore.domain.incoming import (
    IncomingAuthor,
    IncomingMessage,
    IncomingRoom,
    ReadItem,
    RoomKind,
    Skipped,
)
from roomlore.domain.ports import Reader, ReadOptions, Source
from roomlore.domain.roomaudience import DIRECT
from roomlore.platforms.discordparts import carried, forwarded, forwarded_part, is_forward
from roomlore.platforms.fields import (
    Fields,
    Malformed,
    as_object,
    attempt,
    ids,
    iso_time,
    kept,
    loose_text,
    member,
    need,
    number,
    objects,
    optional_time,
    order_of,
    platform_facts,
    text,
)
from roomlore.platforms.jsonstream import Peek, Spine, Step, fault, has_export, json_exports, walk_file
from roomlore.platforms.presence import both_sides

_SPINE: Spine = {(): "object", ("messages",): "list"}
_DIRECT: dict[str, RoomKind] = {"DirectTextChat": "dm", "DirectGroupTextChat": "group_dm"}
#: Channels of which the export does not tell who may read them. Anything else is for its members.
_UNTOLD = frozenset(
    {
        "GuildTextChat",
        "GuildVoiceChat",
        "GuildCategory",
        "GuildNews",
        "GuildNewsThread",
        "GuildPublicThread",
        "GuildStageVoice",
        "GuildDirectory",
        "GuildForum",
    }
)
_PRIVATE = frozenset({"GuildPrivateThread"})
_KNOWN = _UNTOLD | _PRIVATE | _DIRECT.keys()
_SAID = frozenset({"Default", "Reply"})


def _looks(head: Peek) -> bool:
    channel = head.members.get("channel")
    return isinstance(channel, dict) and ("guild" in head.members or "messages" in head.members)


def _sniff(source: Source) -> bool:
    return has_export(source, _looks)


def _read(source: Source, options: ReadOptions) -> Iterator[ReadItem]:
    del options  # the export says all there is to say
    files, left = json_exports(source, _looks)
    yield from left
    rooms = _rooms(source, files)
    for file in files:
        room = rooms.get(file)
        if room is None:
            yield Skipped(where=file, reason="no room", detail="the channel is missing or has no id")
        else:
            yield from _file(source, file, room)


def _file(source: Source, file: str, room: IncomingRoom) -> Iterator[ReadItem]:
    for step in walk_file(source, file, _SPINE):
        if step.kind == "fault":
            yield fault(step, file)
        elif step.kind == "value" and step.place == ("messages",):
            where = f"{file} record {step.number}"
            yield from attempt(step.value, where, build=partial(_message, at=(room, where, step.number)))
        elif step.kind == "value" and step.key == "messages":
            yield Skipped(where=file, reason="not a list of messages")


def _rooms(source: Source, files: list[str]) -> dict[str, IncomingRoom]:
    """Return the room of each file; a one-to-one room with both sides, whichever of its partitions shows them."""
    channels: dict[str, tuple[Fields, Fields]] = {}
    seen: dict[str, dict[tuple[str, str], IncomingAuthor]] = {}
    for file in files:
        channel, guild, authors = _survey(source, file)
        if loose_text(channel, "id"):
            channels[file] = channel, guild
            seen.setdefault(channel["id"], {}).update(authors)
    rooms: dict[str, IncomingRoom] = {}
    for file, (channel, guild) in channels.items():
        try:
            rooms[file] = _room(channel, guild, list(seen[channel["id"]].values()))
        except Malformed:
            continue
    return rooms


def _survey(source: Source, file: str) -> tuple[Fields, Fields, dict[tuple[str, str], IncomingAuthor]]:
    """Return the channel, its server, and who speaks in it if that tells who may read all of it."""
    channel: Fields = {}
    guild: Fields = {}
    authors: dict[tuple[str, str], IncomingAuthor] = {}
    for step in walk_file(source, file, _SPINE):
        if step.kind == "value" and step.key == "channel":
            channel = as_object(step.value) or {}
        elif step.kind == "value" and step.key == "guild":
            guild = as_object(step.value) or {}
        elif step.place == ("messages",) and step.kind == "value":
            if channel and _kind(channel) != "dm":
                break
            _note_author(step, authors)
    return channel, guild, authors


def _note_author(step: Step, authors: dict[tuple[str, str], IncomingAuthor]) -> None:
    try:
        author = _author(as_object(step.value) or {})
    except Malformed:
        return
    authors.setdefault((author.account_id, author.persona), author)


def _kind(channel: Fields) -> RoomKind:
    return _DIRECT.get(loose_text(channel, "type"), "channel")


def _room(channel: Fields, guild: Fields, authors: list[IncomingAuthor]) -> IncomingRoom:
    type_, kind = loose_text(channel, "type"), _kind(channel)
    return IncomingRoom(
        external_id=need(channel, "id", "no room"),
        name=loose_text(channel, "name", "id"),
        kind=kind if type_ in _KNOWN else None,
        visibility="members" if type_ in _PRIVATE or kind in DIRECT else None,
        topic=loose_text(channel, "topic"),
        members=both_sides(kind, authors),
        workspace="" if kind in DIRECT else loose_text(guild, "name"),
        category=loose_text(channel, "category"),
    )


def _author(fields: Fields) -> IncomingAuthor:
    given = member(fields, "author")
    if not given:
        raise Malformed("no author")
    account = need(given, "id", "no author")
    name = loose_text(given, "nickname", "name") or account
    is_bot = given.get("isBot") is True
    # An ordinary account may show "0000" too since user names became unique; a bot account never does.
    webhook = is_bot and loose_text(given, "discriminator") in {"0000", "0"}
    persona = loose_text(given, "name")[:255] if webhook else ""
    return IncomingAuthor(account_id=account, name=name, kind="agent" if is_bot else "human", persona=persona)


def _message(fields: Fields, at: tuple[IncomingRoom, str, int]) -> IncomingMessage:
    room, where, place = at
    external_id = need(fields, "id", "no id")
    own = _own_words(fields)
    edited = _edited(fields)
    return IncomingMessage(
        platform="discord",
        room=room,
        external_id=external_id,
        author=_author(fields),
        body=own,
        sent_at=_sent(fields),
        kind="message" if loose_text(fields, "type") in _SAID or member(fields, "interaction") else "system",
        order=order_of(external_id, place),
        reply_to=_reply_to(fields, room),
        mentions=_mentions(fields) if own or not is_forward(fields) else [],
        attachments=[*carried(fields), *forwarded(fields)],
        reactions=[_reaction(item) for item in objects(fields, "reactions")],
        edited_at=edited,
        metadata=_metadata(fields, room, edited=edited is not None),
        raw=fields,
        where=where,
    )


def _sent(fields: Fields) -> datetime:
    return iso_time(need(fields, "timestamp", "no time"))


def _edited(fields: Fields) -> datetime | None:
    return optional_time(fields.get("timestampEdited"))


def _own_words(fields: Fields) -> str:
    """Return the text without what is only forwarded; where the two are not told apart, nothing."""
    content = text(fields, "content")
    if not is_forward(fields):
        return content
    given = forwarded_part(fields)
    return content if given and content != loose_text(given, "content") else ""


def _mentions(fields: Fields) -> list[str]:
    return ids([user.get("id") for user in objects(fields, "mentions")])


def _reply_to(fields: Fields, room: IncomingRoom) -> str | None:
    """Return the id of the message answered; most references are something else."""
    reference = member(fields, "reference")
    if loose_text(fields, "type") not in _SAID or is_forward(fields) or member(fields, "interaction"):
        return None
    if _elsewhere(reference, room):
        return None
    target = reference.get("messageId")
    if target is not None and not isinstance(target, str):
        raise Malformed("wrong type", "reference.messageId is not text")
    return target or None


def _elsewhere(reference: Fields, room: IncomingRoom) -> bool:
    channel = reference.get("channelId")
    return channel is not None and channel != room.external_id


def _metadata(fields: Fields, room: IncomingRoom, *, edited: bool) -> dict[str, Any]:
    kind = loose_text(fields, "type")
    reference = member(fields, "reference")
    forward = is_forward(fields)
    interaction = member(fields, "interaction")
    return platform_facts(
        type=kind if kind not in _SAID else None,
        history_lost=edited,
        pinned=fields.get("isPinned") is True,
        forwarded_from="unknown" if forward else None,
        forwarded=kept(
            message_id=reference.get("messageId"),
            room_id=reference.get("channelId"),
            sent_at=forwarded_part(fields).get("timestamp"),
        )
        if forward
        else None,
        reference=dict(reference) if _elsewhere(reference, room) and not forward else None,
        interaction=kept(
            name=interaction.get("name"),
            account_id=member(interaction, "user").get("id"),
            user=loose_text(member(interaction, "user"), "nickname", "name"),
        ),
        call_ended_at=fields.get("callEndedTimestamp"),
    )


def _reaction(item: Fields) -> dict[str, Any]:
    emoji = member(item, "emoji")
    return kept(
        emoji=loose_text(emoji, "name", "code"),
        count=number(item, "count"),
        by=ids([user.get("id") for user in objects(item, "users")]),
    )


#: DiscordChatExporter JSON.
READER = Reader(name="discord", sniff=_sniff, read=_read)
