"""A closed room's list of members is complete: whoever a newer one leaves out reads no further."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ingest.stories import at, author, message, room, state
from roomlore.domain.incoming import IncomingMembership, IncomingMessage
from roomlore.operations import App


def told(number: int, *accounts: str, **fields) -> IncomingMessage:
    """Return a message of Ana's that carries a list of members."""
    listed = tuple(IncomingMembership(author=author(account)) for account in accounts)
    return message(str(number), room=room(visibility="members", members=listed), **fields)


async def read(app: App, who: str) -> list[str]:
    viewer = await app.viewer(who)
    seen = await app.messages(viewer, "general") if await app.rooms(viewer) else []
    return [one.external_id for one in seen]


async def deliver(app: App, batches: Sequence[Sequence[IncomingMessage]]) -> None:
    for batch in batches:
        await app.ingest_batch(batch)


TWO_LISTS = [told(1, "ana", "bob"), told(2, "ana", "bob"), told(4, "ana"), told(5, "ana")]


async def test_who_is_removed_from_a_closed_room_reads_no_further(app: App):
    await deliver(app, [[one] for one in TWO_LISTS])
    assert await read(app, "bob") == ["1", "2"]
    assert await read(app, "ana") == ["1", "2", "4", "5"]


@pytest.mark.parametrize("sizes", [[1, 1, 1, 1], [2, 2], [4], [1, 3], [3, 1]])
async def test_however_lists_in_order_are_cut_into_batches_they_leave_the_same(
    app: App, admin, sizes: list[int]
):
    await deliver(app, [TWO_LISTS[sum(sizes[:place]) :][:size] for place, size in enumerate(sizes)])
    found = (await state(admin, app))["memberships"]
    (bob,) = [row for row in found if "'bob'" in row]
    assert repr(at(4)) in bob
    await deliver(app, [TWO_LISTS, TWO_LISTS[::-1]])
    assert (await state(admin, app))["memberships"] == found


async def test_who_is_on_an_older_list_only_is_present_until_the_newest_list_at_most(app: App):
    await deliver(app, [[one] for one in TWO_LISTS[::-1]])
    assert await read(app, "bob") == ["1", "2", "4"]
    assert await read(app, "ana") == ["1", "2", "4", "5"]


async def test_a_later_export_of_the_same_messages_ends_presence_at_the_newest(app: App):
    await app.ingest_batch([told(1, "ana", "bob"), told(2, "ana", "bob")])
    await app.ingest_batch([told(1, "ana"), told(2, "ana")])
    assert await read(app, "bob") == ["1"]


async def test_an_older_list_ends_nobodys_presence(app: App):
    await deliver(app, [[told(5, "ana", "bob")], [told(3, "ana")], [told(6, "ana", "bob")]])
    assert await read(app, "bob") == ["3", "5", "6"]


async def test_a_list_never_reopens_a_presence_that_ended(app: App):
    await deliver(app, [TWO_LISTS, [told(1, "ana", "bob"), told(7, "ana", "bob")]])
    assert await read(app, "bob") == ["1", "2"]


async def test_another_beginning_is_another_presence(app: App):
    again = (
        IncomingMembership(author=author("ana")),
        IncomingMembership(author=author("bob"), joined_at=at(7)),
    )
    back = room(visibility="members", members=again)
    await deliver(app, [TWO_LISTS, [message("6", room=back), message("8", room=back)]])
    assert await read(app, "bob") == ["1", "2", "8"]


async def test_a_room_without_a_list_and_an_open_one_end_nobodys_presence(app: App):
    await app.ingest(told(1, "ana", "bob"))
    await app.ingest(message("2", room=room(visibility="members")))
    listed = (IncomingMembership(author=author("ana")),)
    await app.room_admin.open("general")
    await app.ingest(message("3", room=room(members=listed)))
    await app.room_admin.close("general")
    assert await read(app, "bob") == ["1", "2", "3"]


async def test_lists_of_several_rooms_do_not_mix(app: App):
    def elsewhere(one: IncomingMessage) -> IncomingMessage:
        return replace(one, room=replace(one.room, external_id="other", name="other"))

    await app.ingest_batch(
        [told(1, "ana", "bob"), elsewhere(told(1, "ana", "bob")), elsewhere(told(2, "ana"))]
    )
    assert await read(app, "bob") == ["1"]
    viewer = await app.viewer("bob")
    assert [one.external_id for one in await app.messages(viewer, "other")] == ["1"]
