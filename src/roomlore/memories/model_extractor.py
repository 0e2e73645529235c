"""Extracts claims from a conversation with the message model.

A claim consists of a speaker's own words: a message that is worth remembering, or the sentences of a long message that
are worth remembering. The model predicts the acts of the words (such as a decision or a promise), and the act
determines the kind of the claim. An answer is quoted with its question. A correction is quoted with the message that it
corrects.
"""

import asyncio
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise

from roomlore.domain.claims import Claim, NamedParticipant, Quote, SourceText
from roomlore.domain.ids import ParticipantId
from roomlore.domain.memory_text import quoted_statement, title_of
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.records import MemoryKind
from roomlore.memories.kinds import AGENT_TAG, CONTESTED_TAG, DEFAULT_IMPORTANCE
from roomlore.models.message_model import (
    CONTEXT,
    RELATIONS,
    MessageInContext,
    MessageModel,
    MessageReading,
    StatementPair,
    bundled_model,
)
from roomlore.text.mentions import mention_words
from roomlore.text.sentences import MASK, own_sentences_of

#: The kind of the claim for each act that can make words a claim.
KIND_OF_ACT: Mapping[str, MemoryKind] = {
    "decision": "decision",
    "promise": "promise",
    "preference": "preference",
    "person_fact": "fact",
    "announcement": "announcement",
    "how_to": "lesson",
    "correction": "correction",
    "resource": "resource",
    "answer": "answer",
}
#: Acts of a person. If an answer has one of these acts, the act determines the kind of the claim.
_PERSONAL_ACTS = frozenset({"decision", "promise", "preference", "person_fact"})
#: A statement with one of these acts may answer a question.
_ANSWERING_ACTS = frozenset({"answer", "how_to", "resource"})
#: A statement whose most likely act is one of these is no claim.
_IDLE_ACTS = frozenset({"question", "thanks", "chatter", "request_private"})
#: A claim of one of these kinds is about its speaker if it names nobody.
_PERSONAL_KINDS = frozenset({"promise", "preference", "fact"})

