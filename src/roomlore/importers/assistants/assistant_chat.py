"""What chats with an assistant have in common: a person, an assistant, tools, and blocks of content.

Such a chat is a direct conversation of the person and the assistant. Calls and results of tools are kept apart from
the words of both: a call is an attachment of the assistant's message, and a result is a message by the tool.
"""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, cast

from roomlore.domain.incoming import (
    IncomingAuthor,
    IncomingMembership,
    IncomingRoom,
    TimestampPrecision,
)
from roomlore.domain.patterns import lazy_pattern
from roomlore.importers.reading.fields import (
    MAX_ID,
    Fields,
    MalformedRecord,
    as_list,
    as_object,
    checked_id,
    first_text,
    iso_precision,
    json_type,
    non_empty,
    object_field,
    parse_iso_time,
    unix_time,
)

Role = Literal["person", "assistant", "tool", "system"]
#: The roles of all formats. Instructions of a developer or a program are no words of the person.
ROLES: Mapping[str, Role] = {
    "user": "person",
    "human": "person",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
    "system": "system",
    "developer": "system",
}
#: The account of the person if the export does not name it.
PERSON = "user"
ASSISTANT = "assistant"
_SYSTEM_AUTHOR = IncomingAuthor(account_id="", name="System", kind="system")
_TEXT_BLOCKS = frozenset({"text", "input_text", "output_text", "refusal"})
#: Blocks of a model that the person does not see.
_REASONING_BLOCKS = frozenset({"thinking", "redacted_thinking", "reasoning", "thought", "summary_text"})
_CALL_BLOCKS = frozenset({
    "tool_use", "server_tool_use", "mcp_tool_use", "tool_call", "function_call", "custom_tool_call",
    "local_shell_call",
})  # fmt: skip
_RESULT_BLOCKS = frozenset({
    "tool_result", "tool_return", "web_search_tool_result", "mcp_tool_result", "function_call_output",
    "custom_tool_call_output",
})  # fmt: skip
#: Words in the types of blocks that hold a file.
_FILE_WORDS = ("image", "audio", "file", "document", "video")
#: Tags around texts that a program put before the words of the person.
_PROGRAM_TAG = lazy_pattern(
    r"\s*<(system-reminder|local-command-[a-z]{1,20}|command-[a-z]{1,20}|bash-std[a-z]{1,6}|task-notification"
    r"|environment_context|user_instructions|turn_aborted|permissions instructions|skill)>"
)
_PROGRAM_HEADING = "# AGENTS.md instructions for "
#: Larger Unix times are in milliseconds (in seconds, they would be after the year 5138).
_MILLISECONDS_FROM = 10**11
#: The maximum length of the arguments of a call. The original record keeps everything.
_MAX_ARGUMENTS = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a tool returned."""

    #: The id of the call; empty if it is not stated.
    call: str = ""
    name: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The content of a message, by who it is from."""

    text: str = ""
    attachments: Sequence[Mapping[str, Any]] = ()
    #: The names of the called tools by the id of the call.
    calls: Mapping[str, str] = field(default_factory=dict[str, str])
    results: Sequence[ToolResult] = ()
    has_reasoning: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing was said, called or attached."""
        return not (self.text.strip() or self.attachments)


def read_content(value: Any, *, more: Sequence[Any] = ()) -> Content:
    """Return the content of a message: a text or a list of blocks. `more` are tool calls beside it.

    Raises MalformedRecord if it is neither.
    """
    if isinstance(value, str | dict):
        blocks: list[Any] = [value]
    elif isinstance(value, list | None):
        blocks = as_list(value)
    else:
        raise MalformedRecord("wrong type", f"the content is {json_type(value)}")
    parts = _Parts()
    for block in (*blocks, *more):
        parts.add({"type": "text", "text": block} if isinstance(block, str) else as_object(block) or {})
    return Content(
        text="\n".join(text for text in parts.texts if text),
        attachments=[one for one in parts.attachments if one],
        calls=parts.calls,
        results=parts.results,
        has_reasoning=parts.has_reasoning,
    )


@dataclass(slots=True)
class _Parts:
    """Collects the blocks of a message by their kind."""

    texts: list[str] = field(default_factory=list[str])
    attachments: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    calls: dict[str, str] = field(default_factory=dict[str, str])
    results: list[ToolResult] = field(default_factory=list[ToolResult])
    has_reasoning: bool = False

    def add(self, fields: Fields) -> None:
        """Add a block."""
        kind = first_text(fields, "type", "content_type")
        if kind in _REASONING_BLOCKS:
            self.has_reasoning = True
        elif kind in _RESULT_BLOCKS:
            self.results.append(_result(fields))
        elif kind in _CALL_BLOCKS or "function" in fields:
            self._add_call(fields)
        elif kind in _TEXT_BLOCKS or (not kind and first_text(fields, "text")):
            self.texts.append(_block_text(fields))
        else:
            self.attachments.append(_file(fields, kind))

    def _add_call(self, fields: Fields) -> None:
        call, call_id = tool_call(fields), _call_id(fields)
        # Some formats state a call twice: as a block and beside the blocks.
        if not call_id or call_id not in self.calls:
            self.attachments.append(call)
        self.calls[call_id] = call.get("name", "")


def without_results(content: Any) -> Any:
    """Return the blocks of a content without results of tools, which become messages of their own."""
    if not isinstance(content, list):
        return content
    blocks = cast("list[Any]", content)
    return [block for block in blocks if first_text(as_object(block) or {}, "type") not in _RESULT_BLOCKS]


def _block_text(fields: Fields) -> str:
    # In threads of the Assistants API, the text is an object.
    return first_text(fields, "text", "refusal") or first_text(object_field(fields, "text"), "value")


def _call_id(fields: Fields) -> str:
    return first_text(fields, "call_id", "id", "tool_call_id")[:MAX_ID]


def tool_call(fields: Fields) -> dict[str, Any]:
    """Return a tool call as an attachment."""
    function = object_field(fields, "function") or fields
    given = next((function[key] for key in ("arguments", "input", "args", "action") if key in function), None)
    return non_empty(type="tool call", name=first_text(function, "name"), text=arguments_text(given))


def arguments_text(value: Any) -> str:
    """Return the arguments of a call as text, cut if they are long."""
    if value in (None, "", {}, []):
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_ARGUMENTS else f"{text[:_MAX_ARGUMENTS]}…"


def _result(fields: Fields) -> ToolResult:
    given = fields.get("content", fields.get("output", fields.get("tool_return")))
    return ToolResult(
        call=first_text(fields, "tool_use_id", "call_id", "tool_call_id")[:MAX_ID],
        name=first_text(fields, "name"),
        text=plain_text(given),
    )


def plain_text(value: Any) -> str:
    """Return the text of a value: a text, a list of blocks, or an object that holds either."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        parts = (plain_text(part) for part in cast("list[Any]", value))
        return "\n".join(part for part in parts if part)
    fields = as_object(value) or {}
    if first_text(fields, "type") in _REASONING_BLOCKS:
        return ""
    found = (plain_text(fields[key]) for key in ("text", "content", "output") if key in fields)
    return next(filter(None, found), "") or first_text(fields, "title", "url")


