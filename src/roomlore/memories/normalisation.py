"""Compares statements by their words: which statements say the same, and which follow from others.

Differences in case, spacing and contractions are ignored. It does not matter whether somebody is quoted or described.
Differences in tense, number and negation matter.
"""

import re
import unicodedata
from collections.abc import Collection, Sequence
from hashlib import sha256

from roomlore.domain.claims import NamedParticipant
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.words import expand_contraction
from roomlore.memories.clauses import Clause
from roomlore.memories.patterns import is_hypothetical_after, is_hypothetical_before
from roomlore.memories.rendering import third_person

#: Words that do not change a statement. Words that negate or limit a statement (not, only, never, before) are not in
#: this list.
FILLER_WORDS = frozenset(
    """
    a an the that of so really very just also quite actually basically definitely absolutely simply pretty
    still now currently
    """.split()
)
#: A word, a number with its parts (3.11, 10:30, -5) or another meaningful sign (emoji, +, #).
_PIECE = lazy_pattern(
    r"[+-]?\d+(?:[.,:/]\d+)*|[\w']+|[^\w\s.,;:!?\"'\u201c\u201d\u201e\u2018\u00ab\u00bb()\[\]*_~`-]",
    re.UNICODE,
)
#: A quotation in the first person with its author, as extractors write it.
_OF_ONESELF = lazy_pattern(r"(?P<name>[\w.'-]+(?: [\w.'-]+)?): *[\"\u201c]?(?P<self>i|my)(?=[\s'])")
#: Words that may come between "I" and its verb.
_BETWEEN = frozenset(
    """
    never always usually often sometimes rarely seldom hardly mostly only already finally recently
    originally
    """.split()
)


def normalised(content: str) -> str:
    """Return the words that make up a statement, in order. Statements that say the same have equal words.

    "Ana really prefers the dark mode." and `Ana: "I prefer dark mode"` are equal.
    """
    plain = unicodedata.normalize("NFKC", content).casefold().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    text = " ".join(plain.split())
    match = _OF_ONESELF.match(text)
    if match is None:
        words = _content_words(text)
    elif match["self"] == "my":
        words = _content_words(f"{match['name']}'s {text[match.end() :]}")
    else:
        words = [*_content_words(match["name"]), *_in_third_person(_content_words(text[match.end() :]))]
    return " ".join([word for word in words if word not in FILLER_WORDS] or words) or text


def digest_of(content: str) -> str:
    """Return a digest of the normalised statement, in hex digits."""
    return sha256(normalised(content).encode()).hexdigest()


def _content_words(text: str) -> list[str]:
    """Return the words of a text without fillers, or all words if it has only fillers."""
    found = [word for piece in _PIECE.findall(text) for word in _expand(piece)]
    return [word for word in found if word not in FILLER_WORDS] or found


def _expand(piece: str) -> list[str]:
    """Return the words of a token, with contractions written out."""
    full, word = expand_contraction(piece), piece.strip("'")
    if full != piece:
        return [one for part in full.split() for one in _expand(part)]
    if word != piece:
        return [one for part in _PIECE.findall(word) for one in _expand(part)]
    return [word]


def _in_third_person(words: Sequence[str]) -> list[str]:
    """Return the words after "I" with the verb in the third person."""
    place = next((place for place, word in enumerate(words) if word not in _BETWEEN), len(words))
    return [*words[:place], *map(third_person, words[place : place + 1]), *words[place + 1 :]]


# Entailment

_WORD = lazy_pattern(r"[+-]?\d+(?:[.,:/-]\d+)*|[^\W\d_]+(?:'[^\W\d_]+)?|[^\w\s.,;:!?'\"()*_-]")
#: Ambiguous contractions, with the likelier full form: "'s" is read as a possessive, "'d" as a condition.
_ENDINGS = (("'s", ""), ("'d", " would"))


#: Words that the rewritten sentence may add or leave out.
_FILLERS = frozenset(
    """
    a an the i me my mine myself we us our ours his her hers their theirs themselves themself himself
    herself am is are be has have do does well so just really very also actually and that please
    """.split()
)
#: Negations and near negations.
NEGATION_WORDS = frozenset(
    """
    not no never none nobody nothing nowhere neither nor without hardly barely
    """.split()
)
#: Verbs that introduce a statement.
_SAYING = frozenset("say note mention state".split())
_AGREEING = frozenset("decide decided agree agreed to".split())
#: Words that limit a statement. A shortened sentence must keep them.
_QUALIFIERS = frozenset(
    """
    only rarely seldom sometimes occasionally except until unless if when while before during almost nearly
    but though although instead anymore yet usually mostly often partly
    """.split()
)
#: Words that are too common to show that two sentences are about the same thing.
_EVERYWHERE = frozenset(
    """
    in on at to for of from with by as or if use make go get will would can could should may might must let
    not
    """.split()
)
_FIRST_PERSON = frozenset("i me my mine myself".split())
_OTHERS = frozenset("his her hers their theirs himself herself themselves".split())
#: Words that refer to something outside the sentence.
_ELSEWHERE = frozenset(
    """
    you your yours u he she him they them it its this these those here there yourself we us our ours
    """.split()
)


