"""Whether a sentence in the third person says what somebody said, and nothing else: by its words and their order.

It is what was said with "I" as a name and the verb to match, from the beginning of a clause. What would change its
sense is kept or the sentence is refused: other words, another order, a tense, a number, a negation, a bound.
"""

from collections.abc import Collection, Sequence

from roomlore.domain.claims import NamedParticipant
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.words import expand_contraction
from roomlore.memories.clauses import Clause
from roomlore.memories.patterns import is_hypothetical_after, is_hypothetical_before

_WORD = lazy_pattern(r"[+-]?\d+(?:[.,:/-]\d+)*|[^\W\d_]+(?:'[^\W\d_]+)?|[^\w\s.,;:!?'\"()*_-]")
#: Of what these are short for, the likelier: a genitive and a condition.
_ENDINGS = (("'s", ""), ("'d", " would"))


def _word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


#: What a sentence may have or leave out: it says who speaks, or nothing.
_FILLERS = _word_set(
    "a an the i me my mine myself we us our ours his her hers their theirs themselves themself himself "
    "herself am is are be has have do does well so just really very also actually and that please"
)
#: Say no, or nearly.
NEGATION_WORDS = _word_set("not no never none nobody nothing nowhere neither nor without hardly barely")
#: Says that somebody says something.
_SAYING = _word_set("say note mention state")
_AGREEING = _word_set("decide decided agree agreed to")
#: Cut off, these would leave more than was said.
_QUALIFIERS = _word_set(
    "only rarely seldom sometimes occasionally except until unless if when while before during almost "
    "nearly but though although instead anymore yet usually mostly often partly"
)
#: In sentences of whatever.
_EVERYWHERE = _word_set(
    "in on at to for of from with by as or if use make go get will would can could should may might must let not"
)
_FIRST_PERSON = _word_set("i me my mine myself")
_NONE = frozenset[str]()
_OTHERS = _word_set("his her hers their theirs himself herself themselves")
#: Who or what is meant is not told by the words.
_ELSEWHERE = _word_set(
    "you your yours u he she him they them it its this these those here there yourself we us our ours"
)


def mismatch(
    content: str,
    said: Sequence[Clause],
    *,
    author: NamedParticipant,
    agreeing: Collection[NamedParticipant] = (),
) -> str:
    """Return what is wrong with a sentence as a rendering of what its author said; empty where nothing is.

    Args:
        content: The sentence.
        said: The clauses that it rests on, in order.
        author: Who said them.
        agreeing: Those who agreed, where it says that something was decided.
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
    if _has_negation(words) != _has_negation(told):
        return "it says yes where its quotes say no, or no where they say yes"
    reason = _unclear_reference(
        words, told, is_reported=":" in content or bool(_SAYING & {_stem(word) for word in words})
    )
    if reason:
        return reason
    loose = (
        _FILLERS
        | heads
        | (_SAYING if _SAYING.isdisjoint(told) else _NONE)
        | (_AGREEING if agreeing else _NONE)
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
    """Return the words of a text in small letters, short forms in full, without the s of a genitive."""
    plain = text.casefold().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    return [one for word in _WORD.findall(plain) for one in _expanded(word).split()]


def is_person_named(person: NamedParticipant, words: Collection[str]) -> bool:
    """Return whether one of somebody's names begins with one of these words."""
    return any(
        (parts := normalised_words(name)) and parts[0] in words for name in (person.name, *person.names)
    )


def shared_stems(words: Collection[str], others: Collection[str], *, but: Collection[str]) -> frozenset[str]:
    """Return what two sentences have in common that says something, but for these words."""
    told = {_stem(word) for word in others}
    return frozenset(
        _stem(word)
        for word in words
        if _stem(word) in told and word not in but and not {word, _stem(word)} & (_FILLERS | _EVERYWHERE)
    )


def _unclear_reference(words: Sequence[str], told: Sequence[str], *, is_reported: bool) -> str:
    """Return why it is not clear of whom or what a sentence speaks; empty where it is."""
    if not _ELSEWHERE.isdisjoint(words):
        return "it can not be read alone"
    if not _OTHERS.isdisjoint(told):
        return "what it quotes can not be read alone"
    if not _ELSEWHERE.isdisjoint(told) and _FIRST_PERSON.isdisjoint(told) and "let" not in told:
        return "what it quotes can not be read alone"
    # Of whoever speaks it is only where they say so.
    is_of_author = not _FIRST_PERSON.isdisjoint(told) or is_reported or "let" in told
    return (
        ""
        if is_of_author or set(words) - _FILLERS <= set(told)
        else "it credits its speaker with something else"
    )


def _is_prefix_of_clauses(first: Clause, said: Sequence[Clause], mine: Sequence[str]) -> bool:
    """Return whether these words are those of clauses, one after the other, from the beginning of the first on."""
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


def _has_negation(words: Sequence[str]) -> bool:
    return not NEGATION_WORDS.isdisjoint(words)


def _expanded(word: str) -> str:
    full = expand_contraction(word)
    for ending, rest in _ENDINGS:
        if full.endswith(ending):
            return full.removesuffix(ending) + rest
    return full


def _stem(word: str) -> str:
    """Return a word without the s of a third person or a plural; tenses stay apart."""
    if len(word) <= 3 or not word.endswith("s") or word.endswith("ss"):  # noqa: PLR2004
        return {"goes": "go", "does": "do", "has": "have"}.get(word, word)
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[:-2] if word.endswith(("shes", "ches", "xes", "sses", "zes", "oes")) else word[:-1]
