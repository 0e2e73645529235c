"""Brings what wishes may be about from their room, and never the whole room.

What was said just before, what their authors said of a topic, who says a value, and what answers what: each is
looked for in the database by place, author, word or edge.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from roomlore.domain.ids import MessageId, OrgId, ParticipantId, RoomId
from roomlore.store import wishes as kept
from roomlore.store.queries import Connection
from roomlore.store.wishes import SoughtWord
from roomlore.wishes.covering import MAX_SECRET_USES, MAX_DISTANCE, messages_before, referenced_messages, with_revealing_parts, word_stems, request_values
from roomlore.wishes.marks import is_distinctive, tokens_of
from roomlore.wishes.records import RequestScope, ScreenedMessage, RequestMessage
from roomlore.wishes.rows import to_message

#: A value that nobody says by chance, and that more messages have than these, is looked for no further.
MAX_OCCURRENCES = 200
#: So many messages back a restriction reaches, of those that are there when it is heard.
MAX_MESSAGES_BACK = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomExcerpt:
    """As much of a room as some wishes may be about."""

    #: In the order of the room.
    messages: Sequence[ScreenedMessage]
    #: By the message that voices a wish: what it names that is said too often for all who say it to be here.
    common: Mapping[MessageId, frozenset[str]] = field(default_factory=dict[MessageId, frozenset[str]])
    #: By the same: who was there when it was said.
    present: Mapping[MessageId, frozenset[ParticipantId]] = field(
        default_factory=dict[MessageId, frozenset[ParticipantId]]
    )


async def load_excerpt(conn: Connection, org_id: OrgId, room_id: RoomId, voices: Sequence[RequestMessage]) -> RoomExcerpt:
    """Return what wishes of a room may be about, themselves included, and whoever may be covered by them."""
    looked = _ExcerptLoader(conn=conn, org_id=org_id)
    ids = [voice.message.id for voice in voices]
    parents = [voice.message.reply_to for voice in voices if voice.message.reply_to is not None]
    await looked.load([*ids, *parents, *await kept.messages_before(conn, org_id, ids, most=MAX_DISTANCE)])
    topics = {(voice.message.author_id, _like_pattern(stem)) for voice in voices for stem in word_stems(voice.request.subject)}
    if topics:
        await looked.load(await kept.messages_by_word(conn, org_id, room_id, topics))
    meant = {voice.message.id: looked.referenced(voice) for voice in voices}
    about = {message_id for found in meant.values() for message_id in found}
    if about:
        await looked.load(await kept.reply_neighbours(conn, org_id, about))
    values = {
        voice.message.id: request_values(voice.request, voice.message, looked.before(voice), about=meant[voice.message.id])
        for voice in voices
        if voice.request.kind == "forget"
    }
    common = await looked.load_common(room_id, values)
    return RoomExcerpt(messages=looked.in_order(), common=common)


async def load_present(
    conn: Connection, org_id: OrgId, ids: Collection[MessageId]
) -> dict[MessageId, frozenset[ParticipantId]]:
    """Return who was there when messages were said, as far as the platform tells."""
    found: dict[MessageId, set[ParticipantId]] = defaultdict(set)
    for one in await kept.present_participants(conn, org_id, ids):
        found[one.message_id].add(one.participant_id)
    return {message_id: frozenset(those) for message_id, those in found.items()}


async def load_starts(conn: Connection, org_id: OrgId, ids: Collection[MessageId]) -> dict[MessageId, datetime]:
    """Return how far back restrictions reach that these messages voice; of those left out, to the beginning."""
    found = await kept.restriction_starts(conn, org_id, ids, back=MAX_MESSAGES_BACK)
    return {one.message_id: one.sent_at for one in found}


async def load_restricted(
    conn: Connection,
    org_id: OrgId,
    room_id: RoomId,
    scope: RequestScope,
    *,
    among: Collection[MessageId] | None = None,
) -> list[ScreenedMessage]:
    """Return what a restriction of a room may cover, of everything that was said there or of these."""
    found = await kept.messages_since(
        conn, org_id, room_id, since=scope.since, author_ids=scope.author_ids, among=among
    )
    return [to_message(row) for row in await kept.messages_by_id(conn, org_id, found)]


@dataclass(slots=True, kw_only=True)
class _ExcerptLoader:
    """What was looked up so far."""

    conn: Connection
    org_id: OrgId
    found: dict[MessageId, ScreenedMessage] = field(default_factory=dict[MessageId, ScreenedMessage])

    async def load(self, ids: Iterable[MessageId]) -> None:
        missing = set(ids) - self.found.keys()
        if missing:
            rows = await kept.messages_by_id(self.conn, self.org_id, missing)
            self.found |= {row.id: to_message(row) for row in rows}

    def in_order(self) -> list[ScreenedMessage]:
        return sorted(self.found.values(), key=lambda said: said.position)

    def before(self, voice: RequestMessage) -> Sequence[ScreenedMessage]:
        return messages_before(voice.message, self.in_order())

    def referenced(self, voice: RequestMessage) -> list[MessageId]:
        return referenced_messages(voice.request, voice.message, self.before(voice))

    async def load_common(
        self, room_id: RoomId, values: Mapping[MessageId, Sequence[str]]
    ) -> dict[MessageId, frozenset[str]]:
        """Look up who says values, and return those that too many say, by the message that voices a wish."""
        sought: dict[tuple[MessageId, str], SoughtWord] = {}
        wanted: dict[tuple[MessageId, str], tuple[MessageId, str]] = {}
        for voice_id, named in values.items():
            # those that may be said oftener last: of two that are looked for alike they decide
            for value in sorted(named, key=is_distinctive):
                most = MAX_OCCURRENCES if is_distinctive(value) else MAX_SECRET_USES
                for piece in with_revealing_parts([value]):
                    pattern = _like_pattern(*tokens_of(piece))
                    wanted[voice_id, piece] = (voice_id, pattern)
                    sought[voice_id, pattern] = SoughtWord(voice_id=voice_id, pattern=pattern, most=most)
        if not sought:
            return {}
        rows = await kept.word_holders(self.conn, self.org_id, room_id, list(sought.values()))
        await self.load(row.message_id for row in rows if row.message_id is not None)
        many = {(row.voice_id, row.pattern) for row in rows if row.is_common}
        common: dict[MessageId, set[str]] = defaultdict(set)
        for (voice_id, piece), key in wanted.items():
            if key in many:
                common[voice_id].add(piece)
        return {voice_id: frozenset(found) for voice_id, found in common.items()}


def _like_pattern(*words: str) -> str:
    # What folds otherwise in the database than here is any letter.
    return f"%{'%'.join(''.join(sign if sign.isascii() else '_' for sign in word) for word in words)}%"
