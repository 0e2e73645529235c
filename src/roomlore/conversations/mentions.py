"""Finds whom a message addresses: names at any place in its text, in the forms that people of a room give them.

Nothing here knows who is in the room. A message has *callings* (the words that may be names, and how strongly),
a name has *spellings* (the words it may be called by); whoever holds both brings them together.
"""

import re
from collections.abc import Callable

from roomlore.domain.patterns import lazy_pattern, sentence_pattern

#: Shorter names are recognised only where a message calls out to somebody ("al: yes", "@al").
SHORTEST_PLAIN = 3
SHORTEST_ABBREVIATION = 4
LONGEST_NAME = 40
#: Words of a message that are looked at; those of a pasted page beyond are not.
WORDS_READ = 60
CHARACTERS_READ = 2000
#: So many names may be called at the beginning ("ann, bob: look").
MAX_OPENING_NAMES = 4

_AROUND = "@(<>\"',:;!?.)*…"
#: What people hang on a name: "mike_", "mike|away", "mike-2", "mike[m]".
_TRIMMING = sentence_pattern(
    r"(?:\[[^\]]*\]|[|^-](?:away|afk|work|home|laptop|bbl|zzz|m)|[\W_\d])+$", re.IGNORECASE
)
_LEADING = lazy_pattern(r"^[\W_]+")


class MentionWords:
    """The words of a message that may be names."""

    __slots__ = ("loud", "opening", "plain")

    def __init__(self, loud: tuple[str, ...], plain: tuple[str, ...], *, opening: int) -> None:
        #: How many words at the beginning do nothing but call somebody.
        self.opening = opening
        #: Called out to: at the beginning before a colon or comma, or after an at sign.
        self.loud = loud
        #: Anywhere else.
        self.plain = plain


def mention_words(body: str) -> MentionWords:
    """Return the words of a body that may be names, in lower case, each once.

    A word at the beginning that ends in a colon or comma, and every word that begins with an at sign, is loud.
    """
    loud: dict[str, None] = {}
    plain: dict[str, None] = {}
    beginning = True
    opening = 0
    for place, raw in enumerate(body[:CHARACTERS_READ].split(None, WORDS_READ)[:WORDS_READ]):
        if len(raw) > LONGEST_NAME:
            beginning = False
            continue
        word = raw.lower()
        if word.isalnum():
            plain[word] = None
            beginning = False
            continue
        beginning = beginning and place < MAX_OPENING_NAMES
        ends = word[-1] in ":,"
        if (beginning and ends) or word[0] == "@":
            _add_word(loud, word)
            opening += beginning
        else:
            _add_word(plain, word)
        beginning = beginning and word[-1] == ","
    for word in loud:
        plain.pop(word, None)
    return MentionWords(tuple(loud), tuple(plain), opening=opening)


def _add_word(words: dict[str, None], word: str) -> None:
    stripped = word.strip(_AROUND)
    if stripped:
        words[stripped] = None
    # A name may begin or end in what we take for punctuation.
    bare = word.rstrip(":,")
    if bare and bare != stripped:
        words[bare] = None


def aliases(name: str, is_common: Callable[[str], bool]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the lower-case words that call somebody of this name: those good when loud, and those good anywhere.

    A common word of the language, or a very short one, is a name only when it is called out loud; so is an
    abbreviation. Of a display name of several words, the first and the whole without spaces count.
    """
    whole = name.lower().strip()[:LONGEST_NAME]
    parts = whole.split()
    full = {whole, parts[0], "".join(parts)} if parts else set[str]()
    for form in tuple(full):
        bare = _LEADING.sub("", _TRIMMING.sub("", form))
        if len(bare) >= SHORTEST_PLAIN:
            full.add(bare)
    full = {form for form in full if form and " " not in form}
    plain = {form for form in full if len(form) >= SHORTEST_PLAIN and not is_common(form)}
    short = {
        form[:length]
        for form in full
        for length in range(SHORTEST_ABBREVIATION, len(form))
        if not is_common(form[:length])
    }
    return frozenset(full | short), frozenset(plain)
