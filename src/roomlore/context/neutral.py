"""Makes names and bodies harmless: whatever a person typed, it cannot pass for a line of its own.

A context is lines, and a line's head says who speaks. Anybody may write a line break and another's name
into a message, or take a name that ends a head early. So line ends in bodies are all made alike (the
renderer puts a mark before each further line), citations and markers of our own cannot be typed, and
names lose their brackets.
"""

import re
import unicodedata
from collections.abc import Iterable

from roomlore.domain.ids import ParticipantId
from roomlore.domain.records import Message

REMOVED = "[message removed]"
WORDLESS = "[no text]"
_LONGEST_NAME = 80
#: Stand in for a hash sign and a bracket that would read as ours.
_WIDE_HASH, _WIDE_BRACKET = "\uff03", "\uff3b"

_LINE_END = re.compile("\r\n|[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]")
#: Controls, direction overrides and the invisible tag letters: nobody sees them, a language model does.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_CITATION = re.compile("#(?=[\u00ad\u200b-\u200f\u2060\ufe0f\ufeff]*m\\d)", re.IGNORECASE)
_MARKER = re.compile(r"\[(?=\s*(?:…|message removed|no text))", re.IGNORECASE)


def safe_text(body: str) -> str:
    """Return a body with uniform line ends, without invisible controls, that holds no mark of ours."""
    text = _INVISIBLE.sub("", _LINE_END.sub("\n", body))
    text = _LONE_SURROGATE.sub("\ufffd", text).strip()
    return _MARKER.sub(_WIDE_BRACKET, _CITATION.sub(_WIDE_HASH, text))


def safe_name(name: str) -> str:
    """Return a display name as one short line without brackets."""
    words = " ".join(_LINE_END.sub(" ", name).split())
    text = "".join(_bracketless(letter) for letter in safe_text(words)[:_LONGEST_NAME])
    return text.strip() or "?"


def speaker_names(messages: Iterable[Message]) -> dict[tuple[ParticipantId, str], str]:
    """Return the name to show for each (author, name at the time), no two authors under the same one.

    The first author to use a name keeps it; another who looks the same gets a number: "Ben ~2".
    """
    owners: dict[str, ParticipantId] = {}
    shown: dict[tuple[ParticipantId, str], str] = {}
    for message in messages:
        key = (message.author_id, message.author_name)
        if key in shown:
            continue
        plain = name = safe_name(message.author_name)
        number = 1
        while owners.setdefault(_looks(name), message.author_id) != message.author_id:
            number += 1
            name = f"{plain} ~{number}"
        shown[key] = name
    return shown


def _bracketless(letter: str) -> str:
    """Return the letter, or a plain angle where any alphabet's bracket could end the head of a line."""
    match unicodedata.category(letter):
        case "Ps":
            return "\u2039"
        case "Pe":
            return "\u203a"
        case _:
            return letter


def _looks(name: str) -> str:
    """Return what a hurried reader sees of a name: no case, no width, nothing invisible."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return "".join(letter for letter in folded if unicodedata.category(letter) not in {"Cf", "Mn", "Zs"})
