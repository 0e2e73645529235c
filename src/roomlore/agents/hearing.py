"""What an agent hears of a message before it decides whether to answer: what stands around it, and whom each calls.

Somebody is called by what the platform says (a mention, a reply, a whisper, a dm) and by name: called out to ("pip: look",
"@pip"), by itself between stops ("thanks pip!", "what now, pip?"), or at the beginning of a question ("pip can you
look?"). A name in the midst of a sentence calls nobody, and neither does one in what is quoted.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from roomlore.agents.deciding import Situation, SaidMessage
from roomlore.agents.fitting import matching_memories
from roomlore.agents.value import contains_question
from roomlore.domain.ids import OrgId, ParticipantId
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.records import Message
from roomlore.store import agents
from roomlore.store.agents import NearbyMessage
from roomlore.store.queries import Connection
from roomlore.untangling.names import CHARACTERS_READ, mention_words, aliases

#: So many messages before one, itself among them, and after it.
_BEFORE, _AFTER = 40, 20
_QUOTED = lazy_pattern(r"^[^\S\n]*>.*$", re.MULTILINE)
_GREETINGS = (
    "hi|hey|hello|yo|ok|okay|thanks|thank you|thx|ty|dear|please|so|well|good morning|morning|welcome"
)
_PAUSE = r"[.!?,;:()\n\u2013\u2014-]"


async def load_situation(conn: Connection, org_id: OrgId, message: Message) -> Situation:
    """Return what there is to hear of a message, as far as the viewer may see it.

    Args:
        conn: Reads for the agent.
        org_id: Whose.
        message: In question.
    """
    around = await agents.nearby_messages(conn, org_id, message, before=_BEFORE, after=_AFTER)
    own = frozenset((await agents.reader_accounts(conn)).own_ids)
    names = await _names(conn, org_id, message, around)
    said = [_to_said(one, names) for one in around]
    place = next((place for place, one in enumerate(said) if one.id == message.id), None)
    if place is None:
        return Situation(own_ids=own, trigger=None)
    trigger, known = said[place], []
    if not trigger.addressee_ids and contains_question(trigger.body):
        known = await matching_memories(
            conn, org_id, trigger.body, room_id=message.room_id, sent_at=message.sent_at, threshold=0.0
        )
    return Situation(own_ids=own, trigger=trigger, before=said[place + 1 :], after=said[:place], matches=known)


def addressed_by_name(body: str, names: Mapping[str, Iterable[ParticipantId]]) -> frozenset[ParticipantId]:
    """Return who is called by name.

    Args:
        body: What is said.
        names: Whom each name means.
    """
    text = _QUOTED.sub("", body[:CHARACTERS_READ]).casefold()
    loud = set(mention_words(text).loud)
    is_question = contains_question(text)
    found: set[ParticipantId] = set()
    for name, people in names.items():
        shouted, plain = aliases(name, lambda _: False)
        if loud & shouted or _is_called(plain | {" ".join(name.casefold().split())}, text, asks_it=is_question):
            found.update(people)
    return frozenset(found)


def _is_called(forms: Iterable[str], text: str, *, asks_it: bool) -> bool:
    return any(
        by_itself.search(text) or (asks_it and first.match(text))
        for by_itself, first in map(_patterns, filter(None, forms))
    )


@lru_cache(maxsize=1_000)
def _patterns(form: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return how a name stands by itself in a text, and how it begins one."""
    name = re.escape(form)
    return (
        lazy_pattern(rf"(?:^|{_PAUSE}|\b(?:{_GREETINGS})\b)\s*{name}\s*(?:$|{_PAUSE})"),
        lazy_pattern(rf"\W*{name}(?!['\u2019\w])"),
    )


async def _names(
    conn: Connection, org_id: OrgId, message: Message, around: Sequence[NearbyMessage]
) -> dict[str, set[ParticipantId]]:
    names: dict[str, set[ParticipantId]] = {}
    present = [(one.name, one.id) for one in await agents.participant_names(conn, org_id, message.room_id)]
    for name, participant_id in [*present, *((one.author_name, one.author_id) for one in around)]:
        if name.strip():
            names.setdefault(name, set()).add(participant_id)
    return names


def _to_said(one: NearbyMessage, names: Mapping[str, Iterable[ParticipantId]]) -> SaidMessage:
    to = (frozenset(one.calls) | addressed_by_name(one.body, names)) - {one.author_id}
    return SaidMessage(
        id=one.id,
        author_id=one.author_id,
        author_kind=one.author_kind,
        body=_without_names([name for name, people in names.items() if to.intersection(people)], one.body),
        addressee_ids=to,
        reply_to=one.answers,
    )


def _without_names(names: Iterable[str], body: str) -> str:
    """Return a text without names that call: what is left of "thank you, Pip!" is small talk."""
    for name in names:
        body = lazy_pattern(rf"(?<!\w)@?{re.escape(name.strip())}(?!\w)", re.IGNORECASE).sub(" ", body)
    return body
