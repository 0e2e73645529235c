"""Short phrases that all surfaces share: counts, audiences of memories, hints for unknown names."""

from collections.abc import Iterable
from difflib import get_close_matches

from roomlore.domain.records import Memory


def count_phrase(number: int, what: str, several: str | None = None) -> str:
    """Return a count with its noun. `several` is an irregular plural."""
    return f"{number:,} {pluralise(number, what, several)}"


def pluralise(number: int, what: str, several: str | None = None) -> str:
    """Return the noun in singular or plural."""
    return what if number == 1 else several or f"{what}s"


def memory_audience_phrase(memory: Memory) -> str:
    """Return a phrase that says who may see a memory."""
    match memory.audience:
        case "org":
            return "for everybody in the org"
        case "self" if memory.asserted_by is None:
            return "for operators alone"
        case "self":
            return "only for the person who asserted it"
        case "sources" if memory.sensitivity == "sensitive":
            return "only for those who were present at its sources"
        case "sources":
            return "for everybody who may read all its source messages"


def reject_unknown_keywords(call: str, given: Iterable[str], known: type) -> None:
    """Raise TypeError for a keyword that the typed dictionary `known` lacks.

    The error suggests the closest keyword.
    """
    names = sorted(known.__annotations__)
    for word in given:
        if word not in names:
            raise TypeError(f"{call}() has no keyword {word!r}{unknown_name_hint(word, names)}")


def unknown_name_hint(word: str, known: Iterable[str]) -> str:
    """Return a hint: the closest known name and all known names."""
    names = sorted(known)
    near = get_close_matches(word, names, n=1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    return f"; {meant}it knows {', '.join(names) or 'none'}"
