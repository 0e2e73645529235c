"""People: whose accounts the participants are."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from roomlore.agents.trust import HALF_LIFE, Relationship, relationship
from roomlore.db import agents as encounters
from roomlore.db import directory, erased, people_pages
from roomlore.db.directory import NewAccount, ParticipantKey
from roomlore.db.people_pages import PeopleFilter, PersonRow
from roomlore.db.queries import Connection
from roomlore.domain.errors import BadInput, NotAllowed, NotFound
from roomlore.domain.ids import OrgId, ParticipantId, random_id, uuid7
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.records import Account, Participant, Viewer
from roomlore.ingest.clean import MAX_ID, MAX_NAME, MAX_PLATFORM, PARTICIPANT_KINDS
from roomlore.memories.consolidation import rescope
from roomlore.operations.access import Access
from roomlore.operations.registry import operation
from roomlore.search import lookup

#: The platform of accounts that no other platform knows.
OWN_PLATFORM = "roomlore"


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """Participants: added before they speak, put together as accounts of one person, and taken apart again."""

    access: Access

    @operation("GET", "/participants/accounts", name="list_accounts")
    async def accounts(self, viewer: Viewer, participant: str | None = None) -> list[Account]:
        """Return the accounts of a person, or of everybody, as far as the viewer may know them.

        Args:
            viewer: For whom.
            participant: A name, account, id or beginning of an id; None means everybody.

        Raises:
            NotFound: nobody is meant, or nobody the viewer may know of.
            BadInput: several are meant.
        """
        async with self.access.reading(viewer, "list accounts") as reading:
            conn, org_id = reading.conn, self.access.org_id
            one = None if participant is None else await lookup.participant(conn, org_id, participant)
            found = await _accounts_of(conn, org_id, one)
            reading.record_shown(account.participant_id for account in found)
        return found

    @operation(
        "POST", "/participants", name="register_participant", replay="once", is_repeatable=True, status=201
    )
    async def register(
        self,
        name: str,
        *,
        kind: ParticipantKind = "agent",
        platform: str = OWN_PLATFORM,
        account: str | None = None,
    ) -> Account:
        """Add a participant who has not spoken yet and return their account; one that is there already stays as it is.

        Args:
            name: What they are called until they call themselves something else.
            kind: Whether they are an agent.
            platform: Where they speak, as rooms of that platform call it.
            account: Their account id there; the name by default.

        Raises:
            BadInput: name, kind, platform or account cannot be stored, or the account is of another kind.
            NotAllowed: the caller is no operator.
        """
        org_id = self.access.org_id
        wanted = _new_account(name, kind=kind, platform=platform, account=account or name)

        async def work(conn: Connection) -> tuple[Account, Sequence[UUID]]:
            await erased.lock_shared(conn, org_id)
            await directory.lock_directory(conn, org_id)
            key = (wanted.platform, wanted.account_id, wanted.persona)
            held = (await directory.accounts_by_key(conn, org_id, [key])).get(key)
            if held is None:
                await directory.add_participants_with_accounts(conn, org_id, [wanted])
            elif held.kind != wanted.kind:
                raise BadInput(f"account {wanted.account_id!r}", f"is there already, and is {held.kind}")
            participant_id = wanted.participant_id if held is None else held.participant_id
            accounts = await _accounts_of(conn, org_id, participant_id)
            [account] = [one for one in accounts if (one.platform, one.account_id, one.persona) == key]
            return account, [participant_id]

        return await self.access.change("administer", "register", work)

    @operation("POST", "/participants/merge", name="merge_participants", replay="once")
    async def merge(self, one: str, other: str) -> list[Account]:
        """Say that two participants are accounts of one person, and return all accounts of it.

        Nothing said is rewritten: a merge decides what the person may read, and which memories are of one person.

        Raises:
            NotFound: one of them is nobody.
            BadInput: several are meant, they are one person already, or one is an agent and the other is not.
            NotAllowed: the caller is no operator.
        """
        org_id = self.access.org_id

        async def work(conn: Connection) -> tuple[list[Account], Sequence[UUID]]:
            await erased.lock_shared(conn, org_id)
            await directory.lock_directory(conn, org_id)
            first = await lookup.participant(conn, org_id, one)
            second = await lookup.participant(conn, org_id, other)
            found = [await directory.accounts(conn, org_id, participant) for participant in (first, second)]
            merged = {account.id: account for accounts in found for account in accounts}
            _check_mergeable(one, other, list(merged.values()))
            await directory.merge(conn, org_id, merged, person_id=uuid7())
            await rescope(conn, org_id, merged)
            return await _accounts_of(conn, org_id, first), list(merged)

        return await self.access.change("administer", "merge", work)

    @operation("POST", "/participants/split", name="split_participant", replay="once")
    async def split(self, account: str) -> list[Account]:
        """Say that a participant is a person of its own, and return the accounts it was parted from.

        Raises:
            NotFound: nobody is meant.
            BadInput: several are meant, or it is a person of its own already.
            NotAllowed: the caller is no operator.
        """
        org_id = self.access.org_id

        async def work(conn: Connection) -> tuple[list[Account], Sequence[UUID]]:
            await erased.lock_shared(conn, org_id)
            await directory.lock_directory(conn, org_id)
            parted = await lookup.single_account(conn, org_id, account)
            accounts = await directory.accounts(conn, org_id, parted)
            others = [other.id for other in accounts if other.id != parted]
            if not others:
                raise BadInput(f"participant {account!r}", "is merged with nobody")
            # Whoever is left alone is merged with nobody either.
            await directory.split(conn, org_id, [parted] if others[1:] else [parted, *others])
            await rescope(conn, org_id, [parted, *others])
            return await _accounts_of(conn, org_id, others[0]), [parted, *others]

        return await self.access.change("administer", "split", work)


async def _accounts_of(
    conn: Connection, org_id: OrgId, participant_id: ParticipantId | None
) -> list[Account]:
    by_id = {account.id: account for account in await directory.accounts(conn, org_id, participant_id)}
    return [
        Account(
            platform=identity.platform,
            account_id=identity.account_id,
            persona=identity.persona,
            bridged=identity.bridged,
            participant_id=identity.participant_id,
            name=by_id[identity.participant_id].name,
            kind=by_id[identity.participant_id].kind,
            is_merged=by_id[identity.participant_id].person_id is not None,
        )
        for identity in await directory.external_accounts(conn, org_id, by_id)
    ]


def _new_account(name: str, *, kind: ParticipantKind, platform: str, account: str) -> NewAccount:
    if kind not in PARTICIPANT_KINDS:
        raise BadInput("kind", f"must be one of {', '.join(PARTICIPANT_KINDS)}")
    for what, word, longest in (
        ("name", name, MAX_NAME),
        ("platform", platform, MAX_PLATFORM),
        ("account", account, MAX_ID),
    ):
        if not word.strip() or not word.isprintable() or len(word) > longest:
            raise BadInput(what, f"must be printable, of 1 to {longest} characters")
    return NewAccount(
        platform=platform,
        account_id=account,
        persona="",
        participant_id=ParticipantId(random_id()),
        kind=kind,
        name=name,
        bridged=False,
    )


def _check_mergeable(one: str, other: str, accounts: Sequence[ParticipantKey]) -> None:
    persons = {account.person_id or account.id for account in accounts}
    if len(persons) == 1:
        raise BadInput(f"{one!r} and {other!r}", "are one person already")
    if len({account.kind == "agent" for account in accounts}) > 1:
        raise BadInput(f"{one!r} and {other!r}", "are not one person: only one of them is an agent")


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
            met = await people_pages.list_people(reading.conn, viewer, sought, skip=skip, limit=limit)
            is_empty = not met and not await people_pages.list_people(
                reading.conn, viewer, PeopleFilter(), skip=0, limit=1
            )
            ids = _account_ids(met)
            accounts = await people_pages.accounts_of(reading.conn, self.access.org_id, ids)
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
            ids = await people_pages.accounts_of_person(conn, org_id, participant_id)
            sought = PeopleFilter(participant_ids=ids)
            met = await people_pages.list_people(conn, viewer, sought, skip=0, limit=1) if ids else []
            if not met:
                raise NotFound("person", str(participant_id))
            accounts = await people_pages.accounts_of(conn, org_id, ids)
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
