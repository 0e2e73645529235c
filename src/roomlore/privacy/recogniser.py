"""Hears a wish in a message, by rules: who is to forget what, between whom it stays, from whom it is kept.

Precise rather than complete: what hides words by mistake costs more than what is asked for again. A sentence that
asks, quotes, supposes or speaks of a file, a branch or a setting is no wish.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from uuid import UUID

from roomlore.domain.ids import ParticipantId
from roomlore.domain.patterns import MAX_SENTENCE_LENGTH, lazy_pattern, sentence_pattern
from roomlore.privacy import patterns
from roomlore.privacy.identifiers import (
    TOKEN,
    distinctive_values,
    proper_names,
    with_straight_apostrophes,
    without_quotations,
)
from roomlore.privacy.mentions import NameIndex, mentioned_ids, unknown_names
from roomlore.privacy.records import PrivacyRequest, Topic
from roomlore.privacy.topics import topics_of

#: Whoever writes more of their own writes a document that tells about wishes, if anything.
MAX_REQUEST_LENGTH = 2_000
#: So many characters of somebody's own words are looked at for what a message says of itself: that it is confidential, or restricts.
MAX_CHARACTERS = 20_000

_SENTENCE = lazy_pattern(r"[^.!?;\n]+(?:[.!?;](?!\s|$)[^.!?;\n]+)*[.!?;]*")
#: Where a full stop ends no sentence.
_TITLE = lazy_pattern(r"\b(Dr|Mr|Mrs|Ms|Prof)\.\s")
_CODE = lazy_pattern(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_ABOUT = sentence_pattern(r"\b(?:about|regarding|concerning)\s+(.{2,80})", re.IGNORECASE)
_ABOUT_ME = sentence_pattern(r"\b(?:that|how|about|on)\s+(?:i|me|my)\b\s+(.{2,80})", re.IGNORECASE)
_ONLY = sentence_pattern(r"\bonly\b", re.IGNORECASE)
_SHUT_OUT = sentence_pattern(r"\b(?:not|nor)\b", re.IGNORECASE)
_NOT_PERMITTED = sentence_pattern(r"\b(?:not|no|nothing|never|without|cannot)\b", re.IGNORECASE)
#: Who else is named, after "Linda" or after "Linda and".
_MORE = sentence_pattern(
    r"(?:(?<=\band)|(?<=\bor)|\s+(?:and|or)\b)\s+(?:my\s+)?[\w.'-]+(?:\s+[A-Z][\w.'-]+)?"
)
_NO_NAMES = NameIndex.build(())
_NO_ID = ParticipantId(UUID(int=0))
#: A confiding sentence of more words says itself what is confided.
_FEW_WORDS = 9
#: "Ok. Sorry, all." tells nothing; what has so many words does.
_TELLING_WORDS = 3


def unquoted_lines(body: str) -> str:
    """Return the lines that the author of a body wrote, without those that quote or carry somebody else's."""
    if ">" not in body:
        return body
    return "\n".join(line for line in body.splitlines() if not line.lstrip().startswith(">"))


def _prefilter(own: str) -> bool:
    """Return whether somebody's own words may hold a wish at all; quick, and wrong only in letting through."""
    if len(own) > MAX_REQUEST_LENGTH:
        return False
    low = with_straight_apostrophes(own).lower()
    return patterns.ANY_REQUEST.search(low) is not None and (
        patterns.FORGET_WORDS.search(low) is not None
        or patterns.CONFIDENTIAL_WORDS.search(low) is not None
        or (patterns.NEGATIONS.search(low) is not None and patterns.RESTRICT_WORDS.search(low) is not None)
    )


def recognise(body: str, author_id: ParticipantId, name_index: NameIndex) -> PrivacyRequest | None:
    """Return what a message wishes, or None.

    Args:
        body: What was said.
        author_id: Who said it.
        name_index: Who takes part in the room, by the names that were last known; the author may be among them.
    """
    sentences = _own_sentences(body)
    return (
        _forget_request(sentences, name_index)
        or _restrict_request(sentences, author_id, name_index)
        or _confidential_request(sentences)
    )


