"""Writes the attachments of a message below its text: embeds, forwards, files, polls, stickers and so on.

Each attachment becomes quoted lines that start with a label: `> [forwarded from Ben] the tide is late`. So it is
searched and shown like any text. Like any quotation, it does not count as the author's own words.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from roomlore.domain.rendering import QUOTE_PREFIX, without_trailing_quotes

#: The maximum length of all attachment lines of a message. The stored attachments keep everything.
MAX_LENGTH = 50_000
#: Labels of some kinds. Each other kind is its own label.
_LABELS = {"forward": "forwarded", "photo": "file"}
_MAX_LABEL = 20
#: Kinds whose address is shown. Addresses of files are not shown, because they contain keys.
_LINKED_KINDS = frozenset({"embed", "card", "forward"})


def with_attachments(body: str, attachments: Sequence[Mapping[str, Any]]) -> str:
    """Return the body with its attachments below it; unchanged if the attachments are already in the body."""
    lines = list(_lines(without_trailing_quotes(body), attachments))
    if not lines:
        return body
    block = _truncated("\n".join(lines))
    if body == block or body.endswith(f"\n{block}"):
        return body
    return f"{body}\n{block}" if body.strip() else block


def _truncated(block: str) -> str:
    return (
        block if len(block) <= MAX_LENGTH else block[:MAX_LENGTH].rpartition("\n")[0] + f"\n{QUOTE_PREFIX}…"
    )


def _lines(own: str, attachments: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for part in attachments:
        told = [one for one in dict.fromkeys(_description(part)) if not _repeats_body(one, part, own)]
        lines = [line.rstrip() for one in told for line in one.splitlines() if line.strip()]
        if lines:
            yield from (QUOTE_PREFIX + line for line in [f"[{_label(part)}] {lines[0]}", *lines[1:]])


def _repeats_body(one: str, part: Mapping[str, Any], own: str) -> bool:
    """Return whether the body contains the part, for example a preview's address or a poll's question."""
    if part.get("type") == "forward":
        return False
    return one in own.splitlines() or (one == _first_line(part, "url") and one in own)


def _label(part: Mapping[str, Any]) -> str:
    kind = _first_line(part, "type")
    is_plain = kind.replace(" ", "").isalpha() and len(kind) <= _MAX_LABEL
    mark = _LABELS.get(kind, kind if is_plain else "file")
    if kind == "forward" and _first_line(part, "author"):
        return f"forwarded from {_one_line(_first_line(part, 'author'))}"
    return f"forwarded {mark}" if part.get("forwarded") is True else mark


def _description(part: Mapping[str, Any]) -> Iterator[str]:
    kind = _first_line(part, "type")
    if kind != "forward":
        yield _first_line(part, "author")
    yield " ".join(filter(None, (_first_line(part, "name"), _first_line(part, "emoji"))))
    yield from (_first_line(part, key) for key in ("title", "pretext", "text"))
    for field in _objects(part, "fields"):
        yield ": ".join(filter(None, (_first_line(field, "name"), _first_line(field, "value"))))
    yield from (f"- {option}" for option in _list(part, "options") if isinstance(option, str) and option)
    yield _first_line(part, "footer")
    if kind in _LINKED_KINDS:
        yield _first_line(part, "url")


def _first_line(part: Mapping[str, Any], key: str) -> str:
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
