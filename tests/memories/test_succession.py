from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from roomlore.db.memory_writes import AttributeValue
from roomlore.memories.consolidation import supersessions

START = datetime(2026, 1, 1, tzinfo=UTC)


def value(number: int, *, day: int, standing: int = 2) -> AttributeValue:
    moment = START + timedelta(days=day)
    return AttributeValue(
        id=UUID(int=number),
        digest=f"d{number}",
        said_at=moment,
        native_order=0,
        quote_start=0,
        recorded_at=moment,
        superseded_by=None,
        standing=standing,
    )


def links(values, parted=()):
    return {one.int: other and other.int for one, other in supersessions(values, parted).items()}


def test_the_newest_stands_and_each_other_is_superseded_by_the_next():
    assert links([value(3, day=3), value(1, day=1), value(2, day=2)]) == {1: 2, 2: 3, 3: None}


def test_what_others_and_agents_say_does_not_take_the_place_of_ones_own_word():
    said = [value(1, day=1, standing=3), value(2, day=2, standing=1), value(3, day=3, standing=2)]

    assert links(said) == {1: None, 2: 3, 3: None}
    assert links([*said, value(4, day=4, standing=3)]) == {1: 4, 2: 3, 3: 4, 4: None}


def test_what_a_person_let_stand_beside_another_does():
    assert links([value(1, day=1), value(2, day=2)], {(UUID(int=1), "d2")}) == {1: None, 2: None}


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 3)), max_size=8).flatmap(
        lambda drawn: st.permutations(
            [value(number, day=day, standing=standing) for number, (day, standing) in enumerate(drawn, 1)]
        )
    )
)
def test_no_chain_bites_its_tail_and_the_order_of_arrival_does_not_matter(values):
    found = supersessions(values, ())

    assert found == supersessions(sorted(values, key=lambda one: one.id), ())
    for one in values:
        seen, at = {one.id}, found[one.id]
        while at is not None:
            assert at not in seen
            seen.add(at)
            at = found[at]
    if values:
        best = max(values, key=lambda one: one.position)
        assert found[best.id] is None