def may_hold_request(body: str) -> bool:
    """Return whether a message is put like a wish, whoever takes part; none that is heard is missed."""
    sentences = _own_sentences(body)
    is_told = (
        _forget_request(sentences, _NO_NAMES)
        or _confidential_request(sentences)
        or _own_access_limit(sentences, _NO_ID)
    )
    return is_told is not None or any(map(_restricts_anybody, sentences))


def restricts_unknown_person(body: str) -> bool:
    """Return whether a message keeps something from somebody, whoever that is: they may still come."""
    return any(map(_restricts_anybody, _own_sentences(body)))


def _restricts_anybody(sentence: str) -> bool:
    return (
        _prefilter_restriction(sentence)
        and not patterns.QUESTION.search(sentence)
        and (
            any(True for _ in _restricted_spans(sentence))
            or any(map(_is_restriction, patterns.CLAUSE.split(sentence)))
        )
    )


def _is_restriction(clause: str) -> bool:
    low = clause.lower()
    if any(sound in low for sound in ("access", "revok", "remov")) and patterns.REVOKED_ACCESS.search(clause):
        return True
    return any(sound in low for sound in ("only", "limited")) and bool(
        patterns.LIMITED_ACCESS.search(clause) and topics_of(clause)
    )


def _prefilter_restriction(text: str) -> bool:
    low = text.lower()
    return bool(patterns.NEGATIONS.search(low) and patterns.RESTRICT_WORDS.search(low))


def is_confidential(body: str) -> bool:
    """Return whether a message itself says that what it tells is not for everybody."""
    return any(
        cue.search(one)
        for one in _sentences(with_straight_apostrophes(unquoted_lines(body)))
        if not patterns.QUESTION.search(one)
        for cue in (patterns.WITHIN_GROUP, patterns.CONFIDENTIAL, patterns.SENSITIVE)
    )


def asks_to_forget(body: str) -> bool:
    """Return whether a message is put like a wish that something is forgotten, whoever takes part."""
    return _forget_request(_own_sentences(body), _NO_NAMES) is not None


def states_restriction(body: str) -> bool:
    """Return whether a message states a restriction, whomever it means by it."""
    return any(
        not patterns.QUESTION.search(one)
        and (
            patterns.REVOKED_ACCESS.search(one)
            or ((patterns.LIMITED_ACCESS.search(one) or _ONLY.search(one)) and topics_of(one))
        )
        for one in _sentences(with_straight_apostrophes(unquoted_lines(body)))
    )


def _own_sentences(body: str) -> list[str]:
    """Return the sentences of a body that may hold a wish, without quoted lines and code; none of another."""
    own = unquoted_lines(body)
    return _sentences(with_straight_apostrophes(_CODE.sub(" ", own))) if _prefilter(own) else []


def _sentences(text: str) -> list[str]:
    """Return the sentences of the first so many characters; what is longer than any sentence is none."""
    whole = _TITLE.sub(r"\1 ", text[:MAX_CHARACTERS])
    found = (match[0].strip() for match in _SENTENCE.finditer(whole))
    return [one for one in found if one and len(one) <= MAX_SENTENCE_LENGTH]


# What is to be forgotten


def _forget_request(sentences: Sequence[str], people: NameIndex) -> PrivacyRequest | None:
    found = [
        wish
        for sentence in sentences
        if (wish := _forget_in_sentence(sentence, people, alone=len(sentences) == 1))
    ]
    if not found:
        return None
    return PrivacyRequest(
        kind="forget",
        refers_back=any(one.refers_back for one in found),
        subject=" ".join(one.subject for one in found if one.subject),
        identifiers=tuple(dict.fromkeys(value for one in found for value in one.identifiers)),
        is_record=all(one.is_record for one in found),
    )


