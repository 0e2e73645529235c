"""Writes the text of a memory: the words of a speaker as a quotation."""

from roomlore.domain.rendering import safe_name

LONGEST_TITLE = 60
LONGEST_CONTENT = 400


def quoted_statement(name: str, words: str) -> str:
    """Return the words as a quotation with the name of their author."""
    return f"{safe_name(name)}: \u201c{_shortened(words, LONGEST_CONTENT)}\u201d"


def title_of(words: str) -> str:
    """Return the first few words, with a capital letter."""
    text = _shortened(words, LONGEST_TITLE)
    return text[:1].upper() + text[1:]


def _shortened(words: str, longest: int) -> str:
    text = " ".join(words.split()).strip(" *_")
    return f"{text[:longest].rsplit(' ', 1)[0]} \u2026" if len(text) > longest else text
