from hypothesis import given
from hypothesis import strategies as st

from roomlore.domain.incoming import IncomingAuthor
from roomlore.importers.reading.fields import direct_members

authors = st.builds(
    IncomingAuthor, account_id=st.sampled_from("abc"), name=st.just("x"), persona=st.sampled_from(["", "p"])
)


@given(st.sampled_from(["group_dm", "channel", "project", "issue", "ad_hoc", "system"]), st.lists(authors))
def test_no_room_but_a_direct_one_tells_who_was_always_there(kind, seen):
    assert direct_members(kind, seen) == ()


@given(st.lists(authors))
def test_a_direct_room_has_two_sides_or_tells_nothing(seen):
    members = direct_members("dm", seen)
    accounts = {author.account_id for author in seen}
    assert {member.author.account_id for member in members} == (accounts if len(accounts) <= 2 else set())
    names = [(member.author.account_id, member.author.persona) for member in members]
    assert len(set(names)) == len(names)
    assert all(member.joined_at is None and member.left_at is None for member in members)