#: The lowest worth (`MessageReading.keep`, 0 to 3) of words that become a claim. The second value is for decisions,
#: preferences and facts about a person.
LEAST_KEEP, _LEAST_KEEP_PERSONAL = 1.3, 1.0
_LASTING_ACTS = frozenset({"decision", "preference", "person_fact"})
#: The lowest worth of a question and its answer together. The second value is for a question that is addressed to the
#: person who answers, because such a question matters to fewer people.
_LEAST_ANSWERED, _LEAST_ANSWERED_BY_ONE = 2.0, 2.4
#: The lowest worth of a question. A question that is worth less only asks back, or cannot be understood alone.
_LEAST_QUESTION = 0.4
#: The lowest probability of the act that makes words a claim, and the lowest probability if this act is a correction.
_LEAST_ACT, _LEAST_CORRECTING = 0.5, 0.75
#: At most this share of a conversation's messages become claims. `_ALWAYS` claims are allowed in any conversation.
_SHARE, _ALWAYS = 0.5, 3
#: Longer messages are read sentence by sentence.
_LONGEST_WHOLE = 300
_LONGEST_BODY = 20_000
#: The maximum number of sentences of one message that are read.
_MOST_SENTENCES = 40
#: The longest part of a long message that is quoted.
_LONGEST_QUOTE = 400
#: The search for the question of an answer, or for the statement that is corrected: how many messages it goes back, and
#: how many statements it compares.
_REACH, _COMPARED = 12, 4
#: The lowest probability that a text answers a question, and the lowest probability that a text corrects another text.
_LEAST_ANSWER, _LEAST_CORRECTION = 0.7, 0.5
#: The factor of confidence for what people state about others.
_OTHER_CONFIDENCE = 0.6
#: The lowest worth of a statement that a correction may be about.
_LEAST_CORRECTED = 0.7
_REPLACES, _CONTRADICTS = RELATIONS.index("replaces"), RELATIONS.index("contradicts")
#: If a person corrects their own words within this time, the earlier words were a slip; later, it is a change of mind.
_SOON = timedelta(hours=1)
_SHORTEST_NAME = 3
#: Messages that are older than this are no context, unless the message answers them.
_CONTEXT_AGE = timedelta(hours=2)
_LETTER = lazy_pattern(r"\w")
_LINK = lazy_pattern(r"https?://\S+", re.IGNORECASE)
#: A link with fewer letters beside it is bare: it is quoted with another message that describes it.
_LEAST_DESCRIPTION = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """Words of a message, with the model's reading of these words."""

    #: The index of the message in the conversation.
    place: int
    start: int
    end: int
    reading: MessageReading


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A statement that may become a claim, with the message that it answers, corrects or illustrates."""

    statement: Statement
    kind: MemoryKind
    confidence: float
    before: int | None = None
    #: Whether a later message corrects the statement.
    is_contested: bool = False


class ModelExtractor:
    """The `Extractor` with the message model."""

    name = "message model"

    def __init__(self, model: MessageModel | None = None) -> None:
        """Use `model`, or the bundled model if it is None."""
        self._model = model

    async def extract(self, said: Sequence[SourceText], people: Sequence[NamedParticipant]) -> list[Claim]:
        """Return the claims of a conversation, in the order of their messages."""
        return await asyncio.to_thread(lambda: extract(said, people, self._model or bundled_model()))


def extract(
    said: Sequence[SourceText], people: Sequence[NamedParticipant], model: MessageModel
) -> list[Claim]:
    """Return the claims of a conversation, in the order of their messages."""
    statements = read(said, model)
    private = _private_places(said, statements)
    conversation = _Conversation(
        said=said,
        statements=[one for one in statements if one.place not in private],
        named=NamedPeople(people),
        model=model,
    )
    return [conversation.claim(one) for one in conversation.chosen()]


# Reading


def read(said: Sequence[SourceText], model: MessageModel) -> list[Statement]:
    """Return the statements of a conversation: one for each short message, and one for each sentence of a long one."""
    passages = [
        (place, spans)
        for place, message in enumerate(said)
        if _is_readable(message) and (spans := _spans(message.body))
    ]
    wanted = [(place, number, spans) for place, spans in passages for number in range(len(spans))]
    readings = model.read([_in_context(said, *each) for each in wanted])
    return [
        Statement(place=place, start=spans[number][0], end=spans[number][1], reading=reading)
        for (place, number, spans), reading in zip(wanted, readings, strict=True)
    ]


def _is_readable(message: SourceText) -> bool:
    return (
        message.kind in {"message", "whisper"}
        and message.author_kind != "system"
        and len(message.body) <= _LONGEST_BODY
    )


def _spans(body: str) -> list[tuple[int, int]]:
    """Return the parts of a body that are read: all of it if it is short, otherwise its sentences."""
    sentences = [one for one in own_sentences_of(body) if _is_own(one.text)][:_MOST_SENTENCES]
    if not sentences:
        return []
    start, end = sentences[0].start, sentences[-1].end
    spans = [(one.start, one.end) for one in sentences]
    gaps = (body[one.end : two.start] for one, two in pairwise(sentences))
    is_whole = end - start <= _LONGEST_WHOLE and not any(_LETTER.search(gap) for gap in gaps)
    return [(start, end)] if is_whole else spans


def _is_own(text: str) -> bool:
    """Return whether most letters of a sentence are its author's own."""
    letters = text.replace(" ", "")
    return letters.count(MASK) * 2 <= len(letters)


def _in_context(
    said: Sequence[SourceText], place: int, number: int, spans: Sequence[tuple[int, int]]
) -> MessageInContext:
    message = said[place]
    before = [
        (one.body.strip(), one.author_id == message.author_id)
        for one in reversed(said[max(0, place - CONTEXT) : place])
        if message.sent_at - one.sent_at <= _CONTEXT_AGE or one.message_id == message.answers
    ]
    if number:
        start, end = spans[number - 1]
        before = [(message.body[start:end], True), *before]
    start, end = spans[number]
    return MessageInContext(
        text=message.body[start:end], is_bot=message.author_kind == "agent", before=tuple(before[:CONTEXT])
    )


