"""People: whose accounts the participants are."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from roomlore.app.desk import Access
from roomlore.app.operation import operation
from roomlore.domain.errors import BadInput
from roomlore.domain.ids import OrgId, ParticipantId, random_id, uuid7
from roomlore.domain.incoming import ParticipantKind
from roomlore.domain.records import Account, Viewer
from roomlore.ingest.clean import MAX_ID, MAX_NAME, MAX_PLATFORM, PARTICIPANT_KINDS
from roomlore.remembering.keep import rescope
from roomlore.retrieval import meant
from roomlore.store import directory, erased
from roomlore.store.directory import NewAccount, ParticipantKey
from roomlore.store.queries import Connection

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
            one = None if participant is None else await meant.participant(conn, org_id, participant)
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
            first = await meant.participant(conn, org_id, one)
            second = await meant.participant(conn, org_id, other)
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
            parted = await meant.single_account(conn, org_id, account)
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
