"""Whether an agent should answer a message at all, told without a language model, with the reason.

The first of these that applies decides:

1. What the agent said itself, and what is not there for it to read, it does not answer.
2. Agents among themselves come to an end. What an agent said is left alone once too many messages in a row were by
   agents, once the agent and others went to and fro too often, or once most of what was said is the agent's own; small
   talk of agents is left alone at once. A human who speaks to all, or to one of them, begins the first two counts anew;
   one who speaks to another human does not. What a human said is never left alone for these.
3. What is said to the agent is answered: in a whisper or a dm, by a mention, by name, or as a reply to it.
4. What is said to somebody else is theirs.
5. Small talk is left alone.
6. A question that nobody answered is answered if memories that the agent may see bear on it.
7. Everything else is left alone.

Everything is told from what the agent may see, as it stands there: neither what was found out about it nor what others
see has a part in it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, takewhile
from typing import Annotated

from msgspec import Meta

from roomlore.agents.interactions import contains_question, is_small_talk
from roomlore.agents.recall import RELEVANCE_THRESHOLD, MemoryMatch, matching_memories
from roomlore.conversations.mentions import CHARACTERS_READ, aliases, mention_words
from roomlore.db import agents
from roomlore.db.agents import NearbyMessage
from roomlore.db.queries import Connection
from roomlore.domain.ids import MemoryId, MessageId, OrgId, ParticipantId
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.phrases import count_phrase
from roomlore.domain.records import Message

#: Memories that a reason names.
_MAX_REASON_MEMORIES = 3


Count = Annotated[int, Meta(ge=0, le=1_000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyPolicy:
    """Where an agent holds its tongue."""

    #: So many messages in a row may be by agents.
    longest_run: Count = 8
    #: So many times the agent spoke and another agent came back, with no human among them.
    most_rounds: Count = 2
    #: Of so many of the newest messages no more than so many are the agent's own.
    window: Count = 10
    most_own: Count = 5
    #: How well a memory bears on a question: the share of its words, by rarity.
    bar: Annotated[float, Meta(ge=0, le=1)] = RELEVANCE_THRESHOLD


DEFAULT_POLICY = ReplyPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidMessage:
    """A message, and to whom it is said."""

    id: MessageId
    author_id: ParticipantId
    author_kind: ParticipantKind
    #: Without the names of those whom it calls.
    body: str
    #: Whom it calls, by whatever means; empty where it is said to all.
    addressee_ids: frozenset[ParticipantId] = frozenset()
    #: What it answers, by the platform's own word.
    reply_to: MessageId | None = None

    @property
    def is_human(self) -> bool:
        """Whether a human said it."""
        return self.author_kind == "human"


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A message, what stands around it in its room, and what is known of it, as far as the agent may see them."""

    #: Every account of the agent.
    own_ids: frozenset[ParticipantId]
    #: None where the agent may not read it, or nothing is left of it.
    trigger: SaidMessage | None
    #: The newest first.
    before: Sequence[SaidMessage] = ()
    after: Sequence[SaidMessage] = ()
    #: What fits best first.
    matches: Sequence[MemoryMatch] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionReason:
    """Why an agent should answer, or not, with what shows it."""

    #: One phrase for a person.
    what: str
    message_ids: Sequence[MessageId] = ()
    memory_ids: Sequence[MemoryId] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether an agent should answer."""

    answer: bool
    #: How much speaks for it, 0..1: all of it where the message is said to the agent, how well the best memory bears on
    #: it where it is a question to all, and nothing otherwise.
    score: float
    why: DecisionReason


def decide(situation: Situation, *, policy: ReplyPolicy = DEFAULT_POLICY) -> Decision:
    """Return whether an agent should answer what it heard, and why."""
    trigger = situation.trigger
    if trigger is None:
        return _no("there is nothing that the agent may read")
    if trigger.author_id in situation.own_ids:
        return _no("the agent said it itself", trigger)
    guarded = None if trigger.is_human else _loop_guard(situation, trigger, policy)
    if guarded is not None:
        return guarded
    if trigger.addressee_ids & situation.own_ids:
        return Decision(answer=True, score=1.0, why=_reason("it is said to the agent", trigger))
    left = _unaddressed(situation, trigger)
    return _by_matches(situation.matches, trigger, policy) if left is None else left


def _unaddressed(situation: Situation, trigger: SaidMessage) -> Decision | None:
    """Return that what is not said to the agent is left alone; None where it is a question that nobody answered."""
    if trigger.addressee_ids:
        return _no("it is said to somebody else", trigger)
    if is_small_talk(trigger.body):
        return _no("it is small talk", trigger)
    if not contains_question(trigger.body):
        return _no("it asks for nothing", trigger)
    answers = [said for said in situation.after if _answers(said, trigger)]
    return _no("somebody answered it", *answers[-1:]) if answers else None


def _loop_guard(situation: Situation, trigger: SaidMessage, policy: ReplyPolicy) -> Decision | None:
    """Return that what an agent said is left alone; None where it need not be."""
    if is_small_talk(trigger.body):
        return _no("it is small talk of an agent", trigger)
    run = [trigger, *takewhile(lambda said: not _resets(said, situation), situation.before)]
    run = [said for said in run if not said.is_human]
    if len(run) > policy.longest_run:
        return _no(f"the last {count_phrase(len(run), 'message')} by agents alone", *run)
    rounds = [
        said
        for later, said in pairwise(run)
        if said.author_id in situation.own_ids and later.author_id not in situation.own_ids
    ]
    if len(rounds) > policy.most_rounds:
        return _no(f"the agent and others went to and fro {len(rounds)} times", *rounds)
    own = [
        said for said in [trigger, *situation.before][: policy.window] if said.author_id in situation.own_ids
    ]
    if len(own) > policy.most_own:
        return _no(
            f"{len(own)} of the last {count_phrase(policy.window, 'message')} by the agent itself", *own
        )
    return None


def _resets(said: SaidMessage, situation: Situation) -> bool:
    """Return whether a human speaks to all, or to an agent: those among themselves leave agents to theirs."""
    if not said.is_human:
        return False
    agents = {one.author_id for one in situation.before if not one.is_human} | situation.own_ids
    return not said.addressee_ids or bool(said.addressee_ids & agents)


def _answers(said: SaidMessage, trigger: SaidMessage) -> bool:
    return said.author_id != trigger.author_id and (
        said.reply_to == trigger.id or trigger.author_id in said.addressee_ids
    )


def _by_matches(matches: Sequence[MemoryMatch], trigger: SaidMessage, policy: ReplyPolicy) -> Decision:
    best = max((one.relevance for one in matches), default=0.0)
    bearing = [one.memory.id for one in matches if one.relevance >= policy.bar][:_MAX_REASON_MEMORIES]
    what = "memories bear on the question" if bearing else "no memory bears on the question well enough"
    named = bearing or [one.memory.id for one in matches[:1]]
    why = DecisionReason(what=what, message_ids=[trigger.id], memory_ids=named)
    return Decision(answer=bool(bearing), score=best, why=why)


def _reason(what: str, *said: SaidMessage) -> DecisionReason:
    return DecisionReason(what=what, message_ids=[one.id for one in said])


def _no(what: str, *said: SaidMessage) -> Decision:
    return Decision(answer=False, score=0.0, why=_reason(what, *said))


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
    return Situation(
        own_ids=own, trigger=trigger, before=said[place + 1 :], after=said[:place], matches=known
    )


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
        if loud & shouted or _is_called(
            plain | {" ".join(name.casefold().split())}, text, asks_it=is_question
        ):
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
