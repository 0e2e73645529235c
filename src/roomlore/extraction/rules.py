"""Finds what is stated in a conversation by forms of words alone, the same each time.

Precise rather than complete. A sentence is read only where nothing in it or around it warns that its author does
not plainly state it; what is taken back, corrected or said in confidence is left out again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from roomlore.domain.ids import MessageId, ParticipantId
from roomlore.domain.speech import safe_name
from roomlore.domain.statements import Person, Quote, Spoken, Statement
from roomlore.extraction.clauses import NOBODY, Called, Clause, called_by_name, clauses
from roomlore.extraction.corrections import corrected
from roomlore.extraction.cues import JOKING, REPLACING, RETRACTED, is_asked, is_broken, is_foreign, is_relayed
from roomlore.extraction.decisions import Offer, decisions, offer
from roomlore.extraction.experience import found
from roomlore.extraction.others import Named, as_own, denies
from roomlore.extraction.selves import Reading, reading, with_subject
from roomlore.extraction.sentences import Sentence, sentences
from roomlore.extraction.silences import unread
from roomlore.extraction.taxonomy import AGENT
from roomlore.extraction.wording import clean, depends_on_presence, in_third_person, quoted, title

#: What people say of others they may have wrong; what agents say of themselves is worth little.
_OF_ANOTHER, _OF_AN_AGENT = 0.6, 0.4
#: What agents may state of themselves; all else they say is about others, or was said by others.
_OF_AGENTS = frozenset({"preference", "fact", "context"})
_LONGEST_BODY = 20_000
#: How many messages before one may bear on it.
_NEAR = 10
APOSTROPHES = ("'", "\u2019")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A statement, and what it takes the place of."""

    statement: Statement
    #: Whether it is to replace what its author said of the same before.
    replaces: bool = False
    #: The message that it says was wrong.
    wrong: Spoken | None = None


def extract(said: Sequence[Spoken], people: Sequence[Person]) -> list[Statement]:
    """Return what is stated in a conversation, in the order in which it was said.

    Args:
        said: The messages of the conversation, in order.
        people: Who may be spoken of.
    """
    silent = unread(said)
    heard = [message for message in said if _speaks(message) and message.message_id not in silent]
    named = Named(people)
    called = called_by_name([message.body for message in heard], named.names)
    everything = [
        one for place in range(len(heard)) for one in _read(heard, place, named=named, called=called)
    ]
    offers = [one for one in everything if isinstance(one, Offer)]
    stated = [one for one in everything if isinstance(one, Found)]
    stated += [Found(statement=statement) for statement in decisions(offers, said)]
    places = {message.message_id: place for place, message in enumerate(said)}
    stated = [
        one for one in stated if not _is_denied(one.statement, said[places[_place(one.statement)[0]] + 1 :])
    ]
    stated.sort(key=lambda one: (places[_place(one.statement)[0]], _place(one.statement)[1]))
    return _united(_standing(stated))


def _speaks(message: Spoken) -> bool:
    return (
        message.kind in {"message", "whisper"}
        and message.author_kind != "system"
        and len(message.body) <= _LONGEST_BODY
    )


def _end(one: Found | Offer) -> int:
    """Return up to where in its message the words are read."""
    return one.clause.sentence.end if isinstance(one, Offer) else one.statement.quotes[0].end


def _place(statement: Statement) -> tuple[MessageId, int]:
    return statement.quotes[0].message_id, statement.quotes[0].start


# One message


def _read(heard: Sequence[Spoken], place: int, *, named: Named, called: Called) -> Iterator[Found | Offer]:
    message = heard[place]
    if message.author_kind == "agent" and is_relayed(message.body):
        return
    before = heard[max(0, place - _NEAR) : place]
    for sentence in _left_standing(message.body):
        reads: list[Found | Offer] = []
        read_to, follows = 0, False
        opens = not message.body[: sentence.start].strip()
        # Only a whole message is addressed; a name at the head of a later line says whose the line is.
        for part in clauses(sentence, called if opens else NOBODY):
            if part.start < read_to:
                continue
            if message.author_kind == "agent":
                read = _of_agent(part, message, follows=follows)
            else:
                read = _of_human(part, message, follows=follows, named=named, before=before)
            follows = isinstance(read, Found) and message.author_id in read.statement.subject_ids
            if read is not None:
                reads.append(read)
                read_to = _end(read)
        # What warns is looked for last: most sentences state nothing that it could warn of.
        if reads and not (JOKING.search(sentence.text) or is_foreign(sentence.text)):
            yield from reads


def _left_standing(body: str) -> Sequence[Sentence]:
    """Return the sentences of a body from the last on that takes back what is before it."""
    parts = sentences(body)
    taken_back = [number for number, part in enumerate(parts) if number and RETRACTED.match(part.text)]
    return parts[taken_back[-1] :] if taken_back else parts