def _file(fields: Fields, kind: str) -> dict[str, Any]:
    """Return a picture or a file as an attachment, without its bytes; empty for a block that is neither."""
    inner = object_field(fields, "source") or object_field(fields, kind)
    where = first_text(fields, "url", "image_url", "file_url") or first_text(inner, "url")
    facts = non_empty(
        name=first_text(fields, "file_name", "filename", "name", "title")
        or first_text(inner, "filename", "file_name"),
        url="" if where.startswith("data:") else where,
        id=first_text(fields, "file_id", "file_uuid") or first_text(inner, "file_id"),
    )
    is_file = bool(facts) or any(word in kind for word in _FILE_WORDS)
    return {"type": kind or "file"} | facts if is_file else {}


def without_program_text(text: str) -> str:
    """Return the words of the person, without what a program put before them; empty if there are none."""
    if text.lstrip().startswith(_PROGRAM_HEADING):
        return ""
    place = 0
    while (tag := _PROGRAM_TAG.match(text, place)) is not None:
        end = text.find(f"</{tag[1]}>", tag.end())
        if end < 0:
            return ""
        place = end + len(f"</{tag[1]}>")
    return text[place:].lstrip() if place else text


def role_of(name: str) -> Role:
    """Return the role with this name. Raises MalformedRecord if it is unknown."""
    role = ROLES.get(name.casefold())
    if role is None:
        raise MalformedRecord("no author", f"the role is {name[:40]!r}" if name else "no role")
    return role


