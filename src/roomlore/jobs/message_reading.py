"""Reads new and edited messages with the message model: which ask something, and which are privacy requests.

Rules detect plain English requests while a message is stored. The message model reads every message afterwards, in
any language that the embedding model knows. Messages whose detection by rules timed out are tried again here. A request
that is detected late takes effect from the position of its message.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from roomlore.db import directory, erasure_guard, privacy_requests, work_queue
from roomlore.db import messages as message_store
from roomlore.db.database import Database
from roomlore.db.privacy_requests import RoomMessage, TextBefore
from roomlore.db.queries import Connection
from roomlore.db.work_queue import QueueName, Task
from roomlore.domain.clock import utc_now
from roomlore.domain.ids import MessageId, OrgId, RoomId
from roomlore.domain.records import Viewer
from roomlore.jobs.runner import QueueWorker
from roomlore.models import message_model
from roomlore.models.message_model import MessageInContext, MessageReading
from roomlore.privacy import enforcement
from roomlore.privacy.mentions import NameIndex
from roomlore.privacy.model_reading import to_request
from roomlore.privacy.records import PrivacyRequest
from roomlore.privacy.scope import MAX_DISTANCE
from roomlore.privacy.screening import Screened, screen

#: The lowest probability of a request, read alone, at which a message is read again with the messages before it. 4 to 8 %
#: of ordinary messages reach it. 2 % of the requests that context confirms stay below (training/README.md).
_POSSIBLE_REQUEST = 0.025


class DetectionTookTooLong(Exception):
    """The detection in a message timed out again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadMessages:
    """Messages and the results of reading the messages."""

    messages: Sequence[RoomMessage]
    #: Whether rules may detect a request in each text.
    screened: Screened
    #: The model's readings of the messages that it takes for requests; None if requests are off.
    requests: Mapping[MessageId, MessageReading] | None
    #: The messages that ask something.
    questions: Collection[MessageId]

    @property
    def is_empty(self) -> bool:
        """Whether nothing is a request or a question."""
        return not self.requests and not self.questions and not any(self.screened.values())

    @property
    def room_ids(self) -> set[RoomId]:
        """The rooms of the messages."""
        return {message.room_id for message in self.messages}


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageReader(QueueWorker):
    """Reads queued messages. Stores which messages ask something, and which privacy requests the messages state."""

    queue: QueueName = "read"
    batch: int = 64
    now: Callable[[], datetime] = utc_now

    async def do(self, org_id: OrgId, tasks: Sequence[Task]) -> int:
        """Read these messages. Raises DetectionTookTooLong or ModelUnavailable."""
        read = await _read(self.db, org_id, [task.subject_id for task in tasks])
        await self.db.change(org_id, partial(self._store, org_id=org_id, tasks=tasks, read=read))
        return len(tasks)

    async def _store(
        self, conn: Connection, org_id: OrgId, *, tasks: Sequence[Task], read: _ReadMessages
    ) -> None:
        if read.is_empty:
            await work_queue.finish(conn, org_id, self.queue, tasks)
            return
        await erasure_guard.lock_shared(conn, org_id)
        await directory.lock_rooms(conn, read.room_ids)
        current = await work_queue.finish(conn, org_id, self.queue, tasks)
        messages = [message for message in read.messages if message.id in current]
        await message_store.mark_questions(
            conn, org_id, [message.id for message in messages], asking=list(read.questions)
        )
        if read.requests is None:
            return
        bodies = {message.id: message.body for message in messages if read.screened[message.body]}
        if bodies:
            await enforcement.apply(
                conn, org_id, bodies, rooms=read.room_ids, at=self.now(), screened=read.screened
            )
        for room_id, found in (await _requests(conn, org_id, messages, read.requests)).items():
            await enforcement.add_detected(
                conn,
                org_id,
                room_id,
                found,
                detected_by=message_model.bundled_model().model_id,
                at=self.now(),
            )


async def _read(db: Database, org_id: OrgId, ids: Sequence[MessageId]) -> _ReadMessages:
    async with db.read_transaction(Viewer.operator(org_id)) as conn:
        is_on = await privacy_requests.mode(conn, org_id) != "off"
        messages = await privacy_requests.messages_by_id(conn, org_id, ids)
        before = (
            await privacy_requests.texts_before(conn, org_id, ids, most=message_model.CONTEXT)
            if is_on
            else ()
        )
    screened = await screen(message.body for message in messages if is_on)
    if None in screened.values():
        raise DetectionTookTooLong
    # Whether a message asks something is visible to everybody who may see the message, and they may not be allowed to see
    # the messages before it. So this is read alone.
    alone = await asyncio.to_thread(_readings, messages, ())
    possible = [message for message in messages if alone[message.id].request_probability >= _POSSIBLE_REQUEST]
    return _ReadMessages(
        messages=messages,
        screened=screened,
        requests=_likely_requests(await asyncio.to_thread(_readings, possible, before)) if is_on else None,
        questions={message_id for message_id, reading in alone.items() if reading.asks},
    )


def _readings(
    messages: Sequence[RoomMessage], before: Sequence[TextBefore]
) -> dict[MessageId, MessageReading]:
    """Return the model's reading of each message together with the given texts before it."""
    contexts: dict[MessageId, dict[str, bool]] = defaultdict(dict)
    for text in before:
        contexts[text.message_id].setdefault(text.body, text.is_own)
    texts = [
        MessageInContext(
            text=message.body,
            is_bot=message.author_kind == "agent",
            before=tuple(contexts[message.id].items())[: message_model.CONTEXT],
        )
        for message in messages
    ]
    found = message_model.bundled_model().read(texts)
    return {message.id: reading for message, reading in zip(messages, found, strict=True)}


def _likely_requests(readings: Mapping[MessageId, MessageReading]) -> dict[MessageId, MessageReading]:
    """Return the readings of the messages that the model takes for privacy requests."""
    return {message_id: reading for message_id, reading in readings.items() if reading.request is not None}


async def _requests(
    conn: Connection,
    org_id: OrgId,
    messages: Sequence[RoomMessage],
    readings: Mapping[MessageId, MessageReading],
) -> Mapping[RoomId, Mapping[MessageId, PrivacyRequest]]:
    """Return the requests of each room."""
    asking = [message for message in messages if message.id in readings]
    people = await privacy_requests.room_participants(conn, org_id, {message.room_id for message in asking})
    before = await _messages_before(conn, org_id, asking)
    found: dict[RoomId, dict[MessageId, PrivacyRequest]] = defaultdict(dict)
    for message in asking:
        names = NameIndex.build(person for person in people if person.room_id == message.room_id)
        own = (
            each.body
            for each in before
            if each.room_id == message.room_id
            and each.author_id == message.author_id
            and each.position < message.position
        )
        request = to_request(readings[message.id], message, names, own)
        if request is not None:
            found[message.room_id][message.id] = request
    return found


async def _messages_before(
    conn: Connection, org_id: OrgId, messages: Sequence[RoomMessage]
) -> list[RoomMessage]:
    """Return the earlier messages that the given messages may refer to."""
    ids = await privacy_requests.messages_before(
        conn, org_id, [message.id for message in messages], most=MAX_DISTANCE
    )
    return await privacy_requests.messages_by_id(conn, org_id, ids)
