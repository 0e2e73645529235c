from datetime import UTC, datetime, timedelta
from typing import get_args
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from roomlore.db.memory_writes import AttributeValue
from roomlore.domain.records import MemoryKind
from roomlore.memories.consolidation import supersessions
from roomlore.memories.kinds import DEFAULT_IMPORTANCE

START = datetime(2026, 1, 1, tzinfo=UTC)


def value(number: int, *, day: int, standing: int = 2) -> AttributeValue:
    moment = START + timedelta(days=day)
    return AttributeValue(
        id=UUID(int=number),
        digest=f"d{number}",
        said_at=moment,
        sequence=0,
        quote_start=0,
        recorded_at=moment,
        superseded_by=None,
        standing=standing,
    )


def links(values, parted=()):
    return {one.int: other and other.int for one, other in supersessions(values, parted).items()}


def test_each_value_is_superseded_by_the_next():
    assert links([value(3, day=3), value(1, day=1), value(2, day=2)]) == {1: 2, 2: 3, 3: None}


def test_own_statements_outrank_those_of_others_and_agents():
    said = [value(1, day=1, standing=3), value(2, day=2, standing=1), value(3, day=3, standing=2)]
    assert links(said) == {1: None, 2: 3, 3: None}
    assert links([*said, value(4, day=4, standing=3)]) == {1: 4, 2: 3, 3: 4, 4: None}


def test_an_override_keeps_both_values():
    assert links([value(1, day=1), value(2, day=2)], {(UUID(int=1), "d2")}) == {1: None, 2: None}


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 3)), max_size=8).flatmap(
        lambda drawn: st.permutations(
            [value(number, day=day, standing=standing) for number, (day, standing) in enumerate(drawn, 1)]
        )
    )
)
def test_chains_have_no_cycle_and_do_not_depend_on_the_order(values):
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


def test_every_kind_has_an_importance_and_those_of_agents_keep_their_scale():
    assert set(DEFAULT_IMPORTANCE) == set(get_args(MemoryKind))
    assert all(1 <= importance <= 5 for importance in DEFAULT_IMPORTANCE.values())
    of_agents = {"observation": 0.5, "interaction": 0.55, "learning": 0.75, "insight": 0.9}
    assert {kind: DEFAULT_IMPORTANCE[kind] / 5 for kind in of_agents} == of_agents
