"""What a statement of a language model is beside its words: a value of a slot, the same as a memory, or instead of one.

None of it can make a statement of what is none; it is left out where it does not hold, and the statement stays.
"""

from collections.abc import Sequence
from dataclasses import replace

from roomlore.domain.records import MemoryKind
from roomlore.domain.statements import NamedParticipant, ExistingMemory, Claim
from roomlore.extraction.languagemodelquotes import InvalidItem, PromptLabels, parse_text
from roomlore.extraction.languagemodelwords import NEGATION_WORDS, shared_stems, normalised_words
from roomlore.extraction.slots import attribute_stated

#: What one may be told as where another was.
_INTERCHANGEABLE_KINDS: frozenset[MemoryKind] = frozenset({"fact", "preference"})
_DECISIONS: frozenset[MemoryKind] = frozenset({"technical_decision", "process_decision"})


def apply_links(
    statement: Claim,
    subjects: Sequence[NamedParticipant],
    shown: PromptLabels,
    *,
    slot: object,
    repeats: object,
    replaces: object,
) -> tuple[Claim, str]:
    """Return a statement with what of these claims holds, and why the others do not; empty where all do.

    Args:
        statement: What is stated.
        subjects: Whom it is about.
        shown: What the language model was shown.
        slot: Of what it is said to be the one value, or None.
        repeats: The label of what it is said to repeat, or None.
        replaces: The label of what it is said to take the place of, or None.
    """
    reasons: list[str] = []
    found = statement
    for check, claim in ((_with_attribute, slot), (_with_repeated, repeats), (_with_replaced, replaces)):
        if claim is None or claim == "":
            continue
        try:
            found = check(found, subjects, shown, parse_text(claim))
        except InvalidItem as refused:
            reasons.append(str(refused))
    return found, "; ".join(reasons)


def _with_attribute(statement: Claim, subjects: Sequence[NamedParticipant], _: PromptLabels, claim: str) -> Claim:
    if len(subjects) != 1:
        raise InvalidItem("kept without its slot: it is not about one person")
    slot = attribute_stated(claim, statement.kind, _after_name(statement.content, subjects[0]))
    if slot is None:
        raise InvalidItem("kept without its slot: there is no such one, or its words do not tell it")
    return replace(statement, slot=slot)


def _with_repeated(statement: Claim, subjects: Sequence[NamedParticipant], shown: PromptLabels, claim: str) -> Claim:
    one = _linked_memory(statement, subjects, shown, claim)
    words, held = normalised_words(statement.content), normalised_words(one.content)
    if _numbers_in(words) != _numbers_in(held) or NEGATION_WORDS.isdisjoint(words) != NEGATION_WORDS.isdisjoint(held):
        raise InvalidItem("kept beside what it is said to repeat: that has another number, or says no")
    if one.slot is not None and statement.slot not in {None, one.slot}:
        raise InvalidItem("kept beside what it is said to repeat: that is the value of something else")
    if not shared_stems(words, held, but=_name_words(subjects)):
        raise InvalidItem("kept beside what it is said to repeat: they have no word in common")
    return replace(statement, repeats=one.id)


def _with_replaced(statement: Claim, subjects: Sequence[NamedParticipant], shown: PromptLabels, claim: str) -> Claim:
    if statement.repeats is not None:
        raise InvalidItem("kept beside what it is said to replace: it is said to repeat something as well")
    one = _linked_memory(statement, subjects, shown, claim)
    is_own = {person.id for person in subjects} == {statement.author_id}
    is_decided = statement.kind in _DECISIONS and one.kind in _DECISIONS
    if not is_own and not is_decided:
        raise InvalidItem("kept beside what it is said to replace: whoever says it cannot know")
    if one.slot is not None and statement.slot not in {None, one.slot}:
        raise InvalidItem("kept beside what it is said to replace: that is the value of something else")
    held = normalised_words(one.content)
    if statement.slot is None and not shared_stems(normalised_words(statement.content), held, but=_name_words(subjects)):
        raise InvalidItem("kept beside what it is said to replace: they have no word in common")
    return replace(statement, replaces=one.id)


def _linked_memory(statement: Claim, subjects: Sequence[NamedParticipant], shown: PromptLabels, label: str) -> ExistingMemory:
    """Return the memory that has a label, if it may say the same or the contrary."""
    one = shown.memories.get(label)
    if one is None:
        raise InvalidItem("kept alone: it names a memory that was not shown")
    if {person.id for person in subjects} != ({one.subject_id} - {None}):
        raise InvalidItem("kept alone: it names a memory about somebody else")
    families = (_INTERCHANGEABLE_KINDS, _DECISIONS, frozenset({statement.kind}))
    is_alike = any({statement.kind, one.kind} <= family for family in families)
    if not is_alike and statement.kind != "correction":
        raise InvalidItem("kept alone: it names a memory of another kind")
    return one


def _after_name(content: str, person: NamedParticipant) -> list[str]:
    words, called = normalised_words(content), _name_words([person])
    start = next((place for place, word in enumerate(words) if word not in called), len(words))
    return words[start:] if start else []


def _name_words(people: Sequence[NamedParticipant]) -> frozenset[str]:
    return frozenset(word for one in people for name in (one.name, *one.names) for word in normalised_words(name))


def _numbers_in(words: Sequence[str]) -> list[str]:
    return sorted(word for word in words if word[-1].isdigit())
