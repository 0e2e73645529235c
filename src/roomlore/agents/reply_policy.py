"""Decides by rules whether an agent should answer a message, with the reason.

The first rule that applies decides:

1. The agent does not answer its own messages, nor messages that it may not read.
2. Conversations of agents must end. The agent does not answer another agent's message that is small talk, or that
   comes after too many messages of agents in a row, too many rounds between the agent and others, or too many own
   messages. The first two counts start again when a human speaks to all or to an agent. The rule does not apply to
   messages of humans.
3. The agent answers a message to it: a whisper, a direct message, a mention, its name, or a reply to it. If the message
   is by another agent, the agent first waits until its pause is over.
4. It does not answer a message to somebody else.
5. It does not answer small talk.
6. It answers an unanswered question if memories that it may see are relevant, and its pause is over.
7. It does not answer anything else.

Messages and memories that the agent may not see are ignored.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise, takewhile
from typing import Annotated, Literal

from msgspec import Meta

from roomlore.agents.recall import RELEVANCE_THRESHOLD, MemoryMatch, matching_memories
from roomlore.db import agents
from roomlore.db.agents import NearbyMessage
from roomlore.db.queries import Connection
from roomlore.domain.ids import MemoryId, MessageId, OrgId, ParticipantId
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.patterns import lazy_pattern
from roomlore.domain.phrases import count_phrase
from roomlore.domain.records import Message
from roomlore.text.mentions import addressed_by_name
from roomlore.text.recognisers import contains_question, is_small_talk

#: The maximum number of memories that a reason cites.
_MAX_REASON_MEMORIES = 3


Count = Annotated[int, Meta(ge=0, le=1_000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyPolicy:
    """The limits of an agent's answers."""

    #: The maximum number of messages in a row by agents.
    max_agent_run: Count = 8
    #: The maximum number of rounds between the agent and other agents without a human.
    max_agent_rounds: Count = 2
    #: The number of newest messages among which the agent's own messages are counted, and the maximum number of its own
    #: messages among them.
    window: Count = 10
    max_own: Count = 5
    #: The seconds after an own message in which the agent does not answer, except a human who addresses it.
    pause: Annotated[float, Meta(ge=0, le=86_400)] = 0.0
    #: The lowest relevance that a memory must have to a question.
    threshold: Annotated[float, Meta(ge=0, le=1)] = RELEVANCE_THRESHOLD


DEFAULT_POLICY = ReplyPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidMessage:
    """A message with its addressees."""

    id: MessageId
    author_id: ParticipantId
    author_kind: ParticipantKind
    sent_at: datetime
    #: The text, without the names of its addressees.
    body: str
    #: The participants that the message is addressed to; empty for a message to all.
    addressee_ids: frozenset[ParticipantId] = frozenset()
    #: The message that it replies to, according to the platform.
    reply_to: MessageId | None = None

    @property
    def is_human(self) -> bool:
        """Whether its author is a human."""
        return self.author_kind == "human"


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A message, the messages around it and relevant memories. It holds only what the agent may see."""

    #: All accounts of the agent.
    own_ids: frozenset[ParticipantId]
    #: The message to answer or not; None if it does not exist or the agent may not read it.
    trigger: SaidMessage | None
    #: Earlier messages, newest first.
    before: Sequence[SaidMessage] = ()
    after: Sequence[SaidMessage] = ()
    #: Memories relevant to the message, best first.
    matches: Sequence[MemoryMatch] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionReason:
    """Why an agent should answer or not, with the evidence."""

    #: The reason, as one phrase for people.
    what: str
    message_ids: Sequence[MessageId] = ()
    memory_ids: Sequence[MemoryId] = ()


#: What sets an answer off: a message to the agent, or a question to all.
Cause = Literal["addressed", "asked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether an agent should answer."""

    answer: bool
    #: What sets the answer off, for the instruction to a language model; None if the agent should not answer.
    cause: Cause | None = None
    #: 1 for a message to the agent. For a question to all, the relevance of the best memory. Otherwise 0.
    score: float
    reason: DecisionReason


