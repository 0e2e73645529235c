"""What things are called, and the words that names are made of."""

from collections.abc import Iterable

from roomlore.domain.patterns import lazy_pattern

#: Shorter parts of names are too often words of other meanings.
MIN_NAME_WORD = 3
#: The newest message of a room.
LAST = "last"
_WORD = lazy_pattern(r"[^\W_]+")


def qualified_room_name(workspace: str, name: str) -> str:
    """Return what a room is called among all: rooms of several workspaces share names."""
    return f"{workspace}/{name}" if workspace and name else name


def name_words(names: Iterable[str]) -> set[str]:
    """Return the words of names, as far as they tell anything."""
    words = {word for name in names for word in _WORD.findall(name.casefold())}
    return {word for word in words if len(word) >= MIN_NAME_WORD}


def name_forms(word: str) -> set[str]:
    """Return how a word may be a name: whole, in its parts, and each without the s of a plural or possessive."""
    parts = {word.casefold(), *_WORD.findall(word.casefold())}
    return parts | {part[:-1] for part in parts if part.endswith("s") and len(part) > MIN_NAME_WORD}


_WHOLE_CONTRACTIONS = {
    "can't": "can not",
    "won't": "will not",
    "shan't": "shall not",
    "cannot": "can not",
    "let's": "let us",
}
_CONTRACTED_ENDINGS = (("n't", " not"), ("'re", " are"), ("'ll", " will"), ("'ve", " have"), ("'m", " am"))


def expand_contraction(word: str) -> str:
    """Return a word in small letters as the words that it is short for; any other as it is.

    What is one of two, "'s" and "'d", stays: who needs it decides.
    """
    if word in _WHOLE_CONTRACTIONS:
        return _WHOLE_CONTRACTIONS[word]
    for ending, full in _CONTRACTED_ENDINGS:
        if word.endswith(ending):
            return word.removesuffix(ending) + full
    return word
