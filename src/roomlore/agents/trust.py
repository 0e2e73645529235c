"""What an agent makes of somebody: how far it may trust them, from what passed between them, with the reasons.

Trust begins in the middle, lower for agents. Being around raises it, up to a bound: conversations in which both took
part, and answers either way. What other people made of their words counts more: agreement raises it, being set right
lowers it. All of it weighs half after every ninety days. What agents say to each other raises nothing between them: no
two can talk each other up, and none confirms anybody. So an agent is never trusted more than at first, unless people
agree with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from roomlore.db.agents import InteractionStats
from roomlore.domain.ids import ParticipantId
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.phrases import count_phrase

#: After so long what passed weighs half.
HALF_LIFE = timedelta(days=90)
#: Of whom nothing is known, and how much that weighs against what becomes known.
OF_HUMANS, OF_AGENTS, PRIOR = 0.5, 0.3, 4.0
PER_CONVERSATION, PER_EXCHANGE, PER_OPINION = 0.25, 0.1, 1.0
#: However long somebody is around.
MOST_FAMILIAR = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustReason:
    """Something that raises or lowers trust."""

    #: One phrase for a person, with numbers.
    what: str
    #: By how much trust would be lower without it; below nothing where it would be higher.
    by: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Relationship:
    """What an agent makes of somebody it has met, counted from conversations that the viewer may follow."""

    participant_id: ParticipantId
    name: str
    kind: ParticipantKind
    #: 0..1.
    trust: float
    #: What raised or lowered it; what had no part in it is left out.
    why: Sequence[TrustReason]
    conversations: int
    messages: int
    answered: int
    answers: int
    confirmed: int
    corrected: int
    last_met_at: datetime


def relationship(met: InteractionStats) -> Relationship:
    """Return what an agent makes of somebody."""
    return Relationship(
        participant_id=met.id,
        name=met.name,
        kind=met.kind,
        trust=trust(met),
        why=reasons(met),
        conversations=met.conversations,
        messages=met.messages,
        answered=met.answered,
        answers=met.answers,
        confirmed=met.confirmed,
        corrected=met.corrected,
        last_met_at=met.last_met_at,
    )


def trust(met: InteractionStats) -> float:
    """Return how far somebody may be trusted, 0..1: as likely as they were right, had they been so the usual share before."""
    return _trust(met.kind, _familiarity(met), met.confirmed_now, met.corrected_now)


def reasons(met: InteractionStats) -> list[TrustReason]:
    """Return what raised or lowered trust in somebody, each by how much."""
    parts = (_familiarity(met), met.confirmed_now, met.corrected_now)
    told = (
        f"{count_phrase(met.conversations, 'conversation')}, {count_phrase(met.answered + met.answers, 'answer')} between them",
        f"people agreed {count_phrase(met.confirmed, 'time')}",
        f"was set right {count_phrase(met.corrected, 'time')}",
    )
    whole = trust(met)
    found: list[TrustReason] = []
    for place, (part, what) in enumerate(zip(parts, told, strict=True)):
        if part > 0:
            without = [0.0 if other == place else value for other, value in enumerate(parts)]
            found.append(TrustReason(what=what, by=whole - _trust(met.kind, *without)))
    return found


def _familiarity(met: InteractionStats) -> float:
    if met.kind != "human":
        return 0.0
    return min(met.conversations_now * PER_CONVERSATION + met.exchanges_now * PER_EXCHANGE, MOST_FAMILIAR)


def _trust(kind: ParticipantKind, familiarity: float, confirmed: float, corrected: float) -> float:
    first = OF_HUMANS if kind == "human" else OF_AGENTS
    speaks_for = PRIOR * first + familiarity + PER_OPINION * confirmed
    return speaks_for / (PRIOR + familiarity + PER_OPINION * (confirmed + corrected))