def mismatch(
    content: str,
    said: Sequence[Clause],
    *,
    author: NamedParticipant,
    agreeing: Collection[NamedParticipant] = (),
) -> str:
    """Return why a sentence says something other than the clauses of its author; empty if both say the same.

    The sentence may replace "I" with a name and change the verb to match. Any other change is a mismatch: other words,
    another order, tense, number, negation or limit. `agreeing` are the people who agreed to a decision.
    """
    words, told = normalised_words(content), [word for part in said for word in normalised_words(part.text)]
    names = {
        word
        for person in (author, *agreeing)
        for name in (person.name, *person.names)
        for word in normalised_words(name)
    }
    heads = names - set(told)
    if any(
        is_hypothetical_before(part.text) or is_hypothetical_after(part.rest) for part in said
    ) and not is_hypothetical_before(content):
        return "what it quotes is not plainly stated"
    if {word for word in words if word[-1].isdigit()} - set(told):
        return "it has a number that its quotes have not"
    if NEGATION_WORDS.isdisjoint(words) != NEGATION_WORDS.isdisjoint(told):
        return "it says yes where its quotes say no, or no where they say yes"
    reason = _unclear_reference(
        words, told, is_reported=":" in content or bool(_SAYING & {_stem(word) for word in words})
    )
    if reason:
        return reason
    loose = (
        _FILLERS
        | heads
        | (_SAYING if _SAYING.isdisjoint(told) else frozenset[str]())
        | (_AGREEING if agreeing else frozenset[str]())
    )
    mine = [_stem(word) for word in words if _stem(word) not in loose and word not in loose]
    if not mine or set(mine) - {_stem(word) for word in told}:
        return "it says more than its quotes" if mine else "it says nothing that its quotes say"
    return (
        ""
        if any(_is_prefix_of_clauses(part, said[place:], mine) for place, part in enumerate(said))
        else "it says it otherwise"
    )


def normalised_words(text: str) -> list[str]:
    """Return the words of a text in lower case, with contractions written out and without possessives."""
    plain = text.casefold().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    return [one for word in _WORD.findall(plain) for one in _expanded(word).split()]


def is_person_named(person: NamedParticipant, words: Collection[str]) -> bool:
    """Return whether the first word of a person's name is among the words."""
    return any(
        (parts := normalised_words(name)) and parts[0] in words for name in (person.name, *person.names)
    )


def shared_stems(words: Collection[str], others: Collection[str], *, but: Collection[str]) -> frozenset[str]:
    """Return the meaningful stems that two sentences share, without the stems of the words in `but`."""
    told = {_stem(word) for word in others}
    return frozenset(
        _stem(word)
        for word in words
        if _stem(word) in told and word not in but and not {word, _stem(word)} & (_FILLERS | _EVERYWHERE)
    )


def _unclear_reference(words: Sequence[str], told: Sequence[str], *, is_reported: bool) -> str:
    """Return why the subject of a sentence is unclear; empty if it is clear."""
    if not _ELSEWHERE.isdisjoint(words):
        return "it cannot be read alone"
    if not _OTHERS.isdisjoint(told):
        return "what it quotes cannot be read alone"
    if not _ELSEWHERE.isdisjoint(told) and _FIRST_PERSON.isdisjoint(told) and "let" not in told:
        return "what it quotes cannot be read alone"
    # The sentence is about the author only if the author's own words say so.
    is_of_author = not _FIRST_PERSON.isdisjoint(told) or is_reported or "let" in told
    return (
        ""
        if is_of_author or set(words) - _FILLERS <= set(told)
        else "it credits its speaker with something else"
    )


def _is_prefix_of_clauses(first: Clause, said: Sequence[Clause], mine: Sequence[str]) -> bool:
    """Return whether `mine` are the first words of the clauses, in order.

    The remaining words must not limit the statement.
    """
    left = list(mine)
    for part in said:
        words = [word for word in normalised_words(part.text) if word not in _FILLERS]
        for place, word in enumerate(words):
            if not left:
                return part is not first or _QUALIFIERS.isdisjoint(words[place:])
            if _stem(word) != left[0] and not (part is first and place == 0 and word == "let"):
                return False
            if _stem(word) == left[0]:
                left.pop(0)
    return not left


def _expanded(word: str) -> str:
    full = expand_contraction(word)
    for ending, rest in _ENDINGS:
        if full.endswith(ending):
            return full.removesuffix(ending) + rest
    return full


def _stem(word: str) -> str:
    """Return a word without the final s of a third person or a plural."""
    if len(word) <= 3 or not word.endswith("s") or word.endswith("ss"):  # noqa: PLR2004
        return {"goes": "go", "does": "do", "has": "have"}.get(word, word)
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[:-2] if word.endswith(("shes", "ches", "xes", "sses", "zes", "oes")) else word[:-1]