def _of_human(
    part: Clause, message: Spoken, *, follows: bool, named: Named, before: Sequence[Spoken]
) -> Found | Offer | None:
    if offered := offer(part, message):
        return offered if part.is_plain else None
    statement = (
        _of_self(part, message, follows=follows) or _of_another(part, message, named) or found(part, message)
    )
    if statement:
        read = Found(statement=statement, replaces=bool(REPLACING.match(part.opening)))
    elif correction := corrected(part, [*before, message], len(before)):
        read = Found(statement=correction[0], wrong=correction[1])
    else:
        return None
    return read if part.is_plain and not is_asked(part.sentence.text) else None


def _of_agent(part: Clause, message: Spoken, *, follows: bool) -> Found | None:
    statement = _of_self(part, message, follows=follows) or found(part, message)
    # What stands behind a name and a colon is passed on.
    if not statement or statement.kind not in _OF_AGENTS or ":" in part.opening:
        return None
    if not part.is_plain or is_asked(part.sentence.text):
        return None
    confidence = statement.confidence * _OF_AN_AGENT
    return Found(statement=replace(statement, confidence=confidence, tags=statement.tags | {AGENT}))


def _of_self(part: Clause, message: Spoken, *, follows: bool) -> Statement | None:
    text = with_subject(part.text) if follows else part.text
    read = reading(text)
    if read is None or is_broken(text):
        return None
    said = message.body[part.start : part.end]
    if clean(said).casefold().endswith(message.author_name.casefold()):
        return None
    shown = text if text != part.text else said
    alone = in_third_person(message.author_name, shown) if part.shared_from == part.start else None
    told = alone or quoted(message.author_name, message.body[part.shared_from : part.end])
    return _statement(part, message, read, content=told, subject_id=message.author_id)


def _of_another(part: Clause, message: Spoken, named: Named) -> Statement | None:
    spoken_of = named.spoken_of(part.text)
    if spoken_of is None or spoken_of[0].id == message.author_id:
        return None
    person, end = spoken_of
    read = next((read for text in as_own(part.text[end:]) if (read := reading(text))), None)
    if read is None or is_broken(part.text):
        return None
    said = message.body[part.start : part.end]
    rest = clean(said[end:])
    is_alone = not depends_on_presence(rest)
    told = (
        # As the speaker calls them: who that is need not be known to whoever may read it.
        f"{safe_name(said[:end].lstrip('@'))}{'' if rest[:1] in APOSTROPHES else ' '}{rest}."
        if is_alone
        else quoted(message.author_name, said)
    )
    read = replace(read, confidence=read.confidence * _OF_ANOTHER)
    return _statement(part, message, read, content=told, subject_id=person.id)


def _statement(
    part: Clause, message: Spoken, read: Reading, *, content: str, subject_id: ParticipantId
) -> Statement:
    return Statement(
        kind=read.kind,
        title=title(message.body[part.start : part.end]),
        content=content,
        quotes=[Quote(message_id=message.message_id, start=part.start, end=part.end)],
        author_id=message.author_id,
        subject_ids=frozenset({subject_id}),
        confidence=read.confidence,
        slot=read.slot,
        tags=read.tags,
    )


# The whole conversation


def _standing(stated: Sequence[Found]) -> list[Statement]:
    """Return what was not said to be wrong afterwards, by whoever had said it."""
    replacing = [(number, one) for number, one in enumerate(stated) if one.replaces or one.wrong]
    return [
        one.statement
        for number, one in enumerate(stated)
        if not any(later > number and _replaces(other, one.statement) for later, other in replacing)
    ]


def _is_denied(statement: Statement, following: Sequence[Spoken]) -> bool:
    """Return whether one whom somebody else speaks of says soon afterwards that it is not so."""
    others = statement.subject_ids - {statement.author_id}
    answers = (one for one in following[:_NEAR] if one.author_id in others)
    return any(denies(one.body) for one in islice(answers, 1))


def _replaces(later: Found, earlier: Statement) -> bool:
    statement = later.statement
    if statement.author_id != earlier.author_id:
        return False
    if later.wrong is not None:
        return later.wrong.message_id == earlier.quotes[0].message_id
    same = (
        statement.slot is not None
        and statement.slot == earlier.slot
        and statement.subject_ids == earlier.subject_ids
    )
    return later.replaces and same


def _united(statements: Sequence[Statement]) -> list[Statement]:
    """Return the statements with those that say the same made one, which rests on the words of each."""
    united: dict[tuple[object, ...], Statement] = {}
    for one in statements:
        key = (one.kind, one.author_id, one.subject_ids, one.content.casefold())
        first = united.get(key)
        united[key] = replace(first, quotes=[*first.quotes, *one.quotes]) if first else one
    return list(united.values())
