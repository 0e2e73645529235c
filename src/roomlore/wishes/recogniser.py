"""Hears a wish in a message, by rules: who is to forget what, between whom it stays, from whom it is kept.

Precise rather than complete: what hides words by mistake costs more than what is asked for again. A sentence that
asks, quotes, supposes or speaks of a file, a branch or a setting is no wish.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from uuid import UUID

from roomlore.domain.ids import ParticipantId
from roomlore.domain.patterns import LONGEST_SENTENCE, in_sentence, later
from roomlore.wishes import cues
from roomlore.wishes.marks import TOKEN, names, straight, strong_values, unquoted
from roomlore.wishes.matters import matters
from roomlore.wishes.parties import People, parties, strangers
from roomlore.wishes.records import Matter, Wish

#: Whoever writes more of their own writes a document that tells about wishes, if anything.
LONGEST = 2_000
#: So many characters of somebody's own words are looked at for what a message says of itself: that it is confidential, or restricts.
READ = 20_000

_SENTENCE = later(r"[^.!?;\n]+(?:[.!?;](?!\s|$)[^.!?;\n]+)*[.!?;]*")
#: Where a full stop ends no sentence.
_TITLE = later(r"\b(Dr|Mr|Mrs|Ms|Prof)\.\s")
_CODE = later(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_ABOUT = in_sentence(r"\b(?:about|regarding|concerning)\s+(.{2,80})", re.IGNORECASE)
_ABOUT_ME = in_sentence(r"\b(?:that|how|about|on)\s+(?:i|me|my)\b\s+(.{2,80})", re.IGNORECASE)
_ONLY = in_sentence(r"\bonly\b", re.IGNORECASE)
_SHUT_OUT = in_sentence(r"\b(?:not|nor)\b", re.IGNORECASE)
_NOT_PERMITTED = in_sentence(r"\b(?:not|no|nothing|never|without|cannot)\b", re.IGNORECASE)
#: Who else is named, after "Linda" or after "Linda and".
_MORE = in_sentence(r"(?:(?<=\band)|(?<=\bor)|\s+(?:and|or)\b)\s+(?:my\s+)?[\w.'-]+(?:\s+[A-Z][\w.'-]+)?")
_NOBODY_KNOWN = People.of(())
_NOBODY = ParticipantId(UUID(int=0))
#: A confiding sentence of more words says itself what is confided.
_FEW_WORDS = 9
#: "Ok. Sorry, all." tells nothing; what has so many words does.
_TELLING_WORDS = 3


def own_lines(body: str) -> str:
    """Return the lines that the author of a body wrote, without those that quote or carry somebody else's."""
    if ">" not in body:
        return body
    return "\n".join(line for line in body.splitlines() if not line.lstrip().startswith(">"))


def _may_wish(own: str) -> bool:
    """Return whether somebody's own words may hold a wish at all; quick, and wrong only in letting through."""
    if len(own) > LONGEST:
        return False
    low = straight(own).lower()
    return cues.ANY.search(low) is not None and (
        cues.FORGETTING.search(low) is not None
        or cues.CONFIDING.search(low) is not None
        or (cues.NEGATING.search(low) is not None and cues.WITHHOLDING.search(low) is not None)
    )


def heard(body: str, author_id: ParticipantId, people: People) -> Wish | None:
    """Return what a message wishes, or None.

    Args:
        body: What was said.
        author_id: Who said it.
        people: Who takes part in the room, by the names that were last known; the author may be among them.
    """
    sentences = _own_sentences(body)
    return (
        _forgetting(sentences, people) or _withholding(sentences, author_id, people) or _confiding(sentences)
    )


def voices(body: str) -> bool:
    """Return whether a message is put like a wish, whoever takes part; none that is heard is missed."""
    sentences = _own_sentences(body)
    is_told = _forgetting(sentences, _NOBODY_KNOWN) or _confiding(sentences) or _own_scope(sentences, _NOBODY)
    return is_told is not None or any(map(_keeps_from_somebody, sentences))


def names_nobody_known(body: str) -> bool:
    """Return whether a message keeps something from somebody, whoever that is: they may still come."""
    return any(map(_keeps_from_somebody, _own_sentences(body)))


def _keeps_from_somebody(sentence: str) -> bool:
    return (
        _may_withhold(sentence)
        and not cues.ASKS.search(sentence)
        and (
            any(True for _ in _kept_from(sentence)) or any(map(_is_restriction, cues.CLAUSE.split(sentence)))
        )
    )


def _is_restriction(clause: str) -> bool:
    low = clause.lower()
    if any(sound in low for sound in ("access", "revok", "remov")) and cues.REVOKED.search(clause):
        return True
    return any(sound in low for sound in ("only", "limited")) and bool(
        cues.ONLY.search(clause) and matters(clause)
    )


