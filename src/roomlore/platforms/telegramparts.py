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
    return loose_text(member(fields, "poll"), "question")


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
    answers = [loose_text(answer, "text") for answer in objects(given, "answers")]
    return kept(question=loose_text(given, "question"), answers=answers)


def attachments(fields: Fields) -> Iterator[dict[str, Any]]:
    """Yield what was forwarded and the files of a message."""
    if not is_forward(fields):
        yield from _files(fields)
        return
    yield {"type": "forward"} | kept(text=text_of(fields), author=loose_text(fields, "forwarded_from"))
    for item in _files(fields):
        yield item | {"forwarded": True}


def _files(fields: Fields) -> Iterator[dict[str, Any]]:
    if loose_text(fields, "photo"):
        yield {"type": "photo"} | _file_of(fields, "photo", "photo_file_size")
    if loose_text(fields, "file"):
        type_ = loose_text(fields, "mime_type", "media_type") or None
        sticker = loose_text(fields, "sticker_emoji") or None
        yield kept(type=type_, emoji=sticker) | _file_of(fields, "file", "file_size")


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
