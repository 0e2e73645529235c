"""Takes what a Telegram message holds: its text in pieces, whom it names, its files, reactions and links."""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from roomlore.platforms.fields import (
    Fields,
    Malformed,
    as_list,
    as_object,
    kept,
    kind_of,
    loose_text,
    member,
    number,
    objects,
)

#: What Telegram says of a file beyond its MIME type, in plain words.
_KINDS = {
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
    said = "".join(_pieces(fields))
    if said:
        return said
    if fields.get("type") == "service":
        return _service_line(fields)
    return _flat(member(fields, "poll").get("question"))


def _pieces(fields: Fields) -> Iterator[str]:
    value = fields.get("text")
    if value is None:
        return
    for piece in as_list(value) if isinstance(value, list) else [value]:
        inner = as_object(piece)
        said = piece if inner is None else inner.get("text")
        if not isinstance(said, str):
            raise Malformed("wrong type", f"a piece of the text is {kind_of(said)}")
        yield said


def _flat(value: Any) -> str:
    """Return a text that may be in pieces; what is none is left out."""
    pieces = [loose_text(inner, "text") if (inner := as_object(one)) else one for one in as_list(value)]
    return value if isinstance(value, str) else "".join(one for one in pieces if isinstance(one, str))


def _service_line(fields: Fields) -> str:
    """Return what happened in words, since a service message has no text of its own."""
    action = loose_text(fields, "action").replace("_", " ")
    named = [name for name in as_list(fields.get("members")) if isinstance(name, str)]
    details = ", ".join([*named, *filter(None, [loose_text(fields, "title", "new_title")])])
    return f"{action}: {details}" if details else action


def mentions(fields: Fields) -> list[str]:
    """Return the accounts named by id; a plain @name is text, and a forward names nobody anew."""
    if is_forward(fields):
        return []
    found = [f"user{item['user_id']}" for item in _entities(fields) if number(item, "user_id") is not None]
    return list(dict.fromkeys(found))


def links(fields: Fields) -> list[str]:
    """Return the addresses behind linked words."""
    return [item["href"] for item in _entities(fields) if loose_text(item, "href")]


def _entities(fields: Fields) -> list[Fields]:
    return objects(fields, "text_entities") or objects(fields, "text")


def poll(fields: Fields) -> dict[str, Any]:
    """Return a poll's question and answers; empty where there is none."""
    given = member(fields, "poll")
    answers = [_flat(answer.get("text")) for answer in objects(given, "answers")]
    return kept(question=_flat(given.get("question")), answers=answers)


def attachments(fields: Fields) -> Iterator[dict[str, Any]]:
    """Yield what was forwarded and the files of a message."""
    if not is_forward(fields):
        yield from _files(fields)
        return
    yield {"type": "forward"} | kept(text=text_of(fields), author=loose_text(fields, "forwarded_from"))
    for item in _files(fields):
        yield item | {"forwarded": True}


def _files(fields: Fields) -> Iterator[dict[str, Any]]:
    yield from _things(fields)
    if loose_text(fields, "photo"):
        yield {"type": "photo"} | _file_of(fields, "photo", "photo_file_size")
    if loose_text(fields, "file"):
        media = loose_text(fields, "media_type")
        type_ = media if media in _KINDS else loose_text(fields, "mime_type", "media_type")
        sung = " - ".join(filter(None, (loose_text(fields, "performer"), loose_text(fields, "title"))))
        about = kept(type=_KINDS.get(media, type_), emoji=loose_text(fields, "sticker_emoji"), title=sung)
        yield about | _file_of(fields, "file", "file_size")


def _things(fields: Fields) -> Iterator[dict[str, Any]]:
    """Yield what is no file: polls, contacts, places, games and the like."""
    asked = poll(fields)
    if asked:
        yield {"type": "poll"} | kept(name=asked.get("question"), options=asked.get("answers"))
    contact = member(fields, "contact_information")
    if contact:
        full = " ".join(filter(None, (loose_text(contact, "first_name"), loose_text(contact, "last_name"))))
        yield {"type": "contact"} | kept(name=full, text=loose_text(contact, "phone_number"))
    place = member(fields, "location_information")
    if place:
        where = ", ".join(str(place[key]) for key in ("latitude", "longitude") if _is_degree(place.get(key)))
        named = kept(name=loose_text(fields, "place_name"), title=loose_text(fields, "address"), text=where)
        yield {"type": "location"} | named
    for kind, key, about in (("game", "game_title", "game_description"), ("story", "story_title", "")):
        if loose_text(fields, key):
            yield {"type": kind} | kept(name=loose_text(fields, key), text=loose_text(fields, about))
    for kind in ("invoice", "todo_list", "giveaway_information"):
        given = member(fields, f"{kind}_information") or member(fields, kind)
        if given:
            texts = [loose_text(one, "text") for one in objects(given, "answers")]
            about = kept(
                name=loose_text(given, "title", "additional_prize"),
                text=loose_text(given, "description"),
                options=texts,
            )
            yield {"type": kind.removesuffix("_information").replace("_", " ")} | about


def _is_degree(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _file_of(fields: Fields, key: str, size: str) -> dict[str, Any]:
    """Return name, place and size; a file left out of the export shows as a sentence in brackets."""
    path = loose_text(fields, key)
    missing = path.startswith("(")
    name = loose_text(fields, "file_name") if key == "file" else ""
    return kept(
        name=name or ("" if missing else PurePosixPath(path).name),
        url="" if missing else path,
        missing=missing,
        size=number(fields, size),
    )


def reactions(fields: Fields) -> list[dict[str, Any]]:
    """Return each reaction with its count and those of its givers that the export names."""
    return [_reaction(item) for item in objects(fields, "reactions")]


def _reaction(item: Fields) -> dict[str, Any]:
    recent = [str(who["from_id"]) for who in objects(item, "recent") if isinstance(who.get("from_id"), str)]
    return kept(emoji=loose_text(item, "emoji", "document_id"), count=number(item, "count"), by=recent)
