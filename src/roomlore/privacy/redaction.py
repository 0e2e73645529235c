"""Redacts an erased person in the messages of other people, where structured data of the platform names the person.

Names in plain words stay. They are counted for the receipt.
"""

import json
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import replace

from roomlore.db import disentanglement, erasure, llm_calls, outbox, work_queue
from roomlore.db.erasure import MessageContents
from roomlore.db.erasure_guard import AccountName
from roomlore.db.queries import Connection
from roomlore.domain.ids import OrgId
from roomlore.domain.redaction import PRIVATE_KINDS, PersonAliases, Redactor, without_names

#: Messages per batch: original records may be large.
BATCH = 200
IdentifiersByPlatform = Mapping[str, PersonAliases]


def identifiers_of(accounts: Iterable[AccountName], names: frozenset[str]) -> IdentifiersByPlatform:
    """Return the accounts and names of a person by platform.

    An account that several personas share belongs to no single person, so it is left out.
    """
    own: dict[str, set[str]] = defaultdict(set)
    for platform, account_id, persona in accounts:
        own[platform] |= {account_id} if account_id and not persona else set[str]()
    return {
        platform: PersonAliases(accounts=frozenset(account_ids), names=names)
        for platform, account_ids in own.items()
    }


async def redact(conn: Connection, org_id: OrgId, identifiers: IdentifiersByPlatform) -> Counter[str]:
    """Redact a person in other people's messages. Return how many changed, and how many still name the person."""
    tally = Counter[str]()
    for platform, aliases in identifiers.items():
        async for messages in _messages_mentioning(conn, org_id, platform, aliases):
            redacted = [redacted_message(message, aliases) for message in messages]
            changed = [after for before, after in zip(messages, redacted, strict=True) if after != before]
            if changed:
                await erasure.rewrite_messages(conn, org_id, changed)
                ids = [message.id for message in changed]
                await disentanglement.mark_messages_dirty(conn, org_id, ids)
                tally["language model calls"] += await llm_calls.drop_with_messages(conn, org_id, ids)
            visible = [
                after.id
                for before, after in zip(messages, redacted, strict=True)
                if replace(after, raw=before.raw) != before
            ]
            # Nobody can see the original record. So if only the original record changes, there is no event.
            await outbox.append(conn, org_id, "message.revised", visible)
            new_texts = [
                after.id
                for before, after in zip(messages, redacted, strict=True)
                if after.body != before.body
            ]
            if new_texts:
                await work_queue.reembed(conn, org_id, new_texts)
            tally["mentions in others' messages"] += len(changed)
            tally["names in others' words"] += sum(
                _is_named_in_text(message, aliases) for message in redacted
            )
            tally["names in others' records"] += sum(
                _is_named_in_fields(message, aliases) for message in redacted
            )
        tally.update(await _rename_rooms(conn, org_id, platform, aliases))
    return tally


async def _rename_rooms(
    conn: Connection, org_id: OrgId, platform: str, aliases: PersonAliases
) -> Counter[str]:
    """Redact a person in names and topics of private rooms, and count the other rooms that name the person."""
    rooms = await erasure.rooms_containing(conn, org_id, platform, aliases.names)
    naming = [room for room in rooms if aliases.is_named_in(room.name) or aliases.is_named_in(room.topic)]
    renamed = [
        replace(room, name=without_names(room.name, aliases), topic=aliases.redact_names(room.topic))
        for room in naming
        if room.kind in PRIVATE_KINDS
    ]
    count = await erasure.rename_rooms(conn, org_id, renamed)
    return Counter({"room names": count, "names of rooms": len(naming) - len(renamed)})


async def count_remaining(conn: Connection, org_id: OrgId, identifiers: IdentifiersByPlatform) -> int:
    """Return how many messages of other people still have something to redact. After an erasure, this must be 0."""
    count = 0
    for platform, aliases in identifiers.items():
        async for messages in _messages_mentioning(conn, org_id, platform, aliases):
            count += sum(redacted_message(message, aliases) != message for message in messages)
    return count


def redacted_message(message: MessageContents, aliases: PersonAliases) -> MessageContents:
    """Return a message of somebody else in which the person is redacted."""
    redactor = Redactor(
        aliases=aliases,
        mentions_them=aliases.has_account_in(message.mentions),
        is_notice=message.kind == "system",
        author_name=message.author_name,
    )
    return replace(
        message,
        body=redactor.text(message.body),
        earlier=[redactor.text(body) for body in message.earlier],
        mentions=redactor.ids(message.mentions) or None,
        reactions=redactor.reactions(message.reactions),
        attachments=redactor.value(message.attachments),
        metadata=redactor.value(message.metadata),
        raw=redactor.value(message.raw),
    )


async def _messages_mentioning(
    conn: Connection, org_id: OrgId, platform: str, aliases: PersonAliases
) -> AsyncGenerator[Sequence[MessageContents]]:
    ids = await erasure.messages_containing(
        conn, org_id, platform, strings=sorted(aliases.accounts | aliases.names)
    )
    for start in range(0, len(ids), BATCH):
        yield await erasure.message_contents(conn, org_id, ids[start : start + BATCH])


def _is_named_in_fields(message: MessageContents, aliases: PersonAliases) -> bool:
    """Return whether the structured fields of a message contain a name of the person."""
    fields = (message.attachments, message.metadata, message.raw)
    return any(
        aliases.is_named_in(json.dumps(field, ensure_ascii=False)) for field in fields if field is not None
    )


def _is_named_in_text(message: MessageContents, aliases: PersonAliases) -> bool:
    return any(aliases.is_named_in(text) for text in (message.body, *message.earlier))
