"""Compares a question with messages token by token, which tells apart what one vector for a whole message blurs."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from roomlore.domain.vectors import TOKEN_BYTES, TokenVectors

_DIMENSIONS = 8 * TOKEN_BYTES
#: What a token that has nothing to do with a text is usually close to it, and for how many texts that counts: of few
#: texts the mean says little.
_USUAL, _USUAL_TEXTS = 0.3, 10
#: How much less a token counts the closer it is to whatever is compared.
_DISTINCTIVENESS = 4


def max_similarity(question: TokenVectors, messages: Sequence[TokenVectors]) -> NDArray[np.float32]:
    """Return how near each message is: of every question token the cosine of the nearest message token, weighted.

    MaxSim of ColBERT (Khattab & Zaharia 2020), where every token counts alike. Here one counts less the closer it
    is to whatever is compared: the name of somebody who is in every scene tells nothing, what is close to a single
    message tells which. It is to tokens what rarity is to words. Over the signs of token vectors: of two vectors at
    an angle a a share of a/π of the signs differ (Charikar 2002), which gives the angle back.

    Args:
        question: (tokens, TOKEN_BYTES)
        messages: (tokens, TOKEN_BYTES) each; comparable with one another only.

    Returns:
        (messages,), -1..1; 0 where question or message has no tokens.
    """
    near = _nearest(question, messages)
    if not near.size:
        return np.zeros(len(messages), np.float32)
    worded = [place for place, message in enumerate(messages) if len(message)]
    usual = (near[:, worded].sum(axis=1) + _USUAL_TEXTS * _USUAL) / (len(worded) + _USUAL_TEXTS)
    weights = (1 - usual) ** _DISTINCTIVENESS
    return (weights / weights.sum() @ near).astype(np.float32)


def _nearest(question: TokenVectors, messages: Sequence[TokenVectors]) -> NDArray[np.float32]:
    """Return the cosine of each message's nearest token to each of the question's, (question tokens, messages)."""
    near = np.zeros((len(question), len(messages)), np.float32)
    lengths = np.array([len(message) for message in messages], np.intp)
    worded = lengths > 0
    if not len(question) or not worded.any():
        return near
    differing = _hamming_distances(question, np.concatenate(messages))
    starts = (np.cumsum(lengths) - lengths)[worded]
    least = np.minimum.reduceat(differing, starts, axis=1)
    near[:, worded] = np.cos(least * np.float32(np.pi / _DIMENSIONS))
    return near


def _hamming_distances(question: TokenVectors, tokens: TokenVectors) -> NDArray[np.uint16]:
    """Return how many signs differ, (question tokens, tokens): whole words at a time, with no product to be shared out."""
    ours, theirs = _as_words(question), _as_words(tokens)
    return np.bitwise_count(ours[:, :, None] ^ np.ascontiguousarray(theirs.T)[None]).sum(
        axis=1, dtype=np.uint16
    )


def _as_words(tokens: TokenVectors) -> NDArray[np.uint64]:
    return np.ascontiguousarray(tokens).view(np.uint64)
