"""A context as pages show it: its text by line, what it costs, and each message that was considered."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from roomlore.context.expansion import ContextPart, SelectionRule
from roomlore.context.memory_section import MemoryGroup, MemorySection, section_text
from roomlore.context.records import Context, ContextLine, ExplainedMessage, OmittedMessage
from roomlore.context.render import PARTIAL, line_text
from roomlore.domain.ids import MemoryId, MessageId, ParticipantId
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.records import ReplyMethod
from roomlore.domain.rendering import as_one_line, removal_notice, with_mention_names

#: Characters of a message that a table shows.
GLANCE = 140
#: How a line of a memory block says which memory it is.
CITATION = lazy_pattern(r"(?P<before>- |Current focus: )#(?P<label>k\d+)(?=\s|$)")
#: What the bar tells apart, with its words for people, in the order of the text.
PART_NAMES: Mapping[str, str] = {
    "memories": "memories",
    "temporal": "said next to these",
    "reply": "tied by replies",
    "recent": "most recent",
    "trigger": "the message to answer",
    "left": "left over",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenShare:
    """Tokens of one part of a context."""

    part: str
    #: For people.
    means: str
    tokens: int
    #: Of the budget, or of all where these are more.
    share: float
    #: What stands before it.
    begins: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A message that was considered, in or out, and why."""

    message_id: MessageId
    external_id: str
    author_id: ParticipantId
    author_name: str
    author_kind: ParticipantKind
    sent_at: datetime
    #: Its beginning, on one line.
    glance: str
    included: bool
    label: str | None
    part: ContextPart
    rule: SelectionRule
    via: MessageId | None
    #: The message it answers by the platform's own word.
    reply_to: MessageId | None
    method: ReplyMethod | None
    #: How sure the reply is over which it was reached; None where it was not by a reply.
    confidence: float | None
    step: int
    reason: str
    tokens: int
    characters_cut: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCandidate:
    """A memory that was considered, in or out, and why."""

    memory_id: MemoryId
    #: As the context has it; empty where it is out.
    text: str
    included: bool
    label: str | None
    section: MemoryGroup
    weight: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextTextLine:
    """A line of the context's text."""

    #: None of a heading.
    label: str | None
    text: str
    message_id: MessageId | None = None
    memory_id: MemoryId | None = None


def candidates_of(context: Context) -> list[Candidate]:
    """Return every message that was considered, in the order of the room."""
    told = {one.message_id: one for one in context.explain()}
    known = {item.message.id: item for item in (*context.lines, *context.left_out)}
    return [_candidate(known[key], one) for key, one in told.items()]


def _candidate(item: ContextLine | OmittedMessage, told: ExplainedMessage) -> Candidate:
    said = item.message
    glance = removal_notice(said) or as_one_line(with_mention_names(said)[: 4 * GLANCE])
    return Candidate(
        message_id=said.id,
        external_id=said.external_id,
        author_id=said.author_id,
        author_name=said.author_name,
        author_kind=said.author_kind,
        sent_at=said.sent_at,
        glance=glance if len(glance) <= GLANCE else f"{glance[: GLANCE - 1]}…",
        included=told.included,
        label=told.label,
        part=told.part,
        rule=told.rule,
        via=told.via,
        reply_to=said.reply_to,
        method=told.method,
        confidence=told.confidence,
        step=told.step,
        reason=told.reason,
        tokens=told.tokens,
        characters_cut=told.characters_cut,
    )


def lines_of(context: Context) -> list[ContextTextLine]:
    """Return the context's text by line, each with what it cites: what `to_text` writes."""
    return [
        *_section_lines(context.block),
        *([ContextTextLine(label=None, text=PARTIAL)] if context.is_partial else []),
        *(
            ContextTextLine(
                label=line.label,
                text=line_text(line).removeprefix(f"#{line.label}"),
                message_id=line.message.id,
            )
            for line in context.lines
        ),
    ]


def memory_candidates_of(context: Context) -> list[MemoryCandidate]:
    """Return every memory that was considered; none for those who are no agents."""
    if context.block is None:
        return []
    texts = {line.memory_id: line.text for line in context.block.lines}
    return [
        MemoryCandidate(
            memory_id=one.memory_id,
            text=texts.get(one.memory_id, ""),
            included=one.included,
            label=one.label,
            section=one.section,
            weight=one.weight,
            reason=one.reason,
        )
        for one in context.block.explain()
    ]


def _section_lines(block: MemorySection | None) -> list[ContextTextLine]:
    found: list[ContextTextLine] = []
    for text in [] if block is None else section_text(block).splitlines():
        cited = CITATION.match(text)
        label = cited["label"] if cited and block else None
        memory_id = block.citations.get(label) if block and label else None
        if cited is None or memory_id is None:
            found.append(ContextTextLine(label=None, text=text))
        else:
            words = cited["before"] + text[cited.end() :].removeprefix(" ")
            found.append(ContextTextLine(label=label, text=words, memory_id=memory_id))
    return found


def token_shares_of(context: Context) -> list[TokenShare]:
    """Return what each part of a context costs, and what is left over; nothing of what costs nothing."""
    tokens = dict.fromkeys(PART_NAMES, 0)
    tokens["memories"] = context.block.tokens if context.block else 0
    for line in context.lines:
        tokens[line.rule] += line.tokens
    tokens["left"] = max(0, context.budget - context.tokens)
    whole, begins, found = max(context.budget, context.tokens), 0.0, list[TokenShare]()
    for part, means in PART_NAMES.items():
        share = tokens[part] / whole
        if tokens[part]:
            found.append(TokenShare(part=part, means=means, tokens=tokens[part], share=share, begins=begins))
        begins += share
    return found
