"""The visibility rule by itself: what must hold whatever the facts are."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.audience import (
    ConversationFacts,
    MemoryFacts,
    MessageFacts,
    Period,
    RoomFacts,
    ViewerFacts,
    can_see_audit_line,
    can_see_conversation,
    can_see_interaction,
    can_see_memory,
    can_see_merge,
    can_see_message,
)
from roomlore.domain.records import Viewer

ORG, ELSEWHERE = UUID(int=1), UUID(int=2)
PEOPLE = [UUID(int=number) for number in range(10, 14)]
ROOMS = [
    RoomFacts(org_id=ORG, id=UUID(int=20 + number), visibility=visibility)
    for number, visibility in enumerate(["open", "members", "members"])
]


def at(minute: int) -> datetime:
    return datetime(2025, 3, 1, 12, minute, tzinfo=UTC)


@st.composite
def periods(draw: st.DrawFn) -> Period:
    joined, stayed = draw(st.none() | st.integers(0, 9)), draw(st.none() | st.integers(0, 9))
    joined_at = None if joined is None else at(joined)
    left_at = None if stayed is None else at(joined or 0) + timedelta(minutes=stayed)
    return Period(joined_at=joined_at, left_at=left_at)


messages = st.builds(
    MessageFacts,
    room=st.sampled_from(ROOMS),
    kind=st.sampled_from(["message", "whisper", "system", "context_injection"]),
    author_id=st.sampled_from([*PEOPLE, ORG]),
    sent_at=st.integers(0, 19).map(at),
    audience=st.frozensets(st.sampled_from(PEOPLE), max_size=2),
)


@st.composite
def viewers(draw: st.DrawFn) -> ViewerFacts:
    stays = st.dictionaries(st.sampled_from([room.id for room in ROOMS]), st.lists(periods(), max_size=2))
    return ViewerFacts(
        viewer=Viewer(org_id=ORG, participant_id=draw(st.sampled_from(PEOPLE))),
        is_agent=draw(st.booleans()),
        periods=draw(stays),
    )


def merged(one: ViewerFacts, other: ViewerFacts) -> ViewerFacts:
    return replace(
        one,
        is_agent=one.is_agent and other.is_agent,
        accounts=frozenset([other.viewer.participant_id]),
        periods={
            room: [*one.periods.get(room, ()), *other.periods.get(room, ())]
            for room in {*one.periods, *other.periods}
        },
    )


@pytest.mark.slow
@given(message=messages, one=viewers(), other=viewers())
def test_two_accounts_of_a_kind_see_what_either_may(message, one, other):
    other = replace(other, is_agent=one.is_agent)
    assert can_see_message(message, merged(one, other)) == (
        can_see_message(message, one) or can_see_message(message, other)
    )


@pytest.mark.slow
@given(message=messages, one=viewers(), other=viewers())
def test_an_account_that_is_no_agents_closes_what_is_for_agents_and_nothing_else(message, one, other):
    either = can_see_message(message, one) or can_see_message(message, other)
    if message.kind == "context_injection" and one.is_agent != other.is_agent:
        own = {one.viewer.participant_id, other.viewer.participant_id}
        either = either and bool(own & {message.author_id, *message.audience})
    assert can_see_message(message, merged(one, other)) == either


@pytest.mark.slow
@given(sources=st.lists(messages, min_size=1, max_size=3), more=messages, viewer=viewers())
def test_a_further_source_never_opens_a_memory_or_a_conversation(sources, more, viewer):
    for is_sensitive in (False, True):
        few = MemoryFacts(org_id=ORG, sources=sources, is_sensitive=is_sensitive)
        assert can_see_memory(few, viewer) or not can_see_memory(
            replace(few, sources=[*sources, more]), viewer
        )
        told = ConversationFacts(org_id=ORG, messages=sources, is_sensitive=is_sensitive)
        assert can_see_conversation(told, viewer) or not can_see_conversation(
            replace(told, messages=[*sources, more]), viewer
        )


@pytest.mark.slow
@given(sources=st.lists(messages, min_size=1, max_size=3), viewer=viewers())
def test_a_memory_is_seen_exactly_where_all_its_sources_are_and_a_sensitive_one_by_fewer(sources, viewer):
    memory = MemoryFacts(org_id=ORG, sources=sources, asserted_by=viewer.viewer.participant_id)
    assert can_see_memory(memory, viewer) == all(can_see_message(source, viewer) for source in sources)
    assert can_see_memory(memory, viewer) or not can_see_memory(replace(memory, is_sensitive=True), viewer)


@pytest.mark.slow
@given(sources=st.lists(messages, min_size=1, max_size=3), later=messages, viewer=viewers())
def test_a_superseded_memory_is_seen_exactly_where_it_and_what_took_its_place_would_be(
    sources, later, viewer
):
    old, new = MemoryFacts(org_id=ORG, sources=sources), MemoryFacts(org_id=ORG, sources=[later])
    both = can_see_memory(old, viewer) and can_see_memory(new, viewer)
    assert can_see_memory(replace(old, superseded_by=new), viewer) == both
    last = replace(new, superseded_by=MemoryFacts(org_id=ORG, sources=[]))
    assert not can_see_memory(replace(old, superseded_by=last), viewer)
    assert can_see_memory(replace(old, superseded_by=last), ViewerFacts(viewer=Viewer.operator(ORG)))


@pytest.mark.slow
@given(viewer=viewers(), message=messages)
def test_what_nothing_tells_the_audience_of_is_the_operators(viewer, message):
    operator = ViewerFacts(viewer=Viewer(org_id=ORG, participant_id=None))
    orphan = MemoryFacts(org_id=ORG, sources=[])
    empty = ConversationFacts(org_id=ORG, messages=[])
    assert can_see_memory(orphan, operator)
    assert can_see_conversation(empty, operator)
    assert not can_see_memory(orphan, viewer)
    assert not can_see_conversation(empty, viewer)
    assert not can_see_audit_line(None, viewer, org_id=ORG)
    unheard = replace(message, kind="whisper", audience=frozenset(), author_id=ORG)
    assert not can_see_message(unheard, viewer)


@given(message=messages)
def test_the_author_of_holes_is_nobody(message):
    nobody = ViewerFacts(viewer=Viewer(org_id=ORG, participant_id=ORG), is_participant=False)
    assert not can_see_message(message, nobody)
    assert not can_see_memory(MemoryFacts(org_id=ORG, sources=[], asserted_by=ORG), nobody)
    assert not can_see_audit_line(ORG, nobody, org_id=ORG)


@pytest.mark.slow
@given(viewer=viewers(), message=messages, sources=st.lists(messages, max_size=2))
def test_what_gives_a_memory_is_for_those_it_is_addressed_to_who_may_recall_that(viewer, message, sources):
    own_id = viewer.viewer.participant_id
    memory = MemoryFacts(org_id=ORG, sources=sources, asserted_by=own_id)
    gift = replace(message, kind="context_injection", author_id=UUID(int=99), injected_memory=memory)
    assert not can_see_message(replace(gift, audience=frozenset()), viewer)
    to_viewer = replace(gift, audience=frozenset({own_id}))
    assert can_see_message(to_viewer, viewer) == can_see_memory(memory, viewer)
    assert not can_see_message(
        replace(to_viewer, injected_memory=replace(memory, superseded_by=memory)), viewer
    )


@pytest.mark.slow
@given(viewer=viewers(), sources=st.lists(messages, max_size=2), is_operator=st.booleans())
def test_nobody_sees_anything_of_another_org(viewer, sources, is_operator):
    own_id = viewer.viewer.participant_id
    stranger = Viewer(org_id=ELSEWHERE, participant_id=None if is_operator else own_id)
    viewer = replace(viewer, viewer=stranger)
    assert not any(can_see_message(source, viewer) for source in sources)
    assert not can_see_memory(MemoryFacts(org_id=ORG, sources=sources, asserted_by=own_id), viewer)
    assert not can_see_conversation(ConversationFacts(org_id=ORG, messages=sources), viewer)
    assert not can_see_merge(viewer, org_id=ORG, knows=True, knows_another=True)
    empty = ConversationFacts(org_id=ORG, messages=sources)
    assert not can_see_interaction(own_id, viewer, conversation=empty, knows=True)
    assert not can_see_audit_line(own_id, viewer, org_id=ORG)