def _may_withhold(text: str) -> bool:
    low = text.lower()
    return bool(cues.NEGATING.search(low) and cues.WITHHOLDING.search(low))


def is_confidential(body: str) -> bool:
    """Return whether a message itself says that what it tells is not for everybody."""
    return any(
        cue.search(one)
        for one in _sentences(straight(own_lines(body)))
        if not cues.ASKS.search(one)
        for cue in (cues.GROUPS, cues.CONFIDE, cues.SENSITIVE)
    )


def forgets(body: str) -> bool:
    """Return whether a message is put like a wish that something is forgotten, whoever takes part."""
    return _forgetting(_own_sentences(body), _NOBODY_KNOWN) is not None


def restricts(body: str) -> bool:
    """Return whether a message states a restriction, whomever it means by it."""
    return any(
        not cues.ASKS.search(one)
        and (cues.REVOKED.search(one) or ((cues.ONLY.search(one) or _ONLY.search(one)) and matters(one)))
        for one in _sentences(straight(own_lines(body)))
    )


def _own_sentences(body: str) -> list[str]:
    """Return the sentences of a body that may hold a wish, without quoted lines and code; none of another."""
    own = own_lines(body)
    return _sentences(straight(_CODE.sub(" ", own))) if _may_wish(own) else []


def _sentences(text: str) -> list[str]:
    """Return the sentences of the first so many characters; what is longer than any sentence is none."""
    whole = _TITLE.sub(r"\1 ", text[:READ])
    found = (match[0].strip() for match in _SENTENCE.finditer(whole))
    return [one for one in found if one and len(one) <= LONGEST_SENTENCE]


# What is to be forgotten


def _forgetting(sentences: Sequence[str], people: People) -> Wish | None:
    found = [wish for sentence in sentences if (wish := _forget(sentence, people, alone=len(sentences) == 1))]
    if not found:
        return None
    return Wish(
        kind="forget",
        points_back=any(one.points_back for one in found),
        topic=" ".join(one.topic for one in found if one.topic),
        values=tuple(dict.fromkeys(value for one in found for value in one.values)),
        is_record=all(one.is_record for one in found),
    )


def _forget(sentence: str, people: People, *, alone: bool) -> Wish | None:
    if not cues.FORGETTING.search(sentence.lower()):
        return None
    if cues.ASKS.search(sentence) and not cues.ASKS_SOMEBODY.match(sentence):
        return None
    # Said before something else it only takes a thought back: "forget that, let's go on".
    if alone and len(sentence) <= cues.SHORT_FORGET and cues.BARE_FORGET.match(sentence):
        return Wish(kind="forget", points_back=True)
    is_denied = cues.DENIED.search(sentence) and not cues.FORGET_I_SAID.search(sentence)
    if is_denied:
        return None
    return _forget_said(sentence, people) or _forget_record(sentence, people)


def _forget_said(sentence: str, people: People) -> Wish | None:
    """Return a wish that what its author said is forgotten."""
    if cues.FORGET_I_SAID.search(sentence) or cues.FORGET_SAID.match(sentence):
        topic = _told(_ABOUT, sentence)
        wish = Wish(kind="forget", points_back=not topic, topic=topic, values=_values(sentence, people))
        return None if cues.ELSEWHERE.search(sentence) else wish
    if cues.FORGET_ABOUT_ME.match(sentence) and not cues.WORKSHOP.search(sentence):
        return Wish(kind="forget", topic=_told(_ABOUT_ME, sentence), values=_values(sentence, people))
    return None


def _forget_record(sentence: str, people: People) -> Wish | None:
    """Return a wish that something noted is forgotten, or a note that it is."""
    is_record = bool(cues.RECORDED.search(sentence))
    from_memory = bool(cues.FORGET_MEMORY.match(sentence))
    is_workshop = bool(cues.WORKSHOP.search(sentence))
    is_asked = (
        from_memory
        or bool(cues.STAYS_FORGOTTEN.search(sentence))
        or (bool(cues.FORGET_RECORD.match(sentence)) and not is_workshop)
    )
    if not is_asked and (not is_record or is_workshop):
        return None
    if cues.NOT_YET.search(sentence) and not is_record:
        return None
    values = _values(sentence, people)
    if values:
        return Wish(kind="forget", values=values, is_record=not is_asked)
    topic = _told(cues.MEMORY_OBJECT, sentence) if from_memory else _told(cues.FORGET_MINE, sentence)
    return Wish(kind="forget", topic=topic) if topic else None


def _values(sentence: str, people: People) -> tuple[str, ...]:
    """Return what a sentence names, without what it keeps and without the people of the room."""
    rest = cues.KEPT.sub(" ", sentence)
    named = [
        one
        for one in names(unquoted(rest))
        if not {token.casefold() for token in TOKEN.findall(one)} & people.called
    ]
    return tuple(dict.fromkeys([*strong_values(rest), *named]))


