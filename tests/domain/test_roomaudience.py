"""A room that may be private is never open by an assumption."""

import pytest

from roomlore.domain.incoming import IncomingRoom
from roomlore.domain.room_visibility import suggests_private, visibility_of


@pytest.mark.parametrize(
    "name",
    [
        *("staff", "staff-lounge", "mod-chat", "ModChat", "admins", "leadership_2024", "hr", "HR questions"),
        *("private", "\N{LOCK}plans", "Vorstand", "Geschäftsführung", "privé", "stafflounge", "exec-team"),
    ],
)
def test_names_of_closed_circles_are_recognised(name):
    assert suggests_private(name)


@pytest.mark.parametrize(
    "name", ["general", "random", "three", "modern-art", "board-games", "chrome", "shared", "team-d3", "help"]
)
def test_names_of_ordinary_rooms_are_not(name):
    assert not suggests_private(name)


@pytest.mark.parametrize(
    ("described", "read_by"),
    [
        ({}, "open"),
        ({"kind": "project"}, "open"),
        ({"kind": "dm"}, "members"),
        ({"kind": "group_dm"}, "members"),
        ({"kind": None}, "members"),
        ({"kind": None, "visibility": "open"}, "open"),
        ({"name": "hiring"}, "members"),
        ({"name": "hiring", "visibility": "open"}, "open"),
        ({"category": "Moderators"}, "members"),
        ({"visibility": "members"}, "members"),
        # a contradiction, which is refused before it comes so far
        ({"kind": "dm", "visibility": "open"}, "members"),
    ],
)
def test_who_may_read_a_room_as_it_is_described(described, read_by):
    room = IncomingRoom(**{"external_id": "r", "name": "plans", **described})
    assert visibility_of(room).visibility == read_by
