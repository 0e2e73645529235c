"""How far an agent may trust somebody, from their interactions, with the reasons.

Trust begins in the middle, lower for agents. Shared conversations and answers raise it up to a limit. Agreement of other
people raises it more, corrections lower it. Everything counts half after ninety days. Agents' words raise no trust between
agents and confirm nobody, so agents cannot talk each other up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from roomlore.db.agents import InteractionStats
from roomlore.domain.ids import ParticipantId
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.phrases import count_phrase

#: Interactions of this age count half.
HALF_LIFE = timedelta(days=90)
#: Trust without any interaction, and its weight against interactions.
OF_HUMANS, OF_AGENTS, PRIOR = 0.5, 0.3, 4.0
PER_CONVERSATION, PER_EXCHANGE, PER_OPINION = 0.25, 0.1, 1.0
#: The limit of what familiarity adds.
MOST_FAMILIAR = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustReason:
    """A reason that raises or lowers trust."""

    #: A phrase with numbers.
    what: str
    #: How much lower trust would be without it; negative if higher.
    by: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Relationship:
    """An agent's relationship with somebody, from the conversations that the viewer may see."""

    participant_id: ParticipantId
    name: str
    kind: ParticipantKind
    #: 0..1.
    trust: float
    #: Without reasons that changed nothing.
    reasons: Sequence[TrustReason]
    conversations: int
    messages: int
    answered: int
    answers: int
    confirmed: int
    corrected: int
    last_met_at: datetime


def relationship(met: InteractionStats) -> Relationship:
    """Return the relationship of an agent with somebody."""
    return Relationship(
        participant_id=met.id,
        name=met.name,
        kind=met.kind,
        trust=trust(met),
        reasons=reasons(met),
        conversations=met.conversations,
        messages=met.messages,
        answered=met.answered,
        answers=met.answers,
        confirmed=met.confirmed,
        corrected=met.corrected,
        last_met_at=met.last_met_at,
    )


def trust(met: InteractionStats) -> float:
    """Return trust, 0..1: the share of right statements, smoothed by the prior."""
    return _trust(met.kind, _familiarity(met), met.confirmed_now, met.corrected_now)


def reasons(met: InteractionStats) -> list[TrustReason]:
    """Return the reasons of the trust in somebody."""
    parts = (_familiarity(met), met.confirmed_now, met.corrected_now)
    phrases = (
        f"{count_phrase(met.conversations, 'conversation')}, {count_phrase(met.answered + met.answers, 'answer')} between them",
        f"people agreed {count_phrase(met.confirmed, 'time')}",
        f"was set right {count_phrase(met.corrected, 'time')}",
    )
    whole = trust(met)
    found: list[TrustReason] = []
    for place, (part, what) in enumerate(zip(parts, phrases, strict=True)):
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
