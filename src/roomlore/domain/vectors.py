"""The types of vectors. Only type checkers load numpy here, so commands that need no vector start without numpy."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: The vector of a token is stored as the signs of 384 dimensions, eight in a byte.
TOKEN_BYTES = 48
if TYPE_CHECKING:
    #: Rows are texts, columns are dimensions. The values are float32, and each row has length one.
    Vectors = NDArray[np.float32]
    #: The vector of one text, in float32, of length one.
    Vector = NDArray[np.float32]
    #: Rows are the tokens of one text in order, columns are TOKEN_BYTES bytes of bits (int8). A set bit stands for a
    #: positive number.
    TokenVectors = NDArray[np.int8]
else:
    Vectors = Vector = TokenVectors = Any
