"""Takes what a Slack message says and carries: its text or blocks, files, cards of apps, and shared messages."""

from collections.abc import Iterator
from typing import Any

from roomlore.platforms.fields import (
    Fields,
    as_list,
    as_object,
    kept,
    loose_text,
    member,
    number,
    objects,
    text,
)
from roomlore.platforms.slacktext import Names, render

#: Files whose beginning the export repeats, for they are texts.
_WRITTEN = frozenset({"snippet", "post", "space", "email"})
#: Elements nest a few levels: a list in rich text in a block.
_DEEPEST = 8


def own_words(fields: Fields, names: Names) -> str:
    """Return the text; the words of the blocks where it is empty, as apps leave it."""
    written = text(fields, "text")
    return render(written, names) if written else "\n".join(_of_blocks(fields, names))


def carried(fields: Fields, names: Names) -> list[dict[str, Any]]:
    """Return what a message carries besides its own words."""
    return [*_files(fields), *_cards(fields, names), *_blocks(fields, names)]


def _files(fields: Fields) -> Iterator[dict[str, Any]]:
    single = member(fields, "file")
    for item in [*objects(fields, "files"), *([single] if single else [])]:
        yield kept(
            id=loose_text(item, "id"),
            name=loose_text(item, "name", "title"),
            title=loose_text(item, "title"),
            text=loose_text(item, "preview") if loose_text(item, "mode") in _WRITTEN else "",
            url=loose_text(item, "url_private", "permalink"),
            size=number(item, "size"),
            type=loose_text(item, "mimetype"),
            missing=loose_text(item, "mode") in {"hidden_by_limit", "tombstone"},
        )


def _cards(fields: Fields, names: Names) -> Iterator[dict[str, Any]]:
    """Yield previews, cards of apps and shared messages; they may quote others, so they never become the text."""
    for item in objects(fields, "attachments"):
        blocks = "\n".join(_of_blocks(item, names))
        told = loose_text(item, "text") or blocks
        # The fallback repeats the rest for programs that show nothing else.
        shown = told or ("" if loose_text(item, "pretext", "title") else loose_text(item, "fallback"))
        is_shared = item.get("is_msg_unfurl") is True or item.get("is_share") is True
        yield {"type": "forward" if is_shared else "card"} | kept(
            author=loose_text(item, "author_name", "author_subname") or loose_text(item, "service_name"),
            pretext=render(loose_text(item, "pretext"), names),
            name=render(loose_text(item, "title"), names),
            url=loose_text(item, "title_link", "from_url", "original_url", "image_url"),
            text=shown if shown == blocks else render(shown, names),
            fields=[
                kept(
                    name=render(loose_text(one, "title"), names),
                    value=render(loose_text(one, "value"), names),
                )
                for one in objects(item, "fields")
            ],
            footer=render(loose_text(item, "footer"), names),
        )


def _blocks(fields: Fields, names: Names) -> Iterator[dict[str, Any]]:
    """Yield what blocks say beyond the text, which is mostly a short form of them."""
    written = text(fields, "text")
    said = " ".join(render(written, names).split())
    more = [line for line in _of_blocks(fields, names) if " ".join(line.split()) not in said]
    # Whatever a person writes is rich text, which the text repeats with other marks.
    if written and more and any(item.get("type") != "rich_text" for item in objects(fields, "blocks")):
        yield {"type": "blocks", "text": "\n".join(more)}


def _of_blocks(fields: Fields, names: Names) -> list[str]:
    lines = [_block(item, names) for item in objects(fields, "blocks")]
    return [line for line in lines if line.strip()]


def _block(item: Fields, names: Names) -> str:
    kind = loose_text(item, "type")
    if kind == "rich_text":
        return "".join(_rich(item, names, _DEEPEST)).strip()
    parts = [*_texts(item, names)]
    for key in ("fields", "elements"):
        for inner in objects(item, key):
            parts += [_plain(inner, names)] if "text" in inner else _texts(inner, names)
    return "\n".join(part for part in parts if part)


def _texts(item: Fields, names: Names) -> list[str]:
    found = [_plain(member(item, key), names) for key in ("text", "title", "label")]
    return [*found, loose_text(item, "alt_text")]


def _plain(item: Fields, names: Names) -> str:
    """Return a text object in words; only `mrkdwn` has tokens."""
    inner = as_object(item.get("text"))
    if inner is not None:
        return _plain(inner, names) if "text" in inner and as_object(inner["text"]) is None else ""
    said = loose_text(item, "text")
    return said if loose_text(item, "type") == "plain_text" else render(said, names)


def _rich(item: Fields, names: Names, depth: int) -> Iterator[str]:
    """Yield the pieces of rich text; lists and quotes are lines of their own."""
    for inner in (piece for one in as_list(item.get("elements")) if (piece := as_object(one)) is not None):
        kind = loose_text(inner, "type")
        match kind:
            case "text":
                yield loose_text(inner, "text")
            case "user":
                yield "@" + (names.of_user(loose_text(inner, "user_id")) or loose_text(inner, "user_id"))
            case "channel":
                yield "#" + (
                    names.of_room(loose_text(inner, "channel_id")) or loose_text(inner, "channel_id")
                )
            case "link":
                yield loose_text(inner, "text", "url")
            case "emoji":
                yield f":{loose_text(inner, 'name')}:"
            case "broadcast":
                yield f"@{loose_text(inner, 'range')}"
            case _ if depth > 0:
                said = "".join(_rich(inner, names, depth - 1))
                yield _quoted(said) if kind == "rich_text_quote" else said + "\n"
            case _:
                pass


def _quoted(said: str) -> str:
    return "".join(f"> {line}\n" for line in said.splitlines())
