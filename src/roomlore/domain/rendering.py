"""Renders messages as lines that user text cannot fake.

Contexts, answers and listings are lines, and the head of a line names the speaker. Users may type line breaks and other
names, or take a name that ends a head early. To prevent fakes, all line ends become uniform, continuation lines begin
with a bar, nobody can type our citations and notices, and names lose their brackets.
"""

import re
import unicodedata

from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.records import Message

REMOVED_NOTICE = "[message removed]"
ERASED = "[erased]"
#: The prefix of a quoted line.
QUOTE_PREFIX = "> "
NO_TEXT_NOTICE = "[no text]"
_LONGEST_NAME = 80
#: Replacements for a hash sign or bracket that would look like ours.
_WIDE_HASH, _WIDE_BRACKET = "\uff03", "\uff3b"
_CONTINUATION = "\n  | "

_LINE_END = lazy_pattern("\r\n|[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]")
#: Invisible characters that a language model would read: controls, direction overrides, invisible operators, tag
#: letters and variation selectors (except those of emoji).
_INVISIBLE = lazy_pattern(
    "[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\u202a-\u202e\u2061-\u206f\ufe00-\ufe0d\U000e0000-\U000e0fff]"
)
#: The other invisible letters (Unicode's Default_Ignorable_Code_Point).
_UNSEEN = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2060\u3164\ufe0e\ufe0f\ufeff\uffa0"
)
_LONE_SURROGATE = lazy_pattern("[\ud800-\udfff]")
#: Platform markup for mentioned users and rooms. Some markup has a label.
_MENTION = lazy_pattern(r"<([@#])[!&]?([^<>|\s]{1,100})(?:\|([^<>]*))?>")
_CITATION = lazy_pattern(f"#(?=[{_UNSEEN}]*[mk][{_UNSEEN}]*\\d)", re.IGNORECASE)


def _looks_like(words: str) -> str:
    # There are no two adjacent repetitions, because a long run of invisible letters would backtrack exponentially.
    spelt = (f"[{_UNSEEN}]*".join(map(re.escape, word)) for word in words.split(" "))
    return rf"[\s{_UNSEEN}]+".join(spelt)


_NOTICE_WORDS = "|".join(map(_looks_like, ("…", "message removed", "erased", "no text")))
_FAKE_NOTICE = lazy_pattern(rf"\[(?=[\s{_UNSEEN}]*(?:{_NOTICE_WORDS}))", re.IGNORECASE)


def safe_text(body: str) -> str:
    """Return a body with uniform line ends, without invisible characters or fakes of our notices and citations."""
    text = _INVISIBLE.sub("", _LINE_END.sub("\n", body))
    text = _LONE_SURROGATE.sub("\ufffd", text).strip()
    return _FAKE_NOTICE.sub(_WIDE_BRACKET, _CITATION.sub(_WIDE_HASH, text))


def without_trailing_quotes(body: str) -> str:
    """Return a body without the quoted lines at its end, such as attachments."""
    lines = body.split("\n")
    while lines and lines[-1].startswith(QUOTE_PREFIX):
        lines.pop()
    return "\n".join(lines)


def without_attachments(body: str) -> str:
    """Return a body without the attachments below it. Other quoted lines stay."""
    own = without_trailing_quotes(body)
    below = body[len(own) :].split("\n")
    first = next(
        (place for place, line in enumerate(below) if line.startswith(f"{QUOTE_PREFIX}[")), len(below)
    )
    return own + "\n".join(below[:first])


def as_one_line(text: str) -> str:
    """Return a sanitised text as one line."""
    return " ".join(safe_text(text).split())


def safe_name(name: str) -> str:
    """Return a display name as one short line without brackets."""
    words = " ".join(_LINE_END.sub(" ", name).split())
    text = "".join(_bracketless(letter) for letter in safe_text(words)[:_LONGEST_NAME])
    return text.strip() or "?"


def safe_body(message: Message) -> str:
    """Return the sanitised body, or a notice that there is none."""
    return removal_notice(message) or safe_text(with_mention_names(message)) or NO_TEXT_NOTICE


def with_mention_names(message: Message) -> str:
    """Return the body with names in place of markup such as <@9> and <#5>.

    The result is not sanitised, although users choose their names.
    """
    if "<@" not in message.body and "<#" not in message.body:
        return message.body
    names = {("#" if one.room_id else "@", one.external_id): safe_name(one.name) for one in message.mentions}

    def named(mark: re.Match[str]) -> str:
        kind, word, label = mark.groups()
        return f"{kind}{names.get((kind, word)) or label or 'unknown'}"

    return _MENTION.sub(named, message.body)


def removal_notice(message: Message) -> str:
    """Return the notice for a redacted or erased message; empty for any other message."""
    if message.erased_at:
        return ERASED
    return REMOVED_NOTICE if message.redacted_at else ""


def render_message(message: Message, *, name: str | None = None, text: str | None = None) -> str:
    """Return a message as one line: speaker, then body. `name` and `text` must be sanitised."""
    body = (safe_body(message) if text is None else text).replace("\n", _CONTINUATION)
    return f"{_author_label(message, safe_name(message.author_name) if name is None else name)} {body}"


def _author_label(message: Message, name: str) -> str:
    if message.kind == "system" or message.erased_at:
        return "*"
    bot = " (bot)" if message.author_kind == "agent" else ""
    mark = {"whisper": "(whisper) ", "context_injection": "(context) "}.get(message.kind, "")
    return f"{mark}[{name}{bot}]:"


def _bracketless(letter: str) -> str:
    """Return the letter.

    If it is a bracket, return a harmless replacement, because any bracket could end the head of a line.
    """
    match unicodedata.category(letter):
        case "Ps":
            return "\u2039"
        case "Pe":
            return "\u203a"
        case _:
            return letter
