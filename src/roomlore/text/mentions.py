"""Finds the words of a message that may address somebody, and the words by which a person may be addressed.

A message has *mention words*: words that may be names. The position of a word makes this more or less certain. A name
has *aliases*: the words by which somebody with this name may be addressed. The caller, who knows the people in the
room, compares the two.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from roomlore.domain.ids import ParticipantId
from roomlore.domain.patterns import lazy_pattern, sentence_pattern
from roomlore.text.recognisers import contains_question
from roomlore.text.sentences import without_quoted_lines

#: Characters. A shorter name is recognised only if a message clearly addresses somebody ("al: yes", "@al").
SHORTEST_PLAIN = 3
SHORTEST_ABBREVIATION = 4
LONGEST_NAME = 40
#: The maximum number of words and characters of a message that are read.
WORDS_READ = 60
CHARACTERS_READ = 2000
#: The maximum number of names that may be addressed at the beginning of a message ("ann, bob: look").
MAX_OPENING_NAMES = 4

_AROUND = "@(<>\"',:;!?.)*…"
#: Suffixes that people append to their name: "mike_", "mike|away", "mike-2", "mike[m]".
_TRIMMING = sentence_pattern(
    r"(?:\[[^\]]*\]|[|^-](?:away|afk|work|home|laptop|bbl|zzz|m)|[\W_\d])+$", re.IGNORECASE
)
_LEADING = lazy_pattern(r"^[\W_]+")


class MentionWords:
    """The words of a message that may be names, by how clearly they address somebody."""

    __slots__ = ("loud", "opening", "plain")

    def __init__(self, loud: tuple[str, ...], plain: tuple[str, ...], *, opening: int) -> None:
        #: The number of words at the beginning that only address somebody.
        self.opening = opening
        #: Words that clearly address somebody: at the beginning before a colon or comma, or after an at sign.
        self.loud = loud
        #: Words at any other place.
        self.plain = plain


def mention_words(body: str) -> MentionWords:
    """Return the words of a body that may be names, in lower case, each word once."""
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
    # The name itself may begin or end in punctuation.
    bare = word.rstrip(":,")
    if bare and bare != stripped:
        words[bare] = None


def aliases(name: str, is_common: Callable[[str], bool]) -> tuple[frozenset[str], frozenset[str]]:
    """Return two groups of lower-case aliases of a name: for loud places only, and for any place.

    A place is loud if it clearly addresses somebody (`MentionWords.loud`). Common words, very short words and
    abbreviations are recognised only in loud places. If a display name has several words, its aliases are its first
    word, and the whole name without spaces.
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


_GREETINGS = (
    "hi|hey|hello|yo|ok|okay|thanks|thank you|thx|ty|dear|please|so|well|good morning|morning|welcome"
)
_PAUSE = r"[.!?,;:()\n\u2013\u2014-]"


def addressed_by_name(body: str, names: Mapping[str, Iterable[ParticipantId]]) -> frozenset[ParticipantId]:
    """Return the participants whom a message addresses by name. `names` lists the participants with each name."""
    text = without_quoted_lines(body[:CHARACTERS_READ]).casefold()
    loud = set(mention_words(text).loud)
    asks = contains_question(text)
    found: set[ParticipantId] = set()
    for name, people in names.items():
        shouted, plain = aliases(name, lambda _: False)
        forms = plain | {" ".join(name.casefold().split())}
        if loud & shouted or any(_is_called(form, text, asks=asks) for form in forms if form):
            found.update(people)
    return frozenset(found)


def _is_called(form: str, text: str, *, asks: bool) -> bool:
    by_itself, at_head = _address_patterns(form)
    return bool(by_itself.search(text) or (asks and at_head.match(text)))


@lru_cache(maxsize=1_000)
def _address_patterns(form: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return two patterns: the name between pauses, and the name at the beginning of a text."""
    name = re.escape(form)
    return (
        lazy_pattern(rf"(?:^|{_PAUSE}|\b(?:{_GREETINGS})\b)\s*{name}\s*(?:$|{_PAUSE})"),
        lazy_pattern(rf"\W*{name}(?!['\u2019\w])"),
    )


#: An address at the beginning of a sentence: "@ana ", "<@9>, ", "ana, ".
ADDRESS = r"(?:@[\w.|\[\]-]{1,40}|<@!?\w{1,30}>)[\s,:]*|[\w|\[\]`^{}.-]{2,30},\s+(?=\S)"
_CALLED = sentence_pattern(r"(?P<name>[\w|\[\]`^{}.-]{2,40}):\s+(?=\S)")
_OPENING_ADDRESS = sentence_pattern(rf"(?:{ADDRESS}|[\w|\[\]`^{{}}.-]{{2,30}}:\s+)")
_LONGEST_HEAD = 60
#: If fewer messages than this begin with a name and a colon, these messages may be pasted text.
_MIN_ADDRESSES = 2


def without_address(text: str) -> str:
    """Return a text without an address at its beginning."""
    match = _OPENING_ADDRESS.match(text)
    return text[match.end() :] if match else text


def name_at_head(text: str, start: int = 0) -> re.Match[str] | None:
    """Return the match of a name with a colon, as in "Ana: …", with the group `name`.

    Return None if there is none at `start`.
    """
    return _CALLED.match(text, start)


def address_names(bodies: Iterable[str], names: frozenset[str]) -> frozenset[str]:
    """Return the given lower-case names that address somebody if they are at the beginning of a message.

    "Ana: I live in Lisbon" is Ana's own statement if the text was pasted. It is a statement to Ana if people of the
    room address each other in this form. They do so if several messages have the form, or if the names are in lower
    case, unlike display names.
    """
    heads = [match["name"] for body in bodies if (match := name_at_head(body.lstrip()[:_LONGEST_HEAD]))]
    addressed = [name for name in heads if name.casefold() in names]
    is_custom = len(addressed) >= _MIN_ADDRESSES
    return frozenset(name.casefold() for name in addressed if is_custom or name.islower())
