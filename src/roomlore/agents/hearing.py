"""What an agent hears of a message before it decides whether to answer: what stands around it, and whom each calls.

Somebody is called by what the platform says (a mention, a reply, a whisper, a dm) and by name: called out to ("pip: look",
"@pip"), by itself between stops ("thanks pip!", "what now, pip?"), or at the beginning of a question ("pip can you
look?"). A name in the midst of a sentence calls nobody, and neither does one in what is quoted.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from roomlore.agents.deciding import Heard, Said
from roomlore.agents.fitting import fitting
from roomlore.agents.value import asks
from roomlore.domain.ids import OrgId, ParticipantId
from roomlore.domain.patterns import later
from roomlore.domain.records import Message
from roomlore.store import agents
from roomlore.store.agents import SaidAround
from roomlore.store.queries import Connection
from roomlore.untangling.names import CHARACTERS_READ, callings, spellings

#: So many messages before one, itself among them, and after it.
_BEFORE, _AFTER = 40, 20
_QUOTED = later(r"^[^\S\n]*>.*$", re.MULTILINE)
_GREETINGS = (
    "hi|hey|hello|yo|ok|okay|thanks|thank you|thx|ty|dear|please|so|well|good morning|morning|welcome"
)
_STOP = r"[.!?,;:()\n\u2013\u2014-]"


async def hear(conn: Connection, org_id: OrgId, message: Message) -> Heard:
    """Return what there is to hear of a message, as far as the viewer may see it.

    Args:
        conn: Reads for the agent.
        org_id: Whose.
        message: In question.
    """
    around = await agents.said_around(conn, org_id, message, before=_BEFORE, after=_AFTER)
    own = frozenset((await agents.reader(conn)).own_ids)
    names = await _names(conn, org_id, message, around)
    said = [_said(one, names) for one in around]
    place = next((place for place, one in enumerate(said) if one.id == message.id), None)
    if place is None:
        return Heard(own=own, trigger=None)
    trigger, known = said[place], []
    if not trigger.to and asks(trigger.body):
        known = await fitting(
            conn, org_id, trigger.body, room_id=message.room_id, sent_at=message.sent_at, bar=0.0
        )
    return Heard(own=own, trigger=trigger, before=said[place + 1 :], after=said[:place], known=known)


def called(body: str, names: Mapping[str, Iterable[ParticipantId]]) -> frozenset[ParticipantId]:
    """Return who is called by name.

    Args:
        body: What is said.
        names: Whom each name means.
    """
    text = _QUOTED.sub("", body[:CHARACTERS_READ]).casefold()
    loud = set(callings(text).loud)
    is_question = asks(text)
    found: set[ParticipantId] = set()
    for name, people in names.items():
        shouted, plain = spellings(name, lambda _: False)
        if loud & shouted or _calls(plain | {" ".join(name.casefold().split())}, text, asks_it=is_question):
            found.update(people)
    return frozenset(found)


def _calls(forms: Iterable[str], text: str, *, asks_it: bool) -> bool:
    return any(
        by_itself.search(text) or (asks_it and first.match(text))
        for by_itself, first in map(_patterns, filter(None, forms))
    )


@lru_cache(maxsize=1_000)
def _patterns(form: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return how a name stands by itself in a text, and how it begins one."""
    name = re.escape(form)
    return (
        later(rf"(?:^|{_STOP}|\b(?:{_GREETINGS})\b)\s*{name}\s*(?:$|{_STOP})"),
        later(rf"\W*{name}(?!['\u2019\w])"),
    )


async def _names(
    conn: Connection, org_id: OrgId, message: Message, around: Sequence[SaidAround]
) -> dict[str, set[ParticipantId]]:
    names: dict[str, set[ParticipantId]] = {}
    present = [(one.name, one.id) for one in await agents.names_in(conn, org_id, message.room_id)]
    for name, participant_id in [*present, *((one.author_name, one.author_id) for one in around)]:
        if name.strip():
            names.setdefault(name, set()).add(participant_id)
    return names


def _said(one: SaidAround, names: Mapping[str, Iterable[ParticipantId]]) -> Said:
    to = (frozenset(one.calls) | called(one.body, names)) - {one.author_id}
    return Said(
        id=one.id,
        by=one.author_id,
        by_kind=one.author_kind,
        body=_without([name for name, people in names.items() if to.intersection(people)], one.body),
        to=to,
        answers=one.answers,
    )


def _without(names: Iterable[str], body: str) -> str:
    """Return a text without names that call: what is left of "thank you, Pip!" is small talk."""
    for name in names:
        body = later(rf"(?<!\w)@?{re.escape(name.strip())}(?!\w)", re.IGNORECASE).sub(" ", body)
    return body
