"""What a call may say by name: a keyword that is not known is refused, since leaving it out might mean something else."""

from collections.abc import Iterable
from difflib import get_close_matches


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
