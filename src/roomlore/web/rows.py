"""Messages as rows of a page: whose colour, which rail, and where a day, a conversation or somebody's turn begins."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal
from uuid import UUID

from roomlore.domain.ids import ParticipantId
from roomlore.domain.records import ReplyMethod
from roomlore.operations.speakers import Speaker
from roomlore.operations.timeline import TimelineLine

#: As many as `roomlore.css` has; the next begins again, and a name stands beside each anyway.
COLOUR_COUNT = 24


def colours(authors: Iterable[Hashable]) -> Mapping[Hashable, int]:
    """Return the number of each author's colour, given authors in the order in which they appear."""
    first = dict.fromkeys(authors)
    return {author: place % COLOUR_COUNT for place, author in enumerate(first)}


#: Of conversations, told apart by their rails; a label stands beside each.
BAND_COUNT = 12
#: Whoever goes on within this, goes on in the same breath.
TURN_PAUSE = timedelta(minutes=7)

#: How what was not said by the platform is known.
INFERRED_METHODS: frozenset[ReplyMethod] = frozenset({"mention", "inferred"})

#: A conversation that is first seen here, one that is seen again after others, one that goes on, and none.
ConversationStart = Literal["begins", "resumes", "goes on", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line, and how it stands among others."""

    line: TimelineLine
    colour: int
    #: Of whoever is answered.
    answered_colour: int | None
    #: The rail of its conversation.
    band: int | None
    entrance: ConversationStart
    is_new_day: bool
    #: Whether the same author goes on, in the same conversation and in the same breath.
    is_more: bool


def rows(lines: Sequence[TimelineLine], voices: Sequence[Speaker]) -> list[Row]:
    """Return the rows of lines that follow each other."""
    colours, seen = colours_of(voices), set[UUID]()
    made: list[Row] = []
    for place, line in enumerate(lines):
        above = lines[place - 1] if place else None
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


def colours_of(voices: Sequence[Speaker]) -> dict[ParticipantId, int]:
    """Return the colour of each account: a person's own, by first appearance in the room."""
    return {account: voice.place % COLOUR_COUNT for voice in voices for account in voice.accounts}


def colour_of(colours: Mapping[ParticipantId, int], author_id: ParticipantId) -> int:
    """Return the colour of an author, also of one who is not among those known to speak."""
    return colours.get(author_id, author_id.int % COLOUR_COUNT)


def _conversation_start(line: TimelineLine, above: TimelineLine | None, seen: set[UUID]) -> ConversationStart:
    if line.conversation is None:
        return "none"
    if line.conversation.id not in seen:
        return "begins"
    held = None if above is None else above.conversation
    return "goes on" if held is not None and held.id == line.conversation.id else "resumes"


def _continues_turn(line: TimelineLine, above: TimelineLine | None) -> bool:
    if above is None or line.message.erased_at is not None:
        return False
    edge = line.placed.answers
    # Going on is found to be an answer to oneself; what the platform says stands by itself.
    if edge is not None and not (edge.method in INFERRED_METHODS and edge.parent_id == above.message.id):
        return False
    one, other = above.message, line.message
    return (
        (one.author_id, one.author_name, one.kind) == (other.author_id, other.author_name, other.kind)
        and one.erased_at is None
        and above.conversation == line.conversation
        and [hearer.id for hearer in above.hearers] == [hearer.id for hearer in line.hearers]
        and other.sent_at - one.sent_at < TURN_PAUSE
    )