def _forget_in_sentence(sentence: str, people: NameIndex, *, alone: bool) -> PrivacyRequest | None:
    if not patterns.FORGET_WORDS.search(sentence.lower()):
        return None
    if patterns.QUESTION.search(sentence) and not patterns.ASKS_FAVOUR.match(sentence):
        return None
    # Said before something else it only takes a thought back: "forget that, let's go on".
    if alone and len(sentence) <= patterns.SHORT_FORGET and patterns.BARE_FORGET.match(sentence):
        return PrivacyRequest(kind="forget", refers_back=True)
    is_denied = patterns.NEGATED.search(sentence) and not patterns.FORGET_I_SAID.search(sentence)
    if is_denied:
        return None
    return _forget_said(sentence, people) or _forget_record(sentence, people)


def _forget_said(sentence: str, people: NameIndex) -> PrivacyRequest | None:
    """Return a wish that what its author said is forgotten."""
    if patterns.FORGET_I_SAID.search(sentence) or patterns.FORGET_SAID.match(sentence):
        topic = _captured(_ABOUT, sentence)
        wish = PrivacyRequest(
            kind="forget", refers_back=not topic, subject=topic, identifiers=_named_values(sentence, people)
        )
        return None if patterns.ELSEWHERE.search(sentence) else wish
    if patterns.FORGET_ABOUT_ME.match(sentence) and not patterns.TECHNICAL_OBJECT.search(sentence):
        return PrivacyRequest(
            kind="forget", subject=_captured(_ABOUT_ME, sentence), identifiers=_named_values(sentence, people)
        )
    return None


def _forget_record(sentence: str, people: NameIndex) -> PrivacyRequest | None:
    """Return a wish that something noted is forgotten, or a note that it is."""
    is_record = bool(patterns.REPORTS_DELETION.search(sentence))
    from_memory = bool(patterns.FORGET_MEMORY.match(sentence))
    is_workshop = bool(patterns.TECHNICAL_OBJECT.search(sentence))
    is_asked = (
        from_memory
        or bool(patterns.MUST_BE_FORGOTTEN.search(sentence))
        or (bool(patterns.FORGET_RECORD.match(sentence)) and not is_workshop)
    )
    if not is_asked and (not is_record or is_workshop):
        return None
    if patterns.CONDITIONAL.search(sentence) and not is_record:
        return None
    values = _named_values(sentence, people)
    if values:
        return PrivacyRequest(kind="forget", identifiers=values, is_record=not is_asked)
    topic = (
        _captured(patterns.MEMORY_OBJECT, sentence)
        if from_memory
        else _captured(patterns.FORGET_MINE, sentence)
    )
    return PrivacyRequest(kind="forget", subject=topic) if topic else None


def _named_values(sentence: str, people: NameIndex) -> tuple[str, ...]:
    """Return what a sentence names, without what it keeps and without the people of the room."""
    rest = patterns.KEEPS_CLAUSE.sub(" ", sentence)
    named = [
        one
        for one in proper_names(without_quotations(rest))
        if not {token.casefold() for token in TOKEN.findall(one)} & people.tokens
    ]
    return tuple(dict.fromkeys([*distinctive_values(rest), *named]))


def _captured(pattern: re.Pattern[str], sentence: str) -> str:
    match = pattern.search(sentence)
    return match[1].strip(" .!?") if match else ""


# What stays between those it was said to


def _confidential_request(sentences: Sequence[str]) -> PrivacyRequest | None:
    for place, sentence in enumerate(sentences):
        if not patterns.CONFIDENTIAL_WORDS.search(sentence.lower()) or patterns.QUESTION.search(sentence):
            continue
        if not patterns.CONFIDENTIAL.search(sentence) or patterns.NOT_CONFIDENTIAL.search(sentence):
            continue
        tells = (
            bool(patterns.CONFIDENTIAL_PREFIX.match(sentence))
            or len(TOKEN.findall(sentence)) > _FEW_WORDS
            or _says_more(sentences, sentence)
        )
        points_back = not tells and place == len(sentences) - 1
        return PrivacyRequest(kind="confide", is_about_itself=tells, refers_back=points_back)
    return None


def _says_more(sentences: Sequence[str], wish: str) -> bool:
    """Return whether a message tells something besides its wish: then that is what the wish is about."""
    return any(
        len(TOKEN.findall(one)) >= _TELLING_WORDS and not patterns.QUESTION.search(one)
        for one in sentences
        if one != wish
    )