def _private_places(said: Sequence[SourceText], statements: Sequence[Statement]) -> set[int]:
    """Return the places of messages to extract nothing from: privacy requests, and the messages they are about."""
    found: set[int] = set()
    for one in statements:
        if one.reading.request is None:
            continue
        found.add(one.place)
        if max(one.reading.scopes, key=one.reading.scopes.__getitem__) == "previous":
            found.update(_previous(said, one.place))
    return found


def _previous(said: Sequence[SourceText], place: int) -> Iterator[int]:
    """Yield the place of the message that a request refers to.

    This is the message that the request answers, otherwise the author's last message.
    """
    message = said[place]
    answered = [number for number in range(place) if said[number].message_id == message.answers]
    own = [
        number
        for number in range(max(0, place - _REACH), place)
        if said[number].author_id == message.author_id
    ]
    yield from answered or own[-1:]


# Candidates


def _best(statements: Sequence[Statement]) -> list[Statement]:
    """Return the best statement of each message, extended by good sentences directly before and after it."""
    by_place: dict[int, list[Statement]] = {}
    for one in statements:
        by_place.setdefault(one.place, []).append(one)
    return [_widest(each) for each in by_place.values()]


def _widest(sentences: Sequence[Statement]) -> Statement:
    best = max(range(len(sentences)), key=lambda number: _worth(sentences[number]))
    first = last = best
    while first and _may_widen(sentences[first - 1], sentences[last].end - sentences[first - 1].start):
        first -= 1
    while last + 1 < len(sentences) and _may_widen(
        sentences[last + 1], sentences[last + 1].end - sentences[first].start
    ):
        last += 1
    return replace(sentences[best], start=sentences[first].start, end=sentences[last].end)


def _may_widen(one: Statement, length: int) -> bool:
    return length <= _LONGEST_QUOTE and _candidate(one) is not None


def _worth(one: Statement) -> tuple[bool, float]:
    return _candidate(one) is not None, one.reading.keep


def _act(reading: MessageReading) -> str | None:
    """Return the act that makes words a claim; None if the words are no claim."""
    acts = [
        act
        for act in reading.does
        if act in KIND_OF_ACT
        and reading.acts[act] >= (_LEAST_CORRECTING if act == "correction" else _LEAST_ACT)
    ]
    is_idle = not _IDLE_ACTS.isdisjoint(reading.does[:1])
    if not acts or is_idle or reading.request is not None:
        return None
    personal = [act for act in acts if act in _PERSONAL_ACTS]
    return (personal or acts)[0]


