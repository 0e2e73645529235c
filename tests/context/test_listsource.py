from context.rooms import ELSEWHERE, START, answer, mid, numbers, say
from roomlore.context.listsource import ListSource


async def test_before_is_newest_first_and_after_is_oldest_first():
    messages = [say(n) for n in range(6)]
    source = ListSource(messages[::-1])
    assert numbers(await source.before(messages[3], 2)) == [2, 1]
    assert numbers(await source.after(messages[3], 5)) == [4, 5]
    assert await source.before(messages[0], 5) == []


async def test_neighbours_are_of_the_same_room_only():
    source = ListSource([say(0), say(1, room_id=ELSEWHERE), say(2)])
    assert numbers(await source.before(say(2), 9)) == [0]
    assert numbers(await source.after(say(0), 9)) == [2]


async def test_a_place_the_source_does_not_hold_still_has_neighbours():
    source = ListSource([say(0), say(2)])
    assert numbers(await source.before(say(1), 9)) == [0]
    assert numbers(await source.after(say(1), 9)) == [2]


async def test_of_a_message_given_twice_the_redacted_then_the_latest_edit_counts():
    edited = say(0, body="new", edited_at=say(9).sent_at)
    assert await ListSource([edited, say(0), say(0)]).messages([mid(0), mid(0), mid(5)]) == [edited]
    redacted = say(0, body="", redacted_at=START)
    assert await ListSource([redacted, edited]).messages([mid(0)]) == [redacted]


async def test_replies_come_from_both_ends_most_confident_then_newest_first():
    messages = [say(0), say(1, reply_to=0), say(2), say(3)]
    edges = [answer(2, 0, 0.7), answer(3, 0, 0.7), answer(3, 2, 0.9), answer(1, 0, 0.3)]
    source = ListSource(messages, edges)
    found = [(numbers_of(e), e.confidence) for e in await source.replies([mid(0), mid(0)], 9)]
    assert found == [((1, 0), 1.0), ((3, 0), 0.7), ((2, 0), 0.7)]
    assert [numbers_of(e) for e in await source.replies([mid(3), mid(2)], 2)] == [(3, 2), (3, 0)]
    assert await source.replies([], 9) == []


def numbers_of(edge):
    return (edge.child_id.int - 10_000, edge.parent_id.int - 10_000)
