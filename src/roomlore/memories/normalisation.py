"""Normalises statements, so that statements with the same words have the same digest."""

import unicodedata
from hashlib import sha256

from roomlore.domain.patterns import lazy_pattern

#: A word, a number with its parts (3.11, 10:30, -5) or another meaningful sign (emoji, +, #).
_PIECE = lazy_pattern(
    r"[+-]?\d+(?:[.,:/]\d+)*|\w+(?:'\w+)*|[^\w\s.,;:!?\"'\u201c\u201d\u201e\u2018\u00ab\u00bb()\[\]*_~`-]"
)


def normalised(content: str) -> str:
    """Return the words of a statement, in order, without case, punctuation and marks of emphasis."""
    text = unicodedata.normalize("NFKC", content).casefold().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    return " ".join(_PIECE.findall(text)) or " ".join(text.split())


def digest_of(content: str) -> str:
    """Return a digest of the normalised statement, in hex digits."""
    return sha256(normalised(content).encode()).hexdigest()