def _candidate(one: Statement) -> _Candidate | None:
    act = _act(one.reading)
    if act is None or one.reading.keep < (_LEAST_KEEP_PERSONAL if act in _LASTING_ACTS else LEAST_KEEP):
        return None
    return _Candidate(statement=one, kind=KIND_OF_ACT[act], confidence=one.reading.acts[act])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Conversation:
    """A conversation with the statements that the model reads in it."""

    said: Sequence[SourceText]
    #: The statements, without privacy requests and the messages that these requests are about.
    statements: Sequence[Statement]
    named: "NamedPeople"
    model: MessageModel

    def chosen(self) -> list[_Candidate]:
        """Return the statements that become claims, in order."""
        found = [found for one in _best(self.statements) if (found := _candidate(one))]
        found = self._with_descriptions(self._with_corrected(self._with_questions(found)))
        found = self._without_hearsay(found)
        most = max(_ALWAYS, round(len(self.said) * _SHARE))
        best = sorted(found, key=lambda one: -one.statement.reading.keep)[:most]
        return sorted(best, key=lambda one: one.statement.place)

    def _with_questions(self, candidates: Sequence[_Candidate]) -> list[_Candidate]:
        """Return the candidates, each answer with its question. An answer without a question is left out."""
        asked = [
            one
            for one in self.statements
            if "question" in one.reading.does and one.reading.keep >= _LEAST_QUESTION
        ]
        pairs = [
            (number, question)
            for number, one in enumerate(candidates)
            if not _ANSWERING_ACTS.isdisjoint(one.statement.reading.does)
            for question in self._earlier(one.statement, asked, by=self._asked_by(one.statement))
        ]
        texts = [
            (self._words(question), self._words(candidates[number].statement)) for number, question in pairs
        ]
        nearest: dict[int, Statement] = {}
        for (number, question), share in zip(pairs, self.model.answers(texts) if texts else (), strict=True):
            if share >= _LEAST_ANSWER:
                nearest.setdefault(number, question)
        found = [self._as_answer(one, nearest.get(number)) for number, one in enumerate(candidates)]
        return self._one_per_question([one for one in found if one])

    def _as_answer(self, one: _Candidate, question: Statement | None) -> _Candidate | None:
        """Return a candidate with its question; None if the candidate must be left out.

        A candidate is left out if it is nothing but an answer, and has no question or is worth too little with it.
        """
        if question is not None and one.kind in {KIND_OF_ACT[act] for act in _PERSONAL_ACTS}:
            return replace(one, before=question.place)
        if question is None or not self._is_worthwhile(one.statement, question):
            return None if one.kind == "answer" else one
        return replace(one, kind="answer", before=question.place)

    def _is_worthwhile(self, answer: Statement, question: Statement) -> bool:
        asked = self.named.addressed(self.said[question.place])
        is_for_one = self.said[answer.place].author_id in asked
        worth = answer.reading.keep + question.reading.keep
        return worth >= (_LEAST_ANSWERED_BY_ONE if is_for_one else _LEAST_ANSWERED)

    def _asked_by(self, answer: Statement) -> frozenset[ParticipantId]:
        """Return the people whose questions a message may answer.

        These are the people whom the message addresses; if it addresses nobody, all other people.
        """
        message = self.said[answer.place]
        others = {one.author_id for one in self.said} - {message.author_id}
        return self.named.addressed(message) or frozenset(others)

    def _one_per_question(self, candidates: Sequence[_Candidate]) -> list[_Candidate]:
        """Return the candidates. Of several answers by one person to the same question, only the best is kept."""
        best: dict[object, _Candidate] = {}
        for one in candidates:
            place = one.statement.place
            key = place if one.kind != "answer" else (one.before, self.said[place].author_id)
            before = best.get(key)
            if before is None or one.statement.reading.keep > before.statement.reading.keep:
                best[key] = one
        return list(best.values())

    def _with_corrected(self, candidates: Sequence[_Candidate]) -> list[_Candidate]:
        """Return the candidates, each correction with the message that it corrects.

        If the author of a candidate soon corrects it, the candidate is left out. Any other corrected candidate is
        contested.
        """
        corrections = {
            one.statement.place: place
            for one in candidates
            if one.kind == "correction" and (place := self._corrected_by(one.statement)) is not None
        }
        corrected = {before: place for place, before in corrections.items()}
        return [
            replace(
                one,
                before=corrections.get(one.statement.place, one.before),
                is_contested=one.statement.place in corrected,
            )
            for one in candidates
            if not self._is_slip(one.statement.place, corrected.get(one.statement.place))
        ]

    def _is_slip(self, place: int, corrected_by: int | None) -> bool:
        """Return whether a message is corrected by its own author within `_SOON`."""
        if corrected_by is None:
            return False
        message, correction = self.said[place], self.said[corrected_by]
        is_soon = correction.sent_at - message.sent_at <= _SOON
        return is_soon and correction.author_id == message.author_id

    def _corrected_by(self, correction: Statement) -> int | None:
        """Return the place of the message that a correction is about; None if there is none.

        This is the message that the correction answers, or else the nearest message that it changes.
        """
        said = [one for one in self.statements if one.reading.keep >= _LEAST_CORRECTED]
        earlier = self._earlier(correction, said)
        if earlier and self.said[earlier[0].place].message_id == self.said[correction.place].answers:
            return earlier[0].place
        pairs = [
            StatementPair(
                earlier=self._words(one),
                later=self._words(correction),
                same_author=self.said[one.place].author_id == self.said[correction.place].author_id,
            )
            for one in earlier
        ]
        if not pairs:
            return None
        shares = self.model.relations(pairs)[:, [_REPLACES, _CONTRADICTS]].sum(axis=1)
        changed = (
            one.place for one, share in zip(earlier, shares, strict=True) if share >= _LEAST_CORRECTION
        )
        return next(changed, None)

    def _with_descriptions(self, candidates: Sequence[_Candidate]) -> list[_Candidate]:
        """Return the candidates, each bare link with a message that describes it.

        A bare link without a description is left out.
        """
        found = [
            replace(one, before=self._description_of(one.statement)) if self._is_bare_link(one) else one
            for one in candidates
        ]
        return [one for one in found if one.before is not None or not self._is_bare_link(one)]

    def _is_bare_link(self, one: _Candidate) -> bool:
        return one.kind == "resource" and _is_bare(self._words(one.statement))

    def _description_of(self, link: Statement) -> int | None:
        """Return the place of the message that describes a link; None if there is none.

        This is a message that the link's message answers, or a message of the same author directly before or after it.
        """
        places = dict.fromkeys(one.place for one in self.statements if one.place != link.place)
        return next((place for place in places if self._describes(place, link.place)), None)

    def _describes(self, place: int, link_place: int) -> bool:
        other, link = self.said[place], self.said[link_place]
        is_next = abs(place - link_place) == 1 and abs(other.sent_at - link.sent_at) <= _CONTEXT_AGE
        belongs = other.message_id == link.answers or (is_next and other.author_id == link.author_id)
        return belongs and not _is_bare(other.body)

    def _without_hearsay(self, candidates: Sequence[_Candidate]) -> list[_Candidate]:
        """Return the candidates without hearsay.

        Two kinds of statements are hearsay: a statement about a person who then corrects it, and an agent's statement
        about somebody else, because agents may repeat what they were told.
        """
        corrections = {
            (
                self.said[one.place].author_id,
                self.said[one.place].answers or self.said[one.place - 1].message_id,
            )
            for one in self.statements
            if one.place and "correction" in one.reading.does
        }
        return [
            one
            for one in candidates
            if not any(
                (person, self.said[one.statement.place].message_id) in corrections
                for person in self._subjects(one)
            )
            and not self._is_of_others(one)
        ]

    def _earlier(
        self,
        one: Statement,
        statements: Sequence[Statement],
        *,
        by: Collection[ParticipantId] | None = None,
    ) -> list[Statement]:
        """Return the earlier statements that a statement may answer or correct, nearest first.

        If `by` is given, only statements of these people are returned.
        """
        message = self.said[one.place]
        before = [
            other
            for other in reversed(statements)
            if one.place - _REACH <= other.place < one.place
            and (by is None or self.said[other.place].author_id in by)
        ]
        answered = [other for other in before if self.said[other.place].message_id == message.answers]
        return answered or before[:_COMPARED]

    # Claims

    def claim(self, one: _Candidate) -> Claim:
        """Return the claim that a candidate becomes."""
        message = self.said[one.statement.place]
        before = None if one.before is None else self.said[one.before]
        words = self._words(one.statement)
        subjects = self._subjects(one)
        worth = DEFAULT_IMPORTANCE[one.kind] + one.statement.reading.keep - 2
        own = Quote(message_id=message.message_id, start=one.statement.start, end=one.statement.end)
        is_of_others = one.kind in _PERSONAL_KINDS and message.author_id not in subjects
        return Claim(
            kind=one.kind,
            title=title_of(before.body if before and one.kind == "answer" else words),
            content=" ".join(
                quoted_statement(name, text)
                for name, text in [
                    *([(before.author_name, before.body)] if before else []),
                    (message.author_name, words),
                ]
            ),
            quotes=[own, *([_whole(before)] if before else [])],
            author_id=message.author_id,
            subject_ids=subjects,
            involved_ids=frozenset({before.author_id} if before else ()) - {message.author_id},
            confidence=round(one.confidence * (_OTHER_CONFIDENCE if is_of_others else 1), 3),
            importance=round(min(5.0, max(1.0, worth)), 2),
            tags=frozenset(
                {
                    *([AGENT_TAG] if message.author_kind == "agent" else []),
                    *([CONTESTED_TAG] if one.is_contested else []),
                }
            ),
        )

    def _is_of_others(self, one: _Candidate) -> bool:
        """Return whether a candidate is a statement of an agent about somebody else."""
        message = self.said[one.statement.place]
        return message.author_kind == "agent" and not self._subjects(one) <= {message.author_id}

    def _subjects(self, one: _Candidate) -> frozenset[ParticipantId]:
        """Return the people whom a candidate is about: usually the people whom it names.

        A promise is always about its author. A preference or a fact is about its author if it names nobody.
        """
        message = self.said[one.statement.place]
        subjects = self.named.in_statement(message, one.statement.start, one.statement.end)
        is_own = one.kind == "promise" or (one.kind in _PERSONAL_KINDS and not subjects)
        return frozenset({message.author_id}) if is_own else subjects

    def _words(self, one: Statement) -> str:
        return self.said[one.place].body[one.start : one.end]


