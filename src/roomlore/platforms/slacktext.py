"""Renders Slack's text tokens as people saw them, and keeps whom they mention.

People cannot type a bare `<`: Slack escapes it, so every token is the platform's own structure.
"""

from collections.abc import Callable
from dataclasses import dataclass

from roomlore.domain.patterns import lazy_pattern

_TOKEN = lazy_pattern(r"<([^<>\n]*)>")
_ENTITY = lazy_pattern(r"&(amp|lt|gt);")
_CHARACTERS = {"amp": "&", "lt": "<", "gt": ">"}

#: Returns the name for an id, or nothing.
NameLookup = Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NameResolver:
    """How to turn ids into names."""

    user_name: NameLookup
    room_name: NameLookup


def render(text: str, names: NameResolver) -> str:
    """Return the text with tokens as words and entities as characters."""
    return _unescape(_TOKEN.sub(lambda token: _token_text(token[1], names), text))


def mentions(text: str) -> list[str]:
    """Return the account ids that the text mentions, in order, each once."""
    found = [token.partition("|")[0][1:] for token in _TOKEN.findall(text) if token[:2] in {"@U", "@W"}]
    return list(dict.fromkeys(found))


def _unescape(text: str) -> str:
    # One pass: "&amp;lt;" was typed as "&lt;" and must not become "<".
    return _ENTITY.sub(lambda entity: _CHARACTERS[entity[1]], text)


def _token_text(token: str, names: NameResolver) -> str:
    target, _, label = token.partition("|")
    if target.startswith("@"):
        return "@" + (names.user_name(target[1:]) or label or target[1:])
    if target.startswith("#"):
        return "#" + (label or names.room_name(target[1:]) or target[1:])
    if target.startswith("!"):
        return _special_token(target[1:], label)
    bare = target.removeprefix("mailto:").removeprefix("tel:")
    if not label or label in (target, bare) or target.endswith("//" + label):
        return bare
    return f"{label} ({target})"


def _special_token(target: str, label: str) -> str:
    """Return `@here`, the name of a group, or the fallback of a date."""
    if target.startswith("date^"):
        return label or target
    name = label or target.rpartition("^")[2]
    return name if name.startswith("@") else "@" + name
