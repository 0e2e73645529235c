"""Short phrases that every surface words alike: counts that agree with their nouns, and for whom a memory is."""

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
