"""Philox 4x32-10: random bits as a function of a key and a counter.

J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.  A counter
of four words of 32 bits goes through ten rounds of two multiplications; no state is kept, so any element of a tensor
can be drawn anywhere, in any order, and again.

Element n of a tensor, in row-major order, is word n % 4 of the block with the counter (n // 4, stream): the lower and
the upper half of n // 4, the number of the stream, and 0.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]

MULTIPLIERS: Final = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS: Final = (0x9E3779B9, 0xBB67AE85)
"""What is added to the two words of the key before each round but the first."""
ROUNDS: Final = 10
WORDS: Final = 4
"""Words of a block."""


def philox(counter: Sequence[Words], key: Sequence[Words]) -> tuple[Words, Words, Words, Words]:
    """Return the four words of the blocks with these counters, of four words, under keys of two."""
    c0, c1, c2, c3 = (np.asarray(word, np.uint32) for word in counter)
    k0, k1 = (int(word) for word in key)
    for _ in range(ROUNDS):
        high0, low0 = _product(c0, MULTIPLIERS[0])
        high1, low1 = _product(c2, MULTIPLIERS[1])
        c0, c1, c2, c3 = high1 ^ c1 ^ np.uint32(k0), low1, high0 ^ c3 ^ np.uint32(k1), low0
        k0, k1 = ((k + step) & 0xFFFFFFFF for k, step in zip((k0, k1), KEY_STEPS, strict=True))
    return c0, c1, c2, c3


def _product(word: Words, multiplier: int) -> tuple[Words, Words]:
    whole = word.astype(np.uint64) * np.uint64(multiplier)
    return (whole >> np.uint64(32)).astype(np.uint32), whole.astype(np.uint32)


def random_bits(key: Words, count: int, stream: int) -> Words:
    """Return the first `count` elements of a stream."""
    blocks = np.arange(-(-count // WORDS), dtype=np.uint64)
    zero = np.zeros(len(blocks), np.uint32)
    low, high = blocks.astype(np.uint32), (blocks >> np.uint64(32)).astype(np.uint32)
    words = philox((low, high, zero + np.uint32(stream), zero), (key[0], key[1]))
    return np.stack(words, axis=1).reshape(-1)[:count]
