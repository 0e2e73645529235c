"""Takes what a Telegram message holds: its text in pieces, whom it names, its files, reactions and links."""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from roomlore.platforms.fields import (
    Fields,
    MalformedRecord,
    as_list,
    as_object,
    non_empty,
    json_type,
    first_text,
    object_field,
    integer_field,
    object_list,
)

#: What Telegram says of a file beyond its MIME type, in plain words.
_MEDIA_KINDS = {
    "sticker": "sticker",
    "animation": "animation",
    "video_message": "video",
    "voice_message": "voice message",
    "audio_file": "audio",
    "video_file": "video",
}


def is_forward(fields: Fields) -> bool:
    """Return whether a message repeats what was said elsewhere; it then says nothing of its own."""
    return "forwarded_from" in fields and fields.get("type") != "service"


def text_of(fields: Fields) -> str:
    """Return the text in one piece; what happened for a service message, the question for a poll."""
    said = "".join(_text_pieces(fields))
    if said:
        return said
    if fields.get("type") == "service":
        return _service_line(fields)
    return _flat_text(object_field(fields, "poll").get("question"))


def _text_pieces(fields: Fields) -> Iterator[str]:
    value = fields.get("text")
    if value is None:
        return
    for piece in as_list(value) if isinstance(value, list) else [value]:
        inner = as_object(piece)
        said = piece if inner is None else inner.get("text")
        if not isinstance(said, str):
            raise MalformedRecord("wrong type", f"a piece of the text is {json_type(said)}")
        yield said


def _flat_text(value: Any) -> str:
    """Return a text that may be in pieces; what is none is left out."""
    pieces = [first_text(inner, "text") if (inner := as_object(one)) else one for one in as_list(value)]
    return value if isinstance(value, str) else "".join(one for one in pieces if isinstance(one, str))


def _service_line(fields: Fields) -> str:
    """Return what happened in words, since a service message has no text of its own."""
    action = first_text(fields, "action").replace("_", " ")
    named = [name for name in as_list(fields.get("members")) if isinstance(name, str)]
    details = ", ".join([*named, *filter(None, [first_text(fields, "title", "new_title")])])
    return f"{action}: {details}" if details else action


def mentions(fields: Fields) -> list[str]:
    """Return the accounts named by id; a plain @name is text, and a forward names nobody anew."""
    if is_forward(fields):
        return []
    found = [f"user{item['user_id']}" for item in _entities(fields) if integer_field(item, "user_id") is not None]
    return list(dict.fromkeys(found))


def links(fields: Fields) -> list[str]:
    """Return the addresses behind linked words."""
    return [item["href"] for item in _entities(fields) if first_text(item, "href")]


def _entities(fields: Fields) -> list[Fields]:
    return object_list(fields, "text_entities") or object_list(fields, "text")


def poll(fields: Fields) -> dict[str, Any]:
    """Return a poll's question and answers; empty where there is none."""
    given = object_field(fields, "poll")
    answers = [_flat_text(answer.get("text")) for answer in object_list(given, "answers")]
    return non_empty(question=_flat_text(given.get("question")), answers=answers)


def attachments(fields: Fields) -> Iterator[dict[str, Any]]:
    """Yield what was forwarded and the files of a message."""
    if not is_forward(fields):
        yield from _files(fields)
        return
    yield {"type": "forward"} | non_empty(text=text_of(fields), author=first_text(fields, "forwarded_from"))
    for item in _files(fields):
        yield item | {"forwarded": True}


def _files(fields: Fields) -> Iterator[dict[str, Any]]:
    yield from _non_file_parts(fields)
    if first_text(fields, "photo"):
        yield {"type": "photo"} | _file_of(fields, "photo", "photo_file_size")
    if first_text(fields, "file"):
        media = first_text(fields, "media_type")
        type_ = media if media in _MEDIA_KINDS else first_text(fields, "mime_type", "media_type")
        sung = " - ".join(filter(None, (first_text(fields, "performer"), first_text(fields, "title"))))
        about = non_empty(type=_MEDIA_KINDS.get(media, type_), emoji=first_text(fields, "sticker_emoji"), title=sung)
        yield about | _file_of(fields, "file", "file_size")


def _non_file_parts(fields: Fields) -> Iterator[dict[str, Any]]:
    """Yield what is no file: polls, contacts, places, games and the like."""
    asked = poll(fields)
    if asked:
        yield {"type": "poll"} | non_empty(name=asked.get("question"), options=asked.get("answers"))
    contact = object_field(fields, "contact_information")
    if contact:
        full = " ".join(filter(None, (first_text(contact, "first_name"), first_text(contact, "last_name"))))
        yield {"type": "contact"} | non_empty(name=full, text=first_text(contact, "phone_number"))
    place = object_field(fields, "location_information")
    if place:
        where = ", ".join(str(place[key]) for key in ("latitude", "longitude") if _is_degree(place.get(key)))
        named = non_empty(name=first_text(fields, "place_name"), title=first_text(fields, "address"), text=where)
        yield {"type": "location"} | named
    for kind, key, about in (("game", "game_title", "game_description"), ("story", "story_title", "")):
        if first_text(fields, key):
            yield {"type": kind} | non_empty(name=first_text(fields, key), text=first_text(fields, about))
    for kind in ("invoice", "todo_list", "giveaway_information"):
        given = object_field(fields, f"{kind}_information") or object_field(fields, kind)
        if given:
            texts = [first_text(one, "text") for one in object_list(given, "answers")]
            about = non_empty(
                name=first_text(given, "title", "additional_prize"),
                text=first_text(given, "description"),
                options=texts,
            )
            yield {"type": kind.removesuffix("_information").replace("_", " ")} | about


def _is_degree(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _file_of(fields: Fields, key: str, size: str) -> dict[str, Any]:
    """Return name, place and size; a file left out of the export shows as a sentence in brackets."""
    path = first_text(fields, key)
    missing = path.startswith("(")
    name = first_text(fields, "file_name") if key == "file" else ""
    return non_empty(
        name=name or ("" if missing else PurePosixPath(path).name),
        url="" if missing else path,
        missing=missing,
        size=integer_field(fields, size),
    )


def reactions(fields: Fields) -> list[dict[str, Any]]:
    """Return each reaction with its count and those of its givers that the export names."""
    return [_reaction(item) for item in object_list(fields, "reactions")]


def _reaction(item: Fields) -> dict[str, Any]:
    recent = [str(who["from_id"]) for who in object_list(item, "recent") if isinstance(who.get("from_id"), str)]
    return non_empty(emoji=first_text(item, "emoji", "document_id"), count=integer_field(item, "count"), by=recent)
