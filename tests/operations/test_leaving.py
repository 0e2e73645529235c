"""Messages sent after somebody left a closed room do not change the conversations that this person sees."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import pytest

from conftest import OpenApp
from ingest.stories import APART, at, author, message, room
from operations.village import error_of
from roomlore.db import disentanglement, rooms
from roomlore.domain.errors import BadInput
from roomlore.domain.incoming import IncomingMembership, IncomingMessage, IncomingRoom
from roomlore.jobs import runner
from roomlore.jobs.disentanglement import DisentanglementWorker
from roomlore.operations import App

MIA, JO = author("mia"), author("jo")
LEFT_AT = at(6.5)


def loft(**fields: object) -> IncomingRoom:
    """Return a room of Mia and Jo; of Jo is stated whatever is given."""
    jo = IncomingMembership(author=JO, joined_at=at(0), **fields)  # pyright: ignore[reportArgumentType]
    return room("loft", visibility="members", members=(IncomingMembership(author=MIA, joined_at=at(0)), jo))


def tell(lines: Sequence[tuple[float, str, str, str | None]]) -> list[IncomingMessage]:
    return [
        message(f"{minute}", body, author=author(who), sent_at=at(minute), reply_to=answers)
        for minute, who, body, answers in lines
    ]


BEFORE = tell([
    (0, "mia", "hi, did the new printer arrive?", None),
    (2, "jo", "yes, it is in the box next to the copier", None),
    (3, "mia", "great, is it already connected to the network?", None),
    (5, "jo", "not yet, IT comes this afternoon to set it up", None),
    (6, "mia", "ok, then I print my slides tomorrow", None),
])  # fmt: skip
#: Goes on with the same subject: at once, by a stated reply, after a day, and in the last minute of two weeks.
AFTER = tell([
    (7, "mia", "sounds good, tell me when the printer works", None),
    (8, "mia", "is the printer connected to the network now?", "5"),
    (1_500, "mia", "the printer is still not connected to the network", "3"),
    (6 + APART - 2, "mia", "did IT set up the new printer?", None),
])  # fmt: skip


def inside(said: Sequence[IncomingMessage], where: IncomingRoom) -> list[IncomingMessage]:
    return [replace(one, room=where) for one in said]


async def come_in(app: App, said: Sequence[IncomingMessage]) -> None:
    assert not (await app.ingest_batch(said)).skipped
    assert not (await app.disentangle()).dead_lettered


async def listed(app: App, account: str = "jo") -> list[tuple[object, ...]]:
    """Return all that the list of conversations says, but for ids, and what each holds."""
    viewer = await app.viewer(account)
    found: list[tuple[object, ...]] = []
    for one in await app.conversations.all(viewer):
        _, said = await app.conversations.read(viewer, str(one.id))
        people = [(who.name, who.message_count) for who in one.participants]
        marks = [held.message.external_id for held in said]
        found.append(
            (one.label, one.sensitivity, one.opened_at, one.last_at, one.idle_timeout, people, marks)
        )
    return found


async def left_from_the_beginning(app: App, after: Sequence[IncomingMessage]) -> None:
    await come_in(app, inside([*BEFORE, *after], loft(left_at=LEFT_AT)))


async def left_before_anything_else_was_said(app: App, after: Sequence[IncomingMessage]) -> None:
    await come_in(app, inside(BEFORE, loft(left_at=LEFT_AT)))
    for one in inside(after, loft(left_at=LEFT_AT)):
        await come_in(app, [one])


async def stated_later(app: App, after: Sequence[IncomingMessage]) -> None:
    await come_in(app, inside([*BEFORE, *after], loft()))
    await come_in(app, inside([BEFORE[0]], loft(left_at=LEFT_AT)))


async def missing_from_a_later_list(app: App, after: Sequence[IncomingMessage]) -> None:
    await come_in(app, inside(BEFORE, loft()))
    await come_in(app, inside(after, replace(loft(), members=())))
    notice = message("left", "Jo left", kind="system", author=author("", kind="system"), sent_at=LEFT_AT)
    await come_in(app, inside([notice], replace(loft(), members=loft().members[:1])))


async def removed(app: App) -> None:
    async def remove(conn) -> None:
        [where] = await app.rooms(app.operator)
        jo = (await app.viewer("jo")).participant_id
        assert jo is not None
        assert await rooms.remove_member(conn, app.org_id, where.id, [jo], at=LEFT_AT)

    await app.db.change(app.org_id, remove)


async def removed_by_an_operator(app: App, after: Sequence[IncomingMessage]) -> None:
    await come_in(app, inside([*BEFORE, *after], loft()))
    await removed(app)
    await app.disentangle()


async def closed_by_an_operator(app: App, after: Sequence[IncomingMessage]) -> None:
    await come_in(app, inside([*BEFORE, *after], replace(loft(left_at=LEFT_AT), visibility="open")))
    await app.room_admin.close("loft")
    await app.disentangle()


async def closed_by_its_platform(app: App, after: Sequence[IncomingMessage]) -> None:
    await come_in(app, inside([*BEFORE, *after], replace(loft(left_at=LEFT_AT), visibility="open")))
    await come_in(app, inside([BEFORE[0]], loft(left_at=LEFT_AT)))


WAYS = (
    left_from_the_beginning,
    left_before_anything_else_was_said,
    stated_later,
    missing_from_a_later_list,
    removed_by_an_operator,
    closed_by_an_operator,
    closed_by_its_platform,
)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_a_list_of_conversations_does_not_tell_that_something_was_said_since(
    open_app: OpenApp, way: Callable[[App, Sequence[IncomingMessage]], Awaitable[None]]
):
    silent, whole = await open_app("silent"), await open_app("whole")
    await way(silent, [])
    await way(whole, AFTER)
    seen = await listed(whole)
    assert seen == await listed(silent)
    assert len(seen) == 1
    assert len(await listed(whole, "mia")) > 1


async def conversation_of(app: App, external_id: str) -> str:
    found, _ = await app.conversations.read(app.operator, f"message:{external_id}")
    return str(found.id)


@pytest.mark.parametrize("who", ["operator", "mia"])
async def test_nobody_puts_together_what_was_said_before_and_after_somebody_left(app: App, who: str):
    await left_from_the_beginning(app, AFTER)
    seen = await listed(app)
    before, after = await conversation_of(app, "3"), await conversation_of(app, "7")
    talks = (app if who == "operator" else app.impersonate(await app.viewer(who))).conversations
    for call in (
        talks.merge(before, after),
        talks.merge(after, before),
        talks.move("7", before),
        talks.move("6", after),
        talks.split(["6", "7"]),
    ):
        kind, text = await error_of(call)
        assert (kind, "left the room" in text) == (BadInput, True)
    await app.disentangle()
    assert await listed(app) == seen


async def test_a_reply_across_a_border_does_not_move_along(app: App):
    await left_from_the_beginning(app, AFTER)
    here = await conversation_of(app, "8")
    made = await app.conversations.split(["5"])
    await app.disentangle()
    assert (await conversation_of(app, "5"), await conversation_of(app, "8")) == (str(made.id), here)
    assert str(made.id) != here


async def test_what_a_person_put_together_comes_apart_where_a_membership_then_ends(open_app: OpenApp):
    silent, whole = await open_app("silent"), await open_app("whole")
    for app, after in ((silent, []), (whole, AFTER)):
        await come_in(app, inside([*BEFORE, *after], loft()))
        await app.conversations.split([one.external_id for one in (*BEFORE, *after)])
        assert len(await listed(app)) == 1
        await removed(app)
        await app.disentangle()
    seen = await listed(whole)
    assert seen == await listed(silent)
    assert len(seen) == 1


async def test_a_membership_that_ends_while_a_worker_thinks_is_not_overlooked(open_app: OpenApp):
    silent, whole = await open_app("silent"), await open_app("whole")
    await removed_by_an_operator(silent, [])
    await whole.ingest_batch(inside([*BEFORE, *AFTER], loft()))
    read = disentanglement.membership_ends
    ended = asyncio.Event()

    async def reading(*args, **kwargs):
        found = await read(*args, **kwargs)
        if not ended.is_set():
            ended.set()
            await removed(whole)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disentanglement, "membership_ends", reading)
        worker = DisentanglementWorker(db=whole.db)
        await runner.drain(worker, only_org=whole.org_id, policy=runner.DRAIN_POLICY)
    assert ended.is_set()
    assert await listed(whole) == await listed(silent)
