"""Those who take part, page by page, or one of them, with their accounts: what pages for people show of `People`."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from roomlore.agents.trust import HALF_LIFE, Relationship, relationship
from roomlore.app.desk import Access
from roomlore.domain.errors import NotAllowed, NotFound
from roomlore.domain.ids import ParticipantId
from roomlore.domain.records import Account, Participant, Viewer
from roomlore.store import agents as encounters
from roomlore.store import browsing
from roomlore.store.browsing import PersonRow, PeopleFilter


@dataclass(frozen=True, slots=True, kw_only=True)
class PeoplePage:
    """Some of those who take part, and their accounts."""

    #: Most talkative first.
    people: Sequence[Participant]
    accounts: Sequence[Account]
    #: How many are meant, on all pages.
    found: int
    #: Which page this is, from 1, and of how many.
    number: int
    pages: int
    #: Whether the viewer knows of anybody, whatever they are called.
    is_empty: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleDirectory:
    """Reads people, as far as viewers may know them."""

    access: Access

    async def page(
        self, viewer: Viewer, *, named: str = "", kind: str = "", number: int = 1, limit: int
    ) -> PeoplePage:
        """Return a page of those who have something in a name or account; the last where there are not so many.

        Args:
            viewer: For whom.
            named: A part of a name or account, whatever its case; empty is all.
            kind: Only such; empty is all.
            number: Which page, from 1.
            limit: How many are on one.
        """
        async with self.access.reading(viewer, "list participants") as reading:
            sought = PeopleFilter(named=named, kind=kind)
            skip = (number - 1) * limit
            met = await browsing.list_people(reading.conn, viewer, sought, skip=skip, limit=limit)
            is_empty = not met and not await browsing.list_people(reading.conn, viewer, PeopleFilter(), skip=0, limit=1)
            ids = _account_ids(met)
            accounts = await browsing.accounts_of(reading.conn, self.access.org_id, ids)
            reading.record_shown(ids)
        found = met[0].found if met else 0
        pages = max(1, -(-found // limit))
        return PeoplePage(
            people=_participant_ids(met),
            accounts=accounts,
            found=found,
            number=min(number, pages),
            pages=pages,
            is_empty=is_empty,
        )

    async def one(self, viewer: Viewer, participant_id: ParticipantId) -> tuple[Participant, list[Account]]:
        """Return the person of a participant, and their accounts.

        Raises:
            NotFound: nobody is meant, or nobody whom the viewer may know of.
        """
        async with self.access.reading(viewer, "list participants") as reading:
            conn, org_id = reading.conn, self.access.org_id
            ids = await browsing.accounts_of_person(conn, org_id, participant_id)
            sought = PeopleFilter(participant_ids=ids)
            met = await browsing.list_people(conn, viewer, sought, skip=0, limit=1) if ids else []
            if not met:
                raise NotFound("person", str(participant_id))
            accounts = await browsing.accounts_of(conn, org_id, ids)
            reading.record_shown(ids)
        return _participant_ids(met)[0], accounts

    async def relationships_with(
        self, viewer: Viewer, accounts: Collection[ParticipantId], agents: Sequence[Participant]
    ) -> list[tuple[Participant, Relationship]]:
        """Return what agents make of somebody, by whatever account, as far as they met, in the order of the agents.

        Raises:
            NotAllowed: the viewer is no operator.
        """
        if not viewer.is_operator:
            raise NotAllowed("what an agent makes of others is its own and operators' to see")
        found: list[tuple[Participant, Relationship]] = []
        async with self.access.reading(viewer, "list relationships") as reading:
            conn, org_id, now = reading.conn, self.access.org_id, datetime.now(UTC)
            for agent in agents:
                met = await encounters.interactions(
                    conn, org_id, agent.accounts, people=accounts, at=now, half_life=HALF_LIFE
                )
                made = sorted(map(relationship, met), key=lambda one: (-one.trust, one.name))
                found += [(agent, one) for one in made]
            reading.record_shown(one.participant_id for _, one in found)
        return found


def _account_ids(met: Iterable[PersonRow]) -> list[ParticipantId]:
    return [account for one in met for account in one.accounts]


def _participant_ids(met: Iterable[PersonRow]) -> list[Participant]:
    return [
        Participant(
            id=one.id,
            accounts=one.accounts,
            name=one.name,
            kind=one.kind,
            message_count=one.message_count,
            first_seen_at=one.first_seen_at,
            last_seen_at=one.last_seen_at,
        )
        for one in met
    ]