def person(account: str = "", name: str = "") -> IncomingAuthor:
    """Return the person of a chat."""
    account = checked_id(account or PERSON, "the person's id")
    return IncomingAuthor(account_id=account, name=name or account, kind="human")


def assistant(name: str, account: str = "") -> IncomingAuthor:
    """Return the assistant of a chat."""
    account = checked_id(account or ASSISTANT, "the assistant's id")
    return IncomingAuthor(account_id=account, name=name or account, kind="agent")


def tool(name: str) -> IncomingAuthor:
    """Return a tool as an author. If the name is unknown, it is `tool`."""
    account = checked_id(f"tool-{name}" if name else "tool", "the tool's name")
    return IncomingAuthor(account_id=account, name=name or account, kind="agent")


def result_id(message: str, number: int) -> str:
    """Return the id of a tool's result in a message. A result has no id of its own."""
    ending = f":result-{number}"
    return message[: MAX_ID - len(ending)] + ending


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The two sides of a chat."""

    person: IncomingAuthor
    assistant: IncomingAuthor

    def author(self, role: Role, tool_name: str = "") -> IncomingAuthor:
        """Return the author of a message with this role."""
        if role == "system":
            return _SYSTEM_AUTHOR
        if role == "tool":
            return tool(tool_name)
        return self.person if role == "person" else self.assistant

    def room(self, external_id: str, name: str = "", **more: Any) -> IncomingRoom:
        """Return the direct conversation of both. Only they may read it."""
        return IncomingRoom(
            external_id=checked_id(external_id, "the conversation's id"),
            name=name.strip() or external_id,
            kind="dm",
            visibility="members",
            members=(IncomingMembership(author=self.person), IncomingMembership(author=self.assistant)),
            **more,
        )


def stated_time(value: Any) -> tuple[datetime, TimestampPrecision]:
    """Return a time, which is ISO 8601 with a zone or a Unix time, with its precision."""
    if isinstance(value, str) and value:
        return parse_iso_time(value), iso_precision(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise MalformedRecord("no time", "" if value in (None, "") else f"the time is {json_type(value)}")
    if abs(value) >= _MILLISECONDS_FROM:
        seconds, milliseconds = divmod(int(value), 1000)
        return unix_time(seconds, microseconds=milliseconds * 1000), "ms"
    seconds, part = divmod(value, 1)
    is_whole = isinstance(value, int) or not part
    return unix_time(int(seconds), microseconds=round(part * 1_000_000)), "s" if is_whole else "us"


def time_or_assumed(value: Any) -> tuple[datetime, TimestampPrecision, bool]:
    """Return a time and its precision. A time without a zone is UTC, and the last value says so."""
    if not isinstance(value, str):
        return *stated_time(value), False
    try:
        return parse_iso_time(value), iso_precision(value), False
    except MalformedRecord as error:
        if error.reason != "no time zone":
            raise
    return parse_iso_time(value, zone=UTC), iso_precision(value), True


@dataclass(slots=True)
class DerivedIds:
    """Derives ids for messages of a format without ids. The same messages get the same ids in a longer export."""

    seen: Counter[str] = field(default_factory=Counter[str])

    def of(self, *parts: str) -> str:
        """Return the id of the next message with these facts: its author, time and text."""
        digest = hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:24]
        self.seen[digest] += 1
        return digest if self.seen[digest] == 1 else f"{digest}:{self.seen[digest]}"


def nearest(start: str, parents: Mapping[str, str], kept: Mapping[str, Any] | set[str]) -> str | None:
    """Return the nearest ancestor that is kept; None if there is none. Circles end the search."""
    return next((node for node in ancestors(start, parents) if node in kept), None)


def ancestors(start: str, parents: Mapping[str, str]) -> Iterator[str]:
    """Yield the ancestors of a message, the nearest first. A circle ends them."""
    passed = {start}
    node = parents.get(start, "")
    while node and node not in passed:
        yield node
        passed.add(node)
        node = parents.get(node, "")


def depths(parents: Mapping[str, str]) -> dict[str, int]:
    """Return the number of ancestors of each message. In a circle, counting starts anywhere."""
    found: dict[str, int] = {}
    for start in parents:
        path = [start]
        for node in ancestors(start, parents):
            if node in found:
                break
            path.append(node)
        above = parents.get(path[-1], "")
        depth = found.get(above, -1)
        for node in reversed(path):
            depth += 1
            found.setdefault(node, depth)
    return found
