"""People: registering participants, merging accounts of one person, and lists of people for the pages."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from roomlore.agents.trust import HALF_LIFE, Relationship, relationship
from roomlore.db import agents as interactions
from roomlore.db import directory, erasure_guard, people_pages
from roomlore.db.directory import NewAccount, ParticipantKey
from roomlore.db.people_pages import PeopleFilter
from roomlore.db.queries import Connection
from roomlore.domain.errors import BadInput, NotAllowed, NotFound
from roomlore.domain.ids import OrgId, ParticipantId, random_id, uuid7
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.records import (
    Account,
    Participant,
    Viewer,
    convert,
)
from roomlore.ingest.clean import MAX_ID, MAX_NAME, MAX_PLATFORM, PARTICIPANT_KINDS
from roomlore.memories.consolidation import rescope
from roomlore.operations.access import Access
from roomlore.operations.registry import operation
from roomlore.search import lookup

#: The platform of accounts that were registered in Roomlore.
OWN_PLATFORM = "roomlore"


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """The participants of an org.

    A participant is named by name, account, id or the beginning of an id. Every method raises NotFound if the caller
    knows nobody by that name, and BadInput if the name is ambiguous. Changes raise NotAllowed unless the caller is an
    operator.
    """

    access: Access

    @operation("GET", "/participants/accounts", name="list_accounts")
    async def accounts(self, viewer: Viewer, participant: str | None = None) -> list[Account]:
        """Return the accounts that the viewer knows, of one person or of everybody."""
        async with self.access.reading(viewer, "list accounts") as reading:
            conn, org_id = reading.conn, self.access.org_id
            key = None if participant is None else await lookup.participant(conn, org_id, participant)
            found = await _accounts_of(conn, org_id, key)
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
        """Register a participant before their first message, and return their account.

        If the account exists, it stays unchanged.

        Args:
            name: Their name until they set another.
            kind: Agent, human or system.
            platform: The platform of the account.
            account: The id of the account on the platform. Default: the name.

        Raises:
            BadInput: an argument cannot be stored, or the account exists with another kind.
        """
        org_id = self.access.org_id
        new = _new_account(name, kind=kind, platform=platform, account=account or name)

        async def work(conn: Connection) -> tuple[Account, Sequence[UUID]]:
            await erasure_guard.lock_shared(conn, org_id)
            await directory.lock_directory(conn, org_id)
            key = (new.platform, new.account_id, new.persona)
            existing = (await directory.accounts_by_key(conn, org_id, [key])).get(key)
            if existing is None:
                await directory.add_participants_with_accounts(conn, org_id, [new])
            elif existing.kind != new.kind:
                raise BadInput(f"account {new.account_id!r}", f"is there already, and is {existing.kind}")
            participant_id = new.participant_id if existing is None else existing.participant_id
            accounts = await _accounts_of(conn, org_id, participant_id)
            [found] = [item for item in accounts if (item.platform, item.account_id, item.persona) == key]
            return found, [participant_id]

        return await self.access.change("administer", "register", work)

    @operation("POST", "/participants/merge", name="merge_participants", replay="once")
    async def merge(self, one: str, other: str) -> list[Account]:
        """Merge two participants into one person, and return all accounts of the person.

        Messages keep their authors. The person may read what each of the accounts may read, and the memories of both
        accounts belong to this person.

        Raises:
            BadInput: they are one person already, or only one is an agent.
        """
        org_id = self.access.org_id

        async def work(conn: Connection) -> tuple[list[Account], Sequence[UUID]]:
            await erasure_guard.lock_shared(conn, org_id)
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
        """Make an account a person of its own, and return the remaining accounts of the former person.

        Raises:
            BadInput: the account is a person of its own already.
        """
        org_id = self.access.org_id

        async def work(conn: Connection) -> tuple[list[Account], Sequence[UUID]]:
            await erasure_guard.lock_shared(conn, org_id)
            await directory.lock_directory(conn, org_id)
            split = await lookup.single_account(conn, org_id, account)
            accounts = await directory.accounts(conn, org_id, split)
            others = [other.id for other in accounts if other.id != split]
            if not others:
                raise BadInput(f"participant {account!r}", "is merged with nobody")
            # If only one account is left, it is no longer merged either.
            await directory.split(conn, org_id, [split] if others[1:] else [split, *others])
            await rescope(conn, org_id, [split, *others])
            return await _accounts_of(conn, org_id, others[0]), [split, *others]

        return await self.access.change("administer", "split", work)


async def _accounts_of(
    conn: Connection, org_id: OrgId, participant_id: ParticipantId | None
) -> list[Account]:
    by_id = {account.id: account for account in await directory.accounts(conn, org_id, participant_id)}
    return [
        Account(
            platform=row.platform,
            account_id=row.account_id,
            persona=row.persona,
            bridged=row.bridged,
            participant_id=row.participant_id,
            name=by_id[row.participant_id].name,
            kind=by_id[row.participant_id].kind,
            is_merged=by_id[row.participant_id].person_id is not None,
        )
        for row in await directory.external_accounts(conn, org_id, by_id)
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
    if len({account.person_id or account.id for account in accounts}) == 1:
        raise BadInput(f"{one!r} and {other!r}", "are one person already")
    if len({account.kind == "agent" for account in accounts}) > 1:
        raise BadInput(f"{one!r} and {other!r}", "are not one person: only one of them is an agent")


@dataclass(frozen=True, slots=True, kw_only=True)
class PeoplePage:
    """A page of people, each with their accounts."""

    #: The person with the most messages comes first.
    people: Sequence[Participant]
    accounts: Sequence[Account]
    #: The number of people on all pages.
    total: int
    #: The number of this page, counted from 1, and the number of all pages.
    number: int
    pages: int
    #: Whether the viewer knows nobody at all, with any filter.
    is_empty: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleDirectory:
    """The people of an org as the pages list them."""

    access: Access

    async def page(
        self, viewer: Viewer, *, named: str = "", kind: str = "", number: int = 1, limit: int
    ) -> PeoplePage:
        """Return page `number` of the people of a kind with `named` in a name or account.

        If there are fewer pages, return the last page.
        """
        async with self.access.reading(viewer, "list participants") as reading:
            conn, skip = reading.conn, (number - 1) * limit
            rows = await people_pages.list_people(
                conn, viewer, PeopleFilter(named=named, kind=kind), skip=skip, limit=limit
            )
            is_empty = not rows and not await people_pages.list_people(
                conn, viewer, PeopleFilter(), skip=0, limit=1
            )
            ids = [account for row in rows for account in row.accounts]
            accounts = await people_pages.accounts_of(conn, self.access.org_id, ids)
            reading.record_shown(ids)
        found = rows[0].found if rows else 0
        pages = max(1, -(-found // limit))
        return PeoplePage(
            people=[convert(Participant, row) for row in rows],
            accounts=accounts,
            total=found,
            number=min(number, pages),
            pages=pages,
            is_empty=is_empty,
        )

    async def one(self, viewer: Viewer, participant_id: ParticipantId) -> tuple[Participant, list[Account]]:
        """Return the person of a participant, and their accounts. Raise NotFound if the viewer does not know them."""
        async with self.access.reading(viewer, "list participants") as reading:
            conn, org_id = reading.conn, self.access.org_id
            ids = await people_pages.accounts_of_person(conn, org_id, participant_id)
            person = PeopleFilter(participant_ids=ids)
            rows = await people_pages.list_people(conn, viewer, person, skip=0, limit=1) if ids else []
            if not rows:
                raise NotFound("person", str(participant_id))
            accounts = await people_pages.accounts_of(conn, org_id, ids)
            reading.record_shown(ids)
        return convert(Participant, rows[0]), accounts

    async def relationships_with(
        self, viewer: Viewer, accounts: Collection[ParticipantId], agents: Sequence[Participant]
    ) -> list[tuple[Participant, Relationship]]:
        """Return the relationships of agents with a person's accounts, in the order of the agents. For operators."""
        if not viewer.is_operator:
            raise NotAllowed("an agent's relationships are for itself and operators")
        found: list[tuple[Participant, Relationship]] = []
        async with self.access.reading(viewer, "list relationships") as reading:
            conn, org_id, now = reading.conn, self.access.org_id, datetime.now(UTC)
            for agent in agents:
                rows = await interactions.interactions(
                    conn, org_id, agent.accounts, people=accounts, at=now, half_life=HALF_LIFE
                )
                ranked = sorted(map(relationship, rows), key=lambda row: (-row.trust, row.name))
                found += [(agent, row) for row in ranked]
            reading.record_shown(row.participant_id for _, row in found)
        return found
