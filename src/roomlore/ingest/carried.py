"""Writes what a message carries below its own words: embeds, forwards, files, polls, stickers and the like.

Each part is quoted lines, begun by what it is: `> [forwarded from Ben] the tide is late`. So it is found and shown like
everything said, and like every quotation it is not taken for its author's own words.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from roomlore.domain.speech import QUOTE, own_words

#: Characters of all parts of one message; all of it stands in the attachments.
LONGEST = 50_000
#: How some kinds of part are called; any other plain word is called as it is.
_MARKS = {"forward": "forwarded", "photo": "file"}
_LONGEST_MARK = 20
#: Whose address tells something; files have addresses with keys in them.
_ADDRESSED = frozenset({"embed", "card", "forward"})


def with_carried(body: str, attachments: Sequence[Mapping[str, Any]]) -> str:
    """Return a body with what its message carries below it; the same body where that stands there already."""
    lines = list(_lines(own_words(body), attachments))
    if not lines:
        return body
    block = _cut("\n".join(lines))
    if body == block or body.endswith(f"\n{block}"):
        return body
    return f"{body}\n{block}" if body.strip() else block


def _cut(block: str) -> str:
    return block if len(block) <= LONGEST else block[:LONGEST].rpartition("\n")[0] + f"\n{QUOTE}…"


def _lines(own: str, attachments: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for part in attachments:
        told = [one for one in dict.fromkeys(_told(part)) if not _is_said(one, part, own)]
        lines = [line.rstrip() for one in told for line in one.splitlines() if line.strip()]
        if lines:
            yield from (QUOTE + line for line in [f"[{_mark(part)}] {lines[0]}", *lines[1:]])


def _is_said(one: str, part: Mapping[str, Any], own: str) -> bool:
    """Return whether the author said the same, such as the address of a preview or the question of a poll."""
    if part.get("type") == "forward":
        return False
    return one in own.splitlines() or (one == _word(part, "url") and one in own)


def _mark(part: Mapping[str, Any]) -> str:
    kind = _word(part, "type")
    is_plain = kind.replace(" ", "").isalpha() and len(kind) <= _LONGEST_MARK
    mark = _MARKS.get(kind, kind if is_plain else "file")
    if kind == "forward" and _word(part, "author"):
        return f"forwarded from {_one_line(_word(part, 'author'))}"
    return f"forwarded {mark}" if part.get("forwarded") is True else mark


def _told(part: Mapping[str, Any]) -> Iterator[str]:
    kind = _word(part, "type")
    if kind != "forward":
        yield _word(part, "author")
    yield " ".join(filter(None, (_word(part, "name"), _word(part, "emoji"))))
    yield from (_word(part, key) for key in ("title", "pretext", "text"))
    for field in _objects(part, "fields"):
        yield ": ".join(filter(None, (_word(field, "name"), _word(field, "value"))))
    yield from (f"- {option}" for option in _list(part, "options") if isinstance(option, str) and option)
    yield _word(part, "footer")
    if kind in _ADDRESSED:
        yield _word(part, "url")


def _word(part: Mapping[str, Any], key: str) -> str:
    value = part.get(key)
    return value.strip() if isinstance(value, str) else ""


def _one_line(text: str) -> str:
    return " ".join(text.replace("[", " ").replace("]", " ").split())[:100]


def _list(part: Mapping[str, Any], key: str) -> Sequence[Any]:
    value = part.get(key)
    return cast("Sequence[Any]", value) if isinstance(value, list | tuple) else ()


def _objects(part: Mapping[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
    for item in _list(part, key):
        if isinstance(item, Mapping):
            yield cast("Mapping[str, Any]", item)
