"""Which of several values of one thing stands: the newest, unless somebody who knows less says it."""

from collections.abc import Collection, Mapping, Sequence

from roomlore.domain.ids import MemoryId
from roomlore.store.keeping import AttributeValue


def supersessions(
    values: Sequence[AttributeValue], overrides: Collection[tuple[MemoryId, str]]
) -> Mapping[MemoryId, MemoryId | None]:
    """Return for each value what took its place: the next that was said later by somebody who knows as well.

    What somebody says of themselves outranks what others say of them, and that what an agent claims. Successors are
    later, so that no circle comes about, and the same values have the same ones in whatever order they came in.

    Args:
        values: The values that one slot of one circle was said to have.
        parted: Memories that stand beside what has these digests, because a person said so.
    """
    ordered = sorted(values, key=lambda value: value.position)
    return {
        value.id: next(
            (
                later.id
                for later in ordered[place + 1 :]
                if later.standing >= value.standing and (value.id, later.digest) not in overrides
            ),
            None,
        )
        for place, value in enumerate(ordered)
    }