# What is kept from some


def _restrict_request(
    sentences: Sequence[str], author_id: ParticipantId, people: NameIndex
) -> PrivacyRequest | None:
    for sentence in sentences:
        if not _prefilter_restriction(sentence) or patterns.QUESTION.search(sentence):
            continue
        rule = _ongoing_restriction(sentence, author_id, people)
        if rule is not None:
            return rule
        secret = _one_time_restriction(sentence, author_id, people)
        if secret is not None:
            tells = secret.refers_back and _says_more(sentences, sentence)
            return replace(secret, is_about_itself=tells, refers_back=secret.refers_back and not tells)
    return _own_access_limit(sentences, author_id)


def _own_access_limit(sentences: Sequence[str], author_id: ParticipantId) -> PrivacyRequest | None:
    """Return what somebody says they are not to know themselves; only what they name."""
    if not any(
        _prefilter_restriction(sentence) and patterns.OWN_ACCESS_LIMIT.search(sentence)
        for sentence in sentences
    ):
        return None
    shut_out = [part for sentence in sentences for part in _SHUT_OUT.split(sentence, maxsplit=1)[1:]]
    denies: frozenset[Topic] = frozenset(matter for part in shut_out for matter in topics_of(part))
    if not denies:
        return None
    return PrivacyRequest(
        kind="withhold", restricted_ids=frozenset({author_id}), denied=denies, is_ongoing=True
    )


def _ongoing_restriction(sentence: str, author_id: ParticipantId, people: NameIndex) -> PrivacyRequest | None:
    """Return a restriction that goes on: somebody may know only this, or nothing any more."""
    if patterns.GRANTED.search(sentence) or patterns.SYSTEM_ACCESS.search(sentence):
        return None
    for clause in patterns.CLAUSE.split(sentence):
        if not _is_restriction(clause):
            continue
        is_revoked = bool(patterns.REVOKED_ACCESS.search(clause))
        named = patterns.POSSESSIVE.sub(" ", clause)
        found = mentioned_ids(named, people) - {author_id}
        if found and not patterns.FIRST_PERSON.match(clause):
            permits: frozenset[Topic] = frozenset() if is_revoked else _allowed_topics(clause)
            return PrivacyRequest(
                kind="withhold",
                restricted_ids=found,
                unresolved_names=unknown_names(named, people, besides=author_id),
                is_ongoing=True,
                allowed=permits,
                is_record=bool(patterns.RECORD_VERB.search(sentence)),
            )
    return None


def _one_time_restriction(
    sentence: str, author_id: ParticipantId, people: NameIndex
) -> PrivacyRequest | None:
    """Return a wish that somebody is not told something."""
    for start, end in _restricted_spans(sentence):
        named = patterns.POSSESSIVE.sub(" ", patterns.OBJECTS.sub(" ", sentence[start:end]))
        found = mentioned_ids(named, people) - {author_id}
        if found and not patterns.REPORTED_SPEECH.search(sentence):
            about = topics_of(f"{sentence[:start]} {sentence[end:]}")
            return PrivacyRequest(
                kind="withhold",
                restricted_ids=found,
                unresolved_names=unknown_names(named, people, besides=author_id),
                denied=about,
                is_ongoing=bool(about),
                refers_back=not about,
            )
    return None


def _restricted_spans(sentence: str) -> Iterator[tuple[int, int]]:
    """Yield where a sentence names those who are not to know something."""
    for cue in patterns.RESTRICTED_PEOPLE:
        match = cue.search(sentence)
        if match is not None:
            start, end = match.span("who" if match["who"] else "also")
            while more := _MORE.match(sentence, end):
                end = more.end()
            yield start, end
    modal = patterns.NO_ACCESS_MODAL.search(sentence)
    subject = patterns.SUBJECT.search(sentence, 0, modal.start()) if modal else None
    if subject is not None:
        yield subject.span()


def _allowed_topics(clause: str) -> frozenset[Topic]:
    """Return what a restriction lets through: what it speaks of before it says what it shuts out."""
    return topics_of(_NOT_PERMITTED.split(clause, maxsplit=1)[0])
