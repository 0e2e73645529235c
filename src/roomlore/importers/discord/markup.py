"""Turns rendered Discord messages back into their text.

DiscordChatExporter renders Markdown to HTML. The text gets the same marks again as in its JSON: `**bold**`, `> quote`,
`:emoji:`. Mentions are names, as in its JSON.
"""

from urllib.parse import unquote

from roomlore.domain.patterns import lazy_pattern
from roomlore.importers.reading.html_stream import HtmlElement

EDITED = ("chatlog__edited-timestamp",)
MENTION = ("chatlog__markdown-mention", "mention")
_EMOJI = ("chatlog__emoji", "emoji")
#: Where spaces and line breaks count. Older pages have such an element inside one of the class "markdown".
_EXACT_INSIDE = ("chatlog__markdown-preserve", "preserve-whitespace")
_EXACT_OLD = "markdown"
_SPOILER = ("chatlog__markdown-spoiler", "spoiler")
_QUOTE = ("chatlog__markdown-quote", "quote")
_CODE_BLOCK = ("chatlog__markdown-pre--multiline", "pre--multiline")
_CODE = ("chatlog__markdown-pre--inline", "pre--inline")
_MARKS = {
    "strong": "**", "b": "**", "em": "*", "i": "*", "u": "__", "s": "~~", "strike": "~~", "del": "~~",
}  # fmt: skip
_HEADINGS = {"h1": "# ", "h2": "## ", "h3": "### "}
_NO_TEXT = frozenset({"svg", "iframe", "video", "audio", "script", "style"})
#: Custom emoji have names, all others are characters.
_EMOJI_NAME = lazy_pattern(r"[A-Za-z0-9_]*[A-Za-z_][A-Za-z0-9_]*", most=100)
_LANGUAGE = "language-"


def text_of(content: HtmlElement) -> str:
    """Return the text of a message, without the mark that it was edited."""
    text = content.find(*_EXACT_INSIDE) or content.find(_EXACT_OLD) or content
    return _rendered(text, exact=text.has(*_EXACT_INSIDE, _EXACT_OLD)).strip()


def emoji_of(image: HtmlElement) -> str:
    """Return an emoji as text: the character, or the name of a custom emoji."""
    return image.get("alt") or image.get("title")


def _rendered(element: HtmlElement, *, exact: bool) -> str:
    pieces: list[str] = []
    for child in element.children:
        if isinstance(child, str):
            piece = child if exact else _collapsed(child)
        else:
            piece = _element(child, exact=exact or child.has(*_EXACT_INSIDE, _EXACT_OLD))
            if _is_block(child) and pieces and not pieces[-1].endswith("\n"):
                pieces.append("\n")
        if piece:
            pieces.append(piece)
    return "".join(pieces)


def _is_block(element: HtmlElement) -> bool:
    return element.has(*_QUOTE) or element.tag in _HEADINGS or element.tag in {"ul", "ol"}


def _collapsed(text: str) -> str:
    words = " ".join(text.split())
    if not words:
        return " " if text else ""
    return f"{' ' if text[0].isspace() else ''}{words}{' ' if text[-1].isspace() else ''}"


def _element(element: HtmlElement, *, exact: bool) -> str:
    if element.tag == "br":
        return "\n"
    if element.tag == "img":
        return _emoji(element) if element.has(*_EMOJI) else ""
    if element.tag in _NO_TEXT or element.has(*EDITED):
        return ""
    if element.has(*_CODE_BLOCK):
        return _code_block(element)
    if element.has(*_CODE):
        return _quoted_code(_rendered(element, exact=True))
    return _formatted(element, _rendered(element, exact=exact))


def _formatted(element: HtmlElement, inner: str) -> str:
    if element.has(*_QUOTE):
        lines = inner.removesuffix("\n").split("\n")
        return "".join(f"> {line}\n" for line in lines)
    if element.has(*_SPOILER):
        return f"||{inner}||"
    if element.tag in _HEADINGS:
        return f"{_HEADINGS[element.tag]}{inner}\n"
    if element.tag == "li":
        return "- " + inner.rstrip("\n").replace("\n", "\n  ") + "\n"
    if element.tag == "a":
        return _link(element.get("href"), inner)
    mark = _MARKS.get(element.tag, "")
    return f"{mark}{inner}{mark}"


def _emoji(image: HtmlElement) -> str:
    name = emoji_of(image)
    return f":{name}:" if _EMOJI_NAME.fullmatch(name) else name


def _code_block(element: HtmlElement) -> str:
    language = next((one.removeprefix(_LANGUAGE) for one in element.classes if one.startswith(_LANGUAGE)), "")
    return f"```{language}\n{_rendered(element, exact=True)}\n```"


def _quoted_code(code: str) -> str:
    mark = "``" if "`" in code else "`"
    return f"{mark}{code}{mark}"


def _link(address: str, shown: str) -> str:
    if not address or unquote(address) == unquote(shown):
        return shown
    return f"[{shown}]({address})" if shown.strip() else address
