"""Ids, and how short people may name them."""

from uuid import UUID

from roomlore.domain.ids import ids_matching, short_id, short_ids, uuid7


def names(word: str, one: UUID) -> bool:
    """Whether a word names an id, by its beginning or its end."""
    ids = ids_matching(word)
    assert ids is not None
    from_end = UUID(one.hex[::-1])
    return ids.low <= one <= ids.high or ids.end_low <= from_end <= ids.end_high


def test_ids_made_together_are_named_by_eight_digits_and_not_by_each_others() -> None:
    ids = [uuid7() for _ in range(500)]
    short = short_ids(ids)
    assert {len(word) for word in short.values()} == {8}
    for one in ids[:50]:
        assert [other for other in ids if names(short[one], other)] == [one]
        assert names(str(one), one)
        assert names(str(one)[:13].upper(), one)


def test_ids_that_end_alike_are_shown_as_long_as_it_takes() -> None:
    one, other = UUID(int=0x1_2345_6789), UUID(int=0x2_2345_6789)
    assert short_ids([one, other]) == {one: "123456789", other: "223456789"}
    assert short_id(one) == "23456789"


def test_what_names_no_id_is_told_apart() -> None:
    assert [ids_matching(word) for word in ("", "abc", "xyzw", "0" * 33)] == [None] * 4
