"""Questions asked in a room that they are not about: whoever tells known from unknown must refuse them."""

import random
from collections.abc import Sequence
from dataclasses import replace

from roomlore.evaluation.datasets import Question

SEED = 20_260_101


def elsewhere(questions: Sequence[Question], *, most: int | None = None) -> list[Question]:
    """Return answerable questions, each moved to another room, all of which was said; the same each time.

    Args:
        questions: Of a data set; the rooms are theirs. Of one room nothing can be moved.
        most: How many at most, drawn by lot; all by default.
    """
    chance = random.Random(SEED)  # noqa: S311  a repeatable draw, not a secret
    rooms = sorted({question.room for question in questions})
    answerable = [question for question in questions if question.answerable]
    if not answerable or not rooms[1:]:
        return []
    if most is not None and len(answerable) > most:
        answerable = chance.sample(answerable, most)
    return [
        replace(
            question,
            room=chance.choice([room for room in rooms if room != question.room]),
            as_of_message_id=None,
        )
        for question in answerable
    ]