def _told(pattern: re.Pattern[str], sentence: str) -> str:
    match = pattern.search(sentence)
    return match[1].strip(" .!?") if match else ""


# What stays between those it was said to


def _confiding(sentences: Sequence[str]) -> Wish | None:
    for place, sentence in enumerate(sentences):
        if not cues.CONFIDING.search(sentence.lower()) or cues.ASKS.search(sentence):
            continue
        if not cues.CONFIDE.search(sentence) or cues.NOT_CONFIDED.search(sentence):
            continue
        tells = (
            bool(cues.SELF_AHEAD.match(sentence))
            or len(TOKEN.findall(sentence)) > _FEW_WORDS
            or _tells_more(sentences, sentence)
        )
        points_back = not tells and place == len(sentences) - 1
        return Wish(kind="confide", is_about_itself=tells, points_back=points_back)
    return None


def _tells_more(sentences: Sequence[str], wish: str) -> bool:
    """Return whether a message tells something besides its wish: then that is what the wish is about."""
    return any(
        len(TOKEN.findall(one)) >= _TELLING_WORDS and not cues.ASKS.search(one)
        for one in sentences
        if one != wish
    )


# What is kept from some


def _withholding(sentences: Sequence[str], author_id: ParticipantId, people: People) -> Wish | None:
    for sentence in sentences:
        if not _may_withhold(sentence) or cues.ASKS.search(sentence):
            continue
        rule = _restriction(sentence, author_id, people)
        if rule is not None:
            return rule
        secret = _secret(sentence, author_id, people)
        if secret is not None:
            tells = secret.points_back and _tells_more(sentences, sentence)
            return replace(secret, is_about_itself=tells, points_back=secret.points_back and not tells)
    return _own_scope(sentences, author_id)


def _own_scope(sentences: Sequence[str], author_id: ParticipantId) -> Wish | None:
    """Return what somebody says they are not to know themselves; only what they name."""
    if not any(_may_withhold(sentence) and cues.OWN_SCOPE.search(sentence) for sentence in sentences):
        return None
    shut_out = [part for sentence in sentences for part in _SHUT_OUT.split(sentence, maxsplit=1)[1:]]
    denies: frozenset[Matter] = frozenset(matter for part in shut_out for matter in matters(part))
    if not denies:
        return None
    return Wish(kind="withhold", party_ids=frozenset({author_id}), denies=denies, is_standing=True)


def _restriction(sentence: str, author_id: ParticipantId, people: People) -> Wish | None:
    """Return a restriction that goes on: somebody may know only this, or nothing any more."""
    if cues.PERMITTED.search(sentence) or cues.SYSTEM.search(sentence):
        return None
    for clause in cues.CLAUSE.split(sentence):
        if not _is_restriction(clause):
            continue
        is_revoked = bool(cues.REVOKED.search(clause))
        named = cues.OWNERS.sub(" ", clause)
        found = parties(named, people) - {author_id}
        if found and not cues.FIRST_PERSON.match(clause):
            permits: frozenset[Matter] = frozenset() if is_revoked else _permitted(clause)
            return Wish(
                kind="withhold",
                party_ids=found,
                awaited=strangers(named, people, but=author_id),
                is_standing=True,
                permits=permits,
                is_record=bool(cues.NOTED.search(sentence)),
            )
    return None


def _secret(sentence: str, author_id: ParticipantId, people: People) -> Wish | None:
    """Return a wish that somebody is not told something."""
    for start, end in _kept_from(sentence):
        named = cues.OWNERS.sub(" ", cues.OBJECTS.sub(" ", sentence[start:end]))
        found = parties(named, people) - {author_id}
        if found and not cues.REPORTED.search(sentence):
            about = matters(f"{sentence[:start]} {sentence[end:]}")
            return Wish(
                kind="withhold",
                party_ids=found,
                awaited=strangers(named, people, but=author_id),
                denies=about,
                is_standing=bool(about),
                points_back=not about,
            )
    return None


def _kept_from(sentence: str) -> Iterator[tuple[int, int]]:
    """Yield where a sentence names those who are not to know something."""
    for cue in cues.SECRETS:
        match = cue.search(sentence)
        if match is not None:
            start, end = match.span("who" if match["who"] else "also")
            while more := _MORE.match(sentence, end):
                end = more.end()
            yield start, end
    modal = cues.MUST_NOT_KNOW.search(sentence)
    subject = cues.SUBJECT.search(sentence, 0, modal.start()) if modal else None
    if subject is not None:
        yield subject.span()


def _permitted(clause: str) -> frozenset[Matter]:
    """Return what a restriction lets through: what it speaks of before it says what it shuts out."""
    return matters(_NOT_PERMITTED.split(clause, maxsplit=1)[0])
