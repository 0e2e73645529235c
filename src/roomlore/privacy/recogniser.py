"""Recognises privacy requests by rules: what to forget, what is confidential, what to hide from whom.

Precision is preferred to recall: hiding messages by mistake costs more than having to repeat a request. A question, a
quotation, a condition, or a sentence about a file, a branch or a setting is no request.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from uuid import UUID

from roomlore.domain.ids import ParticipantId
from roomlore.domain.patterns import lazy_pattern, sentence_pattern
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
from roomlore.text.sentences import sentences_of, without_quoted_lines

#: A longer message is a document, which may be about privacy requests.
MAX_REQUEST_LENGTH = 2_000
_CODE = lazy_pattern(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_ABOUT = sentence_pattern(r"\b(?:about|regarding|concerning)\s+(.{2,80})", re.IGNORECASE)
_ABOUT_ME = sentence_pattern(r"\b(?:that|how|about|on)\s+(?:i|me|my)\b\s+(.{2,80})", re.IGNORECASE)
_ONLY = sentence_pattern(r"\bonly\b", re.IGNORECASE)
_SHUT_OUT = sentence_pattern(r"\b(?:not|nor)\b", re.IGNORECASE)
_NOT_PERMITTED = sentence_pattern(r"\b(?:not|no|nothing|never|without|cannot)\b", re.IGNORECASE)
#: A further name after "Linda" or "Linda and".
_MORE = sentence_pattern(
    r"(?:(?<=\band)|(?<=\bor)|\s+(?:and|or)\b)\s+(?:my\s+)?[\w.'-]+(?:\s+[A-Z][\w.'-]+)?"
)
_NO_NAMES = NameIndex.build(())
_NO_ID = ParticipantId(UUID(int=0))
#: Words. A confidential sentence with more words contains the confidential content itself.
_FEW_WORDS = 9
#: Words. A sentence with fewer words has no content: "Ok. Sorry, all."
_TELLING_WORDS = 3


def _prefilter(own: str) -> bool:
    """Return whether a text may contain a request. The check is cheap and has no false negatives."""
    if len(own) > MAX_REQUEST_LENGTH:
        return False
    low = with_straight_apostrophes(own).lower()
    return patterns.ANY_REQUEST.search(low) is not None and (
        patterns.FORGET_WORDS.search(low) is not None
        or patterns.CONFIDENTIAL_WORDS.search(low) is not None
        or (patterns.NEGATIONS.search(low) is not None and patterns.RESTRICT_WORDS.search(low) is not None)
    )


def recognise(body: str, author_id: ParticipantId, name_index: NameIndex) -> PrivacyRequest | None:
    """Return the request that a message states; None if it states none.

    `name_index` has the current names of people in the room. The author's name may be among them.
    """
    sentences = _own_sentences(body)
    return (
        _forget_request(sentences, name_index)
        or _restrict_request(sentences, author_id, name_index)
        or _confidential_request(sentences)
    )


def may_hold_request(body: str) -> bool:
    """Return whether a message may state a request, whoever the participants are. There are no false negatives."""
    sentences = _own_sentences(body)
    request = (
        _forget_request(sentences, _NO_NAMES)
        or _confidential_request(sentences)
        or _own_access_limit(sentences, _NO_ID)
    )
    return request is not None or any(map(_restricts_anybody, sentences))


def restricts_unknown_person(body: str) -> bool:
    """Return whether a message may restrict somebody who is unknown now and may join later."""
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
    """Return whether a message states that its content is confidential."""
    return any(
        cue.search(sentence)
        for sentence in sentences_of(with_straight_apostrophes(without_quoted_lines(body)))
        if not patterns.QUESTION.search(sentence)
        for cue in (patterns.WITHIN_GROUP, patterns.CONFIDENTIAL, patterns.SENSITIVE)
    )


def asks_to_forget(body: str) -> bool:
    """Return whether a message asks to forget something."""
    return _forget_request(_own_sentences(body), _NO_NAMES) is not None


def states_restriction(body: str) -> bool:
    """Return whether a message states a restriction, whoever it is about."""
    return any(
        not patterns.QUESTION.search(sentence)
        and (
            patterns.REVOKED_ACCESS.search(sentence)
            or ((patterns.LIMITED_ACCESS.search(sentence) or _ONLY.search(sentence)) and topics_of(sentence))
        )
        for sentence in sentences_of(with_straight_apostrophes(without_quoted_lines(body)))
    )


def _own_sentences(body: str) -> list[str]:
    """Return the sentences that may hold a request, without quoted lines and code."""
    own = without_quoted_lines(body)
    return sentences_of(with_straight_apostrophes(_CODE.sub(" ", own))) if _prefilter(own) else []


# Forget


def _forget_request(sentences: Sequence[str], name_index: NameIndex) -> PrivacyRequest | None:
    requests = [
        request
        for sentence in sentences
        if (request := _forget_in_sentence(sentence, name_index, alone=len(sentences) == 1))
    ]
    if not requests:
        return None
    return PrivacyRequest(
        kind="forget",
        refers_back=any(each.refers_back for each in requests),
        subject=" ".join(each.subject for each in requests if each.subject),
        identifiers=tuple(dict.fromkeys(value for each in requests for value in each.identifiers)),
        is_record=all(each.is_record for each in requests),
    )


def _forget_in_sentence(sentence: str, name_index: NameIndex, *, alone: bool) -> PrivacyRequest | None:
    if not patterns.FORGET_WORDS.search(sentence.lower()):
        return None
    if patterns.QUESTION.search(sentence) and not patterns.ASKS_FAVOUR.match(sentence):
        return None
    # In a longer message, these words only take back a thought: "forget that, let's go on".
    if alone and len(sentence) <= patterns.SHORT_FORGET and patterns.BARE_FORGET.match(sentence):
        return PrivacyRequest(kind="forget", refers_back=True)
    is_denied = patterns.NEGATED.search(sentence) and not patterns.FORGET_I_SAID.search(sentence)
    if is_denied:
        return None
    return _forget_said(sentence, name_index) or _forget_record(sentence, name_index)


def _forget_said(sentence: str, name_index: NameIndex) -> PrivacyRequest | None:
    if patterns.FORGET_I_SAID.search(sentence) or patterns.FORGET_SAID.match(sentence):
        topic = _captured(_ABOUT, sentence)
        request = PrivacyRequest(
            kind="forget",
            refers_back=not topic,
            subject=topic,
            identifiers=_named_values(sentence, name_index),
        )
        return None if patterns.ELSEWHERE.search(sentence) else request
    if patterns.FORGET_ABOUT_ME.match(sentence) and not patterns.TECHNICAL_OBJECT.search(sentence):
        return PrivacyRequest(
            kind="forget",
            subject=_captured(_ABOUT_ME, sentence),
            identifiers=_named_values(sentence, name_index),
        )
    return None


def _forget_record(sentence: str, name_index: NameIndex) -> PrivacyRequest | None:
    """Return a request to forget something recorded, or a report that it was forgotten.

    Return None if the text contains neither.
    """
    is_record = bool(patterns.REPORTS_DELETION.search(sentence))
    from_memory = bool(patterns.FORGET_MEMORY.match(sentence))
    is_technical = bool(patterns.TECHNICAL_OBJECT.search(sentence))
    is_asked = (
        from_memory
        or bool(patterns.MUST_BE_FORGOTTEN.search(sentence))
        or (bool(patterns.FORGET_RECORD.match(sentence)) and not is_technical)
    )
    if not is_asked and (not is_record or is_technical):
        return None
    if patterns.CONDITIONAL.search(sentence) and not is_record:
        return None
    values = _named_values(sentence, name_index)
    if values:
        return PrivacyRequest(kind="forget", identifiers=values, is_record=not is_asked)
    topic = (
        _captured(patterns.MEMORY_OBJECT, sentence)
        if from_memory
        else _captured(patterns.FORGET_MINE, sentence)
    )
    return PrivacyRequest(kind="forget", subject=topic) if topic else None


def _named_values(sentence: str, name_index: NameIndex) -> tuple[str, ...]:
    """Return the values that a sentence names, without values to be kept and names of participants."""
    rest = patterns.KEEPS_CLAUSE.sub(" ", sentence)
    names = [
        name
        for name in proper_names(without_quotations(rest))
        if not {token.casefold() for token in TOKEN.findall(name)} & name_index.tokens
    ]
    return tuple(dict.fromkeys([*distinctive_values(rest), *names]))


def _captured(pattern: re.Pattern[str], sentence: str) -> str:
    match = pattern.search(sentence)
    return match[1].strip(" .!?") if match else ""


# Confidential


def _confidential_request(sentences: Sequence[str]) -> PrivacyRequest | None:
    for index, sentence in enumerate(sentences):
        if not patterns.CONFIDENTIAL_WORDS.search(sentence.lower()) or patterns.QUESTION.search(sentence):
            continue
        if not patterns.CONFIDENTIAL.search(sentence) or patterns.NOT_CONFIDENTIAL.search(sentence):
            continue
        has_content = (
            bool(patterns.CONFIDENTIAL_PREFIX.match(sentence))
            or len(TOKEN.findall(sentence)) > _FEW_WORDS
            or _says_more(sentences, sentence)
        )
        refers_back = not has_content and index == len(sentences) - 1
        return PrivacyRequest(kind="confidential", is_about_itself=has_content, refers_back=refers_back)
    return None


def _says_more(sentences: Sequence[str], request_sentence: str) -> bool:
    """Return whether a message has content besides the request."""
    return any(
        len(TOKEN.findall(sentence)) >= _TELLING_WORDS and not patterns.QUESTION.search(sentence)
        for sentence in sentences
        if sentence != request_sentence
    )


# Restrict


def _restrict_request(
    sentences: Sequence[str], author_id: ParticipantId, name_index: NameIndex
) -> PrivacyRequest | None:
    for sentence in sentences:
        if not _prefilter_restriction(sentence) or patterns.QUESTION.search(sentence):
            continue
        ongoing = _ongoing_restriction(sentence, author_id, name_index)
        if ongoing is not None:
            return ongoing
        one_time = _one_time_restriction(sentence, author_id, name_index)
        if one_time is not None:
            has_content = one_time.refers_back and _says_more(sentences, sentence)
            return replace(
                one_time, is_about_itself=has_content, refers_back=one_time.refers_back and not has_content
            )
    return _own_access_limit(sentences, author_id)


def _own_access_limit(sentences: Sequence[str], author_id: ParticipantId) -> PrivacyRequest | None:
    """Return a request about what the author must not see; None unless the request names topics."""
    if not any(
        _prefilter_restriction(sentence) and patterns.OWN_ACCESS_LIMIT.search(sentence)
        for sentence in sentences
    ):
        return None
    denied_parts = [part for sentence in sentences for part in _SHUT_OUT.split(sentence, maxsplit=1)[1:]]
    denied: frozenset[Topic] = frozenset(topic for part in denied_parts for topic in topics_of(part))
    if not denied:
        return None
    return PrivacyRequest(
        kind="restrict", restricted_ids=frozenset({author_id}), denied=denied, is_ongoing=True
    )


def _ongoing_restriction(
    sentence: str, author_id: ParticipantId, name_index: NameIndex
) -> PrivacyRequest | None:
    """Return an ongoing restriction; None if there is none.

    With an ongoing restriction, somebody may see only some topics, or nothing.
    """
    if patterns.GRANTED.search(sentence) or patterns.SYSTEM_ACCESS.search(sentence):
        return None
    for clause in patterns.CLAUSE.split(sentence):
        if not _is_restriction(clause):
            continue
        is_revoked = bool(patterns.REVOKED_ACCESS.search(clause))
        named = patterns.POSSESSIVE.sub(" ", clause)
        restricted = mentioned_ids(named, name_index) - {author_id}
        if restricted and not patterns.FIRST_PERSON.match(clause):
            allowed: frozenset[Topic] = frozenset() if is_revoked else _allowed_topics(clause)
            return PrivacyRequest(
                kind="restrict",
                restricted_ids=restricted,
                unresolved_names=unknown_names(named, name_index, besides=author_id),
                is_ongoing=True,
                allowed=allowed,
                is_record=bool(patterns.RECORD_VERB.search(sentence)),
            )
    return None


def _one_time_restriction(
    sentence: str, author_id: ParticipantId, name_index: NameIndex
) -> PrivacyRequest | None:
    for start, end in _restricted_spans(sentence):
        named = patterns.POSSESSIVE.sub(" ", patterns.OBJECTS.sub(" ", sentence[start:end]))
        restricted = mentioned_ids(named, name_index) - {author_id}
        if restricted and not patterns.REPORTED_SPEECH.search(sentence):
            topics = topics_of(f"{sentence[:start]} {sentence[end:]}")
            return PrivacyRequest(
                kind="restrict",
                restricted_ids=restricted,
                unresolved_names=unknown_names(named, name_index, besides=author_id),
                denied=topics,
                is_ongoing=bool(topics),
                refers_back=not topics,
            )
    return None


def _restricted_spans(sentence: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each part of a sentence that names the restricted people."""
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
    """Return the topics that a clause allows. These are the topics before its first negation."""
    return topics_of(_NOT_PERMITTED.split(clause, maxsplit=1)[0])
