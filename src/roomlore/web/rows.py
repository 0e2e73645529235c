"""Messages as rows of a page: colours, conversation bands, and where a day, a conversation or a turn begins."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal
from uuid import UUID

from roomlore.domain.ids import ParticipantId
from roomlore.domain.records import ReplyMethod
from roomlore.operations.timeline import Speaker, TimelineLine

#: The number of colours in `roomlore.css`. Further authors get the first colours again.
COLOUR_COUNT = 24


def colours(authors: Iterable[Hashable]) -> Mapping[Hashable, int]:
    """Return the colour of each author, by first appearance."""
    return {author: index % COLOUR_COUNT for index, author in enumerate(dict.fromkeys(authors))}


#: The number of bands that distinguish conversations.
BAND_COUNT = 12
#: The longest pause between messages of one turn.
TURN_PAUSE = timedelta(minutes=7)
#: Methods by which replies are found that the platform does not state.
INFERRED_METHODS: frozenset[ReplyMethod] = frozenset({"mention", "inferred"})

ConversationStart = Literal["begins", "resumes", "goes on", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A message, and how it relates to the row above."""

    line: TimelineLine
    colour: int
    #: The colour of the author of the answered message.
    answered_colour: int | None
    #: The band of its conversation.
    band: int | None
    entrance: ConversationStart
    is_new_day: bool
    #: Whether this row continues the turn of the row above.
    is_more: bool


def rows(lines: Sequence[TimelineLine], speakers: Sequence[Speaker]) -> list[Row]:
    """Return the rows of consecutive messages."""
    colours, seen = colours_of(speakers), set[UUID]()
    made: list[Row] = []
    for index, line in enumerate(lines):
        above = lines[index - 1] if index else None
        entrance = _conversation_start(line, above, seen)
        if line.conversation is not None:
            seen.add(line.conversation.id)
        is_new_day = above is None or above.message.sent_at.date() != line.message.sent_at.date()
        answered = line.answered
        made.append(
            Row(
                line=line,
                colour=colour_of(colours, line.message.author_id),
                answered_colour=None if answered is None else colour_of(colours, answered.author_id),
                band=None if line.conversation is None else line.conversation.id.int % BAND_COUNT,
                entrance=entrance,
                is_new_day=is_new_day,
                is_more=not is_new_day and entrance in {"goes on", "none"} and _continues_turn(line, above),
            )
        )
    return made


def colours_of(speakers: Sequence[Speaker]) -> dict[ParticipantId, int]:
    """Return the colour of each account. All accounts of a person have the same colour."""
    return {account: voice.place % COLOUR_COUNT for voice in speakers for account in voice.accounts}


def colour_of(colours: Mapping[ParticipantId, int], author_id: ParticipantId) -> int:
    """Return the colour of an author, even if the author is not among the speakers."""
    return colours.get(author_id, author_id.int % COLOUR_COUNT)


def _conversation_start(line: TimelineLine, above: TimelineLine | None, seen: set[UUID]) -> ConversationStart:
    if line.conversation is None:
        return "none"
    if line.conversation.id not in seen:
        return "begins"
    before = None if above is None else above.conversation
    return "goes on" if before is not None and before.id == line.conversation.id else "resumes"


def _continues_turn(line: TimelineLine, above: TimelineLine | None) -> bool:
    if above is None or line.message.erased_at is not None:
        return False
    edge = line.placed.answers
    # Within a turn, an inferred reply may answer the message before it. A reply that the platform states begins a new
    # turn.
    if edge is not None and not (edge.method in INFERRED_METHODS and edge.parent_id == above.message.id):
        return False
    one, other = above.message, line.message
    return (
        (one.author_id, one.author_name, one.kind) == (other.author_id, other.author_name, other.kind)
        and one.erased_at is None
        and above.conversation == line.conversation
        and [hearer.id for hearer in above.recipients] == [hearer.id for hearer in line.recipients]
        and other.sent_at - one.sent_at < TURN_PAUSE
    )
