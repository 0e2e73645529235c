"""Reads what somebody states about another by name, as if the other had said it of themselves.

Whoever says it stays its author: what is told of people is surer when they tell it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from roomlore.domain.claims import NamedParticipant
from roomlore.domain.patterns import MAX_SENTENCE_LENGTH, sentence_pattern
from roomlore.memories.patterns import CORRECTION_PREFIX

_SHORTEST_NAME = 3
_IRREGULAR = {
    "is": "I'm",
    "has": "I have",
    "does": "I do",
    "doesn't": "I don't",
    "goes": "I go",
    "was": "I was",
    "can't": "I can't",
}
_ES = ("ches", "shes", "sses", "xes", "zes")
_REST = sentence_pattern(r"(?P<own>'s?)?\s+(?P<verb>[A-Za-z']+)\b(?P<more>.*)", re.DOTALL)


class NamedPeople:
    """The people of a room by what they are called."""

    def __init__(self, people: Sequence[NamedParticipant]) -> None:
        """Keep humans whose names mean one of them only."""
        called: dict[str, set[int]] = {}
        for number, person in enumerate(people):
            for name in {person.name, *person.names}:
                if len(name) >= _SHORTEST_NAME:
                    called.setdefault(name.casefold(), set()).add(number)
        self._people: Mapping[str, NamedParticipant] = {
            name: people[next(iter(numbers))] for name, numbers in called.items() if len(numbers) == 1
        }
        #: In small letters.
        self.names = frozenset(self._people)
        longest_first = sorted(self._people, key=len, reverse=True)
        either = "|".join(re.escape(name) for name in longest_first) or "(?!)"
        self._pattern = sentence_pattern(rf"@?(?P<name>{either})(?!\w)", re.IGNORECASE)

    def subject_of(self, text: str) -> tuple[NamedParticipant, int] | None:
        """Return who a clause begins with, and where the name ends."""
        match = self._pattern.match(text)
        person = self._people.get(match["name"].casefold()) if match else None
        return (person, match.end()) if person and match and person.kind == "human" else None


#: Says that it is not so, by whoever was spoken of.
_DENIES = sentence_pattern(
    rf"\W*(?:(?:lol|huh|what|(?:a?ha)+h?)[\s,.!?]+)*{CORRECTION_PREFIX}(?:no+\b(?! (?:problem|worries))|nope|nah|wrong|since when"
    r"|not (?:any ?more|me|true|really|quite|at all)|(?:i(?:'m| am)|that(?:'s| is)) (?:not|wrong)"
    r"|i (?:do|did|was|have|had|am)(?:n't| not)|i never|used to|what|huh|left (?:last|in|there))\b",
    re.IGNORECASE,
)


def denies_statement(body: str) -> bool:
    """Return whether a message begins by saying that what was said of its author is not so."""
    return bool(_DENIES.match(body[:MAX_SENTENCE_LENGTH].replace("\u2019", "'")))


def first_person_variants(rest: str) -> Iterator[str]:
    """Yield what follows a name as the one named would say it."""
    match = _REST.match(rest)
    if not match:
        return
    verb, more = match["verb"], match["more"]
    if match["own"]:
        yield f"my {verb}{more}"
        yield f"I'm {verb}{more}"
        return
    if first := _first_person(verb.lower()):
        yield f"{first}{more}"


def _first_person(verb: str) -> str | None:
    """Return the verb as said of oneself; None where it is no verb as said of one other."""
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    if verb.endswith("ed"):
        return f"I {verb}"
    if verb.endswith("ies"):
        return f"I {verb[:-3]}y"
    if verb.endswith(_ES):
        return f"I {verb[:-2]}"
    return f"I {verb[:-1]}" if verb.endswith("s") and len(verb) > _SHORTEST_NAME else None
