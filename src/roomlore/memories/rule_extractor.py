"""Extracts claims from a conversation by rules.

The rules are precise rather than complete. They skip a sentence if anything in it or around it suggests that its author
does not plainly state it. Retracted, corrected and confidential statements are left out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from roomlore.domain.claims import Claim, NamedParticipant, Quote, SourceText
from roomlore.domain.ids import MessageId, ParticipantId
from roomlore.domain.rendering import safe_name
from roomlore.memories.clauses import Clause, clauses_of
from roomlore.memories.corrections import match_correction
from roomlore.memories.decisions import DecisionProposal, decided, match_proposal
from roomlore.memories.first_person import (
    FirstPersonForm,
    NamedPeople,
    add_subject,
    denies_statement,
    first_person_variants,
    match_first_person,
)
from roomlore.memories.kinds import AGENT_TAG
from roomlore.memories.lessons import match_lesson
from roomlore.memories.patterns import (
    CORRECTION_OPENING,
    JOKE,
    eligible_sentences,
    excluded_messages,
    is_disfluent,
    is_foreign,
    is_reported_speech,
)
from roomlore.memories.rendering import cleaned, in_third_person, needs_context, quoted_statement, title_of
from roomlore.text.mentions import address_names
from roomlore.text.recognisers import is_question

#: Factors of confidence for what people state about others, and for what agents state about themselves.
_OTHER_CONFIDENCE, _AGENT_CONFIDENCE = 0.6, 0.4
#: Kinds of claims that agents may make about themselves. Everything else that agents write is about other people or
#: comes from them.
_AGENT_KINDS = frozenset({"preference", "fact", "context"})
_LONGEST_BODY = 20_000
#: The maximum distance of two related messages, if they are related only by their distance.
_NEAR = 10
_APOSTROPHES = ("'", "\u2019")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedClaim:
    """A claim, and the statement that it replaces or corrects."""

    claim: Claim
    #: Whether the claim replaces an earlier value that its author stated for the same attribute.
    replaces: bool = False
    #: The message that the claim corrects.
    corrected: SourceText | None = None


def extract(said: Sequence[SourceText], people: Sequence[NamedParticipant]) -> list[Claim]:
    """Return the claims of a conversation, in the order of their messages.

    `people` are those whom the messages may mention.

    `people` are those whom the messages may mention.
    """
    excluded = excluded_messages(said)
    messages = [message for message in said if _is_readable(message) and message.message_id not in excluded]
    named = NamedPeople(people)
    called = address_names([message.body for message in messages], named.names)
    found = [
        one
        for place in range(len(messages))
        for one in _claims_in(messages, place, named=named, called=called)
    ]
    proposals = [one for one in found if isinstance(one, DecisionProposal)]
    extracted = [one for one in found if isinstance(one, ExtractedClaim)]
    extracted += [ExtractedClaim(claim=claim) for claim in decided(proposals, said)]
    places = {message.message_id: place for place, message in enumerate(said)}
    extracted = [
        one for one in extracted if not _is_denied(one.claim, said[places[_source(one.claim)] + 1 :])
    ]
    extracted.sort(key=lambda one: (places[_source(one.claim)], one.claim.quotes[0].start))
    return _merge_equal(_without_corrected(extracted))


def _is_readable(message: SourceText) -> bool:
    return (
        message.kind in {"message", "whisper"}
        and message.author_kind != "system"
        and len(message.body) <= _LONGEST_BODY
    )


def _end_position(one: ExtractedClaim | DecisionProposal) -> int:
    return one.clause.sentence.end if isinstance(one, DecisionProposal) else one.claim.quotes[0].end


def _source(claim: Claim) -> MessageId:
    return claim.quotes[0].message_id


# One message


def _claims_in(
    messages: Sequence[SourceText], place: int, *, named: NamedPeople, called: frozenset[str]
) -> Iterator[ExtractedClaim | DecisionProposal]:
    message = messages[place]
    if message.author_kind == "agent" and is_reported_speech(message.body):
        return
    before = messages[max(0, place - _NEAR) : place]
    for sentence in eligible_sentences(message.body):
        reads: list[ExtractedClaim | DecisionProposal] = []
        read_to, follows = 0, False
        opens = not message.body[: sentence.start].strip()
        # A name with a colon at the start of a message is an address. At the start of a later line, it labels the
        # speaker.
        for part in clauses_of(sentence, called if opens else ()):
            if part.start < read_to:
                continue
            if message.author_kind == "agent":
                read = _agent_claim(part, message, follows=follows)
            else:
                read = _human_claim(part, message, follows=follows, named=named, before=before)
            follows = isinstance(read, ExtractedClaim) and message.author_id in read.claim.subject_ids
            if read is not None:
                reads.append(read)
                read_to = _end_position(read)
        # This check comes last, because most sentences state nothing.
        if reads and not (JOKE.search(sentence.text) or is_foreign(sentence.text)):
            yield from reads


def _human_claim(
    part: Clause, message: SourceText, *, follows: bool, named: NamedPeople, before: Sequence[SourceText]
) -> ExtractedClaim | DecisionProposal | None:
    if proposal := match_proposal(part, message):
        return proposal if part.is_plain else None
    claim = (
        _own_claim(part, message, follows=follows)
        or _claim_about_other(part, message, named)
        or match_lesson(part, message)
    )
    if claim:
        read = ExtractedClaim(claim=claim, replaces=bool(CORRECTION_OPENING.match(part.prefix)))
    elif correction := match_correction(part, [*before, message], len(before)):
        read = ExtractedClaim(claim=correction[0], corrected=correction[1])
    else:
        return None
    return read if part.is_plain and not is_question(part.sentence.text) else None


def _agent_claim(part: Clause, message: SourceText, *, follows: bool) -> ExtractedClaim | None:
    claim = _own_claim(part, message, follows=follows) or match_lesson(part, message)
    # The words after a name and a colon are a quotation.
    if not claim or claim.kind not in _AGENT_KINDS or ":" in part.prefix:
        return None
    if not part.is_plain or is_question(part.sentence.text):
        return None
    confidence = claim.confidence * _AGENT_CONFIDENCE
    return ExtractedClaim(claim=replace(claim, confidence=confidence, tags=claim.tags | {AGENT_TAG}))


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
    content = alone or quoted_statement(message.author_name, message.body[part.coordinated_from : part.end])
    return _claim(part, message, read, content=content, subject_id=message.author_id)


def _claim_about_other(part: Clause, message: SourceText, named: NamedPeople) -> Claim | None:
    subject = named.subject_of(part.text)
    if subject is None or subject[0].id == message.author_id:
        return None
    person, end = subject
    read = next(
        (read for text in first_person_variants(part.text[end:]) if (read := match_first_person(text))), None
    )
    if read is None or is_disfluent(part.text):
        return None
    said = message.body[part.start : part.end]
    rest = cleaned(said[end:])
    if needs_context(rest):
        content = quoted_statement(message.author_name, said)
    else:
        # The name is kept as written: a reader of the memory may not know which person is meant.
        content = f"{safe_name(said[:end].lstrip('@'))}{'' if rest[:1] in _APOSTROPHES else ' '}{rest}."
    read = replace(read, confidence=read.confidence * _OTHER_CONFIDENCE)
    return _claim(part, message, read, content=content, subject_id=person.id)


def _claim(
    part: Clause, message: SourceText, read: FirstPersonForm, *, content: str, subject_id: ParticipantId
) -> Claim:
    return Claim(
        kind=read.kind,
        title=title_of(message.body[part.start : part.end]),
        content=content,
        quotes=[Quote(message_id=message.message_id, start=part.start, end=part.end)],
        author_id=message.author_id,
        subject_ids=frozenset({subject_id}),
        confidence=read.confidence,
        attribute=read.attribute,
        tags=frozenset({read.tag}) if read.tag else frozenset(),
    )


# The whole conversation


def _without_corrected(extracted: Sequence[ExtractedClaim]) -> list[Claim]:
    """Return the claims without those that their author corrected or replaced later."""
    replacing = [(number, one) for number, one in enumerate(extracted) if one.replaces or one.corrected]
    return [
        one.claim
        for number, one in enumerate(extracted)
        if not any(later > number and _replaces(other, one.claim) for later, other in replacing)
    ]


def _is_denied(claim: Claim, following: Sequence[SourceText]) -> bool:
    """Return whether the person whom a claim is about denies the claim in their next message.

    This can only be a person other than the author of the claim.
    """
    others = claim.subject_ids - {claim.author_id}
    answers = (one for one in following[:_NEAR] if one.author_id in others)
    return any(denies_statement(one.body) for one in islice(answers, 1))


def _replaces(later: ExtractedClaim, earlier: Claim) -> bool:
    claim = later.claim
    if claim.author_id != earlier.author_id:
        return False
    if later.corrected is not None:
        return later.corrected.message_id == _source(earlier)
    is_same = (
        claim.attribute is not None
        and claim.attribute == earlier.attribute
        and claim.subject_ids == earlier.subject_ids
    )
    return later.replaces and is_same


def _merge_equal(claims: Sequence[Claim]) -> list[Claim]:
    """Merge claims that say the same. The first claim gets the quotes of all."""
    merged: dict[tuple[object, ...], Claim] = {}
    for one in claims:
        key = (one.kind, one.author_id, one.subject_ids, one.content.casefold())
        first = merged.get(key)
        merged[key] = replace(first, quotes=[*first.quotes, *one.quotes]) if first else one
    return list(merged.values())
