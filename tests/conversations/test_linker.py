from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conversations.telling import message, person, rooms, said, told
from roomlore.conversations.reply_linker import ReplyLinker, link_all
from roomlore.conversations.window import WINDOW, ConversationMessage


def parents(*lines: tuple[str, str]) -> list[int | None]:
    """Which line each of some lines answers."""
    linked = link_all(told(*lines))
    places = {each.id: place for place, each in enumerate(linked)}
    return [None if each.parent_id is None else places[each.parent_id] for each in linked]


def test_interleaved_conversations_are_separated():
    assert parents(
        ("anna", "how do i mount an ntfs partition?"),
        ("bob", "hello, is there a way to make xorg use two monitors?"),
        ("carla", "anna: sudo mount /dev/sda1 /mnt"),
        ("dd", "bob: what graphics card do you have?"),
        ("anna", "carla: thanks, that works"),
        ("bob", "dd: nvidia geforce"),
    ) == [None, None, 0, 1, 2, 3]


def test_a_named_parent_author_is_a_mention():
    linked = link_all(told(("anna", "where is the log?"), ("bob", "anna: in /var/log"), ("anna", "thanks")))
    assert [each.method for each in linked] == [None, "mention", "inferred"]
    assert linked[1].addressed_ids == {person("anna")}
    assert all(0.0 < each.confidence <= 1.0 for each in linked)


def test_the_parent_of_the_platform_wins():
    lines = told(("anna", "where is the log?"), ("bob", "does wifi work?"), ("carla", "anna: in /var/log"))
    linked = link_all([*lines[:2], replace(lines[2], reply_to=lines[1].id)])[2]
    assert (linked.parent_id, linked.method, linked.confidence) == (lines[1].id, "explicit", 1.0)
    linked = link_all([*lines[:2], replace(lines[2], thread_root=lines[1].id)])[2]
    assert (linked.parent_id, linked.method, linked.confidence) == (lines[1].id, "thread", 1.0)
    linked = link_all([*lines[:2], replace(lines[2], thread_root=lines[0].id, reply_to=lines[1].id)])[2]
    assert (linked.parent_id, linked.method) == (lines[1].id, "explicit")


def test_an_unknown_parent_of_the_platform_is_kept():
    [linked] = link_all([said(0, "anna", "yes", reply_to=message(77))])
    assert linked.parent_id == message(77)


def test_a_message_is_not_its_own_parent():
    [linked] = link_all([said(0, "anna", "yes", reply_to=message(0))])
    assert linked.parent_id is None


def test_mentions_of_the_platform_are_addressed():
    [linked] = link_all([said(0, "anna", "look", mentions=frozenset({person("zz")}))])
    assert linked.addressed_ids == {person("zz")}


def test_only_messages_of_the_window_are_candidates():
    lines = [said(0, "anna", "has anybody seen squirrelmail?")]
    lines += [said(number, "bob", "la la la") for number in range(1, WINDOW + 30)]
    linker = ReplyLinker()
    for line in lines:
        linker.remember(line, None)
    linked = linker.link(said(900, "dd", "anna: squirrelmail is in universe", seconds=3000))
    assert linked.parent_id != message(0)
    assert person("anna") not in linked.addressed_ids


@pytest.mark.slow
def test_memory_is_bounded_by_the_window():
    linker = ReplyLinker()
    for number in range(20 * WINDOW):
        linker.link(
            said(number, f"name{number % 300}", f"name{number % 7}: word{number} https://x.example/{number}")
        )
    window = linker._window
    assert window.count == len(window.parsed) == len(window._numbers) == WINDOW
    held = (window._words, window._loud, window._plain, window._slot_of, window._lines_as)
    assert all(len(each) <= 12 * WINDOW for each in held)


def test_a_single_conversation_is_mostly_a_chain():
    asked = [("anna", f"and what about part {number} of the plan?") for number in range(15)]
    lines = [line for question in asked for line in (question, ("bob", "i think it works"))]
    assert sum(parent is None for parent in parents(*lines)) <= 4


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(rooms(), st.integers(0, 259))
def test_linking_continues_the_same_after_a_restart(room: list[ConversationMessage], stop: int):
    whole = link_all(room)
    again = ReplyLinker()
    for line, linked in list(zip(room, whole, strict=True))[:stop][-WINDOW:]:
        again.remember(line, linked.parent_id)
    assert [again.link(line) for line in room[stop:]] == whole[stop:]


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(rooms(longest=60))
def test_parents_are_stated_or_earlier_and_never_change(room: list[ConversationMessage]):
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
