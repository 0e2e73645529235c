"""Short phrases that every surface words alike: counts that agree with their nouns, and for whom a memory is."""

from collections.abc import Iterable
from difflib import get_close_matches

from roomlore.domain.records import Memory


def count_phrase(number: int, what: str, several: str | None = None) -> str:
    """Return a number of things in words; `several` is their plural, where that is not the word with an s."""
    return f"{number:,} {pluralise(number, what, several)}"


def pluralise(number: int, what: str, several: str | None = None) -> str:
    """Return what a number of things is called: "message" for one, "messages" otherwise."""
    return what if number == 1 else several or f"{what}s"


def memory_audience_phrase(memory: Memory) -> str:
    """Return who will see a memory, in words."""
    match memory.audience:
        case "org":
            return "for everybody in the org"
        case "self" if memory.asserted_by is None:
            return "for operators alone"
        case "self":
            return "for whoever asserted it alone"
        case "sources" if memory.sensitivity == "sensitive":
            return "for those who were there when what it rests on was said"
        case "sources":
            return "for those who may read every message that it rests on"


def reject_unknown_keywords(call: str, given: Iterable[str], known: type) -> None:
    """Do nothing if a call knows each keyword that it was given.

    Args:
        call: What the error calls it, like "memories.all".
        given: The keywords.
        known: The typed dictionary of all that it knows.

    Raises:
        TypeError: it does not know one; names it, what it may have meant, and all that there are.
    """
    names = sorted(known.__annotations__)
    for word in given:
        if word not in names:
            raise TypeError(f"{call}() has no keyword {word!r}{unknown_name_hint(word, names)}")


def unknown_name_hint(word: str, known: Iterable[str]) -> str:
    """Return, in words, what an unknown name may have meant and which names are known."""
    names = sorted(known)
    near = get_close_matches(word, names, n=1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    return f"; {meant}it knows {', '.join(names) or 'none'}"
