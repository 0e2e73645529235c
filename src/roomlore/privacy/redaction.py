"""Somebody who goes is taken out of what others said, as far as the platform's own structure names them.

Plain words stay as said and are counted, for the receipt.
"""

import json
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import replace

from roomlore.db import disentanglement, erased, erasure, llm_calls, outbox, work_queue
from roomlore.db.erased import AccountName
from roomlore.db.erasure import MessageContents
from roomlore.db.queries import Connection
from roomlore.domain.ids import OrgId
from roomlore.domain.redaction import PRIVATE_KINDS, PersonAliases, Redactor, without_names

#: How many messages are looked at together: foreign records may be large.
BATCH = 200
#: Traces by platform.
IdentifiersByPlatform = Mapping[str, PersonAliases]


def identifiers_of(accounts: Iterable[AccountName], names: frozenset[str]) -> IdentifiersByPlatform:
    """Return how somebody with these accounts and names is called on each platform where they have one.

    An account that speaks for several personas is nobody's own, and stays.
    """
    own: dict[str, set[str]] = defaultdict(set)
    for platform, account_id, persona in accounts:
        own[platform] |= {account_id} if account_id and not persona else set[str]()
    return {
        platform: PersonAliases(accounts=frozenset(account_ids), names=names)
        for platform, account_ids in own.items()
    }


async def redact(conn: Connection, org_id: OrgId, identifiers: IdentifiersByPlatform) -> Counter[str]:
    """Take somebody out of what others said; return how many messages changed, and how many name them still."""
    tally = Counter[str]()
    for platform, trace in identifiers.items():
        async for said in _messages_mentioning(conn, org_id, platform, trace):
            scrubbed = [redacted_message(one, trace) for one in said]
            changed = [after for before, after in zip(said, scrubbed, strict=True) if after != before]
            if changed:
                await erasure.rewrite_messages(conn, org_id, changed)
                ids = [one.id for one in changed]
                await disentanglement.mark_messages_dirty(conn, org_id, ids)
                tally["readings"] += await llm_calls.drop_with_messages(conn, org_id, ids)
            shown = [
                after.id
                for before, after in zip(said, scrubbed, strict=True)
                if replace(after, raw=before.raw) != before
            ]
            # What a platform sent is kept and shown to nobody.
            await outbox.append(conn, org_id, "message.revised", shown)
            retold = [
                after.id for before, after in zip(said, scrubbed, strict=True) if after.body != before.body
            ]
            if retold:
                await work_queue.reembed(conn, org_id, retold)
            tally["mentions in others' messages"] += len(changed)
            tally["names in others' words"] += sum(_is_named_in_text(one, trace) for one in scrubbed)
            tally["names in others' records"] += sum(_is_named_in_fields(one, trace) for one in scrubbed)
        tally.update(await _rename_rooms(conn, org_id, platform, trace))
    return tally


async def _rename_rooms(conn: Connection, org_id: OrgId, platform: str, trace: PersonAliases) -> Counter[str]:
    """Take somebody out of what rooms for a few are called and are for; return how many, and how many others name them."""
    rooms = await erased.rooms_containing(conn, org_id, platform, trace.names)
    naming = [room for room in rooms if trace.is_named_in(room.name) or trace.is_named_in(room.topic)]
    renamed = [
        replace(room, name=without_names(room.name, trace), topic=trace.redact_names(room.topic))
        for room in naming
        if room.kind in PRIVATE_KINDS
    ]
    count = await erased.rename_rooms(conn, org_id, renamed)
    return Counter({"room names": count, "names of rooms": len(naming) - len(renamed)})


async def count_remaining(conn: Connection, org_id: OrgId, identifiers: IdentifiersByPlatform) -> int:
    """Return how many messages of others would still change: after an erasure none."""
    found = 0
    for platform, trace in identifiers.items():
        async for said in _messages_mentioning(conn, org_id, platform, trace):
            found += sum(redacted_message(one, trace) != one for one in said)
    return found


def redacted_message(said: MessageContents, trace: PersonAliases) -> MessageContents:
    """Return a message without the traces of somebody who is not its author."""
    scrubber = Redactor(
        aliases=trace,
        mentions_them=trace.has_account_in(said.mentions),
        is_notice=said.kind == "system",
        author_name=said.author_name,
    )
    return replace(
        said,
        body=scrubber.text(said.body),
        earlier=[scrubber.text(body) for body in said.earlier],
        mentions=scrubber.ids(said.mentions) or None,
        reactions=scrubber.reactions(said.reactions),
        attachments=scrubber.value(said.attachments),
        metadata=scrubber.value(said.metadata),
        raw=scrubber.value(said.raw),
    )


async def _messages_mentioning(
    conn: Connection, org_id: OrgId, platform: str, trace: PersonAliases
) -> AsyncGenerator[Sequence[MessageContents]]:
    ids = await erasure.messages_containing(
        conn, org_id, platform, strings=sorted(trace.accounts | trace.names)
    )
    for start in range(0, len(ids), BATCH):
        yield await erasure.message_contents(conn, org_id, ids[start : start + BATCH])


def _is_named_in_fields(said: MessageContents, trace: PersonAliases) -> bool:
    """Return whether something that came with a message, and nobody said in it, has one of the names in its words."""
    fields = (said.attachments, said.metadata, said.raw)
    return any(
        trace.is_named_in(json.dumps(field, ensure_ascii=False)) for field in fields if field is not None
    )


def _is_named_in_text(said: MessageContents, trace: PersonAliases) -> bool:
    return any(trace.is_named_in(text) for text in (said.body, *said.earlier))
