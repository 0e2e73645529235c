"""Finds the people that a sentence names: by name, or by role ("mum", "the nurse")."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from roomlore.db.privacy_requests import RoomParticipant
from roomlore.domain.ids import ParticipantId
from roomlore.domain.patterns import lazy_pattern
from roomlore.privacy.identifiers import TOKEN

#: Words for relations, each with its synonyms.
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
#: The relations that the word "family" includes.
_FAMILY = frozenset(_RELATIONS) - {"roommate", "friend", "boss"}
#: Titles and common words in names, which identify nobody.
_TITLES = frozenset({
    "dr", "mr", "mrs", "ms", "miss", "prof", "sir", "the", "of", "and", "for", "nurse", "clinic", "agent",
    "bot", "team", "desk", "front",
})  # fmt: skip
_ROLE = lazy_pattern(r"\(([^()]{2,40})\)|\[([^\[\]]{2,40})\]")
#: Lower-case account names that are shorter than this are treated as ordinary words.
_SHORTEST_ACCOUNT = 3
#: Separators within a name; any other separator ends the name.
_JOINED = lazy_pattern(r"\s+|-")
_NAME = lazy_pattern(r"\b[A-Z][^\W_]+(?:(?:\s+|-)[A-Z][^\W_]+)*")
NO_IDS: frozenset[ParticipantId] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class NameIndex:
    """The participants of a room, by the words that refer to them."""

    #: For each first name, surname and account, in its original case: all participants who have it.
    by_name: Mapping[str, frozenset[ParticipantId]]
    #: Participants by the role that their name states: `Linda Park (mother)`, `Cho (billing)`.
    by_role: Mapping[str, frozenset[ParticipantId]]
    #: All words of names, in lower case.
    tokens: frozenset[str]

    @classmethod
    def build(cls, people: Iterable[RoomParticipant]) -> "NameIndex":
        """Return the index of these participants."""
        by_name: dict[str, set[ParticipantId]] = defaultdict(set)
        by_role: dict[str, set[ParticipantId]] = defaultdict(set)
        tokens: set[str] = set()
        for person in people:
            tokens |= {token.casefold() for token in TOKEN.findall(person.name)}
            for token in _names(person):
                by_name[token].add(person.id)
            for role in roles_in_name(person):
                by_role[role].add(person.id)
        return cls(
            by_name={token: frozenset(ids) for token, ids in by_name.items()},
            by_role={role: frozenset(ids) for role, ids in by_role.items()},
            tokens=frozenset(tokens),
        )

    def unambiguous(self) -> "NameIndex":
        """Return an index of the names that belong to only one participant. Exemptions need unambiguous names."""
        named = {token: bearers for token, bearers in self.by_name.items() if len(bearers) == 1}
        return replace(self, by_name=named)


def mentioned_ids(text: str, name_index: NameIndex) -> frozenset[ParticipantId]:
    """Return the participants whom a text names.

    If a name has several words, the participants must have all of them.
    """
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
    """Return the capitalised names in a text that belong to no participant other than `besides`."""
    names = (match[0] for match in _NAME.finditer(text))
    found = (
        name
        for name in names
        if name.casefold() not in _TITLES and mentioned_ids(name, name_index) <= {besides}
    )
    return tuple(dict.fromkeys(found))


def _tokens(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each token of a text, and whether it may continue the name before it."""
    end = 0
    for match in TOKEN.finditer(text):
        yield match[0], _JOINED.fullmatch(text, end, match.start()) is not None
        end = match.end()


def roles_in_name(person: RoomParticipant) -> frozenset[str]:
    """Return the roles that a participant's name states."""
    roles = [str(match[1] or match[2]) for match in _ROLE.finditer(person.name)]
    words: list[list[str]] = [TOKEN.findall(role.casefold()) for role in roles]
    return frozenset(_RELATION_OF.get(role[-1], role[-1]) for role in words if role)


def _names(person: RoomParticipant) -> set[str]:
    tokens = [
        token for token in TOKEN.findall(_ROLE.sub(" ", person.name)) if token.casefold() not in _TITLES
    ]
    if len(tokens) == 1 and len(tokens[0]) >= _SHORTEST_ACCOUNT:
        return {tokens[0]}
    return {token for token in tokens if token[0].isupper() and len(token) > 1}
