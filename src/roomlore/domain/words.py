"""Room names, and words of names."""

from collections.abc import Iterable

from roomlore.domain.patterns import lazy_pattern

#: Parts of names that are shorter than this are too often common words.
MIN_NAME_WORD = 3
#: The word by which users name the newest message of a room.
LAST = "last"
_WORD = lazy_pattern(r"[^\W_]+")


def qualified_room_name(workspace: str, name: str) -> str:
    """Return the room name with its workspace, because several workspaces may have rooms of the same name."""
    return f"{workspace}/{name}" if workspace and name else name


def name_words(names: Iterable[str]) -> set[str]:
    """Return the distinctive words of names."""
    words = {word for name in names for word in _WORD.findall(name.casefold())}
    return {word for word in words if len(word) >= MIN_NAME_WORD}


def name_forms(word: str) -> set[str]:
    """Return the possible names in a word: the word itself, its parts, and each of these without a final s."""
    parts = {word.casefold(), *_WORD.findall(word.casefold())}
    return parts | {part[:-1] for part in parts if part.endswith("s") and len(part) > MIN_NAME_WORD}
