"""Whom a sentence names: by name, by what they are called in the room, by what they are to whoever speaks."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from roomlore.domain.ids import ParticipantId
from roomlore.domain.patterns import lazy_pattern
from roomlore.privacy.identifiers import TOKEN
from roomlore.privacy.records import NameIndexEntry

#: What people are to each other, under one word.
_RELATIONS = {
    "mother": "mother mom mum mama mommy mummy mam",
    "father": "father dad papa daddy",
    "sister": "sister sis",
    "brother": "brother bro",
    "husband": "husband hubby",
    "wife": "wife",
    "partner": "partner boyfriend girlfriend spouse fiance fiancee",
    "son": "son",
    "daughter": "daughter",
    "aunt": "aunt auntie",
    "uncle": "uncle",
    "cousin": "cousin",
    "grandmother": "grandmother grandma granny",
    "grandfather": "grandfather grandpa grandad",
    "roommate": "roommate flatmate housemate",
    "friend": "friend",
    "boss": "boss",
}
_RELATION_OF = {word: kin for kin, words in _RELATIONS.items() for word in words.split()}
#: Whom "family" means.
_FAMILY = frozenset(_RELATIONS) - {"roommate", "friend", "boss"}
#: Titles and small words by which nobody is told apart.
_TITLES = frozenset(
    [
        "dr",
        "mr",
        "mrs",
        "ms",
        "miss",
        "prof",
        "sir",
        "the",
        "of",
        "and",
        "for",
        "nurse",
        "clinic",
        "agent",
        "bot",
        "team",
        "desk",
        "front",
    ]
)
_ROLE = lazy_pattern(r"\(([^()]{2,40})\)|\[([^\[\]]{2,40})\]")
#: An account written in small letters is no word unless it is as long as this.
_SHORTEST_ACCOUNT = 3
#: What stands within a name; anything else stands between two.
_JOINED = lazy_pattern(r"\s+|-")
_NAME = lazy_pattern(r"\b[A-Z][^\W_]+(?:(?:\s+|-)[A-Z][^\W_]+)*")
NO_IDS: frozenset[ParticipantId] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class NameIndex:
    """Who takes part in a room, by the words that mean them."""

    #: First names, surnames and accounts, as they are written, and all who bear each.
    by_name: Mapping[str, frozenset[ParticipantId]]
    #: What they are: `Linda Park (mother)`, `Cho (billing)`.
    by_role: Mapping[str, frozenset[ParticipantId]]
    #: All that they are called, in small letters.
    tokens: frozenset[str]

    @classmethod
    def build(cls, people: Iterable[NameIndexEntry]) -> "NameIndex":
        """Return the people of some people."""
        named: dict[str, set[ParticipantId]] = defaultdict(set)
        roles: dict[str, set[ParticipantId]] = defaultdict(set)
        called: set[str] = set()
        for person in people:
            called |= {token.casefold() for token in TOKEN.findall(person.name)}
            for token in _names(person):
                named[token].add(person.id)
            for role in roles_in_name(person):
                roles[role].add(person.id)
        return cls(
            by_name={token: frozenset(ids) for token, ids in named.items()},
            by_role={role: frozenset(ids) for role, ids in roles.items()},
            tokens=frozenset(called),
        )

    def unambiguous(self) -> "NameIndex":
        """Return these people by the names that only one bears: to be let in, a name that others bear is not enough."""
        named = {token: bearers for token, bearers in self.by_name.items() if len(bearers) == 1}
        return replace(self, by_name=named)


def mentioned_ids(text: str, name_index: NameIndex) -> frozenset[ParticipantId]:
    """Return whom some words name: all who bear a name, and of a name of several words who bears all of them."""
    found: set[ParticipantId] = set()
    before = ""
    bearers = NO_IDS
    for token, is_joined in _tokens(text):
        word = token.casefold()
        named = name_index.by_name.get(token, NO_IDS)
        if is_joined and bearers & named:
            bearers &= named
        else:
            found |= bearers
            bearers = named
        if word == "family":
            found.update(*(name_index.by_role.get(role, NO_IDS) for role in _FAMILY))
        elif word in _RELATION_OF or before == "the":
            found |= name_index.by_role.get(_RELATION_OF.get(word, word), NO_IDS)
        before = word
    return frozenset(found | bearers)


def unknown_names(text: str, name_index: NameIndex, *, besides: ParticipantId) -> tuple[str, ...]:
    """Return what is written like a name in some words and means nobody who is known, or only this one."""
    names = (match[0] for match in _NAME.finditer(text))
    found = (
        one for one in names if one.casefold() not in _TITLES and mentioned_ids(one, name_index) <= {besides}
    )
    return tuple(dict.fromkeys(found))


def _tokens(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the tokens of a text, each with whether it may go on a name that the one before begins."""
    end = 0
    for match in TOKEN.finditer(text):
        yield match[0], _JOINED.fullmatch(text, end, match.start()) is not None
        end = match.end()


def roles_in_name(person: NameIndexEntry) -> frozenset[str]:
    """Return what a person is, as far as their name says it."""
    told = [str(match[1] or match[2]) for match in _ROLE.finditer(person.name)]
    words: list[list[str]] = [TOKEN.findall(one.casefold()) for one in told]
    return frozenset(_RELATION_OF.get(one[-1], one[-1]) for one in words if one)


def _names(person: NameIndexEntry) -> set[str]:
    tokens = [
        token for token in TOKEN.findall(_ROLE.sub(" ", person.name)) if token.casefold() not in _TITLES
    ]
    if len(tokens) == 1 and len(tokens[0]) >= _SHORTEST_ACCOUNT:
        return {tokens[0]}
    return {token for token in tokens if token[0].isupper() and len(token) > 1}
