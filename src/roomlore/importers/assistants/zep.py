"""Imports messages of Zep: responses that list the messages of a session or thread, or lists of such messages.

A message has an author's name and the type of the author. Facts and summaries, which Zep derives from messages, are not
imported.
"""

from collections.abc import Iterator
from functools import partial

from roomlore.domain.incoming import ParsedItem, SkippedRecord
from roomlore.domain.ports import ExportFiles, Importer, ReadOptions
from roomlore.importers.assistants.assistant_chat import ROLES, read_content, role_of
from roomlore.importers.assistants.chat_records import RecordFormat, has_records, record_files, records
from roomlore.importers.assistants.chat_turns import Chat, Turn, chat_messages
from roomlore.importers.reading.fields import (
    Fields,
    MalformedRecord,
    as_list,
    as_record,
    first_text,
    json_type,
    object_list,
)

_PLATFORM = "zep"
_LISTS = ("messages", "episodes")
_ROOMS = ("session_id", "thread_id", "group_id")
_IDS = ("uuid", "uuid_")


def _looks(record: Fields) -> bool:
    items = [item for key in _LISTS for item in object_list(record, key)[:1]] or [record]
    return any(_is_message(item) for item in items)


def _is_message(fields: Fields) -> bool:
    stated = fields.keys()
    return (
        bool({"uuid", "uuid_"} & stated)
        and bool({"role", "role_type"} & stated)
        and {"content", "created_at"} <= stated
        and isinstance(fields["content"], str)
    )


_FORMAT = RecordFormat(looks=_looks, words=(b'"role"', b'"role_type"'), opened=_LISTS)


def _read(source: ExportFiles, options: ReadOptions) -> Iterator[ParsedItem]:
    del options  # the export states its times
    for file in record_files(source, _FORMAT):
        stem = file.rpartition(".")[0] or file
        loose: dict[str, list[Turn | SkippedRecord]] = {}
        for where, value in records(source, file):
            if isinstance(value, SkippedRecord):
                yield value
                continue
            try:
                fields = as_record(value)
                room = first_text(fields, *_ROOMS) or stem
                key = next((key for key in _LISTS if key in fields), "")
                if key:
                    yield from chat_messages(_chat(room), list(_turns(fields, key, where)))
                else:
                    loose.setdefault(room, []).append(_turn(fields, "", where))
            except MalformedRecord as error:
                yield SkippedRecord(where=where, reason=error.reason, detail=error.detail)
        for room, entries in loose.items():
            yield from chat_messages(_chat(room), entries)


def _chat(room: str) -> Chat:
    return Chat(platform=_PLATFORM, external_id=room)


def _turns(fields: Fields, key: str, where: str) -> Iterator[Turn | SkippedRecord]:
    listed = fields[key]
    if not isinstance(listed, list):
        raise MalformedRecord("not a conversation", f"{key} is {json_type(listed)}, not a list")
    user = first_text(fields, "user_id")
    for number, item in enumerate(as_list(listed), start=1):
        place = f"{where} message {number}"
        try:
            yield _turn(as_record(item), user, place)
        except MalformedRecord as error:
            yield SkippedRecord(where=place, reason=error.reason, detail=error.detail)


def _turn(fields: Fields, user: str, where: str) -> Turn:
    """Return a message as a turn. In older versions, `role` is the name and `role_type` the role."""
    stated = first_text(fields, "role")
    kind = first_text(fields, "role_type")
    role = role_of(kind or stated)
    name = first_text(fields, "name") or (stated if kind and stated.casefold() not in ROLES else "")
    return Turn(
        role=role,
        content=read_content(fields.get("content")),
        account=(first_text(fields, "user_id") or user) if role == "person" else "",
        name=name,
        id=first_text(fields, *_IDS),
        time=fields.get("created_at"),
        raw=fields,
        where=where,
    )


IMPORTER = Importer(
    name=_PLATFORM,
    recognises=partial(has_records, form=_FORMAT),
    read=_read,
    signs=('"role_type"', '"uuid"', '"session_id"', '"created_at"', '"messages"'),
)
