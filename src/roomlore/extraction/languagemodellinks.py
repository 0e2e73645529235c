"""What a statement of a language model is beside its words: a value of a slot, the same as a memory, or instead of one.

None of it can make a statement of what is none; it is left out where it does not hold, and the statement stays.
"""

from collections.abc import Sequence
from dataclasses import replace

from roomlore.domain.records import MemoryKind
from roomlore.domain.statements import Person, Remembered, Statement
from roomlore.extraction.languagemodelquotes import Refused, Shown, text_of
from roomlore.extraction.languagemodelwords import NEGATIONS, shared_stems, words_of
from roomlore.extraction.slots import slot_told

#: What one may be told as where another was.
_ALIKE: frozenset[MemoryKind] = frozenset({"fact", "preference"})
_DECISIONS: frozenset[MemoryKind] = frozenset({"technical_decision", "process_decision"})


def linked(
    statement: Statement,
    subjects: Sequence[Person],
    shown: Shown,
    *,
    slot: object,
    repeats: object,
    replaces: object,
) -> tuple[Statement, str]:
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
    for check, claim in ((_with_slot, slot), (_repeating, repeats), (_replacing, replaces)):
        if claim is None or claim == "":
            continue
        try:
            found = check(found, subjects, shown, text_of(claim))
        except Refused as refused:
            reasons.append(str(refused))
    return found, "; ".join(reasons)


def _with_slot(statement: Statement, subjects: Sequence[Person], _: Shown, claim: str) -> Statement:
    if len(subjects) != 1:
        raise Refused("kept without its slot: it is not about one person")
    slot = slot_told(claim, statement.kind, _behind_name(statement.content, subjects[0]))
    if slot is None:
        raise Refused("kept without its slot: there is no such one, or its words do not tell it")
    return replace(statement, slot=slot)


def _repeating(statement: Statement, subjects: Sequence[Person], shown: Shown, claim: str) -> Statement:
    one = _remembered(statement, subjects, shown, claim)
    words, held = words_of(statement.content), words_of(one.content)
    if _figures(words) != _figures(held) or NEGATIONS.isdisjoint(words) != NEGATIONS.isdisjoint(held):
        raise Refused("kept beside what it is said to repeat: that has another number, or says no")
    if one.slot is not None and statement.slot not in {None, one.slot}:
        raise Refused("kept beside what it is said to repeat: that is the value of something else")
    if not shared_stems(words, held, but=_called(subjects)):
        raise Refused("kept beside what it is said to repeat: they have no word in common")
    return replace(statement, repeats=one.id)


def _replacing(statement: Statement, subjects: Sequence[Person], shown: Shown, claim: str) -> Statement:
    if statement.repeats is not None:
        raise Refused("kept beside what it is said to replace: it is said to repeat something as well")
    one = _remembered(statement, subjects, shown, claim)
    is_own = {person.id for person in subjects} == {statement.author_id}
    is_decided = statement.kind in _DECISIONS and one.kind in _DECISIONS
    if not is_own and not is_decided:
        raise Refused("kept beside what it is said to replace: whoever says it cannot know")
    if one.slot is not None and statement.slot not in {None, one.slot}:
        raise Refused("kept beside what it is said to replace: that is the value of something else")
    held = words_of(one.content)
    if statement.slot is None and not shared_stems(words_of(statement.content), held, but=_called(subjects)):
        raise Refused("kept beside what it is said to replace: they have no word in common")
    return replace(statement, replaces=one.id)


def _remembered(statement: Statement, subjects: Sequence[Person], shown: Shown, label: str) -> Remembered:
    """Return the memory that has a label, if it may say the same or the contrary."""
    one = shown.remembered.get(label)
    if one is None:
        raise Refused("kept alone: it names a memory that was not shown")
    if {person.id for person in subjects} != ({one.subject_id} - {None}):
        raise Refused("kept alone: it names a memory about somebody else")
    families = (_ALIKE, _DECISIONS, frozenset({statement.kind}))
    is_alike = any({statement.kind, one.kind} <= family for family in families)
    if not is_alike and statement.kind != "correction":
        raise Refused("kept alone: it names a memory of another kind")
    return one


def _behind_name(content: str, person: Person) -> list[str]:
    words, called = words_of(content), _called([person])
    start = next((place for place, word in enumerate(words) if word not in called), len(words))
    return words[start:] if start else []


def _called(people: Sequence[Person]) -> frozenset[str]:
    return frozenset(word for one in people for name in (one.name, *one.names) for word in words_of(name))


def _figures(words: Sequence[str]) -> list[str]:
    return sorted(word for word in words if word[-1].isdigit())
