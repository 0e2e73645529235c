"""Imports DiscordChatExporter JSON. Each file has one channel, direct message or thread, or a partition of one.

Pitfalls: all speakers of a webhook share its id. Most references are not replies. A forwarded text is not by the person
who forwards it. Mentions are read from the list `mentions`, because the text shows only names.
"""

from collections.abc import Iterator
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
from roomlore.importers.reading.fields import (
    Fields,
    MalformedRecord,
    add_author,
    as_object,
    build_or_skip,
    direct_members,
    first_text,
    id_list,
    integer_field,
    non_empty,
    object_field,
    object_list,
    parse_iso_time,
    parse_optional_time,
    platform_metadata,
    reaction,
    required_id,
    sequence,
    text_field,
)
from roomlore.importers.reading.json_stream import (
    FileStart,
    JsonShape,
    has_export,
    json_exports,
    skipped_fault,
    walk_file,
)


def is_forward(fields: Fields) -> bool:
    """Return whether a message forwards another one."""
    return object_field(fields, "reference").get("type") == "Forward" or bool(forwarded_message(fields))


def forwarded_message(fields: Fields) -> Fields:
    """Return the forwarded message; empty if the export does not separate it."""
    snapshots = object_list(fields, "message_snapshots")
    return object_field(fields, "forwardedMessage") or (
        object_field(snapshots[0], "message") if snapshots else {}
    )


def forwarded_parts(fields: Fields) -> Iterator[dict[str, Any]]:
    """Yield the forwarded text and its attachments. Their author is unknown."""
    if not is_forward(fields):
        return
    forwarded = forwarded_message(fields) or {"content": first_text(fields, "content")}
    yield {"type": "forward"} | non_empty(
        text=first_text(forwarded, "content"), sent_at=first_text(forwarded, "timestamp")
    )
    for item in attachments(forwarded):
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
    return non_empty(
        name=_text_of(item, "question"), options=[first_text(answer, "text") for answer in media]
    )


def _text_of(item: Fields, key: str) -> str:
    inner = as_object(item.get(key))
    return first_text(inner, "text") if inner is not None else first_text(item, key)


_SPINE: JsonShape = {(): "object", ("messages",): "list"}
_DIRECT: dict[str, RoomKind] = {"DirectTextChat": "dm", "DirectGroupTextChat": "group_dm"}
#: Channel types whose visibility the export does not state. Channels of any other type are closed.
_UNSPECIFIED_TYPES = frozenset({
    "GuildTextChat", "GuildVoiceChat", "GuildCategory", "GuildNews", "GuildNewsThread",
    "GuildPublicThread", "GuildStageVoice", "GuildDirectory", "GuildForum",
})  # fmt: skip
_PRIVATE_TYPES = frozenset({"GuildPrivateThread"})
_KNOWN_TYPES = _UNSPECIFIED_TYPES | _PRIVATE_TYPES | _DIRECT.keys()
_TEXT_TYPES = frozenset({"Default", "Reply"})


def _is_export(head: FileStart) -> bool:
    channel = head.members.get("channel")
    return isinstance(channel, dict) and ("guild" in head.members or "messages" in head.members)


def _read(source: ExportFiles, options: ReadOptions) -> Iterator[ParsedItem]:
    del options  # the export states everything
    files, skipped = json_exports(source, _is_export)
    yield from skipped
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
    """Return the room of each file. A one-to-one room gets the authors of all its partitions as members."""
    channels: dict[str, tuple[Fields, Fields]] = {}
    authors_by_channel: dict[str, dict[tuple[str, str], IncomingAuthor]] = {}
    for file in files:
        channel, guild, authors = _survey(source, file)
        if first_text(channel, "id"):
            channels[file] = channel, guild
            authors_by_channel.setdefault(channel["id"], {}).update(authors)
    rooms: dict[str, IncomingRoom] = {}
    for file, (channel, guild) in channels.items():
        try:
            rooms[file] = _room(channel, guild, list(authors_by_channel[channel["id"]].values()))
        except MalformedRecord:
            continue
    return rooms


def _survey(source: ExportFiles, file: str) -> tuple[Fields, Fields, dict[tuple[str, str], IncomingAuthor]]:
    """Return channel, server and, for a one-to-one room, its authors."""
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
            add_author(authors, step.value, _author)
    return channel, guild, authors


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
    author_fields = object_field(fields, "author")
    if not author_fields:
        raise MalformedRecord("no author")
    account = required_id(author_fields, "id", "no author")
    name = first_text(author_fields, "nickname", "name") or account
    is_bot = author_fields.get("isBot") is True
    # Ordinary accounts may also show "0000", but bot accounts never do.
    webhook = is_bot and first_text(author_fields, "discriminator") in {"0000", "0"}
    persona = first_text(author_fields, "name")[:255] if webhook else ""
    return IncomingAuthor(account_id=account, name=name, kind="agent" if is_bot else "human", persona=persona)


def _message(fields: Fields, at: tuple[IncomingRoom, str, int]) -> IncomingMessage:
    room, where, place = at
    external_id = required_id(fields, "id", "no id")
    own = _own_text(fields)
    edited = parse_optional_time(fields.get("timestampEdited"))
    return IncomingMessage(
        platform="discord",
        room=room,
        external_id=external_id,
        author=_author(fields),
        body=own,
        sent_at=parse_iso_time(required_id(fields, "timestamp", "no time")),
        kind="message"
        if first_text(fields, "type") in _TEXT_TYPES or object_field(fields, "interaction")
        else "system",
        order=sequence(external_id, place),
        reply_to=_reply_to(fields, room),
        mentions=id_list([user.get("id") for user in object_list(fields, "mentions")])
        if own or not is_forward(fields)
        else [],
        attachments=[*attachments(fields), *forwarded_parts(fields)],
        reactions=[_reaction(item) for item in object_list(fields, "reactions")],
        edited_at=edited,
        metadata=_metadata(fields, room, edited=edited is not None),
        raw=fields,
        where=where,
    )


def _own_text(fields: Fields) -> str:
    """Return the text without the forwarded part; empty if the two parts cannot be told apart."""
    content = text_field(fields, "content")
    if not is_forward(fields):
        return content
    forwarded = forwarded_message(fields)
    return content if forwarded and content != first_text(forwarded, "content") else ""


def _reply_to(fields: Fields, room: IncomingRoom) -> str | None:
    """Return the id of the parent; None if the message is not a reply.

    Forwards, interactions and system messages also have references, but these do not name a parent.
    """
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
    by = id_list([user.get("id") for user in object_list(item, "users")])
    return reaction(item, first_text(object_field(item, "emoji"), "name", "code"), by)


IMPORTER = Importer(
    name="discord",
    recognises=partial(has_export, looks=_is_export),
    read=_read,
    signs=('"guild"', '"channel"', '"timestampEdited"', '"isBot"', '"isPinned"'),
)
