"""What tells statements apart: their words in order, whatever their case, spacing, accents of stress and short forms."""

import re
import unicodedata
from hashlib import sha256

_SMALL_WORDS = """
    a an the that of so really very just also quite actually basically definitely absolutely simply pretty
    still now currently
"""
#: Words without which a statement says the same. What turns or bounds it (not, only, never, before) is none of them.
FILLERS = frozenset(_SMALL_WORDS.split())
_SHORT_FORMS = {
    "can't": "can not",
    "won't": "will not",
    "shan't": "shall not",
    "cannot": "can not",
    "let's": "let us",
}
_ENDINGS = (("n't", " not"), ("'re", " are"), ("'ll", " will"), ("'ve", " have"), ("'m", " am"))
#: A word, a number with its parts (3.11, 10:30, -5) or something else that says something (emoji, +, #).
_PIECE = re.compile(r"[+-]?\d+(?:[.,:/]\d+)*|[\w']+|[^\w\s.,;:!?\"'()\[\]*_~`-]", re.UNICODE)


def gist(content: str) -> str:
    """Return the words of a statement that make it what it is, in order, with one space between two.

    Statements of one gist say the same: "Ana really prefers the dark mode." and "ana prefers dark mode".
    """
    text = unicodedata.normalize("NFKC", content).casefold().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    words = [word for piece in _PIECE.findall(text) for word in _long_form(piece).split()]
    # Of nothing but fillers, all of it.
    return " ".join([word for word in words if word not in FILLERS] or words) or " ".join(text.split())


def digest_of(content: str) -> str:
    """Return what statements of one gist have in common: hex digits that tell nothing of what they say."""
    return sha256(gist(content).encode()).hexdigest()


def _long_form(word: str) -> str:
    if word in _SHORT_FORMS:
        return _SHORT_FORMS[word]
    for ending, full in _ENDINGS:
        if word.endswith(ending):
            return word.removesuffix(ending) + full
    return word.strip("'")
