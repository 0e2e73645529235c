from context.rooms import ELSEWHERE, START, answer, mid, numbers, say
from roomlore.context.expansion import expand
from roomlore.context.sources import ListSource


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


async def test_a_list_that_was_never_stored_can_be_untangled():
    told = [
        say(0, by=1, author_name="ann", body="how do I mount a usb disk?"),
        say(1, by=2, author_name="cleo", body="which kernel has the new scheduler?"),
        say(2, by=3, author_name="ben", body="ann: plug it in and it mounts the usb disk by itself"),
        say(3, by=4, author_name="dora", body="cleo: the scheduler came with kernel 6.6"),
        say(4, by=1, author_name="ann", body="ben: thanks, it mounts now"),
    ]
    plain, untangled = ListSource(told), ListSource.disentangled(told[::-1])
    assert await plain.replies([message.id for message in told], 9) == []
    edges = await untangled.replies([message.id for message in told], 9)
    found = {numbers_of(edge): edge.method for edge in edges}
    assert found[2, 0] == found[3, 1] == found[4, 2] == "mention"
    assert all(0 < edge.confidence < 1 for edge in edges)
    walked = await expand(untangled, told[4])
    assert {0, 2, 4} <= set(numbers(item for item in walked.selected if item.part == "conversation"))


async def test_untangling_a_list_keeps_what_is_stated_and_finds_nothing_beside_it():
    told = [say(0), say(1, by=2), say(2, by=3, reply_to=0), say(3, by=4, body="P1: yes")]
    stated = [answer(3, 1, 1.0, "thread")]
    edges = await ListSource.disentangled(told, stated).replies([mid(2), mid(3)], 9)
    assert {(numbers_of(edge), edge.method) for edge in edges} == {((2, 0), "explicit"), ((3, 1), "thread")}


async def test_neither_whispers_nor_notices_nor_what_is_gone_are_linked():
    ask = say(0, by=1, author_name="ann", body="ben: where is the key to the boat house?")
    for reply in (
        {"kind": "whisper"},
        {"kind": "system"},
        {"kind": "context_injection"},
        {"redacted_at": START},
        {"erased_at": START},
        {"room_id": ELSEWHERE},
    ):
        told = [ask, say(1, by=2, author_name="ben", body="ann: the key hangs in the boat house", **reply)]
        assert await ListSource.disentangled(told).replies([mid(0), mid(1)], 9) == []
    told = [ask, say(1, by=2, author_name="ben", body="ann: the key hangs in the boat house")]
    assert len(await ListSource.disentangled(told).replies([mid(0), mid(1)], 9)) == 1


def numbers_of(edge):
    return (edge.child_id.int - 10_000, edge.parent_id.int - 10_000)
