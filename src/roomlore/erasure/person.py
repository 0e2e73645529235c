"""A person goes with all accounts: words, names, presence, memories, and their traces in what others said."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from roomlore.domain.ids import OrgId, ParticipantId
from roomlore.domain.names import words_of
from roomlore.domain.scrub import Trace
from roomlore.erasure import others
from roomlore.erasure.messages import make_holes_of
from roomlore.erasure.others import Traces
from roomlore.store import erased, erasednames, erasing, injections, keeping, readings
from roomlore.store.queries import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class GonePerson:
    """How much of what went with a person, and how they were called, for the second look."""

    tally: Counter[str]
    traces: Traces


async def erase(
    conn: Connection, org_id: OrgId, accounts: Sequence[ParticipantId], *, at: datetime
) -> GonePerson:
    """Remove the participants who are accounts of one person, and return how much of what went.

    What an agent made of what others said stays: memories are the org's, and no agent is owed to be forgotten by it.
    """
    names = await erasing.names_of(conn, org_id, accounts)
    account_names = await erasing.accounts_of(conn, org_id, accounts)
    traced = others.traces(account_names, names)
    tally = await make_holes_of(conn, org_id, accounts, at=at)
    if all(known.is_agent for known in (await keeping.people(conn, org_id, accounts)).values()):
        await keeping.disown(conn, org_id, accounts)
    else:
        tally.update(await _drop_memories(conn, org_id, accounts, names=names))
        tally["name digests"] = await erasednames.remember(conn, org_id, words_of(names), at=at)
    tally["injections"] += await injections.take_back_from(conn, org_id, accounts)
    tally.update(await erasing.drop_person(conn, org_id, accounts))
    tally.update(await others.scrub(conn, org_id, traced))
    keys = await erasednames.keys_called(conn, org_id, names)
    tally["names of keys"] += sum(Trace(names=names).is_named_in(key) for key in keys)
    await erased.remember_accounts(conn, org_id, account_names, at=at)
    tally["digests"] = len(account_names)
    return GonePerson(tally=tally, traces=traced)


async def _drop_memories(
    conn: Connection, org_id: OrgId, accounts: Sequence[ParticipantId], *, names: frozenset[str]
) -> Counter[str]:
    """Remove memories by and about participants and those that name them; labels and readings too."""
    tally = Counter[str]()
    tally.update(await erasing.drop_memories(conn, org_id, await erasing.memories_of(conn, org_id, accounts)))
    called = Trace(names=names)
    saying = await erasing.memories_saying(conn, org_id, names, participant_ids=accounts)
    naming = [memory for memory in saying if called.is_named_in(memory.content)]
    tags = await erasednames.tags_saying(conn, org_id, names)
    tally["tags"] += await erasednames.drop_tags(
        conn, org_id, [one for one in tags if called.is_named_in(one.tag)]
    )
    involved = [memory.id for memory in naming if memory.is_involved]
    tally.update(await erasing.drop_memories(conn, org_id, involved))
    tally["names in others' memories"] += len(naming) - len(involved)
    tally["readings"] += await readings.drop_saying(conn, org_id, names)
    labels = await erasing.labels_saying(conn, org_id, names)
    told = [label.id for label in labels if called.is_named_in(label.label)]
    tally["labels"] += await erasing.empty_labels(conn, org_id, told)
    return tally
