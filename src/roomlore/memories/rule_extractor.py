"""Finds what is stated in a conversation by forms of words alone, the same each time.

Precise rather than complete. A sentence is read only where nothing in it or around it warns that its author does
not plainly state it; what is taken back, corrected or said in confidence is left out again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from roomlore.domain.claims import Claim, NamedParticipant, Quote, SourceText
from roomlore.domain.ids import MessageId, ParticipantId
from roomlore.domain.rendering import safe_name
from roomlore.memories.clauses import NO_NAMES, AddressNames, Clause, address_names, clauses_of
from roomlore.memories.corrections import match_correction
from roomlore.memories.decisions import DecisionProposal, decided, match_proposal
from roomlore.memories.exclusions import eligible_sentences, excluded_messages
from roomlore.memories.first_person import FirstPersonMatch, add_subject, match_first_person
from roomlore.memories.kinds import AGENT_TAG
from roomlore.memories.lessons import match_lesson
from roomlore.memories.patterns import (
    CORRECTION_OPENING,
    JOKE,
    is_disfluent,
    is_foreign,
    is_question,
    is_reported_speech,
)
from roomlore.memories.rendering import cleaned, in_third_person, needs_context, quoted_statement, title_of
from roomlore.memories.third_person import NamedPeople, denies_statement, first_person_variants

#: What people say of others they may have wrong; what agents say of themselves is worth little.
_OTHER_CONFIDENCE, _AGENT_CONFIDENCE = 0.6, 0.4
#: What agents may state of themselves; all else they say is about others, or was said by others.
_AGENT_KINDS = frozenset({"preference", "fact", "context"})
_LONGEST_BODY = 20_000
#: How many messages before one may bear on it.
_NEAR = 10
APOSTROPHES = ("'", "\u2019")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedClaim:
    """A statement, and what it takes the place of."""

    statement: Claim
    #: Whether it is to replace what its author said of the same before.
    replaces: bool = False
    #: The message that it says was wrong.
    corrected: SourceText | None = None


def extract(said: Sequence[SourceText], people: Sequence[NamedParticipant]) -> list[Claim]:
    """Return what is stated in a conversation, in the order in which it was said.

    Args:
        said: The messages of the conversation, in order.
        people: Who may be spoken of.
    """
    silent = excluded_messages(said)
    heard = [message for message in said if _is_readable(message) and message.message_id not in silent]
    named = NamedPeople(people)
    called = address_names([message.body for message in heard], named.names)
    everything = [
        one for place in range(len(heard)) for one in _claims_in(heard, place, named=named, called=called)
    ]
    offers = [one for one in everything if isinstance(one, DecisionProposal)]
    stated = [one for one in everything if isinstance(one, ExtractedClaim)]
    stated += [ExtractedClaim(statement=statement) for statement in decided(offers, said)]
    places = {message.message_id: place for place, message in enumerate(said)}
    stated = [
        one for one in stated if not _is_denied(one.statement, said[places[_place(one.statement)[0]] + 1 :])
    ]
    stated.sort(key=lambda one: (places[_place(one.statement)[0]], _place(one.statement)[1]))
    return _merge_equal(_without_corrected(stated))


def _is_readable(message: SourceText) -> bool:
    return (
        message.kind in {"message", "whisper"}
        and message.author_kind != "system"
        and len(message.body) <= _LONGEST_BODY
    )


def _end_position(one: ExtractedClaim | DecisionProposal) -> int:
    """Return up to where in its message the words are read."""
    return one.clause.sentence.end if isinstance(one, DecisionProposal) else one.statement.quotes[0].end


def _place(statement: Claim) -> tuple[MessageId, int]:
    return statement.quotes[0].message_id, statement.quotes[0].start


# One message


def _claims_in(
    heard: Sequence[SourceText], place: int, *, named: NamedPeople, called: AddressNames
) -> Iterator[ExtractedClaim | DecisionProposal]:
    message = heard[place]
    if message.author_kind == "agent" and is_reported_speech(message.body):
        return
    before = heard[max(0, place - _NEAR) : place]
    for sentence in eligible_sentences(message.body):
        reads: list[ExtractedClaim | DecisionProposal] = []
        read_to, follows = 0, False
        opens = not message.body[: sentence.start].strip()
        # Only a whole message is addressed; a name at the head of a later line says whose the line is.
        for part in clauses_of(sentence, called if opens else NO_NAMES):
            if part.start < read_to:
                continue
            if message.author_kind == "agent":
                read = _agent_claim(part, message, follows=follows)
            else:
                read = _human_claim(part, message, follows=follows, named=named, before=before)
            follows = isinstance(read, ExtractedClaim) and message.author_id in read.statement.subject_ids
            if read is not None:
                reads.append(read)
                read_to = _end_position(read)
        # What warns is looked for last: most sentences state nothing that it could warn of.
        if reads and not (JOKE.search(sentence.text) or is_foreign(sentence.text)):
            yield from reads


def _human_claim(
    part: Clause, message: SourceText, *, follows: bool, named: NamedPeople, before: Sequence[SourceText]
) -> ExtractedClaim | DecisionProposal | None:
    if offered := match_proposal(part, message):
        return offered if part.is_plain else None
    statement = (
        _own_claim(part, message, follows=follows)
        or _claim_about_other(part, message, named)
        or match_lesson(part, message)
    )
    if statement:
        read = ExtractedClaim(statement=statement, replaces=bool(CORRECTION_OPENING.match(part.prefix)))
    elif correction := match_correction(part, [*before, message], len(before)):
        read = ExtractedClaim(statement=correction[0], corrected=correction[1])
    else:
        return None
    return read if part.is_plain and not is_question(part.sentence.text) else None


def _agent_claim(part: Clause, message: SourceText, *, follows: bool) -> ExtractedClaim | None:
    statement = _own_claim(part, message, follows=follows) or match_lesson(part, message)
    # What stands behind a name and a colon is passed on.
    if not statement or statement.kind not in _AGENT_KINDS or ":" in part.prefix:
        return None
    if not part.is_plain or is_question(part.sentence.text):
        return None
    confidence = statement.confidence * _AGENT_CONFIDENCE
    return ExtractedClaim(
        statement=replace(statement, confidence=confidence, tags=statement.tags | {AGENT_TAG})
    )


def _own_claim(part: Clause, message: SourceText, *, follows: bool) -> Claim | None:
    text = add_subject(part.text) if follows else part.text
    read = match_first_person(text)
    if read is None or is_disfluent(text):
        return None
    said = message.body[part.start : part.end]
    if cleaned(said).casefold().endswith(message.author_name.casefold()):
        return None
    shown = text if text != part.text else said
    alone = in_third_person(message.author_name, shown) if part.coordinated_from == part.start else None
    told = alone or quoted_statement(message.author_name, message.body[part.coordinated_from : part.end])
    return _claim(part, message, read, content=told, subject_id=message.author_id)


def _claim_about_other(part: Clause, message: SourceText, named: NamedPeople) -> Claim | None:
    spoken_of = named.subject_of(part.text)
    if spoken_of is None or spoken_of[0].id == message.author_id:
        return None
    person, end = spoken_of
    read = next(
        (read for text in first_person_variants(part.text[end:]) if (read := match_first_person(text))), None
    )
    if read is None or is_disfluent(part.text):
        return None
    said = message.body[part.start : part.end]
    rest = cleaned(said[end:])
    is_alone = not needs_context(rest)
    told = (
        # As the speaker calls them: who that is need not be known to whoever may read it.
        f"{safe_name(said[:end].lstrip('@'))}{'' if rest[:1] in APOSTROPHES else ' '}{rest}."
        if is_alone
        else quoted_statement(message.author_name, said)
    )
    read = replace(read, confidence=read.confidence * _OTHER_CONFIDENCE)
    return _claim(part, message, read, content=told, subject_id=person.id)


def _claim(
    part: Clause, message: SourceText, read: FirstPersonMatch, *, content: str, subject_id: ParticipantId
) -> Claim:
    return Claim(
        kind=read.kind,
        title=title_of(message.body[part.start : part.end]),
        content=content,
        quotes=[Quote(message_id=message.message_id, start=part.start, end=part.end)],
        author_id=message.author_id,
        subject_ids=frozenset({subject_id}),
        confidence=read.confidence,
        slot=read.slot,
        tags=read.tags,
    )


# The whole conversation


def _without_corrected(stated: Sequence[ExtractedClaim]) -> list[Claim]:
    """Return what was not said to be wrong afterwards, by whoever had said it."""
    replacing = [(number, one) for number, one in enumerate(stated) if one.replaces or one.corrected]
    return [
        one.statement
        for number, one in enumerate(stated)
        if not any(later > number and _replaces(other, one.statement) for later, other in replacing)
    ]


def _is_denied(statement: Claim, following: Sequence[SourceText]) -> bool:
    """Return whether one whom somebody else speaks of says soon afterwards that it is not so."""
    others = statement.subject_ids - {statement.author_id}
    answers = (one for one in following[:_NEAR] if one.author_id in others)
    return any(denies_statement(one.body) for one in islice(answers, 1))


def _replaces(later: ExtractedClaim, earlier: Claim) -> bool:
    statement = later.statement
    if statement.author_id != earlier.author_id:
        return False
    if later.corrected is not None:
        return later.corrected.message_id == earlier.quotes[0].message_id
    same = (
        statement.slot is not None
        and statement.slot == earlier.slot
        and statement.subject_ids == earlier.subject_ids
    )
    return later.replaces and same


def _merge_equal(statements: Sequence[Claim]) -> list[Claim]:
    """Return the statements with those that say the same made one, which rests on the words of each."""
    united: dict[tuple[object, ...], Claim] = {}
    for one in statements:
        key = (one.kind, one.author_id, one.subject_ids, one.content.casefold())
        first = united.get(key)
        united[key] = replace(first, quotes=[*first.quotes, *one.quotes]) if first else one
    return list(united.values())