def decide(situation: Situation, *, policy: ReplyPolicy = DEFAULT_POLICY) -> Decision:
    """Return whether an agent should answer a message, and why."""
    trigger = situation.trigger
    if trigger is None:
        return _no("there is nothing that the agent may read")
    if trigger.author_id in situation.own_ids:
        return _no("the agent said it itself", trigger)
    guarded = None if trigger.is_human else _loop_guard(situation, trigger, policy)
    if guarded is not None:
        return guarded
    resting = _resting(situation, trigger, policy)
    if trigger.addressee_ids & situation.own_ids:
        if resting is not None and not trigger.is_human:
            return resting
        reason = _reason("it is said to the agent", trigger)
        return Decision(answer=True, cause="addressed", score=1.0, reason=reason)
    left = _unaddressed(situation, trigger) or resting
    return _by_matches(situation.matches, trigger, policy) if left is None else left


def _resting(situation: Situation, trigger: SaidMessage, policy: ReplyPolicy) -> Decision | None:
    """Return the decision not to answer because the agent's pause is not over; None if it is over."""
    said = [*situation.after, *situation.before]
    own = [one for one in said if one.author_id in situation.own_ids]
    recent = [one for one in own if one.sent_at > trigger.sent_at - timedelta(seconds=policy.pause)]
    return _no("the agent wrote a moment ago", recent[0]) if policy.pause and recent else None


def _unaddressed(situation: Situation, trigger: SaidMessage) -> Decision | None:
    """Return the decision not to answer a message that is not addressed to the agent.

    Return None if the message is an unanswered question to all.
    """
    if trigger.addressee_ids:
        return _no("it is said to somebody else", trigger)
    if is_small_talk(trigger.body):
        return _no("it is small talk", trigger)
    if not contains_question(trigger.body):
        return _no("it asks for nothing", trigger)
    answers = [said for said in situation.after if _answers(said, trigger)]
    return _no("somebody answered it", *answers[-1:]) if answers else None


def _loop_guard(situation: Situation, trigger: SaidMessage, policy: ReplyPolicy) -> Decision | None:
    """Return the decision not to answer a message of another agent; None if no limit is reached.

    The limits make conversations between agents end.
    """
    if is_small_talk(trigger.body):
        return _no("it is small talk of an agent", trigger)
    run = [trigger, *takewhile(lambda said: not _resets(said, situation), situation.before)]
    run = [said for said in run if not said.is_human]
    if len(run) > policy.max_agent_run:
        return _no(f"the last {count_phrase(len(run), 'message')} by agents alone", *run)
    rounds = [
        said
        for later, said in pairwise(run)
        if said.author_id in situation.own_ids and later.author_id not in situation.own_ids
    ]
    if len(rounds) > policy.max_agent_rounds:
        return _no(f"the agent and others went to and fro {len(rounds)} times", *rounds)
    own = [
        said for said in [trigger, *situation.before][: policy.window] if said.author_id in situation.own_ids
    ]
    if len(own) > policy.max_own:
        return _no(
            f"{len(own)} of the last {count_phrase(policy.window, 'message')} by the agent itself", *own
        )
    return None


def _resets(said: SaidMessage, situation: Situation) -> bool:
    """Return whether a message resets the counts of the loop guard.

    It does if a human wrote it to all or to an agent.
    """
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
    bearing = [one.memory.id for one in matches if one.relevance >= policy.threshold][:_MAX_REASON_MEMORIES]
    what = "memories bear on the question" if bearing else "no memory bears on the question well enough"
    named = bearing or [one.memory.id for one in matches[:1]]
    why = DecisionReason(what=what, message_ids=[trigger.id], memory_ids=named)
    return Decision(answer=bool(bearing), cause="asked" if bearing else None, score=best, reason=why)


def _reason(what: str, *said: SaidMessage) -> DecisionReason:
    return DecisionReason(what=what, message_ids=[one.id for one in said])


def _no(what: str, *said: SaidMessage) -> Decision:
    return Decision(answer=False, score=0.0, reason=_reason(what, *said))


#: The number of messages that are read: up to and including the trigger, and after the trigger.
_BEFORE, _AFTER = 40, 20


async def load_situation(conn: Connection, org_id: OrgId, message: Message) -> Situation:
    """Return the situation of a message.

    The connection's viewer must be the agent, so that the situation holds only what the agent may see.
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
        sent_at=one.sent_at,
        body=_without_names([name for name, people in names.items() if to.intersection(people)], one.body),
        addressee_ids=to,
        reply_to=one.answers,
    )


def _without_names(names: Iterable[str], body: str) -> str:
    """Return a text without these names. For example, "thank you, Pip!" is small talk only without the name."""
    for name in names:
        body = lazy_pattern(rf"(?<!\w)@?{re.escape(name.strip())}(?!\w)", re.IGNORECASE).sub(" ", body)
    return body
