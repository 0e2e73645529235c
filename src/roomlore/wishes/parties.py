"""Whom a sentence names: by name, by what they are called in the room, by what they are to whoever speaks."""

import re
from collections.abc import Sequence

from roomlore.domain.ids import ParticipantId
from roomlore.wishes.marks import TOKEN
from roomlore.wishes.records import Person

#: What people are to each other, under one word.
_KIN = {
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
_SAME = {word: kin for kin, words in _KIN.items() for word in words.split()}
#: Whom "family" means.
_FAMILY = frozenset(_KIN) - {"roommate", "friend", "boss"}
#: Titles and small words by which nobody is told apart.
_TITLES = frozenset("dr mr mrs ms miss prof sir the of and for nurse clinic agent bot team desk front".split())
_ROLE = re.compile(r"\(([^()]{2,40})\)|\[([^\[\]]{2,40})\]")


def parties(sentence: str, author: Person | None, people: Sequence[Person]) -> frozenset[ParticipantId]:
    """Return whom of the people a sentence names, the author never."""
    words = [token.casefold() for token in TOKEN.findall(sentence)]
    spelled = set(TOKEN.findall(sentence))
    others = [person for person in people if author is None or person.id != author.id]
    found = {person.id for person in others if _is_named(person, spelled, others)}
    wanted = {_SAME[word] for word in words if word in _SAME}
    if "family" in words:
        wanted |= _FAMILY
    found |= {person.id for person in others if role_of(person) & wanted}
    text = " ".join(words)
    found |= {person.id for person in others for role in _titles(person) if f" {role} " in f" {text} " and f"the {role}" in text}
    return frozenset(found)


def role_of(person: Person) -> frozenset[str]:
    """Return what a person is, as far as their name says it: `Linda Park (mother)`."""
    words = {token.casefold() for match in _ROLE.finditer(person.name) for token in TOKEN.findall(match[1] or match[2])}
    return frozenset(_SAME.get(word, word) for word in words)


def _titles(person: Person) -> set[str]:
    return {" ".join(TOKEN.findall((match[1] or match[2]).casefold())) for match in _ROLE.finditer(person.name)}


def _is_named(person: Person, spelled: set[str], people: Sequence[Person]) -> bool:
    """Return whether a name stands in a sentence that nobody else has: a first name, a surname, an account."""
    return any(
        token in spelled and not any(token in _names(other) for other in people if other.id != person.id)
        for token in _names(person)
    )


def _names(person: Person) -> set[str]:
    plain = _ROLE.sub(" ", person.name)
    tokens = [token for token in TOKEN.findall(plain) if token.casefold() not in _TITLES and len(token) > 1]
    return {token for token in tokens if token[0].isupper() or len(tokens) == 1}
