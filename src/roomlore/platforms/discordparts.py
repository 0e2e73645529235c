"""Takes what a Discord message carries besides its text: files, embeds, stickers, polls, and what it forwards.

DiscordChatExporter has names of its own for some of it; records made from Discord's API have those of the API.
"""

from collections.abc import Iterator
from typing import Any

from roomlore.platforms.fields import Fields, as_object, non_empty, first_text, object_field, integer_field, object_list


def is_forward(fields: Fields) -> bool:
    """Return whether a message repeats what was said elsewhere."""
    return object_field(fields, "reference").get("type") == "Forward" or bool(forwarded_message(fields))


def forwarded_message(fields: Fields) -> Fields:
    """Return the message that is forwarded; an empty one where the export does not hold it apart."""
    snapshots = object_list(fields, "message_snapshots")
    return object_field(fields, "forwardedMessage") or (object_field(snapshots[0], "message") if snapshots else {})


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
        yield {"type": "sticker"} | non_empty(name=first_text(item, "name"), url=first_text(item, "sourceUrl"))
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
