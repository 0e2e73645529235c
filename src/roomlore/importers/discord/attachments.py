"""Files, embeds, stickers, reactions and forwarded messages in the pages of DiscordChatExporter."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

from roomlore.domain.patterns import lazy_pattern
from roomlore.importers.discord.dates import read_time
from roomlore.importers.discord.html_page import ShownMessage
from roomlore.importers.discord.markup import emoji_of, text_of
from roomlore.importers.reading.fields import non_empty, reaction
from roomlore.importers.reading.html_stream import HtmlElement

_FORWARDED = "chatlog__forwarded"
_FORWARDED_FILES = "chatlog__forwarded-attachments"
_STICKER = "chatlog__sticker"
_MEDIA = ("chatlog__attachment-media", "chatlog__forwarded-attachment", "chatlog__attachment-thumbnail")
_EMBED_AUTHOR = ("chatlog__embed-author-name", "chatlog__embed-author")
_EMBED_MEDIA = (
    "chatlog__embed-generic-image", "chatlog__embed-generic-video", "chatlog__embed-generic-gifv",
    "chatlog__embed-plainimage", "chatlog__embed-spotify", "chatlog__embed-youtube", "chatlog__embed-twitch",
)  # fmt: skip
#: What stands in for a description.
_NO_DESCRIPTION = frozenset({"", "Image attachment", "Video attachment", "Audio attachment", "Attachment"})
_KIND = lazy_pattern(r"^(?:Image|Video|Audio|Attachment): ")
_SIZE = lazy_pattern(r" \([\d.,]+ [A-Za-z]{1,5}\)$", most=1000)
_STORED_FILE = lazy_pattern(r"/attachments/\d{15,20}/(\d{15,20})/", most=2000)


def attachments(shown: ShownMessage) -> Iterator[dict[str, Any]]:
    """Yield files, embeds and stickers of a message, but not of a message that it forwards."""
    forwarded = shown.find(_FORWARDED)
    inside = {id(one) for one in forwarded.walk()} if forwarded else set[int]()
    for element in shown.find_all("chatlog__attachment"):
        if id(element) not in inside:
            yield _file(element)
    for element in shown.find_all("chatlog__embed"):
        yield {"type": "embed"} | _embed(element)
    for element in shown.find_all(_STICKER):
        if id(element) not in inside:
            yield _sticker(element)


def forward(shown: ShownMessage) -> tuple[str, list[dict[str, Any]]] | None:
    """Return the shown time of a forwarded message and its parts; None if the message forwards nothing."""
    element = shown.find(_FORWARDED)
    if element is None:
        return None
    text = element.find("chatlog__forwarded-content")
    stamp = element.find("chatlog__forwarded-timestamp")
    time = stamp.find_tag("span") if stamp else None
    parts: list[dict[str, Any]] = [{"type": "forward"} | non_empty(text=text_of(text) if text else "")]
    files = element.find(_FORWARDED_FILES)
    inner = [child for child in (files.children if files else []) if isinstance(child, HtmlElement)]
    parts += [_file(child) | {"forwarded": True} for child in inner]
    parts += [_sticker(one) | {"forwarded": True} for one in element.find_all(_STICKER)]
    return time.get("title") if time else "", parts


def reactions(shown: ShownMessage) -> list[dict[str, Any]]:
    """Return reactions with their counts. A page does not say who gave them."""
    found: list[dict[str, Any]] = []
    for element in shown.find_all("chatlog__reaction"):
        image, count = element.find_tag("img"), element.find("chatlog__reaction-count")
        digits = "".join(letter for letter in (count.text() if count else "") if letter in "0123456789")[:9]
        emoji = (emoji_of(image) if image else "") or element.get("title")
        if emoji:
            found.append(reaction({"count": int(digits) if digits else None}, emoji, []))
    return found


def _file(element: HtmlElement) -> dict[str, Any]:
    media = next((one for one in element.walk() if one.has(*_MEDIA)), None)
    told = next((one for one in element.walk() if one.get("title")), None)
    url = _address(element, media)
    generic = element.find("chatlog__attachment-generic-name")
    shown = told.get("title") if told else generic.text() if generic else element.text()
    described = told.get("alt") if told else ""
    return non_empty(
        id=stored_file_id(url),
        name=_SIZE.sub("", _KIND.sub("", shown)) or unquote(_path_of(url).rpartition("/")[2]),
        text="" if described in _NO_DESCRIPTION else described,
        url=url,
    )


def stored_file_id(url: str) -> str:
    """Return the id of a file on Discord's server; empty if the address is another one."""
    match = _STORED_FILE.search(url)
    return match[1] if match else ""


def _path_of(url: str) -> str:
    """Return the path of an address; empty if it is not an address."""
    try:
        return urlsplit(url).path
    except ValueError:
        return ""


def _address(element: HtmlElement, media: HtmlElement | None) -> str:
    for one in (element.find_tag("a"), media, element.find_tag("source"), element.find_tag("img")):
        address = (one.get("href") or one.get("src")) if one else ""
        if address:
            return address
    return ""


def _sticker(element: HtmlElement) -> dict[str, Any]:
    media = element.find("chatlog__sticker--media")
    url = (media.get("src") or media.get("data-source")) if media else ""
    return {"type": "sticker"} | non_empty(name=element.get("title"), url=url)


def _embed(element: HtmlElement) -> dict[str, Any]:
    invite = element.find("chatlog__embed-invite")
    if invite is not None:
        return _invite(element)
    title = element.find("chatlog__embed-title-link") or element.find("chatlog__embed-title")
    described = element.find("chatlog__embed-description")
    author, footer = element.find(*_EMBED_AUTHOR), element.find("chatlog__embed-footer-text")
    fields = [_field(one) for one in element.find_all("chatlog__embed-field")]
    told = non_empty(
        author=author.text() if author else "",
        name=text_of(title) if title else "",
        url=_embed_address(element),
        text=text_of(described) if described else "",
        fields=[one for one in fields if one],
        footer=_footer(footer.text() if footer else ""),
    )
    image = element.find("chatlog__embed-image")
    return told or non_empty(url=(image.get("data-canonical-url") or image.get("src")) if image else "")


def _embed_address(element: HtmlElement) -> str:
    link = element.find("chatlog__embed-title-link")
    if link is not None:
        return link.get("href")
    media = element.find(*_EMBED_MEDIA)
    if media is None:
        youtube = element.find("chatlog__embed-youtube-container")
        inner = youtube.find_tag("a") if youtube else None
        return inner.get("href") if inner else ""
    inner = media.find_tag("source")
    return media.get("data-canonical-url") or media.get("src") or (inner.get("src") if inner else "")


def _field(element: HtmlElement) -> dict[str, Any]:
    name, value = element.find("chatlog__embed-field-name"), element.find("chatlog__embed-field-value")
    return non_empty(name=text_of(name) if name else "", value=text_of(value) if value else "")


def _footer(shown: str) -> str:
    """Return the text of a footer without the time that the exporter writes after it."""
    text, dot, time = shown.rpartition(" • ")
    return text if read_time(time if dot else shown) is not None else shown


def _invite(element: HtmlElement) -> dict[str, Any]:
    server, channel, kind = (
        element.find(f"chatlog__embed-invite-{one}") for one in ("guild-name", "channel-name", "title")
    )
    link = server.find_tag("a") if server else None
    return non_empty(
        author=kind.text() if kind else "",
        name=server.text() if server else "",
        text=channel.text() if channel else "",
        url=link.get("href") if link else "",
    )
