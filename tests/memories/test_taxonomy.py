from typing import get_args

from roomlore.domain.records import MemoryKind
from roomlore.memories.kinds import DEFAULT_IMPORTANCE


def test_every_kind_has_an_importance():
    assert set(DEFAULT_IMPORTANCE) == set(get_args(MemoryKind))
    assert all(1 <= importance <= 5 for importance in DEFAULT_IMPORTANCE.values())


def test_what_agents_experience_is_as_important_as_agents_hold_it():
    of_agents = {
        name: DEFAULT_IMPORTANCE[name] / 5 for name in ("observation", "interaction", "learning", "insight")
    }

    assert of_agents == {"observation": 0.5, "interaction": 0.55, "learning": 0.75, "insight": 0.9}
