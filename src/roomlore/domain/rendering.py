"""Writes down who said what so that nothing a person typed passes for a line of its own.

A context, an answer and a listing are lines, and a line's head says who speaks. Anybody may write a line
break and another's name into a message, or take a name that ends a head early. So line ends in bodies are
all made alike and further lines begin with a bar, citations and markers of our own cannot be typed, and
names lose their brackets.
"""

import re
import unicodedata

from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.records import Message

REMOVED_NOTICE = "[message removed]"
ERASED = "[erased]"
#: Begins each line that quotes.
QUOTE_PREFIX = "> "
NO_TEXT_NOTICE = "[no text]"
_LONGEST_NAME = 80
#: Stand in for a hash sign and a bracket that would read as ours.
_WIDE_HASH, _WIDE_BRACKET = "\uff03", "\uff3b"
_CONTINUATION = "\n  | "

_LINE_END = lazy_pattern("\r\n|[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]")
#: Controls, direction overrides, invisible operators, tag letters and selectors of variants (but those of emoji): nobody
#: sees them, a language model does.
_INVISIBLE = lazy_pattern(
    "[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\u202a-\u202e\u2061-\u206f\ufe00-\ufe0d\U000e0000-\U000e0fff]"
)
#: What is left of the letters that are drawn as nothing (Unicode's Default_Ignorable_Code_Point).
_UNSEEN = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2060\u3164\ufe0e\ufe0f\ufeff\uffa0"
)
_LONE_SURROGATE = lazy_pattern("[\ud800-\udfff]")
#: How platforms write whom or which room a message names; some with a label.
_MENTION = lazy_pattern(r"<([@#])[!&]?([^<>|\s]{1,100})(?:\|([^<>]*))?>")
_CITATION = lazy_pattern(f"#(?=[{_UNSEEN}]*[mk][{_UNSEEN}]*\\d)", re.IGNORECASE)


def _looks_like(words: str) -> str:
    """Return a pattern of words, whatever unseen letters stand in them and however far they are apart."""
    # No two repetitions side by side: a long run of unseen letters would be divided in every way.
    spelt = (f"[{_UNSEEN}]*".join(map(re.escape, word)) for word in words.split(" "))
    return rf"[\s{_UNSEEN}]+".join(spelt)


_NOTICE_WORDS = "|".join(map(_looks_like, ("…", "message removed", "erased", "no text")))
_FAKE_NOTICE = lazy_pattern(rf"\[(?=[\s{_UNSEEN}]*(?:{_NOTICE_WORDS}))", re.IGNORECASE)


def safe_text(body: str) -> str:
    """Return a body with uniform line ends, without invisible controls, that holds no mark of ours."""
    text = _INVISIBLE.sub("", _LINE_END.sub("\n", body))
    text = _LONE_SURROGATE.sub("\ufffd", text).strip()
    return _FAKE_NOTICE.sub(_WIDE_BRACKET, _CITATION.sub(_WIDE_HASH, text))


def without_trailing_quotes(body: str) -> str:
    """Return a body without the quoted lines at its end, such as what a message carries."""
    lines = body.split("\n")
    while lines and lines[-1].startswith(QUOTE_PREFIX):
        lines.pop()
    return "\n".join(lines)


def without_attachments(body: str) -> str:
    """Return a body without what its message carries below its words, such as files; other quoted lines stay."""
    own = without_trailing_quotes(body)
    below = body[len(own) :].split("\n")
    first = next(
        (place for place, line in enumerate(below) if line.startswith(f"{QUOTE_PREFIX}[")), len(below)
    )
    return own + "\n".join(below[:first])


def as_one_line(text: str) -> str:
    """Return what somebody wrote, made harmless, as one line."""
    return " ".join(safe_text(text).split())


def safe_name(name: str) -> str:
    """Return a display name as one short line without brackets."""
    words = " ".join(_LINE_END.sub(" ", name).split())
    text = "".join(_bracketless(letter) for letter in safe_text(words)[:_LONGEST_NAME])
    return text.strip() or "?"


def safe_body(message: Message) -> str:
    """Return what a message says, made harmless, or that there is nothing to read."""
    return removal_notice(message) or safe_text(with_mention_names(message)) or NO_TEXT_NOTICE


def with_mention_names(message: Message) -> str:
    """Return the words of a message with names in place of marks like <@9> and <#5>; of those unknown, that they are.

    What is stored stays as it was said. What comes back is not harmless yet: whoever is named chose the name.
    """
    if "<@" not in message.body and "<#" not in message.body:
        return message.body
    names = {("#" if one.room_id else "@", one.external_id): safe_name(one.name) for one in message.mentions}

    def named(mark: re.Match[str]) -> str:
        kind, word, label = mark.groups()
        return f"{kind}{names.get((kind, word)) or label or 'unknown'}"

    return _MENTION.sub(named, message.body)


def removal_notice(message: Message) -> str:
    """Return what stands where the words of a message were removed; empty where they were not."""
    if message.erased_at:
        return ERASED
    return REMOVED_NOTICE if message.redacted_at else ""


def render_message(message: Message, *, name: str | None = None, text: str | None = None) -> str:
    """Return who speaks and what is said, the one way in which it is written everywhere.

    Args:
        message: Tells whether it was a whisper, a system line or injected, and whether a bot speaks.
        name: The author's name as it is to be shown, made harmless already; the name at the time by default.
        text: The body as it is to be shown, made harmless already; the whole body by default.
    """
    said = (safe_body(message) if text is None else text).replace("\n", _CONTINUATION)
    return f"{_author_label(message, safe_name(message.author_name) if name is None else name)} {said}"


def _author_label(message: Message, name: str) -> str:
    if message.kind == "system" or message.erased_at:
        return "*"
    bot = " (bot)" if message.author_kind == "agent" else ""
    mark = {"whisper": "(whisper) ", "context_injection": "(context) "}.get(message.kind, "")
    return f"{mark}[{name}{bot}]:"


def _bracketless(letter: str) -> str:
    """Return the letter, or a plain angle where any alphabet's bracket could end the head of a line."""
    match unicodedata.category(letter):
        case "Ps":
            return "\u2039"
        case "Pe":
            return "\u203a"
        case _:
            return letter
