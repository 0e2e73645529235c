from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from conversations.telling import message, person, rooms, said, told
from roomlore.conversations.linker import WINDOW, ReplyLinker, link_all
from roomlore.conversations.records import ConversationMessage


def parents(*lines: tuple[str, str]) -> list[int | None]:
    """Which line each of some lines answers."""
    linked = link_all(told(*lines))
    places = {each.id: place for place, each in enumerate(linked)}
    return [None if each.parent_id is None else places[each.parent_id] for each in linked]


def test_two_conversations_at_once_are_told_apart():
    assert parents(
        ("anna", "how do i mount an ntfs partition?"),
        ("bob", "hello, is there a way to make xorg use two monitors?"),
        ("carla", "anna: sudo mount /dev/sda1 /mnt"),
        ("dd", "bob: what graphics card do you have?"),
        ("anna", "carla: thanks, that works"),
        ("bob", "dd: nvidia geforce"),
    ) == [None, None, 0, 1, 2, 3]


def test_a_called_person_makes_a_mention_and_anything_else_is_inferred():
    linked = link_all(told(("anna", "where is the log?"), ("bob", "anna: in /var/log"), ("anna", "thanks")))
    assert [each.method for each in linked] == [None, "mention", "inferred"]
    assert linked[1].addressed_ids == {person("anna")}
    assert all(0.0 < each.confidence <= 1.0 for each in linked)


def test_what_the_platform_says_is_taken_as_given():
    lines = told(("anna", "where is the log?"), ("bob", "does wifi work?"), ("carla", "anna: in /var/log"))
    linked = link_all([*lines[:2], replace(lines[2], reply_to=lines[1].id)])[2]
    assert (linked.parent_id, linked.method, linked.confidence) == (lines[1].id, "explicit", 1.0)
    linked = link_all([*lines[:2], replace(lines[2], thread_root=lines[1].id)])[2]
    assert (linked.parent_id, linked.method, linked.confidence) == (lines[1].id, "thread", 1.0)
    linked = link_all([*lines[:2], replace(lines[2], thread_root=lines[0].id, reply_to=lines[1].id)])[2]
    assert (linked.parent_id, linked.method) == (lines[1].id, "explicit")


def test_a_given_parent_that_nobody_heard_is_returned_all_the_same():
    [linked] = link_all([said(0, "anna", "yes", reply_to=message(77))])
    assert linked.parent_id == message(77)


def test_a_message_that_answers_itself_is_weighed_like_any_other():
    [linked] = link_all([said(0, "anna", "yes", reply_to=message(0))])
    assert linked.parent_id is None


def test_platform_mentions_are_addressed_even_of_those_not_heard():
    [linked] = link_all([said(0, "anna", "look", mentions=frozenset({person("zz")}))])
    assert linked.addressed_ids == {person("zz")}


def test_nothing_but_the_window_is_a_candidate():
    lines = [said(0, "anna", "has anybody seen squirrelmail?")]
    lines += [said(number, "bob", "la la la") for number in range(1, WINDOW + 30)]
    linker = ReplyLinker()
    for line in lines:
        linker.remember(line, None)
    linked = linker.link(said(900, "dd", "anna: squirrelmail is in universe", seconds=3000))
    assert linked.parent_id != message(0)
    assert person("anna") not in linked.addressed_ids


def test_what_is_held_is_bounded_by_the_window():
    linker = ReplyLinker()
    for number in range(20 * WINDOW):
        linker.link(
            said(number, f"name{number % 300}", f"name{number % 7}: word{number} https://x.example/{number}")
        )
    window = linker._window
    assert window.count == len(window.parsed) == len(window._numbers) == WINDOW
    held = (window._words, window._loud, window._plain, window._slot_of, window._lines_as)
    assert all(len(each) <= 12 * WINDOW for each in held)


def test_a_room_with_one_conversation_at_a_time_is_mostly_a_chain():
    asked = [("anna", f"and what about part {number} of the plan?") for number in range(15)]
    lines = [line for question in asked for line in (question, ("bob", "i think it works"))]
    assert sum(parent is None for parent in parents(*lines)) <= 4


@settings(max_examples=40, deadline=None)
@given(rooms(), st.integers(0, 259))
def test_linking_goes_on_after_a_restart_as_if_never_stopped(room: list[ConversationMessage], stop: int):
    whole = link_all(room)
    again = ReplyLinker()
    for line, linked in list(zip(room, whole, strict=True))[:stop][-WINDOW:]:
        again.remember(line, linked.parent_id)
    assert [again.link(line) for line in room[stop:]] == whole[stop:]


@settings(max_examples=30, deadline=None)
@given(rooms(longest=60))
def test_every_parent_is_given_or_stands_before_and_later_messages_change_nothing(
    room: list[ConversationMessage],
):
    whole = link_all(room)
    before: set[object] = set()
    for line, linked in zip(room, whole, strict=True):
        given_parent = {line.reply_to, line.thread_root} - {None}
        assert linked.id == line.id
        assert linked.parent_id is None or linked.parent_id in given_parent | before
        assert (linked.method is None) == (linked.parent_id is None)
        before.add(line.id)
    half = len(room) // 2
    assert link_all(room[:half]) == whole[:half]
