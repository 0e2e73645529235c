"""People as a server lists them."""

from dataclasses import dataclass
from datetime import datetime

from roomlore.domain.ids import ParticipantId
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.records import Account, Participant


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonResponse:
    """Somebody who takes part, with all their accounts, as a server lists them."""

    id: ParticipantId
    accounts: list[Account]
    name: str
    kind: ParticipantKind
    message_count: int
    first_seen_at: datetime | None
    last_seen_at: datetime | None

    def participant(self) -> Participant:
        """Return the participant: what a platform calls each account is told elsewhere."""
        keys = dict.fromkeys((self.id, *(one.participant_id for one in self.accounts)))
        return Participant(
            id=self.id,
            accounts=list(keys),
            name=self.name,
            kind=self.kind,
            message_count=self.message_count,
            first_seen_at=self.first_seen_at,
            last_seen_at=self.last_seen_at,
        )
