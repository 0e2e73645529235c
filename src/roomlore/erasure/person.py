"""A person goes with all accounts: words, names, presence, memories, and their traces in what others said."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from roomlore.domain.ids import OrgId, ParticipantId
from roomlore.domain.names import name_words
from roomlore.domain.scrub import PersonAliases
from roomlore.erasure import others
from roomlore.erasure.messages import erase_messages_by
from roomlore.erasure.others import IdentifiersByPlatform
from roomlore.store import erased, erasednames, erasing, injections, keeping, readings
from roomlore.store.queries import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedPerson:
    """How much of what went with a person, and how they were called, for the second look."""

    tally: Counter[str]
    traces: IdentifiersByPlatform


async def erase_person(
    conn: Connection, org_id: OrgId, accounts: Sequence[ParticipantId], *, at: datetime
) -> ErasedPerson:
    """Remove the participants who are accounts of one person, and return how much of what went.

    What an agent made of what others said stays: memories are the org's, and no agent is owed to be forgotten by it.
    """
    names = await erasing.names_of(conn, org_id, accounts)
    account_names = await erasing.accounts_of(conn, org_id, accounts)
    traced = others.identifiers_of(account_names, names)
    tally = await erase_messages_by(conn, org_id, accounts, at=at)
    if all(known.is_agent for known in (await keeping.participants_by_id(conn, org_id, accounts)).values()):
        await keeping.anonymise(conn, org_id, accounts)
    else:
        tally.update(await _erase_memories(conn, org_id, accounts, names=names))
        tally["name digests"] = await erasednames.add_names(conn, org_id, name_words(names), at=at)
    tally["injections"] += await injections.revoke_from_agents(conn, org_id, accounts)
    tally.update(await erasing.drop_person(conn, org_id, accounts))
    tally.update(await others.redact(conn, org_id, traced))
    keys = await erasednames.keys_containing(conn, org_id, names)
    tally["names of keys"] += sum(PersonAliases(names=names).is_named_in(key) for key in keys)
    await erased.add_accounts(conn, org_id, account_names, at=at)
    tally["digests"] = len(account_names)
    return ErasedPerson(tally=tally, traces=traced)


async def _erase_memories(
    conn: Connection, org_id: OrgId, accounts: Sequence[ParticipantId], *, names: frozenset[str]
) -> Counter[str]:
    """Remove memories by and about participants and those that name them; labels and readings too."""
    tally = Counter[str]()
    tally.update(await erasing.drop_memories(conn, org_id, await erasing.memories_of(conn, org_id, accounts)))
    called = PersonAliases(names=names)
    saying = await erasing.memories_containing(conn, org_id, names, participant_ids=accounts)
    naming = [memory for memory in saying if called.is_named_in(memory.content)]
    tags = await erasednames.tags_containing(conn, org_id, names)
    tally["tags"] += await erasednames.drop_tags(
        conn, org_id, [one for one in tags if called.is_named_in(one.tag)]
    )
    involved = [memory.id for memory in naming if memory.is_involved]
    tally.update(await erasing.drop_memories(conn, org_id, involved))
    tally["names in others' memories"] += len(naming) - len(involved)
    tally["readings"] += await readings.drop_containing(conn, org_id, names)
    labels = await erasing.labels_containing(conn, org_id, names)
    told = [label.id for label in labels if called.is_named_in(label.label)]
    tally["labels"] += await erasing.clear_labels(conn, org_id, told)
    return tally
