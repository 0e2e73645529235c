"""How far an agent may trust somebody, computed from their interactions, with the reasons.

Trust starts at a stated value. If none was stated, it starts at a middle value, which is lower for agents. Shared conversations and answers raise it up to a limit.
Agreement of other people raises it more, and corrections lower it. After ninety days, an interaction has half its
weight. What agents say never raises the trust in another agent and confirms nobody. So agents cannot raise each other's
trust by talking.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from roomlore.db.agents import InteractionStats
from roomlore.domain.ids import ParticipantId
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.phrases import count_phrase
from roomlore.domain.records import convert

#: The age at which an interaction has half its weight.
HALF_LIFE = timedelta(days=90)
#: Trust before any interaction, in humans and in agents, if none was stated, and the weight of the trust at the start
#: against interactions.
OF_HUMANS, OF_AGENTS, PRIOR = 0.5, 0.3, 4.0
PER_CONVERSATION, PER_EXCHANGE, PER_OPINION = 0.25, 0.1, 1.0
#: The maximum that familiarity adds to the weighted sum.
MOST_FAMILIAR = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustReason:
    """A reason that raises or lowers trust."""

    #: The reason, as one phrase with numbers.
    what: str
    #: The difference that the reason makes to trust; negative if it lowers trust.
    by: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedTrust:
    """How far an agent trusts somebody, as the agent or an operator stated it."""

    #: 0..1.
    trust: float
    stated_at: datetime
    #: An account of the agent; None for an operator.
    stated_by: ParticipantId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Relationship:
    """An agent's relationship with somebody, from the conversations that the viewer may see."""

    participant_id: ParticipantId
    name: str
    kind: ParticipantKind
    #: 0..1.
    trust: float
    #: The reasons that changed the trust.
    reasons: Sequence[TrustReason]
    conversations: int
    messages: int
    answered: int
    answers: int
    confirmed: int
    corrected: int
    #: None: the trust was stated, but the two have not met.
    last_met_at: datetime | None
    #: The value from which the trust starts; None if none was stated.
    stated: StatedTrust | None = None


def relationship(met: InteractionStats) -> Relationship:
    """Return the relationship of an agent with somebody."""
    return convert(
        Relationship, met, participant_id=met.id, trust=trust(met), reasons=reasons(met), stated=_stated(met)
    )


def trust(met: InteractionStats) -> float:
    """Return the trust in somebody, 0..1.

    Trust is the share of the person's statements that were right, smoothed by a prior and raised by familiarity.
    """
    return _trust(_first(met), _familiarity(met), met.confirmed_now, met.corrected_now)


def reasons(met: InteractionStats) -> list[TrustReason]:
    """Return the reasons for the trust in somebody."""
    parts = (_familiarity(met), met.confirmed_now, met.corrected_now)
    phrases = (
        f"{count_phrase(met.conversations, 'conversation')}, {count_phrase(met.answered + met.answers, 'answer')} between them",
        f"people agreed {count_phrase(met.confirmed, 'time')}",
        f"was set right {count_phrase(met.corrected, 'time')}",
    )
    whole = trust(met)
    found: list[TrustReason] = []
    if met.stated_trust is not None:
        by = whole - _trust(_default(met.kind), *parts)
        who = "an operator" if met.stated_by is None else "the agent"
        found.append(TrustReason(what=f"{met.stated_trust:.2f} was stated by {who}", by=by))
    for place, (part, what) in enumerate(zip(parts, phrases, strict=True)):
        if part > 0:
            without = [0.0 if other == place else value for other, value in enumerate(parts)]
            found.append(TrustReason(what=what, by=whole - _trust(_first(met), *without)))
    return found


def _familiarity(met: InteractionStats) -> float:
    if met.kind != "human":
        return 0.0
    return min(met.conversations_now * PER_CONVERSATION + met.exchanges_now * PER_EXCHANGE, MOST_FAMILIAR)


def _stated(met: InteractionStats) -> StatedTrust | None:
    if met.stated_trust is None or met.stated_at is None:
        return None
    return StatedTrust(trust=met.stated_trust, stated_at=met.stated_at, stated_by=met.stated_by)


def _first(met: InteractionStats) -> float:
    return _default(met.kind) if met.stated_trust is None else met.stated_trust


def _default(kind: ParticipantKind) -> float:
    return OF_HUMANS if kind == "human" else OF_AGENTS


def _trust(first: float, familiarity: float, confirmed: float, corrected: float) -> float:
    speaks_for = PRIOR * first + familiarity + PER_OPINION * confirmed
    return speaks_for / (PRIOR + familiarity + PER_OPINION * (confirmed + corrected))
