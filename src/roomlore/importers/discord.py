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
    ParsedItem,
    RoomKind,
    SkippedRecord,
)
from roomlore.domain.ports import ExportFiles, Importer, ReadOptions
from roomlore.domain.room_visibility import DIRECT_KINDS
from roomlore.importers.fields import (
    Fields,
    MalformedRecord,
    as_object,
    build_or_skip,
    direct_members,
    first_text,
    id_list,
    integer_field,
    native_order,
    non_empty,
    object_field,
    object_list,
    parse_iso_time,
    parse_optional_time,
    platform_metadata,
    required_id,
    text_field,
)
from roomlore.importers.json_stream import (
    FileStart,
    JsonShape,
    JsonStep,
    has_export,
    json_exports,
    skipped_fault,
    walk_file,
)


def is_forward(fields: Fields) -> bool:
    """Return whether a message repeats what was said elsewhere."""
    return object_field(fields, "reference").get("type") == "Forward" or bool(forwarded_message(fields))


def forwarded_message(fields: Fields) -> Fields:
    """Return the message that is forwarded; an empty one where the export does not hold it apart."""
    snapshots = object_list(fields, "message_snapshots")
    return object_field(fields, "forwardedMessage") or (
        object_field(snapshots[0], "message") if snapshots else {}
    )


def forwarded_parts(fields: Fields) -> Iterator[dict[str, Any]]:
    """Yield what is forwarded, words first; the export does not tell whose it is."""
    if not is_forward(fields):
        return
    given = forwarded_message(fields) or {"content": first_text(fields, "content")}
    yield {"type": "forward"} | non_empty(
        text=first_text(given, "content"), sent_at=first_text(given, "timestamp")
    )
    for item in attachments(given):
        yield item | {"forwarded": True}


def attachments(fields: Fields) -> Iterator[dict[str, Any]]:
    """Yield files, embeds, stickers and a poll."""
    for item in object_list(fields, "attachments"):
        yield non_empty(
            id=first_text(item, "id"),
            name=first_text(item, "fileName", "filename"),
            text=first_text(item, "description"),
            url=first_text(item, "url"),
            size=integer_field(item, "fileSizeBytes") or integer_field(item, "size"),
        )
    for item in object_list(fields, "embeds"):
        yield {"type": "embed"} | _embed(item)
    for item in [*object_list(fields, "stickers"), *object_list(fields, "sticker_items")]:
        yield {"type": "sticker"} | non_empty(
            name=first_text(item, "name"), url=first_text(item, "sourceUrl")
        )
    poll = object_field(fields, "poll")
    if poll:
        yield {"type": "poll"} | _poll(poll)


def _embed(item: Fields) -> dict[str, Any]:
    fields = [
        non_empty(name=first_text(field, "name"), value=first_text(field, "value"))
        for field in object_list(item, "fields")
    ]
    return non_empty(
        author=first_text(object_field(item, "author"), "name"),
        name=first_text(item, "title"),
        url=first_text(item, "url"),
        text=first_text(item, "description"),
        fields=[field for field in fields if field],
        footer=first_text(object_field(item, "footer"), "text"),
    )


def _poll(item: Fields) -> dict[str, Any]:
    media = [
        object_field(answer, "poll_media") or object_field(answer, "pollMedia") or answer
        for answer in object_list(item, "answers")
    ]
    return non_empty(name=_text_of(item, "question"), options=[first_text(one, "text") for one in media])


def _text_of(item: Fields, key: str) -> str:
    inner = as_object(item.get(key))
    return first_text(inner, "text") if inner is not None else first_text(item, key)


