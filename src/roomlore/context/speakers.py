"""Gives everybody in a context a harmless name, and nobody the name of another.

What makes a body or a name harmless is the domain's (`domain/rendering.py`); here is what depends on who else
speaks in the same excerpt.
"""

import unicodedata
from collections.abc import Iterable

from roomlore.domain.ids import ParticipantId
from roomlore.domain.records import Message
from roomlore.domain.rendering import safe_name


def speaker_names(messages: Iterable[Message]) -> dict[tuple[ParticipantId, str], str]:
    """Return the name to show for each (author, name at the time), no two authors under the same one.

    The first author to use a name keeps it; another who looks the same gets a number: "Ben ~2".
    """
    owners: dict[str, ParticipantId] = {}
    shown: dict[tuple[ParticipantId, str], str] = {}
    for message in messages:
        key = (message.author_id, message.author_name)
        if key in shown:
            continue
        plain = name = safe_name(message.author_name)
        number = 1
        while owners.setdefault(_normalised_look(name), message.author_id) != message.author_id:
            number += 1
            name = f"{plain} ~{number}"
        shown[key] = name
    return shown


def _normalised_look(name: str) -> str:
    """Return what a hurried reader sees of a name: no case, no width, nothing invisible."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return "".join(letter for letter in folded if unicodedata.category(letter) not in {"Cf", "Mn", "Zs"})
