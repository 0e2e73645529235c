"""Takes what a Discord message carries besides its text: files, embeds, stickers, polls, and what it forwards.

DiscordChatExporter has names of its own for some of it; records made from Discord's API have those of the API.
"""

from collections.abc import Iterator
from typing import Any

from roomlore.platforms.fields import Fields, as_object, kept, loose_text, member, number, objects


def is_forward(fields: Fields) -> bool:
    """Return whether a message repeats what was said elsewhere."""
    return member(fields, "reference").get("type") == "Forward" or bool(forwarded_part(fields))


def forwarded_part(fields: Fields) -> Fields:
    """Return the message that is forwarded; an empty one where the export does not hold it apart."""
    snapshots = objects(fields, "message_snapshots")
    return member(fields, "forwardedMessage") or (member(snapshots[0], "message") if snapshots else {})


def forwarded(fields: Fields) -> Iterator[dict[str, Any]]:
    """Yield what is forwarded, words first; the export does not tell whose it is."""
    if not is_forward(fields):
        return
    given = forwarded_part(fields) or {"content": loose_text(fields, "content")}
    yield {"type": "forward"} | kept(
        text=loose_text(given, "content"), sent_at=loose_text(given, "timestamp")
    )
    for item in carried(given):
        yield item | {"forwarded": True}


def carried(fields: Fields) -> Iterator[dict[str, Any]]:
    """Yield files, embeds, stickers and a poll."""
    for item in objects(fields, "attachments"):
        yield kept(
            id=loose_text(item, "id"),
            name=loose_text(item, "fileName", "filename"),
            text=loose_text(item, "description"),
            url=loose_text(item, "url"),
            size=number(item, "fileSizeBytes") or number(item, "size"),
        )
    for item in objects(fields, "embeds"):
        yield {"type": "embed"} | _embed(item)
    for item in [*objects(fields, "stickers"), *objects(fields, "sticker_items")]:
        yield {"type": "sticker"} | kept(name=loose_text(item, "name"), url=loose_text(item, "sourceUrl"))
    poll = member(fields, "poll")
    if poll:
        yield {"type": "poll"} | _poll(poll)


def _embed(item: Fields) -> dict[str, Any]:
    fields = [
        kept(name=loose_text(field, "name"), value=loose_text(field, "value"))
        for field in objects(item, "fields")
    ]
    return kept(
        author=loose_text(member(item, "author"), "name"),
        name=loose_text(item, "title"),
        url=loose_text(item, "url"),
        text=loose_text(item, "description"),
        fields=[field for field in fields if field],
        footer=loose_text(member(item, "footer"), "text"),
    )


def _poll(item: Fields) -> dict[str, Any]:
    media = [
        member(answer, "poll_media") or member(answer, "pollMedia") or answer
        for answer in objects(item, "answers")
    ]
    return kept(name=_text_of(item, "question"), options=[loose_text(one, "text") for one in media])


def _text_of(item: Fields, key: str) -> str:
    inner = as_object(item.get(key))
    return loose_text(inner, "text") if inner is not None else loose_text(item, key)
