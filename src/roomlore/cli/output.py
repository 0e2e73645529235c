"""Output: JSON for programs, text for people.

Some imports are needed for only a few kinds of results. They stand in the functions that print these results, so that
`roomlore rooms` starts quickly.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from roomlore.cli.exit import printable
from roomlore.domain.ids import short_id
from roomlore.domain.phrases import count_phrase
from roomlore.domain.rendering import render_message, safe_body, safe_name
from roomlore.http.json_values import public_fields, safe_numbers

if TYPE_CHECKING:
    from roomlore.context.records import Context
    from roomlore.doctor import CheckResult
    from roomlore.domain.records import Message, Participant, Postable, Room
    from roomlore.ingest.imports import ImportReport
    from roomlore.legacy.migration import MigrationReport
    from roomlore.legacy.project_migration import ProjectsReport
    from roomlore.search.query_parser import AppliedFilters
    from roomlore.search.records import (
        Answer,
        Hit,
        MatchedMemory,
        MatchReason,
        RestrictedResult,
        SearchResult,
        StageTrace,
    )

PIPE_WIDTH = 120
ROOM_MARK_NOTE = (
    "Messages marked (room) are not from the conversation of the last message and may be off topic."
)
LONGEST_CELL = 40
#: The number of skipped records that are named. Further records are only counted.
NAMED_SKIPPED = 10


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The streams for results and for notes, and the format."""

    as_json: bool
    quiet: bool
    console: Console
    #: Notes and progress, on standard error.
    chatter: Console

    @classmethod
    def to_streams(cls, *, as_json: bool, quiet: bool) -> Output:
        """Return output to standard output and standard error."""
        return cls(
            as_json=as_json,
            quiet=quiet,
            console=Console(
                highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else PIPE_WIDTH
            ),
            chatter=Console(stderr=True, highlight=False, quiet=quiet),
        )

    def json(self, value: Any) -> None:
        """Print one JSON document."""
        print(json.dumps(safe_numbers(plain(value)), ensure_ascii=False, indent=2))

    def result(self, document: Any, text: str) -> None:
        """Print a document as JSON, or its text."""
        self.json(document) if self.as_json else self.text(text)

    def text(self, text: str = "", style: str | None = None) -> None:
        """Print text from anybody, without terminal control characters or markup."""
        self.console.print(printable(text), style=style, markup=False)

    def rooms(self, rooms: Sequence[Room]) -> None:
        """Print the rooms."""
        if self.as_json:
            return self.json(rooms)
        headings = ["room", "platform", "kind", "messages", "last activity", "external id"]
        rows = [
            [
                room.qualified_name,
                room.platform,
                f"{room.kind}, members only" if room.visibility == "members" else room.kind,
                room.message_count,
                minute(room.last_activity_at),
                room.external_id,
            ]
            for room in rooms
        ]
        if any(room.retention_period is not None for room in rooms):
            headings.append("keeps")
            for row, room in zip(rows, rooms, strict=True):
                row.append(retention_text(room.retention_period, room.retention_starts_at))
        return self.table(headings, rows)

    def table(self, headings: Sequence[str], rows: Iterable[Sequence[str | int]]) -> None:
        """Print rows under headings, with numbers aligned to the right."""
        table = Table(box=None)
        for heading in headings:
            table.add_column(heading, no_wrap=True)
        for row in rows:
            for column, cell in zip(table.columns, row, strict=True):
                column.justify = "right" if isinstance(cell, int) else "left"
            table.add_row(*(shown(str(cell)) for cell in row))
        self.console.print(table)

    def room(
        self,
        room: str,
        messages: Sequence[Message],
        participants: Sequence[Participant],
        restricted: Sequence[RestrictedResult],
    ) -> None:
        """Print the messages and participants of a room, and which messages privacy requests withhold."""
        if self.as_json:
            return self.json({"messages": messages, "participants": participants, "restrictions": restricted})
        people = ", ".join(f"{person.name}{' (bot)' if person.is_bot else ''}" for person in participants)
        self.text(f"{room}: {people}", style="bold")
        for message, line in zip(messages, dated(messages), strict=True):
            self.text(line)
            for one in restricted:
                if one.message_id == message.id:
                    self.text(f"      hidden: {restriction_reason(one)}", style="yellow")
        return None

    def context(self, context: Context, *, explain: bool) -> None:
        """Print a context. With `explain`, also print why each message is in or out."""
        if self.as_json:
            return self.json(context_json(context, explain=explain))
        from roomlore.context.render import to_text

        if any(line.part == "room" for line in context.lines):
            self.text(ROOM_MARK_NOTE, style="dim")
        self.text(to_text(context))
        self.restrictions(context.restrictions)
        self.chatter.print(
            f"{count_phrase(len(context.lines), 'message')}, {context.tokens} of {count_phrase(context.budget, 'token')},"
            f" {len(context.omitted)} omitted"
        )
        for candidate in context.explain() if explain else ():
            mark = candidate.label or "out"
            why = (
                f"{candidate.part:<12}  {candidate.rule:<9} {candidate.tokens:>5} tokens  {candidate.reason}"
            )
            self.text(f"{mark:>4}  {why}")
        for link in context.unread_links if explain else ():
            self.text(f"{link.label:>4}  link not fetched: {link.reason}  {link.url}")
        for memory in context.memory_section.explain() if explain and context.memory_section else ():
            self.text(f"{memory.label or 'out':>4}  memory: {memory.reason}  {memory.memory_id}")
        return None

    def found(self, found: SearchResult) -> None:
        """Print search results."""
        if self.as_json:
            from roomlore.operations.responses import search_response

            return self.json(search_response(found))
        self.interpretation(found.applied_filters, is_found=bool(found.hits))
        if found.applied_filters is not None and found.applied_filters.unknown:
            self.text(found.applied_filters.unknown_names_note(), style="yellow")
        for place, hit in enumerate(found.hits, start=1):
            self.thread(place, hit)
        if not found.hits:
            self.text("nothing found")
        self.restrictions(found.restrictions)
        return self.degraded(found.degraded)

    def postable_note(self, postable: Postable, *, room: str | None) -> None:
        """Print where the result must not be posted, if a room was named."""
        if room is None or self.as_json:
            return
        from roomlore.context.render import POSTABLE

        if POSTABLE[postable]:
            self.text(POSTABLE[postable], style="yellow")

    def interpretation(self, read: AppliedFilters | None, *, is_found: bool) -> None:
        """Print how a question was understood. If nothing was found, also print how to avoid this reading."""
        if read is not None and read.summary():
            self.text(f"searched: {read.summary()}", style="dim")
            if not is_found:
                self.text("--literal searches for exactly these words", style="dim")

    def thread(self, place: int, hit: Hit) -> None:
        """Print one thread."""
        where = f"{hit.room_name} ({hit.platform})" if hit.room_name else "a whisper to you"
        self.text(f"{place}. {where}, {hit.best.sent_at:%Y-%m-%d}", style="bold")
        for message, line in zip(hit.messages, dated(hit.messages), strict=True):
            why = hit.why.get(message.id)
            mark = ">" if why else " "
            self.text(f"  {mark} {line}")
            if why:
                self.text(f"      {reasons(why)}", style="dim")
        if hit.omitted:
            self.text(f"    {omission_note(hit)}", style="dim")

    def answer(self, answer: Answer) -> None:
        """Print an answer, its sources and the outcome of each stage of the search."""
        if self.as_json:
            from roomlore.operations.responses import answer_response

            return self.json(answer_response(answer))
        from roomlore.search.records import WRITTEN_BY_QUOTING

        self.interpretation(answer.applied_filters, is_found=answer.is_answered)
        self.text(answer.text)
        if answer.written_by != WRITTEN_BY_QUOTING:
            self.text(f"written by {answer.written_by}; sources:", style="dim")
        for mark, key in answer.citations.items():
            self.text(f"  {mark} {key}", style="dim")
        for place, hit in enumerate(answer.hits, start=1):
            self.thread(place, hit)
        for one in answer.memories:
            self.recalled(one)
        for line in answer.lines:
            when = "no time" if line.sent_at is None else minute(line.sent_at)
            self.text(f"log file {line.file}, line {line.number}, {when}", style="bold")
        for step in answer.trace:
            self.text(f"  {trace_line(step)}", style="dim")
        if answer.note:
            self.chatter.print(escape(printable(answer.note)), style="yellow")
        if answer.restrictions:
            self.chatter.print("privacy requests changed this answer", style="yellow")
        self.restrictions(answer.restrictions)
        return self.degraded(answer.degraded)

    def recalled(self, recalled: MatchedMemory) -> None:
        """Print a memory of an answer, and the memories that it replaced."""
        from roomlore.search.quotes import memory_line

        for memory in (recalled.memory, *recalled.superseded):
            sources = count_phrase(len(memory.source_ids), "message")
            self.text(
                f"memory {short_id(memory.id)}, {memory.valid_from:%Y-%m-%d}, from {sources}", style="bold"
            )
            self.text(f"  {memory_line(memory)}")

    def report(self, report: ImportReport) -> None:
        """Print counts of an import: its contents, the stored records and the privacy requests found."""
        self.skipped(report)
        authors = ", ".join(f"{count} {kind}" for kind, count in report.authors.items()) or "none"
        self.text(
            f"{report.format}{' (dry run, nothing stored)' if report.stored is None else ''}", style="bold"
        )
        content = f"{count_phrase(report.messages, 'message')}, including {count_phrase(report.system, 'system line')}"
        self.text(f"  {count_phrase(report.rooms, 'room')}, {content}")
        self.text(f"  authors: {authors}")
        self.text(f"  replies: {report.resolved} resolved, {report.dangling} dangling; {report.edits} edited")
        if report.secrets_stripped:
            self.text(f"  {count_phrase(report.secrets_stripped, 'secret')} removed")
        if report.zone_assumed:
            zone = "UTC is assumed; --timezone sets another zone"
            self.text(f"  {count_phrase(report.zone_assumed, 'message')} with times without a zone: {zone}")
        if report.unreadable:
            mark = "shown as \N{REPLACEMENT CHARACTER}"
            self.text(f"  {count_phrase(report.unreadable, 'message')} with unreadable characters: {mark}")
        if report.stored is not None:
            stored = ", ".join(f"{count} {name}" for name, count in report.stored.items() if count)
            self.text(f"  stored: {stored or 'nothing new'}")
        if report.privacy_requests is not None and any(report.privacy_requests.values()):
            requests = ", ".join(
                f"{count} {name.replace('_', ' ')}"
                for name, count in report.privacy_requests.items()
                if count
            )
            self.text(f"  privacy requests found: {requests}; see roomlore privacy requests")

    def skipped(self, report: ImportReport | MigrationReport | ProjectsReport) -> None:
        """Print the skipped records on standard error."""
        for skipped in report.skipped[:NAMED_SKIPPED]:
            detail = f" ({skipped.detail})" if skipped.detail else ""
            line = printable(f"skipped {skipped.where}: {skipped.reason}{detail}")
            self.chatter.print(line, style="yellow", markup=False, soft_wrap=True)
        if len(report.skipped) > NAMED_SKIPPED:
            self.chatter.print(f"and {len(report.skipped) - NAMED_SKIPPED} more skipped", style="yellow")

    def findings(self, findings: Sequence[CheckResult]) -> None:
        """Print the findings of `roomlore doctor`."""
        if self.as_json:
            return self.json(findings)
        for finding in findings:
            self.text(f"{'ok ' if finding.is_well else 'BAD'} {finding.name}: {finding.detail}")
            if finding.cure:
                self.text(f"    {finding.cure}", style="yellow")
        return None

    def restrictions(self, restricted: Sequence[RestrictedResult]) -> None:
        """Print how many messages each privacy request withholds."""
        for line in restriction_lines(restricted):
            self.chatter.print(escape(line), style="yellow", soft_wrap=True)

    def degraded(self, degraded: Sequence[str]) -> None:
        """Print why a result may be incomplete."""
        for what in degraded:
            self.chatter.print(f"degraded: {what}", style="yellow")


