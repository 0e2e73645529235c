"""Compares a question with messages token by token, which tells apart what one vector for a whole message blurs."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from roomlore.domain.ports import TOKEN_BYTES, TokenVectors

_DIMENSIONS = 8 * TOKEN_BYTES


def maxsim(question: TokenVectors, messages: Sequence[TokenVectors]) -> NDArray[np.float32]:
    """Return how near each message is: the cosine of its nearest token, averaged over the question's tokens.

    MaxSim of ColBERT (Khattab & Zaharia 2020), over the signs of token vectors: of two vectors at an angle a
    a share of a/π of the signs differ (Charikar 2002), which gives the angle back.

    Args:
        question: (tokens, TOKEN_BYTES)
        messages: (tokens, TOKEN_BYTES) each.

    Returns:
        (messages,), -1..1; 0 where question or message has no tokens.
    """
    near = np.zeros(len(messages), np.float32)
    lengths = np.array([len(message) for message in messages], np.intp)
    worded = lengths > 0
    if not len(question) or not worded.any():
        return near
    differing = _differing(question, np.concatenate(messages))
    starts = (np.cumsum(lengths) - lengths)[worded]
    least = np.minimum.reduceat(differing, starts, axis=1)
    near[worded] = np.cos(least * np.float32(np.pi / _DIMENSIONS)).mean(axis=0)
    return near


def _differing(question: TokenVectors, tokens: TokenVectors) -> NDArray[np.uint16]:
    """Return how many signs differ, (question tokens, tokens): whole words at a time, with no product to be shared out."""
    ours, theirs = _words(question), _words(tokens)
    return np.bitwise_count(ours[:, :, None] ^ np.ascontiguousarray(theirs.T)[None]).sum(
        axis=1, dtype=np.uint16
    )


def _words(tokens: TokenVectors) -> NDArray[np.uint64]:
    return np.ascontiguousarray(tokens).view(np.uint64)