def _is_bare(words: str) -> bool:
    """Return whether words are hardly more than links."""
    return len(_LETTER.findall(_LINK.sub("", words))) < _LEAST_DESCRIPTION


def _whole(message: SourceText) -> Quote:
    return Quote(message_id=message.message_id, start=0, end=len(message.body))


# People


class NamedPeople:
    """Finds the people of a room whom a message names."""

    def __init__(self, people: Sequence[NamedParticipant]) -> None:
        """Index the names that belong to one person only."""
        called: dict[str, set[ParticipantId]] = {}
        for person in people:
            for name in _names_of(person):
                called.setdefault(name, set()).add(person.id)
        self._people = {name: next(iter(ids)) for name, ids in called.items() if len(ids) == 1}
        self._folded = {name.casefold(): person for name, person in self._people.items()}
        either = "|".join(re.escape(name) for name in sorted(self._people, key=len, reverse=True)) or "(?!)"
        self._pattern = lazy_pattern(rf"(?<!\w)(?P<at>@?)(?P<name>{either})(?!\w)", most=None)

    def in_statement(self, message: SourceText, start: int, end: int) -> frozenset[ParticipantId]:
        """Return the people whom a part of a message names, without the author and the people whom it addresses.

        A name in lower case counts only after an at sign, because it may be a common word.
        """
        opening = message.body.split()[: mention_words(message.body).opening] if start == 0 else []
        addressed = {word.strip("@,:").casefold() for word in opening}
        found = {
            self._people[match["name"]]
            for match in self._pattern.finditer(message.body, start, end)
            if (match["at"] or not match["name"][0].islower()) and match["name"].casefold() not in addressed
        }
        return frozenset(found - {message.author_id})

    def addressed(self, message: SourceText) -> frozenset[ParticipantId]:
        """Return the people other than the author whom a message addresses at its beginning or after an at sign."""
        loud = mention_words(message.body).loud
        found = {self._folded[word] for word in loud if word in self._folded}
        return frozenset(found - {message.author_id})


def _names_of(person: NamedParticipant) -> Iterable[str]:
    names = {person.name, *person.names, *person.name.split()[:1]}
    return (name for name in names if len(name) >= _SHORTEST_NAME)
