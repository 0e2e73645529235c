"""Extracts decisions of a group. A decision is stated outright, or one person proposes it and another agrees.

A proposal is no decision if nobody agrees, or if somebody objects first. Messages of agents neither decide nor agree.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from roomlore.domain.claims import Claim, Quote, SourceText
from roomlore.domain.ids import MessageId, ParticipantId
from roomlore.domain.patterns import MAX_SENTENCE_LENGTH, sentence_pattern
from roomlore.domain.records import MemoryKind
from roomlore.memories.clauses import Clause
from roomlore.memories.lexicon import PROCESSES, TECHNICAL
from roomlore.memories.patterns import CORRECTION_PREFIX, JOKE, is_disfluent, is_unresolved_reference
from roomlore.memories.rendering import cleaned, name_list, needs_context, quoted_statement, title_of
from roomlore.text.mentions import without_address
from roomlore.text.recognisers import ends_in_question_mark, phrase_pattern

#: The maximum number of messages between a proposal and an agreement.
_MAX_DISTANCE = 5
_MOST_CONFIDENT = 0.9
_LONGEST_AGREEMENT = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionProposal:
    """A decision or a proposal."""

    #: What was chosen; None if the words cannot be understood alone.
    choice: str | None
    clause: Clause
    message: SourceText
    confidence: float
    #: Whether another person must agree.
    needs_agreement: bool
    #: Whether the clause only names a choice ("X it is"). Such a clause is a decision only if alternatives were
    #: discussed before.
    names_choice: bool
    #: Whether the proposal is a question. A bare "yes" may then be an answer and not an agreement.
    is_question: bool = False


_JUST = r"(?:(?:just|finally|all|now|also|have|already|unanimously|then|officially) )*"
_DO = (
    r"(?:use|adopt|switch|move|make|require|keep|drop|rename|split|hold|meet|schedule|set|host|standardi[sz]e|migrate"
    r"|replace|stop|start|stick|run|ship|hire|deploy|release|freeze|rotate|write|store|host|merge|allow|ban|limit"
    r"|postpone|cancel|rewrite|separate|add|remove|support)"
)
#: Words before "it is" that name no choice: "wherever it is", "I am sure it is".
_NO_NAME = (
    r"what\w*|how|who|that|this|so|as|where\w*|which|i|im|i'm|he|she|they|we|you|am|is|are|was|of|know|tell|see|think|guess"
    r"|sure|doubt|believe|because|cause|not|but|when|if|like|love|say|said|ye\w*|no|ok|maybe|there|here|now|my|your|told|thinks?|suppose|hope|then|well|well"
)
_GROUP = r"(?:we|the (?:team|committee|board|group|council|club|jury|family))"
#: The confidence of the form "X it is", which must be the first clause of its sentence.
_NAMED = 0.72
#: For each form: confidence, whether another person must agree, and pattern.
_FORMS: Sequence[tuple[float, bool, re.Pattern[str]]] = tuple(
    (confidence, is_proposal, phrase_pattern(pattern))
    for confidence, is_proposal, pattern in (
        (
            0.8,
            False,
            rf"{_GROUP}(?:'ve| has| have)? {_JUST}(?:decided|agreed|voted|resolved|opted) (?:on |that (?!(?:on|in|at|already|before|last|yesterday|was|is)\b)|in favou?r of |for )?(?P<what>\w.+)",
        ),
        (
            0.75,
            False,
            rf"{_GROUP}(?:'ve| has| have)? {_JUST}(?:chose|chosen|picked(?! up\b)|selected|settled on|elected|went with) (?P<what>\w.+)",
        ),
        (0.8, False, r"(?:final |our |the |group |team )?decision(?: is (?:to|that)|:)[ ,]*(?P<what>\w.+)"),
        (
            0.75,
            False,
            r"(?:it's|that's) (?:settled|decided|official|agreed)[\s,;:.-]+(?:then[\s,;:.-]+)?(?P<what>\w.+)",
        ),
        (
            _NAMED,
            False,
            rf"(?P<what>(?:(?!(?:{_NO_NAME})\b)[\w@.+#/'-]+ ){{0,3}}(?!(?:{_NO_NAME})\b)[\w@.+#/'-]+) it is\W*$",
        ),
        (0.65, False, r"let's (?P<what>(?:go|stick) with .+)"),
        (0.7, False, r"(?:we're |we are )?(?P<what>going with (?!the flow).+)"),
        (0.7, False, r"we'll (?P<what>(?:go|stick) with .+)"),
        (0.6, True, rf"let's (?P<what>(?:all )?{_DO} \w.+)"),
        (0.6, True, rf"we should (?:really |all )?(?P<what>{_DO} \w.+)"),
        (0.6, True, r"we should (?P<never>never|always) (?P<what>\w.+)"),
        (
            0.6,
            True,
            r"i (?:(?:propose|suggest)(?: that| we| to)*|(?:move|vote)(?: that| we| to| for)+) (?P<what>(?!let's)\w+ \w.+)",
        ),
        (0.6, True, r"(?:my )?(?:proposal|suggestion|motion)(?: is|:) (?:that |to |we )*(?P<what>\w.+)"),
        (
            0.6,
            True,
            rf"(?:how|what) about (?:if )?(?:we )?(?P<what>(?:{_DO}|using|moving|switching|making|having) .+)",
        ),
    )
)
_PROCESS = sentence_pattern(rf"(?i)\b(?:{PROCESSES})\b")
_TECHNICAL = sentence_pattern(rf"(?i)(?<!\w)(?:{TECHNICAL})(?!\w)")
#: "Go" as a verb, not as the name of the programming language.
_GOING = sentence_pattern(r"(?i)\bgo (?=with|to|for|by|on|back|ahead)")
_CLOSING = sentence_pattern(r"\s*(?:ok(?:ay)?|alright|all right|right|fine|great|cool)\b", re.IGNORECASE)
_AGREES = sentence_pattern(
    r"\W*(?:(?:ok(?:ay)?|yes|yeah|yep|yup|sure|great|oh|hm+|alright|perfect|absolutely|definitely|totally)[\s,.!]+)*"
    r"(?:\+1\b|\+\s?one|agree[ds]?\b|i agree|i'?m (?:in|for it|fine with|good with|ok with)|sounds (?:good|great|fine|perfect|like a plan)"
    r"|works for me|fine (?:by|with) me|good (?:idea|plan|call|with me|for me)|great (?:idea|plan)|ok (?:by|with|for) me|deal\b|lgtm|let'?s do (?:that|it|so)"
    r"|makes sense|seconded|second(?:ed)? that|i second|approved|sold\b|convinced|count me in|all for it|no objections?|me too|same here"
    r"|\U0001f44d|\u2705|\U0001f4af|:\+1:|:thumbsup:)",
    re.IGNORECASE,
)
#: Words that agree only in a reply to the proposal.
_BARE_AGREEMENT = sentence_pattern(
    r"\W*(?:yes|yeah|yep|yup|sure|ok(?:ay)?|perfect|great|absolutely|definitely|of course)\W*(?:please|then|let'?s)?\W*$",
    re.IGNORECASE,
)
_OBJECTS = sentence_pattern(
    rf"\W*(?:(?:but|yes|yeah)[\s,.!]+)*{CORRECTION_PREFIX}"
    r"(?:wait|please no|disagree|not again|don'?t\b|i don'?t think|rather not|i'?d rather"
    r"|not (?:sure|convinced|a fan|really|yet)|are you (?:sure|serious)|why not|hold on|but\b|what about|how about|what would|actually)",
    re.IGNORECASE,
)
#: Words that make an agreement conditional or partial.
_RESERVED = sentence_pattern(
    r"(?i)\b(?:but|except|if|unless|not|instead|rather|though|later|\w+n['\u2019]?t)\b"
)
#: Words that refuse a proposal, or that undo an earlier decision.
_REFUSES = sentence_pattern(
    rf"(?i)\W*(?:but )?(?:{CORRECTION_PREFIX})(?:no+\b(?!\s+(?:objections?|problem|worries|strong|idea))|nope|nah|-1\b|veto|\U0001f44e)"
    r"|.{0,60}\b(?:on second thoughts?|can(?:'?t|not) afford|(?:won'?t|don'?t|doesn'?t) work|i (?:disagree|object)|(?:bad|terrible|awful|horrible) idea"
    r"|(?:forget|scrap|drop) (?:it|that|this)\b|(?:after all|\bno)\W*$|fell through|called (?:it )?off|cancel(?:led|ed)|changed (?:my|our) minds?)"
)


def match_proposal(clause: Clause, said: SourceText) -> DecisionProposal | None:
    """Return the decision or proposal in a clause; None if the clause has neither."""
    asked = clause.rest.rstrip().endswith("?")
    for confidence, is_proposal, pattern in _FORMS:
        match = pattern.match(clause.rest)
        if match and (clause.is_first or confidence != _NAMED):
            what = match["what"]
            if (
                is_unresolved_reference(what)
                or _is_momentary(what)
                or is_disfluent(clause.rest)
                or (asked and not is_proposal)
            ):
                return None
            return DecisionProposal(
                choice=_standalone_choice(match, clause, said.body),
                clause=clause,
                message=said,
                confidence=confidence,
                needs_agreement=is_proposal,
                names_choice=confidence == _NAMED,
                is_question=asked,
            )
    return None


_LEADING = sentence_pattern(
    rf"^(?:(?:to|on|that)\s+)?(?:we(?:['\u2019]ll| will| should| need to| must|['\u2019]re going to| are going to|(?= {_DO}\b))\s+)?",
    re.IGNORECASE,
)
#: Words that only people who are present understand.
_ONLY_THERE = sentence_pattern(r"(?:to )?(?:the|a|an) \w+\W*$|.*-$", re.IGNORECASE)
_SHORTEST = 3
#: "Move on to" and similar words. They are about the next topic, unless a tool or a process follows.
_GOES_TO = sentence_pattern(r"(?i)(?:all )?(?:mov|go)(?:e|ing)? (?:back |over |on )?to\b")
_MOMENTARY = sentence_pattern(
    r"(?i)(?:is|was|are|were|has|had)\b|(?:go with )?(?:to )?(?:be|see|wait|try|start over|do (?:it|this|that|so)|use (?:it|this|that)|keep (?:it|this|that|going)"
    r"|make (?:it|sure|this|that|an?|some|any|really)|move on|run (?:it|this|that)|set (?:it|this|that)|stop (?:it|this|that|here)|add (?:it|this)|the flow"
    r"|(?:all )?(?:start|begin)(?:ning|ing)? (?:(?:with|by|from|off|on|at|over)\b|the (?:meeting|discussion))|start (?:it|this|that)|split up"
    r"|go (?:home|out|back|ahead|there)|(?:have|eat) (?:breakfast|lunch|dinner|coffee)|leave\b|disagree|keep \w+ing|stop for\b|add \w+ to the (?:call|list|thread)"
    r"|(?:tbd|tba|none|pending|open|unclear|nothing)\b|.*\bagain\W*$"
    r"|(?:hav|tak|mak)(?:e|ing) (?:an? )?(?:(?:short|quick|little|small|brief) )*(?:break|look|chat|talk|rest|pause|round|vote)|meet (?:there|here)|stick (?:with|to) (?:it|that|this)|(?:go|stick) with (?:what\w*|how)|go with (?:(?:number|option|plan|choice|variant) \w|one|two|three|four|five|six|seven|\d|it|that|this|your|him|her|you|them))\b"
)


def _is_momentary(what: str) -> bool:
    goes_on = _GOES_TO.match(what) and not (_PROCESS.search(what) or _TECHNICAL.search(what))
    return bool(goes_on or _MOMENTARY.match(what) or _ONLY_THERE.match(what)) or len(what.strip()) < _SHORTEST


def _standalone_choice(match: re.Match[str], clause: Clause, body: str) -> str | None:
    start, end = match.span("what")
    what = _LEADING.sub("", cleaned(body[clause.start + start : clause.start + end]), count=1)
    if "never" in match.groupdict():
        what = f"{match['never'].lower()} {what}"
    return None if needs_context(what) else what


def decided(proposals: Sequence[DecisionProposal], said: Sequence[SourceText]) -> Iterator[Claim]:
    """Yield a claim for each proposal that later messages make a decision.

    A proposal that needs agreement becomes a decision if another person agrees and nobody objects before that.
    """
    places = {message.message_id: place for place, message in enumerate(said)}
    answers: dict[MessageId, list[SourceText]] = {}
    for message in said:
        if message.answers is not None:
            answers.setdefault(message.answers, []).append(message)
    proposing = {one.message.message_id for one in proposals}
    settled: dict[MessageId, str] = {}
    for one in proposals:
        place = places[one.message.message_id]
        if one.names_choice and not _had_alternatives(one, said[max(0, place - _MAX_DISTANCE) : place]):
            continue
        near = _possible_replies(one, said[place + 1 : place + 1 + _MAX_DISTANCE], proposing)
        agreed = _agreements(one, near, answers.get(one.message.message_id, ()))
        if agreed is None or (one.needs_agreement and not agreed):
            continue
        words = (one.choice or "").casefold()
        # Skip a proposal in the same words within an agreement, because it is no second decision.
        if words and words in settled.get(one.message.message_id, ""):
            continue
        settled.update((message.message_id, words) for message in agreed)
        yield _decision_claim(one, agreed)


def _possible_replies(
    one: DecisionProposal, following: Sequence[SourceText], proposing: set[MessageId]
) -> list[SourceText]:
    """Return the messages after a proposal that may answer it without a reply edge.

    These are all messages before the next proposal or question.
    """
    near: list[SourceText] = []
    for message in following:
        if message.answers is None:
            near.append(message)
        # A "yes" after another person's question may answer that question.
        is_other_question = message.author_id != one.message.author_id and ends_in_question_mark(message.body)
        if message.message_id in proposing or is_other_question:
            break
    return near


def _had_alternatives(one: DecisionProposal, before: Sequence[SourceText]) -> bool:
    """Return whether there were alternatives to the choice.

    There were if others named the choice before, or if the clause closes a discussion ("ok, green it is").
    """
    if _CLOSING.match(one.clause.prefix):
        return True
    words = (one.choice or "").casefold()
    return any(
        words in message.body.casefold() for message in before if message.author_id != one.message.author_id
    )


def _agreements(
    one: DecisionProposal, near: Sequence[SourceText], answers: Sequence[SourceText]
) -> list[SourceText] | None:
    """Return the messages that agree to a proposal. Return None if somebody objects first, or if it is undone later."""
    agreed: dict[ParticipantId, SourceText] = {}
    for number, message in enumerate((*answers, *near)):
        if message.author_kind != "human" or message.kind not in {"message", "whisper"}:
            continue
        plain = message.body.replace("\u2019", "'")
        head = plain[:MAX_SENTENCE_LENGTH]
        is_another = message.author_id != one.message.author_id
        if is_another and _agrees(plain, is_answer=number <= len(answers) and not one.is_question):
            agreed.setdefault(message.author_id, message)
        elif _REFUSES.match(head) or (is_another and not agreed and _OBJECTS.match(head)):
            return None
    return list(agreed.values())


def _agrees(body: str, *, is_answer: bool) -> bool:
    first = body.strip().split("\n", 1)[0]
    if JOKE.search(body) or first.rstrip().endswith("?") or len(first) > 4 * _LONGEST_AGREEMENT:
        return False
    match = _AGREES.match(first) or _AGREES.match(first := without_address(first))
    if match:
        return not _RESERVED.search(first[match.end() : _LONGEST_AGREEMENT])
    return is_answer and bool(_BARE_AGREEMENT.match(first))


def decision_kind(words: str) -> MemoryKind:
    """Return the kind of a decision.

    If it has both technical words and words about a process, the words about a process decide.
    """
    is_technical = _TECHNICAL.search(_GOING.sub("", words)) and not _PROCESS.search(words)
    return "technical_decision" if is_technical else "process_decision"


def _decision_claim(one: DecisionProposal, agreed: Sequence[SourceText]) -> Claim:
    sentence = one.clause.sentence
    words = sentence.text
    original = one.message.body[sentence.start : sentence.end]
    names = [one.message.author_name, *(message.author_name for message in agreed)]
    if one.choice is None:
        agreeing = f" (agreed by {name_list(names[1:])})" if agreed else ""
        content = quoted_statement(one.message.author_name, original) + agreeing
    else:
        content = f"Decided by {name_list(names)}: {one.choice}."
    return Claim(
        kind=decision_kind(words),
        title=title_of(one.choice or original),
        content=content,
        quotes=[
            Quote(message_id=one.message.message_id, start=sentence.start, end=sentence.end),
            *(Quote(message_id=message.message_id, start=0, end=len(message.body)) for message in agreed),
        ],
        author_id=one.message.author_id,
        involved_ids=frozenset(message.author_id for message in agreed),
        confidence=min(_MOST_CONFIDENT, one.confidence + 0.1 * len(agreed)),
    )
