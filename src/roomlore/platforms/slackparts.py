"""Takes what a Slack message says and carries: its text or blocks, files, cards of apps, and shared messages."""

from collections.abc import Iterator
from typing import Any

from roomlore.platforms.fields import (
    Fields,
    as_list,
    as_object,
    non_empty,
    first_text,
    object_field,
    integer_field,
    object_list,
    text_field,
)
from roomlore.platforms.slacktext import NameResolver, render

#: Files whose beginning the export repeats, for they are texts.
_TEXT_FILE_MODES = frozenset({"snippet", "post", "space", "email"})
#: Elements nest a few levels: a list in rich text in a block.
_MAX_DEPTH = 8


def own_text(fields: Fields, names: NameResolver) -> str:
    """Return the text; the words of the blocks where it is empty, as apps leave it."""
    written = text_field(fields, "text")
    return render(written, names) if written else "\n".join(_block_texts(fields, names))


def attachments(fields: Fields, names: NameResolver) -> list[dict[str, Any]]:
    """Return what a message carries besides its own words."""
    return [*_files(fields), *_app_cards(fields, names), *_blocks(fields, names)]


def _files(fields: Fields) -> Iterator[dict[str, Any]]:
    single = object_field(fields, "file")
    for item in [*object_list(fields, "files"), *([single] if single else [])]:
        yield non_empty(
            id=first_text(item, "id"),
            name=first_text(item, "name", "title"),
            title=first_text(item, "title"),
            text=first_text(item, "preview") if first_text(item, "mode") in _TEXT_FILE_MODES else "",
            url=first_text(item, "url_private", "permalink"),
            size=integer_field(item, "size"),
            type=first_text(item, "mimetype"),
            missing=first_text(item, "mode") in {"hidden_by_limit", "tombstone"},
        )


def _app_cards(fields: Fields, names: NameResolver) -> Iterator[dict[str, Any]]:
    """Yield previews, cards of apps and shared messages; they may quote others, so they never become the text."""
    for item in object_list(fields, "attachments"):
        blocks = "\n".join(_block_texts(item, names))
        told = first_text(item, "text") or blocks
        # The fallback repeats the rest for programs that show nothing else.
        shown = told or ("" if first_text(item, "pretext", "title") else first_text(item, "fallback"))
        is_shared = item.get("is_msg_unfurl") is True or item.get("is_share") is True
        yield {"type": "forward" if is_shared else "card"} | non_empty(
            author=first_text(item, "author_name", "author_subname") or first_text(item, "service_name"),
            pretext=render(first_text(item, "pretext"), names),
            name=render(first_text(item, "title"), names),
            url=first_text(item, "title_link", "from_url", "original_url", "image_url"),
            text=shown if shown == blocks else render(shown, names),
            fields=[
                non_empty(
                    name=render(first_text(one, "title"), names),
                    value=render(first_text(one, "value"), names),
                )
                for one in object_list(item, "fields")
            ],
            footer=render(first_text(item, "footer"), names),
        )


def _blocks(fields: Fields, names: NameResolver) -> Iterator[dict[str, Any]]:
    """Yield what blocks say beyond the text, which is mostly a short form of them."""
    written = text_field(fields, "text")
    said = " ".join(render(written, names).split())
    more = [line for line in _block_texts(fields, names) if " ".join(line.split()) not in said]
    # Whatever a person writes is rich text, which the text repeats with other marks.
    if written and more and any(item.get("type") != "rich_text" for item in object_list(fields, "blocks")):
        yield {"type": "blocks", "text": "\n".join(more)}


def _block_texts(fields: Fields, names: NameResolver) -> list[str]:
    lines = [_block(item, names) for item in object_list(fields, "blocks")]
    return [line for line in lines if line.strip()]


def _block(item: Fields, names: NameResolver) -> str:
    kind = first_text(item, "type")
    if kind == "rich_text":
        return "".join(_rich_text(item, names, _MAX_DEPTH)).strip()
    parts = [*_item_texts(item, names)]
    for key in ("fields", "elements"):
        for inner in object_list(item, key):
            parts += [_plain_text(inner, names)] if "text" in inner else _item_texts(inner, names)
    return "\n".join(part for part in parts if part)


def _item_texts(item: Fields, names: NameResolver) -> list[str]:
    found = [_plain_text(object_field(item, key), names) for key in ("text", "title", "label")]
    return [*found, first_text(item, "alt_text")]


def _plain_text(item: Fields, names: NameResolver) -> str:
    """Return a text object in words; only `mrkdwn` has tokens."""
    inner = as_object(item.get("text"))
    if inner is not None:
        return _plain_text(inner, names) if "text" in inner and as_object(inner["text"]) is None else ""
    said = first_text(item, "text")
    return said if first_text(item, "type") == "plain_text" else render(said, names)


def _rich_text(item: Fields, names: NameResolver, depth: int) -> Iterator[str]:
    """Yield the pieces of rich text; lists and quotes are lines of their own."""
    for inner in (piece for one in as_list(item.get("elements")) if (piece := as_object(one)) is not None):
        kind = first_text(inner, "type")
        match kind:
            case "text":
                yield first_text(inner, "text")
            case "user":
                yield "@" + (names.user_name(first_text(inner, "user_id")) or first_text(inner, "user_id"))
            case "channel":
                yield "#" + (
                    names.room_name(first_text(inner, "channel_id")) or first_text(inner, "channel_id")
                )
            case "link":
                yield first_text(inner, "text", "url")
            case "emoji":
                yield f":{first_text(inner, 'name')}:"
            case "broadcast":
                yield f"@{first_text(inner, 'range')}"
            case _ if depth > 0:
                said = "".join(_rich_text(inner, names, depth - 1))
                yield _as_quote(said) if kind == "rich_text_quote" else said + "\n"
            case _:
                pass


def _as_quote(said: str) -> str:
    return "".join(f"> {line}\n" for line in said.splitlines())
