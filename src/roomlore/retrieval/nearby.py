"""What is near whoever asks goes first among what fits alike.

Near are their own words, those of people they talk to most, and what the memories about them rest on. It only orders anew: nothing is found by it that was not found without it, and nothing is lost.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from roomlore.domain.ids import MessageId, ParticipantId
from roomlore.retrieval.records import MatchReason
from roomlore.retrieval.scoring import unit_range

#: What is added to the score, of which the best have 1 and the least 0: for one's own words, for those of whoever one
#: talks to most, and for what the weightiest memory about oneself rests on.
OWN_BOOST, PERSON_BOOST, TOPIC_BOOST = 0.1, 0.05, 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class ProximityBoost:
    """Who and what is near whoever asks, each from 0 to 1."""

    own_account_ids: frozenset[ParticipantId]
    person_weights: Mapping[ParticipantId, float] = field(default_factory=dict[ParticipantId, float])
    #: By message: those that memories near them rest on.
    message_weights: Mapping[MessageId, float] = field(default_factory=dict[MessageId, float])

    def boost_for(self, message_id: MessageId, author_id: ParticipantId | None) -> float:
        """Return what is added to a score of 0 to 1."""
        if author_id is None:
            person = 0.0
        else:
            person = OWN_BOOST if author_id in self.own_account_ids else PERSON_BOOST * self.person_weights.get(author_id, 0.0)
        return person + TOPIC_BOOST * self.message_weights.get(message_id, 0.0)


def boost_near(
    reasons: Mapping[MessageId, MatchReason],
    authors: Mapping[MessageId, ParticipantId],
    nearness: ProximityBoost,
) -> dict[MessageId, MatchReason]:
    """Return the reasons with nearness in the scores of those that have an author here, best first.

    The scores keep to the range that these had: what is not among them stays behind or before them.
    """
    first = [key for key in reasons if key in authors]
    if not first:
        return dict(reasons)
    least, greatest = reasons[first[-1]].score, reasons[first[0]].score
    plain = unit_range(np.array([reasons[key].score for key in first]))
    total = unit_range(plain + np.array([nearness.boost_for(key, authors[key]) for key in first]))
    scored: dict[MessageId, MatchReason] = {
        key: replace(reasons[key], score=float(least + (greatest - least) * part))
        for key, part in zip(first, total, strict=True)
    }
    found = {**reasons, **scored}
    return dict(sorted(found.items(), key=lambda item: (-item[1].score, item[0])))
