"""The types of vectors. Only type checkers load numpy here: commands that need no vector start without it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: A token's vector is kept as the signs of 384 dimensions, eight in a byte.
TOKEN_BYTES = 48
if TYPE_CHECKING:
    #: Rows are texts, columns dimensions; float32, each row of length one.
    Vectors = NDArray[np.float32]
    #: The vector of one text; float32, of length one.
    Vector = NDArray[np.float32]
    #: Rows are the tokens of one text in order, columns TOKEN_BYTES; int8 of bits, a set bit for a positive number.
    TokenVectors = NDArray[np.int8]
else:
    Vectors = Vector = TokenVectors = Any
