from typing import get_args

from roomlore.domain.records import MemoryKind
from roomlore.memories.kinds import MEMORY_KINDS


def test_every_kind_has_a_meaning_and_an_importance_of_its_own():
    assert set(MEMORY_KINDS) == set(get_args(MemoryKind))
    assert len({kind.meaning for kind in MEMORY_KINDS.values()}) == len(MEMORY_KINDS)
    assert all(1 <= kind.importance <= 5 for kind in MEMORY_KINDS.values())


def test_what_agents_experience_is_as_important_as_agents_hold_it():
    of_agents = {
        name: MEMORY_KINDS[name].importance / 5
        for name in ("observation", "interaction", "learning", "insight")
    }

    assert of_agents == {"observation": 0.5, "interaction": 0.55, "learning": 0.75, "insight": 0.9}
