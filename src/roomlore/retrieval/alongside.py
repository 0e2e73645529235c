"""Two embedding models side by side: messages that have a vector of the next one only take part as if they had both.

Cosines of two models are not comparable, their ranks are: a message that only the next model knows stands where one
stands that this model finds as near.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from roomlore.domain.ids import MessageId
from roomlore.store.search import ContextMessage


def fill_similarities(rows: Sequence[ContextMessage], similarities: Mapping[MessageId, float]) -> list[ContextMessage]:
    """Return rows in which those have a similarity, too, that have one of another model alone.

    Args:
        rows: As the model that searches use knows them.
        beside: Similarities of the other model, which may know others.
    """
    both = {row.message_id: row.similarity for row in rows if row.similarity is not None}
    ours = sorted(similarity for key, similarity in both.items() if key in similarities)
    theirs = sorted(similarities[key] for key in both if key in similarities)

    def as_ours(similarity: float) -> float:
        return float(np.interp(similarity, theirs, ours)) if ours else similarity

    return [
        replace(row, similarity=as_ours(similarities[row.message_id]))
        if row.similarity is None and row.message_id in similarities
        else row
        for row in rows
    ]