def plain(value: Any) -> Any:
    """Return records, ids, times and spans as JSON values. Spans are in seconds."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: plain(getattr(value, name)) for name in public_fields(type(value))}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in cast(Mapping[Any, Any], value).items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in cast(Sequence[Any], value)]
    return _scalar(value)


def _scalar(value: Any) -> Any:
    match value:
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case timedelta():
            return value.total_seconds()
        case UUID():
            return str(value)
        case _:
            return value


def omission_note(hit: Hit) -> str:
    """Return how many messages of a thread are not shown, and the command that shows them."""
    messages = count_phrase(hit.omitted, "more message")
    # The thread starts before its second message, so --before lists it.
    room, before = hit.messages[0].room_id, hit.messages[1].id
    return f"{messages} of this thread omitted: roomlore messages {room} --threads --before {before}"


def retention_text(retention_period: timedelta | None, starts_at: datetime | None) -> str:
    """Return how long a room keeps messages, and from when on."""
    if retention_period is None:
        return "forever"
    begins = "" if starts_at is None else f", starting {minute(starts_at)} UTC"
    return f"{span_text(retention_period)}{begins}"


def span_text(span: timedelta) -> str:
    """Return a span in days, or in hours if the days are not whole."""
    days, hours = divmod(span // timedelta(hours=1), 24)
    return count_phrase(days * 24 + hours, "hour") if hours else count_phrase(days, "day")


def minute(moment: datetime | None) -> str:
    """Return a time to the minute; empty for None."""
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M}"


def context_json(context: Context, *, explain: bool) -> dict[str, Any]:
    """Return a context as JSON values. With `explain`, include the reasons for each message and link."""
    from roomlore.operations.responses import context_response

    document = plain(context_response(context, explain=explain))
    return {name: value for name, value in document.items() if value is not None}


def hit_json(hit: Hit) -> dict[str, Any]:
    """Return a thread as JSON values. Each message has the reasons for its rank."""
    from roomlore.operations.responses import found_thread

    return plain(found_thread(hit))


def dated(messages: Iterable[Message]) -> list[str]:
    """Return messages as lines. The first message of each day has the date."""
    lines: list[str] = []
    day = None
    for message in messages:
        when = "%H:%M" if message.sent_at.date() == day else "%Y-%m-%d %H:%M"
        lines.append(f"{message.sent_at:{when}} {message_line(message)}")
        day = message.sent_at.date()
    return lines


def message_line(message: Message) -> str:
    """Return a message as a line without its time: author, text, and the id with which to cite it."""
    line = render_message(message, text=" ".join(safe_body(message).split()))
    marks = f"{' (edited)' if message.edited_at else ''}{reactions_text(message)}"
    return f"{line}{marks}  {message.external_id}"


def reactions_text(message: Message) -> str:
    """Return the reactions to a message in words, with the names that are known."""
    reactions: list[str] = []
    for one in message.reactions:
        names = ", ".join(safe_name(person.name) for person in one.by)
        reactions.append(f"{safe_name(one.emoji)} {one.count}{f' by {names}' if names else ''}")
    return f" ({'; '.join(reactions)})" if reactions else ""


def reasons(why: MatchReason) -> str:
    """Return why a message was found, in words."""
    parts = [f"score {why.score:.2f}"]
    if why.similarity is not None:
        parts.append(f"meaning {why.similarity:.2f}")
    if why.terms:
        parts.append(f"words {', '.join(why.terms)}")
    return "; ".join(parts)


def trace_line(step: StageTrace) -> str:
    """Return the outcome of a stage of the search, in words."""
    best = "nothing" if step.best is None else f"best {step.best:.2f}"
    note = f" ({step.note})" if step.note else ""
    return f"{step.stage}: {count_phrase(step.candidates, 'candidate')}, {best}, threshold {step.threshold:.2f}: {step.outcome}{note}"


def shown(text: str) -> str:
    """Return text for a table cell: shortened, without control characters or markup."""
    short = text if len(text) <= LONGEST_CELL else f"{text[: LONGEST_CELL - 1]}…"
    return escape(printable(short))


_REQUEST_NAMES = {"forget": "to be forgotten", "confidential": "off the record", "restrict": "kept"}


def restriction_lines(restricted: Sequence[RestrictedResult]) -> list[str]:
    """Return how many messages each privacy request withholds, one line for each request."""
    by_request: dict[UUID, list[RestrictedResult]] = defaultdict(list)
    for one in restricted:
        by_request[one.request_id].append(one)
    return [
        f"hidden: {count_phrase(len(ones), 'message')} of {safe_name(ones[0].room_name)}, {restriction_reason(ones[0])}"
        for ones in by_request.values()
    ]


def restriction_reason(one: RestrictedResult) -> str:
    """Return the privacy request that withholds a message, in words."""
    author = safe_name(one.author_name) if one.author_name else "somebody who was erased"
    readers = ""
    if one.restricted_names is not None:
        readers = f" from {', '.join(map(safe_name, one.restricted_names)) or 'nobody who is known'}"
    return (
        f"{_REQUEST_NAMES.get(one.kind, one.kind)}{readers}, asked by {author};"
        f" roomlore privacy requests lists it as {short_id(one.request_id)}"
    )