_SPINE: JsonShape = {(): "object", ("messages",): "list"}
_DIRECT: dict[str, RoomKind] = {"DirectTextChat": "dm", "DirectGroupTextChat": "group_dm"}
#: Channels of which the export does not tell who may read them. Anything else is for its members.
_UNSPECIFIED_TYPES = frozenset(
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
_PRIVATE_TYPES = frozenset({"GuildPrivateThread"})
_KNOWN_TYPES = _UNSPECIFIED_TYPES | _PRIVATE_TYPES | _DIRECT.keys()
_TEXT_TYPES = frozenset({"Default", "Reply"})


def _is_export(head: FileStart) -> bool:
    channel = head.members.get("channel")
    return isinstance(channel, dict) and ("guild" in head.members or "messages" in head.members)


def _sniff(source: ExportFiles) -> bool:
    return has_export(source, _is_export)


def _read(source: ExportFiles, options: ReadOptions) -> Iterator[ParsedItem]:
    del options  # the export says all there is to say
    files, left = json_exports(source, _is_export)
    yield from left
    rooms = _rooms(source, files)
    for file in files:
        room = rooms.get(file)
        if room is None:
            yield SkippedRecord(where=file, reason="no room", detail="the channel is missing or has no id")
        else:
            yield from _file(source, file, room)


def _file(source: ExportFiles, file: str, room: IncomingRoom) -> Iterator[ParsedItem]:
    for step in walk_file(source, file, _SPINE):
        if step.kind == "fault":
            yield skipped_fault(step, file)
        elif step.kind == "value" and step.place == ("messages",):
            where = f"{file} record {step.number}"
            yield from build_or_skip(
                step.value, where, build=partial(_message, at=(room, where, step.number))
            )
        elif step.kind == "value" and step.key == "messages":
            yield SkippedRecord(where=file, reason="not a list of messages")


def _rooms(source: ExportFiles, files: list[str]) -> dict[str, IncomingRoom]:
    """Return the room of each file; a one-to-one room with both sides, whichever of its partitions shows them."""
    channels: dict[str, tuple[Fields, Fields]] = {}
    seen: dict[str, dict[tuple[str, str], IncomingAuthor]] = {}
    for file in files:
        channel, guild, authors = _survey(source, file)
        if first_text(channel, "id"):
            channels[file] = channel, guild
            seen.setdefault(channel["id"], {}).update(authors)
    rooms: dict[str, IncomingRoom] = {}
    for file, (channel, guild) in channels.items():
        try:
            rooms[file] = _room(channel, guild, list(seen[channel["id"]].values()))
        except MalformedRecord:
            continue
    return rooms


def _survey(source: ExportFiles, file: str) -> tuple[Fields, Fields, dict[tuple[str, str], IncomingAuthor]]:
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


def _note_author(step: JsonStep, authors: dict[tuple[str, str], IncomingAuthor]) -> None:
    try:
        author = _author(as_object(step.value) or {})
    except MalformedRecord:
        return
    authors.setdefault((author.account_id, author.persona), author)


def _kind(channel: Fields) -> RoomKind:
    return _DIRECT.get(first_text(channel, "type"), "channel")


def _room(channel: Fields, guild: Fields, authors: list[IncomingAuthor]) -> IncomingRoom:
    type_, kind = first_text(channel, "type"), _kind(channel)
    return IncomingRoom(
        external_id=required_id(channel, "id", "no room"),
        name=first_text(channel, "name", "id"),
        kind=kind if type_ in _KNOWN_TYPES else None,
        visibility="members" if type_ in _PRIVATE_TYPES or kind in DIRECT_KINDS else None,
        topic=first_text(channel, "topic"),
        members=direct_members(kind, authors),
        workspace="" if kind in DIRECT_KINDS else first_text(guild, "name"),
        category=first_text(channel, "category"),
    )


def _author(fields: Fields) -> IncomingAuthor:
    given = object_field(fields, "author")
    if not given:
        raise MalformedRecord("no author")
    account = required_id(given, "id", "no author")
    name = first_text(given, "nickname", "name") or account
    is_bot = given.get("isBot") is True
    # An ordinary account may show "0000" too since user names became unique; a bot account never does.
    webhook = is_bot and first_text(given, "discriminator") in {"0000", "0"}
    persona = first_text(given, "name")[:255] if webhook else ""
    return IncomingAuthor(account_id=account, name=name, kind="agent" if is_bot else "human", persona=persona)


def _message(fields: Fields, at: tuple[IncomingRoom, str, int]) -> IncomingMessage:
    room, where, place = at
    external_id = required_id(fields, "id", "no id")
    own = _own_text(fields)
    edited = _edited(fields)
    return IncomingMessage(
        platform="discord",
        room=room,
        external_id=external_id,
        author=_author(fields),
        body=own,
        sent_at=_sent(fields),
        kind="message"
        if first_text(fields, "type") in _TEXT_TYPES or object_field(fields, "interaction")
        else "system",
        order=native_order(external_id, place),
        reply_to=_reply_to(fields, room),
        mentions=_mentions(fields) if own or not is_forward(fields) else [],
        attachments=[*attachments(fields), *forwarded_parts(fields)],
        reactions=[_reaction(item) for item in object_list(fields, "reactions")],
        edited_at=edited,
        metadata=_metadata(fields, room, edited=edited is not None),
        raw=fields,
        where=where,
    )


def _sent(fields: Fields) -> datetime:
    return parse_iso_time(required_id(fields, "timestamp", "no time"))


def _edited(fields: Fields) -> datetime | None:
    return parse_optional_time(fields.get("timestampEdited"))


def _own_text(fields: Fields) -> str:
    """Return the text without what is only forwarded; where the two are not told apart, nothing."""
    content = text_field(fields, "content")
    if not is_forward(fields):
        return content
    given = forwarded_message(fields)
    return content if given and content != first_text(given, "content") else ""


def _mentions(fields: Fields) -> list[str]:
    return id_list([user.get("id") for user in object_list(fields, "mentions")])


def _reply_to(fields: Fields, room: IncomingRoom) -> str | None:
    """Return the id of the message answered; most references are something else."""
    reference = object_field(fields, "reference")
    if (
        first_text(fields, "type") not in _TEXT_TYPES
        or is_forward(fields)
        or object_field(fields, "interaction")
    ):
        return None
    if _is_cross_channel(reference, room):
        return None
    target = reference.get("messageId")
    if target is not None and not isinstance(target, str):
        raise MalformedRecord("wrong type", "reference.messageId is not text")
    return target or None


def _is_cross_channel(reference: Fields, room: IncomingRoom) -> bool:
    channel = reference.get("channelId")
    return channel is not None and channel != room.external_id


def _metadata(fields: Fields, room: IncomingRoom, *, edited: bool) -> dict[str, Any]:
    kind = first_text(fields, "type")
    reference = object_field(fields, "reference")
    forward = is_forward(fields)
    interaction = object_field(fields, "interaction")
    return platform_metadata(
        type=kind if kind not in _TEXT_TYPES else None,
        history_lost=edited,
        pinned=fields.get("isPinned") is True,
        forwarded_from="unknown" if forward else None,
        forwarded=non_empty(
            message_id=reference.get("messageId"),
            room_id=reference.get("channelId"),
            sent_at=forwarded_message(fields).get("timestamp"),
        )
        if forward
        else None,
        reference=dict(reference) if _is_cross_channel(reference, room) and not forward else None,
        interaction=non_empty(
            name=interaction.get("name"),
            account_id=object_field(interaction, "user").get("id"),
            user=first_text(object_field(interaction, "user"), "nickname", "name"),
        ),
        call_ended_at=fields.get("callEndedTimestamp"),
    )


def _reaction(item: Fields) -> dict[str, Any]:
    emoji = object_field(item, "emoji")
    return non_empty(
        emoji=first_text(emoji, "name", "code"),
        count=integer_field(item, "count"),
        by=id_list([user.get("id") for user in object_list(item, "users")]),
    )


#: DiscordChatExporter JSON.
IMPORTER = Importer(name="discord", recognises=_sniff, read=_read)
